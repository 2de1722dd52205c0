"""Acknowledgements of a consumer, and the numbers of their types in OpenWire's MessageAck."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from spanwire.model.ids import MessageId

DELIVERED_ACK: Final = 0  # extends the prefetch window; the messages stay in flight
POISON_ACK: Final = 1  # the consumer gave the message up; it goes to the dead letter queue
STANDARD_ACK: Final = 2  # acknowledges all messages from the first id to the last
REDELIVERED_ACK: Final = 3  # the client redelivers by itself; the broker counts the attempt
INDIVIDUAL_ACK: Final = 4  # acknowledges the message of the last id alone
UNMATCHED_ACK: Final = 5  # a durable subscription's selector does not match
EXPIRED_ACK: Final = 6  # the client received an expired message

LAST_DELIVERED_UNSET: Final = -1  # the consumer was removed before the client saw a message
LAST_DELIVERED_UNKNOWN: Final = -2  # the connection broke; all dispatched messages count as delivered

POISONED: Final = "the consumer gave up on the message"


class MessageAck:
    """An acknowledgement of ``count`` messages from ``first`` (None: the oldest in flight) to ``last``.

    ``cause`` is the consumer's reason for a poison acknowledgement.
    """

    __slots__ = ("ack_type", "cause", "count", "first", "last")

    def __init__(
        self, ack_type: int, first: MessageId | None, last: MessageId, count: int = 1, cause: str = POISONED
    ) -> None:
        self.ack_type: Final[int] = ack_type
        self.first: Final[MessageId | None] = first
        self.last: Final[MessageId] = last
        self.count: Final[int] = count
        self.cause: Final[str] = cause


class SequenceRun:
    """Numbers of messages in the order of their acknowledgements.

    The numbers come from the producer or from the dispatches. Numbers at equal distances, as at one consumer of a queue
    or at each of several in turn, are stored as a range: a list takes 180 instructions for each acknowledgement.
    Numbers at other distances are in a list. The first ``ranged`` numbers begin with ``first`` and have the distance
    ``step``.
    """

    __slots__ = ("_others", "first", "ranged", "size", "step")

    def __init__(self, first: i64) -> None:
        self.size: i64 = 1
        self.first: Final[i64] = first
        self.step: i64 = 0
        self.ranged: i64 = 1
        self._others: list[int] | None = None

    def append(self, sequence: i64) -> None:
        """Append a number."""
        others = self._others
        size = self.size
        self.size = size + 1
        if others is not None:
            others.append(sequence)
        elif size == 1:
            self.step = sequence - self.first
            self.ranged = 2
        elif sequence == self.first + self.step * size:
            self.ranged = size + 1
        else:
            self._others = [sequence]

    @property
    def is_consecutive(self) -> bool:
        """Return True if each number is one above the number before."""
        return self._others is None and (self.size == 1 or self.step == 1)

    def at(self, index: i64) -> i64:
        """Return the number at ``index``."""
        others = self._others
        if others is None or index < self.ranged:
            return self.first + self.step * index
        return others[index - self.ranged]

    def after(self, count: int) -> list[int]:
        """Return the numbers behind the first ``count``."""
        return [self.at(index) for index in range(count, self.size)]
