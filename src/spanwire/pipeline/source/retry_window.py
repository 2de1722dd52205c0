"""Limits the time of a source without a broker, such as during a restart of the broker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from spanwire.model.errors import JmsError

MAX_OUTAGE_S: Final = 120.0  # seconds; a broker with a large journal restarts within this time
PAUSE_S: Final = 0.5  # seconds between two attempts

logger = logging.getLogger(__name__)


class RetryWindow:
    """Tolerates failures for `MAX_OUTAGE_S` after the last success, but not before the first success."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final[Callable[[], float]] = clock
        self._has_worked = False
        self._since: float | None = None

    def on_success(self) -> None:
        """Record that the broker works."""
        self._has_worked = True
        self._since = None

    def on_failure(self, error: JmsError) -> None:
        """Record a failure. Raises the failure if failures have lasted too long."""
        now = self._clock()
        if not self._has_worked:
            raise error
        if self._since is None:
            self._since = now
            logger.warning("%s; trying again for %d s", error, MAX_OUTAGE_S)
        elif now - self._since > MAX_OUTAGE_S:
            raise error
