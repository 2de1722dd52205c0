"""Ranges of staged rows, one for each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from spanwire.pipeline.storage.staged_segments import count_rows

MIN_PARTITION_ROWS: Final = 1000  # rows; fewer are not worth a task


@dataclass(frozen=True)
class StagedRows(InputPartition):
    """Rows of one segment; plain values, because Spark pickles them."""

    directory: str
    segment: str
    first: int
    count: int


def staged_partitions(directory: str, segments: list[int], wanted: int) -> list[InputPartition]:
    """Cut each segment into about ``wanted`` ranges; the same arguments return the same ranges.

    Raises:
        ConfigurationError: a segment does not exist.
    """
    partitions: list[InputPartition] = []
    for segment, rows in count_rows(directory, segments):
        size = max(MIN_PARTITION_ROWS, -(-rows // wanted))
        for first in range(0, rows, size):
            partitions.append(StagedRows(directory, segment, first, min(size, rows - first)))
    return partitions
