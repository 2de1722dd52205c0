"""Pending requests by correlation id (JMS 1.1 §4.11, QueueRequestor)."""

from __future__ import annotations

from typing import Final

from spanwire.client.messages.message import Message


class Replies:
    """Expected replies, and those that have arrived. Unexpected replies are dropped."""

    def __init__(self, connection_id: str) -> None:
        self._prefix: Final[str] = f"{connection_id}:request-"
        self._last = 0
        self._expected: Final[dict[str, Message | None]] = {}

    def expect(self) -> str:
        """Return the correlation id of a new request."""
        self._last += 1
        number = f"{self._prefix}{self._last}"
        self._expected[number] = None
        return number

    def take(self, message: Message) -> bool:
        """Keep an expected reply. Returns False for any other message."""
        number = message.correlation_id
        if number is None or number not in self._expected:
            return False
        self._expected[number] = message
        return True

    def has(self, number: str) -> bool:
        """Return True if the reply has arrived."""
        return self._expected.get(number) is not None

    def pop(self, number: str) -> Message | None:
        """Return and remove the reply."""
        return self._expected.pop(number, None)

    def forget(self, number: str) -> None:
        """Expect the reply no longer."""
        self._expected.pop(number, None)
