"""Requests of an asyncio connection, and the replies to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from spanwire.client.aio.connection import CoreConnection
from spanwire.client.aio.consumer import Consumer
from spanwire.client.aio.producer import Producer
from spanwire.client.messages.content_types import Body, Properties
from spanwire.client.messages.message import Message
from spanwire.client.messages.requestor import Replies
from spanwire.model.destination import Destination


class ReplySession(Protocol):
    """What a session does for requests."""

    async def create_temporary_queue(self) -> Destination:
        """Where the replies arrive."""
        ...

    async def create_producer(self, destination: None) -> Producer:
        """Who asks."""
        ...

    async def create_consumer(self, destination: Destination) -> Consumer:
        """Who takes the replies."""
        ...


class Requestor:
    """One temporary queue for the replies to all requests of a connection."""

    def __init__(self, shared: CoreConnection, open_session: Callable[[], ReplySession]) -> None:
        self._shared: Final = shared
        self._open_session: Final = open_session
        self._replies: Final = Replies(shared.core.connection_id)
        self._lock: Final = asyncio.Lock()
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._queue: Destination | None = None

    async def request(
        self,
        destination: Destination | str,
        body: Body,
        properties: Properties | None,
        timeout: float | None,
    ) -> Message | None:
        """Send, and wait for the reply; None when the time is over."""
        clock = self._shared.machine
        end = None if timeout is None else clock.now().monotonic + timeout
        async with self._lock:
            if self._consumer is None:
                await self._start()
        assert self._producer is not None
        assert self._consumer is not None
        number = self._replies.expect()
        try:
            await self._producer.send(
                body, properties, destination, correlation_id=number, reply_to=self._queue, wait=False
            )
            while not self._replies.has(number):
                message = self._consumer.receive_no_wait()
                if message is not None:
                    if self._replies.take(message):
                        self._consumer.wake()
                    continue
                now = clock.now().monotonic
                if end is not None and now >= end:
                    return None
                await self._consumer.woken(end, now)
            return self._replies.pop(number)
        finally:
            self._replies.forget(number)

    async def _start(self) -> None:
        session = self._open_session()
        self._queue = await session.create_temporary_queue()
        self._producer = await session.create_producer(None)
        self._consumer = await session.create_consumer(self._queue)
