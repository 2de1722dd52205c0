"""Restores the seed of a segment without a header, and a store id with the same effect as the lost id.

CRC-32 is reversible: the checksum of a batch's head yields its start value, and thereby a candidate for the seed. The
candidate is right if the checksum of the next record matches. All seeds of a store depend on the CRC-32 of the store id
alone. Any id with an equal CRC-32 therefore reads all segments.
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

MAX_HEADS: Final = 1000  # batch heads tried; bounds the search in a segment of random bytes
FREE_BYTES: Final = 4  # last bytes of a store id, chosen to get the wanted CRC-32


def crc_table() -> list[int]:
    """Return the table of CRC-32 (ISO 3309, reversed polynomial 0xEDB88320)."""
    table: list[int] = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = value >> 1 ^ 0xEDB88320 if value & 1 else value >> 1
        table.append(value)
    return table


_TABLE: Final = crc_table()


def initial_crc(data: bytes, crc: int) -> int:
    """Return the ``value`` for which ``crc32(data, value)`` is ``crc``."""
    by_top: dict[int, int] = {}
    for number, value in enumerate(_TABLE):
        by_top[value >> 24] = number
    state = crc ^ CRC_MASK
    for index in range(len(data) - 1, -1, -1):
        number = by_top[state >> 24]
        state = ((state ^ _TABLE[number]) << 8 | number ^ data[index]) & CRC_MASK
    return state ^ CRC_MASK


def lost_seed(data: bytes) -> int:
    """Return the seed of the segment in ``data``; -1 unless two records agree."""
    view = memoryview(data)
    marker = data.find(BATCH_MAGIC)
    for _ in range(MAX_HEADS):
        if marker < 0:
            return -1
        offset = marker - HEADER_SIZE
        next_record = offset + BATCH_HEAD_SIZE
        if offset >= SEGMENT_HEADER_SIZE and offset & 7 == 0 and next_record <= len(data):
            crc = int.from_bytes(data[offset : offset + 4], "little")
            seed = (initial_crc(data[offset + 4 : next_record], crc) - offset) & CRC_MASK
            if read_record(view, next_record, len(data), seed, next_record) is not None:
                return seed
        marker = data.find(BATCH_MAGIC, marker + 1)
    return -1


def store_id_for(seed: int, number: int, hint: bytes) -> bytes:
    """Return a store id under which segment ``number`` has ``seed``.

    The id begins as ``hint`` does, or with zeros.
    """
    prefix = (hint + bytes(STORE_ID_SIZE))[: STORE_ID_SIZE - FREE_BYTES]
    target_crc = initial_crc(number.to_bytes(8, "little"), seed ^ segment_seed_mask(number))
    crc_before = crc32(prefix) ^ CRC_MASK
    crc_after = initial_crc(bytes(FREE_BYTES), target_crc) ^ CRC_MASK
    return prefix + (crc_before ^ crc_after).to_bytes(FREE_BYTES, "little")


def segment_seed_mask(number: int) -> int:
    """Return the XOR of a segment's seed and the CRC-32 of store id and number.

    The result is a constant of `segment_seed`.
    """
    store_id = bytes(STORE_ID_SIZE)
    return segment_seed(store_id, number) ^ crc32(number.to_bytes(8, "little"), crc32(store_id))
