"""Executes the commands of a logged-in client in the broker.

A refused command raises a `JmsError`, which the connection converts to an ExceptionResponse or a ConnectionError. Every
id inside a command must belong to this connection: identity comes from the session, never from the message
(CVE-2026-74761).
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.security.audit_log import printable
from spanwire.broker.transactions.xa_transactions import XA_OK
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN
from spanwire.model.environment import Time
from spanwire.model.errors import (
    JmsError,
    MessageFormatError,
)
from spanwire.model.ids import AnyTransactionId, TransactionId, XaTransactionId
from spanwire.model.message import Message
from spanwire.model.routing import UNLIMITED_TTL, NetworkFilter
from spanwire.protocols.openwire.acknowledgements import Acknowledgements
from spanwire.protocols.openwire.announcements import consumer_info_of, producer_info_of
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.ack_run import AckRun
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.consumer import OpenWireConsumer, Undelivered
from spanwire.protocols.openwire.messages.identities import (
    connection_id_of,
    consumer_id_of,
    destination_of,
    producer_id_of,
    session_id_of,
    transaction_id_of,
)
from spanwire.protocols.openwire.messages.message_format import (
    SUSPECT_OCTETS,
    TRANSACTED,
    MessageReader,
    OpenWireMessageFormat,
)
from spanwire.protocols.openwire.output import UNSIGNED, OutputBuffer, token_of
from spanwire.protocols.openwire.producers import AnnouncedProducers, delivered_before, transaction_of, window_size_of
from spanwire.protocols.openwire.xa_commands import BEGIN, COMMIT_ONE_PHASE, END, RECOVER, ROLLBACK, XaCommands

LAST_TRANSACTION_TYPE: Final = 7

ADD_DESTINATION: Final = 0
REMOVE_DESTINATION: Final = 1

SIGN: Final = 0x80000000
WINDOW_SHIFT: Final = 33  # bits; a token above 32 bits is a producer's number and a size for its window
WINDOW_SIZE: Final = (1 << WINDOW_SHIFT) - 1

logger = logging.getLogger(__name__)


class ClientCommands(wire.CommandVisitor):
    """Executes the commands of one client.

    The connection calls `begin` before each command. After the command, the attributes have the following meanings:

    - ``withheld``: the response was sent, or will be sent through `answer`
    - ``is_disconnected``: the client has removed its connection
    - ``refusal``: the reason if the command is the commit of a transaction with a lost message or acknowledgement
    """

    def __init__(
        self,
        broker: Broker,
        state: ConnectionState,
        output: OutputBuffer,
        message_format: OpenWireMessageFormat,
        version: int,
        now: Time,
    ) -> None:
        self.state: Final[ConnectionState] = state
        self.now = now
        self.withheld = False
        self.is_disconnected = False
        self.farewell = NO_TOKEN  # token of a RemoveInfo that waits for parked sends
        self.refusal: JmsError | None = None
        self.undelivered: Final[list[Undelivered]] = []
        self._broker: Final[Broker] = broker
        self.output: Final[OutputBuffer] = output
        self._message_format: Final[OpenWireMessageFormat] = message_format
        self._reader: MessageReader | None = None  # from the first message on: most connections only receive
        self._version: Final[int] = version
        self._connection_id: Final[str] = state.connection_id
        self._producers: Final[AnnouncedProducers] = AnnouncedProducers(broker, state)
        self._xa: Final[XaCommands] = XaCommands(broker, state, output)
        self._serves_bridge = False
        self._horizon: NetworkFilter | None = None
        self._in_window = 0  # token of the message in a producer's window during the call of the broker
        self._acks: Final[Acknowledgements] = Acknowledgements(broker, state)

    def serve_bridge(self, broker_id: str, broker_name: str) -> None:
        """Treat the client as a bridge of the broker ``broker_id``.

        The messages of a bridge come from other producers, and the remote broker has delivered some of the messages
        before. A bridge receives no advisories about consumers announced by the remote broker.
        """
        self._serves_bridge = True
        self._horizon = NetworkFilter(broker_id, UNLIMITED_TTL)
        self.state.forwards = True
        self.state.link = self._broker.assembly.context.links.number_of(broker_name)
        self.state.repeats = True
        self._producers.takes_foreign_ids = True

    def begin(self, now: Time) -> None:
        """Prepare for the next command."""
        self.now = now
        self.withheld = False
        self.refusal = None

    def message(self, command: wire.MessageFrame) -> None:
        """Send a message to its destination."""
        reader = self._reader
        if reader is None:
            reader = self._message_format.new_reader()
            self._reader = reader
        message_format = self._message_format
        if command.version == message_format.version:
            message = message_format.indexed(command.raw, reader)
        else:
            message = message_format.received(command, reader)
        producer = self._producers.sender(message.raw, message, reader.scanner.front)
        if self._serves_bridge:
            self._note_forwarded(message)
        transaction_id = transaction_of(message, producer) if message.format_index & TRANSACTED else None
        if isinstance(transaction_id, TransactionId):
            self._check_own(transaction_id.connection_id)
        token = NO_TOKEN
        if command.response_required:
            token = command.command_id & UNSIGNED
        elif producer.window_size > 0:
            token = producer.number << WINDOW_SHIFT | window_size_of(message)
            self._in_window = token
        if message.tail_start - message.properties_start > SUSPECT_OCTETS:
            self._check_properties(message, transaction_id)
        done = self._broker.send(self.state, message, transaction_id, token, self.now)
        self._count_received(message)
        if token == NO_TOKEN:
            return
        self._in_window = 0
        self.withheld = True
        if done:
            self.answer(token)

    def _count_received(self, message: Message) -> None:
        """Count a message of a duplex link that the broker took."""
        received = self.state.received
        if received is not None:
            received.count(message.destination)

    def _note_forwarded(self, message: Message) -> None:
        """Note the deliveries of a bridge's message by other brokers."""
        message.redelivery_count = delivered_before(self._message_format, message)

    def _check_properties(self, message: Message, transaction_id: AnyTransactionId | None) -> None:
        try:
            self._message_format.check_properties(message)
        except MessageFormatError as error:
            self._broker.refuse_message(self.state, transaction_id, error)

    def answer(self, token: int) -> None:
        """Send the response for ``token``: a Response, or a ProducerAck for a producer window."""
        correlation_id = self.correlation_of(token)
        if correlation_id is not None:
            if self._xa.votes and token in self._xa.votes:
                self._xa.votes.discard(token)
                self._xa.vote(correlation_id, XA_OK)
                return
            self.output.respond(correlation_id)
        else:
            self.release_window(token)

    def forget(self, token: int) -> None:
        """Release the window space, or the vote of a prepare, of a request refused later."""
        if token != NO_TOKEN:
            self._xa.votes.discard(token)
            self.release_window(token)

    def refused(self) -> None:
        """Release the window space of a refused message, because the client would wait for the space forever."""
        if self._in_window > 0:
            self.release_window(self._in_window)
            self._in_window = 0

    def release_window(self, token: int) -> None:
        """Release the window space of the message with ``token``, which was accepted or refused."""
        producer = self._producers.by_number(token >> WINDOW_SHIFT)
        if token > UNSIGNED and producer is not None:
            self.output.answer(wire.ProducerAck(producer_id=producer.structure, size=token & WINDOW_SIZE))

    def correlation_of(self, token: int) -> int | None:
        """Return the command id of a token; None for a producer window and for `NO_TOKEN`."""
        if token > UNSIGNED or token == NO_TOKEN:
            return None
        return token - (UNSIGNED + 1) if token & SIGN else token

    def message_ack(self, command: wire.MessageAck) -> None:
        """Process a MessageAck of any type."""
        self.withheld = not self._acks.acknowledge(command, self._transaction(command.transaction_id), self.now)

    def ack_run(self, run: AckRun) -> int:
        """Acknowledge a run of single messages.

        Returns:
            The number of messages that were next in flight, from the first on.
        """
        return self._acks.acknowledge_run(run, self.now)

    def message_pull(self, command: wire.MessagePull) -> None:
        """Pull one message for a consumer without prefetch."""
        subscription = self._acks.subscription(command.consumer_id)
        self._respond_first(command)
        self._broker.pull(subscription, command.timeout, self.now)

    def transaction_info(self, command: wire.TransactionInfo) -> None:
        """Begin, commit or roll back a transaction, prepare an XA branch, or list the branches in doubt."""
        kind = command.type
        if kind < BEGIN or kind > LAST_TRANSACTION_TYPE:
            raise JmsError(f"Transaction info type unknown: {kind}")
        if command.connection_id is not None:
            self._check_own(connection_id_of(command.connection_id))
        if kind == RECOVER:
            self._xa.recover(command)
            self.withheld = True
            return
        transaction_id = self._transaction(command.transaction_id)
        if isinstance(transaction_id, XaTransactionId):
            token = token_of(command)
            self.withheld = True
            try:
                self.withheld = not self._xa.act(command, transaction_id, token, self.now)
            finally:
                self.refusal = self._xa.refusal
            return
        if transaction_id is None:
            raise JmsError(f"transaction info type {kind} names no transaction")
        if kind == BEGIN:
            self._broker.begin(self.state, transaction_id, self.now)
        elif kind == COMMIT_ONE_PHASE:
            self._commit(command, transaction_id)
        elif kind == ROLLBACK:
            self._broker.rollback(self.state, transaction_id, self.now)
        elif kind != END:
            raise JmsError(f"a local transaction knows no transaction info type {kind}: it is for XA transactions")

    def _commit(self, command: wire.TransactionInfo, transaction_id: TransactionId) -> None:
        transaction = self.state.transactions.get(str(transaction_id))
        self.refusal = None if transaction is None else transaction.refusal
        token = token_of(command)
        self.withheld = not self._broker.commit(self.state, transaction_id, token, self.now)

    def session_info(self, command: wire.SessionInfo) -> None:
        """Add a session."""
        session_id = session_id_of(command.session_id)
        self._check_own(session_id.connection_id)
        self._broker.add_session(self.state, session_id)

    def producer_info(self, command: wire.ProducerInfo) -> None:
        """Add a producer."""
        info = producer_info_of(command)
        self._check_own(info.producer_id.connection_id)
        self._broker.add_producer(self.state, info, self.now)
        self._producers.add(info)

    def consumer_info(self, command: wire.ConsumerInfo) -> None:
        """Add a consumer, unless the consumer exists already.

        The response precedes the first dispatch; for a durable subscription it waits until the subscription is stored.

        A listener of advisories receives the advisories about existing objects before the response. So after the
        response a client may send to a temporary destination at once, and knows of the destination.
        """
        info = consumer_info_of(command, self.state.info.client_id, self._horizon)
        self._check_own(info.consumer_id.connection_id)
        if str(info.consumer_id) in self.state.consumers:
            return
        if command.network_subscription or command.additional_predicate is not None:
            raise JmsError("duplex connections are not supported yet: network subscriptions are made by bridges here")
        consumer = OpenWireConsumer(
            info.consumer_id, self.output, self._broker.formats, self._message_format, self.undelivered
        )
        subscription = self._broker.add_consumer(self.state, info, consumer, self.now)
        consumer.subscription = subscription
        if info.subscription_name is not None:
            self._answer_when_stored(command)
        elif not info.destination.is_advisory:
            self._respond_first(command)
        self._broker.start_consumer(subscription, self.now)

    def consumer_control(self, command: wire.ConsumerControl) -> None:
        """Change the prefetch of a consumer; no client ever used the rest of the command."""
        subscription = self._acks.subscription(command.consumer_id)
        self._respond_first(command)
        if not command.close and command.prefetch >= 0:
            self._broker.set_prefetch(subscription, command.prefetch, self.now)

    def destination_info(self, command: wire.DestinationInfo) -> None:
        """Create a destination, mostly a temporary one, or remove a destination."""
        if command.connection_id is not None:
            self._check_own(connection_id_of(command.connection_id))
        destination = destination_of(command.destination)
        if command.operation_type == ADD_DESTINATION:
            self._broker.add_destination(self.state, destination, self.now)
        elif command.operation_type == REMOVE_DESTINATION:
            self._broker.remove_destination(self.state, destination, self.now)
        else:
            raise JmsError(f"destination operation {command.operation_type} is unknown")

    def remove_info(self, command: wire.RemoveInfo) -> None:
        """Remove a connection, session, producer or consumer."""
        last_delivered = command.last_delivered_sequence_id if self._version >= 5 else LAST_DELIVERED_UNKNOWN
        object_id = command.object_id
        if isinstance(object_id, wire.ConsumerId):
            consumer_id = consumer_id_of(object_id)
            self._check_own(consumer_id.connection_id)
            self._acks.forget_last()
            self._broker.remove_consumer(self.state, consumer_id, last_delivered, self.now)
        elif isinstance(object_id, wire.ProducerId):
            producer_id = producer_id_of(object_id)
            self._check_own(producer_id.connection_id)
            self._broker.remove_producer(self.state, producer_id, self.now)
            self._producers.remove(producer_id)
        else:
            self._remove_owner(command, last_delivered)

    def _remove_owner(self, command: wire.RemoveInfo, last_delivered: int) -> None:
        self._acks.forget_last()
        object_id = command.object_id
        if isinstance(object_id, wire.SessionId):
            session_id = session_id_of(object_id)
            self._check_own(session_id.connection_id)
            self._broker.remove_session(self.state, session_id, last_delivered, self.now)
            self._producers.remove_session(session_id.value)
        elif isinstance(object_id, wire.ConnectionId):
            self._check_own(connection_id_of(object_id))
            self._remove_consumers(last_delivered)
            if command.response_required and self.state.parked:
                self.farewell = command.command_id & UNSIGNED
                self.withheld = True
                self.state.answer_last_parked(self.farewell)
                return
            self.is_disconnected = True
            self._broker.remove_connection(self.state, self.now)
        else:
            raise OpenWireProtocolError("a RemoveInfo names no connection, session, producer or consumer")

    def leave(self, now: Time) -> None:
        """Remove the connection and send the response, after the parked sends are finished."""
        self.output.respond(self.correlation_of(self.farewell) or 0)
        self.farewell = NO_TOKEN
        self._broker.remove_connection(self.state, now)

    def _remove_consumers(self, last_delivered: int) -> None:
        """Remove all consumers with the last delivered sequence, which the end of a connection has as well."""
        for subscription in list(self.state.consumers.values()):
            self._broker.remove_consumer(self.state, subscription.info.consumer_id, last_delivered, self.now)

    def remove_subscription_info(self, command: wire.RemoveSubscriptionInfo) -> None:
        """Delete a durable subscription."""
        if command.connection_id is not None:
            self._check_own(connection_id_of(command.connection_id))
        if command.client_id is not None and command.client_id != self.state.info.client_id:
            self._broker.access.refuse(self.state, f"act for client id {printable(command.client_id)}")
        self._broker.unsubscribe(self.state, command.subscription_name or "", self.now)
        self._answer_when_stored(command)

    def keep_alive_info(self, command: wire.KeepAliveInfo) -> None:
        """Answer a keep-alive that asks for a response by a KeepAliveInfo, not by a Response."""
        self.withheld = True
        if command.response_required:
            self.output.answer(wire.KeepAliveInfo())

    def control_command(self, command: wire.ControlCommand) -> None:
        """Refuse a ControlCommand, which once stopped brokers remotely (CVE-2014-3576)."""
        self._broker.access.refuse(self.state, f"control the broker: {printable(command.command or '')}")

    def shutdown_info(self, command: wire.ShutdownInfo) -> None:
        """Ignore a ShutdownInfo; the client closes the connection next."""

    def connection_control(self, command: wire.ConnectionControl) -> None:
        """Ignore a ConnectionControl, which has no meaning after the login."""

    def other(self, command: wire.Command) -> None:
        """Accept FlushCommand and MessageDispatchNotification without effect."""

    def acknowledge_undelivered(self, now: Time) -> None:
        """Move unencodable messages to the dead letter queue."""
        self._acks.poison(self.undelivered, now)

    def _check_own(self, connection_id: str) -> None:
        if connection_id != self._connection_id:
            self._broker.access.check_own(self.state, connection_id)

    def _transaction(self, structure: wire.TransactionId | None) -> AnyTransactionId | None:
        transaction_id = transaction_id_of(structure)
        if isinstance(transaction_id, TransactionId):
            self._check_own(transaction_id.connection_id)
        return transaction_id

    def _answer_when_stored(self, command: wire.BaseCommand) -> None:
        """Send the response after the changes of the command are stored."""
        token = token_of(command)
        self.withheld = not self._broker.answer_when_stored(self.state, token)

    def _respond_first(self, command: wire.BaseCommand) -> None:
        """Send the response before the effects of the command."""
        self.withheld = True
        if command.response_required:
            self.output.respond(command.command_id)
