"""Runs the routes of a file until they have ended or are stopped, and restarts failed routes.

`query` defines a route in Spark; the caller shows events. A stop lets the current batch end; an uncommitted batch is
repeated by the next start.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Protocol

from py4j.protocol import Py4JNetworkError

from spanwire.pipeline.watch.progress import has_worked, lag_of
from spanwire.routes.masking import mask
from spanwire.routes.model import Patience

DRAIN_POLL_S: Final = 0.25  # seconds between two polls for the end of a batch
POLL_S: Final = 0.5  # seconds between two polls; each calls Java
IDLE_POLL_S: Final = 5.0  # seconds between two polls of quiet routes, as long as between two publications of a status
QUIET_POLLS: Final = 20  # polls without a batch, after which a route is quiet
MAX_PAUSE_S: Final = 60.0  # seconds between two starts, if the pause grows
DRAIN_S: Final = 60.0  # seconds; a stop waits for the current batch
PREFIX: Final = "spanwire: "
CONFIGURATION_ERROR: Final = "ConfigurationError: "
# Failures that a restart would repeat; the last two mean a missing jar.
PERMANENT: Final = (CONFIGURATION_ERROR, "ClassNotFoundException: ", "[DATA_SOURCE_NOT_FOUND]")
# The whole message for a method that a jar calls and this Spark lacks; a restart would fail again.
SIGNATURE: Final = re.compile(r"'[\w.$\[\]]+ [\w.$]+\.[\w$<>]+\([^)]*\)'")
MARKS: Final = (
    (CONFIGURATION_ERROR, ""),
    (PREFIX, ""),
    ("JmsError: ", "JmsError: "),
)  # marks in a line of a failure, and the text shown in place of each
TRACEBACK: Final = "Traceback (most recent call last):"
# A frame of a traceback with its lines of source; these may contain a mark as text of the program.
FRAME: Final = re.compile(r'^ *File ".*\n(?: {4,}.*\n?)*', re.MULTILINE)
CAUSE: Final = re.compile(r"(?:: |Caused by: )?(?:[\w$]+\.)*(\w*(?:Exception|Error)): (.+)")
WRAPPERS: Final = ("Py4JJavaError", "Py4JException", "SparkException", "StreamingQueryException")  # the cause is inside
JAVA: Final = "An error occurred while calling "  # the beginning of Py4J's error messages
JAVA_LOST: Final = (ConnectionError, Py4JNetworkError)  # Java has ended, so no route can continue
MAX_LINE: Final = 400  # characters of a failure that are shown
REPEATED: Final = "done again, of rows that were read before"


class RunningQuery(Protocol):
    """The part of Spark's streaming query that the supervisor uses."""

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Return True while the query runs."""
        ...

    @property
    def lastProgress(self) -> object:  # noqa: N802
        """Return the progress of the last batch."""
        ...

    @property
    def recentProgress(self) -> Sequence[object]:  # noqa: N802
        """Return the progress of about the last hundred batches."""
        ...

    @property
    def status(self) -> dict[str, object]:
        """Return the present activity."""
        ...

    def exception(self) -> Exception | None:
        """Return the failure that ended the query, or ``None``."""
        ...

    def stop(self) -> None:
        """End the query."""
        ...


class Startable(Protocol):
    """A route that can be started."""

    def start(self) -> RunningQuery:
        """Start the route."""
        ...


class Watch(Protocol):
    """An observer of one route, such as `spanwire.pipeline.watch.route_watch.RouteWatch`."""

    def on_start(self) -> None:
        """Note that the route runs."""
        ...

    def on_progress(self, progress: Mapping[str, object]) -> None:
        """Note Spark's progress, possibly of an empty poll."""
        ...

    def on_failure(self, reason: str, is_final: bool) -> None:
        """Note a failure."""
        ...

    def on_end(self) -> None:
        """Note that the route has done all work."""
        ...


class Unwatched:
    """Observes nothing."""

    def on_start(self) -> None:
        """Do nothing."""

    def on_progress(self, progress: Mapping[str, object]) -> None:
        """Do nothing."""

    def on_failure(self, reason: str, is_final: bool) -> None:
        """Do nothing."""

    def on_end(self) -> None:
        """Do nothing."""


UNWATCHED: Final = Unwatched()


@dataclass(frozen=True, slots=True)
class RouteEvent:
    """An event of a route for the user; JSON output has the same fields."""

    route: str
    text: str
    batch: int | None = None
    rows: int = 0
    rows_per_s: float = 0.0
    behind_ms: int | None = None
    is_failure: bool = False


