"""Sends keep-alives and detects silent peers.

An idle side sends a KeepAliveInfo; a side in silence for the whole period is disconnected. Both sides negotiate the
period and the initial delay by WireFormatInfo; a period of 0 disables both checks (ActiveMQ, InactivityMonitor). A
client checks its silence first after the initial delay, then every third of the period, and sends a keep-alive at the
second check at the latest.
"""

from __future__ import annotations

from typing import Final

KEEP_ALIVES_PER_PERIOD: Final = 3


class InactivityMonitor:
    """Records the times of the last read and the last write, in monotonic seconds.

    The caller sends the keep-alive and closes the connection.
    """

    def __init__(self, period: float, initial_delay: float, now: float) -> None:
        self._period: Final[float] = period
        self._interval: Final[float] = period / KEEP_ALIVES_PER_PERIOD
        self._first_check: Final[float] = now + initial_delay + 2 * self._interval
        self._last_read = now
        self._last_write = now
        self._suspended = False

    def received(self, now: float) -> None:
        """Note that the peer has sent at least a part of a frame."""
        self._last_read = now

    def written(self, now: float) -> None:
        """Note that output to the peer is on its way."""
        self._last_write = now

    def suspend(self, suspended: bool, now: float) -> None:
        """Suspend or resume the check of the peer; while the connection reads nothing, silence is no sign.

        After the resumption the peer has the whole period again.
        """
        if self._suspended and not suspended:
            self._last_read = now
        self._suspended = suspended

    def next_timeout(self) -> float | None:
        """Return the time of the next check, or None without a period."""
        if self._period <= 0:
            return None
        keep_alive = self._last_write + self._interval
        if self._suspended:
            return keep_alive
        return min(keep_alive, self._silent_at())

    def is_silent(self, now: float) -> bool:
        """Return True if the peer was silent for the whole period."""
        return self._period > 0 and not self._suspended and now >= self._silent_at()

    def _silent_at(self) -> float:
        return max(self._last_read + self._period, self._first_check)

    def is_keep_alive_due(self, now: float) -> bool:
        """Return True if a KeepAliveInfo must be sent now, and count it as written."""
        if self._period <= 0 or now < self._last_write + self._interval:
            return False
        self._last_write = now
        return True
