"""Keep-alives: who sent nothing for a while says KeepAliveInfo, who says nothing at all for the whole time is gone.

The duration is the one negotiated in the WireFormatInfo exchange; 0 turns both off (ActiveMQ, InactivityMonitor). So is
the initial delay: at its end a client looks for the first time whether it has been silent, then each third of the
duration, and it speaks up at the second look at the latest.
"""

from __future__ import annotations

from typing import Final

KEEP_ALIVES_PER_PERIOD: Final = 3


class InactivityMonitor:
    """Knows when something came and when something went out last; times are monotonic seconds.

    Sending the keep-alive and closing the connection is left to the caller.
    """

    def __init__(self, period: float, initial_delay: float, now: float) -> None:
        self._period: Final[float] = period
        self._interval: Final[float] = period / KEEP_ALIVES_PER_PERIOD
        self._first_check: Final[float] = now + initial_delay + 2 * self._interval
        self._last_read = now
        self._last_write = now
        self._suspended = False

    def received(self, now: float) -> None:
        """The peer sent something, a part of a frame at least."""
        self._last_read = now

    def written(self, now: float) -> None:
        """Something is on its way to the peer."""
        self._last_write = now

    def suspend(self, suspended: bool, now: float) -> None:
        """While we do not read, silence proves nothing; the peer has the whole period again when we resume."""
        if self._suspended and not suspended:
            self._last_read = now
        self._suspended = suspended

    def next_timeout(self) -> float | None:
        """When to look again."""
        if self._period <= 0:
            return None
        keep_alive = self._last_write + self._interval
        if self._suspended:
            return keep_alive
        return min(keep_alive, self._silent_at())

    def is_silent(self, now: float) -> bool:
        """Whether the peer has been silent for the whole period."""
        return self._period > 0 and not self._suspended and now >= self._silent_at()

    def _silent_at(self) -> float:
        return max(self._last_read + self._period, self._first_check)

    def is_keep_alive_due(self, now: float) -> bool:
        """Whether a KeepAliveInfo has to go out now; it counts as written then."""
        if self._period <= 0 or now < self._last_write + self._interval:
            return False
        self._last_write = now
        return True
