"""The index of the journal in memory: locations of all stored messages and metadata records.

The writing journal and recovery change the index by the same methods, one for each kind of record.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import ACCEPTED_IDS, PRODUCER_AUDIT
from spanwire.broker.persistence.stored_sums import StoredSums
from spanwire.model.destination import STORED_SCHEMES, Destination
from spanwire.model.errors import StoreError
from spanwire.model.ledger import (
    ARRIVED,
    CLIENT,
    FIRST_LINK,
    FORWARDED,
    FOUND,
    MOVED_OUT,
    OTHER_LINKS,
    PURGED,
    TERMS,
    Sums,
)
from spanwire.stores.journal.index.cleanup import SegmentTable
from spanwire.stores.journal.index.destination_removal import DestinationRemovals
from spanwire.stores.journal.index.sequences import GONE, location_segment, packed_location
from spanwire.stores.journal.index.stored_destination import NOTE_BYTES, StoredDestination
from spanwire.stores.journal.segments.ledger_records import EMPTY_RECORD, ledger_bytes
from spanwire.stores.journal.segments.record import AUDIT_MARK, record_size
from spanwire.stores.journal.segments.transfers import NOT_PASSED, Labels, TransferRuns

LOST_SEQUENCES: Final = 1 << 32  # skipped after a crash; no broker gives out as many without a sync


class MetadataLocation:
    """Location and size of a metadata record."""

    __slots__ = ("location", "size")

    def __init__(self, location: int, size: int) -> None:
        self.location: Final[int] = location
        self.size: Final[int] = size


class JournalIndex:
    """All destinations and segments of one journal.

    ``floor`` is not above any sequence of a future destination, so that a removed destination that is created again
    does not use sequences twice. By the number of a destination, ``passed`` has the messages handed to other
    destinations, ``origins`` the messages received from others. ``labelled`` has by segment the destinations with such
    labels. ``destination_bytes`` is the size of all records of destinations in a check-point, those of the ledger
    included. ``removed_sums`` are the ledger's sums of all removed destinations.
    """

    __slots__ = (
        "_removed_bytes",
        "by_name",
        "by_number",
        "destination_bytes",
        "floor",
        "has_ledger",
        "labelled",
        "link_sums",
        "metadata",
        "next_number",
        "origins",
        "passed",
        "removals",
        "removed_sums",
        "segments",
    )

    def __init__(self) -> None:
        self.by_name: Final[dict[str, StoredDestination]] = {}
        self.by_number: Final[dict[int, StoredDestination]] = {}
        self.metadata: Final[dict[int, dict[bytes, MetadataLocation]]] = {}  # table → key → location
        self.segments: Final[SegmentTable] = SegmentTable()
        self.removals: Final[DestinationRemovals] = DestinationRemovals(self.segments)
        self.passed: Final[dict[int, Labels]] = {}
        self.origins: Final[dict[int, Labels]] = {}
        self.labelled: Final[dict[int, set[int]]] = {}
        self.has_ledger = True  # False in a repair, which does not know the sums
        self.removed_sums: Final[Sums] = Sums()
        self.link_sums: Final[Sums] = Sums()  # of all destinations, of use by link
        self._removed_bytes = EMPTY_RECORD
        self.destination_bytes = EMPTY_RECORD  # of the records of all destinations in a check-point
        self.floor = 0
        self.next_number = 1

    def create(self, destination: Destination) -> StoredDestination:
        """Return a new destination, which counts once `enter` follows."""
        owner = StoredDestination(self.next_number, destination, self.floor)
        self.next_number += 1
        self.by_name[destination.qualified_name] = owner
        return owner

    def next_sequence(self, destination: Destination) -> int:
        """Return the sequence of the next message of ``destination``, which may not exist yet."""
        owner = self.by_name.get(destination.qualified_name)
        return (self.floor if owner is None else owner.high) + 1

    def enter(self, owner: StoredDestination) -> None:
        """Add a new destination by number: the record is written."""
        self.by_number[owner.number] = owner
        self.destination_bytes += owner.record_bytes

    def restore(self, number: int, destination: Destination, high: int) -> None:
        """Apply the record of a destination; a known destination only takes a higher ``high``."""
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
        """Remove a destination by name. Its sequences stay used, and the number stays known until `leave`."""
        name = owner.destination.qualified_name
        if self.by_name.get(name) is owner:
            del self.by_name[name]
        if self.floor < owner.high:
            self.floor = owner.high

    def leave(self, owner: StoredDestination) -> None:
        """Remove a destination by number: the removal is written or was read."""
        self.forget(owner)
        if self.by_number.pop(owner.number, None) is not None:
            self.destination_bytes -= owner.record_bytes

    def came(self, owner: StoredDestination, origin: int, count: int) -> None:
        """Count in the ledger ``count`` written messages of an origin."""
        sums = owner.sums
        before = sums.terms
        sums.came(origin, count)
        if FIRST_LINK <= origin <= OTHER_LINKS:
            self.link_sums.came(origin, count)
        if sums.terms != before:
            self._resize(owner)

    def went(self, owner: StoredDestination, way: int, count: int) -> None:
        """Count in the ledger the written removals of ``count`` messages."""
        sums = owner.sums
        before = sums.terms
        sums.went(way, count)
        if way >= TERMS:
            self.link_sums.went(way, count)
        if sums.terms != before:
            self._resize(owner)

    def found(self, owner: StoredDestination) -> None:
        """Begin the empty ledger of a destination: its messages were found."""
        owner.sums.add(FOUND, len(owner.index))
        self._resize(owner)

    def _resize(self, owner: StoredDestination) -> None:
        grown = ledger_bytes(owner.sums) - owner.ledger_bytes
        owner.ledger_bytes += grown
        owner.record_bytes += grown
        if self.by_number.get(owner.number) is owner:
            self.destination_bytes += grown

    def stored_sums(self, destination: Destination | None) -> StoredSums | None:
        """Return the sums of a destination, without one None; of None those of all removed ones."""
        if destination is None:
            return StoredSums(self.removed_sums, 0)
        owner = self.by_name.get(destination.qualified_name)
        if owner is None or owner.number not in self.by_number:
            return None
        return StoredSums(owner.sums, len(owner.index) + owner.departing)

    def leave_out_ledger(self) -> None:
        """Have check-points without the ledger, which the next start then begins with what it finds."""
        self.has_ledger = False
        self.destination_bytes -= self._removed_bytes
        self._removed_bytes = 0

    def clear_ledger(self) -> None:
        """Forget all sums: a check-point has others."""
        self.removed_sums.clear()
        self.link_sums.clear()
        self._resize_removed()
        for owner in self.by_number.values():
            owner.sums.clear()
            self._resize(owner)

    def ledger_restored(self, owner: StoredDestination | None, link: int) -> None:
        """Note that the sums of a destination were restored, those of a link or, with 0, its own.

        None stands for the removed ones.
        """
        if link > 0:
            counts = (self.removed_sums if owner is None else owner.sums).link_counts(link)
            self.link_sums.add_over(link, ARRIVED, counts[ARRIVED])
            self.link_sums.add_over(link, FORWARDED, counts[FORWARDED])
        if owner is not None:
            self._resize(owner)
        else:
            self._resize_removed()

    def _resize_removed(self) -> None:
        grown = ledger_bytes(self.removed_sums, True) - self._removed_bytes
        self._removed_bytes += grown
        self.destination_bytes += grown

    def _close_sums(self, owner: StoredDestination) -> None:
        """Add the sums of a removed destination, purged with its messages, to those of all removed ones.

        A balance below 0 is a fault, which stays visible: a record has no negative sum.
        """
        owner.sums.add(PURGED, max(0, owner.sums.balance()))
        self.removed_sums.join(owner.sums)
        self._resize_removed()

    def restored_run(
        self, owner: StoredDestination, sequence: int, segment: int, offset: int, length: int, count: int
    ) -> None:
        """Add ``count`` consecutive messages of ``length`` bytes each above all others, in adjacent records."""
        size = record_size(length)
        owner.index.add_run(sequence, packed_location(segment, offset), size >> 3, length, count)
        self.segments.hold_many(segment, count, size)

    def written_message(self, owner: StoredDestination, sequence: int, segment: int, offset: int, length: int) -> None:
        """Add a message at the location of its own record or of a shared body."""
        owner.index.add(sequence, packed_location(segment, offset), length)
        self.segments.by_number[segment].hold(record_size(length))

    def restored_message(self, owner: StoredDestination, sequence: int, segment: int, offset: int, length: int) -> bool:
        """Add a message at this location; False for a moved message that was found at another location before."""
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
        """Count a new record of a message at location ``old``.

        Reads use the new location once the record is on the disk.
        """
        size = record_size(length)
        owner.moving[sequence] = packed_location(segment, offset)
        self.segments.hold(segment, size)
        self.segments.release(location_segment(old), 1, size, segment)

    def written_removal(
        self, owner: StoredDestination, sequence: int, location: int, length: int, segment: int
    ) -> None:
        """Count the end of a message of ``length`` bytes at ``location`` by a record in ``segment``."""
        self.segments.release(location_segment(location), 1, record_size(length), segment)
        if owner.note_locations:
            noted = owner.note_locations.pop(sequence, GONE)
            if noted != GONE:
                self.segments.release(location_segment(noted), 1, NOTE_BYTES, segment)

    def absent(self, runs: TransferRuns) -> int:
        """Return how many messages of a transfer are not there."""
        source = self.by_number.get(runs.source)
        missing = 0
        for index, first in enumerate(runs.firsts):
            locations: list[int] = []
            if source is not None:
                source.index.locate(list(range(first, first + runs.counts[index])), locations, [])
            missing += runs.counts[index] - len(locations) + locations.count(GONE)
        return missing

    def written_transfer(
        self, owner: StoredDestination, sequence: int, runs: TransferRuns, missing: int, segment: int
    ) -> None:
        """Hand messages to ``owner``, with sequences from ``sequence`` on, by a record in ``segment``.

        So many of the messages were ``missing`` when the record was written.
        """
        count = max(0, runs.count - missing)
        self.went(self.by_number[runs.source], MOVED_OUT, count)
        self.came(owner, CLIENT, count)
        source = self.by_number[runs.source]
        passed = self.passed.setdefault(source.number, Labels())
        origins = self.origins.setdefault(owner.number, Labels())
        self.labelled.setdefault(segment, set()).update((source.number, owner.number))
        for index, first in enumerate(runs.firsts):
            count = runs.counts[index]
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
        for index, location in enumerate(locations):
            if location == GONE:
                continue
            owner.index.restore(sequence + index, location, lengths[index])
            if source.moving:
                moved = source.moving.pop(first + index, GONE)
                if moved != GONE:
                    owner.moving[sequence + index] = moved
                    location = moved
            if location_segment(location) != last:
                last = location_segment(location)
                self.segments.refer(last, segment)
            if source.note_locations:
                self._forget_note(source, first + index, segment)

    def _forget_note(self, owner: StoredDestination, sequence: int, segment: int) -> None:
        owner.notes.pop(sequence, 0)
        noted = owner.note_locations.pop(sequence, GONE)
        if noted != GONE:
            self.segments.release(location_segment(noted), 1, NOTE_BYTES, segment)

    def present_label(self, number: int, sequence: int) -> tuple[int, int]:
        """Return the present destination and sequence of a message that was written with these."""
        while True:
            labels = self.passed.get(number)
            if labels is None:
                return number, sequence
            index = labels.run_index(sequence)
            if index == NOT_PASSED:
                return number, sequence
            number = labels.numbers[index]
            sequence = labels.other(index, sequence)

    def moved(self, owner: StoredDestination, sequence: int) -> None:
        """Read a moved message from the new location, in whichever destination the message is now."""
        if owner.number in self.passed:
            number, sequence = self.present_label(owner.number, sequence)
            present = self.by_number.get(number)
            if present is None:
                return
            owner = present
        owner.moved(sequence)

    def drop_segment(self, segment: int) -> None:
        """Drop an unneeded segment.

        Reads may use the segment, and need its labels, until moved messages are on the disk.
        """
        self.segments.drop(segment)

    def drop_labels(self, segments: set[int]) -> None:
        """Forget the labels of transfers in dropped segments that are no longer read."""
        numbers: set[int] = set()
        for segment in segments:
            labelled = self.labelled.pop(segment, None)
            if labelled is not None:
                numbers.update(labelled)
        for number in numbers:
            _drop_labels(self.passed, number, segments)
            _drop_labels(self.origins, number, segments)

    def written_redelivery(self, owner: StoredDestination, sequence: int, segment: int, offset: int) -> None:
        """Record the location of the redelivery count of a message."""
        noted = owner.note_locations.get(sequence, GONE)
        owner.note_locations[sequence] = packed_location(segment, offset)
        self.segments.hold(segment, NOTE_BYTES)
        if noted != GONE:
            self.segments.release(location_segment(noted), 1, NOTE_BYTES, segment)

    def written_metadata(self, table: int, key: bytes, segment: int, offset: int, length: int) -> None:
        """Record the location of the metadata record under this key."""
        if table == PRODUCER_AUDIT and key == AUDIT_MARK:
            self.segments.keep_from = segment
            self.segments.changed = True
            return
        if table == ACCEPTED_IDS:
            return  # the copies of the audit have them
        metadata = self.metadata.get(table)
        if metadata is None:
            metadata = {}
            self.metadata[table] = metadata
        old = metadata.get(key)
        size = record_size(length)
        metadata[key] = MetadataLocation(packed_location(segment, offset), size)
        self.segments.hold(segment, size)
        if old is not None:
            self.segments.release(location_segment(old.location), 1, old.size, segment)

    def written_metadata_discard(self, table: int, key: bytes, segment: int) -> None:
        """Count the end of the metadata record under this key by a record in ``segment``."""
        metadata = self.metadata.get(table)
        if metadata is None:
            return
        old = metadata.pop(key, None)
        if old is not None:
            self.segments.release(location_segment(old.location), 1, old.size, segment)

    def written_destination_removal(self, owner: StoredDestination, segment: int, is_counted: bool = True) -> None:
        """Remove a destination by a record in ``segment``; `removals` releases the messages.

        ``is_counted`` is False if the ledger of a check-point has its sums already.
        """
        if is_counted:
            self._close_sums(owner)
        self.leave(owner)
        self.removals.add(owner, segment)

    def skip_lost_sequences(self) -> None:
        """Skip sequences that were given out before a crash and not synced, so that none is given out twice."""
        self.floor += LOST_SEQUENCES
        for owner in self.by_number.values():
            owner.high += LOST_SEQUENCES
            if self.floor < owner.high:
                self.floor = owner.high


def _drop_labels(labels_of: dict[int, Labels], number: int, segments: set[int]) -> None:
    labels = labels_of.get(number)
    if labels is not None:
        labels.drop(segments)
        if len(labels) == 0:
            del labels_of[number]


def destination_of(qualified_name: str) -> Destination:
    """Return the destination of a stored qualified name.

    Raises:
        StoreError: the name has no known scheme.
    """
    for kind, scheme in enumerate(STORED_SCHEMES):
        if qualified_name.startswith(scheme):
            return Destination(kind, qualified_name[len(scheme) :])
    raise StoreError(f"the journal holds a destination of unknown kind: {qualified_name[:40]!r}")
