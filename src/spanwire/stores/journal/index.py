"""The index: where each stored message and fact lies, in memory, a message in 20 bytes.

It is changed in one place for both ways to learn of a record: when the journal writes it and when recovery reads it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from spanwire.broker.facts import PRODUCER_AUDIT
from spanwire.model.destination import STORED_SCHEMES, Destination
from spanwire.model.errors import StoreError
from spanwire.model.message import Message
from spanwire.stores.journal.cleanup import SegmentTable
from spanwire.stores.journal.record import AUDIT_MARK, record_size
from spanwire.stores.journal.sequences import GONE, SequenceIndex, location_segment, packed_location

LOST_SEQUENCES: Final = 1 << 32  # skipped after a crash: more than any broker can have given out without a sync
NOTE_BYTES: Final = record_size(4)


class StoredDestination:
    """What the journal knows of one line of messages. ``high`` is the highest sequence given out."""

    __slots__ = ("destination", "high", "index", "leaving", "moving", "note_places", "notes", "number", "unwritten")

    def __init__(self, number: int, destination: Destination, high: int) -> None:
        self.number: Final[int] = number
        self.destination: Final[Destination] = destination
        self.high = high
        self.index: Final[SequenceIndex] = SequenceIndex()
        self.notes: Final[dict[int, int]] = {}  # redelivery counts, filled by recovery alone
        self.note_places: Final[dict[int, int]] = {}  # where the redelivery count in force lies
        self.unwritten: Final[dict[int, Entry]] = {}  # appended, and not yet known to be on the disk
        self.leaving: Final[set[int]] = set()  # removed, but the removal stands in the queue behind its message
        self.moving: Final[dict[int, int]] = {}  # where a message will lie once the write that is under way is done

    def has(self, sequence: int) -> bool:
        """Whether the message exists."""
        if sequence in self.unwritten:
            return True
        return self.index.find(sequence) != GONE and sequence not in self.leaving

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
        "segments",
        "sequence",
        "shared",
        "size",
        "table",
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
        self.segments: Holdings | None = None
        self.shared: SharedBody | None = None


class Holdings:
    """How many live things of one destination lie in each segment, and their bytes."""

    __slots__ = ("counts", "sizes")

    def __init__(self) -> None:
        self.counts: Final[dict[int, int]] = {}
        self.sizes: Final[dict[int, int]] = {}

    def add(self, location: int, size: int) -> None:
        """One more."""
        segment = location_segment(location)
        self.counts[segment] = self.counts.get(segment, 0) + 1
        self.sizes[segment] = self.sizes.get(segment, 0) + size


class FactPlace:
    """Where the record of a fact lies, and its size."""

    __slots__ = ("location", "size")

    def __init__(self, location: int, size: int) -> None:
        self.location: Final[int] = location
        self.size: Final[int] = size


class JournalIndex:
    """All destinations and segments of one journal.

    ``floor`` is below every sequence of a destination that is still to come, so that one which was removed and comes
    back does not begin again.
    """

    __slots__ = ("by_name", "by_number", "facts", "floor", "next_number", "segments")

    def __init__(self) -> None:
        self.by_name: Final[dict[str, StoredDestination]] = {}
        self.by_number: Final[dict[int, StoredDestination]] = {}
        self.facts: Final[dict[int, dict[bytes, FactPlace]]] = {}  # table → key → where it lies
        self.segments: Final[SegmentTable] = SegmentTable()
        self.floor = 0
        self.next_number = 1

    def create(self, destination: Destination) -> StoredDestination:
        """A destination that was not known; it counts once its record is written (`enter`)."""
        owner = StoredDestination(self.next_number, destination, self.floor)
        self.next_number += 1
        self.by_name[destination.qualified_name] = owner
        return owner

    def enter(self, owner: StoredDestination) -> None:
        """The record of a new destination is written."""
        self.by_number[owner.number] = owner

    def restore(self, number: int, destination: Destination, high: int) -> None:
        """The record of a destination was read; one that is there only learns the higher ``high``."""
        owner = self.by_number.get(number)
        if owner is None:
            owner = StoredDestination(number, destination, high)
            self.by_number[number] = owner
        elif owner.high < high:
            owner.high = high
        self.by_name[destination.qualified_name] = owner
        if self.next_number <= number:
            self.next_number = number + 1

    def forget(self, owner: StoredDestination) -> None:
        """The destination is removed; its sequences stay used, its number until the removal is written (`leave`)."""
        name = owner.destination.qualified_name
        if self.by_name.get(name) is owner:
            del self.by_name[name]
        if self.floor < owner.high:
            self.floor = owner.high

    def leave(self, owner: StoredDestination) -> None:
        """The removal of a destination is written or was read."""
        self.forget(owner)
        self.by_number.pop(owner.number, None)

    def restored_run(
        self, owner: StoredDestination, sequence: int, segment: int, offset: int, length: int, count: int
    ) -> None:
        """Records of ``count`` messages above all others, each with ``length`` bytes, lie one behind the other."""
        size = record_size(length)
        owner.index.add_run(sequence, packed_location(segment, offset), size >> 3, length, count)
        self.segments.hold_many(segment, count, size)

    def written_message(self, owner: StoredDestination, sequence: int, segment: int, offset: int, length: int) -> None:
        """A message record lies at this place, or the body that this message shares with others."""
        owner.index.add(sequence, packed_location(segment, offset), length)
        self.segments.by_number[segment].hold(record_size(length))

    def restored_message(self, owner: StoredDestination, sequence: int, segment: int, offset: int, length: int) -> bool:
        """A message was found at this place; False if it was found elsewhere before, and was moved."""
        old = owner.index.restore(sequence, packed_location(segment, offset), length)
        size = record_size(length)
        self.segments.hold(segment, size)
        if old == GONE:
            return True
        self.segments.release(location_segment(old), 1, size, segment)
        return False

    def written_move(
        self, owner: StoredDestination, sequence: int, old: int, segment: int, offset: int, length: int
    ) -> None:
        """A message that lies at ``old`` is written again; it is read at the new place once that is on the disk."""
        size = record_size(length)
        owner.moving[sequence] = packed_location(segment, offset)
        self.segments.hold(segment, size)
        self.segments.release(location_segment(old), 1, size, segment)

    def written_removal(
        self, owner: StoredDestination, sequence: int, location: int, length: int, segment: int
    ) -> None:
        """The removal of a message of ``length`` bytes that lies at ``location`` lies in ``segment``."""
        self.segments.release(location_segment(location), 1, record_size(length), segment)
        if owner.note_places:
            noted = owner.note_places.pop(sequence, GONE)
            if noted != GONE:
                self.segments.release(location_segment(noted), 1, NOTE_BYTES, segment)

    def written_redelivery(self, owner: StoredDestination, sequence: int, segment: int, offset: int) -> None:
        """The redelivery count of a message lies here from now on."""
        noted = owner.note_places.get(sequence, GONE)
        owner.note_places[sequence] = packed_location(segment, offset)
        self.segments.hold(segment, NOTE_BYTES)
        if noted != GONE:
            self.segments.release(location_segment(noted), 1, NOTE_BYTES, segment)

    def written_fact(self, table: int, key: bytes, segment: int, offset: int, length: int) -> None:
        """The fact under this key lies here from now on."""
        if table == PRODUCER_AUDIT and key == AUDIT_MARK:
            self.segments.keep_from = segment
            self.segments.changed = True
            return
        kept = self.facts.get(table)
        if kept is None:
            kept = {}
            self.facts[table] = kept
        old = kept.get(key)
        size = record_size(length)
        kept[key] = FactPlace(packed_location(segment, offset), size)
        self.segments.hold(segment, size)
        if old is not None:
            self.segments.release(location_segment(old.location), 1, old.size, segment)

    def written_fact_discard(self, table: int, key: bytes, segment: int) -> None:
        """The end of the fact under this key lies in ``segment``."""
        kept = self.facts.get(table)
        if kept is None:
            return
        old = kept.pop(key, None)
        if old is not None:
            self.segments.release(location_segment(old.location), 1, old.size, segment)

    def written_destination_removal(self, holdings: Holdings, segment: int) -> None:
        """The removal of a destination that held so much in each segment lies in ``segment``."""
        for held, count in holdings.counts.items():
            self.segments.release(held, count, holdings.sizes[held], segment)

    def take_counts(self, owner: StoredDestination) -> Holdings:
        """Empty a destination; gives what it had in each segment."""
        for sequence in list(owner.moving):
            owner.moved(sequence)
        holdings = Holdings()
        lengths = owner.index.lengths()
        for place, location in enumerate(owner.index.locations()):
            holdings.add(location, record_size(lengths[place]))
        for location in owner.note_places.values():
            holdings.add(location, NOTE_BYTES)
        owner.index.clear()
        owner.notes.clear()
        owner.note_places.clear()
        return holdings

    def skip_lost_sequences(self) -> None:
        """After a crash: what was given out and not synced must not be given out again."""
        self.floor += LOST_SEQUENCES
        for owner in self.by_number.values():
            owner.high += LOST_SEQUENCES
            if self.floor < owner.high:
                self.floor = owner.high


def destination_of(qualified_name: str) -> Destination:
    """The destination of a stored qualified name; raises `StoreError` when it has no known scheme."""
    for kind, scheme in enumerate(STORED_SCHEMES):
        if qualified_name.startswith(scheme):
            return Destination(kind, qualified_name[len(scheme) :])
    raise StoreError(f"the journal holds a destination of unknown kind: {qualified_name[:40]!r}")
