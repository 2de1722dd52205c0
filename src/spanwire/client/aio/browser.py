"""Queue browser of the asyncio client (JMS 1.1 §4.4.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.aio.consumer import Consumer
from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination

Subscribe = Callable[[Destination | str, ConsumerOptions], Awaitable[Consumer]]


class Browser:
    """Iterates over the messages of a queue from head to tail. The messages stay in the queue."""

    def __init__(self, subscribe: Subscribe, destination: Destination | str, selector: str | None) -> None:
        self._subscribe: Final = subscribe
        self._destination: Final = destination
        self._selector: Final = selector

    async def __aiter__(self) -> AsyncIterator[Message]:
        options = ConsumerOptions(self._selector, browser=True)
        consumer = await self._subscribe(self._destination, options)
        try:
            while (message := await consumer.receive()) is not None:
                yield message
        finally:
            await consumer.close()
