"""Numbers of the acknowledgement types, as OpenWire's MessageAck has them."""

from __future__ import annotations

from typing import Final

DELIVERED_ACK: Final = 0  # extends the prefetch window; the messages stay in flight
POISON_ACK: Final = 1  # the consumer gave the message up; it goes to the dead letter queue
STANDARD_ACK: Final = 2  # acknowledges all messages from the first id to the last
REDELIVERED_ACK: Final = 3  # the client redelivers by itself; the broker counts the attempt
INDIVIDUAL_ACK: Final = 4  # acknowledges the message of the last id alone
UNMATCHED_ACK: Final = 5  # a durable subscription's selector does not match
EXPIRED_ACK: Final = 6  # the client received an expired message

LAST_DELIVERED_UNSET: Final = -1  # the consumer was removed before the client saw a message
LAST_DELIVERED_UNKNOWN: Final = -2  # the connection broke; all dispatched messages count as delivered
