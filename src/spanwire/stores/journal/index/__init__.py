"""The index of stored messages in memory, and the segments still in use. Pure.

The *index* has the place of each stored message and metadata record. *Cleanup* finds segments without live records.
"""
