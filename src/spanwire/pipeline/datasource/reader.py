"""Batch reader: browses the queue, or drains it into a staging directory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spanwire.pipeline.datasource.partitions import StagedRows, staged_partitions
from spanwire.pipeline.link.broker_link import browse, consume
from spanwire.pipeline.options import BROWSE, ReadOptions, read_options, staging_directory
from spanwire.pipeline.source.cursor_source import record_batches
from spanwire.pipeline.source.staging import Staging
from spanwire.pipeline.storage.staged_segments import staged_rows


class SpanwireReader(DataSourceReader):
    """Browses in a task, or drains in the planning process and reads segments in tasks.

    Drained messages stay in the staging directory, and every read returns them again, until the user deletes the
    directory: only the user knows whether they are stored elsewhere.
    """

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for a browser, or the ranges of the drained segments."""
        options = read_options(self._option_map)
        if options.mode == BROWSE:
            return [InputPartition(None)]
        staging = Staging(options, lambda: consume(options), time.monotonic)
        try:
            staging.drain()
            numbers = staging.numbers()
        finally:
            staging.close()
        return staged_partitions(staging_directory(options), numbers, options.partitions) or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition."""
        options = read_options(self._option_map)
        if isinstance(partition, StagedRows):
            return staged_rows(partition.directory, partition.segment, partition.first, partition.count)
        return browse_rows(options) if options.mode == BROWSE else iter(())


def browse_rows(options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield all messages of the queue in order, without removing them."""
    return record_batches(options, browse(options))
