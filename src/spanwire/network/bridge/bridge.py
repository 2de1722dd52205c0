"""A bridge to one remote broker, without a socket: bytes and time in, bytes out.

At the local broker the bridge is a client in process. At the remote broker it is an OpenWire connection
(`RemoteBroker`). Advisories announce the remote consumers, and the bridge subscribes for them at the local broker. Each
dispatched message is sent to the remote broker, and acknowledged locally after the remote broker's answer. So the
remote broker's pace limits the local window. When the link breaks, the local broker dispatches messages without an
answer again, marked as redelivered.

The states are in `bridge_states`.
"""

from __future__ import annotations

import logging
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
from spanwire.network.bridge.bridge_states import TRANSITIONS, Event, State
from spanwire.network.bridge.bridge_statistics import BridgeStatistics, LinkCounts
from spanwire.network.bridge.duplex_bridge import advisory_in
from spanwire.network.bridge.forwarder import Forwarder
from spanwire.network.bridge.inbound_bridge import InboundBridge
from spanwire.network.bridge.remote_broker import MAX_REMOTE_FRAME_BYTES, RemoteBroker, refusal_text
from spanwire.network.demand.bridge_settings import BridgeSettings, local_login
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.demand.durable_sync import FIRST_VERSION, subscription_info
from spanwire.network.demand.remote_registry import name_elsewhere
from spanwire.protocols.base import MAX_FRAME_SIZE, ProtocolConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.answer_run import AnswerRun
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.other_protocol import OtherProtocolError
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from spanwire.protocols.openwire.inactivity import InactivityMonitor

START_DEADLINE: Final = 15.0  # seconds from connect to RUNNING; ActiveMQ waits as long for a WireFormatInfo
ADVISORY_DEADLINE: Final = 60.0  # seconds; a broker with consumers has announced them by then
SILENT_END: Final = "the connection was closed before the remote broker said anything"
SUBSCRIPTION_REQUEST: Final = (
    "subscription to advisories, for which the connector's user needs the right to read ActiveMQ.Advisory.> there"
)

logger = logging.getLogger(__name__)


