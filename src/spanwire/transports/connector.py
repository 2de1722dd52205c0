"""Transport connectors: a listening socket, the accepted connections, and limits."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.security.audit_log import host_of
from spanwire.extras import install_command
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.cluster import ClusterClients
from spanwire.protocols.detect import DetectingConnection, Report
from spanwire.transports import tcp
from spanwire.transports.admission import Admission, is_loopback
from spanwire.transports.base import WEBSOCKET_SCHEMES, ConnectionFactory, ConnectorSettings, StreamTransport
from spanwire.transports.loop.pump import SocketPump, peer_name
from spanwire.transports.loop.turn import Turn

if TYPE_CHECKING:
    from spanwire.tls.context import ServerContext
    from spanwire.tls.settings import TlsSettings
    from spanwire.transports.http.tunnel import Tunnel
    from spanwire.transports.starttls import StartTlsConnection
    from spanwire.transports.tls import TlsConnection
    from spanwire.transports.websocket.connection import WebSocketConnection

logger = logging.getLogger(__name__)

EXTRAS: Final[dict[str, tuple[str, str]]] = {  # scheme → extra, and its package
    **dict.fromkeys(WEBSOCKET_SCHEMES, ("websocket", "websockets")),
    **dict.fromkeys(registry.TUNNEL_SCHEMES, ("http", "h11")),
}
REFUSAL_LOG_INTERVAL: Final = 1.0  # seconds between two log lines about refused connections


class TransportConnector:
    """Listens at one address. `Turn` closes the accepted connections.

    `bind` takes the port, `start` begins to accept, `stop` closes the listening socket.
    """

    def __init__(self, settings: ConnectorSettings, admission: Admission) -> None:
        self.settings: Final = settings
        self.connection_count = 0
        self.accepted = 0  # connections since the start
        self.refused = 0  # connections over a limit since the start
        self._factories: dict[str, ConnectionFactory] = {}
        self._sessions: Tunnel | None = None  # of clients over HTTP
        self._context: ServerContext | None = None
        self._admission: Final = admission
        self._listener: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._port = settings.port
        self._unlogged_refusals = 0
        self._refusal_logged = 0.0
        self._hosts: Final[dict[StreamTransport, str]] = {}
        self.cluster: Final = ClusterClients(
            settings.updates_clients, settings.rebalances_clients, settings.updates_on_remove, settings.cluster_filter
        )

    @property
    def name(self) -> str:
        """The name in the configuration, else the URI."""
        return self.settings.name

    @property
    def is_started(self) -> bool:
        """True while connections are accepted."""
        return self._server is not None

    @property
    def uri(self) -> str:
        """The URI for clients, with the real port once bound."""
        return self.settings.uri(self._port)

    @property
    def port(self) -> int:
        """The listening port; the real port once bound."""
        return self._port

    def missing_extra(self) -> str | None:
        """Return the reason for an unusable transport, with the remedy; None with all packages installed."""
        extra, package = EXTRAS.get(self.settings.scheme, ("", ""))
        if not extra or self.settings.protocol not in registry.PROTOCOLS or importlib.util.find_spec(package):
            return None
        command = install_command(extra)
        return f"connector {self.name}: {self.settings.scheme}: needs the extra {extra}; run: {command}"

    async def binds_loopback(self) -> bool:
        """Return True if only this machine can reach the address. Takes no port.

        Raises:
            TransportError: the host is unknown
        """
        return all(is_loopback(host) for _, host in await tcp.resolve(self.settings))

    def read_keys(self) -> ServerContext | None:
        """Read the key store again. Blocks.

        Raises:
            ConfigurationError: the key store cannot be used
        """
        if self.settings.tls is None:
            return None
        make = cast("Callable[[TlsSettings], ServerContext]", registry.load(registry.SERVER_CONTEXT))
        return make(self.settings.tls)

    def use_keys(self, context: ServerContext | None) -> None:
        """Use the result of `read_keys` for new connections; open ones stay."""
        self._context = context

    @property
    def certificate_expires_s(self) -> int | None:
        """The end of the certificate in seconds since 1970; None without TLS."""
        return None if self._context is None else self._context.expires_s

    async def bind(self) -> None:
        """Open the key store and take the port.

        Raises:
            ConfigurationError: the key store cannot be used, or an extra is not installed
            TransportError: the host is unknown, or the port cannot be taken
        """
        obstacle = self.missing_extra()
        if obstacle is not None:
            raise ConfigurationError(obstacle)
        self.use_keys(self.read_keys())
        family, host = (await tcp.resolve(self.settings))[0]
        self._listener = tcp.bind(self.settings, family, host)
        self._port = int(self._listener.getsockname()[1])

    async def start(self, factories: Mapping[str, ConnectionFactory], turn: Turn) -> None:
        """Accept connections. A protocol's factory makes a connection, ``turn`` flushes all.

        Raises:
            TransportError: another process took the port first
        """
        assert self._listener is not None
        self.serve(factories if self.settings.scheme not in registry.TUNNEL_SCHEMES else self._tunnel(factories, turn))
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: cast(asyncio.BaseProtocol, SocketPump(turn, self)),  # has the shape of one
                sock=self._listener,
                backlog=self.settings.backlog,
            )
        except OSError as error:
            self.stop()
            raise tcp.bind_error(self.settings, error) from error

    def serve(self, factories: Mapping[str, ConnectionFactory]) -> None:
        """Set the factories of connections, by protocol; each protocol of the connector needs one."""
        self._factories = {name: factories[name] for name in self.settings.spoken()}

    def _tunnel(self, factories: Mapping[str, ConnectionFactory], turn: Turn) -> dict[str, ConnectionFactory]:
        """Return the factory of HTTP connections, whose sessions have the connections of ``factories``."""
        protocol = self.settings.protocol
        tunnel_class = cast("type[Tunnel]", registry.load(registry.HTTP_TUNNEL))
        is_local = self._listener is not None and is_loopback(str(self._listener.getsockname()[0]))
        limit = self.settings.maximum_connections
        tunnel = tunnel_class(self._admission, factories[protocol], turn, limit, is_local=is_local)
        self._sessions = tunnel

        def connection(settings: ConnectionSettings, now: Time) -> ProtocolConnection:
            host = host_of(settings.remote_address)
            return tunnel.connection(settings, lambda reason, at: self._log_refusal(host, reason, at), now)

        return {protocol: connection}

    def stop(self) -> None:
        """Stop accepting. Accepted connections stay open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def end_sessions(self) -> None:
        """End the sessions of clients over HTTP; a session outlives the sockets."""
        if self._sessions is not None:
            self._sessions.stop()

    def open_transports(self) -> list[StreamTransport]:
        """Return the transports of accepted connections."""
        return list(self._hosts)

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        """Return the connection for a new socket; None, with a log line, over a limit."""
        peer = transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return None  # reset before it was accepted
        host = str(peer[0])
        reason = self._over_limit(host)
        if reason is not None:
            self.refused += 1
            self._log_refusal(host, reason, now)
            return None
        self.connection_count += 1
        self.accepted += 1
        self._hosts[transport] = host
        accepted = transport.get_extra_info("socket")
        if accepted is not None:
            tcp.tune(cast(socket.socket, accepted), self.settings)  # asyncio and uvloop return a wrapper of the socket
        settings = ConnectionSettings(
            remote_address=f"tcp://{peer_name(transport)}",
            local_uri=self.uri,
            connector_name=self.settings.name,
            max_frame_size=self.settings.max_frame_size,
            max_inactivity_ms=self.settings.max_inactivity_ms,
            options=self.settings.options,
            login_timeout=self.settings.login_timeout,
            detection_timeout=self.settings.detection_timeout,
            max_consumers=self.settings.max_consumers,
            max_producers=self.settings.max_producers,
            audit_makers=self.settings.audit_makers,
            steals_links=self.settings.steals_links,
            offers_tls=self._context is not None and self.settings.scheme in registry.STARTTLS_SCHEMES,
            cluster=self.cluster,
        )
        try:
            return self._connection(settings, lambda reason, at: self._log_refusal(host, reason, at), now)
        except Exception:
            logger.exception("connection of %s refused: unexpected error", host)
            self.release(transport)
            return None

    def release(self, transport: StreamTransport) -> None:
        """Release the place of a closed socket."""
        self.connection_count -= 1
        self._admission.leave(self._hosts.pop(transport))

    def _connection(self, settings: ConnectionSettings, report: Report, now: Time) -> ProtocolConnection:
        """Return the layers of one connection, from the outside in.

        The layers are TLS or STARTTLS, WebSocket, detection, protocol.
        """

        def detecting(inner: ConnectionSettings, at: Time) -> ProtocolConnection:
            return DetectingConnection(inner, self._factories, report, at)

        factory = next(iter(self._factories.values())) if len(self._factories) == 1 else detecting
        if self.settings.is_websocket:
            factory = self._in_websocket(factory, report)
        if self._context is None:
            return factory(settings, now)
        tls = self.settings.tls
        verify_address = tls is not None and tls.verify_address
        if settings.offers_tls:
            later = cast("type[StartTlsConnection]", registry.load(registry.STARTTLS_CONNECTION))
            return later(self._context, factory, settings, report, now, verify_address=verify_address)
        layer = cast("type[TlsConnection]", registry.load(registry.TLS_CONNECTION))
        return layer(self._context, factory, settings, report, now, verify_address=verify_address)

    def _in_websocket(self, factory: ConnectionFactory, report: Report) -> ConnectionFactory:
        """Return the factory of WebSockets with the connections of ``factory`` inside."""
        layer = cast("type[WebSocketConnection]", registry.load(registry.WEBSOCKET_CONNECTION))
        origins = self.settings.origins
        return lambda settings, now: layer(factory, settings, origins, report, now)

    def _over_limit(self, host: str) -> str | None:
        if self.connection_count >= self.settings.maximum_connections:
            return f"{self.connection_count} connections are open, maximumConnections of connector {self.settings.name}"
        return self._admission.enter(host)

    def _log_refusal(self, host: str, reason: str, now: Time) -> None:
        self._unlogged_refusals += 1
        if now.monotonic - self._refusal_logged >= REFUSAL_LOG_INTERVAL:
            logger.warning("%d connection(s) refused, the last one from %s: %s", self._unlogged_refusals, host, reason)
            self._unlogged_refusals = 0
            self._refusal_logged = now.monotonic
