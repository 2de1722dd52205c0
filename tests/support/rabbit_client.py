"""Calls to RabbitMQ from code without an event loop of its own, over AMQP 0-9-1."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import aio_pika

T = TypeVar("T")
WAIT_S: Final = 180.0  # of a call, for thousands of messages on a busy machine
MAX_MESSAGES: Final = 10_000  # of a queue that `take` empties


class RabbitClient:
    """Each call connects anew, in a thread, because the caller may run inside an event loop."""

    def __init__(self, url: str) -> None:
        self._url: Final = url

    def declare(self, queue: str, **arguments: Any) -> None:
        """Declare a durable queue, empty."""

        async def call(channel: Any) -> None:
            await channel.queue_delete(queue)
            await channel.declare_queue(queue, durable=True, **arguments)

        self._run(call)

    def send(self, queue: str, bodies: list[bytes], **properties: Any) -> None:
        """Send persistent messages in order, and wait for the confirms of all, which the broker syncs together."""

        async def call(channel: Any) -> None:
            mode = aio_pika.DeliveryMode.PERSISTENT
            messages = [aio_pika.Message(body, delivery_mode=mode, **properties) for body in bodies]
            exchange = channel.default_exchange
            await asyncio.gather(*(exchange.publish(message, routing_key=queue) for message in messages))

        self._run(call)

    def look(self, queue: str) -> list[Any]:
        """Return the messages of a queue, and leave them there."""
        return self._run(lambda channel: _get_all(channel, queue))

    def take(self, queue: str) -> list[Any]:
        """Return the messages of a queue, and remove them."""

        async def call(channel: Any) -> list[Any]:
            messages = await _get_all(channel, queue)
            if messages:
                await messages[-1].channel.basic_ack(messages[-1].delivery_tag, multiple=True)
            return messages

        return self._run(call)

    def delete(self, queue: str) -> None:
        """Delete a queue, if it is there."""

        async def call(channel: Any) -> None:
            await channel.queue_delete(queue)

        self._run(call)

    def _run(self, call: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        async def whole() -> T:
            connection = await aio_pika.connect(self._url)
            async with connection:
                return await call(await connection.channel())

        results: list[T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(asyncio.run(whole()))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(WAIT_S)
        if errors:
            raise errors[0]
        assert results, "RabbitMQ does not answer"
        return results[0]


async def _get_all(channel: Any, name: str) -> list[Any]:
    try:
        queue = await channel.get_queue(name)
    except aio_pika.exceptions.ChannelNotFoundEntity:
        return []
    messages: list[Any] = []
    while len(messages) < MAX_MESSAGES and (message := await queue.get(no_ack=False, fail=False)) is not None:
        messages.append(message)
    return messages
