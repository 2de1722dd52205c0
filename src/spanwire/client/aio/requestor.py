"""Requests and replies of an asyncio connection (JMS 1.1, QueueRequestor)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from spanwire.client.aio.consumer import Consumer
from spanwire.client.aio.producer import Producer
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.messages.content_types import Body, Properties
from spanwire.client.messages.message import Message
from spanwire.client.messages.requestor import Replies
from spanwire.model.destination import Destination
from spanwire.model.errors import IllegalStateError


class ReplySession(Protocol):
    """Port: the session methods that a `Requestor` calls."""

    async def create_temporary_queue(self) -> Destination:
        """Create the queue of the replies."""
        ...

    async def create_producer(self, destination: None) -> Producer:
        """Create the producer of the requests."""
        ...

    async def create_consumer(self, destination: Destination) -> Consumer:
        """Create the consumer of the replies."""
        ...


@dataclass(frozen=True)
class _Ends:
    queue: Destination
    producer: Producer
    consumer: Consumer


class Requestor:
    """Sends requests and waits for replies, with one temporary queue per connection."""

    def __init__(self, shared: CoreConnection, open_session: Callable[[], ReplySession]) -> None:
        self._shared: Final = shared
        self._open_session: Callable[[], ReplySession] | None = open_session
        self._replies: Final = Replies(shared.core.connection_id)
        self._starting: Final = asyncio.Lock()
        self._ends: _Ends | None = None

    def end(self) -> None:
        """Forget the closed connection and the own session, which refer to this requestor."""
        self._open_session = None
        self._ends = None

    async def reply_queue(self) -> Destination:
        """Return the temporary queue of the replies; the first call creates the queue."""
        ends = await self._started()
        return ends.queue

    async def _started(self) -> _Ends:
        async with self._starting:
            if self._ends is None:
                if self._open_session is None:
                    raise IllegalStateError("the connection is closed")
                session = self._open_session()
                queue = await session.create_temporary_queue()
                producer = await session.create_producer(None)
                self._ends = _Ends(queue, producer, await session.create_consumer(queue))
            return self._ends

    async def request(
        self,
        destination: Destination | str,
        body: Body,
        properties: Properties | None,
        timeout: float | None,
    ) -> Message | None:
        """Send a request and wait for its reply. Returns None after ``timeout`` seconds."""
        clock = self._shared.machine
        end = None if timeout is None else clock.now().monotonic + timeout
        ends = await self._started()
        with self._shared.lock:
            number = self._replies.expect()
        try:
            await ends.producer.send(
                body,
                properties,
                destination,
                correlation_id=number,
                reply_to=ends.queue,
                wait=False,
            )
            with self._shared.lock:
                while not self._replies.has(number):
                    if not await ends.consumer.take_next(self._replies.take, lambda: self._replies.has(number), end):
                        return None
            return self._replies.pop(number)
        finally:
            self._replies.forget(number)
