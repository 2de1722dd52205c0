"""When messages came into a queue, as far as somebody needs to know: those whose policy has a ``replayDelay``.

A mark is made at most sixteen times in the delay, so a queue keeps some twenty of them however many messages come.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.policy_entry import PolicyEntry

STEPS: Final = (
    16  # marks in the time of the delay: what came after one and before the next counts as come with its last
)


class ArrivalMark:
    """From the message of this ``sequence``, or this ``order`` if the store does not have it, to the next mark all came
    at ``since`` or later, and none later than ``until``, in monotonic seconds.
    """

    __slots__ = ("order", "sequence", "since", "until")

    def __init__(self, sequence: int, order: int, now: float) -> None:
        self.sequence: Final[int] = sequence
        self.order: Final[int] = order
        self.since: Final[float] = now
        self.until = now


class Arrivals:
    """The marks of one queue. What is older than the first of them came when the queue was made at the latest, or so
    long ago that its delay is over.
    """

    def __init__(self, delay: float, now: float) -> None:
        self._delay: Final[float] = delay
        self._marks: Final[deque[ArrivalMark]] = deque()
        self._before = now
        self._last_sequence = 0

    def came(self, sequence: int, order: int, now: float) -> None:
        """A message comes; ``order`` is the one that the next message gets whose sequence is 0."""
        first = sequence if sequence > 0 else self._last_sequence + 1
        self._last_sequence = max(self._last_sequence, sequence)
        marks = self._marks
        if marks and now - marks[-1].since < self._delay / STEPS:
            marks[-1].until = now
            return
        marks.append(ArrivalMark(first, order, now))
        while len(marks) > 1 and marks[1].since <= now - self._delay:
            self._before = marks.popleft().until

    def due(self, reference: MessageReference) -> float:
        """When the delay of a message is over."""
        came = self._before
        for mark in self._marks:
            if reference.sequence < mark.sequence if reference.sequence > 0 else reference.order < mark.order:
                break
            came = mark.until
        return came + self._delay


def arrivals_of(policy: PolicyEntry, now: float) -> Arrivals | None:
    """What notes the times of messages in a queue of this policy, if it asks for that."""
    bridges = policy.queue.bridges
    if bridges is None or not bridges.replays or bridges.replay_delay_ms <= 0:
        return None
    return Arrivals(bridges.replay_delay_ms / 1000, now)
