"""A broker behind a chain of filters.

A broker without plug-ins is a plain `Broker`, without any cost for plug-ins.
"""

from __future__ import annotations

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.plugins.broker_filter import BrokerFilter
from spanwire.broker.ports import ClientConnection, MessageConsumer, Principal
from spanwire.model.acks import MessageAck, SequenceRun
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.ids import AnyTransactionId, ConsumerId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message


class FilteredBroker(Broker):
    """Shows each request to the filters in order, then carries out the result of the last filter.

    Call `install` before any other method.
    """

    _filters: list[BrokerFilter]

    def install(self, filters: list[BrokerFilter]) -> None:
        """Set the filters, outermost first."""
        self._filters = filters

    def add_connection(
        self, connection: ClientConnection, info: ConnectionInfo, now: Time, principal: Principal | None = None
    ) -> ConnectionState:
        """Add a connection as `Broker.add_connection` does. Filters do not see refused logins."""
        state = super().add_connection(connection, info, now, principal)
        for broker_filter in self._filters:
            broker_filter.connection_added(state)
        return state

    def remove_connection(self, state: ConnectionState, now: Time) -> None:
        """Remove a connection as `Broker.remove_connection` does. Filters see the first call only."""
        if not state.removed and not state.is_leaving:
            for broker_filter in self._filters:
                broker_filter.remove_connection(state)
        super().remove_connection(state, now)

    def add_session(self, state: ConnectionState, session_id: SessionId) -> None:
        """Add a session as `Broker.add_session` does."""
        for broker_filter in self._filters:
            broker_filter.add_session(state, session_id)
        super().add_session(state, session_id)

    def remove_session(
        self, state: ConnectionState, session_id: SessionId, last_delivered_sequence: int, now: Time
    ) -> None:
        """Remove a session as `Broker.remove_session` does."""
        for broker_filter in self._filters:
            broker_filter.remove_session(state, session_id)
        super().remove_session(state, session_id, last_delivered_sequence, now)

    def add_producer(self, state: ConnectionState, info: ProducerInfo, now: Time) -> None:
        """Add a producer as `Broker.add_producer` does."""
        for broker_filter in self._filters:
            info = broker_filter.add_producer(state, info)
        super().add_producer(state, info, now)

    def remove_producer(self, state: ConnectionState, producer_id: ProducerId, now: Time) -> None:
        """Remove a producer as `Broker.remove_producer` does."""
        for broker_filter in self._filters:
            broker_filter.remove_producer(state, producer_id)
        super().remove_producer(state, producer_id, now)

    def add_consumer(
        self,
        state: ConnectionState,
        info: ConsumerInfo,
        consumer: MessageConsumer,
        now: Time,
        automatic: bool = False,
    ) -> Subscription:
        """Add a consumer as `Broker.add_consumer` does."""
        for broker_filter in self._filters:
            consumer = broker_filter.wrap_consumer(info, consumer, automatic)
            info = broker_filter.add_consumer(state, info)
        return super().add_consumer(state, info, consumer, now, automatic)

    def remove_consumer(
        self, state: ConnectionState, consumer_id: ConsumerId, last_delivered_sequence: int, now: Time
    ) -> None:
        """Remove a consumer as `Broker.remove_consumer` does."""
        for broker_filter in self._filters:
            broker_filter.remove_consumer(state, consumer_id)
        super().remove_consumer(state, consumer_id, last_delivered_sequence, now)

    def unsubscribe(self, state: ConnectionState, name: str, now: Time) -> None:
        """Delete a durable subscription as `Broker.unsubscribe` does."""
        for broker_filter in self._filters:
            broker_filter.unsubscribe(state, name)
        super().unsubscribe(state, name, now)

    def add_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """Create a destination as `Broker.add_destination` does."""
        super().add_destination(state, self._resolved(state, destination), now)

    def remove_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """Remove a destination as `Broker.remove_destination` does."""
        super().remove_destination(state, self._resolved(state, destination), now)

    def _resolved(self, state: ConnectionState, destination: Destination) -> Destination:
        for broker_filter in self._filters:
            destination = broker_filter.resolve_destination(state, destination)
        return destination

    def send(
        self, state: ConnectionState, message: Message, transaction_id: AnyTransactionId | None, token: int, now: Time
    ) -> bool:
        """Send as `Broker.send` does. A filter may answer the message instead."""
        self._context.begin_request(now)
        for broker_filter in self._filters:
            changed = broker_filter.send(state, message, now)
            if changed is None:
                return True
            message = changed
        try:
            is_answered = super().send(state, message, transaction_id, token, now)
        except JmsError as error:
            for broker_filter in self._filters:
                broker_filter.sent(state, message, transaction_id is not None, error)
            raise
        for broker_filter in self._filters:
            broker_filter.sent(state, message, transaction_id is not None, None)
        return is_answered

    def stored(self, position: int, now: Time) -> None:
        """Send the withheld answers as `Broker.stored` does."""
        super().stored(position, now)
        for broker_filter in self._filters:
            broker_filter.stored(position)

    def acknowledge(
        self,
        state: ConnectionState,
        subscription: Subscription,
        ack: MessageAck,
        transaction_id: AnyTransactionId | None,
        token: int,
        now: Time,
    ) -> bool:
        """Acknowledge as `Broker.acknowledge` does."""
        self._context.begin_request(now)
        for broker_filter in self._filters:
            broker_filter.acknowledge(subscription, ack)
        return super().acknowledge(state, subscription, ack, transaction_id, token, now)

    def acknowledge_run(
        self, subscription: Subscription, producer_id: ProducerId, sequences: SequenceRun, now: Time
    ) -> int:
        """Acknowledge as `Broker.acknowledge_run` does."""
        self._context.begin_request(now)
        for broker_filter in self._filters:
            broker_filter.acknowledge_run(subscription, producer_id, sequences)
        return super().acknowledge_run(subscription, producer_id, sequences, now)

    def acknowledge_numbered(self, subscription: Subscription, numbers: SequenceRun, now: Time) -> int:
        """Acknowledge as `Broker.acknowledge_numbered` does."""
        self._context.begin_request(now)
        for broker_filter in self._filters:
            broker_filter.acknowledge_numbered(subscription, numbers)
        return super().acknowledge_numbered(subscription, numbers, now)

    def pull(self, subscription: Subscription, timeout_ms: int, now: Time) -> None:
        """Pull as `Broker.pull` does."""
        for broker_filter in self._filters:
            broker_filter.pull(subscription, timeout_ms)
        super().pull(subscription, timeout_ms, now)

    def begin(self, state: ConnectionState, transaction_id: TransactionId, now: Time) -> None:
        """Begin a transaction as `Broker.begin` does."""
        for broker_filter in self._filters:
            broker_filter.begin(state, transaction_id)
        super().begin(state, transaction_id, now)

    def commit(self, state: ConnectionState, transaction_id: TransactionId, token: int, now: Time) -> bool:
        """Commit as `Broker.commit` does."""
        for broker_filter in self._filters:
            broker_filter.commit(state, transaction_id)
        return super().commit(state, transaction_id, token, now)

    def rollback(self, state: ConnectionState, transaction_id: TransactionId, now: Time) -> None:
        """Roll back as `Broker.rollback` does."""
        for broker_filter in self._filters:
            broker_filter.rollback(state, transaction_id)
        super().rollback(state, transaction_id, now)

    def stop(self, now: Time) -> None:
        """Stop as `Broker.stop` does."""
        for broker_filter in self._filters:
            broker_filter.stop()
        super().stop(now)
