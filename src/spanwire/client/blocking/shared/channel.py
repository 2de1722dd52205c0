"""Transports of a blocking connection: a socket, or a broker of this process.

Only `Channel.wait` blocks, and is called without the connection's lock. The lock is held for all other methods.
"""

from __future__ import annotations

import select
import socket
import threading
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final, Self, cast

from spanwire import registry
from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.io.environment import (
    READ_BYTES,
    connection_error,
    in_process_transport,
    set_options,
    tls_context,
)
from spanwire.client.protocol.transport.in_process import InProcessTransport
from spanwire.tunnel.loading import tunnel_function

if TYPE_CHECKING:
    import ssl

    from spanwire.client.blocking.shared.tls_channel import TlsChannel
    from spanwire.tls.settings import ClientTlsSettings

MAX_RINGS: Final = 4096  # bytes of wake-ups that one read takes
MAX_WAIT: Final = 60.0  # seconds of one wait; then the connection checks its state


class EndOfChannel(Exception):
    """The broker has closed the connection; the text gives the reason."""


class Channel:
    """One transport to a broker."""

    @abstractmethod
    def send(self, data: bytes | bytearray) -> int:
        """Write without waiting. Returns the number of bytes taken; raises `OSError`."""

    @abstractmethod
    def receive(self) -> bytes:
        """Return the bytes that have arrived, without waiting. Raises `OSError` or `EndOfChannel`."""

    @abstractmethod
    def wait(self, timeout: float | None, for_reading: bool, for_writing: bool) -> None:
        """Wait until the channel can be read or written, or for ``timeout`` seconds."""

    @abstractmethod
    def wake(self) -> None:
        """End the wait of another thread."""

    @abstractmethod
    def close(self) -> None:
        """Close, and end the waits of other threads."""


