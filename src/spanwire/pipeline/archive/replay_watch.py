"""Shows a running replay to the broker that it sends to, as a pipeline with one route.

`spanwire.management.operations.replays` lists it among the tasks of the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.pipeline.archive.replay import Progress
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.status import RUNNING, RouteStatus

REPLAY: Final = "pipeline replay"  # the name of the route, by which the broker knows a replay


class ReplayWatch:
    """Puts the progress of a replay on a board, and passes it on."""

    def __init__(
        self,
        board: StatusBoard,
        archive: str,
        destination: str,
        now_ms: Callable[[], int],
        tell: Callable[[Progress], None],
    ) -> None:
        """``archive`` is without secrets; ``destination`` is "" for the first destinations of the messages."""
        self._board: Final = board
        self._archive: Final = archive
        self._destination: Final = destination
        self._now_ms: Final = now_ms
        self._tell: Final = tell

    def show(self, progress: Progress) -> None:
        """Take the progress, and pass it on."""
        self.note(progress)
        self._tell(progress)

    def note(self, progress: Progress) -> None:
        """Take the progress."""
        left, seconds = progress.total - progress.sent, progress.seconds_left
        self._board.add(
            RouteStatus(
                REPLAY,
                state=RUNNING,
                source=self._archive,
                targets=self._destination or "the first destinations",
                rows=progress.sent,
                rows_per_s=left / seconds if seconds else 0.0,
                total=progress.total,
                progress_at_ms=self._now_ms(),
                waits_for=progress.waits_for,
            )
        )
