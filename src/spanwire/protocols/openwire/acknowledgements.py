"""Acknowledges messages for a client of OpenWire in the broker.

Acknowledgements come in runs, so the last consumer and the last producer are remembered, and those of each pattern.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import NO_TOKEN
from spanwire.model.acks import POISON_ACK, POISONED, MessageAck
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, JmsError, SpanwireError
from spanwire.model.ids import AnyTransactionId, MessageId, ProducerId, XaTransactionId
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.ack_run import AckPattern, AckRun, Prepared
from spanwire.protocols.openwire.consumer import OpenWireConsumer, Undelivered
from spanwire.protocols.openwire.exceptions import throwable_text
from spanwire.protocols.openwire.messages.identities import consumer_id_of, message_id_of, producer_id_of
from spanwire.protocols.openwire.output import token_of

logger = logging.getLogger(__name__)


class AckTarget(Prepared):
    """The subscription of the acknowledgements of a pattern, and the producer of their messages."""

    def __init__(self, subscription: Subscription, producer_id: ProducerId) -> None:
        self.subscription: Final[Subscription] = subscription
        self.producer_id = producer_id


class Acknowledgements:
    """Finds the subscription and the messages of each acknowledgement.

    The broker checks that the messages are in flight.
    """

    def __init__(self, broker: Broker, state: ConnectionState) -> None:
        self._broker: Final[Broker] = broker
        self._state: Final[ConnectionState] = state
        self._last: OpenWireConsumer | None = None
        self._last_producer = ProducerId("", 0, 0)

    def acknowledge(self, command: wire.MessageAck, transaction_id: AnyTransactionId | None, now: Time) -> bool:
        """Process a MessageAck of any type.

        The acknowledgement of a message not in flight to the consumer is refused. The exception is a failover client
        after a reconnect: the client acknowledges messages of the previous connection, and the broker delivers these
        messages again. Outside of a transaction such an acknowledgement has no effect. In a transaction the
        acknowledgement is refused as well, because a commit would be wrong.

        Returns:
            True to respond now.

        Raises:
            JmsError: the acknowledgement is refused.
        """
        first = command.first_message_id
        last = command.last_message_id
        token = token_of(command)
        try:
            subscription = self.subscription(command.consumer_id)
            if last is None:
                raise IllegalStateError("the acknowledgement names no message")
            ack = MessageAck(
                command.ack_type,
                None if first is None else self._message_id(first),
                self._message_id(last),
                command.message_count,
                POISONED if command.poison_cause is None else throwable_text(command.poison_cause),
            )
            return self._broker.acknowledge(self._state, subscription, ack, transaction_id, token, now)
        except IllegalStateError as error:
            if transaction_id is None and self._state.info.fault_tolerant:
                logger.debug("acknowledgement ignored: %s", error)
                return True
            self._spoil(transaction_id, error)
            raise
        except JmsError as refusal:  # a compiled variable has one type, so the names differ
            self._spoil(transaction_id, refusal)
            raise

    def acknowledge_run(self, run: AckRun, now: Time) -> int:
        """Acknowledge a run of single messages.

        Returns:
            The number of messages that were next in flight, from the first on.
        """
        target = self._target_of(run.pattern)
        if target is None:
            return 0
        subscription = target.subscription
        front = subscription.in_flight.front_producer()
        if front is not None and front is not target.producer_id and front == target.producer_id:
            target.producer_id = front  # comparing with the object that the messages share is faster
        return self._broker.acknowledge_run(subscription, target.producer_id, run.sequences, now)

    def poison(self, undelivered: list[Undelivered], now: Time) -> None:
        """Move unencodable messages to the dead letter queue by a poison acknowledgement."""
        while undelivered:
            entry = undelivered.pop()
            subscription = entry.consumer.subscription
            if subscription is None or subscription.removed:
                continue
            message_id = entry.message_id
            try:
                ack = MessageAck(POISON_ACK, message_id, message_id)
                self._broker.acknowledge(self._state, subscription, ack, None, NO_TOKEN, now)
            except SpanwireError as error:
                logger.warning(
                    "message %s could not become a dead letter, and stays with its consumer: %s",
                    message_id,
                    error,
                )

    def subscription(self, structure: wire.ConsumerId | None) -> Subscription:
        """Return the subscription of a consumer id, remembered because acknowledgements come in runs."""
        last = self._last
        if last is not None and structure is not None:
            known = last.consumer_id
            if (
                known.value == structure.value
                and known.session_id == structure.session_id
                and known.connection_id == structure.connection_id
                and last.subscription is not None
                and not last.subscription.removed
            ):
                return last.subscription
        consumer_id = consumer_id_of(structure)
        self._broker.access.check_own(self._state, consumer_id.connection_id)
        subscription = self._state.consumers.get(str(consumer_id))
        if subscription is None:
            raise IllegalStateError(f"The subscription does not exist: {consumer_id}")
        consumer = subscription.consumer
        if isinstance(consumer, OpenWireConsumer):
            self._last = consumer
        return subscription

    def forget_last(self) -> None:
        """Forget the remembered consumer, because consumers are removed."""
        self._last = None

    def _target_of(self, pattern: AckPattern) -> AckTarget | None:
        """Return the target of a pattern, None without such a consumer.

        The pattern keeps the target for the next run.
        """
        target = pattern.prepared
        if not isinstance(target, AckTarget):
            subscription = self._state.consumers.get(str(consumer_id_of(pattern.consumer_id)))
            if subscription is None:
                return None
            target = AckTarget(subscription, producer_id_of(pattern.producer_id))
            pattern.prepared = target
        if target.subscription.removed:
            pattern.prepared = None
            return None
        return target

    def _spoil(self, transaction_id: AnyTransactionId | None, error: JmsError) -> None:
        """Mark the transaction of a refused acknowledgement as rollback-only."""
        if isinstance(transaction_id, XaTransactionId):
            self._broker.xa.spoil(transaction_id, error)
        elif transaction_id is not None:
            transaction = self._state.transactions.get(str(transaction_id))
            if transaction is not None:
                transaction.spoil(error)

    def _message_id(self, structure: wire.MessageId) -> MessageId:
        """Convert a message id; remembers the last producer."""
        producer = structure.producer_id
        known = self._last_producer
        if producer is None or not (
            producer.value == known.value
            and producer.session_id == known.session_id
            and producer.connection_id == known.connection_id
        ):
            message_id = message_id_of(structure)
            self._last_producer = message_id.producer_id
            return message_id
        return MessageId(known, structure.producer_sequence_id, structure.text_view)
