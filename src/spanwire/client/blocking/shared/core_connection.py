"""State of a blocking connection, shared by its threads.

The parts are the protocol core, the channel and the waiting calls.

A waiting thread becomes the *driver* if there is none: without the lock the driver waits for the channel, then takes
the lock, reads, and wakes the other threads. While no thread waits, the *keeper* thread reads once a second, so that a
busy application notices inactivity and disconnects.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spanwire.client.addressing.address import BrokerAddress
from spanwire.client.blocking.shared.channel import Channel, EndOfChannel, open_channel
from spanwire.client.blocking.shared.ready import Ready
from spanwire.client.blocking.shared.reconnection import establish
from spanwire.client.blocking.shared.write_batching import WriteBatching
from spanwire.client.io.environment import (
    FORKS,
    Machine,
    check_process,
    login_timeout_error,
    protocol_error,
    short_reason,
)
from spanwire.client.protocol.connection import ClientConnection
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.response_correlator import MESSAGE, Request
from spanwire.client.protocol.session import ClientSession
from spanwire.model.errors import ConfigurationError, JmsError, ProtocolError, ResourceAllocationError

if TYPE_CHECKING:
    from spanwire.tls.settings import ClientTlsSettings

FLUSH_BYTES: Final = 64 * 1024  # bytes of pending commands; more are written at once
MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024  # bytes of undelivered messages; above, only waiting calls read
POLL_INTERVAL: Final = 1.0  # seconds between two reads of the keeper; bounds how late a disconnect is noticed


class CoreConnection:
    """Connects a `ClientConnection` with a channel.

    The lock is held for all methods but `open`, `close` and the checks.
    """

    def __init__(self, core: ClientConnection, machine: Machine, tls: ClientTlsSettings | None) -> None:
        self.core: Final = core
        self.machine: Final = machine
        self.process: Final = os.getpid()
        self.forks: Final = FORKS.watch()
        self.lock: Final = threading.Lock()
        self.tls: Final = tls
        self._changed: Final = threading.Condition(self.lock)
        self._keeper_due: Final = threading.Condition(self.lock)
        self._channel: Channel | None = None
        self.unsent = bytearray()
        self._is_driven = False
        self.is_over = False
        self._is_establishing = False
        self._login_error: JmsError | None = None
        self._last_read = 0.0
        self.batching: Final = WriteBatching()

    def check_process(self) -> None:
        """Raise `IllegalStateError` in a forked process."""
        check_process(self.process)

    def check(self) -> None:
        """Raise `IllegalStateError` in a forked process, or the failure of the connection."""
        check_process(self.process)
        self.core.correlator.check_open()

    def ready(self) -> Ready:
        """Return the context ``with connection.ready():``; its entry takes the lock and waits for a broker."""
        return Ready(self)

    def wait_online(self) -> None:
        """Wait until the connection is online. Raises `JmsError` after the ``timeout`` of the failover URL."""
        self.core.correlator.check_open()
        timeout_ms = self.core.failover.policy.timeout_ms
        end = None if timeout_ms < 0 else self.machine.now().monotonic + timeout_ms / 1000
        if not self.wait(lambda: self.core.is_online or self.core.failure is not None, end):
            raise self.core.failover.timeout_error()
        self.core.correlator.check_open()

    def answer(self, request: Request, timeout: float | None = None) -> None:
        """Wait for the response to a request.

        Raises:
            JmsError: The broker refused the request.
            ResourceAllocationError: No response within ``timeout`` seconds.
        """
        end = None if timeout is None else self.machine.now().monotonic + timeout
        self.flush(end)
        if self.core.failover.policy.timeout_ms >= 0 and request.kind == MESSAGE:
            self._wait_for_send(request, end)
        if not self.wait(lambda: request.done, end):
            raise ResourceAllocationError(f"the broker has not answered within {timeout:g} s")
        request.raise_error()

    def _wait_for_send(self, request: Request, end: float | None) -> None:
        """Wait for the response to a send until ``end``.

        Gives a send up when the ``timeout`` of the failover URL is over.
        """
        core = self.core
        while not request.done:
            epoch = core.correlator.epoch
            if core.is_online:
                if not self.wait(lambda: request.done or not core.is_online, end):
                    return
                continue
            due = core.failover.sends_deadline()
            if due is None or (end is not None and end < due):
                due = end
            if self.wait(lambda: request.done or core.is_online, due):
                continue
            if due is end:
                return
            if core.correlator.epoch != epoch:
                continue  # reconnected meanwhile, and lost again
            core.correlator.give_up_sends(core.failover.timeout_error())
            core.take_completed()
            self.notify_waiters()

    def answer_close(self, request: Request | None) -> None:
        """Wait for the response to a removal, at most ``jms.closeTimeout``; None if the broker was not told."""
        self.notify_waiters()
        if request is not None:
            self.answer(request, self.core.settings.close_timeout_ms / 1000)

    def wait_for_message(self, consumer: ClientConsumer, end: float | None) -> bool:
        """Wait until a consumer has a message, fails or is closed. Returns False at ``end``."""
        while consumer.is_waiting and not consumer.is_closed:
            resume_at = consumer.resume_at
            until = end
            if resume_at > 0.0 and (end is None or resume_at < end):
                until = resume_at
            if not self.wait(lambda: not consumer.is_waiting or consumer.is_closed, until):
                consumer.is_waiting = False
                return until is not end
        return True

    def wait(self, is_done: Callable[[], bool], end: float | None) -> bool:
        """Wait for a condition as the driver, or beside the driver.

        Returns False at ``end``, in monotonic seconds.
        """
        while not is_done():
            remaining = None if end is None else end - self.machine.now().monotonic
            if remaining is not None and remaining <= 0:
                return False
            if self._channel is None or self._is_driven:
                self._changed.wait(remaining)
            else:
                self._drive(self._channel, remaining)
        return True

    def _drive(self, channel: Channel, timeout: float | None) -> None:
        self._is_driven = True
        for_writing = bool(self.unsent)
        self.lock.release()
        try:
            channel.wait(timeout, True, for_writing)
        finally:
            self.lock.acquire()
            self._is_driven = False
            self.notify_waiters()
        if channel is self._channel:
            self.read_available()

    def wake_consumer(self, consumer: ClientConsumer) -> None:
        """Wake the calls that wait for messages of a consumer, the driver included."""
        consumer.wake()
        self.notify_waiters()
        if self._channel is not None:
            self._channel.wake()

    def remove_consumer(self, consumer: ClientConsumer) -> None:
        """Remove a consumer."""
        self.core.remove_consumer(consumer)

    def close_session(self, session: ClientSession) -> Request | None:
        """Close a session. Returns the request, or None if the broker was not told."""
        return None if self.core.failure is not None else self.core.close_session(session)

    def notify_waiters(self) -> None:
        """Wake all waiting threads but the driver."""
        self._changed.notify_all()

    def read_available(self) -> None:
        """Read without waiting, wake the calls concerned, and write the rest."""
        channel = self._channel
        if channel is None:
            return
        self.core.suspend(False, self.machine.now())
        self._last_read = self.machine.now().monotonic
        self.core.is_congested = bool(self.unsent)
        try:
            data = channel.receive()
            if data:
                self.core.receive_data(data, self.machine.now())
        except EndOfChannel as end:
            self._disconnect(self.core.link_error(str(end)))
        except OSError as error:
            self._disconnect(self.core.link_error(short_reason(error)))
        except ProtocolError as wrong:
            self._disconnect(protocol_error(self.core.failover.address, wrong))
        except JmsError as refused:
            self._disconnect(refused)
        self.core.take_completed()
        self.core.take_woken()
        self.notify_waiters()
        self._write()

    def write_soon(self) -> None:
        """Write pending one-way commands now, or together with others of the same burst."""
        size = self.core.pending_bytes()
        if size == 0:
            return
        if size >= FLUSH_BYTES or not (self.batching.is_on or self._can_batch()):
            self.flush()

    def _can_batch(self) -> bool:
        """Return True if the keeper will write the pending commands."""
        if not self.batching.begin(self.machine.now().monotonic):
            return False
        self._keeper_due.notify()
        return True

    def write_batch(self, now: float) -> None:
        """Write the commands of a burst when they are due."""
        if self.batching.due_at is not None and now >= self.batching.due_at:
            self.batching.on_due(now, self.core.pending_bytes() > 0 or bool(self.unsent))
            self._write()

    def write_acknowledgements(self) -> None:
        """Write acknowledgements as `write_soon`, without waiting.

        `wait_written` waits before the next message.
        """
        size = self.core.pending_bytes()
        if size == 0:
            return
        if size >= FLUSH_BYTES or not (self.batching.is_on or self._can_batch()):
            self.batching.on_written(self.machine.now().monotonic)
            self._write()

    @property
    def is_congested(self) -> bool:
        """True while bytes wait for the socket."""
        return bool(self.unsent)

    def wait_written(self, timeout: float | None) -> bool:
        """Wait before a delivery until all bytes are written. Returns False after ``timeout`` seconds."""
        if self.unsent:
            self.flush(None if timeout is None else self.machine.now().monotonic + timeout)
        return not self.unsent

    def wait_writable(self, timeout: float | None) -> None:
        """Wait before a send until all bytes are written.

        Raises `ResourceAllocationError` after ``timeout`` seconds.
        """
        if not self.unsent:
            return
        self.flush(None if timeout is None else self.machine.now().monotonic + timeout)
        if self.unsent:
            raise ResourceAllocationError(f"the socket has been full for {timeout:g} s; the message is not sent")
        if not self.core.is_online:
            self.wait_online()

    def flush(self, end: float | None = None) -> None:
        """Write all bytes.

        While the socket is full, wait until ``end`` in monotonic seconds, and read meanwhile.
        """
        self.batching.on_written(self.machine.now().monotonic)
        self._write()
        while self.unsent:
            channel = self._channel
            remaining = None if end is None else end - self.machine.now().monotonic
            if channel is None or (remaining is not None and remaining <= 0):
                return
            if self._is_driven:
                self.lock.release()
                try:
                    channel.wait(remaining, False, True)
                finally:
                    self.lock.acquire()
                if channel is self._channel:
                    self._write()
            else:
                self._drive(channel, remaining)

    def _write(self) -> None:
        channel = self._channel
        if channel is None:
            self.unsent.clear()
            return
        data: bytes | bytearray = self.core.data_to_send() if self.core.pending_bytes() else b""
        if self.unsent:
            self.unsent += data
            data = self.unsent
        if not data:
            return
        try:
            count = channel.send(data)
        except OSError as error:
            self._disconnect(self.core.link_error(short_reason(error)))
            return
        if data is self.unsent:
            del self.unsent[:count]
        elif count < len(data):
            self.unsent += memoryview(data)[count:]
            if self._is_driven:
                channel.wake()  # the driver has to wait for writing, too
        if count:
            self.core.on_written(self.machine.now())

    def _disconnect(self, error: JmsError) -> None:
        """Close the channel and wake the keeper to reconnect."""
        channel = self._channel
        self._channel = None
        self.unsent.clear()
        if channel is not None:
            channel.close()
        self.core.on_disconnected(error, self.machine.now())
        self.core.take_completed()
        self.core.take_woken()
        self._login_error = error
        self.notify_waiters()
        self._keeper_due.notify()

    def open(self) -> None:
        """Connect for the first time and start the keeper. Raises `JmsError` or `ConfigurationError`."""
        with self.lock:
            self.core.failover.begin(True, self.machine.now().monotonic)
            try:
                establish(self, True)
            except BaseException:
                self._end()
                raise
        threading.Thread(target=self._run_keeper, name="spanwire-client-keeper", daemon=True).start()

    def prefer(self, address: BrokerAddress) -> None:
        """Leave the broker for a preferred broker that accepts connections again."""
        self._disconnect(self.core.failover.prefer(address))

    def pause(self, seconds: float) -> None:
        """Release the lock for some time, or until the state of the connection changes."""
        self._changed.wait(seconds)

    def pause_until(self, due: float) -> None:
        """Release the lock until ``due`` in monotonic seconds, or until the connection is closed."""
        while (delay := due - self.machine.now().monotonic) > 0 and not self.is_over:
            self._keeper_due.wait(delay)

    def is_current(self, epoch: int) -> bool:
        """Return True while the connection still uses the link of ``epoch``."""
        return not self.is_over and self.core.is_online and self.core.correlator.epoch == epoch

    def connect(self, address: BrokerAddress) -> JmsError | None:
        """Connect to one address and log in. Returns the error, or None."""
        timeout = self.core.login_timeout(address)
        end = self.machine.now().monotonic + timeout
        self._login_error = None
        self.lock.release()
        channel: Channel | None = None
        failure: JmsError | None = None
        try:
            channel = open_channel(address, self.tls, timeout)
        except JmsError as error:
            failure = error
        finally:
            self.lock.acquire()
        if channel is None:
            return failure
        if self.is_over:
            channel.close()
            return JmsError("the connection is closed")
        self._channel = channel
        self.core.on_connected(address, self.machine.now())
        self._write()
        if not self.wait(lambda: self.core.is_online or self._channel is not channel, end):
            failure = login_timeout_error(address, True, timeout)
            self._disconnect(failure)
            return failure
        if self.core.is_online:
            self.flush()
            return None
        return self._login_error or JmsError(f"{address.url} accepted the login and closed the connection")

    def _run_keeper(self) -> None:
        with self.lock:
            while not self.is_over and self.core.failure is None:
                if self._channel is None:
                    self._reconnect()
                    continue
                self._keeper_due.wait(self._idle_time())
                if self.is_over or self._channel is None:
                    continue
                now = self.machine.now().monotonic
                self.write_batch(now)
                due = self.core.next_timeout()
                is_due = due is not None and now >= due
                if not self._is_driven and (is_due or now >= self._last_read + POLL_INTERVAL):
                    self._poll()
                if is_due:
                    self._keep_alive()

    def _poll(self) -> None:
        """Read for an application that does not wait, unless the buffered messages exceed their limit."""
        is_full = self.core.correlator.buffered_bytes > MAX_BUFFERED_BYTES
        self.core.suspend(is_full, self.machine.now())
        if is_full:
            self._last_read = self.machine.now().monotonic
        else:
            self.read_available()

    def _idle_time(self) -> float:
        due = self.core.next_timeout()
        now = self.machine.now().monotonic
        idle = self._last_read + POLL_INTERVAL - now if not self._is_driven else POLL_INTERVAL
        if due is not None:
            idle = min(idle, due - now)
        if self.batching.due_at is not None:
            idle = min(idle, self.batching.due_at - now)
        return max(0.0, idle)

    def _keep_alive(self) -> None:
        try:
            self.core.handle_timeout(self.machine.now())
        except JmsError as error:
            self._disconnect(error)
        self._write()

    def _reconnect(self) -> None:
        try:
            establish(self, False)
        except (JmsError, ConfigurationError) as error:
            self.core.fail(error if isinstance(error, JmsError) else JmsError(str(error)))
        self.core.take_completed()
        self.core.take_woken()
        self.notify_waiters()

    def close(self) -> None:
        """Close the connection after the broker has processed all earlier commands.

        A second call does nothing.
        """
        check_process(self.process)
        with self.lock:
            if self.is_over:
                return
            try:
                request = self.core.request_removal()
                if request is not None:
                    self.answer_close(request)
                self.core.shutdown()
                self._write()
            except JmsError:
                pass  # the connection is over without the broker's response, too
            finally:
                self._end()

    def _end(self) -> None:
        self.is_over = True
        self.core.mark_closed()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self.notify_waiters()
        self._keeper_due.notify_all()
