"""Session of the client core: acknowledgement mode and transaction (JMS 1.1 §4.4)."""

from __future__ import annotations

from typing import Final

from spanwire.client.addressing.options import ClientSettings
from spanwire.client.messages.message import Message, MessageAcknowledger
from spanwire.client.protocol.consumer import AUTO, CLIENT, DUPS_OK, INDIVIDUAL, TRANSACTED, ClientConsumer
from spanwire.client.protocol.producer import ClientProducer, SendDefaults
from spanwire.client.protocol.response_correlator import Request, ResponseCorrelator
from spanwire.client.protocol.transaction import LocalTransaction
from spanwire.client.protocol.xa import ReceivedMessages, XaBranches, XaTransaction
from spanwire.documents.spelling import suggestion
from spanwire.model.acks import LAST_DELIVERED_UNSET
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import (
    ConfigurationError,
    IllegalStateError,
    InvalidDestinationError,
    JmsError,
    TransactionRolledBackError,
)
from spanwire.protocols.openwire.codec import _marshallers as wire

MODES: Final[dict[str, int]] = {
    "transacted": TRANSACTED,
    "auto": AUTO,
    "client": CLIENT,
    "dups_ok": DUPS_OK,
    "individual": INDIVIDUAL,
    "xa": TRANSACTED,
}
CLOSED_OFFLINE: Final = "the session was closed while there was no broker, and its transaction is rolled back"
BROKEN_TRANSACTION: Final = "the connection broke inside the transaction, which the broker has rolled back"


