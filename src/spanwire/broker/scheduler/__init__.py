"""Scheduled delivery (ActiveMQ, "Delay and Schedule Message Delivery"). Pure."""
