"""Moves live records out of mostly dead segments. Pure.

- A *candidate* is a record that may be worth moving; it is *live* while the index refers to it.
- The *victim* is the segment being compacted.
"""
