"""The index: where each stored message and fact lies, in memory, a message in 20 bytes.

It is changed in one place for both ways to learn of a record: when the journal writes it and when recovery reads it.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import PRODUCER_AUDIT
from spanwire.model.destination import STORED_SCHEMES, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.index.cleanup import SegmentTable
from spanwire.stores.journal.index.destination_removal import DestinationRemovals
from spanwire.stores.journal.index.sequences import GONE, location_segment, packed_location
from spanwire.stores.journal.index.stored_destination import NOTE_BYTES, StoredDestination
from spanwire.stores.journal.segments.record import AUDIT_MARK, record_size
from spanwire.stores.journal.segments.transfers import NOT_PASSED, Labels, TransferRuns

LOST_SEQUENCES: Final = 1 << 32  # skipped after a crash: more than any broker can have given out without a sync


class FactPlace:
    """Where the record of a fact lies, and its size."""

    __slots__ = ("location", "size")

    def __init__(self, location: int, size: int) -> None:
        self.location: Final[int] = location
        self.size: Final[int] = size


class JournalIndex:
    """All destinations and segments of one journal.

    ``floor`` is below every sequence of a destination that is still to come, so that one which was removed and comes
    back does not begin again. ``passed`` says by the number of a line which of its messages went to other lines,
    ``origins`` which of them came from others, ``labelled`` by segment which lines have such labels because of it.
    """

    __slots__ = (
        "by_name",
        "by_number",
        "destination_bytes",
        "facts",
        "floor",
        "labelled",
        "next_number",
        "origins",
        "passed",
        "removals",
        "segments",
    )

    def __init__(self) -> None:
        self.by_name: Final[dict[str, StoredDestination]] = {}
        self.by_number: Final[dict[int, StoredDestination]] = {}
        self.facts: Final[dict[int, dict[bytes, FactPlace]]] = {}  # table → key → where it lies
        self.segments: Final[SegmentTable] = SegmentTable()
        self.removals: Final[DestinationRemovals] = DestinationRemovals(self.segments)
        self.passed: Final[dict[int, Labels]] = {}
        self.origins: Final[dict[int, Labels]] = {}
        self.labelled: Final[dict[int, set[int]]] = {}
        self.destination_bytes = 0  # of the records of all destinations in a check-point
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
        self.destination_bytes += owner.record_bytes

    def restore(self, number: int, destination: Destination, high: int) -> None:
        """The record of a destination was read; one that is there only learns the higher ``high``."""
        owner = self.by_number.get(number)
        if owner is None:
            owner = StoredDestination(number, destination, high)
            self.enter(owner)
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
        if self.by_number.pop(owner.number, None) is not None:
            self.destination_bytes -= owner.record_bytes

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

    def written_transfer(self, owner: StoredDestination, sequence: int, runs: TransferRuns, segment: int) -> None:
        """Messages become those of ``owner``, with sequences from ``sequence`` on, by a record in ``segment``."""
        source = self.by_number[runs.source]
        passed = self.passed.setdefault(source.number, Labels())
        origins = self.origins.setdefault(owner.number, Labels())
        self.labelled.setdefault(segment, set()).update((source.number, owner.number))
        for place, first in enumerate(runs.firsts):
            count = runs.counts[place]
            passed.add(first, count, owner.number, sequence, segment)
            origins.add(sequence, count, source.number, first, segment)
            self._transfer_run(owner, sequence, source, first, count, segment)
            sequence += count

    def _transfer_run(
        self, owner: StoredDestination, sequence: int, source: StoredDestination, first: int, count: int, segment: int
    ) -> None:
        if source.leaving:
            source.leaving.difference_update(range(first, first + count))
        locations: list[int] = []
        lengths: list[int] = []
        source.index.remove_all(list(range(first, first + count)), locations, lengths)
        last = segment
        for place, location in enumerate(locations):
            if location == GONE:
                continue
            owner.index.restore(sequence + place, location, lengths[place])
            if source.moving:
                moved = source.moving.pop(first + place, GONE)
                if moved != GONE:
                    owner.moving[sequence + place] = moved
                    location = moved
            if location_segment(location) != last:
                last = location_segment(location)
                self.segments.refer(last, segment)
            if source.note_places:
                self._forget_note(source, first + place, segment)

    def _forget_note(self, owner: StoredDestination, sequence: int, segment: int) -> None:
        owner.notes.pop(sequence, 0)
        noted = owner.note_places.pop(sequence, GONE)
        if noted != GONE:
            self.segments.release(location_segment(noted), 1, NOTE_BYTES, segment)

    def present_label(self, number: int, sequence: int) -> tuple[int, int]:
        """Line and sequence that the message has now which was written with these."""
        while True:
            labels = self.passed.get(number)
            if labels is None:
                return number, sequence
            place = labels.place(sequence)
            if place == NOT_PASSED:
                return number, sequence
            number = labels.lines[place]
            sequence = labels.other(place, sequence)

    def moved(self, owner: StoredDestination, sequence: int) -> None:
        """The new place of a message is on the disk: it is read there from now on, by whatever line has it now."""
        if owner.number in self.passed:
            number, sequence = self.present_label(owner.number, sequence)
            present = self.by_number.get(number)
            if present is None:
                return
            owner = present
        owner.moved(sequence)

    def drop_segment(self, segment: int) -> None:
        """A segment is not needed any more. Messages may be read from it until those that were moved are on the disk,
        and need their labels for that (`drop_labels`).
        """
        self.segments.drop(segment)

    def drop_labels(self, segments: set[int]) -> None:
        """Dropped segments are read no more: no record has the labels that transfers in them are about."""
        lines: set[int] = set()
        for segment in segments:
            labelled = self.labelled.pop(segment, None)
            if labelled is not None:
                lines.update(labelled)
        for number in lines:
            _drop_labels(self.passed, number, segments)
            _drop_labels(self.origins, number, segments)

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

    def written_destination_removal(self, owner: StoredDestination, segment: int) -> None:
        """The removal of a destination lies in ``segment``; `removals` releases what the destination had."""
        self.leave(owner)
        self.removals.add(owner, segment)

    def skip_lost_sequences(self) -> None:
        """After a crash: what was given out and not synced must not be given out again."""
        self.floor += LOST_SEQUENCES
        for owner in self.by_number.values():
            owner.high += LOST_SEQUENCES
            if self.floor < owner.high:
                self.floor = owner.high


def _drop_labels(lines: dict[int, Labels], number: int, segments: set[int]) -> None:
    labels = lines.get(number)
    if labels is not None:
        labels.drop(segments)
        if len(labels) == 0:
            del lines[number]


def destination_of(qualified_name: str) -> Destination:
    """The destination of a stored qualified name; raises `StoreError` when it has no known scheme."""
    for kind, scheme in enumerate(STORED_SCHEMES):
        if qualified_name.startswith(scheme):
            return Destination(kind, qualified_name[len(scheme) :])
    raise StoreError(f"the journal holds a destination of unknown kind: {qualified_name[:40]!r}")
