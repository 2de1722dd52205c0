"""The client's side of an OpenWire connection, without a socket.

Takes bytes and time, returns bytes and messages:

    connection.on_connected(address, now)                  # after the shell has opened a socket
    connection.receive_data(data, now)                     # bytes from the broker
    write(connection.data_to_send()); connection.on_written(now)
    connection.take_completed(); connection.take_woken()   # calls to wake
    connection.on_disconnected(error, now)                 # after the socket has closed

    OFFLINE      no link; the shell connects to the next address of `failover`
    NEGOTIATING  the WireFormatInfo of both sides is on the way
    LOGIN        the ConnectionInfo is on the way
    ONLINE       the broker knows all sessions, producers and consumers
    CLOSED       closed by the caller, or failed for good

No command of a broker ends the process or the connection (CVE-2014-3576, CVE-2015-7559). Responses without a request
and messages for an unknown consumer are dropped.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from spanwire.client.addressing.address import BrokerAddress, BrokerUrl
from spanwire.client.addressing.options import ClientSettings
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.error_mapping import ReportedErrors, branch_refusal, one_line, refusal
from spanwire.client.protocol.removed_temporaries import TemporaryWatch
from spanwire.client.protocol.response_correlator import COMMIT, XA, Request, ResponseCorrelator
from spanwire.client.protocol.session import ClientSession, mode_of
from spanwire.client.protocol.transport.failover import Failover
from spanwire.client.protocol.transport.link import Link, LinkReceiver
from spanwire.client.protocol.transport.state_tracker import ConsumerReplays, settle_interrupted, temporary_info
from spanwire.model.acks import LAST_DELIVERED_UNSET
from spanwire.model.destination import Destination
from spanwire.model.environment import Environment, IdGenerator, Time
from spanwire.model.errors import IllegalStateError, JmsError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.codec.wire_format import WireFormat

REMOVE_DESTINATION: Final = 1

logger = logging.getLogger(__name__)


class State(Enum):
    """State of a connection."""

    OFFLINE = 0
    NEGOTIATING = 1
    LOGIN = 2
    ONLINE = 3
    CLOSED = 4


class ClientConnection(LinkReceiver):
    """One connection of an application, over one link after another.

    The shells own sockets and waiting calls.
    """

    def __init__(self, url: BrokerUrl, environment: Environment) -> None:
        seed = int.from_bytes(environment.random_bytes(4), "big")
        self.settings: Final[ClientSettings] = url.settings
        generated_id = IdGenerator(environment, seed).next_id()
        self.connection_id: Final[str] = prefixed(generated_id, url.settings.connection_id_prefix)
        self.client_id: Final[str] = url.settings.client_id or prefixed(
            f"{generated_id}:0", url.settings.client_id_prefix
        )
        self.url: Final[BrokerUrl] = url
        self.failover: Final[Failover] = Failover(url.addresses, url.reconnect, environment)
        self.correlator: Final[ResponseCorrelator] = ResponseCorrelator(
            url.reconnect.cache_bytes, url.reconnect.max_attempts != 0, url.reconnect.keeps_producers
        )
        self.state = State.OFFLINE
        self.broker_name: str | None = None
        self.broker_url: str | None = None  # as the broker writes it; ActiveMQ Artemis writes no scheme
        self.is_congested = False  # set by the shell while the socket is full: keep-alives get no response
        self.reported: Final[ReportedErrors] = ReportedErrors()
        self.temporary: Final[dict[str, Destination]] = {}
        self.sessions: Final[dict[int, ClientSession]] = {}
        self._consumers: Final[dict[int, ClientConsumer]] = {}
        self._replays: Final[ConsumerReplays] = ConsumerReplays(self.correlator)
        self._login: Request | None = None
        self._was_online = False
        self._reason_to_move: JmsError | None = None
        self._last_session = 0
        self._last_producer = 0
        self._last_consumer = 0
        self._last_temporary = 0
        self._watch: TemporaryWatch | None = None
        self._acknowledge_at = 0.0  # monotonic seconds of the next scheduled acknowledgements
        self._now = environment.now()

    @property
    def failure(self) -> JmsError | None:
        """Cause of the connection's end, or None."""
        return self.correlator.failure

    @property
    def is_in_transaction(self) -> bool:
        """True if a session has an open transaction that a lost connection would roll back."""
        return any(session.transaction.is_begun for session in self.sessions.values())

    @property
    def is_online(self) -> bool:
        """True if commands reach the broker."""
        return self.state == State.ONLINE

    def on_connected(self, address: BrokerAddress, now: Time) -> None:
        """Start the handshake over a new socket to ``address``."""
        self._now = now
        self.reported.last = None
        self._reason_to_move = None
        self.correlator.link = Link(address.settings.wire_format, self, now.monotonic)
        self.state = State.NEGOTIATING

    def receive_data(self, data: bytes, now: Time) -> None:
        """Take bytes from the broker.

        Raises:
            RemoteProtocolError: The bytes are not OpenWire; the link cannot be used any more.
            JmsError: The broker refused the login, or the connection is to move to another broker.
        """
        self._now = now
        link = self.correlator.link
        if link is not None:
            link.receive_data(data, now.monotonic)

    def data_to_send(self) -> bytes:
        """Return and remove the bytes to write."""
        link = self.correlator.link
        return b"" if link is None else link.take()

    def pending_bytes(self) -> int:
        """Return the size of the bytes to write."""
        link = self.correlator.link
        return 0 if link is None else len(link.output)

    def on_written(self, now: Time) -> None:
        """Note that the shell has written bytes."""
        link = self.correlator.link
        if link is not None:
            link.on_written(now.monotonic)

    def take_completed(self) -> list[Request]:
        """Return and remove the requests completed since the last call."""
        return self.correlator.take_completed()

    def take_woken(self) -> list[int]:
        """Return and remove the numbers of the consumers to wake."""
        woken = self.correlator.woken
        if woken:
            self.correlator.woken = []
        return woken

    def next_timeout(self) -> float | None:
        """Return the time of the next `handle_timeout` in monotonic seconds, or None."""
        link = self.correlator.link
        if link is None:
            return None
        due = link.next_timeout()
        if self.settings.scheduled_acknowledge_ms > 0 and self.state == State.ONLINE:
            return self._acknowledge_at if due is None else min(due, self._acknowledge_at)
        return due

    def handle_timeout(self, now: Time) -> None:
        """Send a keep-alive or scheduled acknowledgements if due.

        Raises `JmsError` if the broker was silent for too long.
        """
        self._now = now
        link = self.correlator.link
        if link is not None and not link.handle_timeout(now.monotonic):
            seconds = link.wire_format.max_inactivity_ms / 1000
            raise JmsError(f"the broker at {self.failover.address.url} has been silent for {seconds:g} s")
        interval_ms = self.settings.scheduled_acknowledge_ms
        if interval_ms > 0 and now.monotonic >= self._acknowledge_at:
            self._acknowledge_at = now.monotonic + interval_ms / 1000
            for consumer in self._consumers.values():
                consumer.acknowledge_scheduled()

    def on_disconnected(self, error: JmsError, now: Time) -> bool:
        """Note the end of a link.

        Returns True if the shell is to connect again; otherwise the connection has failed.

        Before the first login the result is True: the shell is trying addresses.
        """
        self._now = now
        was_online = self.state == State.ONLINE
        if self.state == State.CLOSED:
            return False
        self.correlator.link = None
        self.correlator.is_online = False
        self.state = State.OFFLINE
        self._replays.forget()
        self._login = None
        if not self._was_online:
            return True
        if was_online:
            settle_interrupted(self.correlator, list(self.sessions.values()))
            if self.failover.reconnects:
                self.failover.begin(False, now.monotonic)
                logger.warning("connection to %s lost: %s; reconnecting", self.failover.address.url, error)
        if self.failover.reconnects:
            return True
        self.fail(error)
        return False

    def suspend(self, is_suspended: bool, now: Time) -> None:
        """Note that the shell stops or resumes reading."""
        link = self.correlator.link
        if link is not None:
            link.suspend(is_suspended, now.monotonic)

    def keep_alive(self) -> tuple[float, bytes]:
        """Return the broker's inactivity limit in seconds, 0 for none, and an encoded KeepAliveInfo."""
        link = self.correlator.link
        if link is None:
            return 0.0, b""
        wire_format = link.wire_format
        return wire_format.max_inactivity_ms / 1000, FrameEncoder(wire_format).encode(wire.KeepAliveInfo())

    def login_timeout(self, address: BrokerAddress) -> float:
        """Return the seconds from a connection attempt until the broker must have accepted the login."""
        milliseconds = address.settings.connect_timeout_ms
        if 0 < self.settings.connect_timeout_ms < milliseconds:
            milliseconds = self.settings.connect_timeout_ms
        return milliseconds / 1000

    def link_error(self, reason: str) -> JmsError:
        """Return the error of an ended link, with the last error reported by the broker, if any.

        A port with TLS ends a link without TLS before the first frame, and may say nothing.
        """
        last_error = self.reported.last
        cause = reason if last_error is None else str(last_error)
        link, address = self.correlator.link, self.failover.address
        if last_error is None and link is not None and not link.is_negotiated and address.scheme == "tcp":
            cause += " before it said anything; write ssl:// before the host if the port expects TLS"
        return JmsError(f"the connection to {address.url} ended: {cause}")

    def fail(self, error: JmsError) -> None:
        """Close the connection: all requests and consumers get ``error``."""
        if self.state == State.CLOSED:
            return
        self.state = State.CLOSED
        self.correlator.failure = error
        self.correlator.link = None
        self.correlator.is_online = False
        for request in list(self.correlator.requests.values()):
            self.correlator.complete(request, error)
        for consumer in self._consumers.values():
            consumer.fail(error)

    def add_session(self, acknowledge: str) -> ClientSession:
        """Create and announce a session. The broker sends no response."""
        self.correlator.check_open()
        mode = mode_of(acknowledge)
        self._last_session += 1
        session_id = wire.SessionId(connection_id=self.connection_id, value=self._last_session)
        session = ClientSession(self.correlator, session_id, mode, self.settings, acknowledge == "xa")
        self.sessions[session.number] = session
        self.correlator.send(session.announcement())
        return session

    def close_session(self, session: ClientSession) -> Request | None:
        """Remove a session. Returns the request, or None if the broker need not be told."""
        for number in session.consumers:
            self._consumers.pop(number, None)
        self.sessions.pop(session.number, None)
        return session.close()

    def next_producer(self) -> int:
        """Return the number of a new producer."""
        self._last_producer += 1
        return self._last_producer

    def next_consumer(self) -> int:
        """Return the number of a new consumer."""
        self._last_consumer += 1
        return self._last_consumer

    def add_consumer(self, consumer: ClientConsumer) -> None:
        """Pass messages with the consumer's id to ``consumer``."""
        self._consumers[consumer.number] = consumer

    def remove_consumer(self, consumer: ClientConsumer) -> None:
        """Drop further messages for the consumer."""
        self._consumers.pop(consumer.number, None)

    def add_temporary(self, kind: int) -> tuple[Destination, Request]:
        """Create a temporary destination, of a type in `spanwire.model.destination`.

        Returns the destination and the request.
        """
        self.correlator.check_open()
        self._last_temporary += 1
        destination = Destination(kind, f"{self.connection_id}:{self._last_temporary}")
        request = self.correlator.request(temporary_info(self.connection_id, destination))
        self.temporary[destination.qualified_name] = destination
        return destination, request

    def remove_temporary(self, destination: Destination) -> Request:
        """Delete a temporary destination.

        Raises `IllegalStateError` if the destination belongs to another connection.
        """
        if self.temporary.pop(destination.qualified_name, None) is None:
            raise IllegalStateError(f"{destination} is no temporary destination of this connection")
        info = temporary_info(self.connection_id, destination)
        info.operation_type = REMOVE_DESTINATION
        return self.correlator.request(info)

    def remove_subscription(self, name: str) -> Request:
        """Delete a durable subscription of the client id."""
        return self.correlator.request(
            wire.RemoveSubscriptionInfo(
                connection_id=wire.ConnectionId(self.connection_id),
                subscription_name=name,
                client_id=self.settings.client_id,
            )
        )

    def request_removal(self) -> Request | None:
        """Ask the broker to remove the connection. Returns None while there is no broker."""
        if self.state != State.ONLINE:
            return None
        for consumer in self._consumers.values():
            consumer.leave_with_owner()
        command = wire.RemoveInfo(
            object_id=wire.ConnectionId(self.connection_id), last_delivered_sequence_id=LAST_DELIVERED_UNSET
        )
        return self.correlator.request(command)

    def shutdown(self) -> None:
        """Send ShutdownInfo, the last command of a connection."""
        link = self.correlator.link
        if link is not None and self.state == State.ONLINE:
            link.send(wire.ShutdownInfo())

    def mark_closed(self) -> None:
        """Fail the connection because the caller has closed it, and let go of sessions that are not closed."""
        self.fail(IllegalStateError("the connection is closed"))
        for session in self.sessions.values():
            session.let_go()
        self.sessions.clear()
        self._consumers.clear()

    def on_negotiated(self, wire_format: WireFormat) -> None:
        """Send the ConnectionInfo: the wire format is negotiated."""
        correlator = self.correlator
        link = correlator.link
        assert link is not None
        correlator.version = wire_format.version
        self.state = State.LOGIN
        is_fault_tolerant = self.failover.reconnects
        if self._was_online:
            link.send(wire.ConnectionControl(fault_tolerant=True))
        password = self.settings.password
        request = Request(correlator.next_number(), 0, 0)
        info = wire.ConnectionInfo(
            connection_id=wire.ConnectionId(self.connection_id),
            client_id=self.client_id,
            user_name=self.settings.user_name,
            password=None if password is None else password.reveal(),
            manageable=is_fault_tolerant,  # asks for ConnectionControl with the addresses of other brokers
            fault_tolerant=is_fault_tolerant,
            failover_reconnect=self._was_online,
        )
        info.command_id = request.number
        info.response_required = True
        self._login = request
        link.send(info)

    def on_dispatch(
        self, consumer: wire.ConsumerId | None, destination: bytes, raw: bytes, redelivery_count: int
    ) -> None:
        """Pass a message, or the end of a browse, to the consumer."""
        if consumer is None or self.state != State.ONLINE:
            return
        receiver = self._consumers.get(consumer.value)
        if receiver is not None and consumer.connection_id == self.connection_id:
            receiver.on_dispatch(destination, raw, redelivery_count)
        elif receiver is None and raw and self._watch is not None and consumer.value == self._watch.number:
            self._watch.on_dispatch(raw)

    def on_command(self, command: DataStructure) -> None:
        """Handle any other command; ControlCommand and ShutdownInfo have no effect.

        Raises:
            JmsError: The broker refused the login, or the connection is to move to another broker.
        """
        if isinstance(command, wire.Response):
            self._on_response(command)
        elif isinstance(command, wire.KeepAliveInfo):
            link = self.correlator.link
            if command.response_required and link is not None and not self.is_congested:
                link.send(wire.KeepAliveInfo())
        elif isinstance(command, wire.ConnectionError):
            self.reported.add(refusal(command.exception), self.failover.address.url)
        elif isinstance(command, wire.ProducerAck):
            self._on_producer_ack(command.producer_id)
        elif isinstance(command, wire.ConsumerControl):
            consumer_id = command.consumer_id
            receiver = None if consumer_id is None else self._consumers.get(consumer_id.value)
            if receiver is not None:
                receiver.on_control(command)
        elif isinstance(command, wire.ConnectionControl):
            self._on_advice(command)
        elif isinstance(command, wire.BrokerInfo):
            self.broker_name = None if command.broker_name is None else one_line(command.broker_name)
            self.broker_url = command.broker_url

    def _on_advice(self, control: wire.ConnectionControl) -> None:
        reason = self.failover.on_advice(control.connected_brokers, control.reconnect_to, control.rebalance_connection)
        if reason is not None and self.state == State.ONLINE:
            raise reason
        self._reason_to_move = reason  # ActiveMQ sends ConnectionControl before the response to the login

    def _on_producer_ack(self, producer_id: wire.ProducerId | None) -> None:
        session = None if producer_id is None else self.sessions.get(producer_id.session_id)
        if session is not None and producer_id is not None and producer_id.connection_id == self.connection_id:
            producer = session.producers.get(producer_id.value)
            if producer is not None:
                producer.acknowledged()

    def _on_response(self, response: wire.Response) -> None:
        login = self._login
        if login is not None and response.correlation_id == login.number:
            self._on_login_response(response)
            return
        request = self.correlator.requests.get(response.correlation_id)
        if request is None:
            return
        error = refusal(response.exception) if isinstance(response, wire.ExceptionResponse) else None
        if request.kind == COMMIT:
            session = self.sessions.get(request.owner)
            if session is not None:
                session.on_commit_answered(error, self._now)
        elif request.kind == XA:
            error = branch_refusal(error)
            self._on_branch_response(request, response, error)
        elif error is not None and request.in_transaction:
            session = self.sessions.get(request.owner)
            if session is not None:
                session.transaction.on_refused(request.number)
        self.correlator.complete(request, error)
        if self._replays.pending:
            self._replays.on_response(request)

    def _on_branch_response(self, request: Request, response: wire.Response, error: JmsError | None) -> None:
        if isinstance(response, wire.IntegerResponse):
            request.result = response.result
        elif isinstance(response, wire.DataArrayResponse):
            request.structures = response.data or []
        session = self.sessions.get(request.owner)
        if session is not None and session.xa is not None:
            session.xa.on_answer(request, error, self._now)

    def _on_login_response(self, response: wire.Response) -> None:
        self._login = None
        link = self.correlator.link
        assert link is not None
        if isinstance(response, wire.ExceptionResponse):
            self.reported.last = refusal(response.exception, logging_in=True)
            raise self.reported.last
        link.authenticated()
        self.state = State.ONLINE
        self.correlator.is_online = True
        self._acknowledge_at = self._now.monotonic + self.settings.scheduled_acknowledge_ms / 1000
        if self.settings.watch_advisories:
            if self._watch is None:
                self._watch = TemporaryWatch(self.correlator, self.connection_id, self.next_consumer())
            self.correlator.deleted.clear()
            link.send(self._watch.announcement())
        self._replays.begin(self.connection_id, list(self.temporary.values()), list(self.sessions.values()))
        self.failover.on_connected(self._now.monotonic)
        self._was_online = True
        if self._reason_to_move is not None:
            raise self._reason_to_move


def prefixed(generated_id: str, prefix: str | None) -> str:
    """Return a generated id with ``prefix`` in place of ``ID:``."""
    return generated_id if prefix is None else prefix + generated_id.removeprefix("ID:")
