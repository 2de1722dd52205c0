"""Gives the room of dead records back.

Live records of a mostly dead segment (`SegmentChoice`) are written again at the end. Locations change, sequences do
not.

The driver reads the segment block by block (`Scan`). Live records of a block wait in memory for the next batch, in
front of the clients' records, so that newer counts and metadata records follow. No I/O here.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.stores.journal.active_segment import ActiveSegment
from spanwire.stores.journal.compaction.live_records import Candidate, LiveRecords, payload_at
from spanwire.stores.journal.compaction.segment_choice import SegmentChoice
from spanwire.stores.journal.index.cleanup import SegmentState
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.stored_destination import Entry, SharedBody, StoredDestination
from spanwire.stores.journal.outbox import MAX_UNIT_BYTES
from spanwire.stores.journal.segments.record import (
    BODY,
    HEADER_SIZE,
    MESSAGE,
    METADATA,
    MOVED,
    MOVED_BODY,
    REDELIVERY,
    REFERENCE,
    Record,
    read_record,
    record_size,
)
from spanwire.stores.journal.segments.segment import BATCH_HEAD_SIZE, SEGMENT_HEADER_SIZE
from spanwire.stores.journal.space import RESERVED_SHARE, UNMANAGED, DiskSpace
from spanwire.stores.journal.spare_files import kept_bytes

LOOK_INTERVAL: Final = 256  # batches between two looks; each new segment is another reason
SCAN_BYTES: Final = 32 * 1024  # bytes of a block of small records
SCAN_RECORDS: Final = 256  # records of a block of larger records: a fraction of a millisecond of the loop
MAX_SCAN_BYTES: Final = 512 * 1024
MAX_READY_BYTES: Final = 1024 * 1024  # bytes of live records that wait; below the limit reading goes on
MIN_SLICE_BYTES: Final = 64 * 1024  # bytes moved with a small batch
SLICE_SHARE: Final = 4  # with a larger batch, this fraction of its bytes is moved

_LENGTH: Final = Struct("<4xI")  # of a record, behind the checksum


class Scan:
    """A block to be read: ``length`` bytes of ``segment`` from ``offset``."""

    __slots__ = ("length", "offset", "segment")

    def __init__(self, segment: int, offset: int, length: int) -> None:
        self.segment: Final[int] = segment
        self.offset: Final[int] = offset
        self.length: Final[int] = length


class Compaction:
    """Compacts one segment at a time.

    ``begun`` and ``given_up`` count segments, ``moved_bytes`` written bytes.

    ``damaged`` has (segment, byte) of damaged records to be reported.
    """

    __slots__ = (
        "_active",
        "_body",
        "_choice",
        "_end",
        "_index",
        "_offset",
        "_ready",
        "_ready_bytes",
        "_records",
        "_scanning",
        "_segment_bytes",
        "_space",
        "_step",
        "_until_look",
        "_victim",
        "begun",
        "damaged",
        "given_up",
        "moved_bytes",
    )

    def __init__(
        self,
        index: JournalIndex,
        active: ActiveSegment,
        space: DiskSpace,
        nobody: StoredDestination,
        segment_bytes: int,
    ) -> None:
        self._index: Final[JournalIndex] = index
        self._active: Final[ActiveSegment] = active
        self._space: Final[DiskSpace] = space
        space.kept_bytes = kept_bytes(segment_bytes, 0)
        self._choice: Final[SegmentChoice] = SegmentChoice(index, segment_bytes)
        self._records: Final[LiveRecords] = LiveRecords(index, nobody)
        self._segment_bytes: Final[int] = segment_bytes
        self._until_look = 0  # batches
        self._victim = 0  # 0: none
        self._offset = 0
        self._end = 0
        self._step = SCAN_BYTES
        self._scanning = False
        self._body: Candidate | None = None
        self._ready: list[Candidate] = []
        self._ready_bytes = 0
        self.begun = 0
        self.given_up = 0
        self.moved_bytes = 0
        self.damaged: list[tuple[int, int]] = []

    @property
    def live(self) -> int:
        """The number of live records in full segments at the last look."""
        return self._choice.live

    @property
    def has_ready(self) -> bool:
        """Return True if live records wait and have room on the disk."""
        return bool(self._ready) and self._ready[0].cost <= self._room(0)

    @property
    def is_busy(self) -> bool:
        """Return True while a segment is being compacted or live records wait."""
        return self._victim != 0 or bool(self._ready)

    @property
    def ready_bytes(self) -> int:
        """The most bytes that the next batch moves."""
        return self._ready_bytes if self.has_ready else 0

    @property
    def wanted_spare(self) -> int:
        """The size that the next segment's file needs for waiting live records; 0 if no file is needed."""
        if not self._ready or self._ready[0].cost <= self._room(0):
            return 0
        return 2 * self._active.checkpoint_end + BATCH_HEAD_SIZE + self._ready[0].cost

    def choose_soon(self) -> None:
        """Choose a segment with the next batch, because a segment is full."""
        self._until_look = 0

    def choose_now_and_then(self) -> None:
        """Choose a segment every `LOOK_INTERVAL` batches, and after every batch on a full disk."""
        self._until_look -= 1
        if self._until_look <= 0 or (self._victim == 0 and not self._space.has_room and self._is_short()):
            self._until_look = LOOK_INTERVAL
            self._look(MAX_UNIT_BYTES if self._space.has_room else self._room(0))

    def _is_short(self) -> bool:
        """Return True if a full disk has little more room than moving a whole segment takes."""
        return self._room(0) < self._segment_bytes + self._segment_bytes // RESERVED_SHARE

    def with_moves(self, entries: list[Entry], size: int, position: int, stays: bool) -> list[Entry]:
        """Return a slice with moved records in front: newer records of clients follow and count.

        ``size`` bytes must have room behind, in the active segment if the batch ``stays`` there.
        """
        room = self._room(size)
        if stays:
            room = min(room, self._active.size - self._active.end - size)
        return self.take(size, room, position) + entries

    def _room(self, size: int) -> int:
        """Return the bytes that a batch of ``size`` other bytes may move without taking the disk's last bytes."""
        space = self._space
        if space.spare_bytes == UNMANAGED:
            return MAX_UNIT_BYTES
        left = self._active.size - self._active.end
        if space.spare_bytes > 0:
            left = max(left, space.spare_bytes - 2 * self._active.checkpoint_end)
        elif not space.has_room:
            left -= self._active.size // (2 * RESERVED_SHARE)
        return left - size - BATCH_HEAD_SIZE

    def _look(self, room: int) -> None:
        """Choose a segment if too much is dead; the live part may have ``room`` bytes.

        Nothing is chosen while messages of removed destinations still count as live.
        """
        if self._victim != 0 or not self._index.removals.is_empty:
            return
        is_urgent = not self._space.has_room and self._is_short()
        chosen = self._choice.choose(self._active.number, room, is_urgent)
        self._space.kept_bytes = kept_bytes(self._segment_bytes, self._choice.live)
        if chosen is not None:
            self._victim = chosen.number
            self._offset = SEGMENT_HEADER_SIZE
            self._end = chosen.end
            self._step = SCAN_BYTES
            self._body = None
            self.begun += 1

    def next_scan(self) -> Scan | None:
        """Return the next block to be read; None while a block is being read or enough records wait."""
        if self._victim == 0 or self._scanning or self._ready_bytes >= MAX_READY_BYTES:
            return None
        state = self._index.segments.by_number.get(self._victim)
        if state is None or state.live <= 0:
            self._offset = self._end  # the rest of it went by itself
        if self._offset >= self._end:
            self._finish()
            return None
        self._scanning = True
        return Scan(self._victim, self._offset, min(self._step, self._end - self._offset))

    def scanned(self, scan: Scan, block: bytes) -> None:
        """Take a block. A short or wrong block means a damaged segment."""
        self._scanning = False
        if scan.segment != self._victim:
            return
        state = self._index.segments.by_number.get(scan.segment)
        if state is None or len(block) < scan.length:
            self._give_up(state)
            return
        view = memoryview(block)
        limit = len(block)
        at = 0
        count = 0
        while limit - at >= HEADER_SIZE:
            length: int = _LENGTH.unpack_from(block, at)[0]
            size = record_size(length)
            if size > self._end - self._offset:
                self._give_up(state)
                return
            if size > limit - at:
                self._pass_over(block, at, size, count)
                return
            record = read_record(view, at, at + size, state.seed, self._offset)
            if record is None:
                self._give_up(state)
                return
            self._keep(record, block, at)
            at += size
            self._offset += size
            count += 1
        if count == 0:
            self._give_up(state)
        self._step = usual_step(at, count)

    def _pass_over(self, block: bytes, at: int, size: int, count: int) -> None:
        """Skip a partly read record of ``size`` bytes if the message is removed.

        Otherwise read on from its beginning.
        """
        self._step = usual_step(at, count)
        if self._records.is_dead(block, at, self._victim, self._offset):
            self._offset += size
        elif self._step < size:
            self._step = size

    def take(self, batch_bytes: int, room: int, position: int) -> list[Entry]:
        """Return the entries for a batch with ``batch_bytes`` other bytes.

        The batch has ``room`` for more bytes. The entries get ``position``.
        """
        entries: list[Entry] = []
        if not self._ready:
            self._finish()
            return entries
        slice_bytes = MIN_SLICE_BYTES if self._space.has_room else MAX_READY_BYTES
        left = min(room, max(slice_bytes, batch_bytes // SLICE_SHARE))
        count = 0
        last_body: Candidate | None = None
        shared = SharedBody()
        for candidate in self._ready:
            if candidate.cost > left and (count > 0 or candidate.cost > room):
                break
            count += 1
            if (
                candidate.body is not None
                and candidate.body is not last_body
                and self._records.is_live(candidate, self._victim)
            ):
                last_body = candidate.body
                shared = SharedBody()
                shared.references = 1
                entries.append(self._records.body_entry(candidate.body, self._victim, shared, position))
                left -= entries[-1].size
            entry = self._records.entry(candidate, self._victim, shared, position)
            if entry is not None:
                entries.append(entry)
                left -= entry.size
        body: Candidate | None = None
        for candidate in self._ready[:count]:
            self._ready_bytes -= candidate.cost
            body = candidate.body
        del self._ready[:count]
        if body is not None and self._ready and self._ready[0].body is body:
            self._ready[0].cost += body.cost  # the next batch writes the body again
            self._ready_bytes += body.cost
        for entry in entries:
            self.moved_bytes += entry.size
        self._finish()
        return entries

    def take_damaged(self) -> list[tuple[int, int]]:
        """Return the damaged places found since the last call."""
        damaged = self.damaged
        self.damaged = []
        return damaged

    def _finish(self) -> None:
        """Finish the segment once all records are read and moved."""
        if self._victim != 0 and not self._ready and self._offset >= self._end and not self._scanning:
            self._victim = 0

    def _give_up(self, state: SegmentState | None) -> None:
        """Move the records that wait, and leave the rest of the segment for good."""
        if state is not None:
            state.is_whole = False
            self.damaged.append((state.number, self._offset))
        self._offset = self._end
        self.given_up += 1

    def _keep(self, record: Record, block: bytes, at: int) -> None:
        kind = record.kind
        if kind == BODY or kind == MOVED_BODY:
            self._body = Candidate(record, payload_at(record, block, at), None, record.end - record.offset)
            return
        if not (kind == REFERENCE or kind == MESSAGE or kind == MOVED or kind == REDELIVERY or kind == METADATA):
            return
        cost = record.end - record.offset
        body = self._body if kind == REFERENCE else None
        if body is not None and (not self._ready or self._ready[-1].body is not body):
            cost += body.cost
        candidate = Candidate(record, payload_at(record, block, at), body, cost)
        if self._records.is_live(candidate, self._victim):
            self._ready.append(candidate)
            self._ready_bytes += cost


def usual_step(size: int, count: int) -> int:
    """Return the size of the next block after a block with ``count`` records in ``size`` bytes."""
    return min(MAX_SCAN_BYTES, max(SCAN_BYTES, size // max(count, 1) * SCAN_RECORDS))
