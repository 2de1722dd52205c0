"""Segment files: a header, then batches, then zeros.

A segment gets its header and a first batch with a check-point under another name, is synced, and only then renamed. A
segment with a bad header is therefore damaged, never half made. One run of the broker writes a segment. Header::

     0          8         10          12     16          32       40         48            56             64
    | SPANWIRE | version | header    | crc  | store id  | number | previous | end of the  | batches in it |
    |          | u16     | size u16  | u32  | 16 bytes  | u64    | u64      | previous u64| u64           |

``crc`` is the CRC of the header with zeros in place of ``crc``. A *batch* is the unit of one write and one sync: a
BATCH record with number and length, then records. Recovery applies a batch completely or not at all, so a transaction
fits into one batch. A batch is written only after the sync of the previous batch. Damage followed by a later batch is
hence not the trace of a crash. Where disk syncs are off, the heads of the batches have 1 in the field ``format``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.checksum import crc32
from spanwire.stores.journal.segments.record import (
    BATCH,
    CRC_MASK,
    HEADER_SIZE,
    LAST_KIND_OF_FORMAT_1,
    LAST_KIND_OF_FORMAT_2,
    LAST_KNOWN_KIND,
    Record,
    encode_header,
    read_record,
)

MAGIC: Final = b"SPANWIRE"
FORMAT_VERSION: Final = 3
OLDEST_FORMAT_VERSION: Final = 1  # the oldest readable version
SEGMENT_HEADER_SIZE: Final = 64
STORE_ID_SIZE: Final = 16
SUFFIX: Final = ".journal"
SPARE_NAME: Final = "spare.new"  # name of the next segment until its first batch is synced
RESERVE_NAME: Final = "reserve"  # zeros that become the next segment when the disk is full
NUMBER_DIGITS: Final = 10

BATCH_MAGIC: Final = b"\x93SWbatch"
BATCH_PAYLOAD_SIZE: Final = 16
BATCH_HEAD_SIZE: Final = HEADER_SIZE + BATCH_PAYLOAD_SIZE
UNSYNCED: Final = 1  # in the field ``format`` of a batch's head

DEFAULT_SEGMENT_BYTES: Final = 32 * 1024 * 1024  # journalMaxFileLength, as ActiveMQ has it
MIN_SEGMENT_BYTES: Final = 4096
MAX_SEGMENT_BYTES: Final = 1 << 32  # an index location addresses 29 bits of 8 bytes each

_HEADER: Final = Struct("<8sHHI16sQQQQ")
_BATCH_SIZE: Final = Struct("<Q")
_ZEROS: Final = bytes(65536)


class SegmentHeader:
    """The header of one segment. The checksum of each record starts from ``seed``."""

    __slots__ = ("number", "previous", "previous_batches", "previous_end", "seed", "store_id", "version")

    def __init__(
        self,
        version: int,
        store_id: bytes,
        number: int,
        previous: int,
        previous_end: int,
        previous_batches: int,
        seed: int,
    ) -> None:
        self.version: Final[int] = version
        self.store_id: Final[bytes] = store_id
        self.number: Final[int] = number
        self.previous: Final[int] = previous
        self.previous_end: Final[int] = previous_end
        self.previous_batches: Final[int] = previous_batches
        self.seed: Final[int] = seed


def segment_name(number: int) -> str:
    """Return the file name of a segment."""
    return str(number).zfill(NUMBER_DIGITS) + SUFFIX


def segment_number(name: str) -> int:
    """Return the number in a segment's file name; 0 for any other file."""
    digits = name.removesuffix(SUFFIX)
    if digits == name or not (digits.isascii() and digits.isdigit()) or name != segment_name(int(digits)):
        return 0
    return int(digits)


def segment_seed(store_id: bytes, number: int) -> int:
    """Return the start value for the checksums of a segment's records."""
    return (crc32(number.to_bytes(8, "little"), crc32(store_id)) ^ 0x5A17) & CRC_MASK


