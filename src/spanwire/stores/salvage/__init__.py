"""Salvage of a damaged store: finds the undamaged records and plans the repair. Pure.

- A *finding* is one fault of a file. A *region* is a range of bytes with batches.
- A *gap* lies between two good records; a *hole* is a range of bytes without a record.
"""
