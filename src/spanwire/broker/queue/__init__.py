"""Queues: each message goes to one consumer and stays until it is acknowledged. Pure.

- The *pending list* holds the messages that wait for a consumer; its *pages* are in memory, or paged out to sequences.
- A consumer with a selector keeps a *scan position*; consumers at one position share a *scan*.
- A *queue task* is long work on the pending list, done in slices: expiry, purge, removal.
"""
