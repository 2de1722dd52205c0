"""Scheduled delivery (ActiveMQ, "Delay and Schedule Message Delivery"). Pure.

- A *job* is one scheduled message with its next time. The *schedule* has the jobs of a broker in order of time.
- A *cron entry* names times as crontab(5) does. A *series* is the repeated delivery of one message.
- A *redelivery* is a job that returns a failed message to its destination.
- A *scheduler request* browses or removes jobs.
"""