class SupervisedRoute:
    """One route under supervision."""

    def __init__(
        self,
        name: str,
        startable: Startable,
        patience: Patience,
        tell: Callable[[RouteEvent], None],
        watch: Watch = UNWATCHED,
    ) -> None:
        self.name: Final = name
        self.has_failed = False
        self.is_over = False
        self.quiet_polls = 0  # since the last batch; 0 before the first batch and between two starts
        self._startable: Final = startable
        self._patience: Final = patience
        self._tell: Final = tell
        self._watch: Final = watch
        self._query: RunningQuery | None = None
        self._failures = 0
        self._start_at = 0.0
        self._batch = -1
        self._reported = ""
        self._last_progress: tuple[object, object] = (-1, None)

    def start(self) -> None:
        """Start the query.

        Raises:
            SpanwireError: the route cannot be started.
        """
        self._query = self._startable.start()
        self._watch.on_start()

    def poll(self, now: float) -> None:
        """Report new batches, and restart a failed query after a pause.

        A failed restart counts as a failure: the first start succeeded, so the missing resource may return.
        """
        query = self._query
        if self.is_over:
            self.quiet_polls += 1
            return
        if query is None:
            self.quiet_polls = 0
            if now >= self._start_at:
                self._start_again(now)
            return
        has_changed = self._progress(query)
        self.quiet_polls = 0 if has_changed else self.quiet_polls + 1
        if query.isActive:
            return
        self._query = None
        failure = query.exception()
        if failure is None:
            self.is_over = True
            self._watch.on_end()
        else:
            self._fail(failure_text(failure), now, is_permanent=is_permanent_failure(str(failure)))

    def stop(self, now: Callable[[], float], wait: Callable[[float], object]) -> None:
        """Let the current batch end within `DRAIN_S`, then stop the query.

        Failures are reported, not raised, except a lost Java process and errors of reporting.
        """
        query = self._query
        if query is None:
            return
        end = now() + DRAIN_S
        try:
            while query.isActive and query.status.get("isTriggerActive") and now() < end:
                wait(DRAIN_POLL_S)
            query.stop()
            self._progress(query)
        except JAVA_LOST:
            raise
        except Exception as failure:  # noqa: BLE001 - the other routes must be stopped, too
            self.has_failed = True
            self._watch.on_failure(failure_text(failure), is_final=True)
            self._tell(RouteEvent(self.name, failure_text(failure), is_failure=True))

    def _start_again(self, now: float) -> None:
        try:
            self.start()
        except JAVA_LOST:
            raise
        except Exception as failure:  # noqa: BLE001 - any failure concerns only this route
            self._fail(failure_text(failure), now, is_permanent=is_permanent_failure(str(failure)))

    def _fail(self, reason: str, now: float, is_permanent: bool) -> None:
        self.quiet_polls = 0
        self._failures += 1
        retries = self._patience.retries
        if is_permanent or 0 <= retries < self._failures:
            self.has_failed = self.is_over = True
            self._watch.on_failure(reason, is_final=True)
            self._tell(RouteEvent(self.name, reason, is_failure=True))
            return
        pause_s = self._patience.interval_ms / 1000
        if self._patience.is_growing:
            pause_s = min(pause_s * 2 ** min(self._failures - 1, 16), MAX_PAUSE_S)
        self._start_at = now + pause_s
        self._watch.on_failure(reason, is_final=False)
        if reason != self._reported:
            self._reported = reason
            self._tell(RouteEvent(self.name, f"{reason}; starting it again", is_failure=True))

    def _progress(self, query: RunningQuery) -> bool:
        """Report new batches. Returns False without a batch since the last poll, but True before the first."""
        last = query.lastProgress
        if not isinstance(last, dict):
            return True
        seen = (last["batchId"], last.get("timestamp"))
        if seen == self._last_progress:
            return False
        self._last_progress = seen
        # The list costs more, so it is used only if there may have been batches between two polls.
        for progress in query.recentProgress if int(last["batchId"]) > self._batch + 1 else [last]:
            if not isinstance(progress, dict):
                continue
            self._watch.on_progress(progress)
            if int(progress["batchId"]) > self._batch and has_worked(progress):
                self._report_batch(progress)
        return has_worked(last)

    def _report_batch(self, progress: dict[str, object]) -> None:
        rows = int(str(progress.get("numInputRows") or 0))
        self._batch = int(str(progress["batchId"]))
        is_repeated = self._failures > 0
        self._failures, self._reported = 0, ""
        if not rows:  # the batch ended windows, or was repeated with kept rows
            if is_repeated:
                self._tell(RouteEvent(self.name, REPEATED, self._batch))
            return
        speed = float(str(progress.get("processedRowsPerSecond") or 0.0))
        self._tell(RouteEvent(self.name, f"{rows} rows", self._batch, rows, speed, lag_of(progress).milliseconds))


def run_all(routes: Sequence[SupervisedRoute], stop: threading.Event, now: Callable[[], float]) -> bool:
    """Run all routes to the end or until ``stop`` is set; return False after a route has failed for good.

    Any error stops all routes in order.

    Raises:
        SpanwireError: a route cannot be started at first.
    """
    try:
        for route in routes:
            route.start()
        while not stop.is_set() and not all(route.is_over for route in routes):
            for route in routes:
                route.poll(now())
            is_idle = all(route.quiet_polls >= QUIET_POLLS for route in routes)
            stop.wait(IDLE_POLL_S if is_idle else POLL_S)
    finally:
        with ExitStack() as rest:  # stop all routes, even if reporting fails for one
            for route in reversed(routes):
                rest.callback(route.stop, now, threading.Event().wait)
    return not any(route.has_failed for route in routes)


def failure_text(failure: Exception) -> str:
    """Return the line of a failure for the user, without secrets of addresses."""
    line = _failure_line(failure)
    if SIGNATURE.match(line) is not None:
        line = f"a jar was built for another version of Spark; it calls {line}"
    return mask(line)[:MAX_LINE]


def _failure_line(failure: Exception) -> str:
    lines = FRAME.sub("", str(failure)).splitlines()
    for mark, prefix in MARKS:
        for line in lines:
            if mark in line:
                return prefix + line.split(mark, 1)[1].removeprefix(PREFIX)
    if lines and (TRACEBACK in lines[0] or lines[0].startswith(JAVA)):
        matches = [match for match in map(CAUSE.match, lines) if match]
        lines = [f"{match[1]}: {match[2]}" for match in matches if match[1] not in WRAPPERS] or [
            m[2] for m in matches[-1:]
        ]
    return lines[0] if lines else type(failure).__name__


def is_permanent_failure(failure: str) -> bool:
    """Return True if another start would fail in the same way."""
    return SIGNATURE.match(failure) is not None or any(mark in failure for mark in PERMANENT)
