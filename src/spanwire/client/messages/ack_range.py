"""Range of delivered messages, for an acknowledgement without retained messages."""

from __future__ import annotations

from spanwire.client.messages.message import Message


class AckRange:
    """First and last message of a range, and the message between them to acknowledge last.

    The message to acknowledge last is the last persistent message, or the first message of a range without persistent
    messages.
    """

    def __init__(self) -> None:
        self.first: Message | None = None
        self.last: Message | None = None
        self.count = 0
        self.stored: Message | None = None
        self.before: Message | None = None  # neighbours of ``stored``
        self.after: Message | None = None
        self.before_count = 0

    def add(self, message: Message) -> None:
        """Add a delivered message."""
        if message.persistent or self.stored is None:
            self.before = self.last
            self.before_count = self.count
            self.stored = message
            self.after = None
        elif self.after is None:
            self.after = message
        if self.first is None:
            self.first = message
        self.last = message
        self.count += 1

    def forget(self) -> None:
        """Empty the range after an acknowledgement of all messages, or after a lost link."""
        self.first = self.last = self.stored = self.before = self.after = None
        self.count = self.before_count = 0
