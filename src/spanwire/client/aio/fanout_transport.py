"""The sockets of a ``fanout:`` URL: one thread with an event loop of its own connects to all brokers, again and again.

For both shells of the client it is a broker of their own process: an `InProcessTransport`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import Final

from spanwire.client.addressing.address import BrokerAddress, BrokerUrl
from spanwire.client.addressing.reconnect_policy import FanoutPolicy
from spanwire.client.aio.wire import InProcessWire, SocketWire, Wire, WireOwner
from spanwire.client.io.broker_lookup import look
from spanwire.client.io.environment import (
    Machine,
    in_process_transport,
    not_connected,
    not_openwire,
    silent,
    tls_context,
)
from spanwire.client.ports import InProcessFeed
from spanwire.client.protocol.failover import Failover, is_among
from spanwire.client.protocol.fanout import Branch, FanoutHub
from spanwire.model.errors import AuthenticationError, ConfigurationError, JmsError, ProtocolError, SpanwireError
from spanwire.tls.settings import ClientTlsSettings

HIGH_WATER: Final = 256 * 1024  # bytes that the client has written and no broker could be told
LOOK_PAUSE: Final = 1.0  # seconds between two looks for brokers that announce themselves
TICK: Final = 0.25  # seconds between two looks at the keep-alives
CLOSE_LINGER: Final = 2.0  # seconds for what was written last

logger = logging.getLogger(__name__)


class BranchLine(WireOwner):
    """One broker's socket. It is the `WireOwner` of its wire."""

    def __init__(self, transport: FanoutTransport, branch: Branch) -> None:
        self.branch: Final = branch
        self.wire: Wire | None = None
        self.ended_with: JmsError | None = None
        self.changed: Final = asyncio.Event()
        self._transport: Final = transport

    def received(self, wire: Wire, data: bytes) -> None:
        """Bytes of the broker."""
        if wire is not self.wire:
            return
        try:
            self._transport.hub.received(self.branch, data, self._transport.machine.now().monotonic)
        except ProtocolError as error:
            self.end(not_openwire(self.branch.address, error))
        except JmsError as refused:
            self.end(refused)
        if self.branch.is_online:
            self.changed.set()
        self._transport.flush()

    def ended(self, wire: Wire, reason: str) -> None:
        """The broker is gone."""
        if wire is self.wire:
            self.end(JmsError(f"the connection to {self.branch.address.url} ended: {reason}"))

    def end(self, error: JmsError) -> None:
        """The wire is of no use any more."""
        self.ended_with = error
        self.changed.set()

    def flush(self) -> None:
        """Write what gathered for this broker."""
        link = self.branch.link
        if link is not None and self.wire is not None and len(link.out):
            self.wire.write(link.take())
            link.sent(self._transport.machine.now().monotonic)


