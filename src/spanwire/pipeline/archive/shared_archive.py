"""Archives queues or subscribed topics on shared storage with PyArrow.

Neither Spark nor Hadoop takes part.

    receive → write the segment → acknowledge → write its Parquet files → discard the segment

| stopped                               | afterwards                                                              |
|---------------------------------------|-------------------------------------------------------------------------|
| before the segment is complete        | the broker delivers the messages again                                  |
| before its files are complete         | the segment is staged; the same files are written again                 |
| before the segment is discarded       | the same                                                                |

So no checkpoint is needed: a staged segment is not archived yet, and a file has the name of its segment.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Final

from spanwire.model.errors import JmsError
from spanwire.pipeline.archive.archive_query import STATE
from spanwire.pipeline.archive.parquet_files import SegmentGroups
from spanwire.pipeline.link.batch_receiver import MessageSource
from spanwire.pipeline.link.broker_link import consume
from spanwire.pipeline.options import ReadOptions, read_options
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.supervisor import RouteEvent
from spanwire.pipeline.source.retry_window import PAUSE_S, RetryWindow
from spanwire.pipeline.source.staging import Staging
from spanwire.pipeline.storage.arrow_files import open_files
from spanwire.pipeline.storage.location import child
from spanwire.pipeline.storage.ownership import stem_of_index
from spanwire.pipeline.storage.shared_files import SharedFiles
from spanwire.pipeline.storage.shared_staging import ALL_ROWS, SharedStaging, index_names, stored_rows

INTERVAL: Final = re.compile(r"(\d+) (milliseconds|seconds?|minutes?)")
UNITS_S: Final = {"milliseconds": 0.001, "second": 1.0, "seconds": 1.0, "minute": 60.0, "minutes": 60.0}
NAME: Final = "archive"


class SharedArchive:
    """Moves the messages of one source to Parquet files; belongs to one process."""

    def __init__(
        self,
        options: ReadOptions,
        connect: Callable[[], MessageSource],
        staged: SharedFiles,
        files: SharedFiles,
        tell: Callable[[RouteEvent], None],
    ) -> None:
        """Use the options of a stream reader, the files of its staging directory and the files of the archive."""
        self._options: Final[ReadOptions] = options
        self._connect: Final[Callable[[], MessageSource]] = connect
        self._staged: Final[SharedFiles] = staged
        self._files: Final[SharedFiles] = files
        self._tell: Final = tell
        self._window: Final = RetryWindow(time.monotonic)

    def run(self, trigger: str, stop: threading.Event) -> None:
        """Archive until ``stop`` is set, or all messages that are present now.

        Raises:
            SpanwireError: the broker or the storage is away for too long, or another process has taken over.
        """
        end_ms = time.time_ns() // 1_000_000 if trigger == AVAILABLE_NOW else None
        pause_s = 0.0 if end_ms is not None else seconds_of(trigger)
        staged = self._staged
        staging = Staging(self._options, self._connect, time.monotonic, lambda _, source: SharedStaging(staged, source))
        try:
            numbers = staging.numbers()
            last = numbers[0] - 1 if numbers else 0
            while not stop.is_set():
                number = self._next(staging, last, stop)
                received = staging.take_last()
                if number > last:
                    self._archive(number)
                    last = number
                if end_ms is not None and received is not None:
                    if received.is_empty or received.last_timestamp_ms > end_ms:
                        break
                elif number == last and (received is None or received.is_empty):
                    stop.wait(pause_s)
            staging.discard(last)
        finally:
            staging.close()

    def _next(self, staging: Staging, last: int, stop: threading.Event) -> int:
        try:
            number = staging.next_segment(last, self._options.max_rows)
        except JmsError as error:
            self._window.on_failure(error)
            stop.wait(PAUSE_S)
            return last
        self._window.on_success()
        return number

    def _archive(self, number: int) -> None:
        started = time.monotonic()
        (index_name,) = index_names(self._staged, [number])
        groups = SegmentGroups()
        for batch in stored_rows(self._staged, index_name, 0, ALL_ROWS):
            groups.add(batch)
        groups.write(self._files, stem_of_index(index_name).removeprefix("segment-"))
        elapsed_s = max(time.monotonic() - started, 0.001)
        self._tell(RouteEvent(NAME, f"{groups.count} rows", number, groups.count, groups.count / elapsed_s))


def open_archive(options: dict[str, str], directory: str, tell: Callable[[RouteEvent], None]) -> SharedArchive:
    """Return the archive at an address, for the ``options`` of a stream reader without stagingDirectory.

    Raises:
        ConfigurationError: an option is invalid, or PyArrow can never reach the directory.
        SharedStorageError: the file system of the directory is away.
    """
    staging_address = child(directory, f"{STATE}/staging")
    checked = read_options({**options, "stagingDirectory": staging_address})
    return SharedArchive(checked, lambda: consume(checked), open_files(staging_address), open_files(directory), tell)


def seconds_of(trigger: str) -> float:
    """Return the seconds of an interval in Spark's words, such as ``5 seconds``."""
    match = INTERVAL.fullmatch(trigger)
    return int(match[1]) * UNITS_S[match[2]] if match is not None else 1.0
