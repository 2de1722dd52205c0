"""TCP proxy of the loopback; a test can cut, slow down, clog and mend the connections.

with Wire(lambda: broker.port) as wire:
    connection = blocking.connect(f"failover:({wire.url})")
    wire.cut()          # breaks all connections and accepts no new ones
    wire.mend()         # ends cut, slow and clog
    wire.slow(0.2)      # delays each byte by 0.2 s, in both directions
    wire.clog()         # holds up all bytes; connections stay open
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from spanwire.model.errors import SpanwireError

LOOPBACK: Final = "127.0.0.1"
CHUNK: Final = 64 * 1024  # bytes of one read
MAX_PENDING_BYTES: Final = 1024 * 1024  # bytes on their way in one direction; then the sender waits
MAX_CONNECTIONS: Final = 1_000
CONNECT_TIMEOUT: Final = 5.0  # seconds; a broker of the same machine accepts at once
LINGER_NOT: Final = struct.pack("ii", 1, 0)
END_TIMEOUT: Final = 10.0  # seconds until the thread has ended


class _End:
    """One socket of a pair, and the bytes to be sent there."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel: Final = channel
        self.other: _End | None = None
        self.pending: Final[deque[tuple[float, bytes]]] = deque()
        self.pending_bytes = 0
        self.is_shut = False  # its peer has sent the last byte

    def put(self, due: float, data: bytes) -> None:
        self.pending.append((due, data))
        self.pending_bytes += len(data)


class Wire:
    """A proxy to one port: `start` and `stop`, or a ``with`` block.

    ``port_of`` returns the broker's port for each connection.
    """

    def __init__(self, port_of: Callable[[], int]) -> None:
        self._port_of: Final = port_of
        self._server: Final = socket.create_server((LOOPBACK, 0))
        self._server.setblocking(False)
        self.port: Final = int(self._server.getsockname()[1])
        self._bell, self._ear = socket.socketpair()
        self._ear.setblocking(False)
        self._lock: Final = threading.Lock()
        self._selector: Final = selectors.DefaultSelector()
        self._ends: Final[set[_End]] = set()
        self._delay = 0.0
        self._is_cut = False
        self._is_clogged = False
        self._breaks = False
        self._is_over = False
        self._broken: Final = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """URL for clients, in place of the broker's URL."""
        return f"tcp://{LOOPBACK}:{self.port}"

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._ends) // 2

    def start(self) -> None:
        """Accept connections. May be called twice."""
        if self._thread is None:
            self._selector.register(self._server, selectors.EVENT_READ)
            self._selector.register(self._ear, selectors.EVENT_READ)
            self._thread = threading.Thread(target=self._run, name=f"spanwire-wire-{self.port}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Break all connections and release the port. May be called twice."""
        self._is_over = True
        self._wake()
        if self._thread is not None:
            self._thread.join(END_TIMEOUT)

    def cut(self) -> None:
        """Break all connections before the return, and accept none until `mend`."""
        self._is_cut = True
        self.drop()

    def drop(self) -> None:
        """Break all connections before the return, and accept new connections."""
        self._broken.clear()
        self._breaks = True
        self._wake()
        if self._thread is not None and not self._is_over:
            self._broken.wait(END_TIMEOUT)

    def clog(self) -> None:
        """Hold up all bytes in both directions until `mend`; connections stay open."""
        self._is_clogged = True
        self._wake()

    def slow(self, seconds: float) -> None:
        """Delay each byte by ``seconds``, in both directions; 0 ends the delay."""
        self._delay = max(0.0, seconds)

    def mend(self) -> None:
        """End `cut`, `slow` and `clog`; bytes held up continue."""
        self._is_cut = self._is_clogged = False
        self._delay = 0.0
        self._wake()

    def _wake(self) -> None:
        try:
            self._bell.send(b"\0")
        except OSError:
            pass  # the thread has ended

    def _run(self) -> None:
        try:
            while not self._is_over:
                for key, _ in self._selector.select(self._select_timeout()):
                    self._on_readable(key.fileobj, key.data)
                if self._breaks:
                    self._breaks = False
                    self._break_all()
                    self._broken.set()
                self._move()
        finally:
            self._break_all()
            self._selector.close()
            for channel in (self._server, self._ear, self._bell):
                channel.close()
            self._broken.set()

    def _on_readable(self, source: object, end: _End | None) -> None:
        if source is self._server:
            self._accept()
        elif source is self._ear:
            self._ear.recv(CHUNK)
        elif end is not None and end in self._ends:
            self._read(end)

    def _select_timeout(self) -> float | None:
        if self._is_clogged:
            return None
        due = min((end.pending[0][0] for end in self._ends if end.pending), default=None)
        return None if due is None else max(0.0, due - time.monotonic())

    def _accept(self) -> None:
        try:
            channel, _ = self._server.accept()
        except OSError:
            return
        if self._is_cut or len(self._ends) >= 2 * MAX_CONNECTIONS:
            _reset(channel)
            return
        try:
            broker = socket.create_connection((LOOPBACK, self._port_of()), CONNECT_TIMEOUT)
        except (OSError, SpanwireError):  # no broker: the client sees a refused connection
            _reset(channel)
            return
        client_end, broker_end = _End(channel), _End(broker)
        client_end.other, broker_end.other = broker_end, client_end
        for end in (client_end, broker_end):
            end.channel.setblocking(False)
            end.channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends.add(end)
            self._selector.register(end.channel, selectors.EVENT_READ, end)

    def _read(self, end: _End) -> None:
        other = end.other
        assert other is not None
        try:
            data = end.channel.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._break(end)
            return
        other.put(time.monotonic() + self._delay, data)
        if not data or other.pending_bytes >= MAX_PENDING_BYTES:
            self._selector.unregister(end.channel)
            end.is_shut = end.is_shut or not data

    def _move(self) -> None:
        """Pass on the due bytes."""
        if self._is_clogged:
            return
        now = time.monotonic()
        for end in list(self._ends):
            while end in self._ends and end.pending and end.pending[0][0] <= now:
                if not self._pass(end):
                    break

    def _pass(self, end: _End) -> bool:
        data = end.pending.popleft()[1]
        other = end.other
        assert other is not None
        end.pending_bytes -= len(data)
        if not data:
            self._break(end)
            return False
        try:
            count = end.channel.send(data)
        except BlockingIOError:
            count = 0
        except OSError:
            self._break(end)
            return False
        if count < len(data):  # full: again in a moment
            end.pending.appendleft((time.monotonic() + 0.001, data[count:]))
            end.pending_bytes += len(data) - count
            return False
        if (
            end.pending_bytes < MAX_PENDING_BYTES
            and not other.is_shut
            and other.channel.fileno() not in self._selector.get_map()
        ):
            self._selector.register(other.channel, selectors.EVENT_READ, other)
        return True

    def _break_all(self) -> None:
        for end in list(self._ends):
            self._break(end)

    def _break(self, end: _End) -> None:
        other = end.other
        assert other is not None
        is_orderly = end.is_shut or other.is_shut
        for each in (end, other):
            if each in self._ends:
                self._ends.discard(each)
                if each.channel.fileno() in self._selector.get_map():
                    self._selector.unregister(each.channel)
                if is_orderly:
                    each.channel.close()
                else:
                    _reset(each.channel)


def _reset(channel: socket.socket) -> None:
    """Close with a reset, so that the peer sees an error at once."""
    try:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
    except OSError:
        pass
    channel.close()
