"""The logging plug-in: writes each client request of a selected kind, then carries out the request."""

from __future__ import annotations

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.plugins.event_log import EventLog, EventLogSettings, LoggedConsumer, LoggedDeaths
from spanwire.broker.plugins.path_separator_plugin import SeparatedBroker
from spanwire.broker.ports import ClientConnection, MessageConsumer
from spanwire.broker.routing.dead_letters import POISONED
from spanwire.model.environment import Time
from spanwire.model.ids import AnyTransactionId, ConsumerId, MessageId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message


class LoggedBroker(SeparatedBroker):
    """Writes the requests of clients, granted or refused. `log_events` is called before everything else."""

    _log: EventLog

    def log_events(self, settings: EventLogSettings) -> None:
        """Begin to write the events of ``settings``."""
        self._log = EventLog(settings)
        self._context.observer = self._log
        if self._log.internal:
            self._dead_letters.rules.insert(0, LoggedDeaths(self._log))

    def add_connection(self, connection: ClientConnection, info: ConnectionInfo, now: Time) -> ConnectionState:
        """Add a connection as `Broker.add_connection` does. Refused logins are in the audit log instead."""
        state = super().add_connection(connection, info, now)
        if self._log.connections:
            user = "nobody" if info.user_name is None else info.user_name
            client = "none" if info.client_id is None else info.client_id
            what = f"client id {client}, user {user}, {info.protocol} from {info.remote_address}"
            self._log.write("adding connection", info.connection_id, what)
        return state

    def remove_connection(self, state: ConnectionState, now: Time) -> None:
        """Remove a connection as `Broker.remove_connection` does."""
        if self._log.connections and not state.removed and not state.is_leaving:
            self._log.write("removing connection", state.connection_id)
        super().remove_connection(state, now)

    def add_session(self, state: ConnectionState, session_id: SessionId) -> None:
        """Add a session as `Broker.add_session` does."""
        if self._log.sessions:
            self._log.write("adding session", str(session_id))
        super().add_session(state, session_id)

    def remove_session(
        self, state: ConnectionState, session_id: SessionId, last_delivered_sequence: int, now: Time
    ) -> None:
        """Remove a session as `Broker.remove_session` does."""
        if self._log.sessions:
            self._log.write("removing session", str(session_id))
        super().remove_session(state, session_id, last_delivered_sequence, now)

    def add_producer(self, state: ConnectionState, info: ProducerInfo, now: Time) -> None:
        """Add a producer as `Broker.add_producer` does."""
        if self._log.producers:
            what = "any destination" if info.destination is None else str(info.destination)
            self._log.write("adding producer", str(info.producer_id), what)
        super().add_producer(state, info, now)

    def remove_producer(self, state: ConnectionState, producer_id: ProducerId, now: Time) -> None:
        """Remove a producer as `Broker.remove_producer` does."""
        if self._log.producers:
            self._log.write("removing producer", str(producer_id))
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
        if not self._log.consumers:
            return super().add_consumer(state, info, consumer, now, automatic)
        name = str(info.consumer_id)
        self._log.write("adding consumer", name, str(info.destination))
        return super().add_consumer(state, info, LoggedConsumer(consumer, name, self._log), now, automatic)

    def remove_consumer(
        self, state: ConnectionState, consumer_id: ConsumerId, last_delivered_sequence: int, now: Time
    ) -> None:
        """Remove a consumer as `Broker.remove_consumer` does."""
        if self._log.consumers:
            self._log.write("removing consumer", str(consumer_id))
        super().remove_consumer(state, consumer_id, last_delivered_sequence, now)

    def unsubscribe(self, state: ConnectionState, name: str, now: Time) -> None:
        """Delete a durable subscription as `Broker.unsubscribe` does."""
        if self._log.consumers:
            self._log.write("removing subscription", name, f"of {state.connection_id}")
        super().unsubscribe(state, name, now)

    def send(
        self, state: ConnectionState, message: Message, transaction_id: AnyTransactionId | None, token: int, now: Time
    ) -> bool:
        """Send a message as `SeparatedBroker.send` does."""
        if self._log.producers:
            self._log.sending(message)
        return super().send(state, message, transaction_id, token, now)

    def acknowledge(
        self,
        state: ConnectionState,
        subscription: Subscription,
        ack_type: int,
        first: MessageId | None,
        last: MessageId | None,
        count: int,
        transaction_id: AnyTransactionId | None,
        token: int,
        now: Time,
        cause: str = POISONED,
    ) -> bool:
        """Acknowledge as `Broker.acknowledge` does."""
        if self._log.consumers:
            what = f"{count} messages up to {last}" if count > 1 else str(last)
            self._log.write("acknowledging", f"consumer {subscription.info.consumer_id}", what)
        return super().acknowledge(state, subscription, ack_type, first, last, count, transaction_id, token, now, cause)

    def acknowledge_run(
        self, subscription: Subscription, producer_id: ProducerId, sequences: list[int], now: Time
    ) -> int:
        """Acknowledge as `Broker.acknowledge_run` does."""
        if self._log.consumers:
            what = f"{len(sequences)} messages of {producer_id}"
            self._log.write("acknowledging", f"consumer {subscription.info.consumer_id}", what)
        return super().acknowledge_run(subscription, producer_id, sequences, now)

    def pull(self, subscription: Subscription, timeout_ms: int, now: Time) -> None:
        """Pull as `Broker.pull` does."""
        if self._log.consumers:
            what = f"{timeout_ms} ms, {subscription.info.destination}"
            self._log.write("pulling", f"consumer {subscription.info.consumer_id}", what)
        super().pull(subscription, timeout_ms, now)

    def begin(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Begin a transaction as `Broker.begin` does."""
        if self._log.transactions:
            self._log.write("beginning transaction", str(transaction_id))
        super().begin(state, transaction_id)

    def commit(self, state: ConnectionState, transaction_id: TransactionId, token: int, now: Time) -> bool:
        """Commit as `Broker.commit` does."""
        if self._log.transactions:
            self._log.write("committing transaction", str(transaction_id))
        return super().commit(state, transaction_id, token, now)

    def rollback(self, state: ConnectionState, transaction_id: TransactionId, now: Time) -> None:
        """Roll back as `Broker.rollback` does."""
        if self._log.transactions:
            self._log.write("rolling back transaction", str(transaction_id))
        super().rollback(state, transaction_id, now)

    def stop(self, now: Time) -> None:
        """Stop as `Broker.stop` does."""
        if self._log.internal:
            self._log.write("stopping", self.name)
        super().stop(now)
