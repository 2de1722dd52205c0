"""Requests that wait for replies, by correlation id (JMS 1.1 §4.11, QueueRequestor)."""

from __future__ import annotations

from typing import Final

from spanwire.client.messages.message import Message


class Replies:
    """Which replies are expected, and those that came for others than who looked. The rest is dropped: nobody waits."""

    def __init__(self, connection_id: str) -> None:
        self._prefix: Final[str] = f"{connection_id}:request-"
        self._last = 0
        self._expected: Final[dict[str, Message | None]] = {}

    def expect(self) -> str:
        """A correlation id for a new request."""
        self._last += 1
        number = f"{self._prefix}{self._last}"
        self._expected[number] = None
        return number

    def take(self, message: Message) -> bool:
        """Keep a reply that somebody waits for."""
        number = message.correlation_id
        if number is None or number not in self._expected:
            return False
        self._expected[number] = message
        return True

    def has(self, number: str) -> bool:
        """Whether the reply is there."""
        return self._expected.get(number) is not None

    def pop(self, number: str) -> Message | None:
        """The reply."""
        return self._expected.pop(number, None)

    def forget(self, number: str) -> None:
        """Nobody waits any more."""
        self._expected.pop(number, None)
