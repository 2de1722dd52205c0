"""This broker's bridge over a link opened by another broker, and the acceptor of such links.

The peer's connector sends its settings in the BrokerInfo. A connector is known as ``name@brokerId``. A newer link of a
connector replaces the older one. If another process opens the newer link while the older link answers, two brokers have
one id and name; then the newer link is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import ClientConnection
from spanwire.broker.security.audit_log import printable
from spanwire.discovery.addresses.address import read_address
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.info import ConnectionInfo
from spanwire.network.bridge.bridge_statistics import BridgeStatistics, LinkCounts
from spanwire.network.bridge.forwarder import Forwarder
from spanwire.network.bridge.invitation import FIRST_VERSION as FIRST_TOKEN
from spanwire.network.bridge.invitation import invitation
from spanwire.network.bridge.remote_broker import RemoteBroker, exception_text
from spanwire.network.bridge.settings_codec import settings_of, syncs_durable
from spanwire.network.demand.bridge_settings import MAX_DEMAND, BridgeSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.demand.durable_sync import FIRST_VERSION, subscription_info
from spanwire.network.demand.remote_registry import name_elsewhere
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.answer_run import AnswerRun
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.codec.wire_format import PROVIDER_NAME, WireFormat
from spanwire.protocols.openwire.duplex import NetworkAcceptor, ReverseBridge
from spanwire.protocols.openwire.output import OutputBuffer

ADVISORY_PREFIX: Final = "ActiveMQ.Advisory."
MAX_DUPLEX_LINKS: Final = 1_000  # links of one broker; as many closed links are remembered
ANSWER_PATIENCE: Final = 5.0  # seconds in which an older link must answer, about three attempts of a newer one
MAX_INVITED: Final = 200  # brokers invited to report in one round, as many as are asked
MAX_UNLIMITED_LOGINS: Final = 4  # bridges with a large list before their login; bounds unauthenticated input to 4 MiB

logger = logging.getLogger(__name__)


class AcceptedLink:
    """The successive links of one connector of a remote broker.

    ``changed_at`` is the time of the last connect or break in monotonic seconds, ``reason`` the cause of the last
    break.
    """

    def __init__(self, name: str, remote_name: str, address: str) -> None:
        self.name: Final[str] = name
        self.remote_name: Final[str] = remote_name
        self.address = address
        self.bridge: DuplexBridge | None = None
        self.connection_count = 0
        self.changed_at = 0.0
        self.reason = ""
        self.counts: Final[LinkCounts] = LinkCounts()
        self.running_since_ms = 0  # wall milliseconds; 0 while the link is down
        self._earlier: Final[BridgeStatistics] = BridgeStatistics()
        self._before: Final[BridgeStatistics] = BridgeStatistics()  # counters at the last reset
        self.connections_before = 0

    def on_link_up(self, bridge: DuplexBridge, address: str, now: Time) -> None:
        """Note a new link."""
        self.bridge = bridge
        bridge.forwarder.counts = self.counts
        self.counts.begin(now.monotonic)
        self.address = address
        self.connection_count += 1
        self.changed_at = now.monotonic
        self.running_since_ms = now.wall_ms

    def on_link_down(self, bridge: DuplexBridge, reason: str, now: Time) -> None:
        """Note the end of a link."""
        if self.bridge is bridge:
            self.bridge = None
            self.running_since_ms = 0
            self.reason = reason
            self.changed_at = now.monotonic
            self.counts.shrink()
        self._earlier.add(bridge.statistics())

    @property
    def breaks(self) -> int:
        """The number of links ended since the last reset."""
        return self.connection_count - self.connections_before - (0 if self.bridge is None else 1)

    def reset(self, monotonic: float) -> None:
        """Set the counters to 0."""
        self._before.add(self.statistics())
        self.connections_before = self.connection_count - (0 if self.bridge is None else 1)
        self.counts.reset(monotonic)

    def statistics(self) -> BridgeStatistics:
        """Return the counters of all successive links since the last reset."""
        statistics = BridgeStatistics()
        statistics.add(self._earlier)
        if self.bridge is not None:
            statistics.add(self.bridge.statistics())
        statistics.subtract(self._before)
        return statistics


class DuplexBridge(ReverseBridge):
    """This broker's bridge over a link opened by the remote broker."""

    def __init__(
        self,
        acceptor: DuplexAcceptor,
        key: str,
        settings: BridgeSettings,
        remote: RemoteBroker,
        connection: ClientConnection,
        forwarder: Forwarder,
        user: str,
        process: str,
    ) -> None:
        self.key: Final[str] = key
        self.settings: Final[BridgeSettings] = settings
        self.remote: Final[RemoteBroker] = remote
        self.connection: Final[ClientConnection] = connection
        self.forwarder: Final[Forwarder] = forwarder
        self.user: Final[str] = user
        self.process: Final[str] = process
        self._probed_at = 0.0
        self._has_answered = True
        self._acceptor: Final[DuplexAcceptor] = acceptor
        self._reason = ""
        self._is_closed = False
        self.received = 0

    def statistics(self) -> BridgeStatistics:
        """Return the counters of this bridge."""
        statistics = self.forwarder.statistics()
        statistics.received = self.received
        return statistics

    @property
    def address(self) -> str:
        """The address of the peer."""
        return self.forwarder.local.client.info.remote_address

    @property
    def reason(self) -> str:
        """The reason of the end; "" while the bridge is open."""
        return self._reason

    def take(self, command: wire.Command, now: Time) -> bool:
        """Execute an answer or an advisory of the peer; False for a client's command."""
        forwarder = self.forwarder
        if isinstance(command, (AnswerRun, wire.Response)):
            self._take_answer(command, now)
        elif isinstance(command, wire.MessageDispatch):
            self.remote.acknowledge_dispatch(command)
            if command.message is not None:
                forwarder.on_advisory(command.message.data_structure, now)
        elif isinstance(command, wire.BrokerSubscriptionInfo):
            forwarder.on_subscription_info(command, now)
        elif isinstance(command, wire.ConnectionError):
            self._reason = f"the remote broker refused: {exception_text(command.exception)}"
        elif isinstance(command, wire.MessageFrame):
            advisory = advisory_in(command)
            if advisory is None:
                self.received += 1
                return False
            self.remote.acknowledge_advisory(advisory)
            forwarder.on_advisory(advisory.data_structure, now)
        else:
            return False
        return True

    def _take_answer(self, command: AnswerRun | wire.Response, now: Time) -> None:
        forwarder = self.forwarder
        if isinstance(command, AnswerRun):
            forwarder.on_responses(command.correlation_ids)
        elif not isinstance(command, wire.ExceptionResponse):
            forwarder.on_response(command.correlation_id)
        elif not forwarder.on_refusal(command, now):
            self._reason = f"the remote broker refused a request: {exception_text(command.exception)}"

    def probe(self, now: Time) -> bool:
        """Ask the peer for a keep-alive; False if an earlier question is unanswered for `ANSWER_PATIENCE`."""
        if not self._has_answered:
            return now.monotonic < self._probed_at + ANSWER_PATIENCE
        self._has_answered = False
        self._probed_at = now.monotonic
        self.remote.send(wire.KeepAliveInfo(), answered=True)
        return True

    def invite(self, seconds: int) -> bool:
        """Ask the peer to report for so many seconds; False for a peer that knows no invitations."""
        wire_format = self.remote.wire_format
        if wire_format is None or wire_format.provider_name != PROVIDER_NAME or wire_format.version < FIRST_TOKEN:
            return False
        self.remote.send(invitation(seconds))
        return True

    def settle(self, now: Time) -> None:
        """Acknowledge confirmed messages after all commands of one read."""
        self._has_answered = True
        self.forwarder.settle(now)

    def unsent(self, count: int, now: Time) -> None:
        """Note that ``count`` bytes of the output are unsent."""
        self.forwarder.unsent(count, now)

    def next_timeout(self) -> float | None:
        """Return the time of the next retry, in monotonic seconds."""
        return self.forwarder.next_timeout()

    def handle_timeout(self, now: Time) -> None:
        """Resend all due messages."""
        self.forwarder.handle_timeout(now)

    def leave(self, reason: str, now: Time) -> None:
        """Close the bridge after its connection."""
        if self._is_closed:
            return
        self._is_closed = True
        self.forwarder.close(now)
        self._acceptor.forget(self, reason, now)


