"""A pattern of queues at one broker, for cursors: a source without rows that finds further sources."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.model.destination import Destination
from spanwire.pipeline.source.source_link import SourceLink


class Queues(Protocol):
    """Tells of the queues of a broker."""

    def take(self) -> list[Destination]:
        """Return the queues announced since the last call; the first call of a connection returns all queues.

        Raises:
            JmsError: the broker is lost.
        """
        ...

    def close(self) -> None:
        """Close the connection. Raises nothing."""
        ...


class PatternLink(SourceLink):
    """Collects queues until `take_found` is called by another thread."""

    def __init__(self, queues: Queues) -> None:
        self._queues: Final[Queues] = queues
        self._found: Final[deque[Destination]] = deque()  # at most one entry for each queue of the broker
        self._is_bounded = False
        self.is_drained = False

    def take_found(self) -> list[Destination]:
        """Return the queues found since the last call."""
        found: list[Destination] = []
        while self._found:
            found.append(self._found.popleft())
        return found

    def begin(self) -> int:
        """Look for queues and return 0."""
        self._found.extend(self._queues.take())
        return 0

    def next_end(self, start: int, max_rows: int) -> int:
        """Look for queues and return ``start``."""
        is_last = self._is_bounded
        self.begin()
        self.is_drained = is_last
        return start

    def read_ahead(self, end: int, max_rows: int) -> None:
        """Do nothing."""

    def rows(self, start: int, end: int) -> int:
        """Return 0."""
        return 0

    def stop_at_current_end(self) -> None:
        """Look once more and no longer."""
        self._is_bounded = True

    def lag(self) -> int:
        """Return 0."""
        return 0

    def disconnect(self) -> None:
        """Close the connection; the next one tells of all queues again."""
        self._queues.close()

    def close(self) -> None:
        """Close the connection."""
        self._queues.close()
