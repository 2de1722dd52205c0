"""The journal's files and threads, the drivers of `spanwire.stores.journal`.

Compiled, because every batch passes through this package.

- The *writer* thread writes and syncs batches; the *reader* thread reads messages and blocks of old segments.
- The *journal store* is both, their disk and the turn of the event loop.
"""
