"""The board of a running pipeline: makes the pipeline's status from the events of routes.

Several threads may use a board, because each event replaces one frozen `RouteStatus`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from spanwire.pipeline.watch.progress import (
    batch_of,
    cursor_range,
    duration_ms_of,
    has_worked,
    lag_of,
    rows_of,
    speed_of,
)
from spanwire.pipeline.watch.status import (
    ENDED,
    FAILED,
    MAX_ERROR,
    MAX_RANGES,
    OVER,
    RETRYING,
    RUNNING,
    STOPPED,
    PipelineStatus,
    RouteStatus,
)

MAX_BOARD_ROUTES: Final = (
    1_000  # routes of one board; queries of a program with other names each time replace over ones
)


class StatusBoard:
    """The latest status of each route of one run."""

    def __init__(self, pipeline: str, run: str, host: str, now_ms: int) -> None:
        self._pipeline: Final = pipeline
        self._run: Final = run
        self._host: Final = host
        self._started_at_ms: Final = now_ms
        self._routes: Final[dict[str, RouteStatus]] = {}

    def add(self, route: RouteStatus) -> None:
        """Add a route, or replace the status of a route."""
        self._make_room(route.route)
        self._routes[route.route] = route

    def on_start(self, name: str) -> None:
        """Note the start of a route. The last error of the route stays visible."""
        self.add(replace(self._route(name), state=RUNNING))

    def on_progress(self, name: str, progress: Mapping[str, object], now_ms: int) -> None:
        """Note Spark's progress of a route.

        A batch counts once. A query without new messages still reports the lag.
        """
        route = self._route(name)
        lag = lag_of(progress, bool(route.cursor))
        route = replace(route, state=RUNNING, lag_messages=lag.messages, lag_ms=lag.milliseconds, progress_at_ms=now_ms)
        if not has_worked(progress):
            route = replace(route, rows_per_s=0.0)
        elif batch_of(progress) > route.batch:
            route = replace(
                route,
                batch=batch_of(progress),
                batches=route.batches + 1,
                rows=route.rows + rows_of(progress),
                rows_per_s=speed_of(progress),
                batch_ms=duration_ms_of(progress),
            )
            route = _with_range(route, progress, now_ms)
        self.add(route)

    def on_failure(self, name: str, reason: str, is_final: bool, now_ms: int) -> None:
        """Note a failure; a final one ends the route."""
        route = self._route(name)
        self.add(
            replace(
                route,
                state=FAILED if is_final else RETRYING,
                last_error=reason[:MAX_ERROR],
                failures=route.failures + 1,
                failed_at_ms=now_ms,
                rows_per_s=0.0,
            )
        )

    def on_end(self, name: str) -> None:
        """Note that a route has done all work."""
        self.add(replace(self._route(name), state=ENDED, rows_per_s=0.0))

    def on_stop(self) -> None:
        """Note the end of the program: running routes become stopped."""
        for route in list(self._routes.values()):
            if route.state not in OVER:
                self.add(replace(route, state=STOPPED, rows_per_s=0.0))

    def on_fault(self, reason: str, now_ms: int) -> None:
        """Note the error that ended the program, as the last error of all running routes."""
        for route in list(self._routes.values()):
            if route.state not in OVER:
                self.on_failure(route.route, reason, is_final=True, now_ms=now_ms)

    def status(self, now_ms: int) -> PipelineStatus:
        """Return the present status."""
        routes = tuple(self._routes.values())
        return PipelineStatus(self._pipeline, self._run, self._host, self._started_at_ms, now_ms, routes)

    def _route(self, name: str) -> RouteStatus:
        return self._routes.get(name) or RouteStatus(name)

    def _make_room(self, name: str) -> None:
        """Forget a finished route if there are too many routes, or the oldest if all are running."""
        if name in self._routes or len(self._routes) < MAX_BOARD_ROUTES:
            return
        over = next((other for other, route in self._routes.items() if route.state in OVER), next(iter(self._routes)))
        del self._routes[over]


def _with_range(route: RouteStatus, progress: Mapping[str, object], now_ms: int) -> RouteStatus:
    """Return the route with the numbers of its last batch at the cursor of its source, if there is one."""
    found = cursor_range(progress)
    if found is None:
        return route
    cursor, first, last = found
    ranges = (*route.ranges, (route.batch, first, last, now_ms))[-MAX_RANGES:]
    return replace(route, cursor=cursor, ranges=ranges)
