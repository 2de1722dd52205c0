"""Answers withheld until the disk has the changes, in the order of the store's positions."""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr

from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.persistence.store_unit import UnitLine
from spanwire.broker.ports import NO_TOKEN
from spanwire.model.errors import SpanwireError, StoreError
from spanwire.model.message import Message


class WithheldMessage:
    """A message withheld until the store has synced a position.

    ``sequence`` 0 marks a message not in the store, withheld only to keep its order behind stored messages. A message
    of a transaction gets its sequence from ``line``; before, ``sequence`` is the index in the line. Such a message
    counts in ``usage`` until its dispatch.
    """

    __slots__ = ("home", "line", "message", "sequence", "usage")

    def __init__(self, home: BrokerDestination, message: Message, sequence: int) -> None:
        self.home: Final[BrokerDestination] = home
        self.message: Final[Message] = message
        self.sequence = sequence
        self.line: UnitLine | None = None
        self.usage: MemoryUsage | None = None


@mypyc_attr(acyclic=True)
class PendingReply:
    """A reply withheld until the store reaches ``position``, and the messages to dispatch first.

    ``homes`` are the destinations of many ``messages``, or of messages dispatched by the reply itself. Only the reply
    queue refers to the object, so garbage collection need not search for cycles (``acyclic``).
    """

    __slots__ = ("homes", "messages", "output", "position", "token")

    def __init__(
        self, position: int, output: ConnectionOutput, token: int, messages: list[WithheldMessage] | None
    ) -> None:
        self.position: Final[int] = position
        self.output: Final[ConnectionOutput] = output
        self.token: Final[int] = token
        self.messages: Final[list[WithheldMessage] | None] = messages
        self.homes: list[BrokerDestination] | None = None


class ReplyQueue:
    """The queue of withheld replies. Bounded by the unanswered requests of clients."""

    def __init__(self) -> None:
        self._line: Final[deque[PendingReply]] = deque()
        self.stored_position = 0

    def __len__(self) -> int:
        return len(self._line)

    def is_stored(self, position: int) -> bool:
        """Return True if everything up to ``position`` is safe already."""
        return position <= self.stored_position

    def add(self, waiting: PendingReply) -> None:
        """Withhold a reply. Positions must be ascending."""
        self._line.append(waiting)

    def advance(self, position: int) -> list[PendingReply]:
        """Record that everything up to ``position`` is safe; remove and return the replies for these positions."""
        self.stored_position = max(self.stored_position, position)
        ready: list[PendingReply] = []
        while self._line and self._line[0].position <= position:
            ready.append(self._line.popleft())
        return ready

    def refuse_all(self, error: StoreError) -> None:
        """Refuse all withheld requests after a failure of the store."""
        refused = list(self._line)
        self._line.clear()
        for waiting in refused:
            answer(waiting, error)


def answer(waiting: PendingReply, error: SpanwireError | None) -> None:
    """Send the reply to the client."""
    if waiting.token != NO_TOKEN:
        waiting.output.connection.completed(waiting.token, error)
        waiting.output.mark_dirty()
