"""A unit of changes that a store applies atomically, collected a slice at a time."""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import Fact, check_fact
from spanwire.model.destination import Destination
from spanwire.model.message import Message

ALIGNMENT: Final = 8  # bytes; a store may round up each message to a multiple


class UnitLine:
    """The messages of a unit for one destination.

    ``place`` is the index of the destination in the unit, ``count`` the number of messages so far. Once the store has
    the unit, ``first`` is the sequence of the first message; the sequences of the others follow.
    """

    __slots__ = ("count", "destination", "first", "place")

    def __init__(self, destination: Destination, place: int) -> None:
        self.destination: Final[Destination] = destination
        self.place: Final[int] = place
        self.count = 0
        self.first = 0


class UnitRemovals:
    """The messages of one destination that a unit removes."""

    __slots__ = ("destination", "sequences")

    def __init__(self, destination: Destination) -> None:
        self.destination: Final[Destination] = destination
        self.sequences: Final[list[int]] = []


class StoreUnit:
    """Additions and removals that a store applies atomically (`UnitStore.append_gathered`).

    The store changes only when the complete unit is appended. ``messages[i]`` with the bytes ``payloads[i]`` belongs to
    ``lines[i]``. ``message_bytes`` is the total size with each message rounded up; ``expiring`` is the number of
    expiring messages. ``facts`` belong to single messages; ``fact_bytes`` is their total size, rounded up as well.
    """

    __slots__ = (
        "_by_name", "_last", "_removals_by_name", "_removed", "expiring", "fact_bytes", "facts", "lines",
        "message_bytes", "messages", "payloads",
    )  # fmt: skip

    def __init__(self) -> None:
        self.messages: Final[list[Message]] = []
        self.payloads: Final[list[bytes]] = []
        self.lines: Final[list[UnitLine]] = []
        self.message_bytes = 0
        self.expiring = 0
        self.facts: Final[list[Fact]] = []
        self.fact_bytes = 0
        self._by_name: Final[dict[str, UnitLine]] = {}
        self._removals_by_name: Final[dict[str, UnitRemovals]] = {}
        self._last: UnitLine | None = None
        self._removed = 0

    def add(self, destination: Destination, message: Message) -> UnitLine:
        """Add ``message``. Its index in the returned line is the line's ``count`` before the call."""
        line = self._last
        if line is None or line.destination is not destination:
            name = destination.qualified_name
            line = self._by_name.get(name)
            if line is None:
                line = UnitLine(destination, len(self._by_name))
                self._by_name[name] = line
            self._last = line
        line.count += 1
        payload = message.encoded()
        self.messages.append(message)
        self.payloads.append(payload)
        self.lines.append(line)
        self.message_bytes += (len(payload) + ALIGNMENT - 1) & -ALIGNMENT
        if message.expiration_ms > 0:
            self.expiring += 1
        return line

    def add_fact(self, fact: Fact) -> None:
        """Add a fact.

        Raises:
            ResourceAllocationError: the fact is too long.
        """
        value = b"" if fact.value is None else fact.value
        check_fact(fact.key, value)
        self.facts.append(fact)
        self.fact_bytes += (len(fact.key) + len(value) + ALIGNMENT - 1) & -ALIGNMENT

    def remove(self, destination: Destination, sequence: int) -> None:
        """Remove a stored message."""
        name = destination.qualified_name
        removals = self._removals_by_name.get(name)
        if removals is None:
            removals = UnitRemovals(destination)
            self._removals_by_name[name] = removals
        removals.sequences.append(sequence)
        self._removed += 1

    def remove_all(self, destination: Destination, sequences: list[int]) -> None:
        """Remove stored messages of one destination."""
        if not sequences:
            return
        name = destination.qualified_name
        removals = self._removals_by_name.get(name)
        if removals is None:
            removals = UnitRemovals(destination)
            self._removals_by_name[name] = removals
        removals.sequences.extend(sequences)
        self._removed += len(sequences)

    def additions(self) -> list[tuple[Destination, Message]]:
        """Return all additions."""
        return [(line.destination, message) for line, message in zip(self.lines, self.messages, strict=True)]

    def removed(self) -> list[tuple[Destination, int]]:
        """Return all removals."""
        return [(own.destination, sequence) for own in self.removals() for sequence in own.sequences]

    def take(self, sequences: list[int]) -> None:
        """Record the sequences that the store assigned. The sequences of a line are consecutive."""
        for line, sequence in zip(reversed(self.lines), reversed(sequences), strict=True):
            line.first = sequence

    @property
    def size(self) -> int:
        """The number of messages added and removed, and of facts."""
        return len(self.messages) + self._removed + len(self.facts)

    def is_empty(self) -> bool:
        """Return True if the unit changes nothing."""
        return not self.messages and not self._removals_by_name and not self.facts

    def targets(self) -> list[UnitLine]:
        """Return each line of ``lines`` once."""
        return list(self._by_name.values())

    def removals(self) -> list[UnitRemovals]:
        """Return the removals by destination."""
        return list(self._removals_by_name.values())
