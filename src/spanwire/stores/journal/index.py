"""The index: where each stored message lies, in memory, 20 bytes each.

It is changed in one place for both ways to learn of a record: when the journal writes it and when recovery reads it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from spanwire.model.destination import STORED_SCHEMES, Destination
from spanwire.model.errors import StoreError
from spanwire.model.message import Message
from spanwire.stores.journal.cleanup import SegmentTable

OFFSET_BITS: Final = 29  # offsets count in units of 8 bytes, so a segment may have 4 GiB
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
GONE: Final = -1
MIN_COMPACTION: Final = 1024  # entries below which holes are not worth closing
LOST_SEQUENCES: Final = 1 << 32  # skipped after a crash: more than any broker can have given out without a sync


def packed_location(segment: int, offset: int) -> int:
    """Segment and offset in one number."""
    return segment << OFFSET_BITS | offset >> 3


def location_segment(location: int) -> int:
    """The segment of a packed location."""
    return location >> OFFSET_BITS


def location_offset(location: int) -> int:
    """The offset of a packed location."""
    return (location & OFFSET_MASK) << 3


class SequenceIndex:
    """Sequences of one destination in rising order, with location and payload length; holes are closed now and then."""

    __slots__ = ("_count", "_head", "_lengths", "_locations", "_sequences")

    def __init__(self) -> None:
        self._sequences: array[int] = array("q")
        self._locations: array[int] = array("q")
        self._lengths: array[int] = array("I")
        self._head = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sequence: int, location: int, length: int) -> None:
        """Take a sequence above all others."""
        self._sequences.append(sequence)
        self._locations.append(location)
        self._lengths.append(length)
        self._count += 1

    def find(self, sequence: int) -> int:
        """The packed location, or `GONE`."""
        place = self._place(sequence)
        return self._locations[place] if place >= 0 else GONE

    def length(self, sequence: int) -> int:
        """The payload length of a sequence that is there."""
        return self._lengths[self._place(sequence)]

    def remove(self, sequence: int) -> int:
        """Forget a sequence; gives its packed location, or `GONE` if it is not there."""
        place = self._place(sequence)
        if place < 0:
            return GONE
        location = self._locations[place]
        if location == GONE:
            return GONE
        self._locations[place] = GONE
        self._count -= 1
        if place == self._head:
            self._advance()
        if len(self._sequences) > MIN_COMPACTION and self._count * 2 < len(self._sequences):
            self._compact()
        return location

    def sequences(self) -> array[int]:
        """All sequences in rising order, a copy."""
        found: array[int] = array("q")
        for place in range(self._head, len(self._sequences)):
            if self._locations[place] != GONE:
                found.append(self._sequences[place])
        return found

    def counts_by_segment(self) -> dict[int, int]:
        """How many messages lie in each segment."""
        counts: dict[int, int] = {}
        for location in self._locations:
            if location != GONE:
                segment = location_segment(location)
                counts[segment] = counts.get(segment, 0) + 1
        return counts

    def clear(self) -> None:
        """Forget everything."""
        self._sequences = array("q")
        self._locations = array("q")
        self._lengths = array("I")
        self._head = 0
        self._count = 0

    def _place(self, sequence: int) -> int:
        sequences = self._sequences
        head = self._head
        if head < len(sequences) and sequences[head] == sequence:
            return head
        place = bisect_left(sequences, sequence, head)
        if place < len(sequences) and sequences[place] == sequence:
            return place
        return -1

    def _advance(self) -> None:
        head = self._head
        end = len(self._locations)
        while head < end and self._locations[head] == GONE:
            head += 1
        self._head = head

    def _compact(self) -> None:
        sequences: array[int] = array("q")
        locations: array[int] = array("q")
        lengths: array[int] = array("I")
        for place in range(self._head, len(self._sequences)):
            location = self._locations[place]
            if location != GONE:
                sequences.append(self._sequences[place])
                locations.append(location)
                lengths.append(self._lengths[place])
        self._sequences = sequences
        self._locations = locations
        self._lengths = lengths
        self._head = 0


class StoredDestination:
    """What the journal knows of one destination. ``high`` is the highest sequence given out."""

    __slots__ = ("destination", "high", "index", "leaving", "note_segments", "notes", "number", "unwritten")

    def __init__(self, number: int, destination: Destination, high: int) -> None:
        self.number: Final[int] = number
        self.destination: Final[Destination] = destination
        self.high = high
        self.index: Final[SequenceIndex] = SequenceIndex()
        self.notes: Final[dict[int, int]] = {}  # redelivery counts, filled by recovery alone
        self.note_segments: Final[dict[int, int]] = {}  # where the redelivery count in force lies
        self.unwritten: Final[dict[int, Entry]] = {}  # appended, and not yet known to be on the disk
        self.leaving: Final[set[int]] = set()  # removed, but the removal stands in the queue behind its message

    def has(self, sequence: int) -> bool:
        """Whether the message exists."""
        if sequence in self.unwritten:
            return True
        return self.index.find(sequence) != GONE and sequence not in self.leaving


class Entry:
    """One record that waits to be written. Entries of one call share its ``position`` and are never separated."""

    __slots__ = (
        "handed_over",
        "kind",
        "location",
        "message",
        "owner",
        "payload",
        "position",
        "segments",
        "sequence",
        "table",
    )

    def __init__(
        self, kind: int, owner: StoredDestination, sequence: int, message: Message | None, payload: bytes, position: int
    ) -> None:
        self.kind = kind
        self.owner: Final[StoredDestination] = owner
        self.sequence: Final[int] = sequence
        self.message = message
        self.payload = payload
        self.position: Final[int] = position
        self.location = GONE
        self.table = 0  # of a fact
        self.handed_over = False
        self.segments: dict[int, int] | None = None


class JournalIndex:
    """All destinations and segments of one journal.

    ``floor`` is below every sequence of a destination that is still to come, so that one which was removed and comes
    back does not begin again.
    """

    __slots__ = ("by_name", "by_number", "facts", "floor", "next_number", "segments")

    def __init__(self) -> None:
        self.by_name: Final[dict[str, StoredDestination]] = {}
        self.by_number: Final[dict[int, StoredDestination]] = {}
        self.facts: Final[dict[int, dict[bytes, int]]] = {}  # table → key → the segment that holds it
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

    def written_message(self, owner: StoredDestination, sequence: int, segment: int, offset: int, length: int) -> None:
        """A message record lies at this place."""
        owner.index.add(sequence, packed_location(segment, offset), length)
        self.segments.hold(segment)

    def written_removal(self, owner: StoredDestination, sequence: int, location: int, segment: int) -> None:
        """The removal of a message that lies at ``location`` lies in ``segment``."""
        self.segments.release(location_segment(location), 1, segment)
        noted = owner.note_segments.pop(sequence, 0)
        if noted != 0:
            self.segments.release(noted, 1, segment)

    def written_redelivery(self, owner: StoredDestination, sequence: int, segment: int) -> None:
        """The redelivery count of a message lies in ``segment`` from now on."""
        noted = owner.note_segments.get(sequence, 0)
        if noted == segment:
            return
        if noted != 0:
            self.segments.release(noted, 1, segment)
        owner.note_segments[sequence] = segment
        self.segments.hold(segment)

    def has_fact(self, table: int, key: bytes) -> bool:
        """Whether a written fact is in force."""
        return key in self.facts.get(table, {})

    def written_fact(self, table: int, key: bytes, segment: int) -> None:
        """The fact under this key lies in ``segment`` from now on."""
        kept = self.facts.get(table)
        if kept is None:
            kept = {}
            self.facts[table] = kept
        held = kept.get(key, 0)
        if held != 0:
            self.segments.release(held, 1, segment)
        kept[key] = segment
        self.segments.hold(segment)

    def written_fact_discard(self, table: int, key: bytes, segment: int) -> None:
        """The end of the fact under this key lies in ``segment``."""
        held = self.facts.get(table, {}).pop(key, 0)
        if held != 0:
            self.segments.release(held, 1, segment)

    def written_destination_removal(self, counts: dict[int, int], segment: int) -> None:
        """The removal of a destination with so many live things in each segment lies in ``segment``."""
        for held, count in counts.items():
            self.segments.release(held, count, segment)

    def take_counts(self, owner: StoredDestination) -> dict[int, int]:
        """Empty a destination; gives how many live things it had in each segment."""
        counts = owner.index.counts_by_segment()
        for segment in owner.note_segments.values():
            counts[segment] = counts.get(segment, 0) + 1
        owner.index.clear()
        owner.notes.clear()
        owner.note_segments.clear()
        return counts

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
