"""Demand of the consumers of a remote broker, as subscriptions of a bridge at its own broker. Pure.

- A *demand subscription* stands for one or more remote consumers; a *conduit* lets one stand for all of a destination.
- *Duplicate suppression* takes the best of several routes to one consumer.
"""
