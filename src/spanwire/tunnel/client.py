"""A client's tunnel to a broker: one end of a pair of sockets for OpenWire, and two HTTP sockets.

    client ⇄ pair ⇄ frames ⇄ XML ⇄ POST and GET ⇄ broker

The client speaks OpenWire as over TCP. The tunnel answers the client's WireFormatInfo, because HTTP has no negotiation.
After a failure the client reads a ConnectionError with the reason, and then the end.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from spanwire.model.errors import JmsError, ProtocolError, RemoteProtocolError, SpanwireError
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.frames import SIZE_OCTETS
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from spanwire.protocols.openwire.xstream.reader import XmlReader
from spanwire.protocols.openwire.xstream.writer import XmlWriter
from spanwire.tunnel.requests import OK, Answer, RequestSocket

if TYPE_CHECKING:
    import ssl

READ_BYTES: Final = 256 * 1024
MAX_POSTS: Final = 32  # commands sent ahead of their answers; a round trip then costs little
MAX_POLLS: Final = 8  # requests for commands sent ahead
POLL_TIMEOUT: Final = 90.0  # seconds; brokers answer a request without a command after 10 or 30
CLOSE_TIMEOUT: Final = 5.0  # seconds for the answers to the last commands
MAX_ANSWER: Final = 2 * MAX_FRAME_SIZE  # bytes of one command as XML
TIMED_OUT: Final = 408  # Classic's answer to a request that has waited for 30 seconds
HELLO: Final = FrameEncoder().encode(wire_format_info(WireFormatPreferences(max_inactivity_ms=0)))


class Tunnel:
    """The sockets of one client, and the tasks for moving commands between the sockets."""

    def __init__(self, authority: str, pair: socket.socket) -> None:
        """``pair`` is the tunnel's end of the pair."""
        client_id = f"ID:spanwire-{os.urandom(16).hex()}"  # nobody can guess the name of the session
        self._pair: Final = pair
        self._posts: Final = RequestSocket(authority, client_id, MAX_ANSWER)
        self._polls: Final = RequestSocket(authority, client_id, MAX_ANSWER)
        self._reader: Final = XmlReader()
        self._writer: Final = XmlWriter()
        self._room: Final = asyncio.Semaphore(MAX_POSTS)
        self._streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def open(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Connect both sockets and open the session. Raises `OSError` or `JmsError`."""
        name = None if context is None else host
        try:
            for _ in range(2):
                opened = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
                self._streams.append(opened)
                channel = opened[1].get_extra_info("socket")
                if channel is not None:
                    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader, writer = self._streams[1]
            writer.write(self._polls.request("HEAD"))
            answers: list[Answer] = []
            while not answers:
                answers = self._polls.receive(await reader.read(READ_BYTES))
            if answers[0].status != OK:
                raise JmsError(f"{host}:{port} opens no session of OpenWire: {answers[0].refusal()}")
        except ProtocolError as error:
            self.close()
            raise JmsError(f"{host}:{port} does not speak OpenWire over HTTP: {error}") from None
        except BaseException:
            self.close()
            raise

    async def run(self) -> None:
        """Move commands until one side ends."""
        self._pair.setblocking(False)
        from_client, to_client = await asyncio.open_connection(sock=self._pair)
        to_client.write(HELLO)
        failing = [
            asyncio.ensure_future(self._read_answers()),
            asyncio.ensure_future(self._poll(to_client)),
        ]
        sending = asyncio.ensure_future(self._post(from_client))
        try:
            await asyncio.wait([sending, *failing], return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and sending.exception() is None:
                await self._finish()
            for task in (*failing, sending):
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    to_client.write(_farewell(error))
                    break
        finally:
            for task in (*failing, sending):
                task.cancel()
            await asyncio.gather(*failing, sending, return_exceptions=True)
            to_client.close()
            self.close()

    def close(self) -> None:
        """Close the HTTP sockets."""
        for _, writer in self._streams:
            writer.close()

    async def _post(self, from_client: asyncio.StreamReader) -> None:
        """Send each command of the client, up to the end of its socket."""
        writer = self._streams[0][1]
        incomplete = bytearray()
        while data := await from_client.read(READ_BYTES):
            incomplete += data
            position = 0
            while len(incomplete) - position >= SIZE_OCTETS:
                end = position + SIZE_OCTETS + int.from_bytes(incomplete[position : position + SIZE_OCTETS], "big")
                if end > len(incomplete):
                    break
                if incomplete[position + SIZE_OCTETS] != wire.WIRE_FORMAT_INFO:
                    await self._room.acquire()
                    text = self._writer.text(bytes(incomplete[position:end]))
                    writer.write(self._posts.request("POST", text))
                position = end
            del incomplete[:position]
            await writer.drain()

    async def _read_answers(self) -> None:
        """Read the answers to sent commands. Raises `RemoteProtocolError` for any but success."""
        reader = self._streams[0][0]
        while True:
            data = await reader.read(READ_BYTES)
            for answer in self._posts.receive(data):
                if answer.status != OK:
                    raise RemoteProtocolError(f"the broker refuses a command: {answer.refusal()}")
                self._room.release()
            if not data:
                raise RemoteProtocolError("the broker closed the socket of sent commands")

    async def _poll(self, to_client: asyncio.StreamWriter) -> None:
        """Ask for commands, and pass each to the client. Raises `RemoteProtocolError`."""
        reader, writer = self._streams[1]
        while True:
            missing = MAX_POLLS - self._polls.unanswered
            writer.write(b"".join([self._polls.request("GET") for _ in range(missing)]))
            try:
                data = await asyncio.wait_for(reader.read(READ_BYTES), POLL_TIMEOUT)
            except TimeoutError:
                raise RemoteProtocolError(f"the broker has not answered within {POLL_TIMEOUT:g} s") from None
            for answer in self._polls.receive(data):
                if answer.status == OK and answer.body:
                    to_client.write(self._reader.frame(answer.body[SIZE_OCTETS:]))
                elif answer.status != TIMED_OUT:
                    raise RemoteProtocolError(f"the broker ends the session: {answer.refusal()}")
            if not data:
                raise RemoteProtocolError("the broker closed the socket")
            await to_client.drain()

    async def _finish(self) -> None:
        """Wait until the broker has taken the last commands."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                for _ in range(MAX_POSTS):
                    await self._room.acquire()


async def open_tunnel(host: str, port: int, context: ssl.SSLContext | None) -> socket.socket:
    """Open a session, and return a socket for the client that carries OpenWire.

    The tunnel runs as a task of the loop until one side closes.

    Raises:
        OSError: a socket cannot be connected.
        JmsError: the other side opens no session.
    """
    tunnel, ours = await _opened(host, port, context)
    task = asyncio.ensure_future(tunnel.run())
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)
    return ours


