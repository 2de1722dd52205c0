"""The start of a journal: rebuilds the index from segments and their summaries. Pure.

- A *summary* has the records of a sealed segment without the messages, in a small file.
- A *check-point* is the state at the start of a segment, for records that build on deleted segments.
- The *replay* applies records to the index in the order of writing.
"""
