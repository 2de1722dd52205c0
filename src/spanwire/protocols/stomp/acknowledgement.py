"""What an ACK or NACK names: 1.0 the message, perhaps its subscription; 1.1 both; 1.2 the `ack` value of the MESSAGE.

The `ack` value is made by `StompSubscription`: the number of the subscription, a hyphen, the message id.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.acks import INDIVIDUAL_ACK, POISON_ACK, STANDARD_ACK
from spanwire.model.ids import MessageId
from spanwire.protocols.stomp.codec.errors import StompRequestError
from spanwire.protocols.stomp.codec.frames import NACK, V1_0, V1_1, V1_2
from spanwire.protocols.stomp.layout import parse_message_id
from spanwire.protocols.stomp.subscription import AUTO, CLIENT, StompSubscription

MAX_NUMBER_DIGITS: Final = 9  # of a subscription's number


class Acknowledgement:
    """One ACK or NACK, understood. Whether the message is out at a subscription is left to the broker."""

    def __init__(self, command: str, headers: dict[str, str], version: int) -> None:
        """Raises `StompRequestError` unless the frame names its message as its version wants."""
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
        """The subscriptions at which the message may be out."""
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
        """The type of OpenWire's MessageAck that means the same."""
        if self.command == NACK:
            return POISON_ACK
        return STANDARD_ACK if ack_mode == CLIENT else INDIVIDUAL_ACK

    def unexpected(self) -> StompRequestError:
        """The error for a message that is out nowhere."""
        return StompRequestError(f"Unexpected {self.command} received for message-id [{self._text}]")
