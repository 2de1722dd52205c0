"""Time that a test sets forward: brokers believe that an hour has passed, and nobody has waited.

    broker.advance(3600)     what expires has expired, what is scheduled is due

Time goes on by itself as usual. What was connected stays connected: everybody counts as heard from just now.
"""

from __future__ import annotations

import time
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.service.machine.environment import RealEnvironment, SystemClock

MAX_ADVANCE: Final = 366 * 86_400.0  # seconds of one step; dates beyond any message's are of no use


class VirtualClock:
    """Both clocks of the machine, plus what was added to them. May be shared by the brokers of a network."""

    def __init__(self) -> None:
        self._added = 0.0

    @property
    def added(self) -> float:
        """Seconds by which this clock is ahead of the machine's."""
        return self._added

    def add(self, seconds: float) -> None:
        """Set it forward. Raises `ConfigurationError` for a step back, or one of more than a year."""
        if not 0 <= seconds <= MAX_ADVANCE:
            raise ConfigurationError(f"a clock can be set forward by 0 to {MAX_ADVANCE:g} s, not by {seconds:g}")
        self._added += seconds

    def monotonic(self) -> float:
        """Like `time.monotonic`."""
        return time.monotonic() + self._added

    def wall(self) -> float:
        """Like `time.time`."""
        return time.time() + self._added

    def environment(self) -> RealEnvironment:
        """What a broker gets, to see this time."""
        return RealEnvironment(SystemClock(self.monotonic, self.wall))
