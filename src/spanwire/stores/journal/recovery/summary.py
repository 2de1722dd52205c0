"""Summaries: small files beside sealed segments, read by a start instead of the segments.

A summary has the records of the segment in order, each with its header. It leaves out the messages, except expirations;
it has all other payloads. A start ignores a summary that is missing, damaged, of another segment or of another version,
and reads the segment. A summary is therefore never synced; its loss is harmless. Header::

     0          8         10       12    16         32       40    48        56       64      68    72          80
    | SWSUMMRY | version | format | crc | store id | number | end | batches | tail at | tail | 0   | body bytes |
    |          | u16     | u16    | u32 | 16 bytes | u64    | u64 | u64     | u64     | u32  | u32 | u64        |

``crc`` is the CRC-32 of the header with zeros in place of ``crc``, then of the body. ``end`` and ``batches`` are the
segment's. ``tail`` is the checksum of the segment's last record, which is at ``tail at``; a segment that was written
again under the same number has another checksum. ``format`` is the journal's version.
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import Final

from spanwire.stores.journal.recovery.replay import BODIES, Replay
from spanwire.stores.journal.segments.checksum import crc32
from spanwire.stores.journal.segments.disk_port import DISK_FULL, Disk
from spanwire.stores.journal.segments.record import (
    BATCH,
    EXPIRATION_SIZE,
    EXPIRES,
    HEADER_SIZE,
    MESSAGE,
    PADDING,
    PRIORITY_MASK,
    expiration_size,
    record_size,
)
from spanwire.stores.journal.segments.segment import (
    BATCH_HEAD_SIZE,
    FORMAT_VERSION,
    NUMBER_DIGITS,
    SEGMENT_HEADER_SIZE,
    SegmentHeader,
    segment_name,
)

MAGIC: Final = b"SWSUMMRY"
SUMMARY_VERSION: Final = 3
OLDEST_SUMMARY_VERSION: Final = 1  # without transfers; 2 is without the ledger; older builds refuse newer ones
SUMMARISED_VERSION: Final = 2  # the oldest version of the journal whose builds wrote summaries
SUMMARY_HEADER_SIZE: Final = 80
SUFFIX: Final = ".summary"
NEW_NAME: Final = "summary.new"  # name of a summary until it is complete
LEAST_SHARE: Final = 4  # a summary above a fourth of its segment saves too little time
MAX_SUMMARY_BYTES: Final = 64 * 1024 * 1024  # bytes of drafts in memory, for one segment or one start

_HEADER: Final = Struct("<8sHHI16sQQQQIIQ")
_NO_HEAD: Final = bytes(BATCH_HEAD_SIZE)
_RECORD: Final = Struct("<IIBBHIQ")
_TAIL: Final = Struct("<I")
_SEQUENCE: Final = Struct("<Q")
CRC_SIZE: Final = 4
SEQUENCE_START: Final = 16  # offset in the header of a record


def summary_name(number: int) -> str:
    """Return the file name of the summary of segment ``number``."""
    return f"{number:0{NUMBER_DIGITS}d}{SUFFIX}"


def summary_number(name: str) -> int:
    """Return the segment's number in the file name of a summary; 0 for any other file."""
    digits = name.removesuffix(SUFFIX)
    if digits == name or not (digits.isascii() and digits.isdigit()) or name != summary_name(int(digits)):
        return 0
    return int(digits)


class Summary:
    """A finished summary of segment ``number``.

    The writing thread checksums it, which takes long for a large one.
    """

    __slots__ = ("_batches", "_body", "_end", "_store_id", "_tail", "_tail_offset", "number")

    def __init__(
        self, number: int, body: bytearray, store_id: bytes, end: int, batches: int, tail_offset: int, tail: bytes
    ) -> None:
        self.number: Final[int] = number
        self._body: Final[bytearray] = body
        self._store_id: Final[bytes] = store_id
        self._end: Final[int] = end
        self._batches: Final[int] = batches
        self._tail_offset: Final[int] = tail_offset
        self._tail: Final[bytes] = tail

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return SUMMARY_HEADER_SIZE + len(self._body)

    def encode(self) -> list[bytes]:
        """Return the bytes of the file: the header, and the records without messages."""
        body = bytes(self._body)
        tail: int = _TAIL.unpack(self._tail)[0]
        fields = (self._store_id, self.number, self._end, self._batches, self._tail_offset, tail, 0, len(body))
        blank = _HEADER.pack(MAGIC, SUMMARY_VERSION, FORMAT_VERSION, 0, *fields)
        crc = crc32(body, crc32(blank))
        return [_HEADER.pack(MAGIC, SUMMARY_VERSION, FORMAT_VERSION, crc, *fields), body]


