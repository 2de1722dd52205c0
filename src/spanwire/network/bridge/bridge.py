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

What leads from one to the next is in `TRANSITIONS`, and nowhere else. A bridge that is closed stays so; the connector
makes the next one.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.ports import ClientConnection
from spanwire.model.environment import Time
from spanwire.model.errors import (
    AuthenticationError,
    AuthorizationError,
    JmsError,
    RemoteProtocolError,
    SpanwireError,
    StoreError,
)
from spanwire.model.routing import UNNAMED
from spanwire.model.text import printable
from spanwire.network.bridge.duplex_bridge import advisory_in
from spanwire.network.bridge.forwarder import Crossing
from spanwire.network.bridge.inbound_bridge import InboundBridge
from spanwire.network.bridge.remote_broker import MAX_REMOTE_FRAME_BYTES, RemoteBroker, refusal_of
from spanwire.network.bridge_statistics import LinkCounts
from spanwire.network.demand.demand import local_login
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.demand.durable_sync import FIRST_VERSION, subscription_info
from spanwire.network.demand.remote_registry import name_elsewhere
from spanwire.network.settings import BridgeSettings
from spanwire.protocols.base import MAX_FRAME_SIZE, ProtocolConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.answer_run import AnswerRun
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from spanwire.protocols.openwire.inactivity import InactivityMonitor

START_DEADLINE: Final = 15.0  # seconds from the socket to a running bridge; ActiveMQ waits as long for a WireFormatInfo
NEWS_PATIENCE: Final = 60.0  # seconds in which consumers there, if there are any, were told of

logger = logging.getLogger(__name__)


class State(Enum):
    """Where a bridge stands."""

    NEGOTIATING = 0
    MEETING = 1
    STARTING = 2
    RUNNING = 3
    CLOSED = 4


class Event(Enum):
    """What may happen to a bridge; the values are the words of the documentation."""

    NEGOTIATED = "its WireFormatInfo"
    MET = "its BrokerInfo"
    LET_IN = "login answered"
    HEARS = "subscription answered"
    CUT = "connection closed"
    SILENT = "silence"
    BROKEN = "protocol broken"
    REFUSED = "refusal"
    CLASHED = "our own id"
    LEFT = "it stops"
    ENDED = "we stop"
    FAILED = "failure here"


LIVING: Final = (State.NEGOTIATING, State.MEETING, State.STARTING, State.RUNNING)
ENDINGS: Final = (
    Event.CUT,
    Event.SILENT,
    Event.BROKEN,
    Event.REFUSED,
    Event.CLASHED,
    Event.LEFT,
    Event.ENDED,
    Event.FAILED,
)
# What is absent for a state that lives is a broken protocol.
TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.NEGOTIATING, Event.NEGOTIATED): State.MEETING,
    (State.MEETING, Event.MET): State.STARTING,
    (State.STARTING, Event.MET): State.STARTING,  # brokers repeat it when their cluster changes
    (State.STARTING, Event.LET_IN): State.STARTING,
    (State.STARTING, Event.HEARS): State.RUNNING,
    (State.RUNNING, Event.MET): State.RUNNING,
    **{(state, event): State.CLOSED for state in LIVING for event in ENDINGS},
}


