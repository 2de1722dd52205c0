"""The index of stored messages in memory, and the segments still in use. Pure.

The *index* has the location of each stored message and metadata record. *Cleanup* finds segments without live records.
"""
