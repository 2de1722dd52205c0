"""The logging plug-in: writes each client request of a selected kind.

The requests are carried out unchanged.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.plugins.broker_filter import BrokerFilter
from spanwire.broker.plugins.event_log import EventLog, LoggedConsumer
from spanwire.broker.ports import MessageConsumer
from spanwire.model.acks import MessageAck, SequenceRun
from spanwire.model.environment import Time
from spanwire.model.ids import ConsumerId, ProducerId, SessionId, TransactionId
from spanwire.model.info import ConsumerInfo, ProducerInfo
from spanwire.model.message import Message


class LoggingFilter(BrokerFilter):
    """Writes the requests of clients, granted or refused."""

    def __init__(self, log: EventLog, broker_name: str) -> None:
        self._log: Final[EventLog] = log
        self._broker_name: Final[str] = broker_name

    def connection_added(self, state: ConnectionState) -> None:
        """Write a login. Refused logins are in the audit log instead."""
        if self._log.connections:
            info = state.info
            user = "nobody" if info.user_name is None else info.user_name
            client = "none" if info.client_id is None else info.client_id
            what = f"client id {client}, user {user}, {info.protocol} from {info.remote_address}"
            self._log.write("adding connection", info.connection_id, what)

    def remove_connection(self, state: ConnectionState) -> None:
        """Write the removal of a connection."""
        if self._log.connections:
            self._log.write("removing connection", state.connection_id)

    def add_session(self, state: ConnectionState, session_id: SessionId) -> None:
        """Write a new session."""
        if self._log.sessions:
            self._log.write("adding session", str(session_id))

    def remove_session(self, state: ConnectionState, session_id: SessionId) -> None:
        """Write the removal of a session."""
        if self._log.sessions:
            self._log.write("removing session", str(session_id))

    def add_producer(self, state: ConnectionState, info: ProducerInfo) -> ProducerInfo:
        """Write a new producer."""
        if self._log.producers:
            what = "any destination" if info.destination is None else str(info.destination)
            self._log.write("adding producer", str(info.producer_id), what)
        return info

    def remove_producer(self, state: ConnectionState, producer_id: ProducerId) -> None:
        """Write the removal of a producer."""
        if self._log.producers:
            self._log.write("removing producer", str(producer_id))

    def wrap_consumer(self, info: ConsumerInfo, consumer: MessageConsumer, automatic: bool) -> MessageConsumer:
        """Write a new consumer, and from now on each dispatch to the consumer."""
        if not self._log.consumers:
            return consumer
        name = str(info.consumer_id)
        self._log.write("adding consumer", name, str(info.destination))
        return LoggedConsumer(consumer, name, self._log)

    def remove_consumer(self, state: ConnectionState, consumer_id: ConsumerId) -> None:
        """Write the removal of a consumer."""
        if self._log.consumers:
            self._log.write("removing consumer", str(consumer_id))

    def unsubscribe(self, state: ConnectionState, name: str) -> None:
        """Write the deletion of a durable subscription."""
        if self._log.consumers:
            self._log.write("removing subscription", name, f"of {state.connection_id}")

    def send(self, state: ConnectionState, message: Message, now: Time) -> Message:
        """Write the arrival of a message."""
        if self._log.producers:
            self._log.sending(message)
        return message

    def acknowledge(self, subscription: Subscription, ack: MessageAck) -> None:
        """Write an acknowledgement."""
        if self._log.consumers:
            what = f"{ack.count} messages up to {ack.last}" if ack.count > 1 else str(ack.last)
            self._log.write("acknowledging", f"consumer {subscription.info.consumer_id}", what)

    def acknowledge_run(self, subscription: Subscription, producer_id: ProducerId, sequences: SequenceRun) -> None:
        """Write single acknowledgements as one line."""
        if self._log.consumers:
            what = f"{sequences.size} messages of {producer_id}"
            self._log.write("acknowledging", f"consumer {subscription.info.consumer_id}", what)

    def acknowledge_numbered(self, subscription: Subscription, numbers: SequenceRun) -> None:
        """Write single acknowledgements by numbers as one line."""
        if self._log.consumers:
            what = f"{numbers.size} messages"
            self._log.write("acknowledging", f"consumer {subscription.info.consumer_id}", what)

    def pull(self, subscription: Subscription, timeout_ms: int) -> None:
        """Write a request for one message."""
        if self._log.consumers:
            what = f"{timeout_ms} ms, {subscription.info.destination}"
            self._log.write("pulling", f"consumer {subscription.info.consumer_id}", what)

    def begin(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Write the start of a transaction."""
        if self._log.transactions:
            self._log.write("beginning transaction", str(transaction_id))

    def commit(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Write the commit of a transaction."""
        if self._log.transactions:
            self._log.write("committing transaction", str(transaction_id))

    def rollback(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Write the rollback of a transaction."""
        if self._log.transactions:
            self._log.write("rolling back transaction", str(transaction_id))

    def stop(self) -> None:
        """Log the stop of the broker."""
        if self._log.internal:
            self._log.write("stopping", self._broker_name)
