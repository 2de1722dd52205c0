"""Scans a damaged segment for good records and creates patches that make the damaged bytes harmless.

Every record with a matching checksum stays in place, byte for byte. A `Gap` between good records gets the lost batch
heads and records that must be written again (the name of a destination). The rest of the gap becomes the payload of one
record without effect: SEGMENT_DROPPED with the number 0.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.record import (
    ALIGNMENT,
    BATCH,
    HEADER_SIZE,
    LAST_KNOWN_KIND,
    NONE,
    PADDING,
    SEGMENT_DROPPED,
    Record,
    encode_header,
    read_record,
    record_size,
)
from spanwire.stores.journal.segments.segment import (
    BATCH_HEAD_SIZE,
    BATCH_MAGIC,
    BATCH_PAYLOAD_SIZE,
    SEGMENT_HEADER_SIZE,
    encode_batch_head,
)

MAX_SEARCH_BYTES: Final = (
    256 * 1024 * 1024
)  # bytes of failed checksums in one segment; behind the limit the scan finds only whole batches
MAX_NAMED: Final = 64  # lost records listed in one gap; the rest of the gap is one hole
_LENGTH: Final = Struct("<I")
_BATCH_SIZE: Final = Struct("<Q")
_FIELDS: Final = Struct("<IBBHIQ")


class Hole:
    """Bytes of segment ``segment`` without a good record.

    If the header of the lost record is plausible, ``kind``, ``number`` and ``sequence`` are its fields; else ``kind``
    is NONE.
    """

    __slots__ = ("kind", "number", "offset", "segment", "sequence", "size")

    def __init__(self, segment: int, offset: int, size: int, kind: int, number: int, sequence: int) -> None:
        self.segment: Final[int] = segment
        self.offset: Final[int] = offset
        self.size: Final[int] = size
        self.kind: Final[int] = kind
        self.number: Final[int] = number
        self.sequence: Final[int] = sequence


class Gap:
    """The bytes between two good records. ``heads`` are the numbers of the batches that begin in the gap."""

    __slots__ = ("end", "heads", "inserts", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start: Final[int] = start
        self.end: Final[int] = end
        self.heads: Final[list[int]] = []  # batch numbers
        self.inserts: Final[list[tuple[int, int, int, bytes]]] = []  # kind, number, sequence, payload

    def free_bytes(self) -> int:
        """Return the unassigned bytes."""
        used_bytes = len(self.heads) * BATCH_HEAD_SIZE
        for insert in self.inserts:
            used_bytes += record_size(len(insert[3]))
        return self.end - self.start - used_bytes

    def has_space_for(self, size: int) -> bool:
        """Return True if ``size`` bytes fit, and the rest is empty or large enough for a record's header."""
        remaining = self.free_bytes() - size
        return remaining == 0 or remaining >= HEADER_SIZE


class Region:
    """A range of bytes from ``start`` to ``end`` with ``count`` batches from number ``first`` on.

    A region with ``is_whole`` False has gaps.
    """

    __slots__ = ("count", "end", "first", "gaps", "is_whole", "records", "start")

    def __init__(self, start: int, end: int, first: int, count: int, is_whole: bool, records: list[Record]) -> None:
        self.start: Final[int] = start
        self.end: Final[int] = end
        self.first: Final[int] = first
        self.count: Final[int] = count
        self.is_whole: Final[bool] = is_whole
        self.records: Final[list[Record]] = records
        self.gaps: Final[list[Gap]] = []


