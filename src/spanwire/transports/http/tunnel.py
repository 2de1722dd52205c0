"""The sessions of a connector for OpenWire over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from spanwire.broker.security.audit_log import host_of
from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.protocols.detect import Report
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectionFactory, StreamTransport
from spanwire.transports.http.connection import HttpConnection
from spanwire.transports.http.requests import RefusedRequest, RequestReader, request_reader
from spanwire.transports.http.session import TunnelledConnection, TunnelSession
from spanwire.transports.loop.pump import SocketPump

if TYPE_CHECKING:
    from spanwire.transports.loop.turn import Turn

logger = logging.getLogger(__name__)

DEFAULT_INACTIVITY_MS: Final = 30_000  # milliseconds; a session without a socket has no other end
TEXT_OPTIONS: Final = "wireFormat."  # options of the binary encoding, which is fixed behind a tunnel


class Tunnel:
    """Opens sessions and finds sessions by the name of the client's choice.

    Only the host, and the certificate, of the opener can use a session: names of Java's clients can be guessed.
    """

    def __init__(
        self,
        admission: Admission,
        factory: ConnectionFactory,
        turn: Turn,
        max_sessions: int,
        *,
        is_local: bool = False,
        reader: Callable[[], RequestReader] | None = None,
    ) -> None:
        """``factory`` makes the broker's connections, ``turn`` flushes, ``reader`` reads a socket's requests.

        With ``is_local`` the connector listens on loopback, and requests have the machine as host.
        """
        self._is_local: Final = is_local
        self._reader: Final = request_reader() if reader is None else reader
        self._admission: Final = admission
        self._factory: Final = factory
        self._turn: Final = turn
        self._max_sessions: Final = max_sessions
        self._sessions: Final[dict[str, TunnelSession]] = {}
        self._settings: ConnectionSettings | None = None  # of the session that is being opened

    @property
    def session_count(self) -> int:
        """The number of sessions in use."""
        return len(self._sessions)

    def connection(self, settings: ConnectionSettings, report: Report, now: Time) -> ProtocolConnection:
        """Return the connection for a new socket."""
        return HttpConnection(self, settings, report, now, self._reader(), is_local=self._is_local)

    def stop(self) -> None:
        """End all sessions; received commands are processed first, and unacknowledged messages go back."""
        for session in list(self._sessions.values()):
            session.leave()

    # The methods of Sessions and SessionOwner.

    def now(self) -> Time:
        """Return the time of the turn."""
        return self._turn.clock.now()

    def touch(self, connection: object) -> None:
        """Flush the socket of a connection at the end of the turn."""
        self._turn.touch_connection(connection)

    def open(self, name: str, settings: ConnectionSettings, now: Time) -> None:
        """Open a session; raises `RefusedRequest` for a name in use, or over a limit."""
        if name in self._sessions:
            raise RefusedRequest(400, "A session for the given clientID has already been established")
        if len(self._sessions) >= self._max_sessions:
            raise RefusedRequest(503, f"{len(self._sessions)} sessions are open, maximumConnections of this connector")
        port_text = settings.remote_address.rpartition(":")[2]
        port = int(port_text) if port_text.isdecimal() else 0
        session = TunnelSession(
            name, _identity(settings), (host_of(settings.remote_address), port), self, self._turn.loop
        )
        self._settings = _tunnelled(settings)
        self._sessions[name] = session
        session.connect(SocketPump(self._turn, self), _hello(self._settings))
        self._settings = None
        if session.has_ended:
            self._sessions.pop(name, None)
            raise RefusedRequest(503, "the broker takes no more connections; its log says why")

    def find(self, name: str, settings: ConnectionSettings) -> TunnelSession | None:
        """Return the session with a name if opened by the client behind ``settings``."""
        session = self._sessions.get(name)
        return session if session is not None and session.identity == _identity(settings) else None

    def forget(self, session: TunnelSession) -> None:
        """Remove an ended session."""
        if self._sessions.get(session.name) is session:
            del self._sessions[session.name]

    # The methods of the pump's Acceptor.

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        """Return the broker's connection for a new session; None, with a log line, over a limit."""
        settings = self._settings
        assert settings is not None and isinstance(transport, TunnelSession)
        reason = self._admission.enter(transport.identity[0])
        if reason is not None:
            logger.warning("a session of %s is refused: %s", settings.remote_address, reason)
            return None
        try:
            connection = self._factory(settings, now)
        except Exception:
            logger.exception("a session of %s is refused: unexpected error", settings.remote_address)
            self._admission.leave(transport.identity[0])
            return None
        transport.connection = cast("TunnelledConnection", connection)
        return connection

    def release(self, transport: StreamTransport) -> None:
        """Release the place of an ended session."""
        assert isinstance(transport, TunnelSession)
        self._admission.leave(transport.identity[0])


def _identity(settings: ConnectionSettings) -> tuple[str, str | None]:
    """Return the constant part of all requests of a session: host and subject of the certificate."""
    return host_of(settings.remote_address), settings.certificate_subject


def _tunnelled(settings: ConnectionSettings) -> ConnectionSettings:
    """Return the settings of the connection behind a socket: the same limits, in the encoding of a tunnel."""
    return ConnectionSettings(
        settings.remote_address.replace("tcp://", "https://" if settings.encrypted else "http://", 1),
        settings.local_uri,
        settings.connector_name,
        settings.max_frame_size,
        settings.max_inactivity_ms or DEFAULT_INACTIVITY_MS,
        {name: value for name, value in settings.options.items() if not name.startswith(TEXT_OPTIONS)},
        login_timeout=settings.login_timeout,
        detection_timeout=settings.detection_timeout,
        max_consumers=settings.max_consumers,
        max_producers=settings.max_producers,
        certificate_subject=settings.certificate_subject,
        encrypted=settings.encrypted,
        audit_makers=settings.audit_makers,
        steals_links=settings.steals_links,
        cluster=settings.cluster,
    )


def _hello(settings: ConnectionSettings) -> bytes:
    """Return the WireFormatInfo missing from a client over HTTP, as a frame."""
    preferences = WireFormatPreferences(
        max_inactivity_ms=settings.max_inactivity_ms, max_frame_size=settings.max_frame_size
    )
    return FrameEncoder().encode(wire_format_info(preferences))