class SocketChannel(Channel):
    """A TCP socket, with a socket pair to wake a waiting thread."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel: Final = channel
        self._file: Final = channel.fileno()
        self._ear, self._bell = socket.socketpair()
        self._ear.setblocking(False)
        self._bell.setblocking(False)
        self._doors: Final = threading.Lock()
        self._listeners = 0
        self._is_closed = False

    @classmethod
    def open(cls, address: BrokerAddress, context: ssl.SSLContext | None, timeout: float) -> Self:
        """Connect within ``timeout`` seconds, with TLS if there is a context. Raises `JmsError`."""
        channel: socket.socket | None = None
        try:
            channel = socket.create_connection((address.host, address.port), timeout)
            set_options(channel, address)
            if context is not None:
                channel = context.wrap_socket(channel, server_hostname=address.host)
        except (OSError, ValueError) as error:
            if channel is not None:
                channel.close()
            raise connection_error(address, error) from error
        return cls(channel)

    def send(self, data: bytes | bytearray) -> int:
        """Write without waiting."""
        try:
            return self._channel.send(data)
        except BlockingIOError:
            return 0

    def receive(self) -> bytes:
        """Read without waiting."""
        try:
            data = self._channel.recv(READ_BYTES)
        except BlockingIOError:
            return b""
        if not data:
            raise EndOfChannel("the broker closed it")
        return data

    def wait(self, timeout: float | None, for_reading: bool, for_writing: bool) -> None:
        """Wait for the socket."""
        with self._doors:
            if self._is_closed:
                return
            self._listeners += 1
        try:
            self._listen(timeout, for_reading, for_writing)
        finally:
            with self._doors:
                self._listeners -= 1
                if self._is_closed and self._listeners == 0:
                    self._ear.close()

    def _listen(self, timeout: float | None, for_reading: bool, for_writing: bool) -> None:
        poll = select.poll()
        poll.register(self._file, (select.POLLIN if for_reading else 0) | (select.POLLOUT if for_writing else 0))
        ear = self._ear.fileno()
        poll.register(ear, select.POLLIN)
        ready = poll.poll(1000 * MAX_WAIT if timeout is None else max(0, int(1000 * min(timeout, MAX_WAIT)) + 1))
        if any(file == ear for file, _ in ready):
            try:
                self._ear.recv(MAX_RINGS)
            except OSError:
                pass  # another thread has read the byte

    def wake(self) -> None:
        """Write a byte to the socket pair."""
        try:
            self._bell.send(b"\0")
        except OSError:
            pass  # a wake-up is pending, or the channel is closed

    def close(self) -> None:
        """Shut the socket down first, so that a waiting thread returns."""
        try:
            socket.socket.shutdown(self._channel, socket.SHUT_RDWR)
        except OSError:
            pass  # the peer has closed the socket
        self._channel.close()
        self._bell.close()
        with self._doors:
            self._is_closed = True
            if self._listeners == 0:
                self._ear.close()


class InProcessChannel(Channel):
    """A broker of this process in another thread. The channel is the `InProcessFeed` of its transport."""

    def __init__(self, transport: InProcessTransport) -> None:
        self._transport: Final = transport
        self._changed: Final = threading.Condition()
        self._arrived: Final[deque[bytes]] = deque()
        self._is_writable = True
        self._end: str | None = None
        self._is_rung = False
        transport.start(self)

    def received(self, data: bytes) -> None:
        """Take bytes from the broker."""
        with self._changed:
            self._arrived.append(data)
            self._changed.notify_all()

    def writable(self) -> None:
        """Note that the broker takes bytes again."""
        with self._changed:
            self._is_writable = True
            self._changed.notify_all()

    def closed(self, reason: str | None) -> None:
        """Note that the broker has closed the connection."""
        with self._changed:
            self._end = reason or "the broker closed it"
            self._changed.notify_all()

    def send(self, data: bytes | bytearray) -> int:
        """Pass bytes to the broker, unless the broker takes none."""
        if not self._is_writable:
            return 0
        self._is_writable = False
        if self._transport.write(bytes(data)):
            self._is_writable = True
        return len(data)

    def receive(self) -> bytes:
        """Return all bytes that have arrived."""
        with self._changed:
            if not self._arrived and self._end is not None:
                raise EndOfChannel(self._end)
            data = b"".join(self._arrived)
            self._arrived.clear()
        if data:
            self._transport.taken(len(data))
        return data

    def wait(self, timeout: float | None, for_reading: bool, for_writing: bool) -> None:
        """Wait for the broker."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_due(for_reading, for_writing), timeout or MAX_WAIT)
            self._is_rung = False

    def wake(self) -> None:
        """End the wait of another thread."""
        with self._changed:
            self._is_rung = True
            self._changed.notify_all()

    def _is_due(self, for_reading: bool, for_writing: bool) -> bool:
        if self._is_rung or self._end is not None or (for_writing and self._is_writable):
            return True
        return for_reading and bool(self._arrived)

    def close(self) -> None:
        """Close the transport."""
        self._transport.close()
        self.closed("it is closed")


def open_channel(address: BrokerAddress, tls: ClientTlsSettings | None, timeout: float) -> Channel:
    """Connect to an address within ``timeout`` seconds. Raises `JmsError` or `ConfigurationError`."""
    if address.is_in_process:
        return InProcessChannel(in_process_transport(address, tls))
    context = tls_context(address, tls)
    if address.is_tunnelled:
        return SocketChannel(_tunnel(address, context, timeout))
    if context is None:
        return SocketChannel.open(address, None, timeout)
    return cast("type[TlsChannel]", registry.load(registry.TLS_CHANNEL)).open(address, context, timeout)


def _tunnel(address: BrokerAddress, context: ssl.SSLContext | None, timeout: float) -> socket.socket:
    """Open a tunnel over HTTP within ``timeout`` seconds. Raises `JmsError` or `ConfigurationError`."""
    open_tunnel = tunnel_function(registry.OPEN_TUNNEL_IN_THREAD, address.url)
    try:
        return cast("socket.socket", open_tunnel(address.host, address.port, context, timeout))
    except (OSError, ValueError) as error:
        raise connection_error(address, error) from error
