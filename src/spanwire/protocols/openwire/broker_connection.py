"""The broker's side of an OpenWire connection: bytes and time in, bytes out (wire format versions 1 to 12).

``states.py`` defines the commands allowed in each state, ``client_commands.py`` executes the commands of a client.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.ports import NO_TOKEN, ClientConnection
from spanwire.model.environment import Time
from spanwire.model.errors import (
    AuthenticationError,
    InvalidSelectorError,
    JmsError,
    ProtocolError,
    RemoteProtocolError,
    SpanwireError,
    StoreError,
)
from spanwire.model.text import printable
from spanwire.protocols.base import REQUEST_STEPS, ConnectionSettings, ProtocolConnection
from spanwire.protocols.cluster import ClusterMember
from spanwire.protocols.openwire.client_commands import ClientCommands
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.ack_run import AckRun
from spanwire.protocols.openwire.codec.codec import FrameDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import (
    WireFormat,
    WireFormatPreferences,
    answer_preferences,
    negotiate,
    wire_format_info,
)
from spanwire.protocols.openwire.duplex import NetworkAcceptor, ReverseBridge
from spanwire.protocols.openwire.exceptions import invalid_selector, rollback_only, throwable_of
from spanwire.protocols.openwire.inactivity import InactivityMonitor
from spanwire.protocols.openwire.login import Login, minimum_version, preferences_of
from spanwire.protocols.openwire.messages.message_format import OpenWireMessageFormat, format_id_of
from spanwire.protocols.openwire.output import MAX_UNREAD_ANSWER_BYTES, OutputBuffer
from spanwire.protocols.openwire.states import TRANSITIONS, State

CLOSE_DELAY: Final = 2.0  # seconds for the client to read the refusal of its login; ActiveMQ's delay
MAX_LOGGED_REFUSALS: Final = 10  # logged refusals of one connection; a peer must not fill the log
MAX_LOGGED_TEXT: Final = 300  # characters of an error in the log; a peer's text may be long
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
        self._acceptor: Final[NetworkAcceptor | None] = acceptor
        self._reverse: ReverseBridge | None = None
        self._is_heard_out = False
        self._settings: Final[ConnectionSettings] = settings
        self._preferences: Final[WireFormatPreferences] = preferences_of(settings)
        self._decoder: Final[FrameDecoder] = FrameDecoder(settings.max_frame_size)
        self._commands: list[wire.Command] = []
        self._next_command = 0
        self._output: Final[OutputBuffer] = OutputBuffer()
        self._login: Final[Login] = Login(settings)
        self._state = State.NEGOTIATING
        self._is_ending = False
        self._hurries = False
        self._working: ClientCommands | None = None
        self._wire_format = WireFormat()
        self._client: ClientCommands | None = None
        self._monitor: InactivityMonitor | None = None
        self._deadline = now.monotonic + settings.login_timeout
        self._refusals_logged = 0
        self._has_broker_info = False
        self._entered: wire.BrokerInfo | None = None
        self._wrote = False
        self._output.append(wire_format_info(self._preferences))

    def receive_data(self, data: bytes, now: Time) -> None:
        """Process bytes from the peer and every complete frame in them."""
        if self._is_ending:
            return
        if self._monitor is not None:
            self._monitor.received(now.monotonic)
        if self.holds_requests and not data:
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
        return (self._next_command < len(self._commands) or self._is_busy()) and not self._is_ending

    def _is_busy(self) -> bool:
        """Return True while a broker job of the client is unfinished; other requests of the client wait."""
        client = self._client
        return client is not None and client.state.job is not None

    def _is_held(self, command: wire.Command) -> bool:
        """Return True if ``command`` is a login that must wait for the end of the connection that it replaces."""
        if self._client is not None or self._hurries or not isinstance(command, wire.ConnectionInfo):
            return False
        try:
            return self._state is State.LOGIN and self._broker.is_held(self._login.connection_info(command))
        except JmsError:
            return False  # it is refused for that at once

    def _hurry(self) -> None:
        """Finish all waiting work at once."""
        self._hurries = True
        if self._client is not None:
            self._broker.complete(self._client.state)

    def _handle_all(self, now: Time) -> None:
        """Process commands until all are done or the share of the turn is used. Raises `RemoteProtocolError`."""
        broker = self._broker
        end = broker.steps + REQUEST_STEPS
        commands = self._commands
        while not self._is_busy():
            while self._next_command < len(commands):
                if broker.steps >= end or self._is_busy() or self._is_held(commands[self._next_command]):
                    break
                self._next_command += 1
                self._handle(commands[self._next_command - 1], now)
                if self._is_ending:
                    return
            if self._next_command < len(commands) or self._is_busy():
                break
            self._commands = commands = self._decoder.feed(b"")
            self._next_command = 0
            if not commands:
                break
        if self._reverse is not None:
            self._reverse.settle(now)
        if self._output.unread_answers > MAX_UNREAD_ANSWER_BYTES:
            raise OpenWireProtocolError(f"{self._output.unread_answers} bytes of answers were not read")

    def receive_eof(self, now: Time) -> None:
        """Release the broker resources of a closed connection."""
        self._enter(State.CLOSED)
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
        if self._reverse is not None:
            self._reverse.unsent(count, now)

    def next_timeout(self) -> float | None:
        """Return the next deadline: login, keep-alive, inactivity or end."""
        if self._state is State.CLOSED:
            return None
        if self._client is None or self._state is State.CLOSING or self._monitor is None:
            return self._deadline
        reverse = None if self._reverse is None else self._reverse.next_timeout()
        return min([due for due in (self._monitor.next_timeout(), reverse) if due is not None], default=None)

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
            if self._reverse is not None and not self._is_ending:
                self._reverse.handle_timeout(now)

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

    def completed(self, token: int, error: SpanwireError | None) -> None:
        """Send the withheld response for ``token``, or the error."""
        client = self._client
        if client is None or self._is_ending:
            return
        if error is not None:
            self._log_refusal("request that had waited", error)
            self._say(throwable_of(error), None if token == client.farewell else client.correlation_of(token))
            if token != NO_TOKEN:
                client.release_window(token)
        elif token == NO_TOKEN or token != client.farewell:
            client.answer(token)
        if client.farewell != NO_TOKEN and not client.state.parked:
            client.leave(self._broker.environment.now())
            self._enter(State.LEAVING)

    def close_with(self, error: SpanwireError) -> None:
        """Send ``error`` and close the connection; the peer has a moment to read it."""
        if self._is_ending:
            return
        self._say(throwable_of(error), None)
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
        if self._take_duplex(command, now) or self._take_late(command):
            return
        following = self._following(command.type_id())
        if isinstance(command, wire.WireFormatInfo):
            self._negotiate(command, now)
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
        """Answer a RemoveInfo for an object that ended with its connection; a client's other thread may send one."""
        if self._state is not State.LEAVING or not isinstance(command, wire.RemoveInfo):
            return False
        if command.response_required:
            self._output.respond(command.command_id)
        return True

    def _take_duplex(self, command: wire.Command, now: Time) -> bool:
        """Process responses and advisories of a duplex peer; return False for all other commands."""
        client, reverse = self._client, self._reverse
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

    def _following(self, type_id: int) -> State:
        following = TRANSITIONS.get((self._state, type_id))
        if following is None:
            name = wire.TYPE_NAMES.get(type_id, str(type_id))
            raise OpenWireProtocolError(f"a {name} is not expected in state {self._state.name}")
        return following

    def _negotiate(self, command: wire.WireFormatInfo, now: Time) -> None:
        preferences = answer_preferences(self._preferences, command)
        wire_format = negotiate(preferences, command)
        least = minimum_version(self._settings)
        if wire_format.version < least:
            raise OpenWireProtocolError(f"wire format version {wire_format.version} is below the minimum of {least}")
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
        elif isinstance(command, wire.BrokerInfo):
            self._login.broker(command, self._wire_format)
            if self._acceptor is not None and (command.network_connection or command.duplex_connection):
                self._is_heard_out = self._acceptor.hears_out(self)
                self._decoder.introduces(self._is_heard_out)
        elif isinstance(command, wire.BrokerSubscriptionInfo):
            self._login.subscribed(command, self._wire_format)
            self._decoder.introduces(False)
        elif isinstance(command, wire.ConnectionControl):
            self._login.control(command)
        elif isinstance(command, wire.KeepAliveInfo) and command.response_required:
            self._output.append(wire.KeepAliveInfo())

    def _log_in(self, command: wire.ConnectionInfo, now: Time) -> None:
        try:
            state = self._broker.add_connection(self, self._login.connection_info(command), now)
        except JmsError as error:
            if not isinstance(error, AuthenticationError):  # the audit log has such errors
                self._log_refusal("login", error)
            self._say(throwable_of(error), command.command_id if command.response_required else None)
            self._enter(State.CLOSING)
            self._deadline = now.monotonic + CLOSE_DELAY
            return
        version = self._wire_format.version
        message_format = self._broker.formats.format(format_id_of(version))
        assert isinstance(message_format, OpenWireMessageFormat)
        client = ClientCommands(self._broker, state, self._output, message_format, version, now)
        self._client = client
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
        if self._has_broker_info:
            raise OpenWireProtocolError("a second BrokerInfo came on one connection")
        self._has_broker_info = True
        client = self._client
        if client is None or not (command.network_connection or command.slave_broker or command.duplex_connection):
            return
        try:
            if command.slave_broker:
                raise JmsError("slave brokers are not supported: open a network connector instead")
            self._broker.check_bridge(client.state)
            client.serve_bridge("" if command.broker_id is None else command.broker_id.value or "")
            if self._acceptor is not None:
                self._acceptor.enter(command)
                self._entered = command
                subscriptions = self._acceptor.subscriptions(command, self._wire_format.version)
                if subscriptions is not None:
                    self._output.append(subscriptions)
            if command.duplex_connection:
                self._accept_duplex(client, command, now)
            return
        except JmsError as refusal:
            error = refusal
        self._log_refusal("BrokerInfo", error)
        self._say(throwable_of(error), None)
        self._leave_broker(str(error), now)
        self._enter(State.CLOSING)
        self._deadline = now.monotonic + CLOSE_DELAY

    def _accept_duplex(self, client: ClientCommands, command: wire.BrokerInfo, now: Time) -> None:
        if self._acceptor is None:
            raise JmsError("duplex connections are not served here: open a second network connector instead")
        reverse = self._acceptor.accept(command, self, client.state, self._output, self._wire_format, now)
        self._reverse = reverse
        self._decoder.gathers_answers = True
        parked = self._login.subscriptions
        if parked is not None:
            reverse.take(parked, now)

    def _take_message(self, client: ClientCommands, command: wire.MessageFrame, now: Time) -> None:
        """Execute the most frequent command, as `_act` does."""
        client.now = now
        client.withheld = False
        try:
            client.message(command)
        except (JmsError, StoreError) as error:
            correlation_id = command.command_id if command.response_required else None
            self._refuse(command.type_id(), throwable_of(error), correlation_id, error)
            client.refused()
            return
        if command.response_required and not client.withheld:
            self._output.respond(command.command_id)

    def _take_acks(self, client: ClientCommands, run: AckRun, now: Time) -> None:
        """Execute a run of acknowledgements; the ones out of order are executed one by one."""
        client.now = now
        taken = client.ack_run(run)
        if taken == len(run.sequences):
            return
        for sequence in run.sequences[taken:]:
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
            throwable = throwable_of(error)
            if isinstance(command, wire.ConsumerInfo) and isinstance(error, InvalidSelectorError):
                throwable = invalid_selector(command.selector or "", error)
            elif client.refusal is not None:
                throwable = rollback_only(client.refusal)
            correlation_id = command.command_id if command.response_required else None
            self._refuse(command.type_id(), throwable, correlation_id, error)
            return
        if command.response_required and not client.withheld:
            self._output.respond(command.command_id)
        if client.is_disconnected:
            self._enter(State.LEAVING)

    def _refuse(self, type_id: int, throwable: Throwable, correlation_id: int | None, error: SpanwireError) -> None:
        self._log_refusal(wire.TYPE_NAMES[type_id], error)
        self._say(throwable, correlation_id)

    def _say(self, throwable: Throwable, correlation_id: int | None) -> None:
        """Send an ExceptionResponse if a response is due, else a ConnectionError."""
        if correlation_id is not None:
            self._output.answer(wire.ExceptionResponse(correlation_id=correlation_id, exception=throwable))
            return
        client = self._client
        connection_id = None if client is None else wire.ConnectionId(client.state.connection_id)
        self._output.answer(wire.ConnectionError(exception=throwable, connection_id=connection_id))

    def _break_off(self, error: ProtocolError, now: Time) -> None:
        """Close the connection after a protocol error; before its login the peer gets no explanation."""
        address = self._settings.remote_address
        if self._client is None:
            self._broker.unfinished_logins.ended(address, "OpenWire", _logged_text(error), now.monotonic)
        else:
            logger.warning("OpenWire connection of %s closed: %s", address, _logged_text(error))
            self._say(throwable_of(error), None)
        self._enter(State.CLOSED)
        self._leave_broker(str(error), now)

    def _log_refusal(self, what: str, error: SpanwireError) -> None:
        self._refusals_logged += 1
        if self._refusals_logged <= MAX_LOGGED_REFUSALS:
            logger.warning("%s of %s refused: %s", what, self._settings.remote_address, _logged_text(error))

    def _enter(self, state: State) -> None:
        """Enter ``state``; all changes of state pass here."""
        self._state = state
        self._working = self._client if state is State.CONNECTED and self._reverse is None else None
        self._is_ending = state is State.CLOSING or state is State.CLOSED
        if self._is_ending:
            self._commands = []
        if self._is_heard_out and state is not State.LOGIN and self._acceptor is not None:
            self._is_heard_out = False
            self._acceptor.falls_silent(self)
            if self._is_ending:
                self._login.subscriptions = None

    def _leave_broker(self, reason: str, now: Time) -> None:
        if self._reverse is not None:
            self._reverse.leave(reason, now)
        if self._settings.cluster is not None:
            self._settings.cluster.leave(self)
        entered, self._entered = self._entered, None
        if entered is not None and self._acceptor is not None:
            self._acceptor.left(entered)
        if self._client is not None:
            self._broker.remove_connection(self._client.state, now)


def _logged_text(error: SpanwireError) -> str:
    """Return the text of an error for the log: one line, without unprintable characters of the peer."""
    return printable(str(error)[:MAX_LOGGED_TEXT])