class NetworkBridge(ClientConnection, ProtocolConnection):
    """One link to one broker, from the first byte to the break.

    The connector connects, `RemoteBroker` encodes, `Forwarder` forwards, `InboundBridge` serves the other direction.
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
        self.counts: LinkCounts = LinkCounts()  # the link's, from its first bridge on
        self.state = State.NEGOTIATING
        self.reason = ""
        self.was_running = False
        self.leads_to_itself = False
        self.running_since = self.closed_since = 0.0  # monotonic seconds
        self.running_since_ms = 0  # wall milliseconds
        self.failed_here = False  # this broker has refused what the bridge asked for
        self.logs_no_demand = True
        self.has_no_demand = False  # no consumer was announced in time: there is none, or advisories are off
        self._broker: Final[Broker] = broker
        self._broker_url: Final[str] = broker_url
        self._routes: Final[NetworkRoutes] = routes if routes is not None else NetworkRoutes()
        largest = MAX_FRAME_SIZE if settings.duplex else MAX_REMOTE_FRAME_BYTES
        self.remote: Final[RemoteBroker] = RemoteBroker(broker.ids.next_id(), preferences, largest=largest)
        self._inbound: Final[InboundBridge | None] = (
            InboundBridge(broker, settings, self.remote, self) if settings.duplex else None
        )
        self._deadline = now.monotonic + START_DEADLINE
        self._monitor: InactivityMonitor | None = None
        self.forwarder: Forwarder | None = None
        self._login_id = 0
        self._subscribe_id = 0
        self._wrote = False
        self._has_advisory = False
        self._awaits_advisories = False

    @property
    def remote_name(self) -> str:
        """The remote broker's name, "" before its BrokerInfo."""
        return self.remote.name

    @property
    def demand_count(self) -> int:
        """The number of subscriptions of the bridge at the local broker."""
        return 0 if self.forwarder is None or self.closed else len(self.forwarder.local.demand.subscriptions)

    def destinations(self, at_most: int) -> tuple[str, ...]:
        """Return at most ``at_most`` names of destinations with demand."""
        return () if self.forwarder is None or self.closed else self.forwarder.local.demand.destinations(at_most)

    def ways(self, at_most: int) -> tuple[tuple[str, ...], ...]:
        """Return at most ``at_most`` paths of brokers to consumers beyond the remote broker."""
        return () if self.forwarder is None or self.closed else self.forwarder.local.demand.ways(at_most)

    @property
    def acknowledged(self) -> int:
        """The number of messages acknowledged at the local broker."""
        return 0 if self.forwarder is None else self.forwarder.acknowledged

    @property
    def in_flight(self) -> int:
        """The number of forwarded messages without an answer."""
        return 0 if self.forwarder is None else self.forwarder.in_flight

    def statistics(self) -> BridgeStatistics:
        """Return the counters of this bridge."""
        statistics = BridgeStatistics() if self.forwarder is None else self.forwarder.statistics()
        statistics.received = 0 if self._inbound is None else self._inbound.received
        return statistics

    def receive_data(self, data: bytes, now: Time) -> None:
        """Act on every complete frame in the bytes of the remote broker."""
        if self.state is State.CLOSED:
            return
        if self._monitor is not None:
            self._monitor.received(now.monotonic)
        try:
            commands = self.remote.decode(data)
            while commands:
                for command in commands:
                    self._handle(command, now)
                    if self.closed:
                        return
                commands = self.remote.decode(b"")
            self.remote.check_answers()
            if self.forwarder is not None:
                self.forwarder.settle(now)
        except OtherProtocolError as other:
            self._fail(Event.PROTOCOL_ERROR, f"the port {other}", now)
        except RemoteProtocolError as error:
            self._fail(Event.PROTOCOL_ERROR, f"the remote broker broke the protocol: {error}", now)
        except (JmsError, StoreError) as refusal:
            self.failed_here = True
            self._fail(Event.LOCAL_ERROR, local_reason(refusal, self.settings.user_name), now)

    def go_on(self, now: Time) -> None:
        """Do nothing: a bridge holds no requests."""

    @property
    def holds_requests(self) -> bool:
        """False: commands of the remote broker are executed at once."""
        return False

    def receive_eof(self, now: Time) -> None:
        """Close the bridge after the connection. Messages without an answer return to their queues."""
        is_silent = self.state is State.NEGOTIATING and self.remote.pending_bytes == 0
        self._fail(Event.DISCONNECTED, SILENT_END if is_silent else "the connection was closed", now)

    def data_to_send(self) -> list[bytes]:
        """Take the output."""
        chunks = self.remote.output.take()
        self._wrote = self._wrote or len(chunks) > 0
        return chunks

    def unsent(self, count: int) -> None:
        """Note that ``count`` bytes of the output are unsent."""
        self.remote.output.unsent(count)
        forwarder = self.forwarder
        if forwarder is None or self.closed:
            return
        now = self._broker.environment.now()
        if self._wrote and self._monitor is not None:
            self._monitor.written(now.monotonic)
            self._wrote = False
        forwarder.unsent(count, now)
        if self._inbound is not None:
            self._inbound.unsent(count, now)

    def next_timeout(self) -> float | None:
        """Return the deadline of the start, then the next time of a keep-alive or of a retry."""
        if self.closed:
            return None
        monitor, forwarder = self._monitor, self.forwarder
        if self.state is not State.RUNNING or monitor is None or forwarder is None:
            return self._deadline
        dues = [monitor.next_timeout(), forwarder.next_timeout()]
        if self._awaits_advisories:
            dues.append(self.running_since + ADVISORY_DEADLINE)
        return min([due for due in dues if due is not None], default=None)

    def handle_timeout(self, now: Time) -> None:
        """Send a keep-alive and due retries; close a silent link."""
        if self.closed:
            return
        monitor, forwarder = self._monitor, self.forwarder
        if self.state is not State.RUNNING or monitor is None or forwarder is None:
            if now.monotonic >= self._deadline:
                reason = f"no answer within {START_DEADLINE:g} s (the peer accepts and stays silent)"
                self._fail(Event.INACTIVE, reason, now)
            return
        if monitor.is_silent(now.monotonic):
            self._fail(
                Event.INACTIVE, "the remote broker was silent for longer than wireFormat.maxInactivityDuration", now
            )
            return
        if monitor.is_keep_alive_due(now.monotonic):
            self.remote.send(wire.KeepAliveInfo())
        forwarder.handle_timeout(now)
        if self._awaits_advisories and now.monotonic >= self.running_since + ADVISORY_DEADLINE:
            self._report_no_advisory()

    @property
    def wants_read(self) -> bool:
        """True: answers and advisories are always read, and messages without room wait."""
        return True

    @property
    def closed(self) -> bool:
        """True once the transport should write the remaining output and close the socket."""
        return self.state is State.CLOSED

    @property
    def pending_bytes(self) -> int:
        """The bytes of an incomplete frame."""
        return self.remote.pending_bytes

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Answer a stored message of the other direction; this direction waits for no stored message."""
        if self._inbound is not None and not self.closed:
            self._inbound.on_completed(token, error)

    def close_with(self, error: SpanwireError) -> None:
        """Close the bridge, because the local broker stops or its store failed."""
        if self.closed:
            return
        self.remote.send(wire.ShutdownInfo())
        self._fail(Event.STOPPED, str(error), self._broker.environment.now())

    def _handle(self, command: wire.Command, now: Time) -> None:
        if isinstance(command, AnswerRun):
            for correlation_id in self._unmatched(command):
                self._on_response(correlation_id, now)
        elif isinstance(command, wire.ExceptionResponse):
            self._on_exception(command, now)
        elif isinstance(command, wire.Response):
            self._on_response(command.correlation_id, now)
        elif isinstance(command, wire.MessageDispatch):
            self.remote.acknowledge_dispatch(command)
            message = command.message
            self._on_advisory(None if message is None else message.data_structure, now)
        elif self._inbound is None or not self._take_inbound(self._inbound, command, now):
            self._handle_rare(command, now)

    def _take_inbound(self, inbound: InboundBridge, command: wire.Command, now: Time) -> bool:
        """Execute a command of the remote broker's bridge on a duplex link; False for other commands."""
        if isinstance(command, wire.ConnectionInfo):
            if self.state is not State.STARTING:
                raise OpenWireProtocolError("a ConnectionInfo arrived before the BrokerInfo")
            inbound.log_in(command, self.counts.inbound, now)
            return True
        if isinstance(command, wire.MessageFrame):
            advisory = advisory_in(command)
            if advisory is not None:
                self.remote.acknowledge_advisory(advisory)
                self._on_advisory(advisory.data_structure, now)
                return True
        is_taken = inbound.take(command, now)
        if isinstance(command, wire.ProducerInfo) and inbound.is_logged_in and self.state is State.STARTING:
            self._on_login_accepted(now)
            self._on_subscribed(now)
        return is_taken

    def _handle_rare(self, command: wire.Command, now: Time) -> None:
        if isinstance(command, wire.WireFormatInfo):
            self._negotiate(command, now)
        elif isinstance(command, wire.BrokerInfo):
            self._on_broker_info(command, now)
        elif isinstance(command, wire.KeepAliveInfo):
            if command.response_required:
                self.remote.answer_keep_alive()
        elif isinstance(command, wire.BrokerSubscriptionInfo):
            if self.forwarder is not None:
                self.forwarder.on_subscription_info(command, now)
        elif isinstance(command, wire.ConnectionError):
            self._fail(Event.REFUSED, f"the remote broker refused: {refusal_text(command.exception)}", now)
        elif isinstance(command, wire.ShutdownInfo):
            self._fail(Event.REMOTE_STOPPED, self._shutdown_reason(), now)
        elif isinstance(command, (wire.MessageFrame, wire.BaseCommand)) and not isinstance(
            command, (wire.ConnectionControl, wire.ConsumerControl)
        ):
            name = wire.TYPE_NAMES.get(command.type_id(), str(command.type_id()))
            raise OpenWireProtocolError(f"a bridge accepts no {name}")

    def _shutdown_reason(self) -> str:
        """Return the reason for the remote broker's shutdown command.

        ActiveMQ gives no reason when its direction of a duplex link cannot begin, such as for a second broker of one
        name.
        """
        reason = "the remote broker is stopping"
        if self.was_running or not self.settings.duplex or self._broker.name != UNNAMED:
            return reason
        return (
            f"{reason}, or another broker without a brokerName has a duplex link to it: give each broker a brokerName "
            f"of its own"
        )

    def _negotiate(self, command: wire.WireFormatInfo, now: Time) -> None:
        self._transition(Event.NEGOTIATED)
        wire_format = self.remote.negotiate(command)
        self._monitor = InactivityMonitor(
            wire_format.max_inactivity_ms / 1000, wire_format.max_inactivity_initial_delay_ms / 1000, now.monotonic
        )

    def _on_broker_info(self, command: wire.BrokerInfo, now: Time) -> None:
        """Log in at both brokers after the first BrokerInfo."""
        is_first = self.state is State.IDENTIFYING
        self._transition(Event.BROKER_INFO_RECEIVED)
        if not is_first:
            return
        remote, broker, settings = self.remote, self._broker, self.settings
        remote.identify(command)
        if remote.broker_id == broker.broker_id:
            self.leads_to_itself = True
            self._fail(
                Event.DUPLICATE_ID, "the remote broker is this broker itself, or one with the same brokerId", now
            )
            return
        label = self._routes.remote_brokers.label(remote.broker_id, remote.name)
        login = local_login(settings, broker.ids.next_id(), broker.name, label)
        self.forwarder = Forwarder(broker, settings, remote, self, login, self._routes, now)
        self.forwarder.counts = self.counts
        remote.send_broker_info(settings, broker.broker_id, broker.name, self._broker_url)
        wire_format = remote.wire_format
        self._login_id = remote.log_in_as_configured(settings, name_elsewhere(broker.broker_id, broker.name))
        if settings.duplex and settings.sync_durable and wire_format is not None:
            if wire_format.version >= FIRST_VERSION:
                remote.send(subscription_info(broker, settings))  # after the login, because it may be large
                remote.on_login_accepted()  # the other end's subscription info may be large, too
        self._subscribe_id = remote.subscribe(settings.advisory_topics(), not settings.duplex)

    def _unmatched(self, run: AnswerRun) -> list[int]:
        """Return the answers of a run to other commands than messages; usually none."""
        forwarder = self.forwarder
        return run.correlation_ids if forwarder is None else forwarder.on_responses(run.correlation_ids)

    def _on_response(self, correlation_id: int, now: Time) -> None:
        forwarder = self.forwarder
        if forwarder is not None and forwarder.on_response(correlation_id):
            return
        if self.settings.duplex or self.state is not State.STARTING:
            return
        if correlation_id == self._login_id:
            self._on_login_accepted(now)
        elif correlation_id == self._subscribe_id:
            self._on_subscribed(now)

    def _on_login_accepted(self, now: Time) -> None:
        """Start the local side, because the remote broker has accepted the login."""
        self._transition(Event.LOGIN_ACCEPTED)
        self.remote.on_login_accepted()
        if self.forwarder is not None:
            self.forwarder.local.start(now)

    def _on_subscribed(self, now: Time) -> None:
        self._transition(Event.SUBSCRIBED)
        self._awaits_advisories = not self.settings.static_bridge and not self._has_advisory
        self.running_since = now.monotonic
        self.running_since_ms = now.wall_ms
        self.was_running = True
        logger.info("network connector %s: bridge to broker %s is up", self.settings.name, self.remote.name)
        logger.info("Network connection between vm://%s and %s has been established.",
                    self._broker.name, self.remote.name)  # fmt: skip

    def _report_no_advisory(self) -> None:
        """Log the absence of advisories.

        A broker announces its consumers at once, and a broker without advisories never does.
        """
        self._awaits_advisories = False
        self.has_no_demand = True
        if self.logs_no_demand:
            logger.warning(
                "network connector %s: broker %s has announced no consumer in %g s: it has none, or it has "
                "advisorySupport=\"false\"; then only static destinations are forwarded",
                self.settings.name, self.remote.name, ADVISORY_DEADLINE,
            )  # fmt: skip

    def _on_exception(self, command: wire.ExceptionResponse, now: Time) -> None:
        if self.forwarder is None or not self.forwarder.on_refusal(command, now):
            request = "login" if command.correlation_id == self._login_id else SUBSCRIPTION_REQUEST
            self._fail(
                Event.REFUSED, f"the remote broker refused the {request}: {refusal_text(command.exception)}", now
            )

    def _on_advisory(self, subject: DataStructure | None, now: Time) -> None:
        if self.forwarder is None:
            raise OpenWireProtocolError("an advisory arrived before the subscription to advisories")
        self._has_advisory = True
        self._awaits_advisories = False
        self.forwarder.on_advisory(subject, now)

    def _transition(self, event: Event) -> None:
        successor = TRANSITIONS.get((self.state, event))
        if successor is None:
            raise OpenWireProtocolError(f"unexpected in state {self.state.name}: {event.value}")
        self.state = successor

    def _fail(self, event: Event, reason: str, now: Time) -> None:
        """Close the bridge; the first reason counts."""
        if self.state is State.CLOSED:
            return
        self._transition(event)
        self.closed_since = now.monotonic
        self.reason = printable(reason[:300])
        if self.forwarder is not None:
            self.forwarder.close(now)
        if self._inbound is not None:
            self._inbound.leave(now)


def local_reason(refusal: SpanwireError, user_name: str | None) -> str:
    """Return the reason why the local broker closes its own bridge, with a remedy for logins and rights."""
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
