"""Acknowledgements of a consumer, and the numbers of their types, as OpenWire's MessageAck has them."""

from __future__ import annotations

from typing import Final

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
