"""A bridge to one remote broker, without a socket: bytes and time in, bytes out.

Here it is a client of the broker, in process; there it is an OpenWire connection (`RemoteBroker`). Advisories tell it
of the remote consumers, for which it subscribes here; what it gets goes there and is acknowledged here when the remote
broker has answered. So the remote broker's pace closes the window here, and what was not answered when the link breaks
is dispatched again, marked as redelivered.

    NEGOTIATING  both sides send a WireFormatInfo
    MEETING      the BrokerInfo of the remote broker has to come
    STARTING     both connections are opened; login and subscription have to be answered
    RUNNING      demand and messages
    CLOSED       ``reason`` says why
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.ports import ClientConnection
from spanwire.broker.reference import MessageReference
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, ProtocolError, RemoteProtocolError, SpanwireError, StoreError
from spanwire.model.ids import SessionId
from spanwire.model.message import Message
from spanwire.network.demand import (
    BRIDGE_SESSION,
    DemandSubscription,
    Forwarded,
    Forwarding,
    RemoteConsumer,
    local_login,
)
from spanwire.network.forwarding import MessageForwarder
from spanwire.network.local import LocalBroker
from spanwire.network.remote import RemoteBroker, said
from spanwire.network.routes import NetworkRoutes
from spanwire.network.settings import BridgeSettings
from spanwire.protocols.base import ProtocolConnection
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.errors import OpenWireProtocolError
from spanwire.protocols.openwire.inactivity import InactivityMonitor
from spanwire.protocols.openwire.message_format import OpenWireMessageFormat, format_id_of
from spanwire.protocols.openwire.wire_format import WireFormatPreferences

START_DEADLINE: Final = 15.0  # seconds from the socket to a running bridge; ActiveMQ waits as long for a WireFormatInfo
FLAGGED: Final = 1  # deliveries before, as the next broker is told: breaks of a link alone make no poisoned message
GONE_DESTINATION: Final = "org.apache.activemq.DestinationDoesNotExistException"

logger = logging.getLogger(__name__)


class State(Enum):
    """Where a bridge stands."""

    NEGOTIATING = 0
    MEETING = 1
    STARTING = 2
    RUNNING = 3
    CLOSED = 4


class NetworkBridge(ClientConnection, ProtocolConnection, Forwarding):
    """One link to one broker, from the first byte to the break; for the next link there is another one.

    Connecting and coming back is left to the connector, encoding to `RemoteBroker` and `MessageForwarder`.
    """

    def __init__(
        self,
        broker: Broker,
        settings: BridgeSettings,
        broker_url: str,
        preferences: WireFormatPreferences,
        now: Time,
        routes: NetworkRoutes | None = None,
    ) -> None:
        self.settings: Final[BridgeSettings] = settings
        self.state = State.NEGOTIATING
        self.reason = ""
        self.was_running = False
        self.forwarded = 0
        self._broker: Final[Broker] = broker
        self._broker_url: Final[str] = broker_url
        self._routes: Final[NetworkRoutes] = routes if routes is not None else NetworkRoutes()
        self._remote: Final[RemoteBroker] = RemoteBroker(broker.ids.next_id(), preferences)
        self._deadline = now.monotonic + START_DEADLINE
        self._monitor: InactivityMonitor | None = None
        self._local: LocalBroker | None = None
        self._forwarder: MessageForwarder | None = None
        self._login_id = 0
        self._subscribe_id = 0
        self._sent: Final[dict[int, Forwarded]] = {}
        self._unflushed: Final[list[Forwarded]] = []
        self._wrote = False

    @property
    def remote_name(self) -> str:
        """The remote broker's name, once it is known."""
        return self._remote.name

    @property
    def demand_count(self) -> int:
        """How many subscriptions the bridge has here."""
        return 0 if self._local is None else len(self._local.demand.subscriptions)

    @property
    def acknowledged(self) -> int:
        """How many messages were acknowledged here."""
        return 0 if self._local is None else self._local.acknowledged

    @property
    def in_flight(self) -> int:
        """How many messages are on their way: forwarded and not answered."""
        return len(self._sent) + len(self._unflushed)

    # -- the transport's side ------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: Time) -> None:
        """Take bytes from the remote broker and act on every complete frame in them."""
        if self.state is State.CLOSED:
            return
        if self._monitor is not None:
            self._monitor.received(now.monotonic)
        try:
            commands = self._remote.commands(data)
            while commands:
                for command in commands:
                    self._handle(command, now)
                    if self.closed:
                        return
                commands = self._remote.commands(b"")
            self._remote.check_answers()
            if self._local is not None and not self.closed:
                self._local.settle(now)
        except RemoteProtocolError as error:
            self._fail(f"the remote broker broke the protocol: {error}", now)
        except (JmsError, StoreError) as refusal:  # the names differ because a compiled variable has one type
            self._fail(str(refusal), now)

    def receive_eof(self, now: Time) -> None:
        """The link is broken: what was not answered goes back in line."""
        self._fail("the connection was closed", now)

    def data_to_send(self) -> list[bytes]:
        """Take what is to be written."""
        chunks = self._remote.output.take()
        self._wrote = self._wrote or len(chunks) > 0
        return chunks

    def unsent(self, count: int) -> None:
        """The transport still holds ``count`` bytes."""
        self._remote.output.unsent(count)
        local = self._local
        if local is None or self.closed:
            return
        now = self._broker.environment.now()
        if self._wrote and self._monitor is not None:
            self._monitor.written(now.monotonic)
            self._wrote = False
        if count == 0 and self._unflushed:
            for entry in self._unflushed:
                local.answered(entry)
            self._unflushed.clear()
        self._broker.output_progress(local.client, count, now)
        if not self.closed:
            local.settle(now)

    def next_timeout(self) -> float | None:
        """The deadline of the start, then what the keep-alives ask for."""
        if self.closed:
            return None
        if self.state is not State.RUNNING or self._monitor is None:
            return self._deadline
        return self._monitor.next_timeout()

    def handle_timeout(self, now: Time) -> None:
        """Send a keep-alive; give up a link that is silent."""
        if self.closed:
            return
        monitor = self._monitor
        if self.state is not State.RUNNING:
            if now.monotonic >= self._deadline:
                self._fail(f"no answer within {START_DEADLINE:g} s (the peer accepts and stays silent)", now)
        elif monitor is not None:
            if monitor.is_silent(now.monotonic):
                self._fail("the remote broker was silent for too long", now)
            elif monitor.is_keep_alive_due(now.monotonic):
                self._remote.says(wire.KeepAliveInfo())

    @property
    def wants_read(self) -> bool:
        """Answers and advisories can always be taken."""
        return True

    @property
    def closed(self) -> bool:
        """True once the transport should write what is left and close the socket."""
        return self.state is State.CLOSED

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a frame whose end has not come yet."""
        return self._remote.pending_bytes

    # -- this broker's side --------------------------------------------------------------------------------------------

    def completed(self, token: int, error: SpanwireError | None) -> None:
        """Nothing of what the bridge asks for here is answered later."""

    def close_with(self, error: SpanwireError) -> None:
        """This broker stops, or its store failed."""
        if self.closed:
            return
        self._remote.says(wire.ShutdownInfo())
        self._fail(str(error), self._broker.environment.now())

    def forward(
        self, demand: DemandSubscription, message: Message, reference: MessageReference, redelivery_count: int
    ) -> None:
        """Send ``message`` to the remote broker."""
        entry = Forwarded(demand, message.message_id)
        demand.out.append(entry)
        forwarder = self._forwarder
        local = self._local
        assert forwarder is not None and local is not None
        if message.destination.is_advisory or (demand.is_durable and not local.demand.passes(message)):
            local.answered(entry)  # each broker tells its own advisories; a durable subscription has no filter
            return
        command_id = self._remote.next_command_id()
        answered = message.persistent or self.settings.always_sync_send
        try:
            number = self._broker.producer_audit.number_of(reference.home.destination, reference.sequence)
            forwarder.append(self._remote.output, message, command_id, answered, min(redelivery_count, FLAGGED), number)
        except (JmsError, ProtocolError) as error:
            local.gives_up(entry, str(error))
            return
        self.forwarded += 1
        if answered:
            self._sent[command_id] = entry
        else:
            self._unflushed.append(entry)

    def demand_ended(self, demand: DemandSubscription, reason: JmsError) -> None:
        """The destination of ``demand`` is gone here."""
        if self._local is not None:
            self._local.ended(demand)

    def replaced(self, demand: DemandSubscription, now: Time) -> list[RemoteConsumer]:
        """There is a better route to what ``demand`` is for; gives those to be reconsidered when it is made."""
        return [] if self._local is None or self.closed else self._local.takes_back(demand, now)

    def reconsider(self, consumer: RemoteConsumer, now: Time) -> None:
        """The better route to a consumer that this bridge told of is gone."""
        if self._local is not None and not self.closed:
            self._local.reconsider(consumer, now)

    # -- commands ------------------------------------------------------------------------------------------------------

    def _handle(self, command: wire.Command, now: Time) -> None:
        if isinstance(command, wire.ExceptionResponse):
            self._refused(command, now)
        elif isinstance(command, wire.Response):
            self._response(command, now)
        elif isinstance(command, wire.MessageDispatch):
            self._advisory(command, now)
        else:
            self._handle_rare(command, now)

    def _handle_rare(self, command: wire.Command, now: Time) -> None:
        if isinstance(command, wire.WireFormatInfo):
            self._negotiate(command, now)
        elif isinstance(command, wire.BrokerInfo):
            self._meet(command, now)
        elif isinstance(command, wire.KeepAliveInfo):
            if command.response_required:
                self._remote.answers()
        elif isinstance(command, wire.ConnectionError):
            self._fail(f"the remote broker refused: {said(command.exception)}", now)
        elif isinstance(command, wire.ShutdownInfo):
            self._fail("the remote broker is stopping", now)
        elif isinstance(command, (wire.MessageFrame, wire.BaseCommand)) and not isinstance(
            command, (wire.ConnectionControl, wire.ConsumerControl)
        ):
            name = wire.TYPE_NAMES.get(command.type_id(), str(command.type_id()))
            raise OpenWireProtocolError(f"a {name} is nothing that a bridge is sent")

    def _negotiate(self, command: wire.WireFormatInfo, now: Time) -> None:
        wire_format = self._remote.negotiate(command)
        self._monitor = InactivityMonitor(
            wire_format.max_inactivity_ms / 1000, wire_format.max_inactivity_initial_delay_ms / 1000, now.monotonic
        )
        self.state = State.MEETING

    def _meet(self, command: wire.BrokerInfo, now: Time) -> None:
        """Both brokers know each other: log in here and there."""
        if self.state is not State.MEETING:
            return  # brokers repeat it when their cluster changes
        remote, broker, settings = self._remote, self._broker, self.settings
        remote.met(command)
        if remote.broker_id == broker.broker_id:
            self._fail("the remote broker is this broker itself, or one with the same brokerId", now)
            return
        info = local_login(settings, broker.ids.next_id(), broker.name, remote.name)
        client = broker.add_connection(self, info, now)
        broker.add_session(client, SessionId(info.connection_id, BRIDGE_SESSION))
        wire_format = remote.wire_format
        assert wire_format is not None
        version = wire_format.version
        message_format = broker.formats.format(format_id_of(version))
        assert isinstance(message_format, OpenWireMessageFormat)
        self._forwarder = MessageForwarder(
            broker.broker_id, remote.producer_id, broker.formats, message_format, version, wire_format.max_frame_size
        )
        self._local = LocalBroker(broker, client, settings, remote, self, self._routes)
        self._login_id = remote.introduces(settings, broker.broker_id, broker.name, self._broker_url)
        self._subscribe_id = remote.subscribes(settings.advisory_topics())
        self.state = State.STARTING

    def _response(self, command: wire.Response, now: Time) -> None:
        entry = self._sent.pop(command.correlation_id, None)
        if entry is not None:
            assert self._local is not None
            self._local.answered(entry)
        elif command.correlation_id == self._login_id:
            self._remote.logged_in()
            if self._local is not None:
                self._local.starts(now)
        elif command.correlation_id == self._subscribe_id and self.state is State.STARTING:
            self.state = State.RUNNING
            self.was_running = True
            logger.info("network connector %s: bridge to broker %s is up", self.settings.name, self._remote.name)

    def _refused(self, command: wire.ExceptionResponse, now: Time) -> None:
        words = said(command.exception)
        entry = self._sent.pop(command.correlation_id, None)
        if entry is None:
            what = "login" if command.correlation_id == self._login_id else "subscription to advisories"
            self._fail(f"the remote broker refused the {what}: {words}", now)
        elif command.exception is not None and command.exception.class_name == GONE_DESTINATION:
            assert self._local is not None
            self._local.gives_up(entry, words)  # whoever waited for it there is gone, which is nobody's fault
        else:
            self._fail(f"the remote broker refused message {entry.message_id}: {words}", now)

    def _advisory(self, dispatch: wire.MessageDispatch, now: Time) -> None:
        local, message = self._local, dispatch.message
        if local is None or message is None:
            raise OpenWireProtocolError("an advisory came before the bridge asked for any")
        self._remote.acknowledges(dispatch)
        local.told(message.data_structure, now)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _fail(self, reason: str, now: Time) -> None:
        """The first reason counts."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self.reason = "".join([character if character.isprintable() else "?" for character in reason[:300]])
        if self._local is not None:
            self._local.leaves(now)
        self._sent.clear()
        self._unflushed.clear()
