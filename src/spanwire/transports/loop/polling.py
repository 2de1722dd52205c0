"""Polling: the loop looks for input for a moment before the thread sleeps.

A sleeping processor takes 20 to 40 µs to wake, more than the broker needs for a message. A client that waits for each
answer sends the next request within that time. Polling after an answer nearly doubles the rate of such a client. Other
clients gain nothing, so polling rests while too few polls find input.
"""

from __future__ import annotations

from typing import Final

POLL_TIME: Final = 0.000_1  # seconds; a client in C or Java answers in 20 to 60 µs, and longer polls gained little more
MAX_SOCKETS: Final = 4  # flushed in the turn before a poll; the clients behind more sockets want the processors
POLLS_JUDGED: Final = 32  # polls between two decisions
MAX_MISSES: Final = 4  # polls without input among these; each miss costs POLL_TIME of the processor
FIRST_REST: Final = 64  # turns without polls after too many misses; doubled each time
MAX_REST: Final = 8_192  # turns; a client that begins to wait for answers gets polls again within half a second


class Polling:
    """Decides after each turn whether the loop polls. One per process, in the loop's thread."""

    def __init__(self) -> None:
        self._is_active = False
        self._until = 0.0
        self._polls = 0
        self._misses = 0
        self._rest = FIRST_REST
        self._resting = 0  # turns left

    def begins(self, now: float, sockets: int) -> bool:
        """Note the end of a turn with input. Return True if the loop should poll.

        Args:
            now: the time in monotonic seconds.
            sockets: the number of sockets that were flushed in this turn.
        """
        if self._is_active:
            self._judge(0)
        elif self._resting:
            self._resting -= 1
        else:
            self._is_active = True
        if sockets > MAX_SOCKETS:
            self._is_active = False
        self._until = now + POLL_TIME
        return self._is_active

    def goes_on(self, now: float) -> bool:
        """Return True if the loop should poll once more. ``now`` is in monotonic seconds."""
        if self._is_active and now >= self._until:
            self._is_active = False
            self._judge(1)
        return self._is_active

    def _judge(self, misses: int) -> None:
        self._polls += 1
        self._misses += misses
        if self._misses > MAX_MISSES:
            self._is_active = False
            self._resting = self._rest
            self._rest = min(2 * self._rest, MAX_REST)
        elif self._polls < POLLS_JUDGED:
            return
        else:
            self._rest = FIRST_REST
        self._polls = self._misses = 0
