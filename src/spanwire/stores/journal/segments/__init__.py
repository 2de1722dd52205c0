"""The files of a journal: records in segments, and the disk as the journal sees it. Pure.

- A *trait* is a priority or expiration that differs from the default.
- A *transfer* moves messages to another destination without rewriting them.
- A *patch* replaces bytes of a file in a view of the repaired store.
"""
