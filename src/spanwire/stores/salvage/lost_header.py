"""Finds the seed of a segment whose header is gone, and a store id that gives this seed.

A checksum can be run backwards: from that of a batch's head follows what it began with. When the record behind it
agrees, that is the segment's seed. All seeds of a store depend on the CRC-32 of its id alone, so an id with the same
CRC-32 reads all its segments.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from spanwire.stores.journal.segments.record import CRC_MASK, HEADER_SIZE, read_record
from spanwire.stores.journal.segments.segment import (
    BATCH_HEAD_SIZE,
    BATCH_MAGIC,
    SEGMENT_HEADER_SIZE,
    STORE_ID_SIZE,
    segment_seed,
)

MAX_HEADS: Final = 1000  # batches looked at until two agree
FREE_BYTES: Final = 4  # of a store id, chosen so that its CRC-32 is the wanted one


def crc_table() -> list[int]:
    """The table of CRC-32 (ISO 3309, reversed polynomial 0xEDB88320)."""
    table: list[int] = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = value >> 1 ^ 0xEDB88320 if value & 1 else value >> 1
        table.append(value)
    return table


_TABLE: Final = crc_table()


def begun_with(data: bytes, crc: int) -> int:
    """The value that ``crc32(data, value)`` gives ``crc`` for."""
    by_top: dict[int, int] = {}
    for number, value in enumerate(_TABLE):
        by_top[value >> 24] = number
    state = crc ^ CRC_MASK
    for place in range(len(data) - 1, -1, -1):
        number = by_top[state >> 24]
        state = ((state ^ _TABLE[number]) << 8 | number ^ data[place]) & CRC_MASK
    return state ^ CRC_MASK


def lost_seed(data: bytes) -> int:
    """The seed of the segment in ``data``; -1 unless two records agree on it."""
    view = memoryview(data)
    at = data.find(BATCH_MAGIC)
    for _ in range(MAX_HEADS):
        if at < 0:
            return -1
        offset = at - HEADER_SIZE
        following = offset + BATCH_HEAD_SIZE
        if offset >= SEGMENT_HEADER_SIZE and offset & 7 == 0 and following <= len(data):
            crc = int.from_bytes(data[offset : offset + 4], "little")
            seed = (begun_with(data[offset + 4 : following], crc) - offset) & CRC_MASK
            if read_record(view, following, len(data), seed, following) is not None:
                return seed
        at = data.find(BATCH_MAGIC, at + 1)
    return -1


def store_id_for(seed: int, number: int, hint: bytes) -> bytes:
    """A store id with which segment ``number`` has ``seed``; begins as ``hint`` does, or with zeros."""
    first = (hint + bytes(STORE_ID_SIZE))[: STORE_ID_SIZE - FREE_BYTES]
    wanted = begun_with(number.to_bytes(8, "little"), seed ^ segment_seed_mask(number))
    before = crc32(first) ^ CRC_MASK
    after = begun_with(bytes(FREE_BYTES), wanted) ^ CRC_MASK
    return first + (before ^ after).to_bytes(FREE_BYTES, "little")


def segment_seed_mask(number: int) -> int:
    """What `segment_seed` adds to the CRC-32 of a store's id and a number."""
    store_id = bytes(STORE_ID_SIZE)
    return segment_seed(store_id, number) ^ crc32(number.to_bytes(8, "little"), crc32(store_id))
