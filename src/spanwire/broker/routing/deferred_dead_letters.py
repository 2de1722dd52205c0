"""Dead messages without room on the disk for their dead letters.

The messages stay in the store until there is room.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext, DeadLetterHandler
from spanwire.broker.dispatch.jobs import Job, StoreReader
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.queue.queue import Queue
from spanwire.model.message import Message

MAX_DETAINED: Final = 10_000  # messages of all queues, about a hundred bytes each
PAGE_MESSAGES: Final = 100  # messages read from the store at a time


class DeadMessage:
    """A dead message: its sequence, the cause of death, and the redelivery count by then."""

    __slots__ = ("cause", "redelivery_count", "sequence")

    def __init__(self, sequence: int, cause: str, redelivery_count: int) -> None:
        self.sequence: Final[int] = sequence
        self.cause: Final[str] = cause
        self.redelivery_count: Final[int] = redelivery_count


class DeferredDeadLetters(Job, StoreReader):
    """Dead messages of one queue, outside of the pending list and of memory. The owner limits the number.

    The queue counts the messages as in flight.
    """

    def __init__(self, queue: Queue, context: BrokerContext, dead_letter_handler: DeadLetterHandler) -> None:
        self._queue: Final[Queue] = queue
        self._context: Final[BrokerContext] = context
        self._dead_letter_handler: Final[DeadLetterHandler] = dead_letter_handler
        self._waiting: Final[deque[DeadMessage]] = deque()
        self._read: list[DeadMessage] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._read)

    def add(self, sequence: int, cause: str, redelivery_count: int) -> None:
        """Add a dead message."""
        self._waiting.append(DeadMessage(sequence, cause, redelivery_count))

    def work(self) -> bool:
        """Read the next page if there is room now; `on_fetched` continues."""
        if self._queue.removed:
            self._waiting.clear()
        store = self._context.store
        if store is None or not self._waiting or self._read or not self._context.store_usage.has_room():
            return False
        while self._waiting and len(self._read) < PAGE_MESSAGES:
            self._read.append(self._waiting.popleft())
        self._context.fetch(self, self._queue.name, [dead.sequence for dead in self._read])
        return False

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Turn the messages of a page into dead letters. The store quarantines unreadable messages."""
        page = self._read
        self._read = []
        queue = self._queue
        for index, message in enumerate(messages):
            dead = page[index]
            if queue.removed:
                break
            if message is None:
                queue.in_flight -= 1
                continue
            queue.hold(message)
            reference = MessageReference(queue, message, dead.sequence, 0, dead.redelivery_count)
            self._dead_letter_handler.dead_letter(reference, dead.cause)
        self._context.schedule(self)
