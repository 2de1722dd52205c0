"""Reads of messages: one consumer, for one message at a time.

An unwanted message goes back to the consumer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Final

from spanwire.client.aio import Connection, Consumer, Session
from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination

UNWATCHED_S: Final = 0.05  # seconds of a read before its client is watched, which takes as long as a short read
PULL: Final = 0  # prefetch: the broker gives a message when a request asks, so an idle consumer holds none


class Reader:
    """A consumer with a session of its own, for one request at a time."""

    def __init__(self, session: Session, consumer: Consumer, destination: Destination, selector: str | None) -> None:
        self._session: Final = session
        self._consumer: Final = consumer
        self.key: Final = str(destination), selector
        self.used_at = 0.0
        self.is_busy = False
        self.is_left = False  # by a client; the broker may still give a message to this consumer

    async def read(self, wait_s: float, is_gone: Callable[[], Awaitable[object]]) -> Message | None:
        """Return the next message, or None after ``wait_s`` seconds or when the client has gone.

        A message for a departed client stays in the queue.

        Args:
            wait_s: seconds.
            is_gone: returns when the client has closed its connection.

        Raises:
            JmsError: the connection to the broker has failed, or the broker has closed the consumer.
        """
        message = await self._consumer.receive(min(wait_s, UNWATCHED_S))
        if message is None:
            return await self._watched(wait_s - UNWATCHED_S, is_gone) if wait_s > UNWATCHED_S else None
        if _is_over(is_gone()):
            self.is_left = True
            await self.put_back()
            return None
        return message

    async def _watched(self, wait_s: float, is_gone: Callable[[], Awaitable[object]]) -> Message | None:
        """Read as `read` does, and end when the client goes."""
        reading = asyncio.ensure_future(self._consumer.receive(wait_s))
        leaving = asyncio.ensure_future(is_gone())
        try:
            await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not leaving.done():
                return await reading
            self.is_left = True
            if reading.done() and reading.exception() is None and reading.result() is not None:
                await self.put_back()
            return None
        finally:
            leaving.cancel()
            reading.cancel()

    async def put_back(self) -> None:
        """Give a read message back, for the next read."""
        await self._session.recover()

    def accept(self, message: Message) -> None:
        """Acknowledge a message after its response has been written."""
        self._session.acknowledge(message)

    async def close(self) -> None:
        """Close the consumer. Messages without an acknowledgement go back to the queue."""
        await self._session.close()


def _is_over(awaitable: Awaitable[object]) -> bool:
    """Return True if ``awaitable`` returns without a wait; otherwise the awaitable is given up."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration:
        return True
    if isinstance(steps, Generator):
        steps.close()
    return False


async def open_reader(
    connection: Connection, destination: Destination, selector: str | None, prefetch: int = PULL
) -> Reader:
    """Return a new consumer.

    Args:
        connection: the user's connection.
        destination: a queue or topic.
        selector: a selector, or None.
        prefetch: messages sent ahead of the acknowledgement.

    Raises:
        JmsError: the broker refuses the consumer; `AuthorizationError` without the right to read.
        InvalidSelectorError: the selector is wrong.
    """
    session = connection.session("individual")
    try:
        consumer = await session.create_consumer(destination, selector, prefetch=prefetch)
    except BaseException:
        await session.close()
        raise
    return Reader(session, consumer, destination, selector)
