"""Effect of acknowledgements on the messages of a consumer (OpenWire MessageAck, JMS 1.1 §4.4.11)."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import TransactedAck, Transaction
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import MessageReference, settle_all
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.routing.consumers import ConsumerRegistry
from spanwire.broker.routing.dead_letters import EXPIRED
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.model.acks import (
    DELIVERED_ACK,
    EXPIRED_ACK,
    INDIVIDUAL_ACK,
    POISON_ACK,
    REDELIVERED_ACK,
    STANDARD_ACK,
    UNMATCHED_ACK,
    MessageAck,
    SequenceRun,
)
from spanwire.model.errors import IllegalStateError, JmsError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.ledger import ACKNOWLEDGED


class Acknowledgements:
    """Finds the references of an acknowledgement and settles them.

    In a transaction the references are kept for the commit.
    """

    def __init__(
        self,
        context: BrokerContext,
        consumer_registry: ConsumerRegistry,
        router: MessageRouter,
        parked: ParkedSends,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._consumer_registry: Final[ConsumerRegistry] = consumer_registry
        self._router: Final[MessageRouter] = router
        self._parked: Final[ParkedSends] = parked

    def acknowledge(
        self,
        state: ConnectionState,
        subscription: Subscription,
        ack: MessageAck,
        transaction: Transaction | None,
        token: int,
    ) -> bool:
        """Carry out `Broker.acknowledge`; in a transaction the commit settles the references."""
        ack_type, first, last = ack.ack_type, ack.first, ack.last
        if subscription.info.browser:
            return self._browsed(subscription, ack_type, first, last)
        if self._note(subscription, ack):
            self._consumer_registry.refill(subscription)
            return True
        if transaction is not None:
            self._acknowledge_later(transaction, subscription, ack)
            return True
        references = self._take(subscription, ack_type, first, last, ack.count)
        self._settle(subscription, references, ack_type, ack.cause)
        self._consumer_registry.refill(subscription)
        if self._parked.connections:
            self._parked.unpark()
        if token == NO_TOKEN or not any(reference.sequence > 0 for reference in references):
            return True
        return self._router.answer_when_stored(state, token)

    def acknowledge_run(self, subscription: Subscription, producer_id: ProducerId, sequences: SequenceRun) -> int:
        """Carry out `Broker.acknowledge_run`."""
        return self._settle_run(subscription, subscription.in_flight.take_run(producer_id, sequences))

    def acknowledge_numbered(self, subscription: Subscription, numbers: SequenceRun) -> int:
        """Carry out `Broker.acknowledge_numbered`."""
        if subscription.info.browser:
            return 0
        return self._settle_run(subscription, subscription.in_flight.take_numbered(numbers))

    def _settle_run(self, subscription: Subscription, references: list[MessageReference]) -> int:
        if references:
            settle_all(references, subscription.way)
            self._consumer_registry.refill(subscription)
            if self._parked.connections:
                self._parked.unpark()
        return len(references)

    def _browsed(self, subscription: Subscription, ack_type: int, first: MessageId | None, last: MessageId) -> bool:
        """Release messages of a browser; type and transaction of the acknowledgement do not matter.

        A redelivered acknowledgement only says that the browser has shown a message. A repeated acknowledgement is no
        error.
        """
        if ack_type != REDELIVERED_ACK:
            for reference in subscription.in_flight.take_shown(last if ack_type == INDIVIDUAL_ACK else first, last):
                reference.destination.settle(reference)
            self._consumer_registry.refill(subscription)
            if self._parked.connections:
                self._parked.unpark()
        return True

    def _acknowledge_later(self, transaction: Transaction, subscription: Subscription, ack: MessageAck) -> None:
        transaction.check_full()
        transaction.note_begin(self._context.monotonic)
        references = self._take(subscription, ack.ack_type, ack.first, ack.last, ack.count)
        in_flight = subscription.in_flight
        transacted = TransactedAck(
            subscription, references, ack.ack_type, in_flight.taken_at, in_flight.taken_apart, ack.cause
        )
        try:
            transaction.add_ack(transacted)
        except JmsError as error:
            in_flight.put_back(references, transacted.numbers())
            transaction.spoil(error)
            raise
        in_flight.acknowledged_later(len(references))
        self._consumer_registry.refill(subscription)

    def _note(self, subscription: Subscription, ack: MessageAck) -> bool:
        """Handle the types that settle no message but move the window or count an attempt.

        Returns:
            False for all other types.
        """
        if ack.ack_type == DELIVERED_ACK:
            subscription.in_flight.delivered(ack.last, ack.count)
            return True
        if ack.ack_type == REDELIVERED_ACK:
            for reference in subscription.in_flight.in_range(ack.first, ack.last):
                reference.destination.note_reported(reference)
            return True
        return False

    def _take(
        self, subscription: Subscription, ack_type: int, first: MessageId | None, last: MessageId, count: int
    ) -> list[MessageReference]:
        """Take the acknowledged references from the consumer.

        Raises:
            IllegalStateError: the type is unknown, or a message is not in flight at the consumer.
        """
        if ack_type == INDIVIDUAL_ACK:
            return [subscription.in_flight.take_one(last)]
        if ack_type not in (STANDARD_ACK, POISON_ACK, EXPIRED_ACK, UNMATCHED_ACK):
            raise IllegalStateError(f"acknowledgement type {ack_type} is unknown")
        taken = subscription.in_flight.take_front(count, first, last)
        return taken if taken is not None else subscription.in_flight.take_range(first, last)

    def _settle(
        self, subscription: Subscription, references: list[MessageReference], ack_type: int, cause: str
    ) -> None:
        """Remove acknowledged messages from queue and store; poisoned or expired messages become dead letters."""
        if ack_type == POISON_ACK or ack_type == EXPIRED_ACK:
            self._send_to_dlq(references, EXPIRED if ack_type == EXPIRED_ACK else cause)
            return
        settle_all(references, ACKNOWLEDGED if ack_type == UNMATCHED_ACK else subscription.way)

    def _send_to_dlq(self, references: list[MessageReference], cause: str) -> None:
        """Turn the references into dead letters."""
        for reference in references:
            destination = reference.destination
            if cause == EXPIRED:
                destination.expired += 1
            if destination.leaves_dead_letters:
                self._context.dead_letter(reference, cause)
            else:
                destination.settle(reference)
