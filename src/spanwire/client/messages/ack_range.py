"""Delivered messages of a reader that never has them again: only what their acknowledgement needs stays in memory."""

from __future__ import annotations

from spanwire.client.messages.message import Message


class AckRange:
    """What is known of delivered messages that nobody keeps: the ends of two ranges, and the one between them, which is
    the last that the broker has on its disk, or the first when it has none of them there.
    """

    def __init__(self) -> None:
        self.first: Message | None = None
        self.last: Message | None = None
        self.count = 0
        self.stored: Message | None = None
        self.before: Message | None = None  # the neighbours of ``stored``
        self.after: Message | None = None
        self.before_count = 0

    def add(self, message: Message) -> None:
        """One more was delivered."""
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
        """They are acknowledged, or their connection is gone."""
        self.first = self.last = self.stored = self.before = self.after = None
        self.count = self.before_count = 0
