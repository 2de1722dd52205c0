"""The check-point at the start of each segment: the state from records of deleted segments.

The check-point has the floor of sequences, the next destination number, the needed segments, and every destination with
its number and highest sequence. Destinations that the check-point does not list do not exist.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.stores.journal.index.index import JournalIndex, destination_of
from spanwire.stores.journal.segments.record import CHECKPOINT, DESTINATION, PADDING, encode_header, record_size
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


def encode_checkpoint(index: JournalIndex, seed: int) -> list[bytes]:
    """Return the first batch of a segment, which begins right behind the segment's header."""
    segments = index.segments.numbers()
    payload = _FIXED.pack(index.floor, index.next_number, len(segments))
    for number in segments:
        payload += _SEGMENT.pack(number)
    payloads: list[bytes] = [payload]
    size = BATCH_HEAD_SIZE + record_size(len(payload))
    owners = list(index.by_number.values())
    for owner in owners:
        payload = owner.destination.qualified_name.encode("utf-8", "surrogatepass")
        payloads.append(payload)
        size += record_size(len(payload))
    offset = SEGMENT_HEADER_SIZE
    parts: list[bytes] = [encode_batch_head(seed, offset, 1, size)]
    offset += BATCH_HEAD_SIZE
    for position, payload in enumerate(payloads):
        if position == 0:
            parts.append(encode_header(seed, offset, CHECKPOINT, 0, 0, 0, len(owners), payload))
        else:
            owner = owners[position - 1]
            parts.append(encode_header(seed, offset, DESTINATION, 0, 0, owner.number, owner.high, payload))
        parts.append(payload)
        parts.append(PADDING[len(payload) & 7])
        offset += record_size(len(payload))
    return parts


def decode_checkpoint(payload: bytes) -> Checkpoint | None:
    """Return the check-point in the payload of a CHECKPOINT record; None if the payload has a wrong length."""
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
