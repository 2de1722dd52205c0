"""Dry run: counts what a move would do, and shows a sample."""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.selective_walk import Disposal
from spanwire.broker.admin.transfers import Delivering
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.queue.queue import Queue
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message

MAX_SAMPLE: Final = 10  # messages shown of each queue


class Sampled:
    """One message of a sample, with the destination that it would have."""

    __slots__ = ("message_id", "size_bytes", "target", "timestamp_ms")

    def __init__(self, message: Message, made: Message) -> None:
        self.message_id: Final[str] = str(message.message_id)
        self.timestamp_ms: Final[int] = message.timestamp_ms
        self.size_bytes: Final[int] = message.size
        self.target: Final[str] = made.destination.qualified_name


class Previewing(Disposal):
    """Asks ``delivering`` about each message and moves none. ``sample`` has the first messages."""

    def __init__(self, delivering: Delivering) -> None:
        self._delivering: Final[Delivering] = delivering
        self.sample: Final[list[Sampled]] = []

    @property
    def is_blind(self) -> bool:
        """False: each message is looked at."""
        return False

    @property
    def keeps(self) -> bool:
        """True: all messages stay."""
        return True

    def prepare(self, message: Message, sequence: int) -> Message | None:
        """Return the message as it would be delivered."""
        try:
            made = self._delivering.make(message, sequence)
        except (JmsError, ProtocolError):
            return None
        if made is not None and len(self.sample) < MAX_SAMPLE:
            self.sample.append(Sampled(message, made))
        return made

    def dispose(self, queue: Queue, references: list[MessageReference], prepared: list[Message]) -> None:
        """Leave the messages."""
