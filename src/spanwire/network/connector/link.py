"""Links of a network connector, each to one remote broker, connected again after every break.

Here all sockets of bridges are opened. The pump of client connections serves them, too; `NetworkBridge` has the
protocol.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.broker.explanation.links import LinkDescription
from spanwire.broker.ports import Principal
from spanwire.discovery.addresses.reconnect import Reconnect, ReconnectSettings
from spanwire.discovery.groups.agent_settings import AgentSettings
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.network.bridge.bridge import SILENT_END, NetworkBridge
from spanwire.network.bridge.bridge_states import State
from spanwire.network.bridge.bridge_statistics import BridgeStatistics, LinkCounts, LinkFailures
from spanwire.network.bridge.duplex_bridge import AcceptedLink
from spanwire.network.bridge.link_description import link_description
from spanwire.network.connector.failure_log import FailureLog
from spanwire.network.connector.local_user import local_user
from spanwire.network.connector.socket_options import SocketOptions
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.reports.known_brokers import Peer
from spanwire.protocols.base import ProtocolConnection
from spanwire.tls.context import client_context
from spanwire.tls.settings import ClientTlsSettings
from spanwire.transports.base import StreamTransport
from spanwire.transports.loop.pump import SocketPump
from spanwire.transports.loop.turn import Turn
from spanwire.tunnel.loading import tunnel_function

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    OpenTunnel = Callable[[str, int, ssl.SSLContext | None], Awaitable[socket.socket]]

logger = logging.getLogger(__name__)

MAX_SHOWN: Final = 100  # destinations and paths of one link in a view
MAX_REASON: Final = 1_000  # characters of the reasons of several addresses
STOPPED: Final = "stopped"  # the state of a link not started, or stopped by an operator
CONNECT_TIMEOUT: Final = 30.0  # seconds for a socket and its TLS handshake, ActiveMQ's connectionTimeout
LEAST_CONNECT_TIMEOUT: Final = 15.0  # seconds for links with short pauses, as long as the start of a bridge may take

_TLS_REFUSALS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the remote broker wants a client certificate; give <sslContext> a keyStore",
    "WRONG_VERSION_NUMBER": "the remote broker does not speak TLS there; write tcp:// or its ssl port",
}


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """The address of one remote broker. ``tls`` None means no encryption.

    With ``others`` the link uses the first usable address, in this order or, if ``shuffled``, in a random one.
    """

    uri: str
    host: str
    port: int
    tls: ClientTlsSettings | None = None
    max_inactivity_ms: int = 30_000
    others: tuple[RemoteAddress, ...] = ()
    shuffled: bool = False
    options: SocketOptions = field(default_factory=SocketOptions)

    @property
    def is_tunnelled(self) -> bool:
        """True if OpenWire passes as XML over HTTP."""
        return self.uri.partition(":")[0] in registry.TUNNEL_SCHEMES


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """The discovery of brokers of one connector, and the connections to them.

    A login is sent only to brokers verified by TLS with ``tls.trust_store``, or to all if ``sends_login``.
    """

    agent: AgentSettings | GossipSettings
    uri: str = ""
    tls: ClientTlsSettings = field(default_factory=ClientTlsSettings)
    sends_login: bool = False


@dataclass(frozen=True, slots=True)
class NetworkConnectorSettings:
    """The settings of one ``networkConnector``: addresses, bridges and reconnecting.

    ``line`` is its line in the file, and ``written`` its uri there, whose options may be secret. With ``discovery`` the
    addresses are discovered. Without ``auto_start`` an operator starts it.
    """

    bridge: BridgeSettings
    remotes: tuple[RemoteAddress, ...]
    reconnect: ReconnectSettings = field(default_factory=ReconnectSettings)
    line: int = field(default=0, compare=False)
    discovery: DiscoverySettings | None = None
    auto_start: bool = True
    written: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LinkView:
    """An operator's view of one link.

    ``reason`` is the cause of the present or last break. ``destinations`` have demand at the remote broker. ``since_s``
    is the age of the ``state`` in seconds, ``reconnects`` the number of connections before this one. The counters are
    those of `BridgeStatistics`, ``filtered`` by reason. ``ways`` are the paths of broker ids to consumers beyond the
    remote broker, nearest first. An ``accepted`` link was opened by the remote broker. ``started_ms`` is the wall time
    since which the link runs, 0 while it does not. The failures are those of `LinkFailures`.
    """

    name: str
    uri: str
    remote: str
    state: str
    reason: str
    demand: int
    in_flight: int
    enqueued: int
    dequeued: int
    duplex: bool = False
    destinations: tuple[str, ...] = ()
    since_s: float = 0.0
    reconnects: int = 0
    received: int = 0
    failed: int = 0
    filtered: dict[str, int] = field(default_factory=dict)
    unserved: int = 0
    ways: tuple[tuple[str, ...], ...] = ()
    accepted: bool = False
    remote_id: str = ""
    started_ms: int = 0
    attempts: int = 0
    breaks: int = 0
    local_failures: int = 0


def accepted_description(link: AcceptedLink, now: float) -> LinkDescription:
    """Return `Link.description` of a link opened by the remote broker; ``now`` in monotonic seconds."""
    view = accepted_view(link, now)
    settings = BridgeSettings(name=link.name) if link.bridge is None else link.bridge.settings
    forwarder = None if link.bridge is None else link.bridge.forwarder
    return link_description(settings, forwarder, view.remote, view.uri, view.state, view.reason, view.since_s)


def accepted_view(link: AcceptedLink, now: float) -> LinkView:
    """Return the view of a link opened by the remote broker; ``now`` in monotonic seconds.

    A broken link is waiting, because only the remote broker can connect.
    """
    bridge = link.bridge
    forwarder = None if bridge is None else bridge.forwarder
    demand = None if forwarder is None else forwarder.local.demand
    statistics = link.statistics()
    return LinkView(
        name=link.name,
        uri=link.address,
        remote=link.remote_name,
        state="waiting" if bridge is None else "running",
        reason=link.reason if bridge is None else "",
        demand=0 if demand is None else len(demand.subscriptions),
        in_flight=0 if forwarder is None else forwarder.in_flight,
        enqueued=statistics.sent,
        dequeued=statistics.answered,
        duplex=True,
        destinations=() if demand is None else demand.destinations(MAX_SHOWN),
        since_s=max(0.0, round(now - link.changed_at, 3)),
        reconnects=max(0, link.connection_count - 1),
        received=statistics.received,
        failed=statistics.failed,
        filtered=statistics.refusals.by_reason(),
        unserved=statistics.unserved,
        ways=() if demand is None else demand.ways(MAX_SHOWN),
        accepted=True,
        remote_id="" if bridge is None else bridge.remote.broker_id,
        started_ms=link.running_since_ms,
        breaks=link.breaks,
    )


class Link:
    """A link to one remote broker: connects, waits for the end, pauses, connects again."""

    def __init__(
        self,
        settings: NetworkConnectorSettings,
        remote: RemoteAddress,
        broker: Broker,
        broker_url: str,
        turn: Turn,
        routes: NetworkRoutes,
    ) -> None:
        self._settings: Final = settings
        self._routes: Final = routes
        self._remote: Final = remote
        self._broker: Final = broker
        self._broker_url: Final = broker_url
        self._turn: Final = turn
        self._reconnect: Final = Reconnect(settings.reconnect)
        self._failure_log: Final = FailureLog()
        self._connect_timeout: Final = connect_timeout(settings.reconnect)
        self.bridge: NetworkBridge | None = None
        self._pump: SocketPump | None = None
        self._address: RemoteAddress = remote
        self._leads_to_itself = False
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._remote_name = ""
        self._was_running = False  # waiting for an answer in vain is no use of the link
        self._failed_here = False  # this broker has refused the last bridge
        self._state = STOPPED
        self._reason = ""
        self._principal: Principal | None = None  # of the next bridge, if a directory was asked
        self._earlier: Final = BridgeStatistics()  # the counters of earlier bridges
        self._before: Final = BridgeStatistics()  # the counters at the last reset
        self.failures: Final = LinkFailures()
        self.counts: Final = LinkCounts()
        self._connection_count = 0
        self._logged_no_demand = False
        self._changed_at = turn.clock.now().monotonic  # the time of the last change of state, in seconds

    def start(self) -> None:
        """Begin to connect."""
        self._enter("connecting")
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Start the link again after an unexpected error."""
        error = None if task.cancelled() else task.exception()
        if error is None or self._task is not task:
            return
        self._reason = f"unexpected error: {type(error).__name__}"
        self._enter("waiting")
        delay = self._settings.reconnect.max_delay_ms / 1000
        name, uri = self._settings.bridge.name, self._address.uri
        logger.error("network connector %s: %s: %s; next try in %g s", name, uri, self._reason, delay, exc_info=error)
        self._task = asyncio.get_running_loop().create_task(self._run_later(delay))
        self._task.add_done_callback(self._on_task_done)

    async def _run_later(self, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._run()

    def stop(self) -> None:
        """Stop connecting; an open socket stays open."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._enter(STOPPED)

    def _enter(self, state: str) -> None:
        self._state = state
        self._changed_at = self._turn.clock.now().monotonic

    def end(self) -> None:
        """Stop connecting, and close an open socket."""
        self.stop()
        if self._pump is not None:
            self._pump.close(self._turn.clock.now())

    def view(self) -> LinkView:
        """Return state and counters, including those of earlier bridges."""
        bridge = self.bridge
        state = self._current_state()
        statistics = self._statistics()
        connection_count = self._connection_count + (1 if bridge is not None and bridge.was_running else 0)
        return LinkView(
            name=self._settings.bridge.name,
            uri=self._address.uri,
            remote=self._remote_name if bridge is None else bridge.remote_name,
            state=state,
            reason="" if state == "running" else self._reason if bridge is None or not bridge.closed else bridge.reason,
            demand=0 if bridge is None else bridge.demand_count,
            in_flight=0 if bridge is None else bridge.in_flight,
            enqueued=statistics.sent,
            dequeued=statistics.answered,
            duplex=self._settings.bridge.duplex,
            destinations=() if bridge is None else bridge.destinations(MAX_SHOWN),
            since_s=self._state_age(state, bridge),
            reconnects=max(0, connection_count - 1),
            received=statistics.received,
            failed=statistics.failed,
            filtered=statistics.refusals.by_reason(),
            unserved=statistics.unserved,
            ways=() if bridge is None else bridge.ways(MAX_SHOWN),
            remote_id="" if bridge is None else bridge.remote.broker_id,
            started_ms=0 if bridge is None or state != "running" else bridge.running_since_ms,
            attempts=self.failures.attempts,
            breaks=self.failures.breaks,
            local_failures=self.failures.local,
        )

    def _statistics(self) -> BridgeStatistics:
        """Return the counters of all bridges since the last reset."""
        statistics = BridgeStatistics()
        statistics.add(self._earlier)
        if self.bridge is not None:
            statistics.add(self.bridge.statistics())
        statistics.subtract(self._before)
        return statistics

    def reset(self) -> None:
        """Set the counters to 0."""
        self._before.add(self._statistics())
        self.failures.reset()
        self.counts.reset(self._turn.clock.now().monotonic)

    def description(self) -> LinkDescription:
        """Return what explains why a message does or does not cross the link."""
        view, bridge = self.view(), self.bridge
        forwarder = None if bridge is None or bridge.closed else bridge.forwarder
        settings = self._settings.bridge
        return link_description(settings, forwarder, view.remote, view.uri, view.state, view.reason, view.since_s)

    def peer(self) -> Peer | None:
        """Return the remote broker with the login of the link; None while the link does not run."""
        bridge, settings = self.bridge, self._settings.bridge
        if bridge is None or self._current_state() != "running":
            return None
        user, password = settings.remote_user_name, settings.remote_password
        if user is None:
            user, password = settings.user_name, settings.password
        return Peer(bridge.remote_name, self._address.uri, user, password, self._address.tls)

    def _current_state(self) -> str:
        bridge = self.bridge
        if bridge is None or self._state == STOPPED:
            return self._state
        if bridge.closed:
            return "waiting"  # the socket closes a moment later
        return "running" if bridge.state is State.RUNNING else "starting"

    def _state_age(self, state: str, bridge: NetworkBridge | None) -> float:
        began = self._changed_at
        if bridge is not None and state == "running":
            began = bridge.running_since
        elif bridge is not None and state == "waiting":
            began = bridge.closed_since
        return max(0.0, round(self._turn.clock.now().monotonic - began, 3))

    # The methods of the pump's Acceptor.

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        """Return a new bridge for the open socket."""
        remote = self._address
        connected = transport.get_extra_info("socket")
        if connected is not None and not remote.is_tunnelled:
            remote.options.tune(cast(socket.socket, connected))  # asyncio and uvloop return a wrapper of the socket
        wire_format = remote.options.wire_format
        preferences = replace(
            wire_format, max_inactivity_ms=remote.max_inactivity_ms, host=wire_format.host or remote.host
        )
        self.bridge = NetworkBridge(
            self._broker, self._settings.bridge, self._broker_url, preferences, now, self._routes
        )
        self.bridge.remote.principal = self._principal
        self.bridge.counts = self.counts
        self.counts.begin(now.monotonic)
        self.bridge.logs_no_demand = not self._logged_no_demand
        return self.bridge

    def release(self, transport: StreamTransport) -> None:
        """Note that the socket is closed."""
        self._closed.set()

    async def _run(self) -> None:
        while True:
            self._enter("connecting")
            began = self._changed_at
            self._was_running = self._failed_here = False
            self._reason = await self._connect_and_wait()
            if not self._was_running and not self._failed_here:
                self.failures.attempts += 1
            self._enter("waiting")
            if await self._wait_for_retry(self._changed_at - began if self._was_running else 0.0):
                return

    async def _wait_for_retry(self, uptime_s: float) -> bool:
        """Wait for the next attempt after ``uptime_s`` seconds of use. Returns True if there is none."""
        delay = self._reconnect.next_delay(uptime_s)
        name, uri = self._settings.bridge.name, self._address.uri
        if delay is None:
            logger.warning("network connector %s: %s: %s; gave up after %d tries",
                           name, uri, self._reason, self._reconnect.failures)  # fmt: skip
            self._state = "given up"
            return True
        if self._was_running:
            self._failure_log.reset()
        line = self._failure_log.line_for(self._reason, self._changed_at)
        if line:
            logger.warning("network connector %s: %s: %s; next try in %g s", name, uri, line, delay)
        await asyncio.sleep(delay)
        return False

    async def _connect_and_wait(self) -> str:
        """Try each address until one is usable, and wait for the end. Returns the reason of the end."""
        reasons: list[str] = []
        for remote in self._addresses():
            self._address = remote
            reason = await self._attempt(remote)
            if self._was_running or not self._remote.others:
                return reason
            reasons.append(f"{remote.uri}: {reason}")
        return f"none of {len(reasons)} brokers can be used: {'; '.join(reasons)}"[:MAX_REASON]

    def _addresses(self) -> list[RemoteAddress]:
        addresses = [self._remote, *self._remote.others]
        if self._remote.shuffled:
            for index in range(len(addresses) - 1, 0, -1):
                other = int.from_bytes(self._broker.environment.random_bytes(4), "big") % (index + 1)
                addresses[index], addresses[other] = addresses[other], addresses[index]
        return addresses

    def _new_pump(self) -> SocketPump:
        self._pump = SocketPump(self._turn, self)
        return self._pump

    async def _connect(self, remote: RemoteAddress, context: ssl.SSLContext | None) -> None:
        """Open a socket to one address, or a tunnel over HTTP."""
        loop = asyncio.get_running_loop()

        def factory() -> asyncio.BaseProtocol:
            return cast(asyncio.BaseProtocol, self._new_pump())  # has the shape of one

        if remote.is_tunnelled:
            open_tunnel = cast("OpenTunnel", tunnel_function(registry.OPEN_TUNNEL, remote.uri))
            channel = await open_tunnel(remote.host, remote.port, context)
            channel.setblocking(False)
            await loop.create_connection(factory, sock=channel)
            return
        name = None if context is None else remote.host
        await loop.create_connection(factory, remote.host, remote.port, ssl=context, server_hostname=name)

    async def _attempt(self, remote: RemoteAddress) -> str:
        """Connect to one address, and wait for the end. Returns the reason of the end."""
        self._closed.clear()
        timeout = remote.options.connect_timeout_ms / 1000 or self._connect_timeout
        try:
            context = None if remote.tls is None else client_context(remote.tls)
            self._principal = await local_user(self._broker, self._settings.bridge, self._turn.clock)
            await asyncio.wait_for(self._connect(remote, context), timeout)
        except TimeoutError:
            return f"no connection within {timeout:g} s"
        except (ConfigurationError, JmsError) as error:
            return str(error)
        except (OSError, ValueError) as error:
            return connect_reason(error)
        await self._closed.wait()
        bridge, self.bridge = self.bridge, None
        if bridge is None:
            return "the connection was closed"
        self._remote_name = bridge.remote_name
        self._was_running = bridge.was_running
        self._failed_here = bridge.failed_here
        self.failures.local += bridge.failed_here
        self.failures.breaks += bridge.was_running and not bridge.failed_here
        self._leads_to_itself = bridge.leads_to_itself
        self._connection_count += bridge.was_running
        self._logged_no_demand = self._logged_no_demand or bridge.has_no_demand
        self._earlier.add(bridge.statistics())
        if bridge.reason == SILENT_END and remote.uri.startswith("tcp:"):
            return f"{SILENT_END}; write ssl:// before the host if the port expects TLS"
        return bridge.reason or "the connection was closed"


def connect_timeout(settings: ReconnectSettings) -> float:
    """Return the timeout of one attempt in seconds.

    It is at most the longest pause between attempts, so a link is up within two of these after the cause is gone.
    """
    return min(CONNECT_TIMEOUT, max(LEAST_CONNECT_TIMEOUT, settings.max_delay_ms / 1000))


def connect_reason(error: Exception) -> str:
    """Return the reason for a failed connect as text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the remote broker is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "unknown error"
        return _TLS_REFUSALS.get(reason, f"TLS: {reason.lower().replace('_', ' ')}")
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
