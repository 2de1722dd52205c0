"""The next batch, encoded slice by slice, so that no turn of the loop is long.

While one batch is being written, the next batch grows by a slice in each turn. So one sync covers the whole backlog,
and a new call waits for two syncs at most: for the batch being written and for its own. A call larger than a slice is
encoded in several slices; the batch is not written before the call is complete.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.persistence.unsynced_bytes import MAX_UNSYNCED_BYTES
from spanwire.stores.journal.active_segment import COPIED_AHEAD_BYTES, COPIED_BYTES, ActiveSegment
from spanwire.stores.journal.audit_copies import AuditCopies
from spanwire.stores.journal.batch import Batch, BatchSlice, NewSegment
from spanwire.stores.journal.compaction.compaction import Compaction
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.stored_destination import Entry
from spanwire.stores.journal.outbox import ALL, Outbox, Slice
from spanwire.stores.journal.segments.segment import BATCH_HEAD_SIZE
from spanwire.stores.journal.space import RESERVED_SHARE, DiskSpace
from spanwire.stores.journal.spare_files import wanted_reserve

MAX_GATHERED_BYTES: Final = MAX_UNSYNCED_BYTES  # bytes of a batch, unless one call is larger; more does not wait


class NextBatch:
    """The encoded ``slices`` of the next batch, ``size`` bytes in all.

    The index counts encoded entries as written. ``new_segment`` is the segment begun by the batch, or None. ``is_cut``
    is True if the last slice ends within a call, ``is_last`` if the store is being closed.
    """

    __slots__ = (
        "_active",
        "_audit",
        "_compaction",
        "_index",
        "_most_under_way",
        "_outbox",
        "_space",
        "_unit",
        "_unit_position",
        "is_cut",
        "is_last",
        "new_segment",
        "size",
        "slices",
    )

    def __init__(
        self,
        index: JournalIndex,
        active: ActiveSegment,
        outbox: Outbox,
        space: DiskSpace,
        compaction: Compaction,
        audit: AuditCopies,
    ) -> None:
        self._index: Final[JournalIndex] = index
        self._active: Final[ActiveSegment] = active
        self._outbox: Final[Outbox] = outbox
        self._space: Final[DiskSpace] = space
        self._compaction: Final[Compaction] = compaction
        self._audit: Final[AuditCopies] = audit
        self._most_under_way = 0  # bytes
        self._unit: Entry | None = None  # a gathered unit of which a part is encoded; once all of it is, the calls up
        self._unit_position = 0  # to here are complete
        self.slices: list[BatchSlice] = []
        self.size = 0
        self.new_segment: NewSegment | None = None
        self.is_cut = False
        self.is_last = False

    @property
    def has_slice(self) -> bool:
        """Return True if more is queued than one slice."""
        return self.is_cut or self._outbox.has_slice or self.begins_large_segment

    @property
    def begins_large_segment(self) -> bool:
        """Return True if the next slice begins a segment, and the check-point has more records than a slice."""
        return self._size_in_large_segment() >= 0

    def _size_in_large_segment(self) -> int:
        """Return the bytes that need room in the segment of `begins_large_segment`.

        Returns -1 if no such segment begins.

        On a full disk the check-point is encoded at once: little time passes between two decisions about the last
        bytes.
        """
        active = self._active
        outbox = self._outbox
        space = self._space
        if active.has_batch or self.is_cut or len(self._index.by_number) <= outbox.slice_records:
            return -1
        moved = self._compaction.ready_bytes
        if space.waits or not space.has_room or not (outbox.entries or moved > 0):
            return -1
        is_full = active.end + BATCH_HEAD_SIZE + moved + outbox.size > active.size
        if not is_full and not self._is_worth_a_segment():
            return -1
        taken = outbox.take()
        size = BATCH_HEAD_SIZE + moved + taken.size + taken.rest
        if active.end + size <= active.size and not self._is_worth_a_segment():
            return -1
        size += (self._index.destination_bytes + size) // (RESERVED_SHARE - 1)  # messages may not take the last share
        return size if active.fits(size, space, outbox.has_additions) else -1

    @property
    def wanted_spare(self) -> int:
        """The size that the next segment's file should have soon.

        The size is 0 if the file is large enough or not needed yet.
        """
        space = self._space
        wanted = self._active.segment_bytes if self._active.is_half_full or not space.has_room else 0
        if space.waits and space.needed > wanted:
            wanted = space.needed
        wanted = max(wanted, self._compaction.wanted_spare)
        return wanted if wanted > space.spare_bytes else 0

    @property
    def wanted_reserve(self) -> int:
        """The size of the reserve for a full disk; 0 until half a segment is written."""
        if not self._active.is_half_full and self._compaction.live == 0:
            return 0
        return wanted_reserve(self._active.segment_bytes, self._compaction.live, self._most_under_way)

    def note_backlog(self) -> None:
        """Remember the size of the backlog, which determines the size of the reserve."""
        self._most_under_way = max(self._most_under_way, self._outbox.size + self.size)

    def add_slice(self, is_ahead: bool) -> bool:
        """Encode the next slice; False if the slice has no room.

        ``is_ahead`` says that further slices may follow.
        """
        copied_bytes = COPIED_AHEAD_BYTES if is_ahead else COPIED_BYTES
        if self._unit is not None:
            self._encode_unit(self._unit, self._unit_position, copied_bytes)
            return True
        if self._encode_checkpoint(is_ahead):
            return True
        taken = self._take(is_ahead)
        if taken is None:
            return False
        entries = taken.entries
        if not self.is_last and not self.is_cut and self._compaction.has_ready:
            size = taken.size + taken.rest
            entries = self._compaction.with_moves(entries, size, self._outbox.position, self._active.has_batch)
        unit: Entry | None = None
        if entries:
            self._begin(entries, taken.rest)
            if entries[-1].unit is not None:
                unit = entries.pop()
            self._active.encode(entries, copied_bytes)
        self.is_cut = taken.rest > 0
        if unit is None:
            self.slices.append(BatchSlice(entries, taken.position))
        else:
            self.slices.append(BatchSlice(entries, unit.position - 1))
            self._encode_unit(unit, taken.position, copied_bytes)
        return True

    def _take(self, is_ahead: bool) -> Slice | None:
        """Take the entries of the next slice; None if the disk has no room.

        On a full disk, messages queued before are written while the active segment has room, so that no client waits in
        vain. Later batches have only records for freeing room.
        """
        space = self._space
        outbox = self._outbox
        active = self._active
        if space.has_room and outbox.ready == 0:
            outbox.ready = ALL  # the rest is in order
        if self.is_cut:  # the rest of a call has its place
            taken = outbox.take(True)
            outbox.taken(taken.count)
            return taken
        if space.waits or (not space.has_room and (is_ahead or active.has_batch)):
            return None
        taken = outbox.take()
        size = taken.size + taken.rest
        if active.has_batch:
            if not active.stays(size, space, outbox.has_additions):
                return None
        else:
            if not space.has_room and (space.holds or not active.takes_late(BATCH_HEAD_SIZE + size, space)):
                self._sort_out()
                taken = outbox.take(False, outbox.ready)
                size = taken.size + taken.rest
            if taken.entries and not active.fits(BATCH_HEAD_SIZE + size, space, outbox.has_additions):
                space.waits = not is_ahead
                return None
        outbox.taken(taken.count)
        return taken

    def _sort_out(self) -> None:
        """Examine a slice of the entries: hold entries that need room, keep entries that free room."""
        outbox = self._outbox
        entries = outbox.entries
        start = outbox.ready
        if start < outbox.slice_records:
            end, going = self._space.hold(entries, start, outbox.slice_records)
            entries[start:end] = going  # in place, as in `Outbox.taken`
            outbox.ready = start + len(going)

    def room_changed(self) -> None:
        """Handle a disk that has become full, or has room again for held entries."""
        outbox = self._outbox
        space = self._space
        if not space.has_room:
            rest = outbox.rest_of_call() if self.is_cut and self._unit is None else 0
            outbox.ready = rest if outbox.ready == ALL else max(rest, outbox.ready)
        if space.holds and (space.has_room or (space.spare_bytes > 0 and not self._active.is_reserve)):
            index = min(outbox.ready, len(outbox.entries))
            outbox.entries[index:index] = space.take_held()
            outbox.has_additions = True

    def _encode_unit(self, entry: Entry, position: int, copied_bytes: int) -> None:
        """Encode the next slice of a gathered unit.

        All calls up to ``position`` are complete with the whole unit.
        """
        outbox = self._outbox
        assert entry.unit is not None
        is_whole = self._active.encode_unit(entry.unit, outbox.slice_records, outbox.slice_bytes, copied_bytes)
        self._unit = None if is_whole else entry
        self._unit_position = position
        self.is_cut = not is_whole
        self.slices.append(BatchSlice([], position if is_whole else entry.position - 1))

    def _begin(self, entries: list[Entry], rest: int) -> None:
        """Begin the batch, unless begun, for entries and the ``rest`` of the call of the last entry."""
        active = self._active
        size = 0
        for entry in entries:
            size += entry.size
        if not active.has_batch:
            if active.end + BATCH_HEAD_SIZE + size + rest > active.size or self._is_worth_a_segment():
                self.roll(BATCH_HEAD_SIZE + size + rest)
            active.begin_batch()
        self.size += size

    def _is_worth_a_segment(self) -> bool:
        """Return True if a new segment saves a sync.

        The file is ready, the backlog is large, and the active segment is nearly full.
        """
        is_ready = self._space.has_room and self._space.spare_bytes >= self._active.segment_bytes
        return is_ready and self._outbox.has_slice and self._active.is_nearly_full

    def _encode_checkpoint(self, is_ahead: bool) -> bool:
        """Encode a slice of a large check-point, or the whole rest.

        The batch begins behind the check-point.

        Returns:
            True if no records fit into this slice any more.
        """
        outbox = self._outbox
        if not self._active.has_checkpoint:
            size = self._size_in_large_segment() if is_ahead else -1
            if size < 0:
                return False
            self._begin_segment(size)
        assert self.new_segment is not None
        is_complete = False
        while not is_complete:
            is_complete = self._active.encode_checkpoint(self.new_segment, outbox.slice_records, outbox.slice_bytes)
            if is_ahead:
                break
        self.is_cut = not is_complete
        if is_complete:
            self._active.begin_batch()
        return is_ahead

    def complete_call(self) -> None:
        """Encode the rest of a cut call or check-point, which must be in one batch."""
        while self.is_cut:
            self.add_slice(False)

    def finish(self, stored_position: int, deletions: list[int], waiters: int) -> Batch:
        """Return the batch of all slices so far and begin anew.

        ``stored_position`` is the position of a batch that completes no call.
        """
        slices = self.slices
        position = stored_position
        limit = self._space.limit(self._outbox.limit())
        for part in slices:
            part.position = min(part.position, limit)  # a slice of calls that overtook others may be above
            position = part.position
        active = self._active
        offset = active.end
        parts: list[bytes] = []
        if active.has_batch:
            offset = active.batch_start
            parts = active.end_batch()
        size = active.end - offset
        batch = Batch(position, active.number, offset, size, parts, slices, self.new_segment, deletions, waiters)
        self.slices = []
        self.size = 0
        self.new_segment = None
        return batch

    def roll(self, size: int) -> NewSegment:
        """Begin a new segment with room for ``size`` bytes behind a whole check-point."""
        self._begin_segment(size)
        new_segment = self.new_segment
        assert new_segment is not None
        self._active.encode_checkpoint(new_segment, len(self._index.by_number), self._active.checkpoint_end)
        return new_segment

    def _begin_segment(self, size: int) -> None:
        """Begin a new segment with room for ``size`` bytes; a copy of the producer audit is queued."""
        self.new_segment = self._active.begin_segment(size, self._space)
        self._compaction.choose_soon()
        if not self.is_last:
            self._audit.copy(self._index, self._outbox)
