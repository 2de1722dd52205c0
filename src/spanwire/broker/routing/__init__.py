"""Handling of sends, acknowledgements, consumers and producers. Pure.

The broker checks a send, lets the send wait for room (*flow control*), stores and dispatches the message. A message
without a possible consumer goes to a *dead letter* queue, at once or, while the disk is full, later.
"""
