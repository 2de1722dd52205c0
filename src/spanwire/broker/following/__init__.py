"""Follows single messages through one broker while an operator watches (``spanwire trace``).

- A *mark* says which messages of a destination are followed, for how long and how many.
- An *observation* is one step of a marked message: it came, was stored, dispatched, acknowledged, dead-lettered.
- A *tap* stands between a subscription and its consumer, and shows dispatches.

While no mark is active nothing of this is loaded, and no destination or consumer has anything in front of it.
"""
