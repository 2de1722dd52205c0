"""Records, the smallest pieces of the journal. All numbers are little-endian; a record begins at a multiple of 8::

     0        4         8     9     10        12            16          24
    | crc u32 | length  | kind|flags| format  | line        | sequence  | payload … zeros to a multiple of 8 |
    |         | u32     | u8  | u8  | u16     | u32         | u64       |

``length`` is that of the payload. ``crc`` is the CRC-32 (zlib) of bytes 4 to the end of the payload, begun with the
seed of the segment plus the record's offset: a record that is moved, or comes from another store or segment, is bad.

| kind | line | sequence | payload |
|---|---|---|---|
| 1 BATCH | 0 | number of the batch in its segment, from 1 | magic, u64 bytes of the whole batch, this record included |
| 2 CHECKPOINT | 0 | how many DESTINATION records follow | u64 floor, u32 next number, u32 count, u64 segment … |
| 3 DESTINATION | its number | highest sequence given so far | qualified name, UTF-8 |
| 4 DESTINATION_REMOVED | its number | highest sequence given | – |
| 5 MESSAGE | number | sequence | the encoded message; ``format`` says how |
| 6 REMOVAL | number | sequence | – |
| 7 CANCELLED | number | sequence of a message removed before it was written | i64 producer sequence, producer id |
| 8 REDELIVERY | number | sequence | u32 redelivery count |
| 9 SEGMENT_DROPPED | 0 | number of a segment that is not needed any more | – |
| 10 CLEAN_STOP | 0 | 0 | – |
| 11 BODY | 0 | 0 | as MESSAGE; it belongs to the REFERENCE records right behind it, in the same batch |
| 12 REFERENCE | number | sequence | –; the message is that of the last BODY or MOVED_BODY before it |
| 13 MOVED | number | sequence it has had before | as MESSAGE; where it lay before does not count any more |
| 14 MOVED_BODY | 0 | 0 | as BODY; the REFERENCE records behind it have had their sequences before |
| 16 FACT | table | length of the key | key, value; replaces what was kept under the key |
| 17 FACT_DISCARDED | table | length of the key | key |
| 18 TRANSFER | its number | first of the new sequences | u32 line, u32 count of runs, of each u64 sequence, u32 count |

A TRANSFER record makes messages of another line, run after run, those of its own, with rising sequences.

A CANCELLED record of a message that another broker forwarded with a number (below 0) holds that as its i64 alone.
``flags`` are those of a message (MESSAGE, BODY, MOVED, MOVED_BODY), else 0: its priority in the low four bits, and
`EXPIRES` if its payload begins with an i64, the wall time in milliseconds at which it expires. The tables of facts
stand in `spanwire.broker.metadata`. Format 1 knows kinds 1 to 10 and no flags. A store that holds other kinds was
written by a newer version, and is refused.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from zlib import crc32

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le

NONE: Final = 0  # unwritten space
BATCH: Final = 1
CHECKPOINT: Final = 2
DESTINATION: Final = 3
DESTINATION_REMOVED: Final = 4
MESSAGE: Final = 5
REMOVAL: Final = 6
CANCELLED: Final = 7
REDELIVERY: Final = 8
SEGMENT_DROPPED: Final = 9
CLEAN_STOP: Final = 10
BODY: Final = 11
REFERENCE: Final = 12
MOVED: Final = 13
MOVED_BODY: Final = 14
FACT: Final = 16
FACT_DISCARDED: Final = 17
TRANSFER: Final = 18
LAST_KNOWN_KIND: Final = 18

LAST_KIND_OF_FORMAT_1: Final = CLEAN_STOP
AUDIT_MARK: Final = b""  # the key of the fact that ends a whole copy of the producer audit

PRIORITY_MASK: Final = 0x0F  # of the flags of a record that holds a message
EXPIRES: Final = 0x10  # its payload begins with an i64, the wall time in milliseconds at which it expires
MAX_FLAGS: Final = PRIORITY_MASK | EXPIRES
EXPIRATION_SIZE: Final = 8

HEADER_SIZE: Final = 24
ALIGNMENT: Final = 8
CRC_MASK: Final = 0xFFFFFFFF
PADDING: Final = (b"", b"\0" * 7, b"\0" * 6, b"\0" * 5, b"\0" * 4, b"\0" * 3, b"\0" * 2, b"\0")  # by length % 8

MAX_SIGNED_SHORT: Final = 0x7FFF
MAX_SIGNED: Final = 0x7FFFFFFF
MAX_SIGNED_LONG: Final = 0x7FFFFFFFFFFFFFFF

_REST: Final = Struct("<IBBHIQ")
_HEADER: Final = Struct("<IIBBHIQ")
_EXPIRATION: Final = Struct("<q")


class Record:
    """One record found in a segment. ``payload_start`` and ``end`` are offsets into that segment; ``end`` counts the
    padding.
    """

    __slots__ = (
        "destination",
        "end",
        "flags",
        "format_id",
        "kind",
        "offset",
        "payload_length",
        "payload_start",
        "sequence",
    )

    def __init__(
        self, offset: int, kind: int, flags: int, format_id: int, destination: int, sequence: int, payload_length: int
    ) -> None:
        self.offset: Final[int] = offset
        self.kind: Final[int] = kind
        self.flags: Final[int] = flags
        self.format_id: Final[int] = format_id
        self.destination: Final[int] = destination
        self.sequence: Final[int] = sequence
        self.payload_length: Final[int] = payload_length
        self.payload_start: Final[int] = offset + HEADER_SIZE
        self.end: Final[int] = offset + record_size(payload_length)


def record_size(payload_length: int) -> int:
    """Bytes of a record on the disk."""
    return HEADER_SIZE + ((payload_length + 7) & -8)


def expiration_size(flags: int) -> int:
    """Bytes of the expiration in front of a message with these flags."""
    return EXPIRATION_SIZE if flags & EXPIRES else 0


def encode_header(
    seed: int, offset: int, kind: int, flags: int, format_id: int, number: int, sequence: int, payload: bytes
) -> bytes:
    """The 24 bytes in front of ``payload`` for a record at ``offset`` of the segment with ``seed``."""
    rest = _rest(len(payload), kind, flags, format_id, number, sequence)
    crc = crc32(rest, (seed + offset) & CRC_MASK)
    if len(payload) > 0:
        crc = crc32(payload, crc)
    return crc.to_bytes(4, "little") + rest


def encode_message_header(
    seed: int,
    offset: int,
    kind: int,
    flags: int,
    format_id: int,
    number: int,
    sequence: int,
    expires: bytes,
    raw: bytes,
) -> bytes:
    """`encode_header` and the expiration behind it, for a payload of both."""
    rest = _rest(len(expires) + len(raw), kind, flags, format_id, number, sequence) + expires
    return crc32(raw, crc32(rest, (seed + offset) & CRC_MASK)).to_bytes(4, "little") + rest


def _rest(length: int, kind: int, flags: int, format_id: int, number: int, sequence: int) -> bytes:
    """A header but for its checksum. A writer knows numbers with a sign alone, and is three times as fast."""
    if length > MAX_SIGNED or number > MAX_SIGNED or format_id > MAX_SIGNED_SHORT or sequence > MAX_SIGNED_LONG:
        return _REST.pack(length, kind, flags, format_id, number, sequence)
    out = BytesWriter()
    write_i32_le(out, length)
    out.append(kind)
    out.append(flags)
    write_i16_le(out, format_id)
    write_i32_le(out, number)
    write_i64_le(out, sequence)
    return out.getvalue()


def encode_expiration(wall_ms: int) -> bytes:
    """What stands before a message that expires."""
    return _EXPIRATION.pack(wall_ms)


def read_record(view: memoryview, start: int, limit: int, seed: int, offset: int) -> Record | None:
    """The record at ``start`` of ``view``, which is ``offset`` of its segment; None unless it ends by ``limit`` and its
    checksum holds.
    """
    payload_start = start + HEADER_SIZE
    if payload_start > limit:
        return None
    crc, length, kind, flags, format_id, number, sequence = _HEADER.unpack_from(view, start)
    if kind == NONE or flags > MAX_FLAGS or length > limit - payload_start:
        return None
    if crc32(view[start + 4 : payload_start + length], (seed + offset) & CRC_MASK) != crc:
        return None
    return Record(offset, kind, flags, format_id, number, sequence, length)
