"""A STOMP connection of a bridge: login, receipts, heart-beats, and one subscription."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from spanwire.bridges.providers.addresses import Place
from spanwire.bridges.providers.inbox import MAX_IN_ORDER, MAX_OCTETS, Inbox
from spanwire.bridges.providers.text_headers import number
from spanwire.client.io.environment import short_reason
from spanwire.model.errors import AuthenticationError, JmsError
from spanwire.protocols.stomp.codec.codec import FrameDecoder
from spanwire.protocols.stomp.codec.encoding import encode_frame
from spanwire.protocols.stomp.codec.frames import CONNECT, CONNECTED, DISCONNECT, ERROR, MESSAGE, V1_0, V1_2, Frame

CONNECT_S: Final = 30.0  # seconds for connection and login
CLOSE_S: Final = 2.0  # seconds; a broker that is silent must not hold up the next attempt
LEAVE_S: Final = 60.0  # seconds for the receipt of a DISCONNECT, which stands behind all messages sent ahead
BEAT_MS: Final = 10_000  # milliseconds between two heart-beats
MAX_BEAT_MS: Final = 3_600_000  # milliseconds; a broker that beats more seldom counts as lost after a few hours
SILENT_BEATS: Final = 2.5  # intervals without a byte after which the broker counts as lost
GONE_S: Final = 120  # seconds after which the host of a broker without heart-beats counts as lost
# Options of the system, which asks such a host for a sign of life; not every system has all of them. TCP_USER_TIMEOUT
# is left out, because it also ends a connection to a broker that holds its producers up.
PROBES: Final = (("TCP_KEEPIDLE", GONE_S // 2), ("TCP_KEEPINTVL", GONE_S // 12), ("TCP_KEEPCNT", 6))
ROOM_S: Final = 0.01  # seconds between two looks for room in the inbox
READ_BYTES: Final = 256 * 1024
MAX_ERROR: Final = 300  # characters of a broker's error
RABBITMQ: Final = "RabbitMQ"  # beginning of the header `server`
ARTEMIS: Final = "ActiveMQ-Artemis"  # the same
CLASSIC: Final = "ActiveMQ/"  # the same
VERSION: Final = "1.2"

Headers = list[tuple[str, str]]


class StompConnection:
    """One connection. Methods raise `JmsError` once it is lost, or the broker has sent an ERROR."""

    def __init__(self, place: Place, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.inbox: Final[Inbox[Frame]] = Inbox()
        self.keeps_all = True  # messages beyond the room, too
        self.is_full = False  # no further message is kept: it stays at the broker
        self.subscription = ""  # the only one whose messages are kept; without an id those of all
        self.is_rabbit = False
        self.is_classic = False
        self._place: Final[Place] = place
        self._reader: Final = reader
        self._writer: Final = writer
        self._decoder: Final = FrameDecoder()
        self._decoder.accept(V1_2)
        self._receipts: Final[dict[str, asyncio.Future[None]]] = {}
        self._last_receipt = 0
        self._writes = 0  # calls of `write` under way
        self._last_received = 0.0
        self._tasks: list[asyncio.Task[None]] = []

    async def log_in(self, client_id: str | None) -> None:
        """Send CONNECT, and start to read. The path of the URL is the virtual host."""
        headers: Headers = [
            ("accept-version", VERSION),
            ("host", self._place.path or "/"),
            ("heart-beat", f"{BEAT_MS},{BEAT_MS}"),
        ]
        if self._place.user_name is not None:
            headers.append(("login", self._place.user_name))
        if self._place.password is not None:
            headers.append(("passcode", self._place.password.reveal()))
        if client_id is not None:
            headers.append(("client-id", client_id))
        # Without escapes, as STOMP 1.2 asks for CONNECT.
        self._writer.write(encode_frame(CONNECT, headers, b"", V1_0))
        frames = await self._first_frames()
        if frames[0].command not in (CONNECTED, ERROR):
            raise JmsError(f"{self._place.shown} does not speak STOMP; is it a STOMP connector?")
        if frames[0].command == ERROR:
            raise AuthenticationError(f"{self._place.shown}: {_error_text(frames[0])}")
        connected = frames[0].headers
        if connected.get("version") != VERSION:
            raise JmsError(f"{self._place.shown} does not speak STOMP {VERSION}, which the provider stomp needs")
        self.is_rabbit = connected.get("server", "").startswith(RABBITMQ)
        self.is_artemis = connected.get("server", "").startswith(ARTEMIS)
        self.is_classic = connected.get("server", "").startswith(CLASSIC)
        for frame in frames[1:]:
            self._take(frame)
        send_ms, receive_ms = _intervals(connected.get("heart-beat"))
        if not receive_ms:
            _probe(self._writer.get_extra_info("socket"))
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._beat(send_ms, receive_ms))]

    async def _first_frames(self) -> list[Frame]:
        while True:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise JmsError(f"{self._place.shown} closed the connection during the login; is it a STOMP connector?")
            frames = self._decoder.feed(data)
            if frames:
                return frames
            if self._decoder.failure is not None:
                raise JmsError(f"{self._place.shown} does not speak STOMP; is it a STOMP connector?")

    async def send(self, command: str, headers: Headers, body: bytes = b"") -> None:
        """Write a frame; wait while the broker reads too slowly."""
        await self.write([encode_frame(command, headers, body, V1_2)])

    async def write(self, frames: list[bytes]) -> None:
        """Write encoded frames; wait while the broker reads too slowly."""
        self._writes += 1
        try:
            for frame in frames:
                self.inbox.check()
                self._writer.write(frame)
                try:
                    await self._writer.drain()
                except OSError as error:
                    self._lose(short_reason(error))
        finally:
            self._writes -= 1
        self.inbox.check()

    def receipt(self) -> tuple[str, asyncio.Future[None]]:
        """Return the next receipt id, and the future of the receipt."""
        self.inbox.check()
        self._last_receipt += 1
        name = f"r{self._last_receipt}"
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receipts[name] = future
        return name, future

    async def request(self, command: str, headers: Headers, body: bytes = b"") -> None:
        """Send a frame, and wait for the receipt."""
        name, future = self.receipt()
        try:
            await self.send(command, [*headers, ("receipt", name)], body)
            await future
        finally:
            self.forget([(name, future)])

    def forget(self, receipts: list[tuple[str, asyncio.Future[None]]]) -> None:
        """Expect these receipts no longer."""
        for name, future in receipts:
            self._receipts.pop(name, None)
            if not future.cancel() and not future.cancelled():
                future.exception()  # read here, because a failed write does not wait for the receipt

    async def leave(self) -> None:
        """Close the connection after the broker has taken all unacknowledged messages back."""
        with contextlib.suppress(JmsError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self.request(DISCONNECT, [])
        await self.close()

    async def close(self) -> None:
        """Close the connection, lost or not."""
        if not self._writer.is_closing():
            self._writer.write(encode_frame(DISCONNECT, [], b"", V1_2))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            while data := await self._next_octets():
                self._last_received = asyncio.get_running_loop().time()
                for frame in self._decoder.feed(data):
                    self._take(frame)
                if self._decoder.failure is not None:
                    self._lose(f"the broker broke the protocol: {self._decoder.failure}")
                    return
            self._lose("the broker closed it")
        except OSError as error:
            self._lose(short_reason(error))
        except Exception as error:  # noqa: BLE001 - a source whose reader has ended must not look like an empty one
            self._lose(f"a frame cannot be read: {error}")

    async def _next_octets(self) -> bytes:
        """Read, but not while the inbox is full.

        Receipts stand behind messages, and a broker unable to write may stop reading: pending receipts and writes go
        before the limit.
        """
        while self.inbox.octets >= MAX_OCTETS and not self._receipts and not self._writes:
            await asyncio.sleep(ROOM_S)
            self._last_received = asyncio.get_running_loop().time()  # the broker is not silent, but unread
        return await self._reader.read(READ_BYTES)

    def _take(self, frame: Frame) -> None:
        if frame.command == MESSAGE:
            self._keep(frame)
        elif frame.command == ERROR:
            self._fail(JmsError(f"{self._place.shown}: {_error_text(frame)}"))
        else:
            future = self._receipts.get(frame.headers.get("receipt-id", ""))
            if future is not None and not future.done():
                future.set_result(None)

    def _keep(self, frame: Frame) -> None:
        """Keep a message, if there is room, or if it is the only one.

        ActiveMQ may send messages of an earlier subscription after the receipt of its UNSUBSCRIBE. They come again.
        """
        if self.subscription and frame.headers.get("subscription", self.subscription) != self.subscription:
            return
        octets = len(frame.body) + sum(len(name) + len(text) for name, text in frame.headers.items())
        room = MAX_IN_ORDER if self.is_classic else MAX_OCTETS
        if not self.keeps_all and self.inbox.octets > 0 and self.inbox.octets + octets > room:
            self.is_full = True
        if not self.is_full:
            self.inbox.put(frame, octets)

    async def _beat(self, send_ms: int, receive_ms: int) -> None:
        """Send heart-beats, and watch the broker's, at the intervals of CONNECTED."""
        loop = asyncio.get_running_loop()
        self._last_received = loop.time()
        while send_ms or receive_ms:
            await asyncio.sleep(BEAT_MS / 2_000)
            if send_ms:
                self._writer.write(b"\n")
            if receive_ms and loop.time() - self._last_received > receive_ms / 1_000 * SILENT_BEATS:
                self._lose(f"the broker was silent for {loop.time() - self._last_received:.0f} s")
                return

    def _lose(self, reason: str) -> None:
        self._fail(JmsError(f"the connection to {self._place.shown} was lost: {reason}"))
        self._writer.transport.abort()  # else a `write` would wait for good until a silent broker reads

    def _fail(self, error: JmsError) -> None:
        self.inbox.fail(error)
        for future in self._receipts.values():
            if not future.done():
                future.set_exception(error)


