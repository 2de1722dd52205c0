"""Records of a segment that are still in force, and their entries in a batch that moves them."""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.model.message import DEFAULT_PRIORITY
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE, packed_location
from spanwire.stores.journal.index.stored_destination import Entry, SharedBody, StoredDestination
from spanwire.stores.journal.segments.record import (
    FORMAT_MASK,
    HEADER_SIZE,
    MESSAGE,
    METADATA,
    MOVED,
    MOVED_BODY,
    REDELIVERY,
    REFERENCE,
    Record,
    record_size,
)

_HEADER: Final = Struct("<IIBBHIQ")


class Candidate:
    """A record that may be worth moving, with its payload.

    ``body`` is the body of a REFERENCE, ``cost`` the bytes that moving takes, with the body for the first reference of
    each batch.
    """

    __slots__ = ("body", "cost", "payload", "record")

    def __init__(self, record: Record, payload: bytes, body: Candidate | None, cost: int) -> None:
        self.record: Final[Record] = record
        self.payload: Final[bytes] = payload
        self.body: Final[Candidate | None] = body
        self.cost = cost


class LiveRecords:
    """Compares the records of a segment with the index, and makes the entries that move them."""

    __slots__ = ("_index", "_nobody")

    def __init__(self, index: JournalIndex, nobody: StoredDestination) -> None:
        self._index: Final[JournalIndex] = index
        self._nobody: Final[StoredDestination] = nobody

    def is_live(self, candidate: Candidate, segment: int) -> bool:
        """Return True if this very record of ``segment`` is in force."""
        record = candidate.record
        kind = record.kind
        location = packed_location(segment, record.offset)
        if kind == METADATA:
            metadata = self._index.metadata.get(record.destination)
            if metadata is None:
                return False
            current = metadata.get(candidate.payload[: record.sequence])
            return current is not None and current.location == location
        number, sequence = self._index.present_label(record.destination, record.sequence)
        owner = self._index.by_number.get(number)
        if owner is None:
            return False
        if kind == REDELIVERY:
            return owner.note_locations.get(sequence, GONE) == location
        if candidate.body is not None:
            location = packed_location(segment, candidate.body.record.offset)
        return owner.index.find(sequence) == location and sequence not in owner.moving

    def is_dead(self, block: bytes, at: int, segment: int, offset: int) -> bool:
        """Return True for the header at index ``at`` of ``block`` if the message is removed.

        The header stands at ``offset`` of ``segment``, and is not checked.
        """
        _, length, kind, flags, format_id, number, sequence = _HEADER.unpack_from(block, at)
        if kind != MESSAGE and kind != MOVED:
            return False
        record = Record(offset, kind, flags, format_id, number, sequence, length)
        return not self.is_live(Candidate(record, b"", None, 0), segment)

    def entry(self, candidate: Candidate, segment: int, shared: SharedBody, position: int) -> Entry | None:
        """Return the entry that moves a record of ``segment``; None if the record is no longer in force."""
        if not self.is_live(candidate, segment):
            return None
        record = candidate.record
        size = record_size(record.payload_length)
        if record.kind == METADATA:
            entry = Entry(METADATA, self._nobody, record.sequence, None, candidate.payload, position, size)
            entry.table = record.destination
            return entry
        number, sequence = self._index.present_label(record.destination, record.sequence)
        owner = self._index.by_number[number]
        kind = MOVED if record.kind == MESSAGE else record.kind
        entry = Entry(kind, owner, sequence, None, candidate.payload, position, size)
        if kind == MOVED:
            self._describe(entry, record, segment)
        elif kind == REFERENCE:
            entry.shared = shared
        entry.location = owner.index.find(sequence)
        return entry

    def body_entry(self, body: Candidate, segment: int, shared: SharedBody, position: int) -> Entry:
        """Return the entry that moves a body of ``segment`` for the references behind it."""
        record = body.record
        size = record_size(record.payload_length)
        entry = Entry(MOVED_BODY, self._nobody, 0, None, body.payload, position, size)
        self._describe(entry, record, segment)
        entry.shared = shared
        return entry

    def _describe(self, entry: Entry, record: Record, segment: int) -> None:
        """Copy flags and format. The payload stays as written, with the expiration in front."""
        state = self._index.segments.by_number[segment]
        entry.flags = record.flags if state.version > 1 else DEFAULT_PRIORITY
        entry.format_id = record.format_id & FORMAT_MASK


def payload_at(record: Record, block: bytes, at: int) -> bytes:
    """Return the payload of a record that begins at index ``at`` of ``block``."""
    start = at + HEADER_SIZE
    return block[start : start + record.payload_length]
