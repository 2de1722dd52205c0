"""The transport without sockets (ActiveMQ's ``vm``): a client and the broker in one process, bytes handed over.

    client's thread    VmClient.write → Lane → SocketPump.data_received         broker's loop
                       feed.received, VmClient.taken ← VmTransport.write

The broker's end is an asyncio transport, so the pump, the protocol's connection, its rights and its limits are those of
a socket. What a client writes gathers in a `Lane` and crosses to the broker's loop in one batch. In each direction
`VM_BUFFER_BYTES` stand for what a socket's buffers in the kernel would have taken: above them bytes for the client that
it has not processed count as unsent, and a client that writes more has to wait.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from typing import Final, Protocol

from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError
from spanwire.model.units import KIB
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectionFactory, EventLoop, StreamTransport
from spanwire.transports.loop.pump import SocketPump
from spanwire.transports.loop.turn import Turn

logger = logging.getLogger(__name__)

VM_BUFFER_BYTES: Final = 256 * KIB  # of one direction; a socket on the loopback has about as much in each buffer
VM_HOST: Final = "127.0.0.1"  # by which `Admission` counts these connections: this machine's own
CONNECTOR_NAME: Final = "vm"
REFUSED: Final = "the broker refused the connection; its log says why"
NOT_RUNNING: Final = "the broker does not run"
STOPPED: Final = "the broker has stopped"

Action = Callable[[], object]


class Feed(Protocol):
    """What a client hears (`spanwire.client.ports.InProcessFeed`), in the broker's thread; it neither blocks nor
    raises.
    """

    def received(self, data: bytes) -> None:
        """Bytes from the broker."""
        ...

    def writable(self) -> None:
        """There is room again, after a write that found none."""
        ...

    def closed(self, reason: str | None) -> None:
        """The connection is over."""
        ...


class PostingLoop(EventLoop, Protocol):
    """The part of an asyncio loop that this transport uses."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        """As `call_soon`, from any thread; raises `RuntimeError` when the loop has ended."""
        ...


class Lane:
    """Bytes on their way from a client's thread to the broker's loop, which is woken once per batch."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._chunks: list[bytes] = []
        self._size = 0
        self._signalled = False
        self._full = False
        self._ended = False

    def put(self, data: bytes) -> tuple[bool, bool]:
        """Add bytes: whether the broker must be woken, and whether there is room for more. Nothing is added after the
        end.
        """
        with self._lock:
            if self._ended:
                return False, True
            self._chunks.append(data)
            self._size += len(data)
            if self._size >= VM_BUFFER_BYTES:
                self._full = True
            return self._signal(), not self._full

    def end(self) -> bool:
        """Nothing more comes; whether the broker must be woken."""
        with self._lock:
            self._ended = True
            return self._signal()

    def take(self) -> tuple[bytes, bool, bool]:
        """Everything that gathered; whether that was the end; whether the client was told that there is no room.

        All three of one moment: whoever puts or ends after it wakes the broker again.
        """
        with self._lock:
            data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._chunks = []
            self._size = 0
            self._signalled = False
            was_full, self._full = self._full, False
            return data, self._ended, was_full

    def _signal(self) -> bool:
        first = not self._signalled
        self._signalled = True
        return first


class UnprocessedBytes:
    """How many bytes a client has received and not processed yet."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._bytes = 0
        self._watched = False

    def add(self, count: int) -> None:
        """The client received bytes."""
        with self._lock:
            self._bytes += count

    def remove(self, count: int) -> bool:
        """The client processed bytes; True when the broker waits to hear that."""
        with self._lock:
            self._bytes = max(0, self._bytes - count)
            if not self._watched or self._bytes >= VM_BUFFER_BYTES:
                return False
            self._watched = False
            return True

    def unsent(self) -> int:
        """Bytes that a socket's buffers would not have taken. If there are any, a later `remove` says when not."""
        with self._lock:
            if self._bytes < VM_BUFFER_BYTES:
                return 0
            self._watched = True
            return self._bytes - VM_BUFFER_BYTES + 1


