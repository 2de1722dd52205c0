"""Stream reader of a cursor: the driver reserves sequences, each task reads its range from the broker.

Spark calls `latestOffset` with the end of a batch only after it has committed that batch, so `latestOffset`
acknowledges messages. Spark's asynchronous progress tracking does not keep this order and is not supported.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spanwire.model.errors import AuthenticationError, AuthorizationError, ConfigurationError, JmsError
from spanwire.pipeline.datasource.partitions import MIN_PARTITION_ROWS
from spanwire.pipeline.link.control_answers import FencedError, NotHeldError
from spanwire.pipeline.link.control_link import ControlLink
from spanwire.pipeline.options import ReadOptions, read_options
from spanwire.pipeline.source.cursor_source import CursorSource, record_batches
from spanwire.pipeline.source.offsets import cursor_offset, number_of
from spanwire.pipeline.source.retry_window import PAUSE_S, RetryWindow
from spanwire.pipeline.spark.gc_tuning import LOADED_MODULES, RARE_COLLECTIONS

EMPTY_PAUSE_S: Final = 0.1  # seconds; before a query without trigger interval polls an empty queue again
WAITING: Final = "waiting"


@dataclass(frozen=True)
class CursorRange(InputPartition):
    """A range of sequences of a cursor; plain values, because Spark pickles them."""

    cursor: str
    epoch: int
    start: int
    end: int
    url: str = field(default="", repr=False)  # of the broker; empty for the broker of the options


class CursorStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reserves and reads messages of a cursor; copies in tasks only read ranges."""

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map
        self._options = read_options(option_map)
        assert self._options.cursor is not None
        self._cursor = self._options.cursor
        self._connection = ControlLink(self._options.login)
        self._source = CursorSource(self._options, uuid.uuid4().hex, self._connection.control)
        self._retry_window = RetryWindow(time.monotonic)
        self._is_bounded = False

    def __getstate__(self) -> dict[str, str]:
        """Return only the options, because Spark pickles readers and a connection cannot be pickled."""
        return self._option_map

    def __setstate__(self, option_map: dict[str, str]) -> None:
        CursorStreamReader.__init__(self, option_map)

    def initialOffset(self) -> dict[str, object]:
        """Return the offset of the cursor; messages still reserved are the first batch."""
        return cursor_offset(self._cursor, self._source.begin())

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        """Return the end of the batch after ``start``, or ``start`` if the queue is empty."""
        number = number_of(start, self._cursor)
        rows = min(self._options.max_rows, limit.max_rows) if isinstance(limit, ReadMaxRows) else self._options.max_rows
        while True:
            try:
                end = self._source.next_end(number, rows)
            except ConfigurationError:
                raise
            except JmsError as error:
                self._connection.close()
                self._retry_window.on_failure(error)
                time.sleep(PAUSE_S)
                if not self._is_bounded:
                    return start
                continue
            self._retry_window.on_success()
            if end == number and not self._is_bounded:
                time.sleep(EMPTY_PAUSE_S)
            return cursor_offset(self._cursor, end)

    def prepareForTriggerAvailableNow(self) -> None:
        """Limit the query to messages that are in the queue now."""
        self._source.stop_at_current_end()
        self._is_bounded = True

    def reportLatestOffset(self) -> dict[str, object]:
        """Return the end of the reservation and the number of messages behind it, for the progress report."""
        return {**cursor_offset(self._cursor, self._source.end), WAITING: self._source.waiting}

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:
        """Return the ranges of a batch."""
        first, last = number_of(start, self._cursor), number_of(end, self._cursor)
        ranges = self._source.ranges(first, last, self._options.partitions, MIN_PARTITION_ROWS)
        return [CursorRange(self._cursor, self._source.epoch, low, high) for low, high in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range, over a connection of the task."""
        assert isinstance(partition, CursorRange)
        return read_range(self._options, partition)

    def stop(self) -> None:
        """Disconnect from the broker; the reservation stays."""
        self._connection.close()


def read_range(options: ReadOptions, partition: CursorRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range; while the broker is away, wait and go on behind the last row.

    Raises:
        JmsError: the broker is away for too long.
        ConfigurationError: the range can no longer be read.
    """
    LOADED_MODULES.freeze()
    login = replace(options.login, url=partition.url) if partition.url else options.login
    window = RetryWindow(time.monotonic)
    window.on_success()  # the driver has reached the broker
    number = partition.start
    while number < partition.end:
        link = ControlLink(login)
        try:
            with RARE_COLLECTIONS:
                portions = link.control().read_portions(partition.cursor, partition.epoch, number, partition.end)
                for batch in record_batches(options, portions):
                    yield batch
                    number += batch.num_rows
                    window.on_success()
        except (FencedError, NotHeldError) as error:
            raise ConfigurationError(
                f"spanwire: the messages {number} to {partition.end} of the cursor {partition.cursor!r} can no longer "
                f"be read: another query has taken it over, or it was released ({error})"
            ) from None
        except (AuthenticationError, AuthorizationError):
            raise
        except JmsError as error:
            window.on_failure(error)
            time.sleep(PAUSE_S)
        finally:
            link.close()