class DuplexAcceptor(NetworkAcceptor):
    """Makes this broker's bridges over links opened by others, ``most`` at a time.

    ``links`` also has at most as many closed links, for an operator.
    """

    def __init__(self, broker: Broker, routes: NetworkRoutes, most: int = MAX_DUPLEX_LINKS) -> None:
        self._most: Final[int] = most
        self.bridges: Final[dict[str, DuplexBridge]] = {}
        self.links: Final[dict[str, AcceptedLink]] = {}
        self._broker: Final[Broker] = broker
        self._routes: Final[NetworkRoutes] = routes
        self._unlimited_logins: Final[list[ClientConnection]] = []

    def accept(
        self,
        info: wire.BrokerInfo,
        connection: ClientConnection,
        state: ConnectionState,
        output: OutputBuffer,
        wire_format: WireFormat,
        now: Time,
    ) -> ReverseBridge:
        """Return the bridge for a duplex BrokerInfo; it logs in at once. Raises `JmsError`."""
        broker = self._broker
        notes: list[str] = []
        settings = settings_of(info.network_properties or "", notes)
        remote = RemoteBroker(broker.ids.next_id(), None, output, wire_format)
        remote.identify(info)
        if remote.broker_id == broker.broker_id:
            raise JmsError("the remote broker is this broker itself, or one with the same brokerId")
        key = f"{settings.name}@{remote.broker_id}"
        process = process_of(state.connection_id)
        older = self.bridges.get(key)
        if older is not None:
            self._replace(older, state, process, now)
        if len(self.bridges) >= self._most:
            raise JmsError(f"this broker has {self._most} duplex links of other brokers, more are refused")
        login = _login(broker, settings, self._routes.remote_brokers.label(remote.broker_id, remote.name), state.info)
        remote.principal = state.principal  # the same credentials: no second question to a directory
        forwarder = Forwarder(broker, settings, remote, connection, login, self._routes, now)
        bridge = DuplexBridge(self, key, settings, remote, connection, forwarder, state.principal.name, process)
        self.bridges[key] = bridge
        link = self._link(key, settings.name, remote.name)
        link.on_link_up(bridge, state.info.remote_address, now)
        state.received = link.counts.inbound
        state.network_role = True
        remote.log_in(settings, name_elsewhere(broker.broker_id, broker.name), None, None, False)
        remote.subscribe(settings.advisory_topics(), False)
        forwarder.local.start(now)
        if notes:
            text = ", ".join(notes)
            logger.warning("network connector %s of broker %s: %s", printable(settings.name), remote.name, text)
        logger.info("network connector %s of broker %s: duplex link is up", printable(settings.name), remote.name)
        return bridge

    def _replace(self, older: DuplexBridge, state: ConnectionState, process: str, now: Time) -> None:
        """Close the older link of a connector in favour of a newer one.

        Raises:
            JmsError: the older link stays
        """
        key = printable(older.key)
        if older.user != state.principal.name:
            raise JmsError(f"duplex link {key} exists already and belongs to another user")
        if process != older.process and process and older.process and older.probe(now):
            self._broker.mark_dirty(older.forwarder.local.client)
            raise JmsError(
                f"duplex link {key} exists already, to another process at {older.address}: give each broker a "
                f"brokerId and a brokerName of its own (a restarted broker waits until that link times out)"
            )
        del self.bridges[older.key]
        logger.warning("duplex link %s is replaced by a newer one", key)
        older.connection.close_with(JmsError("a newer link of this connector has replaced this one"))
        older.leave("replaced by a newer link", now)

    def invite(self, seconds: int, known: Collection[str], wake: Callable[[], None], most: int = MAX_INVITED) -> None:
        """Ask ``most`` brokers with a link here to report for so many seconds, but for the ``known`` names.

        ``wake`` ends a turn soon, as no client has sent anything.
        """
        invited = 0
        for bridge in self.bridges.values():
            if invited < most and bridge.remote.name not in known and bridge.invite(seconds):
                self._broker.mark_dirty(bridge.forwarder.local.client)
                invited += 1
        if invited:
            wake()

    def remote_brokers(self) -> list[tuple[str, str]]:
        """Return address and name of each broker with an open duplex link.

        The address is the broker URL in the BrokerInfo. Brokers are left out if clients cannot connect to it.
        """
        brokers: list[tuple[str, str]] = []
        for bridge in self.bridges.values():
            address = read_address(bridge.remote.url)
            if address is not None:
                brokers.append((address.uri, bridge.remote.name))
        return brokers

    def now(self) -> Time:
        """Return the time at this broker."""
        return self._broker.environment.now()

    def hears_out(self, connection: ClientConnection) -> bool:
        """Return True if a bridge may send a large list of durable subscriptions before its login.

        `falls_silent` ends the permission. Other bridges try again later.
        """
        if len(self._unlimited_logins) >= MAX_UNLIMITED_LOGINS:
            return False
        self._unlimited_logins.append(connection)
        return True

    def falls_silent(self, connection: ClientConnection) -> None:
        """End the permission of `hears_out` after login or disconnect."""
        self._unlimited_logins.remove(connection)

    def enter(self, info: wire.BrokerInfo) -> None:
        """Register the link of a remote broker's bridge.

        Raises:
            JmsError: another broker has the same id or name
        """
        broker, broker_id = self._broker, _id_of(info)
        if broker_id:
            name = printable(info.broker_name or broker_id)
            self._routes.remote_brokers.add_link(broker_id, name, broker.broker_id, broker.name, info.broker_url or "")

    def left(self, info: wire.BrokerInfo) -> None:
        """Remove the link of a remote broker's bridge."""
        self._routes.remote_brokers.remove_link(_id_of(info))

    def subscriptions(self, info: wire.BrokerInfo, version: int) -> wire.BrokerSubscriptionInfo | None:
        """Return the durable subscriptions here, if the remote connector asks for them."""
        text = info.network_properties or ""
        if version < FIRST_VERSION or not syncs_durable(text):
            return None
        return subscription_info(self._broker, settings_of(text, []))

    def forget(self, bridge: DuplexBridge, reason: str, now: Time) -> None:
        """Forget the closed ``bridge``."""
        if self.bridges.get(bridge.key) is bridge:
            del self.bridges[bridge.key]
        link = self.links.get(bridge.key)
        if link is not None:
            link.on_link_down(bridge, printable(reason), now)

    def _link(self, key: str, name: str, remote_name: str) -> AcceptedLink:
        """Return the record of a connector's links, also for a broker that came back with another id."""
        known = self.links.pop(key, None)
        closed = [old for old, link in self.links.items() if link.bridge is None]
        for old in closed:
            link = self.links[old]
            if known is None and link.name == name and link.remote_name == remote_name:
                known = self.links.pop(old)
        if known is None and len(closed) >= self._most:
            del self.links[closed[0]]
        accepted = known if known is not None else AcceptedLink(name, remote_name, "")
        self.links[key] = accepted
        return accepted