async def connect(place: Place, tls: ssl.SSLContext | None, client_id: str | None) -> StompConnection:
    """Connect and log in.

    Raises:
        JmsError: the broker is not reachable, refuses the login, or does not speak STOMP 1.2.
    """
    connection: StompConnection | None = None
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(place.host, place.port, ssl=tls)
            connection = StompConnection(place, reader, writer)
            await connection.log_in(client_id)
            return connection
    except BaseException as error:
        if connection is not None:
            await connection.close()
        if isinstance(error, OSError):  # a TimeoutError is one, too
            raise JmsError(f"no connection to {place.shown}: {short_reason(error)}; is the broker started?") from None
        raise


def _probe(connected: socket.socket) -> None:
    """Let the system notice a host that is gone: a source sends nothing, and would wait for its messages for good."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES:
        option = getattr(socket, name, None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _error_text(frame: Frame) -> str:
    """Return the text of an ERROR on one line; RabbitMQ has the cause in the body, ActiveMQ in the header."""
    message = frame.headers.get("message", "")
    body = frame.body.decode("utf-8", "replace").strip().partition("\n")[0]
    text = message if not body or body.startswith(message) or "Exception" in body else f"{message}: {body}"
    return " ".join((text or body or frame.command).split())[:MAX_ERROR]


def _intervals(agreed: str | None) -> tuple[int, int]:
    """Return the milliseconds between our heart-beats and between the broker's; 0 for no heart-beats."""
    sends, _, wants = (agreed or "0,0").partition(",")
    broker_sends, broker_wants = (min(number(text.strip(), 0), MAX_BEAT_MS) for text in (sends, wants))
    return (
        max(BEAT_MS, broker_wants) if broker_wants else 0,
        max(BEAT_MS, broker_sends) if broker_sends else 0,
    )
