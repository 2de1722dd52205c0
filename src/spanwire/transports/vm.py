"""The transport without sockets (ActiveMQ's ``vm``): client and broker in one process exchange bytes.

    client's thread    VmClient.write → Lane → SocketPump.data_received         broker's loop
                       feed.received, VmClient.taken ← VmTransport.write

The broker's end is an asyncio transport. So the pump, the protocol's connection, the rights and the limits are those of
a socket. A client's writes gather in a `Lane` and cross to the broker's loop in one batch. In each direction
`VM_BUFFER_BYTES` replace the buffers of a socket in the kernel. Bytes for the client above this number count as unsent
until the client has processed them, and a client that writes more has to wait.
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
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectionFactory, EventLoop, StreamTransport
from spanwire.transports.loop.pump import SocketPump
from spanwire.transports.loop.turn import Turn

logger = logging.getLogger(__name__)

VM_BUFFER_BYTES: Final = 256 * 1024  # of one direction; a loopback socket has buffers of about this size
VM_HOST: Final = "127.0.0.1"  # the host under which `Admission` counts these connections
CONNECTOR_NAME: Final = "vm"
REFUSED: Final = "the broker refused the connection; its log says why"
NOT_RUNNING: Final = "the broker does not run"
STOPPED: Final = "the broker has stopped"

Action = Callable[[], object]


class Feed(Protocol):
    """The client's receiver of bytes (`spanwire.client.protocol.transport.in_process.InProcessFeed`).

    Called in the broker's thread; never blocks or raises.
    """

    def received(self, data: bytes) -> None:
        """Receive bytes from the broker."""
        ...

    def writable(self) -> None:
        """Continue writing after a write without room."""
        ...

    def closed(self, reason: str | None) -> None:
        """Handle the end of the connection."""
        ...


class PostingLoop(EventLoop, Protocol):
    """The part of an asyncio loop used by this transport."""

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object:
        """Call ``callback`` soon; may be called in any thread. Raises `RuntimeError` if the loop has ended."""
        ...


class Lane:
    """Bytes on their way from a client's thread to the broker's loop. Each batch wakes the broker once."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._chunks: list[bytes] = []
        self._size = 0
        self._signalled = False
        self._full = False
        self._ended = False

    def put(self, data: bytes) -> tuple[bool, bool]:
        """Add bytes, unless the lane has ended.

        Returns:
            True if the broker must be woken, and True if there is room for more.
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
        """End the lane. Returns True if the broker must be woken."""
        with self._lock:
            self._ended = True
            return self._signal()

    def take(self) -> tuple[bytes, bool, bool]:
        """Take all bytes.

        All results belong to one moment: a later `put` or `end` wakes the broker again.

        Returns:
            The bytes, True if the lane has ended, and True if the client was told that there is no room.
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
    """Counts the bytes received and not yet processed by a client."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._bytes = 0
        self._watched = False

    def add(self, count: int) -> None:
        """Count received bytes."""
        with self._lock:
            self._bytes += count

    def remove(self, count: int) -> bool:
        """Count processed bytes. Returns True if the broker waits for this."""
        with self._lock:
            self._bytes = max(0, self._bytes - count)
            if not self._watched or self._bytes >= VM_BUFFER_BYTES:
                return False
            self._watched = False
            return True

    def unsent(self) -> int:
        """Return the bytes above a socket's buffers. If there are any, a later `remove` reports room."""
        with self._lock:
            if self._bytes < VM_BUFFER_BYTES:
                return 0
            self._watched = True
            return self._bytes - VM_BUFFER_BYTES + 1


