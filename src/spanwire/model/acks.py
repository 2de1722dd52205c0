"""Acknowledgement types, with OpenWire's numbers (OpenWire MessageAck)."""

from __future__ import annotations

from typing import Final

DELIVERED_ACK: Final = 0  # moves the prefetch window only
POISON_ACK: Final = 1  # the consumer gave up: to the dead letter queue
STANDARD_ACK: Final = 2  # everything from the first to the last id
REDELIVERED_ACK: Final = 3  # the client redelivers by itself; counts the attempt
INDIVIDUAL_ACK: Final = 4  # the last id alone
UNMATCHED_ACK: Final = 5  # durable subscriptions: selector did not match
EXPIRED_ACK: Final = 6  # the client found them expired

LAST_DELIVERED_UNSET: Final = -1  # a consumer left without having seen a message
LAST_DELIVERED_UNKNOWN: Final = -2  # a consumer vanished: everything dispatched counts as delivered