def open_tunnel_in_thread(host: str, port: int, context: ssl.SSLContext | None, timeout: float) -> socket.socket:
    """Open a session from a program without an event loop, within ``timeout`` seconds.

    The tunnel has a separate thread.

    Raises as `open_tunnel`.
    """
    opened: Future[socket.socket] = Future()

    async def run() -> None:
        try:
            async with asyncio.timeout(timeout):
                tunnel, ours = await _opened(host, port, context)
        except (OSError, SpanwireError, ValueError) as error:
            opened.set_exception(error)
            return
        opened.set_result(ours)
        await tunnel.run()

    threading.Thread(target=lambda: asyncio.run(run()), name=f"tunnel to {host}:{port}", daemon=True).start()
    return opened.result()


async def _opened(host: str, port: int, context: ssl.SSLContext | None) -> tuple[Tunnel, socket.socket]:
    """Return a tunnel with an open session, and the client's end of its pair."""
    ours, theirs = socket.socketpair()
    tunnel = Tunnel(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", theirs)
    try:
        await tunnel.open(host, port, context)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    return tunnel, ours


def _farewell(error: BaseException) -> bytes:
    """Return the command that tells the client why the tunnel ends."""
    text = str(error) or type(error).__name__
    return FrameEncoder().encode(wire.ConnectionError(exception=Throwable("java.io.IOException", text)))


_RUNNING: Final[set[asyncio.Future[None]]] = set()  # the loop itself has weak references to tasks only
