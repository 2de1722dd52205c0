"""The journal: records, segments, index, recovery.

Pure over a Disk port; threads live in `spanwire.stores.driver`.

- A *record* is one message, removal or metadata record; a *segment* is one file of records.
- The *outbox* has the records of calls not yet written. A *batch* is one write and one sync of records.
- *Compaction* writes the live records of a mostly dead segment again and deletes the segment.
- A *spare file* is filled with zeros ahead of its use.
"""
