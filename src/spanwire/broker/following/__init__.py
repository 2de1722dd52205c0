"""Follows single messages through one broker while an operator watches (``spanwire trace``).

- A *mark* names the followed messages of a destination, for how long and how many.
- An *observation* is one step of a marked message: arrival, stored, dispatched, acknowledged, dead-lettered.
- A *tap* stands between a subscription and its consumer, and shows dispatches.

Without an active mark the package is not loaded, and destinations and consumers have no observers or taps.
"""
