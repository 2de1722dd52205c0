"""A network connector: one link to each of its brokers, connected again whenever it breaks.

    connector = NetworkConnector(settings, broker, broker_url, turn)
    connector.start(); …; connector.stop()

All sockets are opened here and carried by the same pump as those of clients; what is said is the bridge's business.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from dataclasses import dataclass, field
from typing import Final, cast

from spanwire.broker.broker import Broker
from spanwire.discovery.reconnect import Reconnect, ReconnectSettings
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.network.bridge import NetworkBridge, State
from spanwire.network.duplex import DuplexBridge
from spanwire.network.routes import NetworkRoutes
from spanwire.network.settings import BridgeSettings
from spanwire.protocols.base import ProtocolConnection
from spanwire.protocols.openwire.wire_format import WireFormatPreferences
from spanwire.tls.context import client_context
from spanwire.tls.settings import ClientTlsSettings
from spanwire.transports.base import StreamTransport
from spanwire.transports.pump import SocketPump
from spanwire.transports.turn import Turn

logger = logging.getLogger(__name__)

MAX_SHOWN: Final = 100  # destinations of one link in a view
CONNECT_TIMEOUT: Final = 30.0  # seconds for a socket and its TLS handshake, ActiveMQ's connectionTimeout

_TLS_REFUSALS: Final = {
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the remote broker wants a client certificate; give <sslContext> a keyStore",
    "WRONG_VERSION_NUMBER": "the remote broker does not speak TLS there; write tcp:// or its ssl port",
}


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """Where one remote broker listens. ``tls`` None means that nothing is encrypted."""

    uri: str
    host: str
    port: int
    tls: ClientTlsSettings | None = None
    max_inactivity_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class NetworkConnectorSettings:
    """One ``networkConnector``: which brokers, how its bridges behave, when they try again. ``line`` is where it stands
    in its file.
    """

    bridge: BridgeSettings
    remotes: tuple[RemoteAddress, ...]
    reconnect: ReconnectSettings = field(default_factory=ReconnectSettings)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class LinkView:
    """What an operator may know of one link. ``reason`` is why it is not up, or was not the last time,
    ``destinations`` are those that the remote broker wants messages of; ``since_s`` is how long it is in its ``state``,
    ``reconnects`` how often it was up before.
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


def accepted_view(bridge: DuplexBridge) -> LinkView:
    """The same of a duplex link that the remote broker has opened."""
    crossing = bridge.crossing
    return LinkView(
        name=bridge.settings.name,
        uri=crossing.local.client.info.remote_address,
        remote=bridge.remote.name,
        state="running",
        reason="",
        demand=len(crossing.local.demand.subscriptions),
        in_flight=crossing.in_flight,
        enqueued=crossing.forwarded,
        dequeued=crossing.local.acknowledged,
        duplex=True,
        destinations=crossing.local.demand.destinations(MAX_SHOWN),
    )


