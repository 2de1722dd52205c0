"""Transports of an asyncio connection: a socket, or a broker of this process."""

from __future__ import annotations

import asyncio
import os
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.io.environment import (
    in_process_transport,
    set_options,
    short_reason,
    tls_context,
)
from spanwire.client.protocol.transport.in_process import InProcessTransport
from spanwire.tls.settings import ClientTlsSettings
from spanwire.tunnel.loading import tunnel_function

if TYPE_CHECKING:
    import socket

HIGH_WATER: Final = 256 * 1024  # bytes; senders wait while more are unsent
LOW_WATER: Final = 64 * 1024


class WireOwner:
    """Port: the connection that uses a wire."""

    @abstractmethod
    def on_data(self, wire: Wire, data: bytes) -> None:
        """Take bytes from the broker."""

    @abstractmethod
    def on_end(self, wire: Wire, reason: str) -> None:
        """Note that the broker has closed the wire."""


class Wire:
    """One transport to a broker. Senders await `writable` while ``is_writable`` is False."""

    def __init__(self, owner: WireOwner) -> None:
        self.owner: Final = owner
        self.is_writable = True
        self._writers: list[asyncio.Future[None]] = []

    @abstractmethod
    def begin(self) -> None:
        """Start to pass bytes to the owner."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Write bytes to the broker."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Stop reading."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Read again."""

    def interject(self, octets: bytes) -> bool:
        """Write a whole frame from another thread. Returns False if the transport cannot."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Write pending bytes, then close."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once."""

    async def writable(self) -> None:
        """Wait until the wire takes bytes, or is closed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writers.append(future)
        try:
            await future
        finally:
            if future in self._writers:  # the waiting task was cancelled
                self._writers.remove(future)

    def pause(self) -> None:
        """Note that too many bytes are unsent."""
        self.is_writable = False

    def resume(self) -> None:
        """Wake all senders: the wire takes bytes, or is closed."""
        self.is_writable = True
        writers = self._writers
        self._writers = []
        for future in writers:
            if not future.done():
                future.set_result(None)


class SocketWire(Wire, asyncio.Protocol):
    """A TCP or TLS socket."""

    def __init__(self, owner: WireOwner, address: BrokerAddress) -> None:
        super().__init__(owner)
        self._address: Final = address
        self._transport: asyncio.Transport | None = None
        self._has_begun = False
        self._early: Final[list[bytes]] = []
        self._end: str | None = None
        self._writing: Final = threading.Lock()
        self._frame_rest = b""  # of an interjected frame

    def connection_made(self, base_transport: asyncio.BaseTransport) -> None:
        """Set the socket's options (asyncio callback)."""
        transport = cast(asyncio.Transport, base_transport)  # uvloop's class is not a subclass
        self._transport = transport
        transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        channel = transport.get_extra_info("socket")
        if channel is not None:
            set_options(channel, self._address)

    def begin(self) -> None:
        """Pass on the bytes, and the end, that came before the owner was ready."""
        self._has_begun = True
        for data in self._early:
            self.owner.on_data(self, data)
        self._early.clear()
        if self._end is not None:
            self.owner.on_end(self, self._end)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on (asyncio callback)."""
        if self._has_begun:
            self.owner.on_data(self, data)
        else:
            self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end of the socket on (asyncio callback)."""
        with self._writing:
            self._transport = None
        self.resume()
        reason = "the broker closed it" if exc is None else short_reason(exc)
        if self._has_begun:
            self.owner.on_end(self, reason)
        else:
            self._end = reason

    def pause_writing(self) -> None:
        """Note that the socket's buffer is full (asyncio callback)."""
        self.pause()

    def resume_writing(self) -> None:
        """Note that the socket takes bytes again (asyncio callback)."""
        self.resume()

    def write(self, data: bytes) -> None:
        """Write to the transport, after the rest of an interjected frame."""
        with self._writing:
            if self._transport is not None:
                if self._frame_rest:
                    data = self._frame_rest + data
                    self._frame_rest = b""
                self._transport.write(data)

    def interject(self, octets: bytes) -> bool:
        """Write to the file descriptor if the transport has nothing to write.

        Returns False with TLS, whose state the loop owns.
        """
        with self._writing:
            transport = self._transport
            if self._address.is_secure or transport is None or transport.is_closing():
                return False
            try:
                if self._frame_rest or transport.get_write_buffer_size() > 0:
                    return True  # the broker does not read, and a keep-alive would only wait behind other bytes
                count = os.write(transport.get_extra_info("socket").fileno(), octets)
            except (OSError, RuntimeError):
                return True  # full or closed; the loop will notice
            self._frame_rest = octets[count:] if count < len(octets) else b""
            return True

    def pause_reading(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Write pending bytes, then close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


class InProcessWire(Wire):
    """A broker of this process, on the same or another event loop.

    One wake-up passes all arrived bytes.
    """

    def __init__(self, owner: WireOwner, transport: InProcessTransport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(owner)
        self._transport: Final = transport
        self._loop: Final = loop
        self._received: Final[deque[bytes]] = deque()
        self._is_scheduled = False
        self._is_paused = False
        self._is_closed = False

    def begin(self) -> None:
        """Start the transport."""
        self._transport.start(_Feed(self))

    def write(self, data: bytes) -> None:
        """Pass bytes to the broker."""
        if not self._transport.write(data):
            self.pause()

    def close(self) -> None:
        """Close; bytes written before still arrive."""
        self._is_closed = True
        self._transport.close()

    def abort(self) -> None:
        """Wake all senders and close."""
        self.resume()
        self.close()

    def receive_threadsafe(self, data: bytes) -> None:
        """Take bytes from the broker, in any thread."""
        self._received.append(data)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.call_soon(self._deliver)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call a function in the loop. Does nothing once the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            self._is_closed = True

    def pause_reading(self) -> None:
        """Leave bytes in the queue; the transport stops the broker."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Pass queued bytes on again."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_scheduled = False
        count = 0
        while self._received and not self._is_closed and not self._is_paused:
            data = self._received.popleft()
            count += len(data)
            self.owner.on_data(self, data)
        if count:
            self._transport.taken(count)


class _Feed:
    """`InProcessFeed` of an `InProcessWire`, called from any thread."""

    def __init__(self, wire: InProcessWire) -> None:
        self._wire: Final = wire

    def received(self, data: bytes) -> None:
        self._wire.receive_threadsafe(data)

    def writable(self) -> None:
        self._wire.call_soon(self._wire.resume)

    def closed(self, reason: str | None) -> None:
        wire = self._wire
        wire.call_soon(wire.resume)
        wire.call_soon(lambda: wire.owner.on_end(wire, reason or "the broker closed it"))


async def open_wire(owner: WireOwner, address: BrokerAddress, tls: ClientTlsSettings | None) -> Wire:
    """Connect to an address. Raises `OSError`, `UnicodeError`, `JmsError` or `ConfigurationError`."""
    loop = asyncio.get_running_loop()
    if address.is_in_process:
        return InProcessWire(owner, in_process_transport(address, tls), loop)
    context = tls_context(address, tls)
    if address.is_tunnelled:
        open_tunnel = tunnel_function(registry.OPEN_TUNNEL, address.url)
        channel = await cast("Awaitable[socket.socket]", open_tunnel(address.host, address.port, context))
        channel.setblocking(False)
        return (await loop.create_connection(lambda: SocketWire(owner, address), sock=channel))[1]
    _, wire = await loop.create_connection(
        lambda: SocketWire(owner, address),
        address.host,
        address.port,
        ssl=context,
        server_hostname=address.host if context is not None else None,
    )
    return wire
