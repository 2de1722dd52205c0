"""Gives the room of dead records back.

Live records of a mostly dead segment are written again at the end.

Locations change, sequences do not. A segment is worth compacting if most of its bytes are dead, or if the segment keeps
other dead segments with the removals of its messages. Only a segment without references to older segments is chosen:
its own removals are useless, and the empty segment can go (`cleanup`).

The driver reads a segment block by block (`Scan`). Live records of a block wait in memory for the next batch, in front
of the clients' records, so that newer counts and metadata records follow. No I/O here.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.model.message import DEFAULT_PRIORITY
from spanwire.stores.journal.active_segment import ActiveSegment
from spanwire.stores.journal.index.cleanup import SegmentState
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE, packed_location
from spanwire.stores.journal.index.stored_destination import Entry, SharedBody, StoredDestination
from spanwire.stores.journal.outbox import MAX_UNIT_BYTES
from spanwire.stores.journal.segments.record import (
    BODY,
    FORMAT_MASK,
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

MAX_DEAD_SHARE: Final = 2  # times the live bytes; a larger journal is compacted
SLACK_SEGMENTS: Final = 2  # segments; so many dead bytes are always allowed
LOOK_INTERVAL: Final = 256  # batches between two looks; each new segment is another reason
SCAN_BYTES: Final = 32 * 1024  # bytes of a block of small records
SCAN_RECORDS: Final = 256  # records of a block of larger records: a fraction of a millisecond of the loop
MAX_SCAN_BYTES: Final = 512 * 1024
MAX_READY_BYTES: Final = 1024 * 1024  # bytes of live records that wait; below the limit reading goes on
MIN_SLICE_BYTES: Final = 64 * 1024  # bytes moved with a small batch
URGENT_GAIN: Final = 0.25  # bytes freed for each moved byte; on a full disk less is not worth a move
SLICE_SHARE: Final = 4  # with a larger batch, this fraction of its bytes is moved

_HEADER: Final = Struct("<IIBBHIQ")


class Scan:
    """A block to be read: ``length`` bytes of ``segment`` from ``offset``."""

    __slots__ = ("length", "offset", "segment")

    def __init__(self, segment: int, offset: int, length: int) -> None:
        self.segment: Final[int] = segment
        self.offset: Final[int] = offset
        self.length: Final[int] = length


class Found:
    """A record that may be worth moving, with its payload.

    ``body`` is the body of a REFERENCE, ``cost`` the bytes that moving takes, with the body for the first reference of
    each batch.
    """

    __slots__ = ("body", "cost", "payload", "record")

    def __init__(self, record: Record, payload: bytes, body: Found | None, cost: int) -> None:
        self.record: Final[Record] = record
        self.payload: Final[bytes] = payload
        self.body: Final[Found | None] = body
        self.cost = cost


class Compaction:
    """Compacts one segment at a time.

    ``begun`` and ``given_up`` count segments, ``moved_bytes`` written bytes.

    ``damaged`` has (segment, byte) of damaged records to be reported, ``live`` the number of live records in full
    segments at the last look.
    """

    __slots__ = (
        "_active",
        "_body",
        "_end",
        "_index",
        "_last",
        "_nobody",
        "_offset",
        "_ready",
        "_ready_bytes",
        "_scanning",
        "_segment_bytes",
        "_space",
        "_step",
        "_until_look",
        "_victim",
        "begun",
        "damaged",
        "given_up",
        "live",
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
        self._nobody: Final[StoredDestination] = nobody
        self._segment_bytes: Final[int] = segment_bytes
        self._until_look = 0  # batches
        self._victim = 0  # 0: none
        self._last = 0  # the newest one that was chosen
        self._offset = 0
        self._end = 0
        self._step = SCAN_BYTES
        self._scanning = False
        self._body: Found | None = None
        self._ready: list[Found] = []
        self._ready_bytes = 0
        self.begun = 0
        self.given_up = 0
        self.live = 0
        self.moved_bytes = 0
        self.damaged: list[tuple[int, int]] = []

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
            self.look(self._active.number, MAX_UNIT_BYTES if self._space.has_room else self._room(0))

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

    def look(self, active: int, room: int) -> None:
        """Choose a segment if too much is dead; the live part may have ``room`` bytes.

        ``active`` is being written.

        Nothing is chosen while messages of removed destinations still count as live.
        """
        if self._victim != 0 or not self._index.removals.is_empty:
            return
        last = self._index.segments.by_number.get(self._last)
        if last is not None and last.live > 0:
            last.is_whole = False  # something in it was not found: looking again would find no more
        live = 0
        used = 0
        count = 0
        sealed: list[SegmentState] = []
        for number in self._index.segments.numbers():
            state = self._index.segments.by_number[number]
            if number != active:
                used += state.end
                live += state.true_live_bytes
                count += state.live
                sealed.append(state)
        self.live = count
        self._space.kept_bytes = kept_bytes(self._segment_bytes, count)
        is_urgent = not self._space.has_room and self._is_short()
        if used <= live * MAX_DEAD_SHARE + SLACK_SEGMENTS * self._segment_bytes and not is_urgent:
            return
        chosen = self._best(sealed, room, URGENT_GAIN if is_urgent else 0.0)
        if chosen is not None:
            self._victim = chosen.number
            self._last = chosen.number
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
            length: int = _HEADER.unpack_from(block, at)[1]
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
        if self._is_dead(block, at):
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
        last_body: Found | None = None
        shared = SharedBody()
        for candidate in self._ready:
            if candidate.cost > left and (count > 0 or candidate.cost > room):
                break
            count += 1
            if candidate.body is not None and candidate.body is not last_body and self._is_live(candidate):
                last_body = candidate.body
                shared = SharedBody()
                shared.references = 1
                entries.append(self._body_entry(candidate.body, shared, position))
                left -= entries[-1].size
            entry = self._entry(candidate, shared, position)
            if entry is not None:
                entries.append(entry)
                left -= entry.size
        body: Found | None = None
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

    def _best(self, sealed: list[SegmentState], room: int, least: float) -> SegmentState | None:
        """Return the segment with the best gain above ``least`` for each written byte.

        Of equal segments the oldest is returned.
        """
        segments = self._index.segments
        kept_by: dict[int, int] = {}  # segment → dead bytes of those that only it keeps
        for state in sealed:
            only = segments.only_reference(state)
            if only > 0:
                kept_by[only] = kept_by.get(only, 0) + state.end - state.true_live_bytes
        chosen: SegmentState | None = None
        best = least
        for state in sealed:
            live = state.true_live_bytes
            if state.live <= 0 or not state.is_whole or live > room or state.number >= segments.keep_from:
                continue
            gain = (state.end - live + kept_by.get(state.number, 0)) / (live + 1)
            if gain > best and not segments.has_references(state):
                best = gain
                chosen = state
        return chosen

    def _keep(self, record: Record, block: bytes, at: int) -> None:
        kind = record.kind
        if kind == BODY or kind == MOVED_BODY:
            self._body = Found(record, payload_at(record, block, at), None, record.end - record.offset)
            return
        if not (kind == REFERENCE or kind == MESSAGE or kind == MOVED or kind == REDELIVERY or kind == METADATA):
            return
        cost = record.end - record.offset
        body = self._body if kind == REFERENCE else None
        if body is not None and (not self._ready or self._ready[-1].body is not body):
            cost += body.cost
        candidate = Found(record, payload_at(record, block, at), body, cost)
        if self._is_live(candidate):
            self._ready.append(candidate)
            self._ready_bytes += cost

    def _is_dead(self, block: bytes, at: int) -> bool:
        """Return True for the header of a message that is removed. The header is not checked."""
        _, length, kind, flags, format_id, number, sequence = _HEADER.unpack_from(block, at)
        if kind != MESSAGE and kind != MOVED:
            return False
        return not self._is_live(
            Found(Record(self._offset, kind, flags, format_id, number, sequence, length), b"", None, 0)
        )

    def _is_live(self, candidate: Found) -> bool:
        """Return True if this very record is in force."""
        record = candidate.record
        kind = record.kind
        location = packed_location(self._victim, record.offset)
        if kind == METADATA:
            metadata = self._index.metadata.get(record.destination)
            if metadata is None:
                return False
            current = metadata.get(candidate.payload[: record.sequence])
            return current is not None and current.location == location
        number, sequence = self._index.present_label(record.destination, record.sequence)
        owner = self._index.by_number.get(number)
        if owner is None:
            return False
        if kind == REDELIVERY:
            return owner.note_locations.get(sequence, GONE) == location
        if candidate.body is not None:
            location = packed_location(self._victim, candidate.body.record.offset)
        return owner.index.find(sequence) == location and sequence not in owner.moving

    def _entry(self, candidate: Found, shared: SharedBody, position: int) -> Entry | None:
        if not self._is_live(candidate):
            return None
        record = candidate.record
        size = record_size(record.payload_length)
        if record.kind == METADATA:
            entry = Entry(METADATA, self._nobody, record.sequence, None, candidate.payload, position, size)
            entry.table = record.destination
            return entry
        number, sequence = self._index.present_label(record.destination, record.sequence)
        owner = self._index.by_number[number]
        kind = MOVED if record.kind == MESSAGE else record.kind
        entry = Entry(kind, owner, sequence, None, candidate.payload, position, size)
        if kind == MOVED:
            self._describe(entry, record)
        elif kind == REFERENCE:
            entry.shared = shared
        entry.location = owner.index.find(sequence)
        return entry

    def _body_entry(self, body: Found, shared: SharedBody, position: int) -> Entry:
        record = body.record
        size = record_size(record.payload_length)
        entry = Entry(MOVED_BODY, self._nobody, 0, None, body.payload, position, size)
        self._describe(entry, record)
        entry.shared = shared
        return entry

    def _describe(self, entry: Entry, record: Record) -> None:
        """Copy flags and format. The payload stays as written, with the expiration in front."""
        state = self._index.segments.by_number[self._victim]
        entry.flags = record.flags if state.version > 1 else DEFAULT_PRIORITY
        entry.format_id = record.format_id & FORMAT_MASK


def usual_step(size: int, count: int) -> int:
    """Return the size of the next block after a block with ``count`` records in ``size`` bytes."""
    return min(MAX_SCAN_BYTES, max(SCAN_BYTES, size // max(count, 1) * SCAN_RECORDS))


def payload_at(record: Record, block: bytes, at: int) -> bytes:
    """Return the payload of a record that begins at index ``at`` of ``block``."""
    start = at + HEADER_SIZE
    return block[start : start + record.payload_length]
