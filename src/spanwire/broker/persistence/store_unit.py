"""A unit of changes that a store applies atomically, collected a slice at a time."""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.metadata import MetadataRecord, check_metadata
from spanwire.model.destination import Destination
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message

ALIGNMENT: Final = 8  # bytes; a store may round up each message to a multiple
LEAST_STRETCH: Final = 8  # average messages of a stretch (consecutive, for one queue), which takes 80 bytes moved


class UnitAdditions:
    """The messages of a unit for one destination.

    ``index`` is the index of the destination in the unit, ``count`` the number of messages so far. Once the store has
    the unit, ``first`` is the sequence of the first message; the sequences of the others follow.
    """

    __slots__ = ("count", "destination", "first", "index")

    def __init__(self, destination: Destination, index: int) -> None:
        self.destination: Final[Destination] = destination
        self.index: Final[int] = index
        self.count = 0
        self.first = 0


class UnitRemovals:
    """The messages of one destination to be removed by a unit, by a way out of the ledger."""

    __slots__ = ("destination", "sequences", "way")

    def __init__(self, destination: Destination, way: int) -> None:
        self.destination: Final[Destination] = destination
        self.sequences: Final[list[int]] = []
        self.way: Final[int] = way


class Transfer:
    """Moves the messages with ``sequences`` from ``source`` to ``target``, in order.

    Each sequence occurs once.
    """

    __slots__ = ("sequences", "source", "target")

    def __init__(self, source: Destination, sequences: list[int], target: Destination) -> None:
        self.source: Final[Destination] = source
        self.sequences: Final[list[int]] = sequences
        self.target: Final[Destination] = target


class UnitTransfer:
    """Stored messages of ``source``, in ascending order.

    A unit moves the messages to the destination of ``additions``.

    Run ``i`` has ``counts[i]`` consecutive sequences from ``firsts[i]`` on. The first message is the message ``index``
    of ``additions``.
    """

    __slots__ = ("additions", "count", "counts", "firsts", "index", "source")

    def __init__(self, source: Destination, additions: UnitAdditions) -> None:
        self.source: Final[Destination] = source
        self.additions: Final[UnitAdditions] = additions
        self.index: Final[int] = additions.count
        self.firsts: Final[array[int]] = array("q")
        self.counts: Final[array[int]] = array("q")
        self.count = 0

    @property
    def first(self) -> int:
        """The new sequence of the first message, once the store has the unit."""
        return self.additions.first + self.index

    def add(self, sequences: list[int]) -> None:
        """Append sequences in ascending order."""
        count = len(sequences)
        self.count += count
        self.additions.count += count
        if count > 0 and sequences[-1] - sequences[0] == count - 1:
            self._add_run(sequences[0], count)
            return
        for sequence in sequences:
            self._add_run(sequence, 1)

    def add_next(self, sequence: int) -> None:
        """Append one sequence above all others."""
        self.count += 1
        self.additions.count += 1
        self._add_run(sequence, 1)

    def _add_run(self, first: int, count: int) -> None:
        counts = self.counts
        if len(counts) > 0 and self.firsts[-1] + counts[-1] == first:
            counts[-1] += count
        else:
            self.firsts.append(first)
            counts.append(count)

    def transfer(self) -> Transfer:
        """Return all sequences one by one."""
        sequences: list[int] = []
        for run, first in enumerate(self.firsts):
            sequences.extend(range(first, first + self.counts[run]))
        return Transfer(self.source, sequences, self.additions.destination)


