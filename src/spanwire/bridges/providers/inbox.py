"""Received messages between the reader of a connection and the bridge."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

from spanwire.model.errors import JmsError
from spanwire.model.units import MIB

MAX_OCTETS: Final = (
    64 * 1024 * 1024
)  # octets of waiting messages at which a reader pauses; a credit alone bounds no memory
# Octets of waiting messages of ActiveMQ Classic, which may change the order of messages that it takes back.
MAX_IN_ORDER: Final = 8 * MAX_OCTETS
MAX_FLOOD: Final = 16 * MAX_OCTETS  # octets of a sender that keeps to no limit; a credit of messages is below
OVERHEAD: Final = 500  # octets of a waiting message beside its content, so that empty ones count

T = TypeVar("T")


class Inbox(Generic[T]):
    """Messages that have arrived and are not taken yet. The broker's credit bounds their number.

    ``octets`` are the octets of all messages, so that a reader can pause at `MAX_OCTETS`. Not each reader can: the
    answers that a bridge waits for stand behind messages. A broker that ignores its credit is left at `MAX_FLOOD`.
    """

    def __init__(self) -> None:
        self.octets = 0
        self._items: Final[deque[tuple[T, int]]] = deque()
        self._changed: Final = asyncio.Event()
        self._error: JmsError | None = None
        self._load = 0  # octets with `OVERHEAD`

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T, octets: int) -> None:
        """Add a message; beyond `MAX_FLOOD` drop all, and fail. Unacknowledged messages stay at their broker."""
        self._items.append((item, octets))
        self.octets += octets
        self._load += octets + OVERHEAD
        if self._load > MAX_FLOOD:
            count = len(self._items)
            self._items.clear()
            self.octets = self._load = 0
            self.fail(
                JmsError(
                    f"{count} messages wait, more than {MAX_FLOOD // MIB} MiB: the broker sends what nobody has asked "
                    "for, or maxBatchSize is too large for them"
                )
            )
        self._changed.set()

    def fail(self, error: JmsError) -> None:
        """Let all further calls of `take` and `check` raise an error; the first error counts."""
        if self._error is None:
            self._error = error
        self._changed.set()

    def check(self) -> None:
        """Raise the error of `fail`."""
        if self._error is not None:
            raise JmsError(str(self._error))

    async def take(self, max_items: int, max_octets: int, wait_s: float) -> list[T]:
        """Wait for the first message, then take all messages at hand.

        The limits are those of `MessageSource.receive`.

        A cancelled call takes no message. Raises `JmsError` after `fail`.
        """
        self.check()
        if not self._items:
            self._changed.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                return []
            self.check()
        taken: list[T] = []
        room = max_octets
        while self._items and len(taken) < max_items and (room > 0 or not taken):
            if taken and self._items[0][1] > room:
                break
            item, octets = self._items.popleft()
            self.octets -= octets
            self._load -= octets + OVERHEAD
            room -= octets
            taken.append(item)
        return taken
