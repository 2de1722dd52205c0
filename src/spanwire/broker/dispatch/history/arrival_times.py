"""Arrival times of the messages of a queue with a ``replayDelay`` in the policy.

A queue adds at most `STEPS` marks during the delay. The number of marks does not depend on the number of messages.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination_events import DestinationObserver
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.message import Message

STEPS: Final = 16  # marks during the delay; messages between two marks count as arrived with the last of them


class ArrivalMark:
    """Arrival times of the messages from one message up to the next mark.

    ``sequence`` identifies the first message, or ``order`` if the store does not have the message. The first message
    arrived at ``since``, the last at ``until``, both in monotonic seconds.
    """

    __slots__ = ("order", "sequence", "since", "until")

    def __init__(self, sequence: int, order: int, now: float) -> None:
        self.sequence: Final[int] = sequence
        self.order: Final[int] = order
        self.since: Final[float] = now
        self.until = now


class Arrivals:
    """The arrival marks of one queue.

    For messages older than the first mark the delay is over, or began before the queue was created.
    """

    def __init__(self, delay: float, now: float) -> None:
        self._delay: Final[float] = delay
        self._marks: Final[deque[ArrivalMark]] = deque()
        self._before = now
        self._last_sequence = 0

    def note_arrival(self, sequence: int, order: int, now: float) -> None:
        """Record the arrival of a message.

        ``order`` is the dispatch order of the next message without a sequence.
        """
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
        """Return the end of a message's delay, in monotonic seconds."""
        came = self._before
        for mark in self._marks:
            if reference.sequence < mark.sequence if reference.sequence > 0 else reference.order < mark.order:
                break
            came = mark.until
        return came + self._delay


def arrivals_of(policy: PolicyEntry, now: float) -> Arrivals | None:
    """Return a recorder of arrival times for a queue, or None if the policy has no replay delay."""
    bridges = policy.queue.bridges
    if bridges is None or not bridges.replays or bridges.replay_delay_ms <= 0:
        return None
    return Arrivals(bridges.replay_delay_ms / 1000, now)


class ArrivalObserver(DestinationObserver):
    """Records the arrival of each message of a queue, if the policy needs arrival times."""

    def __init__(self, arrivals: Arrivals | None, context: BrokerContext) -> None:
        self._arrivals: Final[Arrivals | None] = arrivals
        self._context: Final[BrokerContext] = context

    def before_accept(self, message: Message, sequence: int) -> None:
        """Record the time of a message."""
        if self._arrivals is not None:
            self._arrivals.note_arrival(sequence, self._context.order + 1, self._context.monotonic)

    def after_accept(self, message: Message, is_wanted: bool) -> None:
        """Do nothing."""

    def sees_removals(self) -> bool:
        """Return False: removals are of no interest."""
        return False

    def message_removed(self, message: Message, way: int) -> None:
        """Do nothing."""

    def message_discarded(self, subscription: Subscription, message: Message) -> None:
        """Do nothing."""

    def consumer_added(self, subscription: Subscription) -> None:
        """Do nothing."""

    def consumer_removed(self, subscription: Subscription) -> None:
        """Do nothing."""
