"""Dispatch by selectors and message groups: the consumers that want a pending message.

Pure.

- A *scan* evaluates selectors along the pending list, from a consumer's scan position, in slices.
- A *shared scan* evaluates once for all consumers at one position, which form a *scan group*.
- The *selector index* finds the consumers whose selectors a new message may match, by the value of one property.
- A *rescan* offers the messages of a group again after the group lost its owner.
"""