class SummaryDraft:
    """Collects the summary of one segment during writing or reading.

    A draft above the limit of bytes is dropped.
    """

    __slots__ = ("_body", "_head_at", "_limit", "_number", "_tail", "_tail_offset")

    def __init__(self, number: int, segment_bytes: int) -> None:
        self._number: Final[int] = number
        self._limit: Final[int] = min(segment_bytes // LEAST_SHARE, MAX_SUMMARY_BYTES)
        self._body = bytearray()
        self._head_at = 0
        self._tail_offset = 0
        self._tail = b""

    def begin_batch(self) -> None:
        """Leave room for the head of a batch, which is encoded behind the records."""
        if self._tail_offset >= 0:
            self._head_at = len(self._body)
            self._body += _NO_HEAD

    def end_batch(self, head: bytes) -> None:
        """Fill in the head of the batch."""
        if self._tail_offset >= 0:
            self._body[self._head_at : self._head_at + BATCH_HEAD_SIZE] = head

    def add(self, heads: bytes, tail_offset: int, tail: bytes) -> None:
        """Append records without their bodies.

        ``tail_offset`` is the offset of the last of the records, ``tail`` the header of this record.
        """
        if self._tail_offset >= 0:
            self._body += heads
            self._tail_offset = tail_offset
            self._tail = tail[: _TAIL.size]
            if len(self._body) > self._limit:
                self._body = bytearray()
                self._tail_offset = -1

    def finish(self, store_id: bytes, end: int, batches: int) -> Summary | None:
        """Return the summary of the sealed segment; None if it would be too large to be useful."""
        if self._tail_offset <= 0:
            return None
        return Summary(self._number, self._body, store_id, end, batches, self._tail_offset, self._tail)


def write_summary(disk: Disk, summary: Summary) -> None:
    """Write a summary. A power cut may remove the file again.

    Raises:
        OSError: the disk refused.
    """
    disk.resize(NEW_NAME, 0)
    disk.write(NEW_NAME, 0, summary.encode())
    disk.rename(NEW_NAME, summary_name(summary.number))


def try_summary(disk: Disk, summary: Summary) -> str:
    """Write a summary as `write_summary` does, but treat errors as harmless.

    After an error the next start reads the segment.

    Returns:
        A warning for the log; "" without one, also when the disk is full.
    """
    try:
        write_summary(disk, summary)
    except OSError as error:
        with suppress(OSError):
            disk.delete(NEW_NAME)
        if error.errno in DISK_FULL:
            return ""
        return (
            f"{summary_name(summary.number)} cannot be written: {error.strerror or error}; nothing is lost, the next"
            " start takes longer; look at the disk"
        )
    return ""


class SummaryReader:
    """The valid summary of the segment with ``header``. ``end`` and ``batches`` are the segment's."""

    __slots__ = ("_data", "batches", "end", "header")

    def __init__(self, header: SegmentHeader, data: bytes, end: int, batches: int) -> None:
        self.header: Final[SegmentHeader] = header
        self.end: Final[int] = end
        self.batches: Final[int] = batches
        self._data: Final[bytes] = data

    def run(self, replay: Replay) -> None:
        """Apply all records.

        Raises:
            StoreError: a record contradicts the records before it.
        """
        data = self._data
        number = self.header.number
        limit = len(data)
        position = SUMMARY_HEADER_SIZE
        offset = SEGMENT_HEADER_SIZE
        while position < limit:
            _crc, length, kind, flags, format_id, owner, sequence = _RECORD.unpack_from(data, position)
            if kind == MESSAGE and flags <= PRIORITY_MASK:
                count = self._count_alike(position, sequence)
                replay.apply_run(flags, format_id, owner, sequence, number, offset, length, count)
                position += count * HEADER_SIZE
                offset += count * record_size(length)
                continue
            position += HEADER_SIZE
            if kind == BATCH:
                if offset > SEGMENT_HEADER_SIZE:
                    replay.end_batch()
                position += BATCH_HEAD_SIZE - HEADER_SIZE
            elif kind in BODIES:
                size = expiration_size(flags)
                replay.apply(
                    kind, flags, format_id, owner, sequence, number, offset, length, data[position : position + size]
                )
                position += size
            else:
                replay.apply(
                    kind, flags, format_id, owner, sequence, number, offset, length, data[position : position + length]
                )
                position += record_size(length) - HEADER_SIZE
            offset += record_size(length)
        replay.end_batch()

    def _count_alike(self, position: int, sequence: int) -> int:
        """Count the adjacent headers with the same fields, except checksum and rising sequence."""
        data = self._data
        limit = len(data)
        fields = data[position + CRC_SIZE : position + SEQUENCE_START]
        count = 1
        while True:
            position += HEADER_SIZE
            if position >= limit or data[position + CRC_SIZE : position + SEQUENCE_START] != fields:
                return count
            if _SEQUENCE.unpack_from(data, position + SEQUENCE_START)[0] != sequence + count:
                return count
            count += 1


def read_summary(
    disk: Disk, files: dict[str, int], header: SegmentHeader, follower: SegmentHeader | None
) -> SummaryReader | None:
    """Return the summary of the segment with ``header``, or None without a valid and readable summary.

    ``follower`` is the header of the next present segment.
    """
    try:
        return _read(disk, files, header, follower)
    except OSError:
        return None  # an error of the segment itself shows when the segment is read


def _read(
    disk: Disk, files: dict[str, int], header: SegmentHeader, follower: SegmentHeader | None
) -> SummaryReader | None:
    name = summary_name(header.number)
    size = files.get(name, 0)
    if size < SUMMARY_HEADER_SIZE:
        return None
    data = disk.read(name, 0, size)
    if len(data) < SUMMARY_HEADER_SIZE:
        return None
    magic, version, journal_format, crc, store_id, number, end, batches, tail_offset, tail, _, length = (
        _HEADER.unpack_from(data)
    )
    if magic != MAGIC or journal_format < SUMMARISED_VERSION or journal_format > FORMAT_VERSION:
        return None
    if version < OLDEST_SUMMARY_VERSION or version > SUMMARY_VERSION:
        return None
    if crc32(data[SUMMARY_HEADER_SIZE:], crc32(data[:12] + b"\0\0\0\0" + data[16:SUMMARY_HEADER_SIZE])) != crc:
        return None
    if store_id != header.store_id or number != header.number or length != len(data) - SUMMARY_HEADER_SIZE:
        return None
    if follower is not None and follower.previous == number:
        if follower.previous_end != end or follower.previous_batches != batches:
            return None
    segment = segment_name(number)
    if files[segment] < end or disk.read(segment, tail_offset, _TAIL.size) != _TAIL.pack(tail):
        return None
    return SummaryReader(header, data, end, batches)


def summary_part(data: bytes, offset: int, kind: int, flags: int, length: int) -> bytes:
    """Return the bytes of a record at ``offset`` of a segment's ``data`` for the summary."""
    size = HEADER_SIZE + expiration_size(flags) if kind in BODIES else record_size(length)
    return data[offset : offset + size]


def add_payload(heads: list[bytes], kind: int, flags: int, payload: bytes) -> None:
    """Append the part of a payload that a summary holds."""
    if kind in BODIES:
        if flags & EXPIRES:
            heads.append(payload[:EXPIRATION_SIZE])
    else:
        heads.append(payload)
        heads.append(PADDING[len(payload) & 7])
