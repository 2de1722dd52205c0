"""Dry run: counts the effects of a move, and shows a sample."""

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
    """One message of a sample, with the imagined destination."""

    __slots__ = ("message_id", "size_bytes", "target", "timestamp_ms")

    def __init__(self, message: Message, made: Message) -> None:
        self.message_id: Final[str] = str(message.message_id)
        self.timestamp_ms: Final[int] = message.timestamp_ms
        self.size_bytes: Final[int] = message.size
        self.target: Final[str] = made.destination.qualified_name


class Previewing(Disposal):
    """Asks ``delivering`` about each message, and leaves all in place. ``sample`` has the first ones."""

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

    @property
    def must_wait(self) -> bool:
        """False: a dry run needs no room."""
        return False

    def wants(self, sequence: int) -> bool:
        """Return True: all messages are looked at."""
        return True

    def is_done(self, message: Message) -> bool:
        """Return False: a message is looked at once."""
        return False

    def prepare(self, message: Message, sequence: int) -> Message | None:
        """Return the message in the form of a delivery."""
        try:
            made = self._delivering.make(message, sequence)
        except (JmsError, ProtocolError):
            return None
        if made is not None and len(self.sample) < MAX_SAMPLE:
            self.sample.append(Sampled(message, made))
        return made

    def dispose(self, queue: Queue, references: list[MessageReference], prepared: list[Message]) -> None:
        """Leave the messages."""

    def rest_seconds(self) -> float:
        """Return 0: a dry run writes no message."""
        return 0.0

    def most(self) -> int:
        """Return the messages of one read."""
        return PAGE_MESSAGES