class VmTransport(asyncio.Transport):
    """The broker's end, as the pump uses it. Only `on_data_available` and `taken` may be called in other threads."""

    def __init__(self, loop: PostingLoop, lane: Lane, feed: Feed, number: int) -> None:
        super().__init__({"peername": (CONNECTOR_NAME, number)})
        self._loop: Final = loop
        self._thread: Final = threading.get_ident()
        self._lane: Final = lane
        self._feed: Final = feed
        self._unprocessed: Final = UnprocessedBytes()
        self._pump: SocketPump | None = None
        self._reading = True
        self._closing = False

    def connect(self, pump: SocketPump) -> None:
        """Begin, with what the client wrote already."""
        self._pump = pump
        pump.connection_made(self)
        if not self._closing:
            self._loop.call_soon(self._deliver)

    # What clients call, from their threads; raises `RuntimeError` when the broker's loop has ended

    def on_data_available(self) -> None:
        """There is something in the lane."""
        self._call(self._deliver)

    def taken(self, count: int) -> None:
        """The client processed bytes."""
        if self._unprocessed.remove(count):
            self._call(self._drained)

    def _call(self, action: Action) -> None:
        if threading.get_ident() == self._thread:
            self._loop.call_soon(action)
        else:
            self._loop.call_soon_threadsafe(action)

    # asyncio.Transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hand bytes to the client."""
        if not self._closing:
            self._unprocessed.add(len(data))
            self._feed.received(bytes(data))

    def get_write_buffer_size(self) -> int:
        """What the client leaves unprocessed, above what a socket's own buffers would have taken."""
        return self._unprocessed.unsent()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """`SocketPump.resume_writing` always comes when nothing is unsent any more."""

    def pause_reading(self) -> None:
        """Leave in the lane what the client writes."""
        self._reading = False

    def resume_reading(self) -> None:
        """Take from the lane again."""
        self._reading = True
        self._loop.call_soon(self._deliver)

    def is_closing(self) -> bool:
        """Whether the connection is over."""
        return self._closing

    def can_write_eof(self) -> bool:
        """Return False: what the broker wrote is with the client at once, and nothing can be lost behind it."""
        return False

    def close(self) -> None:
        """End the connection. The client has received everything by now, so there is nothing to wait for."""
        self._end(None)

    def abort(self) -> None:
        """The same; nothing can be taken back."""
        self._end(None)

    def refuse(self) -> None:
        """End a connection that was none."""
        self._end(REFUSED)

    # In the broker's loop

    def _deliver(self) -> None:
        pump = self._pump
        if pump is None or self._closing or not self._reading:
            return
        data, ended, was_full = self._lane.take()
        if was_full:
            self._feed.writable()
        if data:
            pump.data_received(data)
        if ended and not self._closing:
            pump.eof_received()

    def _drained(self) -> None:
        if self._pump is not None and not self._closing:
            self._pump.resume_writing()

    def _end(self, reason: str | None) -> None:
        if self._closing:
            return
        self._closing = True
        self._lane.end()
        self._lane.take()
        self._feed.closed(reason)
        self._loop.call_soon(self._report_loss)

    def _report_loss(self) -> None:
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.connection_lost(None)


