"""One of several sources of a query, with batches in a staging directory or under a cursor."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from spanwire.pipeline.link.batch_receiver import MessageSource
from spanwire.pipeline.link.broker_link import consume
from spanwire.pipeline.options import ReadOptions, staging_directory
from spanwire.pipeline.source.cursor_source import CursorControl, CursorSource
from spanwire.pipeline.source.staging import Staging
from spanwire.pipeline.storage.staged_segments import count_rows, open_segments


class SourceLink(Protocol):
    """A source with its broker; belongs to one thread at a time.

    Calls raise `JmsError` while the broker is away, and may be repeated after `disconnect`. Calls raise
    `ConfigurationError` if the query cannot go on.
    """

    is_drained: bool  # no further rows will come in this run

    def begin(self) -> int:
        """Return the number before the first uncommitted row."""
        ...

    def next_end(self, start: int, max_rows: int) -> int:
        """Give up all rows up to ``start``, committed by Spark, and return the end of the next batch.

        Returns:
            ``start`` if there is no row.
        """
        ...

    def read_ahead(self, end: int, max_rows: int) -> None:
        """Receive the batch after ``end`` while Spark works, without giving up rows."""
        ...

    def rows(self, start: int, end: int) -> int:
        """Return the number of rows of a batch."""
        ...

    def stop_at_current_end(self) -> None:
        """Limit the source to the messages sent so far. Does not use the broker."""
        ...

    def lag(self) -> int:
        """Return the lag of the source, in the unit of the class."""
        ...

    def disconnect(self) -> None:
        """Close the connection after an error, without raising. The next call opens a new connection."""
        ...

    def close(self) -> None:
        """End the use, without raising."""
        ...


class StagedLink(SourceLink):
    """A source with batches in a staging directory; the lag is the last message's age in ms."""

    def __init__(
        self,
        options: ReadOptions,
        connect: Callable[[ReadOptions], MessageSource] = consume,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Create a source. The first request opens the directory."""
        self._options: Final[ReadOptions] = options
        self._connect: Final[Callable[[ReadOptions], MessageSource]] = connect
        self._wall_ms: Final[Callable[[], int]] = wall_ms
        self._staging: Staging | None = None
        self._end_ms: int | None = None
        self._lag_ms = 0
        self.is_drained = False

    def begin(self) -> int:
        """Return the number before the first staged segment, so that a new checkpoint loses no segment."""
        numbers = self._open().numbers()
        return numbers[0] - 1 if numbers else 0

    def next_end(self, start: int, max_rows: int) -> int:
        """Discard segments up to ``start``, and return the number of the next segment."""
        staging = self._open()
        if self.is_drained:
            staging.discard(start)
            return start
        end = staging.next_segment(start, max_rows)
        received = staging.take_last()
        if received is not None:
            age_ms = self._wall_ms() - received.last_timestamp_ms
            self._lag_ms = 0 if received.is_empty or not received.last_timestamp_ms else max(0, age_ms)
            if self._end_ms is not None:
                self.is_drained = received.is_empty or received.last_timestamp_ms > self._end_ms
        return end

    def read_ahead(self, end: int, max_rows: int) -> None:
        """Stage the segment after ``end``."""
        if not self.is_drained:
            self._open().stage_after(end, max_rows)

    def rows(self, start: int, end: int) -> int:
        """Return the rows of the segment ``end``."""
        return sum(rows for _, rows in count_rows(staging_directory(self._options), [end]))

    def stop_at_current_end(self) -> None:
        """Stop at the first message sent after the call, or at an empty queue."""
        self._end_ms = self._wall_ms()

    def lag(self) -> int:
        """Return the age of the last message at the receipt, in milliseconds."""
        return self._lag_ms

    def disconnect(self) -> None:
        """Do nothing: the staging has closed the connection."""

    def close(self) -> None:
        """Close the consumer and unlock the directory."""
        staging, self._staging = self._staging, None
        if staging is not None:
            staging.close()

    def _open(self) -> Staging:
        if self._staging is None:
            self._staging = Staging(self._options, lambda: self._connect(self._options), time.monotonic)
        return self._staging


class LeftLink(SourceLink):
    """Staged batches of a source no longer in the query: reads the batches, and receives no messages."""

    def __init__(self, directory: str) -> None:
        """Open the directory of the source.

        Raises:
            ConfigurationError: the directory cannot be used.
        """
        self._directory: Final[str] = directory
        self._segments: Final = open_segments(directory, {})
        self.is_drained = not self._segments.numbers()

    def begin(self) -> int:
        """Return the number before the first segment."""
        return min(self._segments.numbers(), default=1) - 1

    def next_end(self, start: int, max_rows: int) -> int:
        """Discard confirmed segments up to ``start``, and return the number of the next segment."""
        for number in self._segments.numbers():
            if number > start:
                return number
            if self._segments.is_settled(number):
                self._segments.check_owner()
                self._segments.discard(number)
        self.is_drained = True
        return start

    def read_ahead(self, end: int, max_rows: int) -> None:
        """Do nothing."""

    def rows(self, start: int, end: int) -> int:
        """Return the rows of the segment ``end``."""
        return sum(rows for _, rows in count_rows(self._directory, [end]))

    def stop_at_current_end(self) -> None:
        """Do nothing: the source receives no messages."""

    def lag(self) -> int:
        """Return 0."""
        return 0

    def disconnect(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Unlock the directory."""
        self._segments.close()


class CursorConnection(Protocol):
    """Opens a `CursorControl`, and closes the control after an error."""

    def control(self) -> CursorControl:
        """Return the open control client, over a new connection if necessary."""
        ...

    def close(self) -> None:
        """Close the connection, without raising."""
        ...


class CursorLink(SourceLink):
    """A source with batches at the broker under a cursor; the lag is the number of waiting messages."""

    def __init__(self, options: ReadOptions, run: str, connection: CursorConnection) -> None:
        """Create a source. The first request opens the cursor."""
        self._connection: Final[CursorConnection] = connection
        self.cursor: Final[CursorSource] = CursorSource(options, run, connection.control)
        self._is_bounded = self._has_end = False
        self.is_drained = False

    def begin(self) -> int:
        """Return the sequence of the first unacknowledged message."""
        return self.cursor.begin()

    def next_end(self, start: int, max_rows: int) -> int:
        """Acknowledge all messages below ``start`` and return the end of the next reservation."""
        if self._is_bounded and not self._has_end:
            self.cursor.stop_at_current_end()
            self._has_end = True
        end = self.cursor.next_end(start, max_rows)
        self.is_drained = self._is_bounded and end == start
        return end

    def read_ahead(self, end: int, max_rows: int) -> None:
        """Do nothing: the broker has the messages."""

    def rows(self, start: int, end: int) -> int:
        """Return the number of sequences."""
        return end - start

    def stop_at_current_end(self) -> None:
        """Limit the source to the messages in the queue at the next call."""
        self._is_bounded = True

    def lag(self) -> int:
        """Return the number of messages waiting behind the reservation."""
        return self.cursor.waiting

    def disconnect(self) -> None:
        """Close the connection; the reservation stays."""
        self._connection.close()

    def close(self) -> None:
        """Close the connection; the reservation stays."""
        self._connection.close()
