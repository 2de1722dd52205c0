"""A stage for dialogues with a WebSocket connection, without sockets and with time passed in.

The client's end is the state machine of the library `websockets`, or bytes that the test writes itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.transports.base import ConnectionFactory
from spanwire.transports.websocket.connection import WebSocketConnection
from spanwire.transports.websocket.output import header as output_header
from tests.unit.transports.stage import FakeConnection

START: Final = Time(1000.0, 1_700_000_000_000)
SILENT: Final = logging.Logger("client", logging.CRITICAL)
KEY: Final = "dGhlIHNhbXBsZSBub25jZQ=="  # of RFC 6455, section 1.3
MASK: Final = b"\x01\x02\x03\x80"
ACCEPTED: Final = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
MAX_TURNS: Final = 10_000  # of a connection that goes on with what it holds


def request(*headers: str, first: str = "GET /stomp HTTP/1.1") -> bytes:
    """A handshake with further headers."""
    usual = ("Host: broker:61614", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    return "\r\n".join([first, *usual, f"Sec-WebSocket-Key: {KEY}", *headers, "", ""]).encode()


def frame(opcode: Opcode, data: bytes, *, is_last: bool = True) -> bytes:
    """A frame as a client writes it, but with the same mask each time: it is in the names of tests."""
    header = output_header((0x80 if is_last else 0) | opcode, len(data))
    masked = int.from_bytes(data, "little") ^ int.from_bytes(MASK * (len(data) // 4 + 1), "little")
    return (
        bytes((header[0], header[1] | 0x80)) + header[2:] + MASK + masked.to_bytes(len(data) + 4, "little")[: len(data)]
    )


class Dialogue:
    """The broker's end of one connection, with a `FakeConnection` inside unless a factory makes another."""

    def __init__(
        self,
        origins: tuple[str, ...] = (),
        settings: ConnectionSettings | None = None,
        factory: ConnectionFactory | None = None,
        now: Callable[[], Time] | None = None,
    ) -> None:
        self.inner = FakeConnection()
        self.inners = 0
        self.started: Time | None = None
        self.reports: list[str] = []
        self._seconds = 0.0
        self._now = now
        self._factory = factory
        self.connection: Final = WebSocketConnection(
            self._make,
            settings if settings is not None else ConnectionSettings(),
            origins,
            lambda reason, at: self.reports.append(reason),
            self.now,
        )

    @property
    def now(self) -> Time:
        if self._now is not None:
            return self._now()
        return Time(START.monotonic + self._seconds, START.wall_ms + int(self._seconds * 1000))

    def _make(self, settings: ConnectionSettings, now: Time) -> ProtocolConnection:
        self.inners += 1
        self.started = now
        return self.inner if self._factory is None else self._factory(settings, now)

    def passes(self, seconds: float) -> None:
        """Let time pass, in steps no longer than the transport's sweep."""
        end = self._seconds + seconds
        while self._seconds < end:
            self._seconds = min(self._seconds + 0.25, end)
            due = self.connection.next_timeout()
            if due is not None and due <= self.now.monotonic:
                self.connection.handle_timeout(self.now)

    def takes(self, data: bytes) -> bytes:
        """The broker's end takes bytes and acts on all of them; what it wants to write."""
        self.connection.receive_data(data, self.now)
        for _ in range(MAX_TURNS):
            if not self.connection.holds_requests:
                return self.writes()
            self.connection.go_on(self.now)
        raise AssertionError("the connection never comes to rest")

    def writes(self) -> bytes:
        """What the broker's end wants to write; the socket takes all of it."""
        data = b"".join(self.connection.data_to_send())
        self.connection.unsent(0)
        return data

    @property
    def contents(self) -> bytes:
        """What the connection inside has received."""
        return b"".join(self.inner.received)


class Client:
    """The other end, with the library's own state machine."""

    def __init__(self, dialogue: Dialogue, subprotocols: tuple[str, ...] = (), origin: str | None = None) -> None:
        self._dialogue = dialogue
        self.protocol: Final = ClientProtocol(
            parse_uri("ws://broker:61614/stomp"), subprotocols=list(subprotocols) or None, origin=origin,
            max_size=None, logger=SILENT,
        )  # fmt: skip
        self.messages: Final[list[tuple[Opcode, bytes]]] = []
        self.answer: Response | None = None

    def shakes_hands(self) -> Response:
        """The answer to a handshake."""
        self.protocol.send_request(self.protocol.connect())
        self.exchanges()
        assert self.answer is not None
        return self.answer

    def exchanges(self) -> None:
        """What the client has written goes to the broker, the answer comes back, and an answer to this."""
        for _ in range(2):
            self.hears(self._dialogue.takes(b"".join(self.protocol.data_to_send())))

    def hears(self, data: bytes) -> None:
        """Bytes of the broker arrive."""
        if data:
            self.protocol.receive_data(data)
        for event in self.protocol.events_received():
            if isinstance(event, Response):
                self.answer = event
            elif event.opcode in (Opcode.TEXT, Opcode.BINARY):
                self.messages.append((event.opcode, bytes(event.data)))

    def sends(self, *texts: str | bytes) -> None:
        """Messages, text or binary."""
        for text in texts:
            if isinstance(text, str):
                self.protocol.send_text(text.encode())
            else:
                self.protocol.send_binary(text)
        self.exchanges()

    def receives(self) -> list[tuple[Opcode, bytes]]:
        """All messages since the last call."""
        messages = self.messages.copy()
        self.messages.clear()
        return messages


def connected(dialogue: Dialogue, *, logged_in: bool = True) -> Client:
    """A client with an open WebSocket; STOMP has answered its login, unless told otherwise."""
    client = Client(dialogue)
    client.shakes_hands()
    assert client.protocol.state is OPEN, dialogue.reports
    if logged_in:
        dialogue.inner.to_send.append(b"CONNECTED\n\n\0")
        client.exchanges()
        client.receives()
    return client
