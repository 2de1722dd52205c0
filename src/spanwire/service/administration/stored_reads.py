"""Reads of stored messages for operators, beside the reads of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from spanwire.broker.ports import Store
from spanwire.model.destination import Destination
from spanwire.model.message import Message


class StoredReads:
    """Requests with negative numbers, distinct from the positive numbers of the broker.

    ``wake`` lets the loop hand a request to the store.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake: Final = wake
        self._replies: Final[dict[int, asyncio.Future[list[Message | None]]]] = {}
        self._last = 0

    async def read(self, store: Store | None, destination: Destination, sequences: list[int]) -> list[Message | None]:
        """Return messages of a queue from the store; None for a message removed meanwhile."""
        if store is None or not sequences:
            return [None] * len(sequences)
        self._last -= 1
        reply: asyncio.Future[list[Message | None]] = asyncio.get_running_loop().create_future()
        self._replies[self._last] = reply
        store.fetch(self._last, destination, sequences)
        self._wake()
        return await reply

    def take(self, request: int, messages: list[Message | None]) -> bool:
        """Answer a request; False for a request of the broker."""
        reply = self._replies.pop(request, None)
        if reply is None:
            return False
        if not reply.done():
            reply.set_result(messages)
        return True