class StoreUnit:
    """Additions, transfers and removals that a store applies atomically (`UnitStore.append_gathered`).

    The store changes only when the complete unit is appended. ``messages[i]`` with the bytes ``payloads[i]`` belongs to
    ``additions_of[i]``. ``message_bytes`` is the total size with each message rounded up; ``expiring`` is the number
    of expiring messages. ``metadata`` are records that belong to single messages; ``metadata_bytes`` is their total
    size, rounded up as well. A unit has messages or ``transfers``, not both.
    """

    __slots__ = (
        "_by_name",
        "_last",
        "_removals_by_name",
        "_removed",
        "additions_of",
        "expiring",
        "has_deaths",
        "message_bytes",
        "messages",
        "metadata",
        "metadata_bytes",
        "payloads",
        "transfers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.messages: Final[list[Message]] = []
        self.payloads: Final[list[bytes]] = []
        self.additions_of: Final[list[UnitAdditions]] = []
        self.message_bytes = 0
        self.expiring = 0
        self.has_deaths = False  # it removes messages that are not acknowledged
        self.metadata: Final[list[MetadataRecord]] = []
        self.metadata_bytes = 0
        self.transfers: Final[list[UnitTransfer]] = []
        self._by_name: Final[dict[str, UnitAdditions]] = {}
        self._removals_by_name: Final[dict[str, UnitRemovals]] = {}
        self._last: UnitAdditions | None = None
        self._removed = 0

    def add(self, destination: Destination, message: Message) -> UnitAdditions:
        """Add ``message``. The index in the returned additions is ``count`` before the call."""
        additions = self._additions(destination)
        additions.count += 1
        payload = message.encoded()
        self.messages.append(message)
        self.payloads.append(payload)
        self.additions_of.append(additions)
        self.message_bytes += (len(payload) + ALIGNMENT - 1) & -ALIGNMENT
        if message.expiration_ms > 0:
            self.expiring += 1
        return additions

    def _additions(self, destination: Destination) -> UnitAdditions:
        additions = self._last
        if additions is None or additions.destination is not destination:
            name = destination.qualified_name
            additions = self._by_name.get(name)
            if additions is None:
                additions = UnitAdditions(destination, len(self._by_name))
                self._by_name[name] = additions
            self._last = additions
        return additions

    def transfer(self, source: Destination, target: Destination) -> UnitTransfer:
        """Return a new transfer from ``source``, without messages.

        Only the last transfer to a target may grow.
        """
        transfer = UnitTransfer(source, self._additions(target))
        self.transfers.append(transfer)
        return transfer

    def add_metadata(self, metadata_record: MetadataRecord) -> None:
        """Add a metadata record.

        Raises:
            ResourceAllocationError: the metadata record is too long.
        """
        value = b"" if metadata_record.value is None else metadata_record.value
        check_metadata(metadata_record.key, value)
        self.metadata.append(metadata_record)
        self.metadata_bytes += (len(metadata_record.key) + len(value) + ALIGNMENT - 1) & -ALIGNMENT

    def remove(self, destination: Destination, sequence: int, way: int = ACKNOWLEDGED) -> None:
        """Remove a stored message, by a way of `spanwire.model.ledger`."""
        self._removals(destination, way).sequences.append(sequence)
        self._removed += 1

    def remove_all(self, destination: Destination, sequences: list[int], way: int = ACKNOWLEDGED) -> None:
        """Remove stored messages of one destination."""
        if sequences:
            self._removals(destination, way).sequences.extend(sequences)
            self._removed += len(sequences)

    def _removals(self, destination: Destination, way: int) -> UnitRemovals:
        name = destination.qualified_name
        if way != ACKNOWLEDGED:
            self.has_deaths = True
            name = f"{way} {name}"
        removals = self._removals_by_name.get(name)
        if removals is None:
            removals = UnitRemovals(destination, way)
            self._removals_by_name[name] = removals
        return removals

    def additions(self) -> list[tuple[Destination, Message]]:
        """Return all additions."""
        return [
            (additions.destination, message)
            for additions, message in zip(self.additions_of, self.messages, strict=True)
        ]

    def removed(self) -> list[tuple[Destination, int]]:
        """Return all removals."""
        return [(own.destination, sequence) for own in self.removals() for sequence in own.sequences]

    def take(self, sequences: list[int]) -> None:
        """Record the sequences that the store assigned. The sequences of one destination are consecutive."""
        for additions, sequence in zip(reversed(self.additions_of), reversed(sequences), strict=True):
            additions.first = sequence

    def take_transferred(self, firsts: list[int]) -> None:
        """Record the first sequence that the store assigned to each transfer."""
        for transfer, first in zip(self.transfers, firsts, strict=True):
            transfer.additions.first = first - transfer.index

    @property
    def moved(self) -> int:
        """Number of moved messages."""
        return sum([transfer.count for transfer in self.transfers])

    @property
    def size(self) -> int:
        """The number of messages added, moved and removed, and of metadata records."""
        return len(self.messages) + self.moved + self._removed + len(self.metadata)

    def is_empty(self) -> bool:
        """Return True if the unit has no changes."""
        return not (self.messages or self.transfers or self._removals_by_name or self.metadata)

    def targets(self) -> list[UnitAdditions]:
        """Return the additions of each destination once."""
        return list(self._by_name.values())

    def removals(self) -> list[UnitRemovals]:
        """Return the removals by destination."""
        return list(self._removals_by_name.values())
