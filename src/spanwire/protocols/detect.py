"""Detects the protocol of a connection by its first bytes (ActiveMQ's ``auto`` transport).

    OpenWire  0 | size (3) | 1 | ActiveMQ     the WireFormatInfo that both sides begin with
    STOMP     CONNECT or STOMP and a line end, after any line ends

Nothing is sent before the protocol is known. Foreign protocols are recognised for the log only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection

OPENWIRE: Final = "openwire"
STOMP: Final = "stomp"
FOREIGN: Final = "foreign"
UNDECIDED: Final = "undecided"  # the bytes so far may still begin OpenWire or STOMP

MAX_LINE_ENDS: Final = 16  # bytes before a STOMP command; some clients begin with a heart-beat
MAX_PROBE_BYTES: Final = 32  # bytes; suffice to decide every beginning

_MAGIC_OFFSET: Final = 4  # bytes; the command type and the magic follow the size
_MAGIC: Final = b"\x01ActiveMQ"
_COMMANDS: Final = (b"CONNECT\n", b"CONNECT\r\n", b"STOMP\n", b"STOMP\r\n")
_FOREIGN_NAMES: Final = (
    (b"\x16\x03", "TLS, which this port does not speak; connect to an ssl connector"),
    (b"AMQP", "AMQP, which this version does not support"),
    (b"\x10", "MQTT, which this version does not support"),
    (b"GET ", "HTTP"),
    (b"POST ", "HTTP"),
    (b"HEAD ", "HTTP"),
    (b"PUT ", "HTTP"),
    (b"OPTIONS ", "HTTP"),
    (b"CONNECT ", "HTTP"),
    (b"SSH-", "SSH"),
    (b"<", "XML, as XMPP does; connect to an xmpp connector"),
)

Factory = Callable[[ConnectionSettings, Time], ProtocolConnection]
Report = Callable[[str, Time], None]


def detect(data: bytes) -> str:
    """Return `OPENWIRE`, `STOMP`, `FOREIGN`, or `UNDECIDED` while more bytes are needed.

    The size of a WireFormatInfo is below 64 KiB, so the first byte of an OpenWire client is 0.
    """
    if not data:
        return UNDECIDED
    if data[0] == 0:
        return _compare(data[_MAGIC_OFFSET:], _MAGIC, OPENWIRE)
    text = data[: MAX_LINE_ENDS + 1].lstrip(b"\r\n")
    if not text:
        return UNDECIDED if len(data) <= MAX_LINE_ENDS else FOREIGN
    text = data.lstrip(b"\r\n")
    best_match = FOREIGN
    for command in _COMMANDS:
        match = _compare(text, command, STOMP)
        if match == STOMP:
            return STOMP
        if match == UNDECIDED:
            best_match = UNDECIDED
    return best_match


def _compare(data: bytes, beginning: bytes, match: str) -> str:
    if data.startswith(beginning):
        return match
    return UNDECIDED if beginning.startswith(data) else FOREIGN


def foreign_name(data: bytes) -> str:
    """Return the name of a foreign protocol for the log."""
    for beginning, name in _FOREIGN_NAMES:
        if data.startswith(beginning):
            return name
    return "a protocol that is not known here"


class DetectingConnection(ProtocolConnection):
    """A connection that detects its protocol and then passes everything to a connection of the protocol.

    ``factories`` are the accepted protocols by name. ``report`` receives the reason if the connection is closed here.
    The login deadline counts from the start of the connection, so the protocol's connection is created with the time of
    the start.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        factories: dict[str, Factory],
        report: Report,
        now: Time,
    ) -> None:
        self._settings: Final[ConnectionSettings] = settings
        self._factories: Final[dict[str, Factory]] = factories
        self._report: Final[Report] = report
        self._started: Final[Time] = now
        self._deadline: Final[float] = now.monotonic + settings.detection_timeout
        self._probe = b""
        self._closed = False
        self._inner: ProtocolConnection | None = None

    @property
    def carried(self) -> object:
        """Return the connection that the broker knows: this one until the protocol is known."""
        return self if self._inner is None else self._inner

    def note_peer_end(self) -> None:
        """Do nothing: this connection keeps no input, and the one inside carries none."""

    def receive_data(self, data: bytes, now: Time) -> None:
        """Pass bytes on, or examine the first bytes."""
        inner = self._inner
        if inner is not None:
            inner.receive_data(data, now)
            return
        if self._closed:
            return
        probe = self._probe + data[:MAX_PROBE_BYTES]
        protocol = detect(probe)
        if protocol == UNDECIDED:
            self._probe = probe
            return
        self._probe, probe_bytes = b"", len(self._probe)
        factory = self._factories.get(protocol)
        if factory is None:
            name = foreign_name(probe) if protocol == FOREIGN else f"{protocol}, which this connector does not take"
            self._closed = True
            self._report(f"the client speaks {name}", now)
            return
        inner = factory(self._settings, self._started)
        self._inner = inner
        inner.receive_data(probe[:probe_bytes] + data, now)

    def go_on(self, now: Time) -> None:
        """Process postponed requests."""
        inner = self._inner
        if inner is not None:
            inner.go_on(now)

    def receive_eof(self, now: Time) -> None:
        """Handle the end of the connection."""
        self._closed = True
        inner = self._inner
        if inner is not None:
            inner.receive_eof(now)

    def data_to_send(self) -> list[bytes]:
        """Return the output of the protocol's connection; empty until the protocol is known."""
        inner = self._inner
        return [] if inner is None else inner.data_to_send()

    def unsent(self, count: int) -> None:
        """Pass on that the transport still has ``count`` bytes."""
        inner = self._inner
        if inner is not None:
            inner.unsent(count)

    def next_timeout(self) -> float | None:
        """Return the deadline of the detection, then the timeout of the protocol's connection."""
        inner = self._inner
        if inner is not None:
            return inner.next_timeout()
        return None if self._closed else self._deadline

    def handle_timeout(self, now: Time) -> None:
        """Close a client that has begun no protocol until the deadline."""
        inner = self._inner
        if inner is not None:
            inner.handle_timeout(now)
        elif not self._closed and now.monotonic >= self._deadline:
            self._closed = True
            self._report(f"the client did not begin any protocol within {self._settings.detection_timeout:g} s", now)

    @property
    def holds_requests(self) -> bool:
        """Return True while the protocol's connection has postponed requests."""
        inner = self._inner
        return inner is not None and inner.holds_requests

    @property
    def wants_read(self) -> bool:
        """Return False while the protocol's connection wants no bytes."""
        inner = self._inner
        return inner is None or inner.wants_read

    @property
    def closed(self) -> bool:
        """Return True once the socket should be closed."""
        inner = self._inner
        return self._closed if inner is None else inner.closed

    @property
    def pending_bytes(self) -> int:
        """Return the bytes in memory of an incomplete frame."""
        inner = self._inner
        if inner is None:
            return len(self._probe)
        return inner.pending_bytes
