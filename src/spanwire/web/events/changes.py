"""Reads the views of the listeners, once for all streams, and sends each listener the changes.

A round is one request to the broker for each view, however many listeners there are. The pause behind a round grows
with the number of rows from the broker, so the broker spends at most one percent of a core on all streams together.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from spanwire.management.control_client import ControlError
from spanwire.management.tables.attributes import ViewTable
from spanwire.web.api import view_rows
from spanwire.web.calls import Call
from spanwire.web.events.differences import Change, Differences, Row
from spanwire.web.events.listener import OPEN, PACE, UNREACHABLE, Listener, event_of
from spanwire.web.problems import ProblemError

MAX_LISTENERS: Final = 500  # streams; the port has 1,000 connections, so others still get answers
MAX_ROWS: Final = 500  # rows of a view in one event, about 200 KB; after more changes a list is loaded again
INTERVAL_S: Final = 1.0  # seconds between two rounds at least
MAX_INTERVAL_S: Final = 60.0  # seconds between two rounds at most
ROWS_PER_S: Final = 500  # rows that the broker shows a second; a row takes about 20 microseconds
SLOW_S: Final = 1.5  # seconds between two rounds; longer ones are told, as a page may then be five seconds old
RENEWAL_S: Final = 55.0  # seconds after which a listener's login is checked again; a handle ends after 60
DESTINATION: Final = "destination"

logger = logging.getLogger(__name__)
Pause = Callable[[float], Awaitable[None]]


class Changes:
    """The rounds and listeners of one web process. Rounds go on while there is a listener."""

    def __init__(self, now: Callable[[], float] = time.monotonic, pause: Pause = asyncio.sleep) -> None:
        self._now: Final = now
        self._pause: Final = pause
        self._listeners: Final[dict[Listener, None]] = {}
        self._views: Final[dict[str, Differences]] = {}
        self._costs: Final[dict[str, int]] = {}
        self._rounds: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._published_pace = 0

    @contextmanager
    def listening(self, call: Call, views: tuple[ViewTable, ...], destinations: frozenset[str]) -> Iterator[Listener]:
        """Keep a listener. Raises `ProblemError` if there are too many, or if the web process ends."""
        if self._is_stopped or len(self._listeners) >= MAX_LISTENERS:
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, f"there are {len(self._listeners)} streams of events")
        listener = Listener(call, views, destinations, self._now())
        self._listeners[listener] = None
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.get_running_loop().create_task(self._run())
        elif all(self._has_base(view) for view in views):
            self._open(listener)
        try:
            yield listener
        finally:
            listener.end()
            self._listeners.pop(listener, None)

    def stop(self) -> None:
        """End all streams, and begin no more."""
        self._is_stopped = True
        for listener in self._listeners:
            listener.end("the web process ends")

    async def _run(self) -> None:
        try:
            while self._live():
                await self._round()
                rows = sum(self._costs.values())
                pause = min(MAX_INTERVAL_S, max(INTERVAL_S, rows / ROWS_PER_S))
                self._tell_pace(math.ceil(pause) if pause > SLOW_S else 0)
                await self._pause(pause)
        except Exception:
            logger.exception("the stream of changes failed")
            for listener in self._listeners:
                listener.end("the web process failed; its log says why")
        finally:
            self._views.clear()

    def _live(self) -> list[Listener]:
        return [listener for listener in self._listeners if not listener.is_ended]

    async def _round(self) -> None:
        """Read each requested view, and send the changes."""
        self._costs.clear()
        for listener in self._live():
            if self._now() - listener.renewed_at >= RENEWAL_S:
                await self._renew(listener)
        views = {view.name: view for listener in self._live() for view in listener.views}
        for name in [name for name in self._views if name not in views]:
            del self._views[name]
        try:
            for view in views.values():
                rows = await self._read(view)
                if rows is not None:
                    self._send(view, self._views.setdefault(view.name, Differences(view)).update(rows))
        except (ControlError, ProblemError) as error:
            self._lose(str(error))
        now = self._now()
        for listener in self._live():
            if not listener.is_open and all(self._has_base(view) for view in listener.views):
                self._open(listener)
            listener.beat(now)

    def _has_base(self, view: ViewTable) -> bool:
        differences = self._views.get(view.name)
        return differences is not None and differences.has_base

    def _open(self, listener: Listener) -> None:
        """Tell a client to load its lists: later changes are sent."""
        listener.is_open = True
        listener.put(event_of(OPEN, {"views": [view.name for view in listener.views]}), self._now())
        if self._published_pace:
            listener.put(event_of(PACE, {"seconds": self._published_pace}), self._now())

    def _tell_pace(self, seconds: int) -> None:
        """Tell the seconds between two rounds after a change; 0 for closely following rounds."""
        if seconds == self._published_pace:
            return
        self._published_pace = seconds
        for listener in self._live():
            if listener.is_open:
                listener.put(event_of(PACE, {"seconds": seconds}), self._now())

    def _lose(self, reason: str) -> None:
        """Note a broker without an answer. After the broker's return clients load their lists again."""
        self._views.clear()
        for listener in self._live():
            if listener.is_open:
                listener.is_open = False
                listener.put(event_of(UNREACHABLE, {"detail": reason}), self._now())

    async def _read(self, view: ViewTable) -> list[dict[str, object]] | None:
        """Return the rows of a view, with the login of any listener. Raises `ControlError`."""
        for listener in self._live():
            try:
                return await view_rows(view, partial(self._answer, listener.call))
            except ProblemError as error:
                self._end_refused(listener, error)
        return None

    async def _answer(self, call: Call, command: str) -> object:
        answer = await call.view(command)
        self._costs[command] = call.snapshots.cost(command)
        return answer

    async def _renew(self, listener: Listener) -> None:
        """Check a listener's login again; a refused listener is ended."""
        try:
            listener.call.caller = await listener.call.renew(False)
        except ProblemError as error:
            self._end_refused(listener, error)
        else:
            listener.renewed_at = self._now()

    @staticmethod
    def _end_refused(listener: Listener, error: ProblemError) -> None:
        """End a listener whose login the broker refuses. Raises `ControlError` for another problem."""
        if error.status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise ControlError(error.detail) from error
        listener.end(error.detail)

    def _send(self, view: ViewTable, change: Change) -> None:
        """Send the changes of a view; listeners to the same rows share one event."""
        events: dict[frozenset[str], bytes] = {}
        has_destinations = any(attribute.name == DESTINATION for attribute in view.attributes)
        for listener in self._live():
            if not listener.is_open or view not in listener.views:
                continue
            names = listener.destinations if has_destinations else frozenset[str]()
            if names not in events:
                events[names] = _event(view, _chosen(change.changed, names), _chosen(change.removed, names))
            if events[names]:
                listener.put(events[names], self._now())


def _chosen(rows: Sequence[Row], names: frozenset[str]) -> Sequence[Row]:
    return [row for row in rows if row.get(DESTINATION) in names] if names else rows


def _event(view: ViewTable, changed: Sequence[Row], removed: Sequence[Row]) -> bytes:
    """Return the event of some changes; empty without any."""
    if not changed and not removed:
        return b""
    if len(changed) + len(removed) > MAX_ROWS:
        return event_of(view.name, {"changed": [], "removed": [], "reload": True})
    return event_of(view.name, {"changed": changed, "removed": removed, "reload": False})
