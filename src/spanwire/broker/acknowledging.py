"""What an acknowledgement does to the messages a consumer holds (OpenWire MessageAck, JMS 1.1 §4.4.11)."""

from __future__ import annotations

from typing import Final

from spanwire.broker.context import BrokerContext
from spanwire.broker.dead_letters import EXPIRED
from spanwire.broker.queue import Queue
from spanwire.broker.reference import MessageReference
from spanwire.broker.subscription import Subscription
from spanwire.model.acks import (
    DELIVERED_ACK,
    EXPIRED_ACK,
    INDIVIDUAL_ACK,
    POISON_ACK,
    REDELIVERED_ACK,
    STANDARD_ACK,
    UNMATCHED_ACK,
)
from spanwire.model.errors import IllegalStateError
from spanwire.model.ids import MessageId


class Acknowledgements:
    """Finds the references an acknowledgement means and settles them; transactions and answers are left to the
    broker.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context: Final[BrokerContext] = context

    def note(self, subscription: Subscription, ack_type: int, first: MessageId | None, last: MessageId) -> bool:
        """The types that settle nothing: they move the window or count an attempt. False for the others."""
        if ack_type == DELIVERED_ACK:
            subscription.delivered(last)
            return True
        if ack_type == REDELIVERED_ACK:
            for reference in subscription.in_range(first, last):
                home = reference.home
                if isinstance(home, Queue):
                    home.note_redelivery(reference)
            return True
        return False

    def take(
        self, subscription: Subscription, ack_type: int, first: MessageId | None, last: MessageId, count: int
    ) -> list[MessageReference]:
        """The references it means, no longer out at the consumer; raises `IllegalStateError` for one that is not
        out.
        """
        if ack_type == INDIVIDUAL_ACK:
            return [subscription.take_one(last)]
        if ack_type not in (STANDARD_ACK, POISON_ACK, EXPIRED_ACK, UNMATCHED_ACK):
            raise IllegalStateError(f"acknowledgement type {ack_type} is unknown")
        taken = subscription.take_front(count, first, last)
        return taken if taken is not None else subscription.take_range(first, last)

    def settle(self, references: list[MessageReference], ack_type: int, cause: str) -> None:
        """Acknowledged: gone from queue and store; poisoned or expired ones leave a copy with the dead letters."""
        if ack_type == POISON_ACK or ack_type == EXPIRED_ACK:
            self.bury(references, EXPIRED if ack_type == EXPIRED_ACK else cause)
        for reference in references:
            reference.home.settled(reference)

    def bury(self, references: list[MessageReference], cause: str) -> None:
        """Hand the references to the dead letter office."""
        for reference in references:
            home = reference.home
            if cause == EXPIRED:
                home.expired += 1
            if isinstance(home, Queue):
                self._context.dead_letter(reference, cause)
