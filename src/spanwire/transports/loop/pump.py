"""Moves bytes between one socket and one protocol connection. Only here a connection meets asyncio.

Bytes go into `receive_data` as they arrive, in chunks small enough to keep a turn short. Nothing is written there: the
end of the turn (`spanwire.transports.loop.turn`) calls `flush` once for all connections with output.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from typing import Final, Protocol

from spanwire.model.environment import Time
from spanwire.protocols.base import ProtocolConnection
from spanwire.transports.base import (
    CALLBACK_BUDGET,
    CLOSE_LINGER,
    DIRECT_WRITE_BYTES,
    END_LINGER,
    MAX_BYTES_PER_CALLBACK,
    MIN_TIMER,
    SWEEP_INTERVAL,
    Carrier,
    StreamTransport,
)
from spanwire.transports.loop.turn import Turn

logger = logging.getLogger(__name__)

UNEXPECTED: Final = "connection of %s closed: unexpected error"


class Acceptor(Protocol):
    """The owner of the listening socket (`spanwire.transports.connector.TransportConnector`)."""

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        """Return the connection for a new socket; None if the socket must be closed."""
        ...

    def release(self, transport: StreamTransport) -> None:
        """Release the place of a closed socket after `accept` returned a connection."""
        ...


class SocketPump:
    """The pump of one accepted socket, with the shape of `asyncio.Protocol`.

    A compiled class cannot inherit from `asyncio.Protocol`. An unexpected error closes this socket and is logged once;
    other sockets are not affected.
    """

    def __init__(self, turn: Turn, acceptor: Acceptor) -> None:
        self.touched = False
        self._turn: Final = turn
        self._acceptor: Final = acceptor
        self._transport: StreamTransport | None = None
        self._connection: ProtocolConnection | None = None
        self._carrier: Carrier | None = None
        self._attached: object = None
        self._unprocessed: Final[deque[memoryview]] = deque()
        self._pending_bytes = 0
        self._reading = True
        self._is_throttled = False
        self._input_stopped = False  # all further input is dropped
        self._peer_ended = False  # the peer has ended its output
        self._is_scheduled = False  # the loop is about to call `_process_next`
        self._closing = False
        self._armed = False

    def connection_made(self, transport: StreamTransport) -> None:
        """Get a connection for the new socket from the acceptor."""
        now = self._turn.clock.now()
        connection = self._acceptor.accept(transport, now)
        if connection is None:
            transport.abort()
            return
        # With a high-water mark of 0 asyncio calls `resume_writing` as soon as the kernel has taken all bytes.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._connection = connection
        if isinstance(connection, Carrier):
            self._carrier = connection
        self._attach(connection if self._carrier is None else self._carrier.carried)
        self._turn.touch(self)

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the connection, or queue them behind earlier bytes."""
        if self._connection is None or self._closing or self._input_stopped:
            return
        if self._unprocessed or self._connection.holds_requests or len(data) > MAX_BYTES_PER_CALLBACK:
            view = memoryview(data)
            for start in range(0, len(data), MAX_BYTES_PER_CALLBACK):
                self._unprocessed.append(view[start : start + MAX_BYTES_PER_CALLBACK])
            if not self._is_scheduled:
                self._process_next()
        else:
            self._act(data, self._turn.clock.now())

    def note_activity(self) -> None:
        """Restart the connection's inactivity timer by passing no bytes."""
        if self._connection is not None and not self._closing:
            self._connection.receive_data(b"", self._turn.clock.now())

    def eof_received(self) -> bool:
        """Process the remaining input, if need be in later turns, answer, and close."""
        self._peer_ended = True
        if self._carrier is not None:
            self._carrier.note_peer_end()
        if not self._is_scheduled:
            self._process_next()
        return not self._closing

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection, because the socket is closed."""
        self._closing = True
        self._unprocessed.clear()
        connection, transport = self._connection, self._transport
        if connection is None or transport is None:
            return
        self._disconnect(self._turn.clock.now())
        self._turn.detach(self._attached)
        self._acceptor.release(transport)
        self._connection = None

    def pause_writing(self) -> None:
        """Do nothing: `flush` reports unsent bytes."""

    def resume_writing(self) -> None:
        """Flush again, because the kernel took all bytes."""
        if self._connection is not None:
            self._turn.touch(self)

    def flush(self, now: Time) -> None:
        """Write the connection's output, report the bytes that the kernel left, and start or stop reading."""
        connection, transport = self._connection, self._transport
        if connection is None or transport is None or self._closing:
            return
        try:
            chunks = connection.data_to_send()
            if chunks:
                _write(transport, chunks)
            connection.unsent(transport.get_write_buffer_size())
            if connection.closed:
                self.close(now)
                return
            self._update_reading(connection, transport)
        except Exception:
            logger.exception(UNEXPECTED, self._peer())
            self._drop(now)

    def sweep(self, now: Time) -> None:
        """Call the connection's timer if it is due."""
        connection = self._connection
        if connection is None or self._closing:
            return
        try:
            if self._is_throttled or self._input_stopped:
                connection.receive_data(b"", now)
            due = connection.next_timeout()
            if due is not None and due <= now.monotonic:
                connection.handle_timeout(now)
                due = connection.next_timeout()
                self._turn.touch(self)
            elif not self._reading:
                self._turn.touch(self)
            if due is not None and not self._armed and due < now.monotonic + SWEEP_INTERVAL:
                self._armed = True
                self._turn.loop.call_later(max(MIN_TIMER, due - now.monotonic), self._on_timer)
        except Exception:
            logger.exception(UNEXPECTED, self._peer())
            self._drop(now)

    def _on_timer(self) -> None:
        """Sweep for a timer due before the next sweep, such as a short heart-beat."""
        self._armed = False
        self.sweep(self._turn.clock.now())

    def wants_read(self) -> bool:
        """Return True if the connection accepts bytes now."""
        return self._connection is not None and not self._closing and self._connection.wants_read

    def set_throttled(self, is_throttled: bool) -> None:
        """Stop reading while ``is_throttled``."""
        self._is_throttled = is_throttled
        self._turn.touch(self)

    def stop_reading(self) -> None:
        """Drop all further input of the peer, even bytes that have arrived; output is still written."""
        self._input_stopped = True
        self._unprocessed.clear()
        self._turn.touch(self)

    def close(self, now: Time) -> None:
        """Write the remaining output and close; bytes still unwritten after `CLOSE_LINGER` are dropped."""
        connection, transport = self._connection, self._transport
        if connection is None or transport is None or self._closing:
            return
        try:
            _write(transport, connection.data_to_send())
        except Exception:
            logger.exception(UNEXPECTED, self._peer())
        self._closing = True
        self._unprocessed.clear()
        self._disconnect(now)
        if self._input_stopped and transport.can_write_eof():
            self._linger(transport)
            return
        transport.close()
        self._turn.loop.call_later(CLOSE_LINGER, transport.abort)

    def _linger(self, transport: StreamTransport) -> None:
        """End the output and close after the peer has read the rest.

        Input is read and dropped meanwhile. Closing a socket with unread bytes resets the connection, and the peer may
        lose answers under way.
        """
        with suppress(OSError):  # the peer has reset the connection; asyncio calls `connection_lost` next
            transport.write_eof()
        if not self._reading:
            self._reading = True
            transport.resume_reading()
        self._turn.loop.call_later(END_LINGER, transport.close)
        self._turn.loop.call_later(CLOSE_LINGER, transport.abort)

    def give_up(self, reason: str, now: Time) -> None:
        """Close at once and log ``reason``."""
        if self._transport is None or self._closing:
            return
        logger.warning("connection of %s closed: %s", self._peer(), reason)
        self._drop(now)

    def _act(self, data: bytes | None, now: Time) -> None:
        """Pass ``data`` to the connection, or with None let the connection act on held requests."""
        connection = self._connection
        assert connection is not None
        try:
            if data is None:
                connection.go_on(now)
            else:
                connection.receive_data(data, now)
            if self._carrier is not None and self._carrier.carried is not self._attached:
                self._attach(self._carrier.carried)
            self._count_pending(connection.pending_bytes, now)
        except Exception:
            logger.exception(UNEXPECTED, self._peer())
            self._drop(now)
        self._turn.touch(self)

    def _count_pending(self, pending_bytes: int, now: Time) -> None:
        if pending_bytes != self._pending_bytes:
            self._pending_bytes = pending_bytes
            self._turn.update_pending(self._attached, pending_bytes, now)

    def _attach(self, connection: object) -> None:
        """Register as the socket of ``connection``, because the broker marks connections with output."""
        if self._attached is not None:
            self._turn.detach(self._attached)
            self._pending_bytes = 0
        self._attached = connection
        self._turn.attach(connection, self)

    def _process_next(self) -> None:
        """Process held requests and queued bytes for `CALLBACK_BUDGET`; the rest follows in the next turn."""
        self._is_scheduled = False
        connection = self._connection
        now = self._turn.clock.now()
        end = now.monotonic + CALLBACK_BUDGET
        is_first = True
        while connection is not None and not self._closing and not self._input_stopped:
            if connection.holds_requests:
                if not is_first:
                    break
                self._act(None, now)
            elif self._unprocessed and (is_first or self._may_read(connection)):
                self._act(bytes(self._unprocessed.popleft()), now)
            else:
                break
            is_first = False
            now = self._turn.clock.now()
            if now.monotonic >= end:
                break
        if connection is not None and self._peer_ended and not self._closing:
            if self._input_stopped or not (self._unprocessed or connection.holds_requests):
                self.flush(now)
                self.close(now)

    def _may_read(self, connection: ProtocolConnection) -> bool:
        return self._peer_ended or (connection.wants_read and not self._is_throttled)

    def _update_reading(self, connection: ProtocolConnection, transport: StreamTransport) -> None:
        may_read = self._may_read(connection) and not self._input_stopped
        has_requests = connection.holds_requests and not self._input_stopped
        if (has_requests or (self._unprocessed and may_read)) and not self._is_scheduled:
            if not self._turn.awaits_login(self._attached):
                self._is_scheduled = True
                self._turn.loop.call_soon(self._process_next)
        reading = may_read and not self._unprocessed and not has_requests and not self._peer_ended
        if reading != self._reading:
            self._reading = reading
            if reading:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _disconnect(self, now: Time) -> None:
        """Let the connection release its resources in the broker. May be called twice."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.receive_eof(now)
        except Exception:
            logger.exception("a closed connection could not be removed")
        self._turn.wake()

    def _drop(self, now: Time) -> None:
        """Close and drop the remaining output."""
        transport = self._transport
        assert transport is not None
        self._closing = True
        self._unprocessed.clear()
        self._disconnect(now)
        transport.abort()

    def _peer(self) -> str:
        return "unknown" if self._transport is None else peer_name(self._transport)


def peer_name(transport: StreamTransport) -> str:
    """Return ``host:port`` of the peer."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple) or len(peer) < 2:
        return "unknown"
    host, port = str(peer[0]), peer[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _write(transport: StreamTransport, chunks: list[bytes]) -> None:
    """Join small chunks into one write; write large chunks without a copy."""
    if len(chunks) == 1:
        transport.write(chunks[0])
        return
    largest = 0
    for chunk in chunks:
        largest = max(largest, len(chunk))
    if 0 < largest < DIRECT_WRITE_BYTES:
        transport.write(b"".join(chunks))
        return
    small: list[bytes] = []
    for chunk in chunks:
        if len(chunk) < DIRECT_WRITE_BYTES:
            small.append(chunk)
            continue
        if small:
            transport.write(b"".join(small))
            small = []
        transport.write(chunk)
    if small:
        transport.write(b"".join(small))
