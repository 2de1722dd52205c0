"""Connects the supervisor of a route to the board, to traces, and to a receiver of OpenLineage events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spanwire.pipeline.watch.batch_traces import BatchTraces
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.lineage import Job, LineageSender, batch_event
from spanwire.pipeline.watch.progress import batch_of, has_worked


class RouteWatch:
    """Notes the events of one route on a board, with the time."""

    def __init__(
        self,
        board: StatusBoard,
        route: str,
        now_ms: Callable[[], int],
        sender: LineageSender | None = None,
        job: Job | None = None,
        traces: BatchTraces | None = None,
    ) -> None:
        """Send an event of ``job`` for each batch with ``sender``, and note its span in ``traces``, if any."""
        self._board: Final = board
        self._route: Final = route
        self._now_ms: Final = now_ms
        self._sender: Final = sender
        self._job: Final = job
        self._traces: Final = traces
        self._batch = -1

    def on_start(self) -> None:
        """Note that the route runs."""
        self._board.on_start(self._route)

    def on_progress(self, progress: Mapping[str, object]) -> None:
        """Note Spark's progress."""
        now_ms = self._now_ms()
        self._board.on_progress(self._route, progress, now_ms)
        if batch_of(progress) <= self._batch or not has_worked(progress):
            return
        self._batch = batch_of(progress)
        event = None if self._job is None else batch_event(self._job, progress, now_ms)
        if self._sender is not None and event is not None:
            self._sender.send(event)
        if self._traces is not None:
            self._traces.on_batch(self._route, progress)

    def on_failure(self, reason: str, is_final: bool) -> None:
        """Note a failure."""
        self._board.on_failure(self._route, reason, is_final, self._now_ms())

    def on_end(self) -> None:
        """Note that the route has done all work."""
        self._board.on_end(self._route)
