"""The broker's side of an OpenWire connection: bytes and time in, bytes out.

Wire format versions are 1 to 12.

``states.py`` defines the commands allowed in each state, ``client_commands.py`` executes the commands of a client.
"""

from __future__ import annotations

import logging
from typing import Final

from mypy_extensions import i64

from spanwire.broker.broker import Broker
from spanwire.broker.ports import NO_TOKEN, ClientConnection
from spanwire.model.environment import Time
from spanwire.model.errors import (
    AuthenticationError,
    JmsError,
    ProtocolError,
    RemoteProtocolError,
    SpanwireError,
    StoreError,
)
from spanwire.protocols.base import REQUEST_STEPS, ConnectionSettings, ProtocolConnection
from spanwire.protocols.cluster import ClusterMember
from spanwire.protocols.openwire.client_commands import ClientCommands
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.ack_run import AckRun
from spanwire.protocols.openwire.codec.codec import FrameDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info
from spanwire.protocols.openwire.duplex import NetworkAcceptor, NetworkPeer
from spanwire.protocols.openwire.exceptions import throwable_of
from spanwire.protocols.openwire.inactivity import InactivityMonitor
from spanwire.protocols.openwire.login import Login, negotiated_format, preferences_of
from spanwire.protocols.openwire.messages.message_format import OpenWireMessageFormat, format_id_of
from spanwire.protocols.openwire.output import MAX_UNREAD_ANSWER_BYTES, OutputBuffer
from spanwire.protocols.openwire.refusals import Refusals, logged_text
from spanwire.protocols.openwire.states import State, next_state

CLOSE_DELAY: Final = 2.0  # seconds for the client to read the refusal of its login; ActiveMQ's delay
LISTS_SINCE: Final = 6  # first wire format version with the list of other brokers

logger = logging.getLogger(__name__)


