"""Delivered messages of a reader that never has them again: only what their acknowledgement needs stays in memory."""

from __future__ import annotations

from spanwire.client.message import Message


class UnkeptMessages:
    """What is known of delivered messages that nobody keeps."""

    def __init__(self) -> None:
        self.first: Message | None = None
        self.last: Message | None = None
        self.count = 0

    def add(self, message: Message) -> None:
        """One more was delivered."""
        if self.first is None:
            self.first = message
        self.last = message
        self.count += 1

    def forget(self) -> None:
        """They are acknowledged, or their connection is gone."""
        self.first = self.last = None
        self.count = 0
