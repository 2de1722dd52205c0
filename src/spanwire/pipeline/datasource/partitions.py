"""Ranges of staged rows, one for each task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import InputPartition

from spanwire.pipeline.arrow.segments import row_count

MIN_PARTITION_ROWS: Final = 1000  # fewer are not worth a task of their own


@dataclass(frozen=True)
class StagedRows(InputPartition):
    """Rows of one segment; plain values, for Spark pickles it."""

    directory: str
    segment: int
    first: int
    count: int


def staged_partitions(directory: str, segments: list[int], wanted: int) -> list[InputPartition]:
    """The segments cut into about ``wanted`` ranges each, the same whenever it is asked.

    Raises `ConfigurationError` when a segment is not there.
    """
    partitions: list[InputPartition] = []
    for segment in segments:
        rows = row_count(Path(directory), segment)
        size = max(MIN_PARTITION_ROWS, -(-rows // wanted))
        for first in range(0, rows, size):
            partitions.append(StagedRows(directory, segment, first, min(size, rows - first)))
    return partitions
