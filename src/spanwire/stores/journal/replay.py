"""Applies the records that a start finds, in the order in which they were written, to the index.

Leaves to others how a record was found: by reading a segment whole or from its summary. After the last one `Replay`
holds what the broker gets.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.recovery import RecoveredDestination, no_expirations
from spanwire.stores.journal.checkpoint import Checkpoint, decode_checkpoint, restore_destination
from spanwire.stores.journal.index import GONE, JournalIndex, StoredDestination
from spanwire.stores.journal.record import (
    BODY,
    CANCELLED,
    CHECKPOINT,
    DESTINATION,
    DESTINATION_REMOVED,
    FACT,
    FACT_DISCARDED,
    MESSAGE,
    MOVED,
    MOVED_BODY,
    REDELIVERY,
    REMOVAL,
)
from spanwire.stores.journal.segment import damage, segment_name

BODIES: Final = (MESSAGE, BODY, MOVED, MOVED_BODY)  # kinds of which only the expiration is looked at


class Replay:
    """``facts`` are all facts so far, by table and key."""

    __slots__ = ("_index", "_listed", "_segment", "facts")

    def __init__(self, index: JournalIndex) -> None:
        self._index: Final[JournalIndex] = index
        self._listed: set[int] | None = None
        self._segment = 0
        self.facts: Final[dict[int, dict[bytes, bytes]]] = {}

    def begin(self, number: int, seed: int) -> None:
        """The records of segment ``number`` follow."""
        self._segment = number
        self._index.segments.open(number, seed)

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
        if kind == MESSAGE:
            owner = self._owner(number, segment, offset)
            if sequence > owner.high:
                owner.high = sequence
            index.written_message(owner, sequence, segment, offset, length)
        elif kind == REMOVAL:
            owner = self._owner(number, segment, offset)
            location = owner.index.remove(sequence)
            owner.notes.pop(sequence, 0)
            if location != GONE:
                index.written_removal(owner, sequence, location, segment)
        elif kind == REDELIVERY:
            owner = self._owner(number, segment, offset)
            if owner.index.find(sequence) != GONE:
                owner.notes[sequence] = int.from_bytes(payload, "little")
                index.written_redelivery(owner, sequence, segment)
        else:
            self._apply_rare(kind, number, sequence, segment, offset, payload)

    def end_batch(self) -> None:
        """The records of one batch are through: a check-point among them lists all destinations that exist."""
        listed = self._listed
        self._listed = None
        if listed is None:
            return
        for owner in list(self._index.by_number.values()):
            if owner.number not in listed:
                self._index.written_destination_removal(self._index.take_counts(owner), self._segment)
                self._index.leave(owner)

    def destinations(self) -> list[RecoveredDestination]:
        """What the broker gets of the messages."""
        found: list[RecoveredDestination] = []
        for owner in self._index.by_number.values():
            sequences = owner.index.sequences()
            found.append(RecoveredDestination(owner.destination, sequences, dict(owner.notes), {}, no_expirations()))
        return found

    def _apply_rare(self, kind: int, number: int, sequence: int, segment: int, offset: int, payload: bytes) -> None:
        index = self._index
        if kind == DESTINATION:
            restore_destination(index, number, sequence, payload)
            if self._listed is not None:
                self._listed.add(number)
        elif kind == DESTINATION_REMOVED:
            owner = self._owner(number, segment, offset)
            index.written_destination_removal(index.take_counts(owner), segment)
            index.leave(owner)
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
            self.facts.setdefault(number, {})[payload[:sequence]] = payload[sequence:]
            index.written_fact(number, payload[:sequence], segment)
        elif kind == FACT_DISCARDED:
            self.facts.get(number, {}).pop(payload, b"")
            index.written_fact_discard(number, payload, segment)

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
