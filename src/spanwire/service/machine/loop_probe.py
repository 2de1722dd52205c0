"""Samples the event loop: the delay of timers, and the duration of a turn.

Ten samples a second have no cost for a message, while a measurement of each turn would slow each turn.
"""

from __future__ import annotations

import asyncio
from typing import Final

from spanwire.management.histograms import JOURNAL_SYNC, LOOP_LAG, LOOP_TURN, view_of
from spanwire.model.observation.histogram import Histogram

INTERVAL_S: Final = 0.1  # seconds between two samples


class LoopProbe:
    """The histograms of one loop: ``lag`` is the delay of a timer, ``turn`` the time between two turns."""

    def __init__(self) -> None:
        self.lag: Final = Histogram()
        self.turn: Final = Histogram()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._began = 0.0

    def start(self) -> None:
        """Take samples until `stop`."""
        loop = asyncio.get_running_loop()
        self._due = loop.time() + INTERVAL_S
        self._timer = loop.call_at(self._due, self._on_timer)

    def stop(self) -> None:
        """Take no more samples; may be called twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def histograms(self, sync_times: Histogram | None) -> dict[str, object]:
        """Return the histograms of the status, with the times of the journal's syncs if there is a journal."""
        journal = {} if sync_times is None else {JOURNAL_SYNC: view_of(sync_times)}
        return {LOOP_LAG: view_of(self.lag), LOOP_TURN: view_of(self.turn), **journal}

    def _on_timer(self) -> None:
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        self.lag.add(max(0.0, self._began - self._due))
        loop.call_soon(self._on_next_turn)
        if self._timer is not None:
            self._due = self._began + INTERVAL_S
            self._timer = loop.call_at(self._due, self._on_timer)

    def _on_next_turn(self) -> None:
        self.turn.add(max(0.0, asyncio.get_running_loop().time() - self._began))