def encode_segment_header(
    store_id: bytes, number: int, previous: int, previous_end: int, previous_batches: int
) -> bytes:
    """Return the 64 bytes at the start of a segment."""
    blank = _HEADER.pack(
        MAGIC, FORMAT_VERSION, SEGMENT_HEADER_SIZE, 0, store_id, number, previous, previous_end, previous_batches
    )
    return blank[:12] + crc32(blank).to_bytes(4, "little") + blank[16:]


def read_segment_header(name: str, data: bytes) -> SegmentHeader:
    """Decode the first 64 bytes of the file ``name``.

    Raises:
        StoreError: the header is foreign, newer or damaged.
    """
    if len(data) < SEGMENT_HEADER_SIZE or data[:8] != MAGIC:
        raise StoreError(
            f"{name} is not a journal segment of Spanwire: move it away, restore a backup or run spanwire store repair"
        )
    refuse_newer(name, data)
    fields = _HEADER.unpack_from(data)
    version: int = fields[1]
    crc: int = fields[3]
    if version < OLDEST_FORMAT_VERSION or header_sum(data) != crc:
        raise damage(name, 0, "the header's checksum does not hold")
    store_id: bytes = fields[4]
    number: int = fields[5]
    previous: int = fields[6]
    previous_end: int = fields[7]
    previous_batches: int = fields[8]
    if segment_name(number) != name:
        raise damage(name, 0, f"it holds segment {number}: files were swapped or renamed")
    seed = segment_seed(store_id, number)
    return SegmentHeader(version, store_id, number, previous, previous_end, previous_batches, seed)


def refuse_newer(name: str, data: bytes) -> None:
    """Raise `StoreError` if ``data``, the first bytes of the file ``name``, are the header of a newer format.

    Without a right checksum nobody can tell whether the number is damaged, or the checksum of a newer format another.
    """
    version = int.from_bytes(data[8:10], "little")
    if data[:8] != MAGIC or version <= FORMAT_VERSION:
        return
    if header_sum(data) == int.from_bytes(data[12:16], "little"):
        raise StoreError(
            f"{name} has journal format {version}, this build reads up to {FORMAT_VERSION}: start a newer Spanwire"
        )
    raise newer_or_damaged(name, data)


def newer_or_damaged(name: str, data: bytes) -> StoreError:
    """Return the error for a header with the number of a newer format and a wrong checksum.

    A repair saves other segments, but reads none of a newer format.
    """
    version = int.from_bytes(data[8:10], "little")
    return StoreError(
        f"{name} has journal format {version} or a damaged header, this build reads up to {FORMAT_VERSION}: start a"
        " newer Spanwire, or restore a backup, nothing was changed"
    )


def header_sum(data: bytes) -> int:
    """Return the checksum of a header."""
    return crc32(data[:12] + b"\0\0\0\0" + data[16:SEGMENT_HEADER_SIZE])


def encode_batch_head(seed: int, offset: int, number: int, size: int, follows_unsynced: bool = False) -> bytes:
    """Return the BATCH record of a batch of ``size`` bytes at ``offset``.

    ``follows_unsynced`` says that the batch may reach the disk before the previous batch: disk syncs are off.
    """
    payload = BATCH_MAGIC + _BATCH_SIZE.pack(size)
    mark = UNSYNCED if follows_unsynced else 0
    return encode_header(seed, offset, BATCH, 0, mark, 0, number, payload) + payload


def damage(name: str, offset: int, what: str) -> StoreError:
    """Return the error for damage that no crash can have caused."""
    return StoreError(
        f"{name} is damaged at byte {offset}: {what}; nothing was changed, restore a backup or run"
        " spanwire store repair"
    )


def _last_kind(version: int) -> int:
    if version == 1:
        return LAST_KIND_OF_FORMAT_1
    return LAST_KIND_OF_FORMAT_2 if version == 2 else LAST_KNOWN_KIND


