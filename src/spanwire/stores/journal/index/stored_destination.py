"""Destinations of the journal, and entries for records that are still to be written."""

from __future__ import annotations

from array import array
from typing import Final

from mypy_extensions import mypyc_attr

from spanwire.broker.persistence.store_unit import StoreUnit, UnitTransfer
from spanwire.model.destination import Destination
from spanwire.model.ledger import Sums
from spanwire.model.message import Message
from spanwire.stores.journal.index.sequences import GONE, SequenceIndex
from spanwire.stores.journal.segments.record import TRANSFER, record_size
from spanwire.stores.journal.segments.transfers import TransferRuns, encode_transfer

NOTE_BYTES: Final = record_size(4)
TRANSFER_WEIGHT: Final = 32  # records; encoding a transfer takes the time of so many, and of one for each message
UNIT: Final = 255  # kind of the entry of a gathered unit; never on the disk


class StoredDestination:
    """A destination of the journal. ``high`` is the highest sequence given out.

    ``is_removed`` is True from the removing call on: nobody reads stored or waiting messages any more.
    """

    __slots__ = (
        "arriving",
        "departing",
        "destination",
        "high",
        "index",
        "is_removed",
        "leaving",
        "ledger_bytes",
        "moving",
        "note_locations",
        "notes",
        "number",
        "record_bytes",
        "sums",
        "unwritten",
    )

    def __init__(self, number: int, destination: Destination, high: int) -> None:
        self.number: Final[int] = number
        self.destination: Final[Destination] = destination
        self.high = high
        self.is_removed = False
        name = destination.qualified_name.encode("utf-8", "surrogatepass")
        self.record_bytes = record_size(len(name))  # of its records in a check-point
        self.sums: Final[Sums] = Sums()  # of the written records
        self.ledger_bytes = 0  # of the records of ``sums``, a part of ``record_bytes``
        self.departing = 0  # messages that the index has no more, and whose removals wait in the queue
        self.index: Final[SequenceIndex] = SequenceIndex()
        self.notes: Final[dict[int, int]] = {}  # redelivery counts, filled by recovery alone
        self.note_locations: Final[dict[int, int]] = {}  # where the redelivery count in force lies
        self.unwritten: Final[dict[int, Entry]] = {}  # appended, and not yet known to be on the disk
        self.leaving: Final[set[int]] = set()  # going, by a record that stands in the queue behind its message
        self.arriving: Final[list[Arrival]] = []  # from other destinations, by records that are not written yet
        self.moving: Final[dict[int, int]] = {}  # where a message will lie once the write that is under way is done

    def has(self, sequence: int) -> bool:
        """Return True if the message exists."""
        if self.is_removed:
            return False
        if sequence in self.unwritten:
            return True
        if self.index.find(sequence) == GONE and not (self.arriving and self.arrives(sequence)):
            return False
        return sequence not in self.leaving

    def has_all(self, sequences: list[int]) -> bool:
        """Return True if all messages are on the disk and stay; False if only `has` can decide."""
        if self.unwritten or self.leaving or self.arriving:
            return False
        locations: list[int] = []
        self.index.locate(sequences, locations, [])
        return GONE not in locations

    def arrives(self, sequence: int) -> bool:
        """Return True for a message that comes from another destination.

        The record of the transfer is still to be written.
        """
        for arrival in self.arriving:
            if 0 <= sequence - arrival.first < len(arrival.sequences):
                return True
        return False

    def holder(self, sequence: int) -> tuple[StoredDestination, int]:
        """Return destination and sequence under which the index has a message.

        Mostly these are ``self`` and ``sequence``.
        """
        for arrival in self.arriving:
            index = sequence - arrival.first
            if 0 <= index < len(arrival.sequences):
                return arrival.source.holder(arrival.sequences[index])
        return self, sequence

    def take_out(self, sequence: int) -> int:
        """Remove a written message from the index and return the location that the removal ends, or `GONE`."""
        location = self.index.remove(sequence)
        if self.moving:
            location = self.moving.pop(sequence, location)
        return location

    def moved(self, sequence: int) -> None:
        """Read a moved message from the new location from now on, which is on the disk."""
        location = self.moving.pop(sequence, GONE)
        if location != GONE:
            self.index.move(sequence, location)


class Arrival:
    """Messages that come from destination ``source``.

    ``sequences`` there become sequences from ``first`` on here.
    """

    __slots__ = ("first", "sequences", "source")

    def __init__(self, first: int, source: StoredDestination, sequences: array[int]) -> None:
        self.first: Final[int] = first
        self.source: Final[StoredDestination] = source
        self.sequences: Final[array[int]] = sequences


class SharedBody:
    """A body that several destinations share.

    ``references`` counts the references to be written behind the body.
    """

    __slots__ = ("length", "offset", "references")

    def __init__(self) -> None:
        self.references = 0
        self.offset = 0
        self.length = 0


