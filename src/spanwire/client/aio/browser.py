"""A queue browser of an asyncio session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.aio.consumer import Consumer
from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination

Subscribe = Callable[[Destination | str, ConsumerOptions], Awaitable[Consumer]]


class Browser:
    """Reads a queue from its head to its end and leaves it as it is."""

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