class ClientSession:
    """A session.

    The connection numbers producers and consumers; the response correlator sends the commands.
    """

    def __init__(
        self,
        correlator: ResponseCorrelator,
        session_id: wire.SessionId,
        mode: int,
        settings: ClientSettings,
        is_xa: bool = False,
    ) -> None:
        assert session_id.connection_id is not None
        self.number: Final[int] = session_id.value
        self.mode: Final[int] = mode
        self.is_closed = False
        self.producers: Final[dict[int, ClientProducer]] = {}
        self.consumers: Final[dict[int, ClientConsumer]] = {}
        self._closed_consumers: list[ClientConsumer] = []
        branch = XaTransaction(correlator, session_id.connection_id, session_id.value) if is_xa else None
        self.xa: Final[XaBranches | None] = (
            None if branch is None else XaBranches(correlator, branch, self._acknowledge_received, self._close_leaving)
        )
        self.transaction: Final[LocalTransaction] = (
            LocalTransaction(
                correlator,
                session_id.connection_id,
                session_id.value,
                mode == TRANSACTED,
                mode == TRANSACTED and correlator.keeps_transactions,
            )
            if branch is None
            else branch
        )
        self._id: Final[wire.SessionId] = session_id
        self._correlator: Final[ResponseCorrelator] = correlator
        self._settings: Final[ClientSettings] = settings

    def announcement(self) -> wire.SessionInfo:
        """Return the SessionInfo."""
        return wire.SessionInfo(self._id)

    def check_open(self) -> None:
        """Raise `IllegalStateError` for a closed session, or the failure of the connection."""
        if self.is_closed:
            raise IllegalStateError("the session is closed")
        self._correlator.check_open()

    def add_producer(self, number: int, destination: Destination | None, defaults: SendDefaults) -> ClientProducer:
        """Create a producer, to be announced with `ClientProducer.announce`."""
        self.check_open()
        producer_id = wire.ProducerId(connection_id=self._id.connection_id, value=number, session_id=self.number)
        producer = ClientProducer(
            self._correlator, self.transaction, producer_id, destination, defaults, self._settings
        )
        self.producers[number] = producer
        return producer

    def add_consumer(
        self, number: int, info: wire.ConsumerInfo, acknowledger: MessageAcknowledger | None
    ) -> ClientConsumer:
        """Create a consumer, to be announced with `ClientConsumer.announce`, and set the id in ``info``.

        Raises `InvalidDestinationError` for a temporary destination of another connection (JMS 1.1 §4.4.3): some
        brokers accept such a consumer.
        """
        self.check_open()
        target = info.destination
        if isinstance(target, wire.ActiveMQTempDestination):
            name = target.physical_name or ""
            if not name.startswith(f"{self._id.connection_id}:"):
                raise InvalidDestinationError(f"{name} is a temporary destination of another connection")
        info.consumer_id = wire.ConsumerId(connection_id=self._id.connection_id, session_id=self.number, value=number)
        consumer = ClientConsumer(self._correlator, info, self.mode, self._settings, acknowledger)
        self.consumers[number] = consumer
        return consumer

    def close_consumer(self, consumer: ClientConsumer) -> Request | None:
        """Close a consumer.

        Returns None without a request: without a link, or if the open transaction has messages of the consumer.
        """
        if self.mode == TRANSACTED and consumer.has_delivered and not consumer.is_closed:
            consumer.closes_with_transaction = True
            return None
        self.consumers.pop(consumer.number, None)
        return consumer.close()

    def close_producer(self, producer: ClientProducer) -> Request | None:
        """Close a producer. Returns None if the broker need not be told."""
        self.producers.pop(producer.number, None)
        if self.transaction.is_replayable:
            self.transaction.on_producer_closed(
                producer.number, producer.announcement(), self._correlator.keeps_producers
            )
        return producer.close()

    def abandon_consumer(self, consumer: ClientConsumer) -> None:
        """Remove a consumer after a refusal of the broker, or after the caller gave up waiting."""
        if consumer.is_refused:
            self.consumers.pop(consumer.number, None)
        else:
            self.close_consumer(consumer)

    def abandon_producer(self, producer: ClientProducer) -> None:
        """Remove a producer after a refusal of the broker, or after the caller gave up waiting."""
        if producer.is_refused:
            self.producers.pop(producer.number, None)
        else:
            self.close_producer(producer)

    def acknowledge(self, message: Message) -> None:
        """Acknowledge as `Message.acknowledge`: all delivered messages, one message, or none, by the mode."""
        self.check_open()
        if self.mode == CLIENT:
            if message.epoch == self._correlator.epoch:
                self.acknowledge_all()
        elif self.mode == INDIVIDUAL:
            consumer = self.consumers.get(message.consumer_number)
            if consumer is not None:
                consumer.acknowledge_one(message)

    def redeliver(self, message: Message, now: Time) -> ClientConsumer | None:
        """Redeliver one message by the redelivery policy. Raises `IllegalStateError` unless the mode is individual.

        Returns the consumer of the message, for the shell to wake, or None if the consumer is closed.
        """
        consumer = self._consumer_of(message)
        if consumer is not None:
            consumer.redeliver_one(message, now)
        return consumer

    def reject(self, message: Message, cause: str) -> None:
        """Send one message to the dead letters. Raises `IllegalStateError` unless the mode is individual."""
        consumer = self._consumer_of(message)
        if consumer is not None:
            consumer.reject_one(message, cause)

    def _consumer_of(self, message: Message) -> ClientConsumer | None:
        self.check_open()
        if self.mode != INDIVIDUAL:
            raise IllegalStateError('only a session("individual") redelivers or rejects single messages')
        return self.consumers.get(message.consumer_number)

    def acknowledge_all(self) -> None:
        """Acknowledge all delivered messages of all consumers."""
        for consumer in self.consumers.values():
            consumer.acknowledge_delivered(self.transaction.octets)

    def recover(self, now: Time) -> None:
        """Redeliver all unacknowledged messages. Raises `IllegalStateError` in a transacted session."""
        self.check_open()
        if self.mode == TRANSACTED:
            raise IllegalStateError("a transacted session is rolled back, not recovered")
        for consumer in self.consumers.values():
            consumer.rollback(now)

    def commit(self, now: Time) -> Request | None:
        """Commit the transaction. Returns None if the transaction is empty.

        Raises:
            TransactionRolledBackError: The connection broke inside of the transaction.
            IllegalStateError: The session is not transacted.
        """
        self._check_transacted()
        transaction = self.transaction
        if transaction.is_broken:
            transaction.is_broken = False
            self._roll_consumers_back(now)
            raise TransactionRolledBackError(BROKEN_TRANSACTION)
        if self._has_delivered():
            transaction.begin()
            self.acknowledge_all()
        if not transaction.is_begun:
            return None
        return transaction.commit()

    def rollback(self, now: Time) -> Request | None:
        """Roll back and redeliver the delivered messages. Returns None if the broker has no transaction."""
        self._check_transacted()
        transaction = self.transaction
        transaction.is_broken = False
        request = transaction.rollback() if transaction.is_begun else None
        self._roll_consumers_back(now)
        return request

    def on_commit_answered(self, error: JmsError | None, now: Time) -> None:
        """Handle the response to a commit: keep the acknowledgements, or redeliver after an error."""
        if error is None:
            for consumer in self.consumers.values():
                consumer.on_committed()
            self._close_leaving()
        else:
            self._roll_consumers_back(now)

    def on_interrupted(self) -> None:
        """Handle a lost link: the transaction breaks, unless a replay to the next broker is possible."""
        transaction = self.transaction
        if self.xa is not None:
            self.xa.on_interrupted()
        elif self.mode == TRANSACTED and self._has_delivered():
            transaction.begin()  # breaks below: messages delivered inside of it are lost, too
            transaction.forget()
        if not transaction.is_replayable:
            transaction.mark_broken()
        for consumer in self.consumers.values():
            consumer.on_interrupted()
        self._close_leaving()

    def _check_transacted(self) -> None:
        self.check_open()
        if self.xa is not None:
            raise IllegalStateError("an XA session commits by branch: call xa.commit(xid) or xa.rollback(xid)")
        if self.mode != TRANSACTED:
            raise IllegalStateError("the session is not transacted")

    def branches(self) -> XaBranches:
        """Return the branches of an XA session. Raises `IllegalStateError` for any other session."""
        self.check_open()
        if self.xa is None:
            raise IllegalStateError('only a session("xa") works in branches of distributed transactions')
        return self.xa

    def _acknowledge_received(self) -> ReceivedMessages:
        """Acknowledge in the branch all messages received in the branch. Returns the messages by consumer."""
        self.acknowledge_all()
        return [(consumer, consumer.take_delivered()) for consumer in self.consumers.values()]

    def _has_delivered(self) -> bool:
        return any(consumer.has_delivered for consumer in self.consumers.values())

    def _roll_consumers_back(self, now: Time) -> None:
        for consumer in self.consumers.values():
            consumer.rollback(now)
        self._close_leaving()

    def _close_leaving(self) -> None:
        for consumer in list(self.consumers.values()):
            if consumer.closes_with_transaction:
                self.consumers.pop(consumer.number, None)
                consumer.close()
                self._closed_consumers.append(consumer)

    def take_closed_consumers(self) -> list[ClientConsumer]:
        """Return and remove the consumers closed at the end of a transaction."""
        consumers = self._closed_consumers
        if consumers:
            self._closed_consumers = []
        return consumers

    def close(self) -> Request | None:
        """Close the session, all producers and all consumers. Returns None without a request to the broker."""
        if self.is_closed:
            return None
        self.is_closed = True
        if self._correlator.is_online:
            if self.transaction.is_begun:
                self.transaction.rollback()
        else:
            self._correlator.complete_in_transaction(self.number, IllegalStateError(CLOSED_OFFLINE))
            self.transaction.forget()
            self.transaction.reset()
        last_delivered = LAST_DELIVERED_UNSET
        for consumer in self.consumers.values():
            consumer.leave_with_owner()
            consumer.is_closed = True
            last_delivered = max(last_delivered, consumer.last_delivered)
        for producer in self.producers.values():
            producer.is_closed = True
        self.consumers.clear()
        self.producers.clear()
        return self._correlator.remove(
            wire.RemoveInfo(object_id=self._id, last_delivered_sequence_id=last_delivered), self.number
        )

    def let_go(self) -> None:
        """Forget consumers and producers of a closed connection, since they refer to the session."""
        self.consumers.clear()
        self.producers.clear()


def mode_of(acknowledge: str) -> int:
    """Return the number of an acknowledgement mode.

    Raises `ConfigurationError` with the closest known name for an unknown mode.
    """
    mode = MODES.get(acknowledge)
    if mode is None:
        word = str(acknowledge)[:40]
        raise ConfigurationError(f"unknown acknowledgement mode {word!r}{suggestion(word, MODES, ', ')}")
    return mode
