"""What a store is to do as one, gathered a slice at a time."""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.message import Message

ALIGNMENT: Final = 8  # bytes to which a store may round up each message


class UnitLine:
    """The messages of a unit for one destination, its ``place``-th: ``count`` so far. Once the store has the unit, the
    first of them has the sequence ``first``, and the others those behind it.
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
    """Additions and removals that a store takes all at once (`MessageStore.append_gathered`). Gathering changes nothing
    in the store.

    ``messages[i]`` with the bytes ``payloads[i]`` belongs to ``lines[i]``; ``message_bytes`` is the size of all, each
    rounded up, and ``expiring`` how many of them expire.
    """

    __slots__ = (
        "_by_name", "_last", "_removals_by_name", "_removed", "expiring", "lines", "message_bytes", "messages",
        "payloads",
    )  # fmt: skip

    def __init__(self) -> None:
        self.messages: Final[list[Message]] = []
        self.payloads: Final[list[bytes]] = []
        self.lines: Final[list[UnitLine]] = []
        self.message_bytes = 0
        self.expiring = 0
        self._by_name: Final[dict[str, UnitLine]] = {}
        self._removals_by_name: Final[dict[str, UnitRemovals]] = {}
        self._last: UnitLine | None = None
        self._removed = 0

    def add(self, destination: Destination, message: Message) -> UnitLine:
        """Add ``message``; its place in the line is the line's ``count`` before the call."""
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

    def remove(self, destination: Destination, sequence: int) -> None:
        """Remove a message that the store has."""
        name = destination.qualified_name
        removals = self._removals_by_name.get(name)
        if removals is None:
            removals = UnitRemovals(destination)
            self._removals_by_name[name] = removals
        removals.sequences.append(sequence)
        self._removed += 1

    def additions(self) -> list[tuple[Destination, Message]]:
        """Return what it adds, one by one."""
        return [(line.destination, message) for line, message in zip(self.lines, self.messages, strict=True)]

    def removed(self) -> list[tuple[Destination, int]]:
        """Return what it removes, one by one."""
        return [(own.destination, sequence) for own in self.removals() for sequence in own.sequences]

    def take(self, sequences: list[int]) -> None:
        """The store has it, the messages under these sequences: those of a line follow one another."""
        for line, sequence in zip(reversed(self.lines), reversed(sequences), strict=True):
            line.first = sequence

    @property
    def size(self) -> int:
        """How many messages it adds and removes."""
        return len(self.messages) + self._removed

    def is_empty(self) -> bool:
        """Return True if it neither adds nor removes anything."""
        return not self.messages and not self._removals_by_name

    def targets(self) -> list[UnitLine]:
        """Return each line of ``lines`` once."""
        return list(self._by_name.values())

    def removals(self) -> list[UnitRemovals]:
        """Return what it removes, by destination."""
        return list(self._removals_by_name.values())