class VmTransport(asyncio.Transport):
    """The broker's end, as the pump uses it.

    Only `on_data_available` and `taken` may be called in other threads.
    """

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
        """Connect the pump and deliver the bytes that the client wrote already."""
        self._pump = pump
        pump.connection_made(self)
        if not self._closing:
            self._loop.call_soon(self._deliver)

    # Called by clients, in their threads.

    def on_data_available(self) -> None:
        """Deliver the bytes in the lane soon. Raises `RuntimeError` if the broker's loop has ended."""
        self._call(self._deliver)

    def taken(self, count: int) -> None:
        """Count processed bytes of the client. Raises `RuntimeError` if the broker's loop has ended."""
        if self._unprocessed.remove(count):
            self._call(self._on_drained)

    def _call(self, action: Action) -> None:
        if threading.get_ident() == self._thread:
            self._loop.call_soon(action)
        else:
            self._loop.call_soon_threadsafe(action)

    # The methods of asyncio.Transport, in the broker's loop.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Pass bytes to the client."""
        if not self._closing:
            self._unprocessed.add(len(data))
            self._feed.received(bytes(data))

    def get_write_buffer_size(self) -> int:
        """Return the client's unprocessed bytes, above the size of a socket's own buffers."""
        return self._unprocessed.unsent()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: `SocketPump.resume_writing` is called whenever no bytes are unsent any more."""

    def pause_reading(self) -> None:
        """Leave the client's bytes in the lane."""
        self._reading = False

    def resume_reading(self) -> None:
        """Take bytes from the lane again."""
        self._reading = True
        self._loop.call_soon(self._deliver)

    def is_closing(self) -> bool:
        """Return True if the connection is closed."""
        return self._closing

    def can_write_eof(self) -> bool:
        """Return False: the client has all written bytes at once, so no bytes can be lost."""
        return False

    def close(self) -> None:
        """Close the connection. The client has received all bytes by now, so there is no wait."""
        self._end(None)

    def abort(self) -> None:
        """Close the connection. Bytes that the client has received cannot be taken back."""
        self._end(None)

    def refuse(self) -> None:
        """Close a connection that was not accepted."""
        self._end(REFUSED)

    # Callbacks in the broker's loop.

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

    def _on_drained(self) -> None:
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
    """Accepts connections of this process. Has `start` and `stop` of a `TransportConnector`.

    ``on_empty`` is called after the last connection is closed.
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
        """Accept connections, which ``factory`` makes and ``turn`` flushes, in the thread of ``loop``.

        Without ``loop`` the running loop is taken.
        """
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._factory = factory
        self._turn = turn

    def stop(self) -> None:
        """Stop accepting. Accepted connections stay open."""
        self._factory = None

    def connect(self, lane: Lane, feed: Feed) -> VmTransport | None:
        """Return the broker's end of a new connection, in the broker's loop.

        Returns:
            None if there can be no connection; ``feed`` was told the reason.
        """
        loop, turn = self._loop, self._turn
        if loop is None or turn is None or self._factory is None:
            feed.closed(NOT_RUNNING)
            return None
        self._number += 1
        transport = VmTransport(loop, lane, feed, self._number)
        transport.connect(SocketPump(turn, self))
        return None if transport.is_closing() else transport

    # The methods of the pump's Acceptor.

    def accept(self, transport: StreamTransport, now: Time) -> ProtocolConnection | None:
        """Return the connection for a new client; None, with a log line, over a limit."""
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
            max_inactivity_ms=0,  # the two ends are one process, so neither can vanish alone
        )
        try:
            return factory(settings, now)
        except Exception:
            logger.exception("a connection to %s is refused: unexpected error", self.uri)
            self.release(transport)
            _refuse(transport)
            return None

    def release(self, transport: StreamTransport) -> None:
        """Release the place of a closed connection."""
        self.connection_count -= 1
        self._admission.leave(VM_HOST)
        if self.connection_count == 0 and self.on_empty is not None:
            self.on_empty()


def _refuse(transport: StreamTransport) -> None:
    if isinstance(transport, VmTransport):
        transport.refuse()


class VmClient:
    """The client's end, usable in any thread.

    Implements `spanwire.client.protocol.transport.in_process.InProcessTransport`.

    Bytes written before the broker has begun wait in the lane. After a fork every call but `close` raises
    `IllegalStateError`. `start` calls ``begin`` once, which must cause a call of `attach` or of the feed's ``closed``,
    in any thread.
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
        """Begin to connect; ``feed`` receives the bytes."""
        self._check()
        assert self._feed is None
        self._feed = feed
        self._begin(self)

    def attach(self, connector: VmConnector) -> None:
        """Connect to the broker. Called in the broker's loop."""
        self._transport = connector.connect(self.lane, self)

    def write(self, data: bytes) -> bool:
        """Pass bytes to the broker. Returns False if the broker does not keep up.

        Bytes written after the end are dropped.
        """
        self._check()
        wake, has_room = self.lane.put(data)
        if wake:
            self._signal_data()
        return has_room

    def taken(self, count: int) -> None:
        """Count ``count`` processed bytes of the client."""
        self._check()
        transport = self._transport
        if transport is None:
            return
        try:
            transport.taken(count)
        except RuntimeError:  # the broker's loop has ended
            self.closed(STOPPED)

    def close(self) -> None:
        """Close the connection after the broker has taken the written bytes. The feed is not called any more."""
        if self._process != os.getpid():
            return
        self._over = True
        if self.lane.end():
            self._signal_data()

    # The methods of Feed. The client's feed is closed once, and not called after that.

    def received(self, data: bytes) -> None:
        """Pass bytes of the broker to the feed."""
        if self._feed is not None and not self._over:
            self._feed.received(data)

    def writable(self) -> None:
        """Tell the feed that the broker keeps up again."""
        if self._feed is not None and not self._over:
            self._feed.writable()

    def closed(self, reason: str | None) -> None:
        """Tell the feed once that the connection is closed."""
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
