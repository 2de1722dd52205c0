"""The blocking shell of the client: one socket, used by one thread, which waits where an answer is needed.

    with BlockingConnection.open("127.0.0.1", 61616, credentials) as connection:
        producer = connection.producer(destination)
        connection.send(producer.message("text", True, wall_ms()), wait=True)

Keep-alives are sent while it waits; a caller that is busy elsewhere for longer than the broker's inactivity limit
(30 s) calls `wait` meanwhile.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from spanwire.client.connection import Connection
from spanwire.client.session import Consumer, Producer, Session
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.tls.context import client_context
from spanwire.tls.settings import ClientTlsSettings

CONNECT_TIMEOUT: Final = 15.0  # seconds until the socket is open, and until the broker has accepted the login
CLOSE_TIMEOUT: Final = 15.0  # ActiveMQ's closeTimeout
READ_BYTES: Final = 256 * 1024
MAX_UNSENT_BYTES: Final = 1024 * 1024  # commands that may gather before they are written


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who connects. The password stays out of every repr."""

    user_name: str | None = None
    password: str | None = field(default=None, repr=False)
    client_id: str | None = None


class BlockingConnection:
    """A logged-in connection with one session. Not for use by two threads."""

    def __init__(self, channel: socket.socket, credentials: Credentials, host: str) -> None:
        millis = wall_ms()
        connection_id = f"ID:{socket.gethostname()}-{os.getpid()}-{millis}-{int.from_bytes(os.urandom(4), 'big')}:1"
        info = wire.ConnectionInfo(
            connection_id=wire.ConnectionId(connection_id),
            client_id=credentials.client_id or f"{connection_id}:0",
            user_name=credentials.user_name,
            password=credentials.password,
        )
        self.session: Final = Session(connection_id)
        self._channel: Final = channel
        self._process: Final = os.getpid()
        self._connection: Final = Connection(info, time.monotonic(), host)
        self._unsent = bytearray()

    @classmethod
    def open(
        cls,
        host: str,
        port: int,
        credentials: Credentials,
        timeout_s: float = CONNECT_TIMEOUT,
        tls: ClientTlsSettings | None = None,
    ) -> Self:
        """Connect and log in; over TLS when ``tls`` says how.

        Raises `JmsError` in one line when there is no broker, its certificate does not hold, or it refuses;
        `ConfigurationError` for a trust or key store that cannot be used. Nothing of the login is sent before the
        certificate is verified.
        """
        context = None if tls is None else client_context(tls)
        try:
            channel = socket.create_connection((host, port), timeout_s)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise JmsError(f"no connection to {host}:{port}: {reason}; is the broker started?") from error
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            channel = _secured(channel, context, host, port)
        channel.setblocking(False)
        opened = cls(channel, credentials, host)
        try:
            opened._answer(opened._connection.login, timeout_s)
            opened.request(opened.session.announcement())
        except BaseException:
            channel.close()
            raise
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._channel.close()

    def close(self) -> None:
        """Say farewell, so that everything before is done, then close. Raises what the broker refused meanwhile."""
        try:
            self._answer(self._connection.request(self.session.farewell()), CLOSE_TIMEOUT)
            self._connection.send(wire.ShutdownInfo())
            self._flush()
        finally:
            self._channel.close()

    def producer(self, destination: Destination) -> Producer:
        """A producer that the broker knows."""
        producer = self.session.producer(destination)
        self.request(producer.announcement())
        return producer

    def consumer(
        self,
        destination: Destination,
        prefetch_size: int,
        selector: str | None = None,
        subscription_name: str | None = None,
        browser: bool = False,
    ) -> Consumer:
        """A consumer that the broker knows; its messages come from `receive`."""
        consumer = self.session.consumer(destination, prefetch_size)
        self.request(consumer.announcement(selector, subscription_name, browser))
        return consumer

    def request(self, command: wire.BaseCommand) -> None:
        """Send a command and wait until it is done. Raises the `JmsError` it was refused with."""
        self._answer(self._connection.request(command), None)

    def send(self, command: wire.BaseCommand, wait: bool = False) -> None:
        """Send a command; with ``wait`` until the broker has it done (a persistent message: synced)."""
        if wait:
            self.request(command)
            return
        self._connection.send(command)
        self._unsent += self._connection.data_to_send()
        if len(self._unsent) > MAX_UNSENT_BYTES:
            self._flush()

    def receive(self, timeout_s: float | None) -> wire.MessageDispatch | None:
        """The next dispatch; None when the time is over. One without a message ends a browse."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        dispatches = self._connection.dispatches
        while not dispatches:
            if self._connection.failure is not None:
                raise self._connection.failure
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._exchange(left)
        return dispatches.popleft()

    def wait(self, seconds: float) -> None:
        """Let time pass without falling silent."""
        end = time.monotonic() + seconds
        left = seconds
        while left > 0:
            self._exchange(left)
            left = end - time.monotonic()

    def _answer(self, number: int, timeout_s: float | None) -> None:
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._connection.take_answer(number):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise JmsError(f"the broker has not answered within {timeout_s:g} s")
            self._exchange(left)

    def _flush(self) -> None:
        self._unsent += self._connection.data_to_send()
        while self._unsent:
            self._exchange(None)

    def _exchange(self, timeout_s: float | None) -> None:
        """Write what waits, read what is there; comes back after something happened or the time is over."""
        if os.getpid() != self._process:
            raise JmsError("the connection belongs to the process that opened it; open one after the fork")
        timeout_s = self._until_due(timeout_s)
        self._unsent += self._connection.data_to_send()
        try:
            self._transfer(timeout_s)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise JmsError(f"the connection broke: {_told(error)}") from error
        except ProtocolError as error:
            raise JmsError(f"the other side does not speak OpenWire: {error}") from error

    def _until_due(self, timeout_s: float | None) -> float | None:
        """Keep the connection alive; the time to wait until that is to be done again."""
        now = time.monotonic()
        due = self._connection.next_timeout()
        if due is None:
            return timeout_s
        if due <= now:
            self._connection.handle_timeout(now)
            if self._connection.failure is not None:
                raise self._connection.failure
        left = max(0.0, due - now)
        return left if timeout_s is None else min(timeout_s, left)

    def _transfer(self, timeout_s: float | None) -> None:
        if self._decrypted():
            timeout_s = 0.0  # no system call tells of what the TLS engine holds
        readable, writable, _ = select.select([self._channel], [self._channel] if self._unsent else [], [], timeout_s)
        if writable:
            count = self._channel.send(self._unsent)
            del self._unsent[:count]
            self._connection.sent(time.monotonic())
        if readable or self._decrypted():
            data = self._channel.recv(READ_BYTES)
            if not data:
                raise JmsError("the broker closed the connection")
            self._connection.receive_data(data, time.monotonic())

    def _decrypted(self) -> bool:
        return isinstance(self._channel, ssl.SSLSocket) and self._channel.pending() > 0


def _secured(channel: socket.socket, context: ssl.SSLContext, host: str, port: int) -> socket.socket:
    """The socket after a handshake that verified the broker's certificate; closes it and raises `JmsError` else."""
    try:
        return context.wrap_socket(channel, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        channel.close()
        reason = error.verify_message.rstrip(".")
        advice = "name the certificate of its authority as trust store, or correct the host"
        raise JmsError(f"the certificate of {host}:{port} does not hold: {reason}; {advice}") from error
    except (OSError, ValueError) as error:
        channel.close()
        raise JmsError(f"no TLS with {host}:{port}: {_told(error)}; is that an ssl connector?") from error


def _told(error: Exception) -> str:
    """A broken connection in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def wall_ms() -> int:
    """Milliseconds since the epoch, for a message's timestamp."""
    return int(time.time() * 1000)
