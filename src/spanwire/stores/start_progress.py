"""The progress of a slow start, for the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

logger: Final = logging.getLogger(__name__)

PATIENCE: Final = 1.0  # seconds of a start before its first line about progress
PROGRESS_INTERVAL: Final = 2.0  # seconds between two lines about progress


class StartProgress:
    """Logs the progress of a slow start. ``clock`` returns monotonic seconds."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path: Final = path
        self._clock: Final = clock
        self._next = clock() + PATIENCE

    def on_progress(self, done_bytes: int, total_bytes: int) -> None:
        """Log the progress, at most every `PROGRESS_INTERVAL` seconds."""
        now = self._clock()
        if now >= self._next and total_bytes > 0:
            self._next = now + PROGRESS_INTERVAL
            logger.info(
                "journal %s: %d %% of %d MiB read", self._path, done_bytes * 100 // total_bytes, total_bytes >> 20
            )