def process_of(connection_id: str) -> str:
    """Return the common prefix of all connection ids of one process (ActiveMQ, "IdGenerator").

    The prefix is ``ID:host-port-millis``; "" for ids of another form.
    """
    return connection_id.rpartition(":")[0].rpartition("-")[0]


def _id_of(info: wire.BrokerInfo) -> str:
    return "" if info.broker_id is None else info.broker_id.value or ""


def advisory_in(command: wire.MessageFrame) -> wire.Message | None:
    """Return the advisory inside a message on the link; None for other messages."""
    if command.type_id() != wire.ACTIVE_MQ_MESSAGE:
        return None
    message = decode_message(command.raw, command.version)
    if message.data_structure is None or not isinstance(message.destination, wire.ActiveMQTopic):
        return None
    name = message.destination.physical_name
    return message if name is not None and name.startswith(ADVISORY_PREFIX) else None


def _login(broker: Broker, settings: BridgeSettings, label: str, peer: ConnectionInfo) -> ConnectionInfo:
    """Return the login of the bridge here, with the rights of the link's opener."""
    return ConnectionInfo(
        connection_id=broker.ids.next_id(),
        client_id=settings.client_id_token.join([settings.name, label, "inbound", broker.name]),
        user_name=peer.user_name,
        password=peer.password,
        remote_address=peer.remote_address,
        protocol="network",
        max_consumers=MAX_DEMAND,
        certificate_subject=peer.certificate_subject,
        encrypted=peer.encrypted,
    )
