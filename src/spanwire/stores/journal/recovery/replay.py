"""Applies the records that a start finds, in the order in which they were written, to the index.

Leaves to others how a record was found: by reading a segment whole or from its summary. After the last one `Replay`
holds what the broker gets.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import PRODUCER_AUDIT
from spanwire.broker.persistence.recovered import RecoveredDestination, no_expirations
from spanwire.model.message import DEFAULT_PRIORITY
from spanwire.stores.journal.index.index import JournalIndex, StoredDestination
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.recovery.checkpoint import Checkpoint, decode_checkpoint, restore_destination
from spanwire.stores.journal.segments.record import (
    AUDIT_MARK,
    BODY,
    CANCELLED,
    CHECKPOINT,
    DESTINATION,
    DESTINATION_REMOVED,
    EXPIRATION_SIZE,
    EXPIRES,
    FACT,
    FACT_DISCARDED,
    MESSAGE,
    MOVED,
    MOVED_BODY,
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

BODIES: Final = (MESSAGE, BODY, MOVED, MOVED_BODY)  # kinds of which only the expiration is looked at


class EarlyNote:
    """The redelivery count of a message that was not found yet, and where it lies."""

    __slots__ = ("count", "offset", "segment")

    def __init__(self, count: int, segment: int, offset: int) -> None:
        self.count: Final[int] = count
        self.segment: Final[int] = segment
        self.offset: Final[int] = offset


class Replay:
    """``facts`` are all facts so far, by table and key; ``audit_segment`` the one that holds the newest whole copy of
    the producer audit, 0 if there is none.
    """

    __slots__ = (
        "_body_flags",
        "_body_length",
        "_body_offset",
        "_body_payload",
        "_early_notes",
        "_index",
        "_knows_traits",
        "_listed",
        "_segment",
        "_traits",
        "audit_segment",
        "facts",
    )

    def __init__(self, index: JournalIndex) -> None:
        self._index: Final[JournalIndex] = index
        self._listed: set[int] | None = None
        self._traits: Final[dict[int, Traits]] = {}
        self._early_notes: Final[dict[int, dict[int, EarlyNote]]] = {}
        self._segment = 0
        self._knows_traits = False
        self._body_offset = 0
        self._body_length = 0
        self._body_flags = 0
        self._body_payload = b""
        self.audit_segment = 0
        self.facts: Final[dict[int, dict[bytes, bytes]]] = {}

    def begin(self, number: int, seed: int, version: int, size: int) -> None:
        """The records of segment ``number`` of format ``version`` follow; its file has ``size`` bytes."""
        self._segment = number
        self._knows_traits = version > 1
        self._body_offset = 0
        self._index.segments.open(number, seed, version, size)

    def end(self, end: int) -> None:
        """The last batch of the segment ends at ``end``."""
        self._index.segments.seal(self._segment, end)

    def apply(
        self,
        kind: int,
        flags: int,
        number: int,
        sequence: int,
        segment: int,
        offset: int,
        length: int,
        payload: bytes,
    ) -> None:
        """One record at ``offset`` of ``segment`` with a payload of ``length`` bytes.

        ``payload`` is the whole of it, but for `BODIES` only its first `expiration_size` bytes. Raises `StoreError`
        naming file and byte when the record makes no sense where it stands.
        """
        index = self._index
        if kind == MESSAGE or kind == MOVED:
            owner = self._owner(number, segment, offset)
            if sequence > owner.high:
                owner.high = sequence
            if index.restored_message(owner, sequence, segment, offset, length) and kind == MOVED:
                self._adopt_note(owner, sequence)
            if self._knows_traits and flags != DEFAULT_PRIORITY:
                self._note_traits(owner, sequence, flags, payload)
        elif kind == REMOVAL:
            owner = self._owner(number, segment, offset)
            location = owner.index.remove(sequence)
            if owner.notes:
                owner.notes.pop(sequence, 0)
            if location != GONE:
                index.written_removal(owner, sequence, location, owner.index.removed_length, segment)
        elif kind == REDELIVERY:
            self._note(self._owner(number, segment, offset), sequence, payload, segment, offset)
        elif kind == REFERENCE:
            self._apply_reference(number, sequence, segment, offset)
        else:
            self._apply_rare(kind, flags, number, sequence, segment, offset, length, payload)

    def apply_run(
        self, flags: int, number: int, sequence: int, segment: int, offset: int, length: int, count: int
    ) -> None:
        """The same as so many MESSAGE records that do not expire, one behind the other, with rising sequences."""
        owner = self._owner(number, segment, offset)
        if count == 1 or not owner.index.is_above(sequence):
            for place in range(count):
                at = offset + place * record_size(length)
                self.apply(MESSAGE, flags, number, sequence + place, segment, at, length, b"")
            return
        last = sequence + count - 1
        if last > owner.high:
            owner.high = last
        self._index.restored_run(owner, sequence, segment, offset, length, count)
        if self._knows_traits and flags != DEFAULT_PRIORITY:
            for place in range(count):
                self._note_traits(owner, sequence + place, flags, b"")

    def end_batch(self) -> None:
        """The records of one batch are through: a check-point among them lists all destinations that exist."""
        listed = self._listed
        self._listed = None
        if listed is None:
            return
        for owner in list(self._index.by_number.values()):
            if owner.number not in listed:
                self._remove(owner, self._segment)

    def finish(self) -> None:
        """All segments are through."""
        self._early_notes.clear()
        for owner in self._index.by_number.values():
            owner.index.settle()

    def destinations(self) -> list[RecoveredDestination]:
        """What the broker gets of the messages; after `finish`."""
        found: list[RecoveredDestination] = []
        for owner in self._index.by_number.values():
            sequences = owner.index.sequences()
            traits = self._traits.get(owner.number)
            priorities: dict[int, int] = {}
            expirations = no_expirations()
            if traits is not None:
                priorities = traits.priorities(sequences)
                expirations = traits.expirations(sequences)
            found.append(RecoveredDestination(owner.destination, sequences, dict(owner.notes), priorities, expirations))
        return found

    def _note(self, owner: StoredDestination, sequence: int, payload: bytes, segment: int, offset: int) -> None:
        """A redelivery count. The message may be one that was moved behind it, from a segment that is gone."""
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

    def _apply_reference(self, number: int, sequence: int, segment: int, offset: int) -> None:
        owner = self._owner(number, segment, offset)
        if self._body_offset == 0:
            raise damage(segment_name(segment), offset, "the message that it refers to is not there")
        if sequence > owner.high:
            owner.high = sequence
        if self._index.restored_message(owner, sequence, segment, self._body_offset, self._body_length):
            self._adopt_note(owner, sequence)
        if self._body_flags != DEFAULT_PRIORITY:
            self._note_traits(owner, sequence, self._body_flags, self._body_payload)

    def _apply_rare(
        self,
        kind: int,
        flags: int,
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
            self._body_payload = payload
        elif kind == DESTINATION:
            restore_destination(index, number, sequence, payload)
            if self._listed is not None:
                self._listed.add(number)
        elif kind == DESTINATION_REMOVED:
            self._remove(self._owner(number, segment, offset), segment)
        elif kind == CHECKPOINT:
            checkpoint = checkpoint_of(segment, offset, payload)
            index.floor = max(index.floor, checkpoint.floor)
            index.next_number = max(index.next_number, checkpoint.next_number)
            self._listed = set()
        elif kind == CANCELLED:
            owner = self._owner(number, segment, offset)
            if sequence > owner.high:
                owner.high = sequence
        elif kind == FACT:
            self._put_fact(number, payload[:sequence], payload[sequence:], segment, offset, length)
        else:
            self._apply_rarest(kind, number, sequence, segment, offset, payload)

    def _apply_rarest(self, kind: int, number: int, sequence: int, segment: int, offset: int, payload: bytes) -> None:
        if kind == FACT_DISCARDED:
            self.facts.get(number, {}).pop(payload, b"")
            self._index.written_fact_discard(number, payload, segment)
        elif kind == TRANSFER:
            runs = decode_transfer(payload)
            if runs is None:
                raise damage(segment_name(segment), offset, "its transfer has a wrong length")
            self._owner(runs.source, segment, offset)
            self._apply_transfer(self._owner(number, segment, offset), sequence, runs, segment)

    def _apply_transfer(self, owner: StoredDestination, sequence: int, runs: TransferRuns, segment: int) -> None:
        last = sequence + runs.count - 1
        if last > owner.high:
            owner.high = last
        self._index.written_transfer(owner, sequence, runs, segment)
        traits = self._traits.get(runs.source)
        if traits is not None:
            others = self._traits.get(owner.number)
            if others is None:
                others = Traits()
                self._traits[owner.number] = others
            traits.pass_on(runs, sequence, others)
        if owner.number in self._early_notes:
            for new in range(sequence, last + 1):
                if owner.index.find(new) != GONE:
                    self._adopt_note(owner, new)

    def _put_fact(self, table: int, key: bytes, value: bytes, segment: int, offset: int, length: int) -> None:
        if table == PRODUCER_AUDIT and key == AUDIT_MARK:
            self.audit_segment = segment
            return  # nothing is kept for its sake unless there is an audit in this run too
        self.facts.setdefault(table, {})[key] = value
        self._index.written_fact(table, key, segment, offset, length)

    def _remove(self, owner: StoredDestination, segment: int) -> None:
        owner.index.settle()
        self._index.written_destination_removal(self._index.take_counts(owner), segment)
        self._index.leave(owner)
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


def checkpoint_of(segment: int, offset: int, payload: bytes) -> Checkpoint:
    """The check-point in a CHECKPOINT record; raises `StoreError` when it is none."""
    found = decode_checkpoint(payload)
    if found is None:
        raise damage(segment_name(segment), offset, "its check-point has a wrong length")
    return found
