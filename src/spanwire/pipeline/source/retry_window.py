"""How long a source goes on without its broker: a broker that is started again within that time is no failure."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from spanwire.model.errors import JmsError

MAX_OUTAGE_S: Final = 120.0  # a broker with a large journal is back by then
PAUSE_S: Final = 0.5  # between two attempts

logger = logging.getLogger(__name__)


class RetryWindow:
    """Counts from the first failure after a success. A source that never had its broker has no patience."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final[Callable[[], float]] = clock
        self._has_worked = False
        self._since: float | None = None

    def on_success(self) -> None:
        """The broker does what it is asked."""
        self._has_worked = True
        self._since = None

    def on_failure(self, error: JmsError) -> None:
        """Note a failure, or raise it when it has lasted too long."""
        now = self._clock()
        if not self._has_worked:
            raise error
        if self._since is None:
            self._since = now
            logger.warning("%s; trying again for %d s", error, MAX_OUTAGE_S)
        elif now - self._since > MAX_OUTAGE_S:
            raise error
