"""State of an asyncio connection, shared by its sessions.

The parts are the protocol core, the wire and the waiting calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from math import ceil
from typing import Final

from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.aio.shared.keep_alive import KEEP_ALIVES, MAX_WAIT, KeepAliveConnection
from spanwire.client.aio.shared.ready import MessageWaiter, Ready
from spanwire.client.aio.shared.reconnection import establish, probe_preferred
from spanwire.client.aio.shared.wire import Wire, WireOwner, open_wire
from spanwire.client.io.environment import (
    FORKS,
    Machine,
    check_process,
    connection_error,
    login_timeout_error,
    protocol_error,
)
from spanwire.client.protocol.connection import ClientConnection
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.response_correlator import Request
from spanwire.client.protocol.session import ClientSession
from spanwire.model.errors import ConfigurationError, JmsError, ProtocolError, ResourceAllocationError
from spanwire.tls.settings import ClientTlsSettings

FLUSH_BYTES: Final = 64 * 1024  # bytes of pending commands; more are written before the turn ends
MAX_DELIVERED_PER_TURN: Final = 512  # messages; their acknowledgements take about 50 KiB
MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024  # bytes of undelivered messages; above, reading stops until a call waits
READ_GRACE: Final = 0.05  # seconds; a loop that was blocked reads its sockets before the inactivity check
TIMER_GRACE: Final = 0.5  # seconds; a timer that is later than that shows that the loop was blocked
RECONNECT_POLL: Final = 1.0  # seconds until the keep-alive thread checks for a new wire
TICKS: Final = 60  # parts of the negotiated inactivity limit: a check may be one later, 0.5 s of ActiveMQ's 30 s
KEEP_ALIVE_SHARE: Final = 2 / 3  # of the negotiated inactivity limit


def shared_time(due: float, limit: float) -> float:
    """Return the next time at which connections with the inactivity limit ``limit`` check, in monotonic seconds.

    So a thousand idle connections wake the loop a few times in a second, and not a hundred times.
    """
    tick = limit / TICKS
    return ceil(due / tick) * tick if tick > 0.0 else due


class CoreConnection(WireOwner, KeepAliveConnection):
    """Connects a `ClientConnection` with a wire.

    All methods run in the event loop that opened the connection.

    `lock`, `ready`, `write_soon` and `flush` exist in both shells: the modules with calls of these are generated for
    threads.
    """

    def __init__(self, core: ClientConnection, machine: Machine, tls: ClientTlsSettings | None) -> None:
        self.core: Final = core
        self.machine: Final = machine
        self.tls: Final = tls
        self._process: Final = os.getpid()
        self.forks: Final = FORKS.watch()
        self.lock: Final = contextlib.nullcontext()  # stands for the lock of the blocking shell
        self._loop: Final = asyncio.get_running_loop()
        self.wire: Wire | None = None
        self._online: Final = asyncio.Event()
        self._login_result: asyncio.Future[JmsError | None] | None = None  # set during `_connect`
        self._futures: Final[dict[int, asyncio.Future[None]]] = {}
        self._message_waiters: Final[dict[int, MessageWaiter]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self.is_flushing = False
        self.max_buffered_bytes = MAX_BUFFERED_BYTES
        self.delivered_count = 0  # messages since the last write
        self._is_reading = True
        self._wait_count = 0  # calls that wait for messages
        self._written_at = 0.0
        self._inactivity = 0.0  # seconds, the broker's limit; 0 for none
        self._keep_alive_frame = b""
        self._reconnecting: asyncio.Task[None] | None = None
        self._probe_task: asyncio.Task[None] | None = None

    def check_process(self) -> None:
        """Raise `IllegalStateError` in a forked process."""
        check_process(self._process)

    def check(self) -> None:
        """Raise `IllegalStateError` in a forked process, or the failure of the connection."""
        check_process(self._process)
        self.core.correlator.check_open()

    def ready(self) -> Ready:
        """Return the context ``async with connection.ready():``; its entry waits for a broker."""
        return Ready(self)

    async def wait_online(self) -> None:
        """Wait until the connection is online. Raises `JmsError` after the ``timeout`` of the failover URL."""
        self.check()
        if self.core.is_online:
            return
        timeout_ms = self.core.failover.policy.timeout_ms
        try:
            async with asyncio.timeout(None if timeout_ms < 0 else timeout_ms / 1000):
                while not self.core.is_online and self.core.failure is None:  # may be lost again meanwhile
                    await self._online.wait()
        except TimeoutError:
            raise self.core.failover.timeout_error() from None
        self.core.correlator.check_open()

    async def answer(self, request: Request, timeout: float | None = None) -> None:
        """Wait for the response to a request.

        Raises:
            JmsError: The broker refused the request.
            ResourceAllocationError: No response within ``timeout`` seconds.
        """
        self.write_soon()
        if not request.done:
            self._resume_reading()
            future: asyncio.Future[None] = self._loop.create_future()
            self._futures[request.number] = future
            try:
                if timeout is None:
                    await future
                else:
                    async with asyncio.timeout(timeout):
                        await future
            except TimeoutError:
                raise ResourceAllocationError(f"the broker has not answered within {timeout:g} s") from None
            finally:
                self._futures.pop(request.number, None)
        request.raise_error()

    async def answer_close(self, request: Request | None) -> None:
        """Wait for the response to a removal, at most ``jms.closeTimeout``; None if the broker was not told."""
        if request is not None:
            await self.answer(request, self.core.settings.close_timeout_ms / 1000)
        elif self.core.failure is None:
            self._after_input()  # wakes the calls that wait for the removed object

    async def wait_writable(self, timeout: float | None) -> None:
        """Wait before a send until the socket takes bytes.

        Raises `ResourceAllocationError` after ``timeout`` seconds.
        """
        wire = self.wire
        if wire is None or wire.is_writable:
            return
        try:
            async with asyncio.timeout(timeout):
                await wire.writable()
        except TimeoutError:
            raise ResourceAllocationError(
                f"the socket has been full for {timeout:g} s; the message is not sent"
            ) from None
        await self.wait_online()

    async def yield_after_send(self) -> None:
        """Write soon after a one-way send.

        Yields to other tasks after `FLUSH_BYTES`, and waits while the socket is full.
        """
        if self.core.pending_bytes() >= FLUSH_BYTES:
            self.write()
            await asyncio.sleep(0)
        else:
            self.write_soon()
        wire = self.wire
        if wire is not None and not wire.is_writable:
            await wire.writable()

    def on_delivered(self) -> None:
        """Note that a message was delivered to the application.

        Its acknowledgement is written at the end of the turn. Before the next message `next_turn` is due after
        `MAX_DELIVERED_PER_TURN` messages, or while the socket is full.
        """
        self.delivered_count += 1
        if self.delivered_count == 1:
            self.write_soon()
        if not self._is_reading and 2 * self.core.correlator.buffered_bytes <= self.max_buffered_bytes:
            self._resume_reading()

    async def next_turn(self) -> None:
        """Write acknowledgements and yield to other tasks; wait while the socket is full."""
        self.write()
        await asyncio.sleep(0)
        self.write()
        while self.delivered_count >= MAX_DELIVERED_PER_TURN and self.wire is not None:
            await self.wire.writable()
            self.write()

    def flush(self) -> None:
        """Write pending commands at the end of the turn, as `write_soon`.

        The blocking shell waits for the socket here.
        """
        self.write_soon()

    def write_soon(self) -> None:
        """Write pending commands at the end of the turn."""
        if not self.is_flushing:
            self.is_flushing = True
            self._loop.call_soon(self.write)

    def write(self) -> None:
        """Write pending commands now."""
        self.is_flushing = False
        self.delivered_count = 0
        wire = self.wire
        if wire is None:
            return
        data = self.core.data_to_send()
        if data:
            wire.write(data)
            now = self.machine.now()
            self._written_at = now.monotonic
            self.core.on_written(now)
        if not wire.is_writable:
            self.delivered_count = MAX_DELIVERED_PER_TURN

    def begin_wait(self) -> None:
        """Count a waiting call, and resume reading."""
        self._wait_count += 1
        self._resume_reading()

    def end_wait(self) -> None:
        """End a wait that `begin_wait` has counted."""
        self._wait_count -= 1

    @property
    def is_reading(self) -> bool:
        """False while reading is paused."""
        return self._is_reading

    def _resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self.core.suspend(False, self.machine.now())
            if self.wire is not None:
                self.wire.resume_reading()

    def _pause_reading(self) -> None:
        """Stop reading if no call waits for a message or a response."""
        wire = self.wire
        if (
            self._is_reading
            and wire is not None
            and self._wait_count == 0
            and not self._futures
            and self.core.is_online
        ):
            self._is_reading = False
            self.core.suspend(True, self.machine.now())
            wire.pause_reading()

    def send_overdue_keep_alive(self, now: float) -> float:
        """Send a keep-alive if the event loop was too busy; called by `KeepAliveThread`."""
        wire, patience = self.wire, self._inactivity
        if wire is None:
            return now + RECONNECT_POLL
        if patience <= 0.0:
            return now + MAX_WAIT
        due = self._written_at + KEEP_ALIVE_SHARE * patience
        if now < due:
            return due
        if wire.interject(self._keep_alive_frame):
            self._written_at = now
        return now + KEEP_ALIVE_SHARE * patience

    def on_data(self, wire: Wire, data: bytes) -> None:
        """Take bytes from the broker."""
        if wire is not self.wire:
            return
        self.core.is_congested = not wire.is_writable
        try:
            self.core.receive_data(data, self.machine.now())
        except ProtocolError as error:
            self._disconnect(protocol_error(self.core.failover.address, error))
        except JmsError as refused:
            self._disconnect(refused)
        self._after_input()

    def on_end(self, wire: Wire, reason: str) -> None:
        """Note that the broker has closed the wire."""
        if wire is self.wire:
            self._disconnect(self.core.link_error(reason))
            self._after_input()

    def _wake(self) -> None:
        """Wake the calls whose response or message has arrived."""
        for request in self.core.take_completed():
            future = self._futures.get(request.number)
            if future is not None and not future.done():
                future.set_result(None)
        for number in self.core.take_woken():
            waiter = self._message_waiters.get(number)
            if waiter is not None:
                waiter.wake()

    def _after_input(self) -> None:
        """Wake calls and waits, and see to the timer, to reading and to what is to be written now."""
        self._wake()
        if self.core.failure is not None:
            self._online.set()
            KEEP_ALIVES.remove(self)
        elif self.core.is_online and not self._online.is_set():
            self._online.set()
            if self._login_result is not None and not self._login_result.done():
                self._login_result.set_result(None)
        if self._timer is None:
            self._watch()
        if self.core.correlator.buffered_bytes > self.max_buffered_bytes:
            self._pause_reading()
        if self.core.pending_bytes() > 0:
            self.write_soon()

    def _watch(self) -> None:
        """Schedule the next keep-alive or inactivity check."""
        self._timer = None
        due = self.core.next_timeout()
        if due is not None and self.wire is not None:
            if self.core.settings.scheduled_acknowledge_ms == 0:
                due = shared_time(due, self._inactivity)
            self._timer_due = due
            self._timer = self._loop.call_later(max(0.0, due - self.machine.now().monotonic), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if (
            self.machine.now().monotonic - self._timer_due > TIMER_GRACE
        ):  # the loop was blocked: arrived bytes are still unread
            self._timer_due = float("inf")
            self._timer = self._loop.call_later(READ_GRACE, self._on_timer)
            return
        try:
            self.core.handle_timeout(self.machine.now())
        except JmsError as error:
            self._disconnect(error)
        self._after_input()

    def _disconnect(self, error: JmsError) -> None:
        """Close the wire and reconnect if the URL allows that."""
        wire = self.wire
        self.wire = None
        self._online.clear()
        if wire is not None:
            wire.abort()
        again = self.core.on_disconnected(error, self.machine.now())
        if self._login_result is not None:
            if not self._login_result.done():
                self._login_result.set_result(error)
        elif again:
            self._reconnecting = self._loop.create_task(self._reconnect())
            end = self.core.failover.sends_deadline()
            if end is not None:
                self._loop.call_later(end - self.machine.now().monotonic, self._give_up_sends, end)

    def _give_up_sends(self, end: float) -> None:
        """Fail the waiting sends if the connection has not come back before ``end``, in monotonic seconds."""
        failover = self.core.failover
        if not self.core.is_online and failover.sends_deadline() == end:
            self.core.correlator.give_up_sends(failover.timeout_error())
            self._after_input()

    def prefer(self, address: BrokerAddress) -> None:
        """Leave the broker for a preferred broker that accepts connections again."""
        self._disconnect(self.core.failover.prefer(address))
        self._after_input()

    def start_probe(self) -> None:
        """Probe preferred brokers in a task."""
        self._probe_task = self._loop.create_task(probe_preferred(self))

    async def open(self) -> None:
        """Connect for the first time."""
        self.core.failover.begin(True, self.machine.now().monotonic)
        try:
            await establish(self, True)
            KEEP_ALIVES.add(self)
        except BaseException:
            self.core.mark_closed()
            if self.wire is not None:
                self.wire.abort()
                self.wire = None
            raise

    async def _reconnect(self) -> None:
        try:
            await establish(self, False)
        except (JmsError, ConfigurationError) as error:
            self.core.fail(error if isinstance(error, JmsError) else JmsError(str(error)))
        self._reconnecting = None
        self._after_input()

    async def connect(self, address: BrokerAddress) -> JmsError | None:
        """Connect to one address and log in. Returns the error, or None."""
        login_result: asyncio.Future[JmsError | None] = self._loop.create_future()
        self._login_result = login_result
        is_open = False
        timeout = self.core.login_timeout(address)
        try:
            async with asyncio.timeout(timeout):
                wire = await open_wire(self, address, self.tls)
                is_open = True
                self.wire = wire
                self.core.on_connected(address, self.machine.now())
                wire.begin()
                self.write()
                refusal = await login_result
            if refusal is None and self.core.is_online:
                self._inactivity, self._keep_alive_frame = self.core.keep_alive()
                self._is_reading = True
                return None
            failure = (
                refusal
                if refusal is not None
                else JmsError(f"{address.url} accepted the login and closed the connection")
            )
        except TimeoutError:
            failure = login_timeout_error(address, is_open, timeout)
        except OSError as error:
            failure = connection_error(address, error)
        except UnicodeError as error:  # raised for an invalid host name
            failure = connection_error(address, error)
        except JmsError as refused:
            failure = refused
        finally:
            self._login_result = None
        unused_wire = self.wire
        self.wire = None
        self._online.clear()
        if unused_wire is not None:
            unused_wire.abort()
        self.core.on_disconnected(failure, self.machine.now())
        return failure

    def add_message_waiter(self, core: ClientConsumer, waiter: MessageWaiter) -> None:
        """Register a consumer, to be woken when messages arrive."""
        self._message_waiters[core.number] = waiter

    def wake_consumer(self, core: ClientConsumer) -> None:
        """Wake the calls that wait for messages of a consumer."""
        waiter = self._message_waiters.get(core.number)
        if waiter is not None:
            waiter.wake()

    def close_session(self, core: ClientSession) -> Request | None:
        """Close a session and wake its consumers. Returns the request, or None if the broker was not told."""
        consumers = list(core.consumers.values())
        request = None if self.core.failure is not None else self.core.close_session(core)
        for consumer in consumers:
            self.remove_consumer(consumer)
        return request

    def remove_consumer(self, core: ClientConsumer) -> None:
        """Remove a consumer and wake the calls that wait for its messages."""
        waiter = self._message_waiters.pop(core.number, None)
        self.core.remove_consumer(core)
        if waiter is not None:
            waiter.wake()

    async def close(self) -> None:
        """Close the connection after the broker has processed all earlier commands.

        A second call does nothing.
        """
        self.check_process()
        for task in (self._reconnecting, self._probe_task):
            if task is not None:
                task.cancel()
        try:
            await self.answer_close(self.core.request_removal())
        except JmsError:
            pass  # the connection is over without the broker's response, too
        finally:
            self.core.shutdown()
            self.write()
            self.core.mark_closed()
            self._online.clear()
            if self._timer is not None:
                self._timer.cancel()
            self._after_input()
            self._message_waiters.clear()
            wire = self.wire
            self.wire = None
            if wire is not None and wire.is_writable:
                wire.close()
            elif wire is not None:
                wire.abort()  # a full socket would stay open for ever