class VmConnector:
    """Takes connections from this process. `start` and `stop` as a `TransportConnector`; ``on_empty`` hears when the
    last connection is gone.
    """

    def __init__(self, broker_name: str, admission: Admission) -> None:
        self.connection_count = 0
        self.on_empty: Action | None = None
        self.uri: Final = f"vm://{broker_name}"
        self._admission: Final = admission
        self._factory: ConnectionFactory | None = None
        self._turn: Turn | None = None
        self._loop: PostingLoop | None = None
        self._number = 0

    def start(self, factory: ConnectionFactory, turn: Turn, loop: PostingLoop | None = None) -> None:
        """Take connections, made by ``factory`` and flushed by ``turn``, in the thread of ``loop``, else of the running
        one.
        """
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._factory = factory
        self._turn = turn

    def stop(self) -> None:
        """Take no more; what is connected stays."""
        self._factory = None

    def connect(self, lane: Lane, feed: Feed) -> VmTransport | None:
        """The broker's end of a new connection, in the broker's loop; None, and ``feed`` knows why, if there can be
        none.
        """
        loop, turn = self._loop, self._turn
        if loop is None or turn is None or self._factory is None:
            feed.closed(NOT_RUNNING)
            return None
        self._number += 1
        transport = VmTransport(loop, lane, feed, self._number)
        transport.connect(SocketPump(turn, self))
        return None if transport.is_closing() else transport

    # The pump's Acceptor

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        """The connection for a new client; None, with a log line, over a limit."""
        factory = self._factory
        reason = NOT_RUNNING if factory is None else self._admission.enter(VM_HOST)
        if factory is None or reason is not None:
            logger.warning("a connection to %s is refused: %s", self.uri, reason)
            _refuse(transport)
            return None
        self.connection_count += 1
        settings = ConnectionSettings(
            remote_address=f"{self.uri}#{self._number}",
            local_uri=self.uri,
            connector_name=CONNECTOR_NAME,
            max_inactivity_ms=0,  # neither end of a process can vanish without the other
        )
        try:
            return factory(settings, now)
        except Exception:
            logger.exception("a connection to %s is refused: unexpected error", self.uri)
            self.release(transport)
            _refuse(transport)
            return None

    def release(self, transport: StreamTransport) -> None:
        """A connection is closed."""
        self.connection_count -= 1
        self._admission.leave(VM_HOST)
        if self.connection_count == 0 and self.on_empty is not None:
            self.on_empty()


def _refuse(transport: StreamTransport) -> None:
    if isinstance(transport, VmTransport):
        transport.refuse()


class VmClient:
    """The client's end (`spanwire.client.ports.InProcessTransport`), of any thread. What is written before the broker
    has begun waits in the lane. After a fork every call but `close` raises `IllegalStateError`.

    ``begin`` is called once, by `start`: it sees to it that `attach` or the feed's ``closed`` follows, in whatever
    thread.
    """

    def __init__(self, address: str, begin: Callable[[VmClient], None]) -> None:
        self.address: Final = address
        self.lane: Final = Lane()
        self._begin: Final = begin
        self._process: Final = os.getpid()
        self._feed: Feed | None = None
        self._transport: VmTransport | None = None
        self._over = False
        self._lock: Final = threading.Lock()

    def start(self, feed: Feed) -> None:
        """Begin."""
        self._check()
        assert self._feed is None
        self._feed = feed
        self._begin(self)

    def attach(self, connector: VmConnector) -> None:
        """The broker is there: called in its loop."""
        self._transport = connector.connect(self.lane, self)

    def write(self, data: bytes) -> bool:
        """Hand bytes to the broker; False when it does not keep up. What is written after the end is dropped."""
        self._check()
        wake, has_room = self.lane.put(data)
        if wake:
            self._signal_data()
        return has_room

    def taken(self, count: int) -> None:
        """The client has processed ``count`` bytes."""
        self._check()
        transport = self._transport
        if transport is None:
            return
        try:
            transport.taken(count)
        except RuntimeError:  # the broker's loop has ended
            self.closed(STOPPED)

    def close(self) -> None:
        """The broker takes what was written, then the connection is over; the feed hears nothing more."""
        if self._process != os.getpid():
            return
        self._over = True
        if self.lane.end():
            self._signal_data()

    # The feed, with the promise that `closed` comes once and nothing after it

    def received(self, data: bytes) -> None:
        """Bytes from the broker."""
        if self._feed is not None and not self._over:
            self._feed.received(data)

    def writable(self) -> None:
        """The broker keeps up again."""
        if self._feed is not None and not self._over:
            self._feed.writable()

    def closed(self, reason: str | None) -> None:
        """The connection is over."""
        with self._lock:
            was_over, self._over = self._over, True
        if self._feed is not None and not was_over:
            self._feed.closed(None if reason is None else f"{self.address}: {reason}")

    def _signal_data(self) -> None:
        transport = self._transport
        if transport is None:
            return
        try:
            transport.on_data_available()
        except RuntimeError:  # the broker's loop has ended
            self.closed(STOPPED)

    def _check(self) -> None:
        if self._process != os.getpid():
            raise IllegalStateError(f"{self.address}: the connection belongs to process {self._process}; connect anew")