class Link:
    """One remote broker: connects, waits for the end, waits, connects again."""

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
        self._bridge: NetworkBridge | None = None
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._remote_name = ""
        self._was_running = False  # a long wait for an answer that never came is no life
        self._state = "stopped"
        self._reason = ""
        self._enqueued = 0
        self._dequeued = 0
        self._lives = 0
        self._changed = 0.0  # when the state began, in monotonic seconds

    def start(self) -> None:
        """Begin to connect."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Connect no more; a socket that is open is closed with all others."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._state = "stopped"

    def view(self) -> LinkView:
        """State and counters; those of earlier bridges of this link are included."""
        bridge = self._bridge
        state = self._current()
        lives = self._lives + (1 if bridge is not None and bridge.was_running else 0)
        return LinkView(
            name=self._settings.bridge.name,
            uri=self._remote.uri,
            remote=self._remote_name if bridge is None else bridge.remote_name,
            state=state,
            reason="" if state == "running" else self._reason,
            demand=0 if bridge is None else bridge.demand_count,
            in_flight=0 if bridge is None else bridge.in_flight,
            enqueued=self._enqueued + (0 if bridge is None else bridge.forwarded),
            dequeued=self._dequeued + (0 if bridge is None else bridge.acknowledged),
            duplex=self._settings.bridge.duplex,
            destinations=() if bridge is None else bridge.destinations(MAX_SHOWN),
            since_s=self._since(state, bridge),
            reconnects=max(0, lives - 1),
        )

    def _current(self) -> str:
        bridge = self._bridge
        if bridge is None:
            return self._state
        return "running" if bridge.state is State.RUNNING else "starting"

    def _since(self, state: str, bridge: NetworkBridge | None) -> float:
        began = self._changed if bridge is None or state != "running" else bridge.running_since
        return max(0.0, round(self._turn.clock.now().monotonic - began, 3))

    # The pump's side

    def accepted(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        """The socket is open."""
        preferences = WireFormatPreferences(max_inactivity_ms=self._remote.max_inactivity_ms, host=self._remote.host)
        self._bridge = NetworkBridge(
            self._broker, self._settings.bridge, self._broker_url, preferences, now, self._routes
        )
        return self._bridge

    def gone(self, transport: StreamTransport) -> None:
        """The socket is closed."""
        self._ended.set()

    # The life of a link

    async def _run(self) -> None:
        while True:
            began = self._turn.clock.now().monotonic
            self._state = "connecting"
            self._changed = began
            self._was_running = False
            self._reason = await self._live()
            self._state = "waiting"
            self._changed = self._turn.clock.now().monotonic
            lived = self._changed - began if self._was_running else 0.0
            delay = self._reconnect.failed(lived)
            name, uri = self._settings.bridge.name, self._remote.uri
            if delay is None:
                logger.warning("network connector %s: %s: %s; gave up after %d tries",
                               name, uri, self._reason, self._reconnect.failures)  # fmt: skip
                self._state = "given up"
                return
            logger.warning("network connector %s: %s: %s; next try in %g s", name, uri, self._reason, delay)
            await asyncio.sleep(delay)

    async def _live(self) -> str:
        """One attempt, and the life of the link if it succeeds; gives the reason why it is over."""
        self._ended.clear()
        remote = self._remote
        try:
            context = None if remote.tls is None else client_context(remote.tls)
            connecting = asyncio.get_running_loop().create_connection(
                lambda: cast(asyncio.BaseProtocol, SocketPump(self._turn, self)),  # by shape
                remote.host,
                remote.port,
                ssl=context,
                server_hostname=None if context is None else remote.host,
            )
            await asyncio.wait_for(connecting, CONNECT_TIMEOUT)
        except TimeoutError:
            return f"no connection within {CONNECT_TIMEOUT:g} s"
        except ConfigurationError as error:
            return str(error)
        except (OSError, ValueError) as error:
            return connect_reason(error)
        await self._ended.wait()
        bridge, self._bridge = self._bridge, None
        if bridge is None:
            return "the connection was closed"
        self._remote_name = bridge.remote_name
        self._was_running = bridge.was_running
        self._lives += bridge.was_running
        self._enqueued += bridge.forwarded
        self._dequeued += bridge.acknowledged
        return bridge.reason or "the connection was closed"


class NetworkConnector:
    """All links of one connector. Started once. ``routes`` are those of all connectors of its broker."""

    def __init__(
        self, settings: NetworkConnectorSettings, broker: Broker, broker_url: str, turn: Turn, routes: NetworkRoutes
    ) -> None:
        self.settings: Final = settings
        self._links: Final = [Link(settings, remote, broker, broker_url, turn, routes) for remote in settings.remotes]

    def start(self) -> None:
        """Begin to connect; returns at once, for a remote broker may be down for long."""
        for link in self._links:
            link.start()

    def stop(self) -> None:
        """Connect no more."""
        for link in self._links:
            link.stop()

    def views(self) -> list[LinkView]:
        """One per link."""
        return [link.view() for link in self._links]


def connect_reason(error: Exception) -> str:
    """Why a socket could not be opened, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the remote broker is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "unknown error"
        return _TLS_REFUSALS.get(reason, f"TLS: {reason.lower().replace('_', ' ')}")
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