class OpenWireBrokerConnection(ClientConnection, ProtocolConnection, ClusterMember):
    """The broker's side of a connection; its methods never raise errors for the peer's bytes.

    `ClientCommands` executes commands, the codec encodes, and the transport has the sockets.
    """

    def __init__(
        self, broker: Broker, settings: ConnectionSettings, now: Time, acceptor: NetworkAcceptor | None = None
    ) -> None:
        self._broker: Final[Broker] = broker
        self._network_peer: Final[NetworkPeer] = NetworkPeer(broker, acceptor)
        self._settings: Final[ConnectionSettings] = settings
        self._preferences: Final[WireFormatPreferences] = preferences_of(settings)
        self._decoder: Final[FrameDecoder] = FrameDecoder(settings.max_frame_size)
        self._commands: list[wire.Command] = []
        self._next_command = 0
        self._output: Final[OutputBuffer] = OutputBuffer()
        self._login: Final[Login] = Login(settings)
        self._state = State.NEGOTIATING
        self._is_ending = False
        self._is_paused = False  # a job of the client is unfinished, or the connection ends
        self._hurries = False
        self._working: ClientCommands | None = None
        self._wire_format = WireFormat()
        self._client: ClientCommands | None = None
        self._monitor: InactivityMonitor | None = None
        self._deadline = now.monotonic + settings.login_timeout
        self._refusals: Final[Refusals] = Refusals(self._output, settings.remote_address)
        self._wrote = False
        self._output.append(wire_format_info(self._preferences))

    def receive_data(self, data: bytes, now: Time) -> None:
        """Process bytes from the peer and every complete frame in them."""
        if self._is_ending:
            return
        if self._monitor is not None:
            self._monitor.received(now.monotonic)
        if self.holds_requests:
            if not data:
                return
            while self.holds_requests:  # the transport did not wait for `go_on`
                self._hurry()
                self.go_on(now)
        self._hurries = False
        try:
            self._commands = self._decoder.feed(data)
            self._next_command = 0
            self._handle_all(now)
        except RemoteProtocolError as error:
            self._break_off(error, now)

    def go_on(self, now: Time) -> None:
        """Process postponed commands."""
        if not self.holds_requests:
            return
        if self._monitor is not None:
            self._monitor.received(now.monotonic)  # the client is not read meanwhile, so silence is no sign
        try:
            self._handle_all(now)
        except RemoteProtocolError as error:
            self._break_off(error, now)

    @property
    def holds_requests(self) -> bool:
        """Return True while commands wait for the next turn, or for a commit or rollback over several turns."""
        if self._next_command < len(self._commands):
            return not self._is_ending
        client = self._client
        return client is not None and client.state.job is not None and not self._is_ending

    def _is_busy(self) -> bool:
        """Return True while a broker job of the client is unfinished; other requests of the client wait."""
        client = self._client
        return client is not None and client.state.job is not None

    def _is_held(self, command: wire.Command, now: Time) -> bool:
        """Return True if ``command`` is a login with a wait for a directory or a replaced connection's end."""
        if self._client is not None or self._hurries or not isinstance(command, wire.ConnectionInfo):
            return False
        try:
            return self._state is State.LOGIN and self._broker.is_held(self, self._login.connection_info(command), now)
        except JmsError:
            return False  # the login is refused at once for the error

    def _hurry(self) -> None:
        """Finish all waiting work at once."""
        self._hurries = True
        if self._client is not None:
            self._broker.complete(self._client.state)

    def _handle_all(self, now: Time) -> None:
        """Process commands until all are done or the share of the turn is used. Raises `RemoteProtocolError`."""
        end = self._broker.steps + REQUEST_STEPS
        self._is_paused = self._is_busy()
        while not self._is_paused:
            self._handle_decoded(end, now)
            if self._is_paused or self._next_command < len(self._commands):
                break
            self._commands = [] if self._decoder.is_drained else self._decoder.feed(b"")
            self._next_command = 0
            if not self._commands:
                break
        if self._is_ending:
            return
        reverse = self._network_peer.reverse
        if reverse is not None:
            reverse.settle(now)
        if self._output.unread_answers > MAX_UNREAD_ANSWER_BYTES:
            raise OpenWireProtocolError(f"{self._output.unread_answers} bytes of answers were not read")

    def _handle_decoded(self, end: int, now: Time) -> None:
        """Process decoded commands until the broker has done ``end`` steps or the connection is paused."""
        context = self._broker.assembly.context
        commands = self._commands
        count: i64 = len(commands)
        index: i64 = self._next_command
        while index < count and context.steps < end and not self._is_paused:
            command = commands[index]
            working = self._working
            if working is not None and isinstance(command, wire.MessageFrame):  # `_handle` does the same
                index += 1
                self._take_message(working, command, now)
                continue
            if working is None and self._is_held(command, now):
                break
            index += 1
            self._handle(command, now)
        self._next_command = index

    def receive_eof(self, now: Time) -> None:
        """Release the broker resources of a closed connection."""
        self._enter(State.CLOSED)
        self._broker.assembly.logins.forget(self)
        self._leave_broker("the connection was closed", now)

    def data_to_send(self) -> list[bytes]:
        """Return the output and forget it."""
        chunks = self._output.take()
        self._wrote = self._wrote or len(chunks) > 0
        return chunks

    def unsent(self, count: int) -> None:
        """Set the number of bytes that the transport has not sent yet."""
        self._output.unsent(count)
        client = self._client
        if client is None:
            return
        now = self._broker.environment.now()
        if self._wrote and self._monitor is not None:
            self._monitor.written(now.monotonic)
            self._wrote = False
        if client.undelivered:
            client.acknowledge_undelivered(now)
        self._broker.output_progress(client.state, count, now)
        reverse = self._network_peer.reverse
        if reverse is not None:
            reverse.unsent(count, now)

    def next_timeout(self) -> float | None:
        """Return the next deadline: login, keep-alive, inactivity or end."""
        if self._state is State.CLOSED:
            return None
        if self._client is None or self._state is State.CLOSING or self._monitor is None:
            return self._deadline
        reverse = self._network_peer.reverse
        times = (self._monitor.next_timeout(), None if reverse is None else reverse.next_timeout())
        return min([due for due in times if due is not None], default=None)

    def handle_timeout(self, now: Time) -> None:
        """Send a keep-alive, or close an inactive connection or one without a login."""
        monitor = self._monitor
        if self._state is State.CLOSING and now.monotonic >= self._deadline:
            self._enter(State.CLOSED)
        if self._is_ending:
            return
        if self._client is None:
            if now.monotonic >= self._deadline:
                self._break_off(OpenWireProtocolError(f"no login within {self._settings.login_timeout:g} s"), now)
        elif monitor is not None:
            monitor.suspend(not self.wants_read, now.monotonic)
            if monitor.is_silent(now.monotonic):
                silence = self._wire_format.max_inactivity_ms
                self._break_off(OpenWireProtocolError(f"Channel was inactive for too long: {silence} ms"), now)
            elif monitor.is_keep_alive_due(now.monotonic):
                self._output.append(wire.KeepAliveInfo())
            reverse = self._network_peer.reverse
            if reverse is not None and not self._is_ending:
                reverse.handle_timeout(now)

    @property
    def wants_read(self) -> bool:
        """Return False while the broker has no space for messages of the client."""
        client = self._client
        return client is None or not client.state.reading_paused

    @property
    def closed(self) -> bool:
        """Return True once the transport should write the remaining output and close the socket."""
        return self._state is State.CLOSED

    @property
    def pending_bytes(self) -> int:
        """Return the bytes in memory of an incomplete frame."""
        return self._decoder.pending_bytes

    @property
    def frame_limit(self) -> int:
        """Return the largest frame that the client may send now, in bytes; larger after the login."""
        return self._decoder.frame_limit

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Send the withheld response for ``token``, or the error."""
        client = self._client
        if client is None or self._is_ending:
            return
        if error is not None:
            self._refusals.log("request that had waited", error)
            self._refusals.send(throwable_of(error), None if token == client.farewell else client.correlation_of(token))
            client.forget(token)
        elif token == NO_TOKEN or token != client.farewell:
            client.answer(token)
        if client.farewell != NO_TOKEN and not client.state.parked:
            client.leave(self._broker.environment.now())
            self._enter(State.LEAVING)

    def close_with(self, error: SpanwireError) -> None:
        """Send ``error`` and close the connection; the peer has a moment to read it."""
        if self._is_ending:
            return
        self._refusals.send(throwable_of(error), None)
        self._enter(State.CLOSED)
        if self._client is not None:
            self._broker.mark_dirty(self._client.state)

    def advise(self, connected_brokers: str, rebalance: bool) -> None:
        """Send the client the list of other brokers."""
        client = self._client
        if self._is_ending or client is None or self._wire_format.version < LISTS_SINCE:
            return
        self._output.append(
            wire.ConnectionControl(connected_brokers=connected_brokers, reconnect_to="", rebalance_connection=rebalance)
        )
        self._broker.mark_dirty(client.state)

    def _handle(self, command: wire.Command, now: Time) -> None:
        working = self._working
        if working is not None:  # the most frequent commands; both are in the table, an AckRun as MessageAck
            if isinstance(command, wire.MessageFrame):
                self._take_message(working, command, now)
                return
            if isinstance(command, AckRun):
                self._take_acks(working, command, now)
                return
        self._handle_rare(command, now)
        if self._is_busy():  # the frequent commands start no job
            self._is_paused = True

    def _handle_rare(self, command: wire.Command, now: Time) -> None:
        """Process a command that the table of states allows. Raises `RemoteProtocolError`."""
        if self._take_duplex(command, now) or self._take_late(command):
            return
        following = next_state(self._state, command.type_id())
        if isinstance(command, wire.WireFormatInfo):
            self._negotiate(command)
        elif self._state is State.LOGIN:
            self._before_login(command, now)
        elif isinstance(command, wire.BrokerInfo):
            self._take_broker_info(command, now)
        elif isinstance(command, wire.BaseCommand):
            self._act(command, now)
        self._go_on(following, now)

    def _go_on(self, following: State, now: Time) -> None:
        """Enter the state of the table after a command, unless the command led to another state."""
        if not self._is_ending and self._state is not State.LEAVING:
            self._enter(following)
        if following is State.CLOSED:
            self.receive_eof(now)

    def _take_late(self, command: wire.Command) -> bool:
        """Answer a RemoveInfo for an object that ended with the connection.

        Another thread of the client may send such a late command.
        """
        if self._state is not State.LEAVING or not isinstance(command, wire.RemoveInfo):
            return False
        if command.response_required:
            self._output.respond(command.command_id)
        return True

    def _take_duplex(self, command: wire.Command, now: Time) -> bool:
        """Process responses and advisories of a duplex peer; return False for all other commands."""
        client, reverse = self._client, self._network_peer.reverse
        if client is None or reverse is None or self._state is not State.CONNECTED:
            return False
        if reverse.take(command, now):
            if reverse.reason:
                self._break_off(OpenWireProtocolError(reverse.reason), now)
        elif isinstance(command, wire.MessageFrame):
            self._take_message(client, command, now)
        elif isinstance(command, AckRun):
            self._take_acks(client, command, now)
        else:
            return False
        return True

    def _negotiate(self, command: wire.WireFormatInfo) -> None:
        wire_format = negotiated_format(self._settings, self._preferences, command)
        self._wire_format = wire_format
        self._decoder.negotiated(wire_format)
        self._output.negotiated(wire_format)
        self._output.append(
            wire.BrokerInfo(
                broker_id=wire.BrokerId(self._broker.broker_id),
                broker_url=self._settings.local_uri,
                broker_name=self._broker.name,
            )
        )

    def _before_login(self, command: wire.Command, now: Time) -> None:
        self._login.count(command.type_id())
        if isinstance(command, wire.ConnectionInfo):
            self._log_in(command, now)
            self._login.subscriptions = None  # taken, or of no use to anybody
            return
        self._login.take(command, self._wire_format)
        if isinstance(command, wire.BrokerSubscriptionInfo):
            self._decoder.introduces(False)
        elif isinstance(command, wire.BrokerInfo) and (command.network_connection or command.duplex_connection):
            self._decoder.introduces(self._network_peer.ask_to_introduce(self))
        elif isinstance(command, wire.KeepAliveInfo) and command.response_required:
            self._output.append(wire.KeepAliveInfo())

    def _log_in(self, command: wire.ConnectionInfo, now: Time) -> None:
        try:
            state = self._broker.add_connection(self, self._login.connection_info(command), now)
        except JmsError as error:
            if not isinstance(error, AuthenticationError):  # the audit log has such errors
                self._refusals.log("login", error)
            self._refusals.send(throwable_of(error), command.command_id if command.response_required else None)
            self._enter(State.CLOSING)
            self._deadline = now.monotonic + CLOSE_DELAY
            return
        version = self._wire_format.version
        message_format = self._broker.formats.format(format_id_of(version))
        assert isinstance(message_format, OpenWireMessageFormat)
        client = ClientCommands(self._broker, state, self._output, message_format, version, now)
        self._client = client
        self._refusals.connection_id = state.connection_id
        self._decoder.authenticated()
        self._monitor = InactivityMonitor(
            self._wire_format.max_inactivity_ms / 1000,
            self._wire_format.max_inactivity_initial_delay_ms / 1000,
            now.monotonic,
        )
        if command.response_required:
            self._output.respond(command.command_id)
        cluster = self._settings.cluster
        if command.manageable and cluster is not None and self._login.broker_info is None:
            cluster.join(self, command.failover_reconnect)
        elif command.manageable:
            self._output.append(wire.ConnectionControl(connected_brokers="", reconnect_to=""))
        parked = self._login.broker_info
        if parked is not None:
            self._take_broker_info(parked, now)

    def _take_broker_info(self, command: wire.BrokerInfo, now: Time) -> None:
        client = self._client
        assert client is not None
        try:
            self._network_peer.announce(command, self, client, self._login, self._wire_format, now)
            if self._network_peer.reverse is not None:
                self._decoder.gathers_answers = True
            return
        except JmsError as refusal:
            error = refusal
        self._refusals.log("BrokerInfo", error)
        self._refusals.send(throwable_of(error), None)
        self._leave_broker(str(error), now)
        self._enter(State.CLOSING)
        self._deadline = now.monotonic + CLOSE_DELAY

    def _take_message(self, client: ClientCommands, command: wire.MessageFrame, now: Time) -> None:
        """Execute the most frequent command, as `_act` does."""
        client.now = now
        client.withheld = False
        try:
            client.message(command)
        except (JmsError, StoreError) as error:
            self._refusals.log(wire.TYPE_NAMES[command.type_id()], error)
            self._refusals.send(throwable_of(error), command.command_id if command.response_required else None)
            client.refused()
            return
        if command.response_required and not client.withheld:
            self._output.respond(command.command_id)

    def _take_acks(self, client: ClientCommands, run: AckRun, now: Time) -> None:
        """Execute a run of acknowledgements; acknowledgements out of order are executed one by one."""
        client.now = now
        taken = client.ack_run(run)
        if taken == run.sequences.size:
            return
        for sequence in run.sequences.after(taken):
            self._act(run.pattern.acknowledgement(sequence), now)
            if self._is_ending:
                return

    def _act(self, command: wire.BaseCommand, now: Time) -> None:
        """Execute a command and respond, unless the response was sent or is withheld."""
        client = self._client
        assert client is not None
        client.begin(now)
        try:
            command.visit(client)
        except (JmsError, StoreError) as error:
            self._refusals.refuse(command, error, client.refusal)
            return
        if command.response_required and not client.withheld:
            self._output.respond(command.command_id)
        if client.is_disconnected:
            self._enter(State.LEAVING)

    def _break_off(self, error: ProtocolError, now: Time) -> None:
        """Close the connection after a protocol error; before its login the peer gets no explanation."""
        address = self._settings.remote_address
        if self._client is None:
            self._broker.assembly.unfinished_logins.ended(address, "OpenWire", logged_text(error), now.monotonic)
        else:
            logger.warning("OpenWire connection of %s closed: %s", address, logged_text(error))
            self._refusals.send(throwable_of(error), None)
        self._enter(State.CLOSED)
        self._leave_broker(str(error), now)

    def _enter(self, state: State) -> None:
        """Enter ``state``; all changes of state pass here."""
        self._state = state
        self._working = self._client if state is State.CONNECTED and self._network_peer.reverse is None else None
        self._is_ending = state is State.CLOSING or state is State.CLOSED
        if self._is_ending:
            self._is_paused = True
            self._commands = []
        if state is not State.LOGIN and self._network_peer.end_introduction() and self._is_ending:
            self._login.subscriptions = None

    def _leave_broker(self, reason: str, now: Time) -> None:
        self._network_peer.leave(reason, now)
        if self._settings.cluster is not None:
            self._settings.cluster.leave(self)
        client, self._client = self._client, None  # both refer to each other: a cycle would stay in memory for long
        if client is not None:
            self._decoder.release()
            self._broker.remove_connection(client.state, now)