class NetworkBridge(ClientConnection, ProtocolConnection):
    """One link to one broker, from the first byte to the break; for the next link there is another one.

    Connecting and coming back is left to the connector, encoding to `RemoteBroker`, messages to `Crossing`, and the
    other direction of a duplex link to `InboundBridge`.
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
        self.met_itself = False
        self.running_since = 0.0  # monotonic seconds
        self.closed_since = 0.0
        self.tells_silence = True
        self.heard_nothing = False  # of any consumer there, for so long that there is none or advisories are off
        self._broker: Final[Broker] = broker
        self._broker_url: Final[str] = broker_url
        self._routes: Final[NetworkRoutes] = routes if routes is not None else NetworkRoutes()
        largest = MAX_FRAME_SIZE if settings.duplex else MAX_REMOTE_FRAME_BYTES
        self._remote: Final[RemoteBroker] = RemoteBroker(broker.ids.next_id(), preferences, largest=largest)
        self._inbound: Final[InboundBridge | None] = (
            InboundBridge(broker, settings, self._remote, self) if settings.duplex else None
        )
        self._deadline = now.monotonic + START_DEADLINE
        self._monitor: InactivityMonitor | None = None
        self._crossing: Crossing | None = None
        self._login_id = 0
        self._subscribe_id = 0
        self._wrote = False
        self._was_told = False
        self._awaits_news = False

    @property
    def remote_name(self) -> str:
        """The remote broker's name, once it is known."""
        return self._remote.name

    @property
    def demand_count(self) -> int:
        """How many subscriptions the bridge has here."""
        return 0 if self._crossing is None or self.closed else len(self._crossing.local.demand.subscriptions)

    def destinations(self, at_most: int) -> tuple[str, ...]:
        """What the remote broker wants messages of."""
        return () if self._crossing is None or self.closed else self._crossing.local.demand.destinations(at_most)

    def ways(self, at_most: int) -> tuple[tuple[str, ...], ...]:
        """The brokers on the way to consumers that are farther than the remote broker."""
        return () if self._crossing is None or self.closed else self._crossing.local.demand.ways(at_most)

    @property
    def forwarded(self) -> int:
        """How many messages were sent to the remote broker."""
        return 0 if self._crossing is None else self._crossing.forwarded

    @property
    def acknowledged(self) -> int:
        """How many messages were acknowledged here."""
        return 0 if self._crossing is None else self._crossing.local.acknowledged

    @property
    def in_flight(self) -> int:
        """How many messages are on their way: forwarded and not answered."""
        return 0 if self._crossing is None else self._crossing.in_flight

    def counts(self) -> LinkCounts:
        """What crossed, and what did not, since the link is up."""
        counts = LinkCounts() if self._crossing is None else self._crossing.counts()
        counts.received = 0 if self._inbound is None else self._inbound.received
        return counts

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
            if self._crossing is not None:
                self._crossing.settle(now)
        except RemoteProtocolError as error:
            self._fail(Event.BROKEN, f"the remote broker broke the protocol: {error}", now)
        except (JmsError, StoreError) as refusal:  # the names differ because a compiled variable has one type
            self._fail(Event.FAILED, local_reason(refusal, self.settings.user_name), now)

    def go_on(self, now: Time) -> None:
        """Do nothing: a bridge holds no requests."""

    @property
    def holds_requests(self) -> bool:
        """Return False: what the other broker sends is acted on at once."""
        return False

    def receive_eof(self, now: Time) -> None:
        """The link is broken: what was not answered goes back in line."""
        self._fail(Event.CUT, "the connection was closed", now)

    def data_to_send(self) -> list[bytes]:
        """Take what is to be written."""
        chunks = self._remote.output.take()
        self._wrote = self._wrote or len(chunks) > 0
        return chunks

    def unsent(self, count: int) -> None:
        """The transport still holds ``count`` bytes."""
        self._remote.output.unsent(count)
        crossing = self._crossing
        if crossing is None or self.closed:
            return
        now = self._broker.environment.now()
        if self._wrote and self._monitor is not None:
            self._monitor.written(now.monotonic)
            self._wrote = False
        crossing.unsent(count, now)
        if self._inbound is not None:
            self._inbound.unsent(count, now)

    def next_timeout(self) -> float | None:
        """The deadline of the start, then what the keep-alives and messages that were refused ask for."""
        if self.closed:
            return None
        monitor, crossing = self._monitor, self._crossing
        if self.state is not State.RUNNING or monitor is None or crossing is None:
            return self._deadline
        dues = [monitor.next_timeout(), crossing.next_timeout()]
        if self._awaits_news:
            dues.append(self.running_since + NEWS_PATIENCE)
        return min([due for due in dues if due is not None], default=None)

    def handle_timeout(self, now: Time) -> None:
        """Send a keep-alive, and what was refused once more; give up a link that is silent."""
        if self.closed:
            return
        monitor, crossing = self._monitor, self._crossing
        if self.state is not State.RUNNING or monitor is None or crossing is None:
            if now.monotonic >= self._deadline:
                reason = f"no answer within {START_DEADLINE:g} s (the peer accepts and stays silent)"
                self._fail(Event.SILENT, reason, now)
            return
        if monitor.is_silent(now.monotonic):
            self._fail(Event.SILENT, "the remote broker was silent for too long", now)
            return
        if monitor.is_keep_alive_due(now.monotonic):
            self._remote.says(wire.KeepAliveInfo())
        crossing.handle_timeout(now)
        if self._awaits_news and now.monotonic >= self.running_since + NEWS_PATIENCE:
            self._misses_news()

    @property
    def wants_read(self) -> bool:
        """Answers and advisories can always be taken, and messages that find no room wait."""
        return True

    @property
    def closed(self) -> bool:
        """True once the transport should write what is left and close the socket."""
        return self.state is State.CLOSED

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a frame whose end has not come yet."""
        return self._remote.pending_bytes

    def completed(self, token: int, error: SpanwireError | None) -> None:
        """What the other direction has sent is stored; this one asks for nothing that is answered later."""
        if self._inbound is not None and not self.closed:
            self._inbound.completed(token, error)

    def close_with(self, error: SpanwireError) -> None:
        """This broker stops, or its store failed."""
        if self.closed:
            return
        self._remote.says(wire.ShutdownInfo())
        self._fail(Event.ENDED, str(error), self._broker.environment.now())

    def _handle(self, command: wire.Command, now: Time) -> None:
        if isinstance(command, AnswerRun):
            for correlation_id in self._others(command):
                self._response(correlation_id, now)
        elif isinstance(command, wire.ExceptionResponse):
            self._refused(command, now)
        elif isinstance(command, wire.Response):
            self._response(command.correlation_id, now)
        elif isinstance(command, wire.MessageDispatch):
            self._remote.acknowledges(command)
            message = command.message
            self._advisory(None if message is None else message.data_structure, now)
        elif self._inbound is None or not self._take_inbound(self._inbound, command, now):
            self._handle_rare(command, now)

    def _take_inbound(self, inbound: InboundBridge, command: wire.Command, now: Time) -> bool:
        """What the remote broker's bridge says over a duplex link; False for what is none of it."""
        if isinstance(command, wire.ConnectionInfo):
            if self.state is not State.STARTING:
                raise OpenWireProtocolError("a ConnectionInfo came before the brokers had met")
            inbound.log_in(command, now)
            return True
        if isinstance(command, wire.MessageFrame):
            advisory = advisory_in(command)
            if advisory is not None:
                self._remote.acknowledges_message(advisory)
                self._advisory(advisory.data_structure, now)
                return True
        taken = inbound.take(command, now)
        if isinstance(command, wire.ProducerInfo) and inbound.is_logged_in and self.state is State.STARTING:
            self._accepted(now)
            self._is_running(now)
        return taken

    def _handle_rare(self, command: wire.Command, now: Time) -> None:
        if isinstance(command, wire.WireFormatInfo):
            self._negotiate(command, now)
        elif isinstance(command, wire.BrokerInfo):
            self._meet(command, now)
        elif isinstance(command, wire.KeepAliveInfo):
            if command.response_required:
                self._remote.answers()
        elif isinstance(command, wire.BrokerSubscriptionInfo):
            if self._crossing is not None:
                self._crossing.synchronised(command, now)
        elif isinstance(command, wire.ConnectionError):
            self._fail(Event.REFUSED, f"the remote broker refused: {refusal_of(command.exception)}", now)
        elif isinstance(command, wire.ShutdownInfo):
            self._fail(Event.LEFT, self._farewell(), now)
        elif isinstance(command, (wire.MessageFrame, wire.BaseCommand)) and not isinstance(
            command, (wire.ConnectionControl, wire.ConsumerControl)
        ):
            name = wire.TYPE_NAMES.get(command.type_id(), str(command.type_id()))
            raise OpenWireProtocolError(f"a {name} is nothing that a bridge is sent")

    def _farewell(self) -> str:
        """Why the remote broker has taken its leave. An ActiveMQ gives no reason when its direction of a duplex link
        cannot begin, as for a second broker of one name.
        """
        reason = "the remote broker is stopping"
        if self.was_running or not self.settings.duplex or self._broker.name != UNNAMED:
            return reason
        return (
            f"{reason}, or another broker without a brokerName has a duplex link to it: give each broker a brokerName "
            f"of its own"
        )

    def _negotiate(self, command: wire.WireFormatInfo, now: Time) -> None:
        self._go_on(Event.NEGOTIATED)
        wire_format = self._remote.negotiate(command)
        self._monitor = InactivityMonitor(
            wire_format.max_inactivity_ms / 1000, wire_format.max_inactivity_initial_delay_ms / 1000, now.monotonic
        )

    def _meet(self, command: wire.BrokerInfo, now: Time) -> None:
        """Both brokers know each other: log in here and there."""
        is_first = self.state is State.MEETING
        self._go_on(Event.MET)
        if not is_first:
            return
        remote, broker, settings = self._remote, self._broker, self.settings
        remote.met(command)
        if remote.broker_id == broker.broker_id:
            self.met_itself = True
            self._fail(Event.CLASHED, "the remote broker is this broker itself, or one with the same brokerId", now)
            return
        label = self._routes.linked.label(remote.broker_id, remote.name)
        login = local_login(settings, broker.ids.next_id(), broker.name, label)
        self._crossing = Crossing(broker, settings, remote, self, login, self._routes, now)
        remote.introduces(settings, broker.broker_id, broker.name, self._broker_url)
        wire_format = remote.wire_format
        self._login_id = remote.logs_in_as_configured(settings, name_elsewhere(broker.broker_id, broker.name))
        if settings.duplex and settings.sync_durable and wire_format is not None:
            if wire_format.version >= FIRST_VERSION:
                remote.says(subscription_info(broker, settings))  # after the login, for it may be large
                remote.logged_in()  # and so may be what the other end tells before it begins its direction
        self._subscribe_id = remote.subscribes(settings.advisory_topics(), not settings.duplex)

    def _others(self, run: AnswerRun) -> list[int]:
        """What is answered besides messages, most often nothing."""
        crossing = self._crossing
        return run.correlation_ids if crossing is None else crossing.answered_all(run.correlation_ids)

    def _response(self, correlation_id: int, now: Time) -> None:
        crossing = self._crossing
        if crossing is not None and crossing.answered(correlation_id):
            return
        if self.settings.duplex or self.state is not State.STARTING:
            return
        if correlation_id == self._login_id:
            self._accepted(now)
        elif correlation_id == self._subscribe_id:
            self._is_running(now)

    def _accepted(self, now: Time) -> None:
        """The remote broker has let this one in."""
        self._go_on(Event.LET_IN)
        self._remote.logged_in()
        if self._crossing is not None:
            self._crossing.local.starts(now)

    def _is_running(self, now: Time) -> None:
        self._go_on(Event.HEARS)
        self._awaits_news = not self.settings.static_bridge and not self._was_told
        self.running_since = now.monotonic
        self.was_running = True
        logger.info("network connector %s: bridge to broker %s is up", self.settings.name, self._remote.name)
        logger.info("Network connection between vm://%s and %s has been established.",
                    self._broker.name, self._remote.name)  # fmt: skip

    def _misses_news(self) -> None:
        """A broker tells at once of the consumers that it has, and a broker without advisories never does."""
        self._awaits_news = False
        self.heard_nothing = True
        if self.tells_silence:
            logger.warning(
                "network connector %s: broker %s has told of no consumer in %g s: it has none, or it has "
                "advisorySupport=\"false\", and then only static destinations are forwarded",
                self.settings.name, self._remote.name, NEWS_PATIENCE,
            )  # fmt: skip

    def _refused(self, command: wire.ExceptionResponse, now: Time) -> None:
        if self._crossing is None or not self._crossing.refused(command, now):
            what = "login" if command.correlation_id == self._login_id else "subscription to advisories"
            self._fail(Event.REFUSED, f"the remote broker refused the {what}: {refusal_of(command.exception)}", now)

    def _advisory(self, subject: DataStructure | None, now: Time) -> None:
        if self._crossing is None:
            raise OpenWireProtocolError("an advisory came before the bridge asked for any")
        self._was_told = True
        self._awaits_news = False
        self._crossing.told(subject, now)

    def _go_on(self, event: Event) -> None:
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise OpenWireProtocolError(f"{event.value} came in state {self.state.name}")
        self.state = following

    def _fail(self, event: Event, reason: str, now: Time) -> None:
        """The first reason counts."""
        if self.state is State.CLOSED:
            return
        self._go_on(event)
        self.closed_since = now.monotonic
        self.reason = printable(reason[:300])
        if self._crossing is not None:
            self._crossing.leave(now)
        if self._inbound is not None:
            self._inbound.leave(now)


def local_reason(refusal: SpanwireError, user_name: str | None) -> str:
    """Why the broker here ends its own bridge; for a login or a right that is missing, with what to do."""
    if isinstance(refusal, AuthenticationError):
        return (
            f"this broker refuses its own bridge: {refusal} Give the networkConnector the userName and password of a "
            "user of this broker"
        )
    if isinstance(refusal, AuthorizationError):
        user = "no userName" if user_name is None else f"userName {user_name}"
        return (
            f"this broker refuses its own bridge: {refusal}. The networkConnector has {user}: give it one with rights"
        )
    return str(refusal)
