"""The check-point at the start of each segment: the state from records of deleted segments.

The check-point has the floor of sequences, the next destination number, the needed segments, and every destination with
its number, highest sequence and sums of the ledger. Destinations that the check-point does not list do not exist.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.model.ledger import Sums
from spanwire.stores.journal.index.index import JournalIndex, destination_of
from spanwire.stores.journal.index.stored_destination import StoredDestination
from spanwire.stores.journal.segments.ledger_records import REMOVED_DESTINATIONS, ledger_payloads
from spanwire.stores.journal.segments.record import (
    CHECKPOINT,
    DESTINATION,
    LEDGER,
    PADDING,
    encode_header,
    record_size,
)
from spanwire.stores.journal.segments.segment import (
    BATCH_HEAD_SIZE,
    SEGMENT_HEADER_SIZE,
    encode_batch_head,
)

_FIXED: Final = Struct("<QII")
_SEGMENT: Final = Struct("<Q")


class Checkpoint:
    """The CHECKPOINT record's payload, decoded."""

    __slots__ = ("floor", "next_number", "segments")

    def __init__(self, floor: int, next_number: int, segments: list[int]) -> None:
        self.floor: Final[int] = floor
        self.next_number: Final[int] = next_number
        self.segments: Final[list[int]] = segments


class CheckpointEncoder:
    """Encodes the check-point of a new segment, some destinations at a time.

    The check-point is the first batch of the segment.

    ``size`` is the number of bytes of the whole batch, ``last`` the offset of the last encoded record, ``last_head``
    the header of this record. Between two slices destinations may give out sequences, but no record may be written.
    """

    __slots__ = ("_head", "_next", "_offset", "_owners", "_seed", "last", "last_head", "size")

    def __init__(self, index: JournalIndex, seed: int) -> None:
        segments = index.segments.numbers()
        payload = _FIXED.pack(index.floor, index.next_number, len(segments))
        payload += b"".join([_SEGMENT.pack(number) for number in segments])
        self._seed: Final[int] = seed
        self._owners: Final[list[StoredDestination]] = list(index.by_number.values())
        self._next = 0
        self.size: Final[int] = BATCH_HEAD_SIZE + record_size(len(payload)) + index.destination_bytes
        head = encode_batch_head(seed, SEGMENT_HEADER_SIZE, 1, self.size)
        self.last = SEGMENT_HEADER_SIZE + len(head)
        self.last_head = encode_header(seed, self.last, CHECKPOINT, 0, 0, 0, len(self._owners), payload)
        self._head: list[bytes] = [head, self.last_head, payload, PADDING[len(payload) & 7]]
        self._offset = self.last + record_size(len(payload))
        if index.has_ledger:
            self._add_sums(self._head, REMOVED_DESTINATIONS, index.removed_sums, True)

    def _add_sums(self, parts: list[bytes], number: int, sums: Sums, is_always: bool) -> None:
        """Append the LEDGER records of ``sums``."""
        for link, payload in ledger_payloads(sums, is_always):
            self.last = self._offset
            self.last_head = encode_header(self._seed, self.last, LEDGER, 0, 0, number, link, payload)
            parts.append(self.last_head)
            parts.append(payload)
            self._offset += record_size(len(payload))

    @property
    def is_complete(self) -> bool:
        """Return True if all destinations are encoded."""
        return self._next == len(self._owners)

    def encode(self, records: int, size: int) -> bytes:
        """Encode destinations until ``records`` records or more than ``size`` bytes are encoded."""
        parts = self._head
        self._head = []
        offset = self._offset
        end = offset + size
        stop = min(len(self._owners), self._next + records)
        while self._next < stop and offset <= end:
            owner = self._owners[self._next]
            self._next += 1
            name = owner.destination.qualified_name.encode("utf-8", "surrogatepass")
            self.last = offset
            self.last_head = encode_header(self._seed, offset, DESTINATION, 0, 0, owner.number, owner.high, name)
            parts.append(self.last_head)
            parts.append(name)
            parts.append(PADDING[len(name) & 7])
            self._offset = offset + record_size(len(name))
            self._add_sums(parts, owner.number, owner.sums, False)
            offset += owner.record_bytes
            assert self._offset == offset
        assert not self.is_complete or offset == SEGMENT_HEADER_SIZE + self.size
        return b"".join(parts)


def encode_checkpoint(index: JournalIndex, seed: int) -> bytes:
    """Return the first batch of a segment, which begins right behind the segment's header."""
    encoder = CheckpointEncoder(index, seed)
    return encoder.encode(len(index.by_number), encoder.size)


def decode_checkpoint(payload: bytes) -> Checkpoint | None:
    """Return the check-point in the payload of a CHECKPOINT record.

    Returns None if the payload has a wrong length.
    """
    if len(payload) < _FIXED.size:
        return None
    floor, next_number, count = _FIXED.unpack_from(payload)
    if len(payload) != _FIXED.size + 8 * count:
        return None
    segments: list[int] = []
    for index in range(count):
        number: int = _SEGMENT.unpack_from(payload, _FIXED.size + 8 * index)[0]
        segments.append(number)
    return Checkpoint(floor, next_number, segments)


def restore_destination(index: JournalIndex, number: int, high: int, payload: bytes) -> None:
    """Add the destination of a DESTINATION record to the index.

    Raises:
        StoreError: the payload is not the name of a destination.
    """
    index.restore(number, destination_of(payload.decode("utf-8", "surrogatepass")), high)
