"""Parses ACK and NACK frames and finds the subscription of the message.

A frame of version 1.0 names the message and perhaps the subscription. Version 1.1 names both. Version 1.2 has the `ack`
value of the MESSAGE frame. `StompSubscription` creates this value: the number of the subscription, a hyphen, the
number of the dispatch. Plain ACK frames of 1.2 come as an `AckRun` instead.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.subscription import Subscription
from spanwire.model.acks import INDIVIDUAL_ACK, POISON_ACK, STANDARD_ACK
from spanwire.model.ids import MessageId
from spanwire.protocols.stomp.codec.errors import StompRequestError
from spanwire.protocols.stomp.codec.frames import NACK, V1_0, V1_1, V1_2
from spanwire.protocols.stomp.layout import parse_message_id
from spanwire.protocols.stomp.subscription import AUTO, CLIENT, StompSubscription

MAX_NUMBER_DIGITS: Final = 18  # digits of a subscription's or dispatch's number


class Acknowledgement:
    """A parsed ACK or NACK. The broker checks that the message is in flight."""

    def __init__(self, command: str, headers: dict[str, str], version: int) -> None:
        """Raises `StompRequestError` unless the frame names its message as the version requires."""
        self.command: Final[str] = command
        text = headers.get("message-id")
        if command == NACK and version == V1_0:
            raise StompRequestError("NACK received but connection is in v1.0 mode.")
        number = -1
        dispatch = -1
        if version == V1_2:
            value = headers.get("id")
            if value is None:
                raise StompRequestError(f"{command} received without a ack id for acknowledge!")
            first, _, second = value.partition("-")
            if is_number(first) and is_number(second):
                number = int(first)
                dispatch = int(second)
            text = headers.get("message-id", value)  # for the error: ActiveMQ shows this header
        elif text is None:
            raise StompRequestError(f"{command} received without a message-id to acknowledge!")
        elif version == V1_1 and "subscription" not in headers:
            raise StompRequestError(f"{command} received without a subscription id for acknowledge!")
        self._by_number: Final[bool] = version == V1_2
        self._number: Final[int] = number
        self._dispatch: Final[int] = dispatch
        self._subscription_id: Final[str | None] = headers.get("subscription")
        self._text: Final[str] = text
        self._message_id: Final[MessageId | None] = None if version == V1_2 else parse_message_id(text)

    def candidates(self, subscriptions: dict[int, StompSubscription]) -> list[StompSubscription]:
        """Return the subscriptions that may have the message in flight."""
        if self._by_number:
            subscription = subscriptions.get(self._number)
            return [subscription] if subscription is not None and subscription.ack_mode != AUTO else []
        wanted = self._subscription_id
        return [
            subscription
            for subscription in subscriptions.values()
            if subscription.ack_mode != AUTO and (wanted is None or subscription.id == wanted)
        ]

    def message_id_at(self, subscription: Subscription) -> MessageId | None:
        """Return the id of the message at one of the `candidates`; None if there is no such message."""
        if not self._by_number:
            return self._message_id
        reference = subscription.in_flight.find_number(self._dispatch)
        return None if reference is None else reference.message.message_id

    def ack_type(self, ack_mode: int) -> int:
        """Return the equivalent type of OpenWire's MessageAck."""
        if self.command == NACK:
            return POISON_ACK
        return STANDARD_ACK if ack_mode == CLIENT else INDIVIDUAL_ACK

    def unexpected(self) -> StompRequestError:
        """Return the error for a message that is in flight at no subscription."""
        return StompRequestError(f"Unexpected {self.command} received for message-id [{self._text}]")


def is_number(text: str) -> bool:
    """Return True for ASCII digits that make a number of 64 bits."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS
