"""Sockets of a ``fanout:`` URL: one thread with its own event loop connects to all brokers.

Both shells of the client use the transport as a broker of their own process, an `InProcessTransport`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import Final

from spanwire.client.addressing.address import BrokerAddress, BrokerUrl
from spanwire.client.addressing.reconnect_policy import FanoutPolicy
from spanwire.client.aio.shared.wire import Wire, WireOwner, open_wire
from spanwire.client.io.environment import (
    Machine,
    connection_error,
    find_brokers,
    login_timeout_error,
    protocol_error,
)
from spanwire.client.protocol.transport.failover import Failover, is_among
from spanwire.client.protocol.transport.fanout import Branch, FanoutHub
from spanwire.client.protocol.transport.in_process import InProcessFeed
from spanwire.model.errors import AuthenticationError, ConfigurationError, JmsError, ProtocolError, SpanwireError
from spanwire.tls.settings import ClientTlsSettings

HIGH_WATER: Final = 256 * 1024  # bytes of the client that no broker has taken; then the client waits
DISCOVERY_PAUSE: Final = 1.0  # seconds between two searches for announced brokers
TICK: Final = 0.25  # seconds between two checks of keep-alives
CLOSE_LINGER: Final = 2.0  # seconds to write the last bytes

logger = logging.getLogger(__name__)


class BranchConnection(WireOwner):
    """Socket of one broker: the `WireOwner` of its wire."""

    def __init__(self, transport: FanoutTransport, branch: Branch) -> None:
        self.branch: Final = branch
        self.wire: Wire | None = None
        self.ended_with: JmsError | None = None
        self.changed: Final = asyncio.Event()
        self._transport: Final = transport

    def on_data(self, wire: Wire, data: bytes) -> None:
        """Take bytes from the broker."""
        if wire is not self.wire:
            return
        try:
            self._transport.hub.on_data(self.branch, data, self._transport.machine.now().monotonic)
        except ProtocolError as error:
            self.end(protocol_error(self.branch.address, error))
        except JmsError as refused:
            self.end(refused)
        if self.branch.is_online:
            self.changed.set()
        self._transport.flush()

    def on_end(self, wire: Wire, reason: str) -> None:
        """Note that the broker has closed the socket."""
        if wire is self.wire:
            self.end(JmsError(f"the connection to {self.branch.address.url} ended: {reason}"))

    def end(self, error: JmsError) -> None:
        """Store the error that ended the connection."""
        self.ended_with = error
        self.changed.set()

    def flush(self) -> None:
        """Write pending commands to the broker."""
        link = self.branch.link
        if link is not None and self.wire is not None and len(link.output):
            self.wire.write(link.take())
            link.on_written(self._transport.machine.now().monotonic)


class FanoutTransport:
    """`InProcessTransport` between one client and the brokers of a `FanoutHub`."""

    def __init__(self, url: BrokerUrl, tls: ClientTlsSettings | None) -> None:
        policy = url.fanout if url.fanout is not None else FanoutPolicy()
        self.hub: Final = FanoutHub(policy)
        self.machine: Final = Machine()
        self._url: Final = url
        self._tls: Final = tls
        self._feed: InProcessFeed | None = None
        self._lock: Final = threading.Lock()
        self._written: Final[deque[bytes]] = deque()
        self._written_bytes = 0
        self._is_full = False
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._connections: Final[list[BranchConnection]] = []
        self._tasks: Final[dict[Branch, asyncio.Task[None]]] = {}
        self._reason: str | None = None

    def start(self, feed: InProcessFeed) -> None:
        """Start the thread."""
        self._feed = feed
        threading.Thread(target=self._run, name="spanwire-fanout", daemon=True).start()

    def write(self, data: bytes) -> bool:
        """Take bytes from the client. Returns False while brokers take no more."""
        with self._lock:
            self._written.append(data)
            self._written_bytes += len(data)
            if self._written_bytes >= HIGH_WATER:
                self._is_full = True
            is_full = self._is_full
        self._wake_loop()
        return not is_full

    def taken(self, count: int) -> None:
        """Do nothing: the prefetch bounds the bytes on their way to the client."""

    def close(self) -> None:
        """Close all connections after the pending bytes are written."""
        with self._lock:
            self._is_closed = True
        self._wake_loop()

    def _wake_loop(self) -> None:
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            try:
                loop.call_soon_threadsafe(wake.set)
            except RuntimeError:
                return  # the loop is closed

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            logger.exception("fanout ended unexpectedly")
        finally:
            if self._feed is not None:
                self._feed.closed(self._reason)

    async def _serve(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            wake = self._wake = asyncio.Event()
            wake.set()
        for address in self._url.addresses:
            self._add(address)
        discovery = self._loop.create_task(self._discover()) if self._url.group is not None else None
        while not self._is_over():
            try:
                async with asyncio.timeout(TICK):
                    await wake.wait()
            except TimeoutError:
                self._tick()
            wake.clear()
            self._read()
            self.flush()
        for task in (*self._tasks.values(), discovery):
            if task is not None:
                task.cancel()
        await self._close_connections()

    def _is_over(self) -> bool:
        with self._lock:
            return self._reason is not None or (self._is_closed and not self._written)

    async def _close_connections(self) -> None:
        """Write pending bytes and close all connections, at most `CLOSE_LINGER` seconds."""
        self.flush()
        for connection in self._connections:
            if connection.wire is not None:
                connection.wire.close()
        await asyncio.sleep(0)
        for connection in self._connections:
            if connection.wire is not None and not connection.wire.is_writable:
                try:
                    async with asyncio.timeout(CLOSE_LINGER):
                        await connection.wire.writable()
                except TimeoutError:
                    connection.wire.abort()

    def _read(self) -> None:
        """Pass the client's bytes to the hub."""
        with self._lock:
            data = b"".join(self._written)
            self._written.clear()
        if data:
            try:
                self.hub.receive_data(data)
            except ProtocolError as error:
                self._reason = f"the client does not speak OpenWire as it should: {error}"
        is_writable = True
        for connection in self._connections:
            is_writable = is_writable and (connection.wire is None or connection.wire.is_writable)
        with self._lock:
            self._written_bytes = self.hub.queued_bytes
            is_due = self._is_full and is_writable and self._written_bytes < HIGH_WATER
            if is_due:
                self._is_full = False
        if is_due and self._feed is not None:
            self._feed.writable()

    def flush(self) -> None:
        """Write pending commands to the client and to all brokers."""
        data = self.hub.data_for_client()
        if data and self._feed is not None:
            self._feed.received(data)
        for connection in self._connections:
            connection.flush()

    def _tick(self) -> None:
        now = self.machine.now().monotonic
        for connection in self._connections:
            link = connection.branch.link
            due = None if link is None else link.next_timeout()
            if link is not None and due is not None and now >= due and not link.handle_timeout(now):
                connection.end(
                    JmsError(f"the broker at {connection.branch.address.url} has been silent for the negotiated time")
                )

    def _add(self, address: BrokerAddress) -> None:
        branch = self.hub.add(address)
        self._tasks[branch] = asyncio.get_running_loop().create_task(self._maintain(branch))

    async def _discover(self) -> None:
        """Connect to announced brokers, and give up lost brokers that are no longer announced."""
        group = self._url.group
        assert group is not None
        while True:
            addresses: tuple[BrokerAddress, ...] = ()
            try:
                addresses = await asyncio.to_thread(find_brokers, self._url, group, self._tls)
            except SpanwireError as error:
                logger.debug("fanout: %s", error)
            for branch in [
                one for one in self.hub.branches if not one.is_online and not is_among(one.address, addresses)
            ]:
                self._tasks.pop(branch).cancel()
                self.hub.remove(branch)
            for address in addresses:
                if not is_among(address, [branch.address for branch in self.hub.branches]):
                    self._add(address)
            await asyncio.sleep(DISCOVERY_PAUSE)

    async def _maintain(self, branch: Branch) -> None:
        """Keep one broker connected, within the attempts of the reconnect policy."""
        failover = Failover((branch.address,), self._url.reconnect, self.machine)
        failover.begin(True, self.machine.now().monotonic)
        while (address := failover.next_address()) is not None:
            await asyncio.sleep(max(0.0, failover.due_at() - self.machine.now().monotonic))
            connection = BranchConnection(self, branch)
            error = await self._open(connection, address)
            if error is None:
                failover.on_connected(self.machine.now().monotonic)
                await self._serve_connection(connection)
                logger.warning("connection to %s lost: %s; reconnecting", address.url, connection.ended_with)
            self._disconnect(connection)
            if isinstance(error, AuthenticationError):
                logger.warning("fanout: %s refuses the login: %s", address.url, error)
            if error is None and failover.reconnects:
                failover.begin(False, self.machine.now().monotonic)
            else:
                failover.on_failed(error if error is not None else JmsError("lost"), self.machine.now().monotonic)
        logger.warning(
            "fanout: no further attempt to connect to %s: %s", branch.address.url, failover.exhausted_error()
        )
        self.hub.remove(branch)
        if len(self.hub.branches) < self.hub.policy.min_ack_count and self._url.group is None:
            self._reason = f"fewer brokers are left than minAckCount: {failover.exhausted_error()}"
            self._wake_loop()

    async def _serve_connection(self, connection: BranchConnection) -> None:
        """Wait until the connection ends."""
        while connection.ended_with is None:
            await connection.changed.wait()
            connection.changed.clear()

    async def _open(self, connection: BranchConnection, address: BrokerAddress) -> JmsError | None:
        """Connect to one broker and log in. Returns the error, or None."""
        seconds = address.settings.connect_timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                connection.wire = await open_wire(connection, address, self._tls)
                self._connections.append(connection)
                self.hub.on_connected(connection.branch, self.machine.now().monotonic)
                connection.wire.begin()
                connection.flush()
                while connection.ended_with is None and not connection.branch.is_online:
                    await connection.changed.wait()
                    connection.changed.clear()
            return connection.ended_with
        except TimeoutError:
            return login_timeout_error(address, connection.wire is not None, seconds)
        except (OSError, UnicodeError) as error:
            return connection_error(address, error)
        except (JmsError, ConfigurationError) as error:
            return JmsError(str(error))

    def _disconnect(self, connection: BranchConnection) -> None:
        self.hub.on_disconnected(connection.branch)
        if connection in self._connections:
            self._connections.remove(connection)
        if connection.wire is not None:
            connection.wire.abort()
        self.flush()


def connect(url: BrokerUrl, tls: ClientTlsSettings | None) -> FanoutTransport:
    """Return a transport to the brokers of a ``fanout:`` URL; `FanoutTransport.start` connects."""
    return FanoutTransport(url, tls)
