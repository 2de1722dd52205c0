"""Rolled back messages during the redelivery delay."""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.client.addressing.options import ClientSettings
from spanwire.client.messages.message import Message


class RedeliveryQueue:
    """Rolled back messages by due time.

    ``resume_at`` is the next due time in monotonic seconds, 0 for none.

    Without ``jms.nonBlockingRedelivery`` later messages wait, too: all have one due time, and the order stays.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.is_blocking: Final[bool] = not settings.non_blocking_redelivery
        self.resume_at = 0.0
        self._waiting: Final[list[tuple[float, list[Message]]]] = []

    def put(self, messages: list[Message], now: float, delay_ms: int) -> None:
        """Add messages, to be redelivered in order after ``delay_ms``."""
        due_at = now + delay_ms / 1000
        waiting = self._waiting
        if self.is_blocking and waiting:
            waiting[0] = (due_at, messages + waiting[0][1])
        else:
            index = len(waiting)
            while index > 0 and waiting[index - 1][0] > due_at:
                index -= 1
            waiting.insert(index, (due_at, messages))
        self.resume_at = waiting[0][0]

    def due(self, now: float) -> list[Message]:
        """Return and remove the due messages."""
        due_messages: list[Message] = []
        waiting = self._waiting
        count = 0
        while count < len(waiting) and waiting[count][0] <= now:
            due_messages += waiting[count][1]
            count += 1
        del waiting[:count]
        self.resume_at = waiting[0][0] if waiting else 0.0
        return due_messages

    def messages(self) -> list[Message]:
        """Return all messages."""
        return [message for _, messages in self._waiting for message in messages]

    def last(self) -> Message | None:
        """Return the message with the latest dispatch by the broker, or None."""
        latest: Message | None = None
        for message in self.messages():
            if latest is None or message.broker_sequence > latest.broker_sequence:
                latest = message
        return latest

    def clear(self) -> None:
        """Remove all messages."""
        self._waiting.clear()
        self.resume_at = 0.0


def insert_by_priority(buffer: deque[Message], message: Message, new_count: int) -> None:
    """Insert a message before messages of a lower priority, behind rolled back messages.

    ``new_count`` counts the messages that are not rolled back, ``message`` included.
    """
    index = len(buffer)
    first = index + 1 - new_count
    while index > first and buffer[index - 1].priority < message.priority:
        index -= 1
    buffer.insert(index, message)