class SegmentScan:
    """The result of scanning one segment's bytes. ``seed`` belongs to the expected segment number.

    ``end`` is the end of the last batch, ``batches`` the count of batches; `expect` may correct both. ``torn_bytes``
    were written behind ``end``. ``holes`` are the lost records.
    """

    __slots__ = ("_data", "_dropped", "_searched", "_seed", "_view", "batches", "end", "holes", "number", "regions",
                 "torn_bytes")  # fmt: skip

    def __init__(self, number: int, data: bytes, seed: int) -> None:
        self.number: Final[int] = number
        self._data: Final[bytes] = data
        self._view: Final[memoryview] = memoryview(data)
        self._seed: Final[int] = seed
        self._searched = 0
        self._dropped: Final[list[Record]] = []
        self.holes: Final[list[Hole]] = []
        self.regions: Final[list[Region]] = []
        self.end = SEGMENT_HEADER_SIZE
        self.batches = 0
        self.torn_bytes = 0
        self._scan()
        self._measure_rest()

    def expect(self, end: int, batches: int) -> None:
        """Compare with the end that the next segment states. Bytes missing up to this end are lost.

        Raises:
            StoreError: the two segments contradict each other.
        """
        count = batches - self.batches
        if end == self.end and count == 0:
            if self.torn_bytes > 0:
                self.holes.append(Hole(self.number, end, self.torn_bytes, NONE, 0, 0))
            return
        if end < self.end or count < 1 or end - self.end < count * BATCH_HEAD_SIZE:
            raise StoreError(f"segment {self.number} and the one after it contradict each other; restore a backup")
        self._add_broken(self.end, end, self.batches + 1, count)
        self.end = end
        self.batches = batches
        self._measure_rest()

    def close(self) -> None:
        """Include the good records after the last whole batch of a segment.

        The segment has successors but no stated end.
        """
        limit = self.end + self.torn_bytes
        records = self._records_between(self.end, limit + -limit % ALIGNMENT)  # padding looks like unwritten space
        if records and records[0].offset - self.end >= BATCH_HEAD_SIZE:
            end = records[-1].end
            self._add_broken(self.end, end, self.batches + 1, 1)
            self.end = end
            self.batches += 1
        if self.torn_bytes > 0 and self.end < limit:
            self.holes.append(Hole(self.number, self.end, limit - self.end, NONE, 0, 0))

    def payload(self, record: Record) -> bytes:
        """Return the payload of a good record."""
        return self._data[record.payload_start : record.payload_start + record.payload_length]

    def drop(self, record: Record) -> None:
        """Replace a good record by a record without effect."""
        self._dropped.append(record)

    def insert(self, before: int, kind: int, number: int, sequence: int, payload: bytes) -> bool:
        """Write a record again in a gap that begins before offset ``before``; return False without space."""
        size = record_size(len(payload))
        for region in self.regions:
            for gap in region.gaps:
                if gap.start < before and gap.has_space_for(size):
                    gap.inserts.append((kind, number, sequence, payload))
                    return True
        return False

    def patches(self) -> list[tuple[int, bytes]]:
        """Return patches (offset, bytes) for the segment. A patch may extend the segment."""
        patches: list[tuple[int, bytes]] = []
        for region in self.regions:
            if not region.is_whole:
                self._patch_region(region, patches)
        for record in self._dropped:
            payload = self.payload(record)
            patches.append((record.offset, filler_header(self._seed, record.offset, payload)))
        return patches

    # Inside

    def _scan(self) -> None:
        while True:
            start = self.end
            number = self.batches + 1
            size = self._head_size(start, number)
            if size > 0 and start + size <= len(self._data):
                records = self._records_of_batch(start + BATCH_HEAD_SIZE, start + size)
                if records is not None:
                    self.regions.append(Region(start, start + size, number, 1, True, records))
                else:
                    self._add_broken(start, start + size, number, 1)
                self.end = start + size
                self.batches = number
                continue
            following = self._next_head(start, number)
            if following is None:
                return
            self._add_broken(start, following.offset, number, following.sequence - number)
            self.end = following.offset
            self.batches = following.sequence - 1

    def _measure_rest(self) -> None:
        self.torn_bytes = len(self._data[self.end :].rstrip(b"\0")) if self.end < len(self._data) else 0

    def _add_broken(self, start: int, end: int, first: int, count: int) -> None:
        region = Region(start, end, first, count, False, self._records_between(start, end))
        self.regions.append(region)
        records = region.records
        while not self._lay_out(region):
            records.pop()  # a segment that was once whole never comes here
            del region.gaps[:]
        for gap in region.gaps:
            self._name_holes(gap)

    def _lay_out(self, region: Region) -> bool:
        """Find the gaps of a region and assign the batch heads to the gaps.

        Returns False if the heads do not fit.
        """
        remaining = region.count
        cursor = region.start
        for index in range(len(region.records) + 1):
            stop = region.records[index].offset if index < len(region.records) else region.end
            if stop > cursor:
                gap = Gap(cursor, stop)
                region.gaps.append(gap)
                while remaining > 0 and gap.has_space_for(BATCH_HEAD_SIZE):
                    gap.heads.append(region.first + region.count - remaining)
                    remaining -= 1
                if gap.free_bytes() != 0 and gap.free_bytes() < HEADER_SIZE:
                    return len(region.records) == 0
            if index < len(region.records):
                cursor = region.records[index].end
        begins = len(region.gaps) > 0 and region.gaps[0].start == region.start and len(region.gaps[0].heads) > 0
        return (remaining == 0 and begins) or len(region.records) == 0

    def _name_holes(self, gap: Gap) -> None:
        offset = gap.start
        named = 0
        while offset < gap.end:
            size = gap.end - offset
            kind = NONE
            number = 0
            sequence = 0
            if named < MAX_NAMED and offset + HEADER_SIZE <= min(gap.end, len(self._data)):
                length, header_kind, _, _, header_number, header_sequence = _FIELDS.unpack_from(self._data, offset + 4)
                if NONE < header_kind <= LAST_KNOWN_KIND and record_size(length) <= size:
                    kind = header_kind
                    number = header_number
                    sequence = header_sequence
                    size = record_size(length)
                    named += 1
            if kind != BATCH or self._head_size(offset, 0) == 0:
                self.holes.append(Hole(self.number, offset, size, kind, number, sequence))
            offset += size

    def _patch_region(self, region: Region, patches: list[tuple[int, bytes]]) -> None:
        heads: list[tuple[int, int]] = []
        for gap in region.gaps:
            offset = gap.start
            for number in gap.heads:
                heads.append((offset, number))
                offset += BATCH_HEAD_SIZE
            for kind, number, sequence, payload in gap.inserts:
                header = encode_header(self._seed, offset, kind, 0, 0, number, sequence, payload)
                patches.append((offset, header + payload + PADDING[len(payload) & 7]))
                offset += record_size(len(payload))
            if offset < gap.end:
                payload = self._data[offset + HEADER_SIZE : gap.end]
                payload += bytes(gap.end - offset - HEADER_SIZE - len(payload))
                patches.append((offset, filler_header(self._seed, offset, payload)))
        for index, head in enumerate(heads):
            stop = heads[index + 1][0] if index + 1 < len(heads) else region.end
            patches.append((head[0], encode_batch_head(self._seed, head[0], head[1], stop - head[0])))

    def _head_size(self, offset: int, number: int) -> int:
        """Return the size in a good head of batch ``number`` (0: any batch) at ``offset``.

        Returns 0 without such a head.
        """
        record = read_record(self._view, offset, len(self._data), self._seed, offset)
        if record is None or record.kind != BATCH or record.payload_length != BATCH_PAYLOAD_SIZE:
            return 0
        if number != 0 and record.sequence != number:
            return 0
        size: int = _BATCH_SIZE.unpack_from(self._data, record.payload_start + len(BATCH_MAGIC))[0]
        return size if size >= BATCH_HEAD_SIZE and size & 7 == 0 else 0

    def _next_head(self, start: int, number: int) -> Record | None:
        """Return the next good head of a batch with a number above ``number``."""
        marker = self._data.find(BATCH_MAGIC, start)
        while marker >= 0:
            offset = marker - HEADER_SIZE
            if offset > start and offset & 7 == 0 and self._head_size(offset, 0) > 0:
                record = read_record(self._view, offset, len(self._data), self._seed, offset)
                if record is not None and record.sequence > number:
                    return record
            marker = self._data.find(BATCH_MAGIC, marker + 1)
        return None

    def _records_of_batch(self, start: int, end: int) -> list[Record] | None:
        """Return the records of a batch; None unless all records are good."""
        records: list[Record] = []
        offset = start
        while offset < end:
            record = read_record(self._view, offset, end, self._seed, offset)
            if record is None or record.kind == BATCH:
                return None
            records.append(record)
            offset = record.end
        return records if offset == end else None

    def _records_between(self, start: int, end: int) -> list[Record]:
        """Return the good records between two offsets, without the heads of batches."""
        records: list[Record] = []
        limit = min(end, len(self._data))
        offset = start
        while offset + HEADER_SIZE <= limit:
            record = self._try_record(offset, limit)
            if record is None:
                offset += ALIGNMENT  # the length of a bad record is unreliable
                continue
            if record.kind != BATCH:
                records.append(record)
            offset = record.end
        return records

    def _try_record(self, offset: int, limit: int) -> Record | None:
        """Return the good record at ``offset``, or None, also at the limit of bytes for failed checksums."""
        kind = self._data[offset + 8]
        if kind == NONE or kind > LAST_KNOWN_KIND:
            return None
        length: int = _LENGTH.unpack_from(self._data, offset + 4)[0]
        if length > limit - offset - HEADER_SIZE:
            return None
        if self._searched + length > MAX_SEARCH_BYTES:
            return None
        record = read_record(self._view, offset, limit, self._seed, offset)
        if record is None:
            self._searched += length
        elif record.end > limit:
            return None
        return record


def filler_header(seed: int, offset: int, payload: bytes) -> bytes:
    """Return the header that makes ``payload`` a record without effect."""
    return encode_header(seed, offset, SEGMENT_DROPPED, 0, 0, 0, 0, payload)
