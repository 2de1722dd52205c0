"""The base of plug-ins (ActiveMQ's ``BrokerFilter``).

Plug-ins see the requests of clients before the broker does.
"""

from __future__ import annotations

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageConsumer
from spanwire.model.acks import MessageAck, SequenceRun
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.ids import ConsumerId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConsumerInfo, ProducerInfo
from spanwire.model.message import Message


class BrokerFilter:
    """Sees each request before the next filter of a `FilteredBroker`. The last in the chain is the broker.

    A plug-in overrides the methods of certain requests; all other requests pass unchanged. Some methods return the
    argument or a substitute for the next filter. A method refuses the request by raising a `JmsError`.
    """

    def connection_added(self, state: ConnectionState) -> None:
        """See a new connection, after the login."""

    def remove_connection(self, state: ConnectionState) -> None:
        """See a connection that is about to be removed."""

    def add_session(self, state: ConnectionState, session_id: SessionId) -> None:
        """See a new session."""

    def remove_session(self, state: ConnectionState, session_id: SessionId) -> None:
        """See a session that is about to be closed."""

    def add_producer(self, state: ConnectionState, info: ProducerInfo) -> ProducerInfo:
        """Return the announcement of a new producer."""
        return info

    def remove_producer(self, state: ConnectionState, producer_id: ProducerId) -> None:
        """See a producer that is about to be removed."""

    def add_consumer(self, state: ConnectionState, info: ConsumerInfo) -> ConsumerInfo:
        """Return the announcement of a new consumer."""
        return info

    def wrap_consumer(self, info: ConsumerInfo, consumer: MessageConsumer, automatic: bool) -> MessageConsumer:
        """Return the receiver of the dispatches to a new consumer. Called before `add_consumer`.

        An ``automatic`` consumer sends no acknowledgements.
        """
        return consumer

    def remove_consumer(self, state: ConnectionState, consumer_id: ConsumerId) -> None:
        """See a consumer that is about to be removed."""

    def unsubscribe(self, state: ConnectionState, name: str) -> None:
        """See a durable subscription that is about to be deleted."""

    def resolve_destination(self, state: ConnectionState, destination: Destination) -> Destination:
        """Return the destination to be created or removed."""
        return destination

    def send(self, state: ConnectionState, message: Message, now: Time) -> Message | None:
        """Return the message to be sent, or None if the filter has answered the message."""
        return message

    def sent(self, state: ConnectionState, message: Message, is_transacted: bool, error: JmsError | None) -> None:
        """See a message that the broker has taken, or refused with ``error``."""

    def stored(self, position: int) -> None:
        """See that the disk has all changes up to a position of the store."""

    def acknowledge(self, subscription: Subscription, ack: MessageAck) -> None:
        """See an acknowledgement."""

    def acknowledge_run(self, subscription: Subscription, producer_id: ProducerId, sequences: SequenceRun) -> None:
        """See single acknowledgements of one producer's messages."""

    def acknowledge_numbered(self, subscription: Subscription, numbers: SequenceRun) -> None:
        """See single acknowledgements by the numbers of their dispatches."""

    def pull(self, subscription: Subscription, timeout_ms: int) -> None:
        """See a request for one message."""

    def begin(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """See the start of a local transaction."""

    def commit(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """See the commit of a local transaction."""

    def rollback(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """See the rollback of a local transaction."""

    def stop(self) -> None:
        """See the stop of the broker."""
