"""The journal's files and threads, which drive `spanwire.stores.journal`; compiled, because every batch passes here.

- The *writer* thread writes and syncs batches; the *reader* thread reads messages and blocks of old segments.
- The *journal store* is both, their disk and the turn of the event loop.
"""
