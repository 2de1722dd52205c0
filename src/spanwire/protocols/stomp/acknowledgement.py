"""Parses ACK and NACK frames and finds the subscription of the message.

A frame of version 1.0 names the message and perhaps the subscription. Version 1.1 names both. Version 1.2 has the `ack`
value of the MESSAGE frame. `StompSubscription` creates this value: the number of the subscription, a hyphen, the
message id.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.acks import INDIVIDUAL_ACK, POISON_ACK, STANDARD_ACK
from spanwire.model.ids import MessageId
from spanwire.protocols.stomp.codec.errors import StompRequestError
from spanwire.protocols.stomp.codec.frames import NACK, V1_0, V1_1, V1_2
from spanwire.protocols.stomp.layout import parse_message_id
from spanwire.protocols.stomp.subscription import AUTO, CLIENT, StompSubscription

MAX_NUMBER_DIGITS: Final = 9  # digits of a subscription's number


class Acknowledgement:
    """A parsed ACK or NACK. The broker checks that the message is in flight."""

    def __init__(self, command: str, headers: dict[str, str], version: int) -> None:
        """Raises `StompRequestError` unless the frame names its message as the version requires."""
        self.command: Final[str] = command
        text = headers.get("message-id")
        number = -1
        if command == NACK and version == V1_0:
            raise StompRequestError("NACK received but connection is in v1.0 mode.")
        if version == V1_2:
            value = headers.get("id")
            if value is None:
                raise StompRequestError(f"{command} received without a ack id for acknowledge!")
            digits, _, rest = value.partition("-")
            if rest and digits.isascii() and digits.isdigit() and len(digits) <= MAX_NUMBER_DIGITS:
                number = int(digits)
                text = rest
        elif text is None:
            raise StompRequestError(f"{command} received without a message-id to acknowledge!")
        elif version == V1_1 and "subscription" not in headers:
            raise StompRequestError(f"{command} received without a subscription id for acknowledge!")
        self._by_number: Final[bool] = version == V1_2
        self._number: Final[int] = number
        self._subscription_id: Final[str | None] = headers.get("subscription")
        self._text: Final[str | None] = text
        self.message_id: Final[MessageId | None] = parse_message_id(text) if text is not None else None

    def candidates(self, subscriptions: dict[int, StompSubscription]) -> list[StompSubscription]:
        """Return the subscriptions that may have the message in flight."""
        if self.message_id is None:
            return []
        if self._by_number:
            subscription = subscriptions.get(self._number)
            return [subscription] if subscription is not None and subscription.ack_mode != AUTO else []
        wanted = self._subscription_id
        return [
            subscription
            for subscription in subscriptions.values()
            if subscription.ack_mode != AUTO and (wanted is None or subscription.id == wanted)
        ]

    def ack_type(self, ack_mode: int) -> int:
        """Return the equivalent type of OpenWire's MessageAck."""
        if self.command == NACK:
            return POISON_ACK
        return STANDARD_ACK if ack_mode == CLIENT else INDIVIDUAL_ACK

    def unexpected(self) -> StompRequestError:
        """Return the error for a message that is in flight at no subscription."""
        return StompRequestError(f"Unexpected {self.command} received for message-id [{self._text}]")
