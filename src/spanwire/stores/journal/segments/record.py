"""Records, the smallest units of the journal.

All numbers are little-endian; a record begins at a multiple of 8::

     0        4         8     9     10        12            16          24
    | crc u32 | length  | kind|flags| format  | number      | sequence  | payload … zeros to a multiple of 8 |
    |         | u32     | u8  | u8  | u16     | u32         | u64       |

``length`` is the payload's. ``number`` is the number of a destination. ``crc`` is the CRC-32 (zlib) of bytes 4 to the
end of the payload. The CRC starts from the segment's seed plus the record's offset, so the checksum of a record from
another offset, store or segment is wrong.

| kind | number | sequence | payload |
|---|---|---|---|
| 1 BATCH | 0 | number of the batch in its segment, from 1 | magic, u64 bytes of the whole batch, this record included |
| 2 CHECKPOINT | 0 | count of the DESTINATION records behind it | u64 floor, u32 next number, u32 count, u64 segment … |
| 3 DESTINATION | of the destination | highest sequence assigned so far | qualified name, UTF-8 |
| 4 DESTINATION_REMOVED | of the destination | highest sequence assigned | – |
| 5 MESSAGE | of the destination | sequence | the encoded message; ``format`` is its encoding |
| 6 REMOVAL | of the destination | sequence | – |
| 7 CANCELLED | of the destination | sequence of an unwritten, removed message | i64 producer sequence, producer id |
| 8 REDELIVERY | of the destination | sequence | u32 redelivery count |
| 9 SEGMENT_DROPPED | 0 | number of a segment without live records | – |
| 10 CLEAN_STOP | 0 | 0 | – |
| 11 BODY | 0 | 0 | as MESSAGE; belongs to the REFERENCE records right behind it, in the same batch |
| 12 REFERENCE | of the destination | sequence | –; the message is in the last BODY or MOVED_BODY before it |
| 13 MOVED | of the destination | sequence, unchanged | as MESSAGE; replaces the earlier record of the message |
| 14 MOVED_BODY | 0 | 0 | as BODY; the REFERENCE records behind it keep their sequences |
| 16 METADATA | table | length of the key | key, value; replaces the value under the key |
| 17 METADATA_DISCARDED | table | length of the key | key |
| 18 TRANSFER | of the target | first of the new sequences | u32 source number, u32 runs, each u64 sequence, u32 count |

| 19 LEDGER | of the destination, 0 for all removed | 0, or the link | u64 bits of the terms that follow, each a u64 |

A TRANSFER record moves messages of the source, run after run, to the target, and numbers them with rising sequences.

From version 3 on the ledger has bytes that were 0 before (`spanwire.model.ledger`). The upper byte of ``format`` is the
origin of a MESSAGE, REFERENCE or CANCELLED. The lower byte of a REMOVAL's or CANCELLED's is the link over which the
message left, and ``flags`` are the cause.

A CANCELLED record of a message that another broker forwarded with a number (below 0) has only this number as its i64.
``flags`` are 0 except for messages (MESSAGE, BODY, MOVED, MOVED_BODY): the low four bits are the priority. `EXPIRES`
says that the payload begins with an i64, the expiration in wall milliseconds. `spanwire.broker.metadata` lists the
tables of metadata records. Format 1 has kinds 1 to 10 and no flags. A store with other kinds was written by a newer
version and is refused.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le

from spanwire.stores.journal.segments.checksum import crc32

NONE: Final = 0  # marks unwritten space
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
METADATA: Final = 16
METADATA_DISCARDED: Final = 17
TRANSFER: Final = 18
LEDGER: Final = 19
LAST_KNOWN_KIND: Final = 19

LAST_KIND_OF_FORMAT_1: Final = CLEAN_STOP
LAST_KIND_OF_FORMAT_2: Final = TRANSFER
AUDIT_MARK: Final = b""  # key of the metadata record that ends a complete copy of the producer audit

PRIORITY_MASK: Final = 0x0F  # the priority in the flags of a record with a message
EXPIRES: Final = 0x10  # the payload begins with an i64, the expiration in wall milliseconds
MAX_FLAGS: Final = PRIORITY_MASK | EXPIRES
EXPIRATION_SIZE: Final = 8

FORMAT_MASK: Final = 0xFF  # the encoding of a message in ``format``, below its origin
ORIGIN_SHIFT: Final = 8

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
    """One record of a segment.

    ``payload_start`` and ``end`` are offsets into the segment; ``end`` includes the padding.
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
    """Return the bytes of a record on the disk: header, payload and padding."""
    return HEADER_SIZE + ((payload_length + 7) & -8)


def expiration_size(flags: int) -> int:
    """Return the bytes of the expiration in front of a message with these flags: 8 or 0."""
    return EXPIRATION_SIZE if flags & EXPIRES else 0


def encode_header(
    seed: int, offset: int, kind: int, flags: int, format_id: int, number: int, sequence: int, payload: bytes
) -> bytes:
    """Return the 24 bytes in front of ``payload`` for a record at ``offset`` of the segment with ``seed``."""
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
    """Return the header and the expiration behind it. ``expires`` and ``raw`` together are the payload."""
    rest = _rest(len(expires) + len(raw), kind, flags, format_id, number, sequence) + expires
    return crc32(raw, crc32(rest, (seed + offset) & CRC_MASK)).to_bytes(4, "little") + rest


def _rest(length: int, kind: int, flags: int, format_id: int, number: int, sequence: int) -> bytes:
    """Return a header without its checksum.

    The writer knows only signed numbers; it is three times as fast as `Struct`.
    """
    if length > MAX_SIGNED or number > MAX_SIGNED or format_id > MAX_SIGNED_SHORT or sequence > MAX_SIGNED_LONG:
        return _REST.pack(length, kind, flags, format_id, number, sequence)
    writer = BytesWriter()
    write_i32_le(writer, length)
    writer.append(kind)
    writer.append(flags)
    write_i16_le(writer, format_id)
    write_i32_le(writer, number)
    write_i64_le(writer, sequence)
    return writer.getvalue()


def encode_expiration(wall_ms: int) -> bytes:
    """Return the expiration as it precedes a message."""
    return _EXPIRATION.pack(wall_ms)


def read_record(view: memoryview, start: int, limit: int, seed: int, offset: int) -> Record | None:
    """Return the record at ``start`` of ``view``, the bytes at ``offset`` of the segment.

    Returns:
        The record, or None if it does not end by ``limit`` or its checksum does not match.
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
