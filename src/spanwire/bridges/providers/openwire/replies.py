"""Temporary queues of a target's connection for replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.openwire.messages import bridge_message, outgoing_message
from spanwire.client.aio.connection import Connection
from spanwire.client.aio.consumer import Consumer
from spanwire.client.aio.producer import Producer
from spanwire.client.aio.session import Session
from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination


class ReplyQueues:
    """The temporary queues of one connection, each with a consumer."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final[Connection] = connection
        self._session: Session | None = None
        self._consumers: Final[dict[Destination, Consumer]] = {}

    async def open(self, on_reply: Callable[[BridgeMessage], Awaitable[None]]) -> Destination:
        """Create a queue; a message is acknowledged when ``on_reply`` returns."""
        if self._session is None:
            self._session = self._connection.session("auto")
        queue = await self._session.create_temporary_queue()
        consumer = await self._session.create_consumer(queue)

        async def listener(message: Message) -> None:
            await on_reply(bridge_message(message))

        consumer.listen(listener, lambda error: None)  # the bridge notices a lost connection by itself
        self._consumers[queue] = consumer
        return queue

    async def close(self, queue: Destination) -> None:
        """Remove a queue."""
        assert self._session is not None
        await self._consumers.pop(queue).close()
        await self._session.delete_temporary(queue)


class ReplySender:
    """Sends replies over a source's connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final[Connection] = connection
        self._session: Session | None = None
        self._producer: Producer | None = None

    async def send(self, message: BridgeMessage, destination: Destination) -> None:
        """Send a reply, and wait for the response of the broker."""
        if self._producer is None:
            self._session = self._session or self._connection.session("auto")
            self._producer = await self._session.create_producer()
        shared = self._connection.shared
        async with shared.ready():
            await shared.wait_writable(None)
            wall_ms = shared.machine.now().wall_ms
            request = self._producer.core.send(outgoing_message(message, destination), True, wall_ms)
            if request is not None:
                await shared.answer(request)

    async def close(self) -> None:
        """Close the session, which a connection with other users would keep."""
        if self._session is not None:
            await self._session.close()
