"""Demand of a remote broker's consumers, as subscriptions of a bridge at the local broker. Pure.

- A *demand subscription* serves one or more remote consumers; a *conduit* serves all consumers of a destination.
- A *standing* subscription serves a destination even without consumers.
- *Duplicate suppression* takes the best of several routes to a consumer.
"""
