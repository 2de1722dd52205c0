"""Receiving calls of an asyncio consumer (JMS 1.1 §4.5).

This part of a consumer differs between the shells: tasks wait for futures, and the loop reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from spanwire.client.aio.shared.core_connection import MAX_DELIVERED_PER_TURN, CoreConnection
from spanwire.client.aio.shared.ready import MessageWaiter
from spanwire.client.messages.message import Message
from spanwire.client.protocol.consumer import ClientConsumer


class Receiver(MessageWaiter):
    """Waits for the messages of a consumer."""

    def __init__(self, core: ClientConsumer, shared: CoreConnection) -> None:
        self.core: Final = core
        self._shared: Final = shared
        self._waiters: list[asyncio.Future[None]] = []
        shared.add_message_waiter(core, self)

    def receive_no_wait(self) -> Message | None:
        """Return the next arrived message, or None.

        Returns None, too, while the socket accepts no acknowledgements. Raises `IllegalStateError` for a closed
        consumer.
        """
        shared = self._shared
        shared.check_process()
        if shared.delivered_count >= MAX_DELIVERED_PER_TURN:
            shared.write()
            if shared.delivered_count >= MAX_DELIVERED_PER_TURN:
                return None
        message = self.core.next_message(shared.machine.now())
        if message is not None:
            shared.on_delivered()
        return message

    async def receive(self, timeout: float | None = None) -> Message | None:
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
        asked_at = shared.machine.now()
        if shared.delivered_count >= MAX_DELIVERED_PER_TURN and not await self._has_room(timeout):
            return None
        message = core.next_message(asked_at)
        if message is not None:
            shared.on_delivered()
            return message
        end = None if timeout is None else asked_at.monotonic + timeout
        core.begin_receive()
        while not core.is_ended and not core.is_leaving:
            core.prepare_wait()
            now = shared.machine.now()
            until = core.pull_until(end, now)
            shared.write_soon()
            if until is not None and now.monotonic >= until:
                return None
            await self.woken(self._until(until), now.monotonic)
            message = core.next_message(shared.machine.now())
            if message is not None:
                shared.on_delivered()
                return message
        return None

    async def _has_room(self, timeout: float | None) -> bool:
        """Wait until the socket accepts acknowledgements. Returns False after ``timeout`` seconds."""
        self._shared.write()
        if timeout is not None and timeout <= 0:
            return self._shared.delivered_count < MAX_DELIVERED_PER_TURN
        try:
            async with asyncio.timeout(timeout):
                await self._shared.next_turn()
        except TimeoutError:
            return False
        return True

    def _until(self, end: float | None) -> float | None:
        resume_at = self.core.resume_at
        if resume_at > 0.0:
            return resume_at if end is None else min(end, resume_at)
        return end

    async def woken(self, until: float | None, now: float) -> None:
        """Wait until a message arrives or the consumer fails, or until ``until`` in monotonic seconds."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiters.append(future)
        self.core.is_waiting = True
        self._shared.begin_wait()
        timer = None if until is None else loop.call_later(max(0.0, until - now), _finish, future)
        try:
            await future
        finally:
            self._shared.end_wait()
            if timer is not None:
                timer.cancel()
            if future in self._waiters:
                self._waiters.remove(future)

    def wake(self) -> None:
        """End all waits for messages of this consumer."""
        waiters = self._waiters
        self._waiters = []
        for future in waiters:
            _finish(future)

    async def take_next(self, take: Callable[[Message], bool], is_done: Callable[[], bool], end: float | None) -> bool:
        """Pass the next message to ``take``, or wait for a message or for ``is_done``.

        ``take`` returns True if another waiting call may be done with the message. Returns False at ``end``, in
        monotonic seconds.
        """
        message = self.receive_no_wait()
        if message is not None:
            if take(message):
                self.wake()
            return True
        now = self._shared.machine.now().monotonic
        if end is not None and now >= end:
            return False
        await self.woken(end, now)
        return True


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
