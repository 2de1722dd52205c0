"""Replies to the requests of one connection, by correlation id."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from spanwire.client import Message
from spanwire.client.aio import Connection, Consumer
from spanwire.model.destination import Destination
from spanwire.model.errors import IllegalStateError, JmsError


class Replies:
    """A temporary queue, made for the first request, and the requests that wait for its messages.

    Requests of equal correlation ids get their replies in the order of the requests. A reply that nobody waits for any
    more is dropped.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection
        self._starting: Final = asyncio.Lock()
        self._queue: Destination | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: Final[dict[str, list[asyncio.Future[Message]]]] = {}

    async def queue(self) -> Destination:
        """Return the queue of the replies; the first call creates it. Raises `JmsError`."""
        async with self._starting:
            if self._queue is None or self._task is None or self._task.done():
                session = self._connection.session()
                self._queue = await session.create_temporary_queue()
                consumer = await session.create_consumer(self._queue)
                self._task = asyncio.create_task(self._receive(consumer))
            return self._queue

    @contextmanager
    def expecting(self, correlation_id: str) -> Iterator[asyncio.Future[Message]]:
        """Return a future of the reply, which is expected until the end of the block."""
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(correlation_id, [])
        waiting.append(reply)
        try:
            yield reply
        finally:
            waiting.remove(reply)
            if not waiting:
                self._waiting.pop(correlation_id, None)
            reply.cancel()

    async def close(self) -> None:
        """End the requests that wait, and the task that receives replies."""
        self._fail(IllegalStateError("the connection was closed before the reply came"))
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _receive(self, consumer: Consumer) -> None:
        try:
            async for message in consumer:
                for reply in self._waiting.get(message.correlation_id or "", ()):
                    if not reply.done():
                        reply.set_result(message)
                        break
        except JmsError as error:
            self._fail(error)

    def _fail(self, error: JmsError) -> None:
        for waiting in self._waiting.values():
            for reply in waiting:
                if not reply.done():
                    reply.set_exception(error)
