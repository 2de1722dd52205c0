"""Answers withheld until the disk has the changes, in the order of the store's positions."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr, trait

from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.persistence.store_unit import UnitAdditions
from spanwire.broker.ports import NO_TOKEN
from spanwire.model.errors import SpanwireError, StoreError
from spanwire.model.message import Message


class WithheldMessage:
    """A message withheld until the store has synced a position.

    ``sequence`` 0 marks a message not in the store, withheld only to keep the order behind stored messages. A message
    of a transaction gets the sequence from ``additions``; before, ``sequence`` is the index in ``additions``. A message
    with ``usage`` counts there until the dispatch.
    """

    __slots__ = ("additions", "destination", "message", "sequence", "usage")

    def __init__(self, destination: BrokerDestination, message: Message, sequence: int) -> None:
        self.destination: Final[BrokerDestination] = destination
        self.message: Final[Message] = message
        self.sequence = sequence
        self.additions: UnitAdditions | None = None
        self.usage: MemoryUsage | None = None


@trait
class Arrivals:
    """Messages in the store alone, appended to destinations after the store has synced a position."""

    @abstractmethod
    def enter(self, at_most: int) -> int:
        """Append the next messages to the destinations, in about ``at_most`` steps.

        Returns:
            The number of steps, 0 if no message is left.
        """


@mypyc_attr(acyclic=True)
class PendingReply:
    """A reply withheld until the store reaches ``position``, and the messages to dispatch first.

    ``destinations`` are the destinations of many ``messages``, or those of ``arrivals``. Only the reply queue refers to
    the object, so garbage collection need not search for cycles (``acyclic``).
    """

    __slots__ = ("arrivals", "destinations", "messages", "output", "position", "token")

    def __init__(
        self, position: int, output: ConnectionOutput, token: int, messages: list[WithheldMessage] | None
    ) -> None:
        self.position: Final[int] = position
        self.output: Final[ConnectionOutput] = output
        self.token: Final[int] = token
        self.messages: Final[list[WithheldMessage] | None] = messages
        self.destinations: list[BrokerDestination] | None = None
        self.arrivals: Arrivals | None = None


class ReplyQueue:
    """The queue of withheld replies. Bounded by the unanswered requests of clients."""

    def __init__(self) -> None:
        self._replies: Final[deque[PendingReply]] = deque()
        self.stored_position = 0

    def __len__(self) -> int:
        return len(self._replies)

    def withheld(self) -> list[WithheldMessage]:
        """Return the messages that wait for a sync, for an operator."""
        entries: list[WithheldMessage] = []
        for reply in self._replies:
            if reply.messages is not None:
                entries.extend(reply.messages)
        return entries

    def is_stored(self, position: int) -> bool:
        """Return True if the store has synced up to ``position``."""
        return position <= self.stored_position

    def add(self, reply: PendingReply) -> None:
        """Withhold a reply. Positions must be ascending."""
        self._replies.append(reply)

    def advance(self, position: int) -> list[PendingReply]:
        """Record a sync up to ``position``, and remove and return the replies up to there."""
        self.stored_position = max(self.stored_position, position)
        ready: list[PendingReply] = []
        while self._replies and self._replies[0].position <= position:
            ready.append(self._replies.popleft())
        return ready

    def refuse_all(self, error: StoreError) -> None:
        """Refuse all withheld requests after a failure of the store."""
        refused = list(self._replies)
        self._replies.clear()
        for reply in refused:
            answer(reply, error)


def answer(reply: PendingReply, error: SpanwireError | None) -> None:
    """Send the reply to the client."""
    if reply.token != NO_TOKEN:
        reply.output.connection.on_completed(reply.token, error)
        reply.output.mark_dirty()