class FanoutTransport:
    """The client's end: an `InProcessTransport` whose other end is many brokers."""

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
        self._lines: Final[list[BranchLine]] = []
        self._tasks: Final[dict[Branch, asyncio.Task[None]]] = {}
        self._reason: str | None = None

    def start(self, feed: InProcessFeed) -> None:
        """Begin to connect."""
        self._feed = feed
        threading.Thread(target=self._run, name="spanwire-fanout", daemon=True).start()

    def write(self, data: bytes) -> bool:
        """Bytes for the brokers."""
        with self._lock:
            self._written.append(data)
            self._written_bytes += len(data)
            if self._written_bytes >= HIGH_WATER:
                self._is_full = True
            is_full = self._is_full
        self._nudge()
        return not is_full

    def taken(self, count: int) -> None:
        """The client has processed so many bytes; prefetch bounds what it is sent."""

    def close(self) -> None:
        """End all connections; what was written before still reaches the brokers."""
        with self._lock:
            self._is_closed = True
        self._nudge()

    def _nudge(self) -> None:
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            try:
                loop.call_soon_threadsafe(wake.set)
            except RuntimeError:
                return  # the loop has ended

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
        looking = self._loop.create_task(self._look()) if self._url.group is not None else None
        while not self._is_over():
            try:
                async with asyncio.timeout(TICK):
                    await wake.wait()
            except TimeoutError:
                self._tick()
            wake.clear()
            self._read()
            self.flush()
        for task in (*self._tasks.values(), looking):
            if task is not None:
                task.cancel()
        await self._farewell()

    def _is_over(self) -> bool:
        with self._lock:
            return self._reason is not None or (self._is_closed and not self._written)

    async def _farewell(self) -> None:
        """Write what is left, then close."""
        self.flush()
        for line in self._lines:
            if line.wire is not None:
                line.wire.close()
        await asyncio.sleep(0)
        for line in self._lines:
            if line.wire is not None and not line.wire.is_writable:
                try:
                    async with asyncio.timeout(CLOSE_LINGER):
                        await line.wire.writable()
                except TimeoutError:
                    line.wire.abort()

    def _read(self) -> None:
        """Take what the client has written."""
        with self._lock:
            data = b"".join(self._written)
            self._written.clear()
        if data:
            try:
                self.hub.receive_data(data)
            except ProtocolError as error:
                self._reason = f"the client does not speak OpenWire as it should: {error}"
        is_writable = True
        for line in self._lines:
            is_writable = is_writable and (line.wire is None or line.wire.is_writable)
        with self._lock:
            self._written_bytes = self.hub.held_bytes
            is_due = self._is_full and is_writable and self._written_bytes < HIGH_WATER
            if is_due:
                self._is_full = False
        if is_due and self._feed is not None:
            self._feed.writable()

    def flush(self) -> None:
        """Write what gathered, in all directions."""
        data = self.hub.data_for_client()
        if data and self._feed is not None:
            self._feed.received(data)
        for line in self._lines:
            line.flush()

    def _tick(self) -> None:
        now = self.machine.now().monotonic
        for line in self._lines:
            link = line.branch.link
            due = None if link is None else link.next_timeout()
            if link is not None and due is not None and now >= due and not link.handle_timeout(now):
                line.end(JmsError(f"the broker at {line.branch.address.url} is silent"))

    def _add(self, address: BrokerAddress) -> None:
        branch = self.hub.add(address)
        self._tasks[branch] = asyncio.get_running_loop().create_task(self._keep(branch))

    async def _look(self) -> None:
        """Brokers that are found are connected to; one that is lost is tried until it is not found any more."""
        group = self._url.group
        assert group is not None
        while True:
            found: tuple[BrokerAddress, ...] = ()
            try:
                found = await asyncio.to_thread(look, self._url, group, self._tls)
            except SpanwireError as error:
                logger.debug("fanout: %s", error)
            for branch in [one for one in self.hub.branches if not one.is_online and not is_among(one.address, found)]:
                self._tasks.pop(branch).cancel()
                self.hub.remove(branch)
            for address in found:
                if not is_among(address, [branch.address for branch in self.hub.branches]):
                    self._add(address)
            await asyncio.sleep(LOOK_PAUSE)

    async def _keep(self, branch: Branch) -> None:
        """Connect to one broker, again whenever it is lost."""
        failover = Failover((branch.address,), self._url.reconnect, self.machine)
        failover.begin(True, self.machine.now().monotonic)
        while (address := failover.next_address()) is not None:
            await asyncio.sleep(max(0.0, failover.due_at() - self.machine.now().monotonic))
            line = BranchLine(self, branch)
            error = await self._open(line, address)
            if error is None:
                failover.connected(self.machine.now().monotonic)
                await self._live(line)
                logger.warning("connection to %s lost: %s; reconnecting", address.url, line.ended_with)
            self._drop(line)
            if isinstance(error, AuthenticationError):
                logger.warning("fanout: %s refuses the login: %s", address.url, error)
            if error is None and failover.reconnects:
                failover.begin(False, self.machine.now().monotonic)
            else:
                failover.failed(error if error is not None else JmsError("lost"), self.machine.now().monotonic)
        logger.warning("fanout: %s is tried no more: %s", branch.address.url, failover.gave_up())
        self.hub.remove(branch)
        if len(self.hub.branches) < self.hub.policy.min_ack_count and self._url.group is None:
            self._reason = f"fewer brokers are left than minAckCount asks for: {failover.gave_up()}"
            self._nudge()

    async def _live(self, line: BranchLine) -> None:
        """Until the broker is lost."""
        while line.ended_with is None:
            await line.changed.wait()
            line.changed.clear()

    async def _open(self, line: BranchLine, address: BrokerAddress) -> JmsError | None:
        """Connect and log in; what went wrong, if something did."""
        seconds = address.settings.connect_timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                line.wire = await self._wire(line, address)
                self._lines.append(line)
                self.hub.opened(line.branch, self.machine.now().monotonic)
                line.wire.begin()
                line.flush()
                while line.ended_with is None and not line.branch.is_online:
                    await line.changed.wait()
                    line.changed.clear()
            return line.ended_with
        except TimeoutError:
            return silent(address, line.wire is not None, seconds)
        except (OSError, UnicodeError) as error:
            return not_connected(address, error)
        except (JmsError, ConfigurationError) as error:
            return JmsError(str(error))

    async def _wire(self, line: BranchLine, address: BrokerAddress) -> Wire:
        loop = asyncio.get_running_loop()
        if address.is_in_process:
            return InProcessWire(line, in_process_transport(address, self._tls), loop)
        context = tls_context(address, self._tls)
        _, wire = await loop.create_connection(
            lambda: SocketWire(line, address),
            address.host,
            address.port,
            ssl=context,
            server_hostname=address.host if context is not None else None,
        )
        return wire

    def _drop(self, line: BranchLine) -> None:
        self.hub.lost(line.branch)
        if line in self._lines:
            self._lines.remove(line)
        if line.wire is not None:
            line.wire.abort()
        self.flush()


def connect(url: BrokerUrl, tls: ClientTlsSettings | None) -> FanoutTransport:
    """The brokers of a ``fanout:`` URL as one; they are connected to when the transport starts."""
    return FanoutTransport(url, tls)
