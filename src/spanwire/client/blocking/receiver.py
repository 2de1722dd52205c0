"""Receiving calls of a blocking consumer (JMS 1.1 §4.5).

This part of a consumer differs between the shells: a thread that waits reads, and holds the lock of the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.client.blocking.shared.core_connection import CoreConnection
from spanwire.client.messages.message import Message
from spanwire.client.protocol.consumer import ClientConsumer

MAX_BYTES_AT_ONCE: Final = 4 * 1024 * 1024  # bytes of messages that one `receive_many` keeps in memory


class Receiver:
    """Waits for the messages of a consumer."""

    def __init__(self, core: ClientConsumer, shared: CoreConnection) -> None:
        self.core: Final = core
        self._shared: Final = shared

    def wake(self) -> None:
        """End all waits for messages of this consumer."""
        self._shared.notify_waiters()

    def receive_no_wait(self) -> Message | None:
        """Return the next message that has arrived, or None.

        Returns None, too, while the socket accepts no acknowledgements. Raises `IllegalStateError` for a closed
        consumer.
        """
        shared = self._shared
        shared.check_process()
        with shared.lock:
            if not shared.wait_written(0.0):
                return None
            message = self.core.next_message(shared.machine.now())
            if message is None and shared.core.failure is None:
                shared.read_available()
                message = self.core.next_message(shared.machine.now())
            shared.write_acknowledgements()
            return message

    def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message.

        Arguments:
            timeout: Seconds to wait; None waits until a message arrives or the consumer is closed.

        Returns:
            The message, or None after ``timeout`` seconds. In ``auto`` mode the message is acknowledged.

        Raises:
            IllegalStateError: The consumer is closed.
            JmsError: The connection has failed, or the broker has closed the consumer.
        """
        shared = self._shared
        shared.check_process()
        core = self.core
        with shared.lock:
            asked_at = shared.machine.now()
            if not shared.wait_written(timeout):
                return None
            message = core.next_message(asked_at)
            if message is not None:
                shared.write_acknowledgements()
                return message
            end = None if timeout is None else asked_at.monotonic + timeout
            core.begin_receive()
            while not core.is_ended and not core.is_leaving:
                core.prepare_wait()
                core.is_waiting = True  # set before the lock may be released
                until = core.pull_until(end, shared.machine.now())
                shared.flush(until)
                is_over = not shared.wait_for_message(core, until)
                message = core.next_message(shared.machine.now())
                if message is not None or is_over:
                    shared.write_acknowledgements()
                    return message
            return None

    def receive_many(self, max_count: int, timeout: float | None = None) -> list[Message]:
        """Wait for the first message, then take all messages that have arrived.

        In ``auto`` mode all returned messages are acknowledged.

        Arguments:
            max_count: Most messages to return; below 1 the list is empty at once.
            timeout: Seconds to wait for the first message; None waits without limit.

        Returns:
            At most ``max_count`` messages of about `MAX_BYTES_AT_ONCE` bytes; an empty list after ``timeout`` seconds.

        Raises:
            IllegalStateError: The consumer is closed.
            JmsError: The connection has failed, or the broker has closed the consumer.
        """
        if max_count < 1:
            return []
        first = self.receive(timeout)
        if first is None:
            return []
        shared, core = self._shared, self.core
        messages = [first]
        room = MAX_BYTES_AT_ONCE - len(first.raw)
        is_all = False
        with shared.lock:
            now = shared.machine.now()
            while core.failure is None and not core.is_closed:
                more = core.next_messages(max_count - len(messages), room, now)
                messages += more
                room -= core.last_batch_bytes
                if len(messages) >= max_count or room <= 0 or shared.is_congested or (is_all and not more):
                    break
                is_all = not more
                shared.read_available()
            shared.write_acknowledgements()
        return messages

    def acknowledge_stored(self, timeout: float | None = None) -> bool:
        """Acknowledge all delivered messages after `discard_delivered`, and wait for the broker's sync.

        Returns:
            False if there was no message to acknowledge, or the connection broke after their delivery.

        Raises:
            JmsError: The broker refused the acknowledgement, or the connection has failed.
            ResourceAllocationError: No response within ``timeout`` seconds.
        """
        shared = self._shared
        with shared.ready():
            request = self.core.acknowledge_stored()
            if request is None:
                return False
            shared.answer(request, timeout)
            return True

    def take_next(self, take: Callable[[Message], bool], is_done: Callable[[], bool], end: float | None) -> bool:
        """Pass the next message to ``take``, or wait for a message or for ``is_done``.

        The caller holds the connection's lock.

        ``take`` returns True if another waiting call may be done with the message. Returns False at ``end``, in
        monotonic seconds.
        """
        shared, core = self._shared, self.core
        message = core.next_message(shared.machine.now())
        if message is not None:
            if take(message):
                shared.notify_waiters()
            shared.write_soon()
            return True
        core.is_waiting = True
        return shared.wait(lambda: is_done() or not core.is_waiting, end)
