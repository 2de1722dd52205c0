"""Moves bytes between one socket and one protocol connection; the only place where a connection meets asyncio.

Bytes go into `receive_data` as they arrive, in pieces that keep a turn short. Nothing is written there: the end of the
turn (`spanwire.transports.loop.turn`) calls `flush` once for everything that became ready meanwhile.
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
    """The connector that owns the listening socket (`spanwire.transports.connector.TransportConnector`)."""

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        """The connection for a new socket; None when the socket must be closed."""
        ...

    def release(self, transport: StreamTransport) -> None:
        """A socket for which `accept` gave a connection is closed."""
        ...


class SocketPump:
    """One accepted socket, by its shape an `asyncio.Protocol`: compiled, it cannot inherit from one.

    An unexpected error closes this socket and is logged once; no other one notices.
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
        self._input_stopped = False  # nothing is taken any more
        self._peer_ended = False  # the peer has said that nothing follows
        self._is_scheduled = False  # `_process_next` is about to be called
        self._closing = False
        self._armed = False

    def connection_made(self, transport: StreamTransport) -> None:
        """A client connected."""
        now = self._turn.clock.now()
        connection = self._acceptor.accept(transport, now)
        if connection is None:
            transport.abort()
            return
        # With a high-water mark of 0 `resume_writing` says when the kernel has taken everything.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._connection = connection
        if isinstance(connection, Carrier):
            self._carrier = connection
        self._attach(connection if self._carrier is None else self._carrier.carried)
        self._turn.touch(self)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
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
        """As if bytes had arrived, without any."""
        if self._connection is not None and not self._closing:
            self._connection.receive_data(b"", self._turn.clock.now())

    def eof_received(self) -> bool:
        """The client writes no more: take what it wrote, in later turns what takes long, answer, close."""
        self._peer_ended = True
        if not self._is_scheduled:
            self._process_next()
        return not self._closing

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
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
        """The kernel did not take all that was written; `flush` reports how much that is."""

    def resume_writing(self) -> None:
        """The kernel took all that was written."""
        if self._connection is not None:
            self._turn.touch(self)

    def flush(self, now: Time) -> None:
        """Write what the connection has to send, report what the kernel left, and follow its wish to read."""
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
        """A timer that could not wait for the next sweep, such as a short heart-beat."""
        self._armed = False
        self.sweep(self._turn.clock.now())

    def wants_read(self) -> bool:
        """Whether the connection would take bytes now."""
        return self._connection is not None and not self._closing and self._connection.wants_read

    def set_throttled(self, is_throttled: bool) -> None:
        """Do not read, until told otherwise."""
        self._is_throttled = is_throttled
        self._turn.touch(self)

    def stop_reading(self) -> None:
        """Take nothing from the peer any more, not even what has arrived; what it gets is written as ever."""
        self._input_stopped = True
        self._unprocessed.clear()
        self._turn.touch(self)

    def close(self, now: Time) -> None:
        """Write what is left and close; whatever is unwritten after `CLOSE_LINGER` is dropped."""
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
        """Let the peer read to the end and close. What it sends meanwhile is read and dropped: a socket that is closed
        with bytes unread resets the connection, and the peer may lose the answers that are on their way to it.
        """
        with suppress(OSError):  # the peer has reset the connection, and its loss is about to be told
            transport.write_eof()
        if not self._reading:
            self._reading = True
            transport.resume_reading()
        self._turn.loop.call_later(END_LINGER, transport.close)
        self._turn.loop.call_later(CLOSE_LINGER, transport.abort)

    def give_up(self, reason: str, now: Time) -> None:
        """Close at once; ``reason`` goes to the log."""
        if self._transport is None or self._closing:
            return
        logger.warning("connection of %s closed: %s", self._peer(), reason)
        self._drop(now)

    def _act(self, data: bytes | None, now: Time) -> None:
        """Hand ``data`` to the connection; without any let it go on with what it holds."""
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
        """Be known as the socket of ``connection``: the broker marks that one when it has something to send."""
        if self._attached is not None:
            self._turn.detach(self._attached)
            self._pending_bytes = 0
        self._attached = connection
        self._turn.attach(connection, self)

    def _process_next(self) -> None:
        """Let the connection go on with what it holds, and feed held pieces for `CALLBACK_BUDGET`; the rest follows in
        the next turn, so that the others get theirs.
        """
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
        """Let the connection free what it holds in the broker. It may be told twice."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.receive_eof(now)
        except Exception:
            logger.exception("a closed connection could not be removed")
        self._turn.wake()

    def _drop(self, now: Time) -> None:
        """Close without writing what is left."""
        transport = self._transport
        assert transport is not None
        self._closing = True
        self._unprocessed.clear()
        self._disconnect(now)
        transport.abort()

    def _peer(self) -> str:
        return "unknown" if self._transport is None else peer_name(self._transport)


def peer_name(transport: StreamTransport) -> str:
    """``host:port`` of the other end."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple) or len(peer) < 2:
        return "unknown"
    host, port = str(peer[0]), peer[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _write(transport: StreamTransport, chunks: list[bytes]) -> None:
    """Join small chunks into one write, write big ones as they are."""
    if len(chunks) == 1:
        transport.write(chunks[0])
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
