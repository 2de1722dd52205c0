"""Several sources of one query: each source works in a thread, and a batch takes the ready rows.

A source with an unreachable broker is tried again, with pauses, while the others go on. The query ends in an error when
every broker is away for longer than `MAX_OUTAGE_S`, or no broker could be reached at the start. A query to the end
(``availableNow``) may not leave a source out, so such a query ends in an error when one broker is away for so long.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from spanwire.model.errors import JmsError
from spanwire.pipeline.source.batch_plan import BatchPlan
from spanwire.pipeline.source.retry_window import MAX_OUTAGE_S, PAUSE_S, RetryWindow
from spanwire.pipeline.source.source_link import SourceLink

MAX_SOURCES: Final = 256  # sources of one query; each costs a thread and a connection
MAX_PAUSE_S: Final = 10.0  # seconds between two attempts at a broker that is away
BEGIN_WAIT_S: Final = 10.0  # seconds; a source that takes longer joins later
WAIT_S: Final = 0.2  # seconds until an empty answer, so that Spark can stop the query
GATHER_S: Final = 0.02  # seconds for further sources when one is ready
CLOSE_WAIT_S: Final = 15.0  # seconds; a thread receives or connects for so long

logger = logging.getLogger(__name__)


def start_thread(work: Callable[[], None]) -> None:
    """Do the work in a thread."""
    threading.Thread(target=work, name="spanwire-source", daemon=True).start()


class _Lane:
    """One source with the result of the last step; changed under the lock of the group."""

    def __init__(self, name: str, link: SourceLink) -> None:
        self.name: Final[str] = name
        self.link: Final[SourceLink] = link
        self.is_busy = False
        self.first: int | None = None
        self.end = -1  # of the batch that is ready
        self.rows = 0
        self.lag = 0
        self.error: JmsError | None = None
        self.attempts = 0
        self.away_since = 0.0
        self.due = 0.0


class SourceGroup:
    """The sources of a query. Call all methods from one thread."""

    def __init__(
        self,
        clock: Callable[[], float],
        spawn: Callable[[Callable[[], None]], None] = start_thread,
        wait_s: float = WAIT_S,
    ) -> None:
        """Create a group without sources.

        Args:
            clock: monotonic seconds.
            spawn: runs the work of one source beside the work of the others.
            wait_s: seconds until an empty answer.
        """
        self._clock: Final[Callable[[], float]] = clock
        self._spawn: Final[Callable[[Callable[[], None]], None]] = spawn
        self._wait_s: Final[float] = wait_s
        self._changed: Final = threading.Condition()
        self._lanes: Final[dict[str, _Lane]] = {}
        self._plan: Final[BatchPlan] = BatchPlan()
        self._window: Final[RetryWindow] = RetryWindow(clock)
        self._fault: Exception | None = None
        self._is_bounded = False
        self._is_closed = False

    def add(self, name: str, link: SourceLink) -> bool:
        """Add a source, or replace the source with the name. Return False if there are `MAX_SOURCES`."""
        with self._changed:
            if len(self._lanes) >= MAX_SOURCES and name not in self._lanes:
                return False
            if self._is_bounded:
                link.stop_at_current_end()
            self._lanes[name] = _Lane(name, link)
            return True

    def link(self, name: str) -> SourceLink | None:
        """Return the source with a name, or None."""
        lane = self._lanes.get(name)
        return None if lane is None else lane.link

    def begin(self) -> dict[str, int]:
        """Return the first numbers of the sources that answer soon, by name; the others join later.

        Raises:
            JmsError: no broker can be reached.
            ConfigurationError: the query cannot go on.
        """
        with self._changed:
            for lane in self._lanes.values():
                self._start(lane, {}, 0)
            self._changed.wait_for(lambda: not self._is_busy() or self._fault is not None, BEGIN_WAIT_S)
            self._check()
            return {lane.name: lane.first for lane in self._lanes.values() if lane.first is not None}

    def next_end(self, start: Mapping[str, int], max_rows: int) -> dict[str, int]:
        """Give up all rows up to ``start``, and return the end of the next batch.

        Returns:
            The numbers by source name; ``start`` if no source has a row.

        Raises:
            JmsError: brokers have been away for too long.
            ConfigurationError: the query cannot go on.
        """
        while True:
            with self._changed:
                for lane in self._lanes.values():
                    self._start(lane, start, max_rows)
                self._changed.wait_for(lambda: self._has_answer(start), self._wait_s)
                if self._has_answer(start):
                    self._changed.wait_for(lambda: not self._is_busy(), GATHER_S)
                self._check()
                end = self._next(start, max_rows)
                if end != start:
                    self._read_ahead(start, end, max_rows)
                    return end
                if not self._is_bounded or self._is_over(start):
                    return end

    def stop_at_current_end(self) -> None:
        """Limit all sources to the messages sent so far."""
        with self._changed:
            self._is_bounded = True
            for lane in self._lanes.values():
                lane.link.stop_at_current_end()

    def lags(self) -> dict[str, int]:
        """Return the lag of each source, by name; see `SourceLink.lag`."""
        return {lane.name: lane.lag for lane in list(self._lanes.values())}

    def away(self) -> dict[str, str]:
        """Return the errors of the sources with an unreachable broker, by name."""
        return {lane.name: str(lane.error) for lane in list(self._lanes.values()) if lane.error is not None}

    def close(self) -> None:
        """Close all sources. A thread at work closes the source afterwards."""
        with self._changed:
            self._is_closed = True
            for lane in self._lanes.values():
                if not lane.is_busy:
                    lane.link.close()
            self._changed.wait_for(lambda: not self._is_busy(), CLOSE_WAIT_S)

    def _start(self, lane: _Lane, start: Mapping[str, int], max_rows: int) -> None:
        """Begin the next step of an idle source."""
        if lane.is_busy or lane.link.is_drained or self._clock() < lane.due:
            return
        number = start.get(lane.name)
        if number is None:
            if lane.first is None:
                self._work(lane, lambda: self._find_first(lane))
        elif lane.end <= number:
            self._work(lane, lambda: self._find_end(lane, number, max_rows))

    def _find_first(self, lane: _Lane) -> None:
        lane.first = lane.link.begin()

    def _find_end(self, lane: _Lane, start: int, max_rows: int) -> None:
        end = lane.link.next_end(start, max_rows)
        if end > start:
            lane.rows = lane.link.rows(start, end)
        lane.end = end
        lane.lag = lane.link.lag()
        self._window.on_success()

    def _work(self, lane: _Lane, step: Callable[[], None]) -> None:
        lane.is_busy = True

        def work() -> None:
            failure: Exception | None = None
            try:
                step()
            except Exception as error:  # noqa: BLE001 - `next_end` raises every failure
                failure = error
            with self._changed:
                lane.is_busy = False
                self._note(lane, failure)
                if self._is_closed:
                    lane.link.close()
                self._changed.notify_all()

        self._spawn(work)

    def _note(self, lane: _Lane, failure: Exception | None) -> None:
        if failure is None:
            if lane.error is not None:
                logger.warning("%s is back", lane.name)
            lane.error, lane.attempts = None, 0
        elif isinstance(failure, JmsError):
            now = self._clock()
            if lane.error is None:
                logger.warning("%s is away: %s", lane.name, failure)
                lane.away_since = now
            lane.error = failure
            lane.due = now + min(MAX_PAUSE_S, PAUSE_S * 2**lane.attempts)
            lane.attempts += 1
            lane.link.disconnect()
        elif self._fault is None:
            self._fault = failure

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault
        open_lanes = [lane for lane in self._lanes.values() if not lane.link.is_drained]
        errors = [lane.error for lane in open_lanes if lane.error is not None]
        if errors and len(errors) == len(open_lanes):
            self._window.on_failure(errors[0])
        if self._is_bounded:
            for lane in self._lanes.values():
                if lane.error is not None and self._clock() - lane.away_since > MAX_OUTAGE_S:
                    raise JmsError(f"{lane.name} is away, so its messages are left: {lane.error}")

    def _next(self, start: Mapping[str, int], max_rows: int) -> dict[str, int]:
        end = dict(start)
        ready: dict[str, int] = {}
        for lane in self._lanes.values():
            if lane.name not in start:
                if lane.first is not None:
                    end[lane.name] = lane.first
            elif not lane.is_busy and lane.end > start[lane.name]:
                ready[lane.name] = lane.rows
        for name in self._plan.choose(ready, max_rows):
            end[name] = self._lanes[name].end
        return end

    def _read_ahead(self, start: Mapping[str, int], end: Mapping[str, int], max_rows: int) -> None:
        for lane in self._lanes.values():
            if lane.name in start and end[lane.name] > start[lane.name]:
                self._work_ahead(lane, end[lane.name], max_rows)

    def _work_ahead(self, lane: _Lane, end: int, max_rows: int) -> None:
        self._work(lane, lambda: lane.link.read_ahead(end, max_rows))

    def _is_busy(self) -> bool:
        return any(lane.is_busy for lane in self._lanes.values())

    def _has_answer(self, start: Mapping[str, int]) -> bool:
        """Return True if a batch can be made, or an error must be raised."""
        if self._fault is not None:
            return True
        return any(
            not lane.is_busy and (lane.first is not None if lane.name not in start else lane.end > start[lane.name])
            for lane in self._lanes.values()
        )

    def _is_over(self, start: Mapping[str, int]) -> bool:
        """Return True if no source will have further rows in this run."""
        return all(
            lane.link.is_drained and not lane.is_busy and lane.end <= start.get(lane.name, lane.end)
            for lane in self._lanes.values()
        )
