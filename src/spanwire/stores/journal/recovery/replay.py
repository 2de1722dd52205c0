"""Applies the recovered records to the index in the order of writing.

The records come from whole segments or from summaries. After the last record `Replay` has the state for the broker.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import ACCEPTED_IDS, PRODUCER_AUDIT
from spanwire.broker.persistence.recovered import RecoveredDestination, no_expirations
from spanwire.model.ledger import LINK_SHIFT, NO_MESSAGE, WAY_MASK
from spanwire.model.message import DEFAULT_PRIORITY
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.index.stored_destination import StoredDestination
from spanwire.stores.journal.recovery.checkpoint import Checkpoint, decode_checkpoint, restore_destination
from spanwire.stores.journal.segments.ledger_records import REMOVED_DESTINATIONS, restore_sums
from spanwire.stores.journal.segments.record import (
    AUDIT_MARK,
    BODY,
    CANCELLED,
    CHECKPOINT,
    DESTINATION,
    DESTINATION_REMOVED,
    EXPIRATION_SIZE,
    EXPIRES,
    FORMAT_MASK,
    LEDGER,
    MESSAGE,
    METADATA,
    METADATA_DISCARDED,
    MOVED,
    MOVED_BODY,
    ORIGIN_SHIFT,
    PRIORITY_MASK,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    TRANSFER,
    record_size,
)
from spanwire.stores.journal.segments.segment import damage, segment_name
from spanwire.stores.journal.segments.traits import Traits
from spanwire.stores.journal.segments.transfers import TransferRuns, decode_transfer

BODIES: Final = (MESSAGE, BODY, MOVED, MOVED_BODY)  # kinds with a message; a replay reads only its expiration


class EarlyNote:
    """The redelivery count of a message that was not yet found, and the location of its record."""

    __slots__ = ("count", "offset", "segment")

    def __init__(self, count: int, segment: int, offset: int) -> None:
        self.count: Final[int] = count
        self.segment: Final[int] = segment
        self.offset: Final[int] = offset


class Replay:
    """The state of the store while records are applied.

    ``metadata`` are all metadata records so far, by table and key. ``audit_segment`` is the segment with the newest
    complete copy of the producer audit; 0 without a copy.
    """

    __slots__ = (
        "_body_flags",
        "_body_is_new",
        "_body_length",
        "_body_offset",
        "_body_payload",
        "_early_notes",
        "_has_ledger",
        "_has_traits",
        "_index",
        "_listed_numbers",
        "_segment",
        "_traits",
        "audit_segment",
        "metadata",
    )

    def __init__(self, index: JournalIndex) -> None:
        self._index: Final[JournalIndex] = index
        self._listed_numbers: set[int] | None = None
        self._traits: Final[dict[int, Traits]] = {}
        self._early_notes: Final[dict[int, dict[int, EarlyNote]]] = {}
        self._segment = 0
        self._has_traits = False
        self._body_offset = 0
        self._body_length = 0
        self._body_flags = 0
        self._body_is_new = False
        self._has_ledger = False  # the newest check-point so far has the ledger
        self._body_payload = b""
        self.audit_segment = 0
        self.metadata: Final[dict[int, dict[bytes, bytes]]] = {}

    def begin(self, number: int, seed: int, version: int, size: int) -> None:
        """Start segment ``number`` of format ``version``; the segment's file has ``size`` bytes."""
        self._segment = number
        self._has_traits = version > 1
        self._body_offset = 0
        self._index.segments.open(number, seed, version, size)

    def end(self, end: int) -> None:
        """Finish the segment, whose last batch ends at ``end``."""
        self._index.segments.seal(self._segment, end)

    def apply(
        self,
        kind: int,
        flags: int,
        format_id: int,
        number: int,
        sequence: int,
        segment: int,
        offset: int,
        length: int,
        payload: bytes,
    ) -> None:
        """Apply a record at ``offset`` of ``segment`` with a payload of ``length`` bytes.

        ``payload`` is the whole payload; for `BODIES` only the first `expiration_size` bytes.

        Raises:
            StoreError: the record contradicts the records before it. The text names file and byte.
        """
        index = self._index
        if kind == MESSAGE or kind == MOVED:
            owner = self._owner(number, segment, offset)
            if sequence > owner.high:
                owner.high = sequence
            is_new = index.restored_message(owner, sequence, segment, offset, length)
            if kind == MESSAGE:
                index.came(owner, format_id >> ORIGIN_SHIFT, 1)
            elif is_new:
                self._adopt_note(owner, sequence)
            if self._has_traits and flags != DEFAULT_PRIORITY:
                self._note_traits(owner, sequence, flags, payload)
        elif kind == REMOVAL:
            self._apply_removal(way_of(flags, format_id), number, sequence, segment, offset)
        elif kind == REDELIVERY:
            self._note(self._owner(number, segment, offset), sequence, payload, segment, offset)
        elif kind == REFERENCE:
            self._apply_reference(format_id >> ORIGIN_SHIFT, number, sequence, segment, offset)
        else:
            self._apply_rare(kind, flags, format_id, number, sequence, segment, offset, length, payload)

    def _apply_removal(self, way: int, number: int, sequence: int, segment: int, offset: int) -> None:
        owner = self._owner(number, segment, offset)
        location = owner.index.remove(sequence)
        if owner.notes:
            owner.notes.pop(sequence, 0)
        if location != GONE:
            self._index.written_removal(owner, sequence, location, owner.index.removed_length, segment)
        if way != NO_MESSAGE:  # the segment of the message may be gone by now
            self._index.went(owner, way, 1)

    def apply_run(
        self, flags: int, format_id: int, number: int, sequence: int, segment: int, offset: int, length: int, count: int
    ) -> None:
        """Apply ``count`` adjacent MESSAGE records with rising sequences.

        Length, flags, format and destination are equal.

        The messages do not expire.
        """
        owner = self._owner(number, segment, offset)
        if count == 1 or not owner.index.is_above(sequence):
            for index in range(count):
                record_offset = offset + index * record_size(length)
                self.apply(MESSAGE, flags, format_id, number, sequence + index, segment, record_offset, length, b"")
            return
        last = sequence + count - 1
        if last > owner.high:
            owner.high = last
        self._index.restored_run(owner, sequence, segment, offset, length, count)
        self._index.came(owner, format_id >> ORIGIN_SHIFT, count)
        if self._has_traits and flags != DEFAULT_PRIORITY:
            for index in range(count):
                self._note_traits(owner, sequence + index, flags, b"")

    def end_batch(self) -> None:
        """Finish a batch. After a check-point, remove the destinations outside of the check-point."""
        listed = self._listed_numbers
        self._listed_numbers = None
        if listed is None:
            return
        for owner in list(self._index.by_number.values()):
            if owner.number not in listed:
                self._remove(owner, self._segment, not self._has_ledger)

    def finish(self) -> None:
        """Finish the last segment."""
        self._early_notes.clear()
        if not self._has_ledger:
            self._index.clear_ledger()
        for owner in self._index.by_number.values():
            owner.index.settle()
            if not self._has_ledger:
                self._index.found(owner)

    def destinations(self) -> list[RecoveredDestination]:
        """Return the destinations with their messages for the broker. Call after `finish`."""
        recovered: list[RecoveredDestination] = []
        for owner in self._index.by_number.values():
            sequences = owner.index.sequences()
            traits = self._traits.get(owner.number)
            priorities: dict[int, int] = {}
            expirations = no_expirations()
            if traits is not None:
                priorities = traits.priorities(sequences)
                expirations = traits.expirations(sequences)
            recovered.append(
                RecoveredDestination(owner.destination, sequences, dict(owner.notes), priorities, expirations)
            )
        return recovered

    def _note(self, owner: StoredDestination, sequence: int, payload: bytes, segment: int, offset: int) -> None:
        """Apply a redelivery count.

        A message moved from a deleted segment may follow its redelivery count. The count is kept until then.
        """
        count = int.from_bytes(payload, "little")
        if owner.index.find(sequence) != GONE:
            owner.notes[sequence] = count
            self._index.written_redelivery(owner, sequence, segment, offset)
            return
        early = self._early_notes.get(owner.number)
        if early is None:
            early = {}
            self._early_notes[owner.number] = early
        early[sequence] = EarlyNote(count, segment, offset)

    def _adopt_note(self, owner: StoredDestination, sequence: int) -> None:
        early = self._early_notes.get(owner.number)
        if early is None:
            return
        note = early.pop(sequence, None)
        if note is not None:
            owner.notes[sequence] = note.count
            self._index.written_redelivery(owner, sequence, note.segment, note.offset)

    def _apply_reference(self, origin: int, number: int, sequence: int, segment: int, offset: int) -> None:
        owner = self._owner(number, segment, offset)
        if self._body_offset == 0:
            raise damage(segment_name(segment), offset, "the message that it refers to is not there")
        if sequence > owner.high:
            owner.high = sequence
        if self._index.restored_message(owner, sequence, segment, self._body_offset, self._body_length):
            self._adopt_note(owner, sequence)
        if self._body_is_new:
            self._index.came(owner, origin, 1)
        if self._body_flags != DEFAULT_PRIORITY:
            self._note_traits(owner, sequence, self._body_flags, self._body_payload)

    def _apply_rare(
        self,
        kind: int,
        flags: int,
        format_id: int,
        number: int,
        sequence: int,
        segment: int,
        offset: int,
        length: int,
        payload: bytes,
    ) -> None:
        index = self._index
        if kind == BODY or kind == MOVED_BODY:
            self._body_offset = offset
            self._body_length = length
            self._body_flags = flags
            self._body_is_new = kind == BODY
            self._body_payload = payload
        elif kind == DESTINATION:
            restore_destination(index, number, sequence, payload)
            if self._listed_numbers is not None:
                self._listed_numbers.add(number)
        elif kind == DESTINATION_REMOVED:
            self._remove(self._owner(number, segment, offset), segment, True)
        elif kind == CHECKPOINT:
            checkpoint = checkpoint_of(segment, offset, payload)
            index.floor = max(index.floor, checkpoint.floor)
            index.next_number = max(index.next_number, checkpoint.next_number)
            self._listed_numbers = set()
            self._has_ledger = False
            index.clear_ledger()
        elif kind == CANCELLED:
            owner = self._owner(number, segment, offset)
            if sequence > owner.high:
                owner.high = sequence
            index.came(owner, format_id >> ORIGIN_SHIFT, 1)
            index.went(owner, way_of(flags, format_id & FORMAT_MASK), 1)
        elif kind == METADATA:
            self._put_metadata(number, payload[:sequence], payload[sequence:], segment, offset, length)
        else:
            self._apply_rarest(kind, format_id, number, sequence, segment, offset, payload)

    def _apply_rarest(
        self, kind: int, format_id: int, number: int, sequence: int, segment: int, offset: int, payload: bytes
    ) -> None:
        if kind == METADATA_DISCARDED:
            self.metadata.get(number, {}).pop(payload, b"")
            self._index.written_metadata_discard(number, payload, segment)
        elif kind == TRANSFER:
            runs = decode_transfer(payload)
            if runs is None:
                raise damage(segment_name(segment), offset, "its transfer has a wrong length")
            self._owner(runs.source, segment, offset)
            self._apply_transfer(self._owner(number, segment, offset), sequence, runs, format_id, segment)
        elif kind == LEDGER:
            self._restore_sums(number, sequence, segment, offset, payload)

    def _restore_sums(self, number: int, link: int, segment: int, offset: int, payload: bytes) -> None:
        owner = None if number == REMOVED_DESTINATIONS else self._owner(number, segment, offset)
        sums = self._index.removed_sums if owner is None else owner.sums
        if not restore_sums(sums, link, payload):
            raise damage(segment_name(segment), offset, "its sums of the ledger are wrong")
        self._index.ledger_restored(owner, link)
        self._has_ledger = True

    def _apply_transfer(
        self, owner: StoredDestination, sequence: int, runs: TransferRuns, missing: int, segment: int
    ) -> None:
        last = sequence + runs.count - 1
        if last > owner.high:
            owner.high = last
        self._index.written_transfer(owner, sequence, runs, missing, segment)
        traits = self._traits.get(runs.source)
        if traits is not None:
            target_traits = self._traits.get(owner.number)
            if target_traits is None:
                target_traits = Traits()
                self._traits[owner.number] = target_traits
            traits.transfer(runs, sequence, target_traits)
        if owner.number in self._early_notes:
            for new in range(sequence, last + 1):
                if owner.index.find(new) != GONE:
                    self._adopt_note(owner, new)

    def _put_metadata(self, table: int, key: bytes, value: bytes, segment: int, offset: int, length: int) -> None:
        if table == PRODUCER_AUDIT and key == AUDIT_MARK:
            self.audit_segment = segment
            return  # without an audit in this run no segment is kept for the copy
        if table == ACCEPTED_IDS:
            return  # read by `recover_audit`
        self.metadata.setdefault(table, {})[key] = value
        self._index.written_metadata(table, key, segment, offset, length)

    def _remove(self, owner: StoredDestination, segment: int, is_counted: bool) -> None:
        owner.index.settle()
        self._index.written_destination_removal(owner, segment, is_counted)
        self._index.removals.release_all()
        self._traits.pop(owner.number, None)
        self._early_notes.pop(owner.number, None)

    def _note_traits(self, owner: StoredDestination, sequence: int, flags: int, payload: bytes) -> None:
        traits = self._traits.get(owner.number)
        if traits is None:
            traits = Traits()
            self._traits[owner.number] = traits
        priority = flags & PRIORITY_MASK
        if priority != DEFAULT_PRIORITY:
            traits.add_priority(sequence, priority)
        if flags & EXPIRES:
            traits.add_expiration(sequence, int.from_bytes(payload[:EXPIRATION_SIZE], "little", signed=True))

    def _owner(self, number: int, segment: int, offset: int) -> StoredDestination:
        owner = self._index.by_number.get(number)
        if owner is None:
            raise damage(segment_name(segment), offset, f"destination number {number} is unknown")
        return owner


def way_of(flags: int, link: int) -> int:
    """Return the way out of the ledger that a record names by its flags and the lower byte of its format."""
    cause = flags & WAY_MASK
    return cause if cause == NO_MESSAGE else cause | link << LINK_SHIFT


def checkpoint_of(segment: int, offset: int, payload: bytes) -> Checkpoint:
    """Return the check-point in a CHECKPOINT record.

    Raises:
        StoreError: the payload has a wrong length.
    """
    checkpoint = decode_checkpoint(payload)
    if checkpoint is None:
        raise damage(segment_name(segment), offset, "its check-point has a wrong length")
    return checkpoint
