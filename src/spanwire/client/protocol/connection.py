"""The client's side of OpenWire without a socket: bytes and time in; bytes, answers and messages out.

    connection.opened(address, now)                     # the shell has made a socket
    connection.receive_data(data, now)                  # what came over it
    write(connection.data_to_send()); connection.sent(now)
    connection.take_completed(); connection.take_woken()   # whom to wake
    connection.disconnected(error, now)                 # the socket is gone

    OFFLINE      there is no link; the shell makes one where `failover` says
    NEGOTIATING  both sides say what they can
    LOGIN        the ConnectionInfo is on its way
    ONLINE       sessions and all they have are known to the broker
    CLOSED       the caller closed it, or it failed for good

Nothing that a broker says ends this process or this connection but the end of its bytes (CVE-2014-3576, CVE-2015-7559);
an answer that nobody asked for and a message for a consumer that is not there are dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from enum import Enum
from typing import Final

from spanwire.client.addressing.address import BrokerAddress, BrokerUrl
from spanwire.client.addressing.options import ClientSettings
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.error_mapping import branch_refusal, one_line, refusal
from spanwire.client.protocol.failover import Failover
from spanwire.client.protocol.link import Link, LinkReceiver
from spanwire.client.protocol.removed_temporaries import TemporaryWatch
from spanwire.client.protocol.response_correlator import COMMIT, XA, Line, Request
from spanwire.client.protocol.session import ClientSession, mode_of
from spanwire.client.protocol.state_tracker import replay, settle_interrupted, temporary_info
from spanwire.model.acks import LAST_DELIVERED_UNSET
from spanwire.model.destination import Destination
from spanwire.model.environment import Environment, IdGenerator, Time
from spanwire.model.errors import IllegalStateError, JmsError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat

MAX_LOGGED_ERRORS: Final = 10  # of one connection; a broker must not fill the log
MAX_REPORTED_ERRORS: Final = 100  # of one-way commands; the oldest are forgotten
REMOVE_DESTINATION: Final = 1

logger = logging.getLogger(__name__)


class State(Enum):
    """Where a connection stands."""

    OFFLINE = 0
    NEGOTIATING = 1
    LOGIN = 2
    ONLINE = 3
    CLOSED = 4


class ClientConnection(LinkReceiver):
    """One connection of an application, over as many links as it takes. Leaves sockets and waiting to the shells."""

    def __init__(self, url: BrokerUrl, environment: Environment) -> None:
        seed = int.from_bytes(environment.random_bytes(4), "big")
        self.settings: Final[ClientSettings] = url.settings
        made = IdGenerator(environment, seed).next_id()
        self.connection_id: Final[str] = prefixed(made, url.settings.connection_id_prefix)
        self.client_id: Final[str] = url.settings.client_id or prefixed(f"{made}:0", url.settings.client_id_prefix)
        self.url: Final[BrokerUrl] = url
        self.failover: Final[Failover] = Failover(url.addresses, url.reconnect, environment)
        self.line: Final[Line] = Line(
            url.reconnect.cache_bytes, url.reconnect.max_attempts != 0, url.reconnect.keeps_producers
        )
        self.state = State.OFFLINE
        self.broker_name: str | None = None
        self.is_congested = False  # the shell says that the broker takes nothing: it is sent no answers to keep-alives
        self.errors: Final[deque[JmsError]] = deque(maxlen=MAX_REPORTED_ERRORS)
        self.temporary: Final[dict[str, Destination]] = {}
        self.sessions: Final[dict[int, ClientSession]] = {}
        self._consumers: Final[dict[int, ClientConsumer]] = {}
        self._replays: list[tuple[ClientConsumer, Request]] = []
        self._login: Request | None = None
        self._was_online = False
        self._reason_to_move: JmsError | None = None
        self._last_words: JmsError | None = None
        self._logged = 0
        self._last_session = 0
        self._last_producer = 0
        self._last_consumer = 0
        self._last_temporary = 0
        self._watch: TemporaryWatch | None = None
        self._acknowledge_at = 0.0  # when scheduled acknowledgements are due
        self._now = environment.now()

    @property
    def failure(self) -> JmsError | None:
        """Why the connection is over, if it is."""
        return self.line.failure

    @property
    def is_in_transaction(self) -> bool:
        """Whether a session has something that a lost connection would roll back."""
        return any(session.transaction.is_begun for session in self.sessions.values())

    @property
    def is_online(self) -> bool:
        """Whether the broker hears what is sent now."""
        return self.state == State.ONLINE

    def opened(self, address: BrokerAddress, now: Time) -> None:
        """There is a way to the broker at ``address``: begin to talk."""
        self._now = now
        self._last_words = None
        self._reason_to_move = None
        self.line.link = Link(address.settings.wire_format, self, now.monotonic)
        self.state = State.NEGOTIATING

    def receive_data(self, data: bytes, now: Time) -> None:
        """Take bytes from the broker. Raises `RemoteProtocolError` when they are no OpenWire; the link is of no use
        then.
        """
        self._now = now
        link = self.line.link
        if link is not None:
            link.receive_data(data, now.monotonic)

    def data_to_send(self) -> bytes:
        """What is to be written; the connection forgets it."""
        link = self.line.link
        return b"" if link is None else link.take()

    def pending_bytes(self) -> int:
        """How much `data_to_send` would give."""
        link = self.line.link
        return 0 if link is None else len(link.out)

    def sent(self, now: Time) -> None:
        """The shell has written something."""
        link = self.line.link
        if link is not None:
            link.sent(now.monotonic)

    def take_completed(self) -> list[Request]:
        """The requests that got their answers."""
        return self.line.take_completed()

    def take_woken(self) -> list[int]:
        """The numbers of consumers for whom something came."""
        woken = self.line.woken
        if woken:
            self.line.woken = []
        return woken

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is to be called, in monotonic seconds."""
        link = self.line.link
        if link is None:
            return None
        due = link.next_timeout()
        if self.settings.scheduled_acknowledge_ms > 0 and self.state == State.ONLINE:
            return self._acknowledge_at if due is None else min(due, self._acknowledge_at)
        return due

    def handle_timeout(self, now: Time) -> None:
        """Send a keep-alive; raises `JmsError` when the broker has been silent for the negotiated time."""
        self._now = now
        link = self.line.link
        if link is not None and not link.handle_timeout(now.monotonic):
            seconds = link.wire_format.max_inactivity_ms / 1000
            raise JmsError(f"the broker at {self.failover.address.url} has been silent for {seconds:g} s")
        interval_ms = self.settings.scheduled_acknowledge_ms
        if interval_ms > 0 and now.monotonic >= self._acknowledge_at:
            self._acknowledge_at = now.monotonic + interval_ms / 1000
            for consumer in self._consumers.values():
                consumer.acknowledge_scheduled()

    def disconnected(self, error: JmsError, now: Time) -> bool:
        """The link is gone, or was of no use. Whether another one is to be made; if not, the connection has failed.

        Before the connection was first online this is for the shell to decide, which is trying addresses.
        """
        self._now = now
        was_online = self.state == State.ONLINE
        if self.state == State.CLOSED:
            return False
        self.line.link = None
        self.line.is_online = False
        self.state = State.OFFLINE
        self._forget_replays()
        if not self._was_online:
            return True
        if was_online:
            settle_interrupted(self.line, list(self.sessions.values()))
            if self.failover.reconnects:
                self.failover.begin(False, now.monotonic)
                logger.warning("connection to %s lost: %s; reconnecting", self.failover.address.url, error)
        if self.failover.reconnects:
            return True
        self.fail(error)
        return False

    def suspend(self, is_suspended: bool, now: Time) -> None:
        """The shell does not read for a while, or does again."""
        link = self.line.link
        if link is not None:
            link.suspend(is_suspended, now.monotonic)

    def keep_alive(self) -> tuple[float, bytes]:
        """Within how many seconds the broker wants to hear something, 0 for no limit, and what to say then."""
        link = self.line.link
        if link is None:
            return 0.0, b""
        found = link.wire_format
        return found.max_inactivity_ms / 1000, FrameEncoder(found).encode(wire.KeepAliveInfo())

    def login_timeout(self, address: BrokerAddress) -> float:
        """Seconds from the first attempt of an address until its broker has accepted the login."""
        milliseconds = address.settings.connect_timeout_ms
        if 0 < self.settings.connect_timeout_ms < milliseconds:
            milliseconds = self.settings.connect_timeout_ms
        return milliseconds / 1000

    def broken(self, reason: str) -> JmsError:
        """The error for a link that ended, with the broker's last words when there were some."""
        last_words = self._last_words
        where = self.failover.address.url
        if last_words is not None:
            return JmsError(f"the connection to {where} ended: {last_words}")
        return JmsError(f"the connection to {where} ended: {reason}")

    def fail(self, error: JmsError) -> None:
        """Nothing works any more: everybody who waits gets ``error``."""
        if self.state == State.CLOSED:
            return
        self.state = State.CLOSED
        self.line.failure = error
        self.line.link = None
        self.line.is_online = False
        for request in list(self.line.requests.values()):
            self.line.complete(request, error)
        for consumer in self._consumers.values():
            consumer.fail(error)

    def add_session(self, acknowledge: str) -> ClientSession:
        """A session; the broker is told at once and does not answer."""
        self.line.check_open()
        mode = mode_of(acknowledge)
        self._last_session += 1
        session_id = wire.SessionId(connection_id=self.connection_id, value=self._last_session)
        session = ClientSession(self.line, session_id, mode, self.settings, acknowledge == "xa")
        self.sessions[session.number] = session
        self.line.send(session.announcement())
        return session

    def close_session(self, session: ClientSession) -> Request | None:
        """The session leaves."""
        for number in session.consumers:
            self._consumers.pop(number, None)
        self.sessions.pop(session.number, None)
        return session.close()

    def next_producer(self) -> int:
        """The number of a new producer."""
        self._last_producer += 1
        return self._last_producer

    def next_consumer(self) -> int:
        """The number of a new consumer."""
        self._last_consumer += 1
        return self._last_consumer

    def add_consumer(self, consumer: ClientConsumer) -> None:
        """Messages for this consumer are his from now on."""
        self._consumers[consumer.number] = consumer

    def remove_consumer(self, consumer: ClientConsumer) -> None:
        """There is no such consumer any more."""
        self._consumers.pop(consumer.number, None)

    def add_temporary(self, kind: int) -> tuple[Destination, Request]:
        """A temporary queue or topic of this connection."""
        self.line.check_open()
        self._last_temporary += 1
        destination = Destination(kind, f"{self.connection_id}:{self._last_temporary}")
        request = self.line.request(temporary_info(self.connection_id, destination))
        self.temporary[destination.qualified_name] = destination
        return destination, request

    def remove_temporary(self, destination: Destination) -> Request:
        """Delete a temporary destination of this connection."""
        if self.temporary.pop(destination.qualified_name, None) is None:
            raise IllegalStateError(f"{destination} is no temporary destination of this connection")
        info = temporary_info(self.connection_id, destination)
        info.operation_type = REMOVE_DESTINATION
        return self.line.request(info)

    def remove_subscription(self, name: str) -> Request:
        """Delete a durable subscription of this client id."""
        return self.line.request(
            wire.RemoveSubscriptionInfo(
                connection_id=wire.ConnectionId(self.connection_id),
                subscription_name=name,
                client_id=self.settings.client_id,
            )
        )

    def farewell(self) -> Request | None:
        """The connection leaves; None when the broker cannot be told."""
        if self.state != State.ONLINE:
            return None
        for consumer in self._consumers.values():
            consumer.leave_with_owner()
        command = wire.RemoveInfo(
            object_id=wire.ConnectionId(self.connection_id), last_delivered_sequence_id=LAST_DELIVERED_UNSET
        )
        return self.line.request(command)

    def shutdown(self) -> None:
        """The last word; nothing is taken afterwards but `data_to_send`."""
        link = self.line.link
        if link is not None and self.state == State.ONLINE:
            link.send(wire.ShutdownInfo())

    def closed(self) -> None:
        """The caller has closed the connection."""
        self.fail(IllegalStateError("the connection is closed"))

    def negotiated(self, wire_format: WireFormat) -> None:
        """Both sides have said what they can: log in."""
        line = self.line
        link = line.link
        assert link is not None
        line.version = wire_format.version
        self.state = State.LOGIN
        is_fault_tolerant = self.failover.reconnects
        if self._was_online:
            link.send(wire.ConnectionControl(fault_tolerant=True))
        password = self.settings.password
        request = Request(line.next_number(), 0, 0)
        info = wire.ConnectionInfo(
            connection_id=wire.ConnectionId(self.connection_id),
            client_id=self.client_id,
            user_name=self.settings.user_name,
            password=None if password is None else password.reveal(),
            manageable=is_fault_tolerant,  # hears of other brokers
            fault_tolerant=is_fault_tolerant,
            failover_reconnect=self._was_online,
        )
        info.command_id = request.number
        info.response_required = True
        self._login = request
        link.send(info)

    def dispatched(
        self, consumer: wire.ConsumerId | None, destination: bytes, raw: bytes, redelivery_count: int
    ) -> None:
        """A message, or the end of a browse."""
        if consumer is None or self.state != State.ONLINE:
            return
        found = self._consumers.get(consumer.value)
        if found is not None and consumer.connection_id == self.connection_id:
            found.dispatched(destination, raw, redelivery_count)
        elif found is None and raw and self._watch is not None and consumer.value == self._watch.number:
            self._watch.dispatched(raw)

    def commanded(self, command: DataStructure) -> None:
        """Any other command. A ControlCommand and a ShutdownInfo have no effect; raises `JmsError` when the connection
        is to go to another broker.
        """
        if isinstance(command, wire.Response):
            self._answered(command)
        elif isinstance(command, wire.KeepAliveInfo):
            link = self.line.link
            if command.response_required and link is not None and not self.is_congested:
                link.send(wire.KeepAliveInfo())
        elif isinstance(command, wire.ConnectionError):
            self._reported(command.exception)
        elif isinstance(command, wire.ProducerAck):
            self._taken(command.producer_id)
        elif isinstance(command, wire.ConsumerControl):
            consumer_id = command.consumer_id
            found = None if consumer_id is None else self._consumers.get(consumer_id.value)
            if found is not None:
                found.controlled(command)
        elif isinstance(command, wire.ConnectionControl):
            self._advised(command)
        elif isinstance(command, wire.BrokerInfo):
            self.broker_name = None if command.broker_name is None else one_line(command.broker_name)

    def _advised(self, control: wire.ConnectionControl) -> None:
        reason = self.failover.advised(control.connected_brokers, control.reconnect_to, control.rebalance_connection)
        if reason is not None and self.state == State.ONLINE:
            raise reason
        self._reason_to_move = reason  # ActiveMQ says it before it answers the login

    def _taken(self, producer_id: wire.ProducerId | None) -> None:
        session = None if producer_id is None else self.sessions.get(producer_id.session_id)
        if session is not None and producer_id is not None and producer_id.connection_id == self.connection_id:
            producer = session.producers.get(producer_id.value)
            if producer is not None:
                producer.acknowledged()

    def _answered(self, response: wire.Response) -> None:
        login = self._login
        if login is not None and response.correlation_id == login.number:
            self._logged_in(response)
            return
        request = self.line.requests.get(response.correlation_id)
        if request is None:
            return
        error = refusal(response.exception) if isinstance(response, wire.ExceptionResponse) else None
        if request.kind == COMMIT:
            session = self.sessions.get(request.owner)
            if session is not None:
                session.commit_answered(error, self._now)
        elif request.kind == XA:
            error = branch_refusal(error)
            self._branch_answered(request, response, error)
        elif error is not None and request.in_transaction:
            session = self.sessions.get(request.owner)
            if session is not None:
                session.transaction.refused(request.number)
        self.line.complete(request, error)
        if self._replays:
            self._replay_answered(request)

    def _branch_answered(self, request: Request, response: wire.Response, error: JmsError | None) -> None:
        if isinstance(response, wire.IntegerResponse):
            request.result = response.result
        elif isinstance(response, wire.DataArrayResponse):
            request.structures = response.data or []
        session = self.sessions.get(request.owner)
        if session is not None and session.xa is not None:
            session.xa.answered(request, error, self._now)

    def _logged_in(self, response: wire.Response) -> None:
        self._login = None
        link = self.line.link
        assert link is not None
        if isinstance(response, wire.ExceptionResponse):
            self._last_words = refusal(response.exception, logging_in=True)
            raise self._last_words
        link.authenticated()
        self.state = State.ONLINE
        self.line.is_online = True
        self._acknowledge_at = self._now.monotonic + self.settings.scheduled_acknowledge_ms / 1000
        if self.settings.watch_advisories:
            if self._watch is None:
                self._watch = TemporaryWatch(self.line, self.connection_id, self.next_consumer())
            self.line.deleted.clear()
            link.send(self._watch.announcement())
        sessions = list(self.sessions.values())
        self._replays = replay(self.line, self.connection_id, list(self.temporary.values()), sessions)
        self.failover.connected(self._now.monotonic)
        self._was_online = True
        if self._reason_to_move is not None:
            raise self._reason_to_move

    def _replay_answered(self, request: Request) -> None:
        for pair in self._replays:
            if pair[1] is request:
                self._replays.remove(pair)
                if request.error is not None:
                    pair[0].fail(request.error)
                elif pair[0].prefetch == 0:
                    pair[0].wake()  # what it had asked for is asked again
                return

    def _forget_replays(self) -> None:
        for _, request in self._replays:
            self.line.complete(request, None)
        self._replays = []
        self._login = None

    def _reported(self, thrown: Throwable | None) -> None:
        """Something one-way was refused, or the broker is about to close the connection."""
        error = refusal(thrown)
        self._last_words = error
        self.errors.append(error)
        self._logged += 1
        if self._logged <= MAX_LOGGED_ERRORS:
            logger.warning("the broker at %s reports: %s", self.failover.address.url, error)


def prefixed(made: str, prefix: str | None) -> str:
    """A made-up id with another beginning than ``ID:``."""
    return made if prefix is None else prefix + made.removeprefix("ID:")
