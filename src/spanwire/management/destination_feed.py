"""The answer to ``changes``: rows of the changed destinations since an earlier answer, in slices.

    → {"command": "changes", "since": null}
    ← {"ok": true, "result": [{"since": [S, 1], "complete": true, "removed": 0, "columns": […]}, ["queue://A", 3, …]]}

The first entry of the list is a header. ``since`` is for the next request. With ``complete`` a reader forgets its rows.
``removed`` names follow the header, then the rows, whose values have the order of ``columns``. A reader drops the
removed names first, because a destination may have been created again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.management.views import DESTINATION_FIELDS
from spanwire.model.errors import ConfigurationError
from spanwire.transports.base import Clock

SLICE: Final = 500  # destinations looked at in one turn; one that has changed takes 4 microseconds, interpreted
IDLE_S: Final = (
    60.0  # seconds without a reader after which what was seen is forgotten; it takes 200 bytes a destination
)


class Changes(Protocol):
    """The part of the broker used here (``broker/admin/destination_changes.py``)."""

    @property
    def revision(self) -> int:
        """The number of the last scan."""
        ...

    def begin(self) -> list[BrokerDestination]:
        """Begin a scan."""
        ...

    def is_complete(self, since: int) -> bool:
        """Return True if a reader needs all rows."""
        ...

    def scan(self, destinations: list[BrokerDestination], since: int) -> list[list[object]]:
        """Return the rows of the changed destinations."""
        ...

    def end(self, since: int) -> list[str]:
        """Return the names of removed destinations."""
        ...


class DestinationFeed:
    """Scans the destinations for readers, one reader after the other."""

    def __init__(self, make: Callable[[], Changes], clock: Clock) -> None:
        self._make: Final = make
        self._clock: Final = clock
        self._changes: Changes | None = None
        self._series = 0  # changes with what was seen, so that no reader continues another series
        self._idle: asyncio.TimerHandle | None = None
        self._lock: Final = asyncio.Lock()

    async def changes(self, arguments: Mapping[str, object]) -> Iterator[object]:
        """Return the entries of the answer to a reader with the answer ``since``, or without an answer.

        Raises:
            ConfigurationError: the argument is no value of an earlier answer
        """
        series, last = _read_since(arguments.get("since"))
        async with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            if self._changes is None:
                self._changes, self._series = self._make(), max(self._series + 1, self._clock.now().wall_ms)
            seen = self._changes
            destinations = seen.begin()
            is_complete = series != self._series or last > seen.revision or seen.is_complete(last)
            since = 0 if is_complete else last
            rows = await _scanned(seen, destinations, since)
            removed = seen.end(since)
            if not is_complete and seen.is_complete(last):  # more were removed in this scan than are kept
                is_complete, rows = True, await _scanned(seen, destinations, 0)
            if is_complete:
                removed = []
            header = {
                "since": [self._series, seen.revision], "complete": is_complete, "removed": len(removed),
                "columns": DESTINATION_FIELDS,
            }  # fmt: skip
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._forget)
        return iter([header, *removed, *rows])

    def _forget(self) -> None:
        self._changes = self._idle = None


async def _scanned(seen: Changes, destinations: list[BrokerDestination], since: int) -> list[list[object]]:
    rows: list[list[object]] = []
    for start in range(0, len(destinations), SLICE):
        rows += seen.scan(destinations[start : start + SLICE], since)
        await asyncio.sleep(0)
    return rows


def _read_since(value: object) -> tuple[int, int]:
    if value is None:
        return 0, 0
    if isinstance(value, list) and len(value) == 2 and all(type(one) is int and one >= 0 for one in value):
        return value[0], value[1]
    raise ConfigurationError("since is null, or the value of an earlier answer")
