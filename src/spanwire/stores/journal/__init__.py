"""The journal: records, segments, index, recovery. Pure over a Disk port; threads live beside it."""
