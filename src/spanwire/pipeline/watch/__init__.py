"""Watches running pipelines: one model of the status for commands, metrics and brokers.

- A *status* is a frozen view of a program and its routes at one time.
- The *board* makes a status from the events of routes and Spark's progress. The time is an argument.
- A *publisher* tells brokers the status over the control destination.
- A *problem* is a reason to alert an operator: a failed route, a large lag, a program that no longer publishes.
"""
