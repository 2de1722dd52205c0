"""Answers that wait for the disk, in the order of the positions they wait for."""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr

from spanwire.broker.dispatch.connection_output import Outlet
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.persistence.store_unit import UnitLine
from spanwire.broker.ports import NO_TOKEN
from spanwire.model.errors import SpanwireError
from spanwire.model.message import Message


class WithheldMessage:
    """A message that may only be dispatched once everything up to some position is safe: its destination, itself, its
    sequence (0: the store does not have it, it only keeps its place behind one that waits). One of a transaction has
    its sequence in the ``line`` of a unit, counted from 0, and counts in ``usage`` until it is dispatched.
    """

    __slots__ = ("home", "line", "message", "sequence", "usage")

    def __init__(self, home: BrokerDestination, message: Message, sequence: int) -> None:
        self.home: Final[BrokerDestination] = home
        self.message: Final[Message] = message
        self.sequence = sequence
        self.line: UnitLine | None = None
        self.usage: MemoryUsage | None = None


@mypyc_attr(acyclic=True)
class Waiting:
    """One answer, and what is to be dispatched just before it is given: ``messages``, or what the answer itself lets
    into ``homes``. Many messages come with their ``homes``, too. The line that it waits in is all that knows of it, and
    lets it go, so that it need not be looked through for cycles (``acyclic``).
    """

    __slots__ = ("homes", "messages", "outlet", "position", "token")

    def __init__(self, position: int, outlet: Outlet, token: int, messages: list[WithheldMessage] | None) -> None:
        self.position: Final[int] = position
        self.outlet: Final[Outlet] = outlet
        self.token: Final[int] = token
        self.messages: Final[list[WithheldMessage] | None] = messages
        self.homes: list[BrokerDestination] | None = None


class WaitingLine:
    """The answers that wait. Bounded by what clients have asked for and not been told: each waits for its own
    answer.
    """

    def __init__(self) -> None:
        self._line: Final[deque[Waiting]] = deque()
        self.stored_position = 0

    def __len__(self) -> int:
        return len(self._line)

    def is_stored(self, position: int) -> bool:
        """Whether everything up to ``position`` is safe already."""
        return position <= self.stored_position

    def add(self, waiting: Waiting) -> None:
        """Answer later; positions are asked for in ascending order."""
        self._line.append(waiting)

    def advance(self, position: int) -> list[Waiting]:
        """Everything up to ``position`` is safe: take what waited for it."""
        self.stored_position = max(self.stored_position, position)
        ready: list[Waiting] = []
        while self._line and self._line[0].position <= position:
            ready.append(self._line.popleft())
        return ready

    def take_all(self) -> list[Waiting]:
        """Everything, when the store has failed."""
        ready = list(self._line)
        self._line.clear()
        return ready


def answer(waiting: Waiting, error: SpanwireError | None) -> None:
    """Tell the client."""
    if waiting.token != NO_TOKEN:
        waiting.outlet.connection.completed(waiting.token, error)
        waiting.outlet.mark_dirty()
