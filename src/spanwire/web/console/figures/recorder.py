"""Records the figures of the broker, links, and busiest or opened destinations, once a second."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from spanwire.management.control_client import ControlError
from spanwire.management.tables.network_tables import LINKS
from spanwire.management.tables.view_table import broker_row, rows_of
from spanwire.web.console.figures.history import BROKER, FIGURES, LINK_FIGURES, MAX_SERIES, History
from spanwire.web.link import Snapshots

INTERVAL_S: Final = 1.0  # seconds between two records at least
MAX_INTERVAL_S: Final = 60.0  # seconds between two records at most
ROWS_PER_S: Final = 500  # rows that the broker makes for the records in a second, as for streams of events
MAX_DESTINATIONS: Final = 200  # destinations with series
CHOICE_S: Final = 60.0  # seconds after which the busiest destinations are chosen again
OPENED_S: Final = 3_600.0  # seconds that a destination keeps its series after its page was last opened
LINK_PREFIX: Final = "link "
COMMANDS: Final = ("summary", "destinations")

logger = logging.getLogger(__name__)
Row = Mapping[str, object]
Pause = Callable[[float], Awaitable[None]]


class Recorder:
    """Records a broker's figures. The history is empty after a restart of the web process."""

    def __init__(self, snapshots: Snapshots, now: Callable[[], float] = time.time) -> None:
        """Record answers of ``snapshots``; ``now`` is in seconds since 1970."""
        self.history: Final = History()
        self.now: Final = now
        self.began: Final = now()
        self.snapshots: Final = snapshots
        self._opened: Final[dict[str, float]] = {}
        self._chosen: set[str] = set()
        self._counts: dict[str, float] = {}
        self._chosen_at = -CHOICE_S

    async def run(self, pause: Pause = asyncio.sleep) -> None:
        """Record until the task is cancelled. A broker without an answer leaves a gap."""
        while True:
            rows = 0
            try:
                await self.record()
                rows = sum(self.snapshots.cost(command) for command in COMMANDS)
            except ControlError:
                pass
            except Exception:
                logger.exception("the figures of the console were not recorded")
            await pause(min(MAX_INTERVAL_S, max(INTERVAL_S, rows / ROWS_PER_S)))

    async def record(self) -> None:
        """Record the present figures. Raises `ControlError`."""
        status, answer = [await self.snapshots.answer(command) for command in COMMANDS]
        if not isinstance(status, dict) or not isinstance(answer, list):
            return
        now = self.now()
        destinations = {str(row.get("destination")): row for row in answer}
        if now - self._chosen_at >= CHOICE_S or now < self._chosen_at:
            self._choose(destinations, now)
        broker, totals = broker_row(status), self._totals(answer)
        totals[FIGURES.index("consumers")] = _figure(broker, "connections")
        self.history.record(BROKER, now, totals)
        for link in rows_of(LINKS, status):
            self.history.record(link_name(link), now, [_figure(link, name) for name in LINK_FIGURES])
        for name in self._chosen:
            row = destinations.get(name)
            if row is not None:
                self.history.record(name, now, [_figure(row, figure) for figure in FIGURES])

    def open(self, name: str) -> None:
        """Record a destination from now on, because of an open page."""
        self._opened.pop(name, None)
        while len(self._opened) >= MAX_DESTINATIONS:
            del self._opened[next(iter(self._opened))]
        self._opened[name] = self.now()
        if len(self._chosen) < MAX_DESTINATIONS:
            self._chosen.add(name)

    def rate(self, name: str, figure: str) -> float | None:
        """Return the present rate of a counter of a destination, or of the broker."""
        return self.history.rate(name, FIGURES.index(figure), self.now())

    def _choose(self, destinations: Mapping[str, Row], now: float) -> None:
        """Choose the destinations with series: opened destinations, then the busiest."""
        counts = {
            name: _figure(row, "enqueued") + _figure(row, "dequeued") for name, row in destinations.items()
        }  # fmt: skip
        opened = [name for name, at in reversed(self._opened.items()) if now - at < OPENED_S and name in destinations]
        busiest = sorted(
            counts,
            key=lambda name: (
                counts[name] - self._counts.get(name, 0),
                name in self._chosen,
                _figure(destinations[name], "pending"),
            ),
            reverse=True,
        )
        self._chosen = set(list(dict.fromkeys([*opened, *busiest]))[:MAX_DESTINATIONS])
        self._counts, self._chosen_at = counts, now
        others = [name for name in self.history.names() if name == BROKER or name.startswith(LINK_PREFIX)]
        self.history.keep([*self._chosen, *others[: MAX_SERIES - MAX_DESTINATIONS]])

    @staticmethod
    def _totals(rows: Sequence[Row]) -> list[float]:
        return [sum(_figure(row, name) for row in rows) for name in FIGURES]


def link_name(link: Row) -> str:
    """Return the name of a link's series."""
    return f"{LINK_PREFIX}{link.get('name')} {link.get('uri')}"


def _figure(row: Row, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
