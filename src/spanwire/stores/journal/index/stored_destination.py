"""A destination in the journal, and the entries that wait to be written for it."""

from __future__ import annotations

from array import array
from typing import Final

from mypy_extensions import mypyc_attr

from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.destination import Destination
from spanwire.model.message import Message
from spanwire.stores.journal.index.sequences import GONE, SequenceIndex
from spanwire.stores.journal.segments.record import record_size

NOTE_BYTES: Final = record_size(4)
UNIT: Final = 255  # kind of an entry that stands for all messages and removals of a unit; never on the disk


class StoredDestination:
    """What the journal knows of one line of messages. ``high`` is the highest sequence given out.

    ``is_removed`` is True from the call on that removes the destination: what is stored or waits is for nobody.
    """

    __slots__ = (
        "arriving",
        "destination",
        "high",
        "index",
        "is_removed",
        "leaving",
        "moving",
        "note_places",
        "notes",
        "number",
        "record_bytes",
        "unwritten",
    )

    def __init__(self, number: int, destination: Destination, high: int) -> None:
        self.number: Final[int] = number
        self.destination: Final[Destination] = destination
        self.high = high
        self.is_removed = False
        name = destination.qualified_name.encode("utf-8", "surrogatepass")
        self.record_bytes: Final[int] = record_size(len(name))  # of its record in a check-point
        self.index: Final[SequenceIndex] = SequenceIndex()
        self.notes: Final[dict[int, int]] = {}  # redelivery counts, filled by recovery alone
        self.note_places: Final[dict[int, int]] = {}  # where the redelivery count in force lies
        self.unwritten: Final[dict[int, Entry]] = {}  # appended, and not yet known to be on the disk
        self.leaving: Final[set[int]] = set()  # going, by a record that stands in the queue behind its message
        self.arriving: Final[list[Arrival]] = []  # from other lines, by records that are not written yet
        self.moving: Final[dict[int, int]] = {}  # where a message will lie once the write that is under way is done

    def has(self, sequence: int) -> bool:
        """Whether the message exists."""
        if self.is_removed:
            return False
        if sequence in self.unwritten:
            return True
        if self.index.find(sequence) == GONE and not (self.arriving and self.arrives(sequence)):
            return False
        return sequence not in self.leaving

    def has_all(self, sequences: list[int]) -> bool:
        """Whether all are on the disk for sure, and stay; False where that takes a closer look."""
        if self.unwritten or self.leaving or self.arriving:
            return False
        locations: list[int] = []
        self.index.look_up(sequences, locations, [])
        return GONE not in locations

    def arrives(self, sequence: int) -> bool:
        """Whether the message comes from another line, by a record that is not written yet."""
        for arrival in self.arriving:
            if 0 <= sequence - arrival.first < len(arrival.sequences):
                return True
        return False

    def holder(self, sequence: int) -> tuple[StoredDestination, int]:
        """The line, and the sequence in it, under which the index has a message that is in no memory: mostly this."""
        for arrival in self.arriving:
            place = sequence - arrival.first
            if 0 <= place < len(arrival.sequences):
                return arrival.source.holder(arrival.sequences[place])
        return self, sequence

    def take_out(self, sequence: int) -> int:
        """Forget a written message; gives the location that its removal ends, or `GONE` if it is not there."""
        location = self.index.remove(sequence)
        if self.moving:
            location = self.moving.pop(sequence, location)
        return location

    def moved(self, sequence: int) -> None:
        """The new place of a message is on the disk: it is read there from now on."""
        location = self.moving.pop(sequence, GONE)
        if location != GONE:
            self.index.move(sequence, location)


class Arrival:
    """Messages that come from ``source``: those with ``sequences`` get sequences from ``first`` on."""

    __slots__ = ("first", "sequences", "source")

    def __init__(self, first: int, source: StoredDestination, sequences: array[int]) -> None:
        self.first: Final[int] = first
        self.source: Final[StoredDestination] = source
        self.sequences: Final[array[int]] = sequences


class SharedBody:
    """A body that several lines share. ``references`` counts those that wait to be written behind it."""

    __slots__ = ("length", "offset", "references")

    def __init__(self) -> None:
        self.references = 0
        self.offset = 0
        self.length = 0


@mypyc_attr(acyclic=True)
class Entry:
    """One record that waits to be written. Entries of one call share its ``position`` and are never separated.

    ``payload`` follows the expiration of a message with the flag EXPIRES; ``size`` is that of the whole record.
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
        self.table = 0  # of a fact
        self.handed_over = False
        self.shared: SharedBody | None = None
        self.unit: GatheredUnit | None = None


class OwnedRemovals:
    """The messages of one line that a unit removes."""

    __slots__ = ("owner", "sequences")

    def __init__(self, owner: StoredDestination, sequences: list[int]) -> None:
        self.owner: Final[StoredDestination] = owner
        self.sequences: Final[list[int]] = sequences


class GatheredUnit:
    """A unit that was gathered in slices and is encoded in slices. The messages of its line ``i`` are those of
    ``owners[i]``, the next under the sequence ``nexts[i]``. What it removes leaves the index when it is encoded: all
    that was appended before is in the index then.
    """

    __slots__ = ("fact", "nexts", "owners", "place", "removals", "removed", "unit")

    def __init__(self, unit: StoreUnit, owners: list[StoredDestination], removals: list[OwnedRemovals]) -> None:
        self.unit: Final[StoreUnit] = unit
        self.owners: Final[list[StoredDestination]] = owners
        self.removals: Final[list[OwnedRemovals]] = removals
        self.nexts: Final[list[int]] = [line.first for line in unit.targets()]
        self.place = 0  # so many messages are encoded
        self.fact = 0  # so many facts
        self.removed = 0  # and so many of the last of ``removals``

    def frees_room(self) -> bool:
        """Return True if it adds nothing, and all that it removes is written."""
        if self.unit.messages or self.unit.facts:
            return False
        for own in self.removals:
            unwritten = own.owner.unwritten
            if unwritten or own.owner.arriving:
                for sequence in own.sequences:
                    entry = unwritten.get(sequence)
                    if (entry is not None and not entry.handed_over) or own.owner.arrives(sequence):
                        return False
        return True
