"""Connects the supervisor of one route, or a listener, to the board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spanwire.pipeline.watch.board import StatusBoard


class RouteWatch:
    """Notes the events of one route on a board, with the time."""

    def __init__(self, board: StatusBoard, route: str, now_ms: Callable[[], int]) -> None:
        self._board: Final = board
        self._route: Final = route
        self._now_ms: Final = now_ms

    def on_start(self) -> None:
        """Note that the route runs."""
        self._board.on_start(self._route)

    def on_progress(self, progress: Mapping[str, object]) -> None:
        """Note Spark's progress."""
        self._board.on_progress(self._route, progress, self._now_ms())

    def on_failure(self, reason: str, is_final: bool) -> None:
        """Note a failure."""
        self._board.on_failure(self._route, reason, is_final, self._now_ms())

    def on_end(self) -> None:
        """Note that the route has done all work."""
        self._board.on_end(self._route)