class SegmentReader:
    """Reads one segment batch by batch. The caller decides about batches that end before the file.

    ``end`` is the end of the last good batch, ``batches`` the count of good batches. ``bad_offset`` is the first bad
    record behind them. ``is_unsynced`` says that the segment was written with disk syncs off.
    """

    __slots__ = (
        "_last_kind",
        "_limit",
        "_view",
        "bad_offset",
        "batches",
        "data",
        "end",
        "header",
        "is_unsynced",
        "name",
    )

    def __init__(self, name: str, data: bytes, store_id: bytes | None) -> None:
        self.name: Final[str] = name
        self.data: Final[bytes] = data
        self.header: Final[SegmentHeader] = read_segment_header(name, data)
        if store_id is not None and self.header.store_id != store_id:
            raise damage(name, 16, "it belongs to another store")
        self._last_kind: Final[int] = _last_kind(self.header.version)
        self._view: Final[memoryview] = memoryview(data)
        self._limit: Final[int] = len(data)
        self.end = SEGMENT_HEADER_SIZE
        self.batches = 0
        self.bad_offset = SEGMENT_HEADER_SIZE
        self.is_unsynced = False

    def rewind(self) -> None:
        """Start again from the first batch."""
        self.end = SEGMENT_HEADER_SIZE
        self.batches = 0

    def next_batch(self) -> list[Record] | None:
        """Return the records of the next batch without its head; None if no whole batch follows.

        Raises:
            StoreError: a good record has a kind that this version does not know.
        """
        start = self.end
        seed = self.header.seed
        self.bad_offset = start
        size = self._batch_size(start, self.batches + 1)
        if size == 0 or size > self._limit - start:
            return None
        limit = start + size
        offset = start + BATCH_HEAD_SIZE
        records: list[Record] = []
        while offset < limit:
            record = read_record(self._view, offset, limit, seed, offset)
            if record is None or record.kind == BATCH:
                self.bad_offset = offset
                return None
            records.append(record)
            offset = record.end
        if offset != limit:
            self.bad_offset = limit
            return None
        for record in records:
            if record.kind > self._last_kind:
                raise StoreError(
                    f"{self.name} holds a record of kind {record.kind} at byte {record.offset}, which this version does"
                    " not know: start a newer Spanwire, nothing was changed"
                )
        self.end = limit
        self.batches += 1
        return records

    def _batch_size(self, offset: int, number: int) -> int:
        """Return the size in the head of batch ``number`` (0: any batch) at ``offset``; 0 without such a head."""
        record = read_record(self._view, offset, self._limit, self.header.seed, offset)
        if record is None or record.kind != BATCH or record.payload_length != BATCH_PAYLOAD_SIZE:
            return 0
        if number != 0 and record.sequence != number:
            return 0
        if number > 1 and record.format_id == UNSYNCED:
            self.is_unsynced = True
        size: int = _BATCH_SIZE.unpack_from(self.data, record.payload_start + len(BATCH_MAGIC))[0]
        return size if size >= BATCH_HEAD_SIZE else 0

    def later_batch(self) -> int:
        """Return the offset of a batch that proves damage, -1 if there is none.

        The batch lies behind the bad batch and was written after the sync of the bad batch. No crash can leave such a
        pair.
        """
        torn_number = self.batches + 1
        written = self.end + self.bytes_after_end()  # a marker has no zeros, and most of a segment is zeros
        marker = self.data.find(BATCH_MAGIC, self.end, written)
        while marker >= 0:
            offset = marker - HEADER_SIZE
            if offset % 8 == 0 and offset > self.end and self._batch_size(offset, 0) > 0:
                record = read_record(self._view, offset, self._limit, self.header.seed, offset)
                if record is not None and record.sequence > torn_number:
                    if record.format_id != UNSYNCED:
                        return offset
                    self.is_unsynced = True
            marker = self.data.find(BATCH_MAGIC, marker + 1, written)
        return -1

    def bytes_after_end(self) -> int:
        """Return the count of bytes from the end of the last good batch to the last byte that is not zero."""
        limit = self._limit
        # Copies, because a comparison of views takes 25 instructions for each byte: 840 million for a new segment.
        while limit - self.end >= len(_ZEROS) and self.data[limit - len(_ZEROS) : limit] == _ZEROS:
            limit -= len(_ZEROS)
        return len(self.data[self.end : limit].rstrip(b"\0"))

    def payload(self, record: Record) -> bytes:
        """Return the payload of a record of this segment."""
        return self.data[record.payload_start : record.payload_start + record.payload_length]
