"""Stream reader of staged batches: offsets in a process beside the driver, rows in tasks.

Spark calls `latestOffset` with the end of a batch only after it has committed that batch, and `commit` later or never,
so `latestOffset` discards segments. Spark's asynchronous progress tracking does not keep this order and is not
supported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.datasource.partitions import StagedRows, staged_partitions
from spanwire.pipeline.link.broker_link import consume
from spanwire.pipeline.options import read_options, staging_directory
from spanwire.pipeline.source.offsets import offset, segment_of, segments_between
from spanwire.pipeline.source.prefetch import SegmentPrefetch
from spanwire.pipeline.source.retry_window import PAUSE_S, RetryWindow
from spanwire.pipeline.source.staging import Staging
from spanwire.pipeline.spark.gc_tuning import LOADED_MODULES
from spanwire.pipeline.storage.staged_segments import staged_rows

BEHIND_MS: Final = "behindMs"


class SpanwireStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stages batches of a queue and names them by number; copies in tasks only read files."""

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map
        self._options = read_options(option_map)
        self._staging: Staging | None = None
        self._prefetch: SegmentPrefetch | None = None
        self._retry_window = RetryWindow(time.monotonic)
        self._last = 0
        self._behind_ms = 0
        self._end_ms: int | None = None
        self._is_drained = False

    def __getstate__(self) -> dict[str, str]:
        """Return only the options, because Spark pickles readers and a connection cannot be pickled."""
        return self._option_map

    def __setstate__(self, option_map: dict[str, str]) -> None:
        SpanwireStreamReader.__init__(self, option_map)

    def initialOffset(self) -> dict[str, int]:
        """Return the offset before all staged segments.

        So a new checkpoint loses no message of an earlier query.
        """
        numbers = self._open_staging().numbers()
        self._last = numbers[0] - 1 if numbers else 0
        return offset(self._last)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the end of the batch after ``start``, or ``start`` if the queue is empty."""
        number = segment_of(start)
        options = self._options
        rows = min(options.max_rows, limit.max_rows) if isinstance(limit, ReadMaxRows) else options.max_rows
        while not self._is_drained:
            staging = self._open_staging()
            assert self._prefetch is not None
            self._prefetch.wait()
            try:
                segment = staging.next_segment(number, rows)
            except JmsError as error:
                self._retry_window.on_failure(error)
                time.sleep(PAUSE_S)
                if self._end_ms is None:
                    break
                continue
            self._retry_window.on_success()
            self._note_received(staging)
            self._last = segment
            if segment > number and not self._is_drained:
                self._prefetch.start(segment, rows)
            return offset(segment)
        return start

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the first message sent after this call, or at an empty queue."""
        self._end_ms = time.time_ns() // 1_000_000

    def reportLatestOffset(self) -> dict[str, int]:
        """Return the last staged batch and the age of its last message at reception, for the progress report."""
        return {**offset(self._last), BEHIND_MS: self._behind_ms}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the ranges of the segment of ``end``."""
        return staged_partitions(
            staging_directory(self._options), segments_between(start, end), self._options.partitions
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range."""
        assert isinstance(partition, StagedRows)
        LOADED_MODULES.freeze()
        return staged_rows(partition.directory, partition.segment, partition.first, partition.count)

    def stop(self) -> None:
        """Close the consumer and unlock the staging directory."""
        if self._staging is not None and self._prefetch is not None:
            try:
                self._prefetch.wait()
            finally:
                self._staging.close()
                self._staging = self._prefetch = None

    def _open_staging(self) -> Staging:
        if self._staging is None:
            options = self._options
            self._staging = Staging(options, lambda: consume(options), time.monotonic)
            self._prefetch = SegmentPrefetch(self._staging)
        return self._staging

    def _note_received(self, staging: Staging) -> None:
        received = staging.take_last()
        if received is not None:
            age_ms = time.time_ns() // 1_000_000 - received.last_timestamp_ms
            self._behind_ms = 0 if received.is_empty or not received.last_timestamp_ms else max(0, age_ms)
        if self._end_ms is not None and received is not None:
            self._is_drained = received.is_empty or received.last_timestamp_ms > self._end_ms


class RefusedStreamReader(DataSourceStreamReader):
    """Raises the fault of a stream's options when Spark asks for an offset or rows."""

    def __init__(self, error: ConfigurationError) -> None:
        self._error: Final[ConfigurationError] = error

    def initialOffset(self) -> NoReturn:
        """Raise the error."""
        raise self._error

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> NoReturn:
        """Raise the error."""
        raise self._error

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> NoReturn:
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> NoReturn:
        """Raise the error."""
        raise self._error