@mypyc_attr(acyclic=True)
class Entry:
    """One record to be written.

    Entries of one call have the same ``position`` and are written in one batch.

    ``payload`` follows the expiration of a message with the flag EXPIRES; ``size`` is the size of the whole record.
    """

    __slots__ = (
        "flags",
        "format_id",
        "handed_over",
        "kind",
        "length",
        "location",
        "message",
        "owner",
        "payload",
        "position",
        "sequence",
        "shared",
        "size",
        "table",
        "unit",
    )

    def __init__(
        self,
        kind: int,
        owner: StoredDestination,
        sequence: int,
        message: Message | None,
        payload: bytes,
        position: int,
        size: int,
    ) -> None:
        self.kind = kind
        self.owner: Final[StoredDestination] = owner
        self.sequence: Final[int] = sequence
        self.message = message
        self.payload = payload
        self.position: Final[int] = position
        self.size = size
        self.flags = 0
        self.format_id = 0
        self.location = GONE  # of what it removes or moves
        self.length = 0  # of the payload that it removes
        self.table = 0  # of a metadata record
        self.handed_over = False
        self.shared: SharedBody | None = None
        self.unit: GatheredUnit | None = None


class OwnedRemovals:
    """Messages of one destination that a unit removes, by one way out of the ledger."""

    __slots__ = ("owner", "sequences", "way")

    def __init__(self, owner: StoredDestination, sequences: list[int], way: int) -> None:
        self.owner: Final[StoredDestination] = owner
        self.sequences: Final[list[int]] = sequences
        self.way: Final[int] = way


class OwnedTransfer:
    """Messages that a unit moves from ``source`` to ``target``, taken record by record."""

    __slots__ = ("_run", "_taken", "_taken_of_run", "_transfer", "source", "target")

    def __init__(self, transfer: UnitTransfer, source: StoredDestination, target: StoredDestination) -> None:
        self._transfer: Final[UnitTransfer] = transfer
        self.source: Final[StoredDestination] = source
        self.target: Final[StoredDestination] = target
        self._run = 0
        self._taken = 0
        self._taken_of_run = 0

    @property
    def left(self) -> int:
        """The number of messages that are not taken."""
        return self._transfer.count - self._taken

    def take(self, count: int) -> Entry:
        """Return the record of the next ``count`` messages."""
        transfer = self._transfer
        runs = TransferRuns(self.source.number)
        left = count
        while left > 0:
            length = transfer.counts[self._run] - self._taken_of_run
            taken = min(left, length)
            runs.firsts.append(transfer.firsts[self._run] + self._taken_of_run)
            runs.counts.append(taken)
            left -= taken
            if self.source.unwritten:
                for sequence in range(runs.firsts[-1], runs.firsts[-1] + taken):
                    self.source.unwritten.pop(sequence, None)
            self._taken_of_run += taken
            if taken == length:
                self._run += 1
                self._taken_of_run = 0
        first = transfer.first + self._taken
        self._taken += count
        payload = encode_transfer(runs)
        return Entry(TRANSFER, self.target, first, None, payload, 0, record_size(len(payload)))


class GatheredUnit:
    """A unit that was gathered in slices and is encoded in slices.

    Messages of the unit's target ``i`` belong to ``owners[i]``; ``nexts[i]`` is the sequence of the next message.
    ``transfers`` are in reverse order. Moved and removed messages leave the index when the record is encoded: by then
    all earlier messages are in the index.
    """

    __slots__ = (
        "message_index",
        "metadata_index",
        "nexts",
        "owners",
        "removals",
        "removed",
        "transfers",
        "unit",
    )

    def __init__(
        self,
        unit: StoreUnit,
        owners: list[StoredDestination],
        removals: list[OwnedRemovals],
        transfers: list[OwnedTransfer],
    ) -> None:
        self.unit: Final[StoreUnit] = unit
        self.owners: Final[list[StoredDestination]] = owners
        self.removals: Final[list[OwnedRemovals]] = removals
        self.transfers: Final[list[OwnedTransfer]] = transfers
        self.nexts: Final[list[int]] = [additions.first for additions in unit.targets()]
        self.message_index = 0  # so many messages are encoded
        self.metadata_index = 0  # of the next metadata record
        self.removed = 0  # and so many of the last of ``removals``

    def take_transfers(self, at_most: int, entries: list[Entry]) -> int:
        """Append the next transfers to ``entries``, in the time of ``at_most`` records, and return the rest."""
        while self.transfers and at_most > 0:
            transfer = self.transfers[-1]
            count = min(transfer.left, max(1, at_most - TRANSFER_WEIGHT))
            at_most -= count + TRANSFER_WEIGHT
            entries.append(transfer.take(count))
            if transfer.left == 0:
                self.transfers.pop()
        return at_most

    def frees_room(self) -> bool:
        """Return True if the unit adds nothing and all removed messages are written."""
        if self.unit.messages or self.unit.transfers or self.unit.metadata:
            return False
        for own in self.removals:
            unwritten = own.owner.unwritten
            if unwritten or own.owner.arriving:
                for sequence in own.sequences:
                    entry = unwritten.get(sequence)
                    if (entry is not None and not entry.handed_over) or own.owner.arrives(sequence):
                        return False
        return True
