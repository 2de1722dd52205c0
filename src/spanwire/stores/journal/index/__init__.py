"""The index of stored messages in memory, and the segments still in use. Pure.

The *index* has the place of each stored message and fact. *Cleanup* finds segments without live records.
"""
