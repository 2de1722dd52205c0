"""A clock that a test moves forward, so that a broker sees an hour pass without a wait.

    broker.advance(3600)     messages expire, scheduled messages are due

The clock runs as usual between the steps. Connections survive a step: the broker treats each peer as just heard.
"""

from __future__ import annotations

import time
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.service.machine.environment import RealEnvironment
from spanwire.transports.loop.system_clock import SystemClock

MAX_ADVANCE: Final = 366 * 86_400.0  # seconds of one step; longer than any message lives


class VirtualClock:
    """The machine's clocks plus the steps of a test. Brokers of a network may share the clock."""

    def __init__(self) -> None:
        self._added = 0.0

    @property
    def added(self) -> float:
        """Seconds by which the clock is ahead of the machine's clock."""
        return self._added

    def add(self, seconds: float) -> None:
        """Move the clock forward. Raises `ConfigurationError` for a step back, or for more than a year."""
        if not 0 <= seconds <= MAX_ADVANCE:
            raise ConfigurationError(f"a clock can be set forward by 0 to {MAX_ADVANCE:g} s, not by {seconds:g}")
        self._added += seconds

    def monotonic(self) -> float:
        """Return monotonic seconds, as `time.monotonic`."""
        return time.monotonic() + self._added

    def wall(self) -> float:
        """Return seconds since 1970, as `time.time`."""
        return time.time() + self._added

    def environment(self) -> RealEnvironment:
        """Return the environment for a broker with this clock."""
        return RealEnvironment(SystemClock(self.monotonic, self.wall))
