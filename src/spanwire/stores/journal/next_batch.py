"""The batch that is handed over next, encoded slice by slice, so that no turn of the loop is long however much waits.

While one batch is on its way to the disk the next one grows by a slice in each turn. So all that waits goes with one
sync, and a newcomer waits for two: that of the batch under way and its own. A call that is larger than a slice is
encoded in several, too; the batch is not handed over before all of it is there.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.persistence.unsynced_bytes import MAX_UNSYNCED_BYTES
from spanwire.stores.journal.active_segment import COPIED_AHEAD_BYTES, COPIED_BYTES, ActiveSegment
from spanwire.stores.journal.audit_copies import AuditCopies
from spanwire.stores.journal.batch import BatchSlice, NewSegment
from spanwire.stores.journal.compaction import Compaction
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.stored_destination import Entry
from spanwire.stores.journal.outbox import ALL, Outbox, Slice
from spanwire.stores.journal.segments.segment import BATCH_HEAD_SIZE
from spanwire.stores.journal.space import RESERVED_SHARE, DiskSpace

MAX_GATHERED_BYTES: Final = MAX_UNSYNCED_BYTES  # of a batch, unless one call is larger: more does not wait for the disk


class NextBatch:
    """Its ``slices`` of together ``size`` bytes are encoded, and the index knows them, as of a batch under way.

    ``new_segment`` is the one that it begins, if any; ``is_cut`` says that the last slice ends within a call,
    ``is_last`` that the store is being closed.
    """

    __slots__ = (
        "_active",
        "_audit",
        "_compaction",
        "_index",
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
        self._unit: Entry | None = None  # a gathered unit of which a part is encoded; once all of it is, the calls up
        self._unit_position = 0  # to here are complete
        self.slices: list[BatchSlice] = []
        self.size = 0
        self.new_segment: NewSegment | None = None
        self.is_cut = False
        self.is_last = False

    @property
    def has_slice(self) -> bool:
        """Whether more waits than one slice."""
        return self.is_cut or self._outbox.has_slice or self.begins_large_segment

    @property
    def begins_large_segment(self) -> bool:
        """Return True if the next slice begins a segment whose check-point has more records than a slice."""
        return self._size_in_large_segment() >= 0

    def _size_in_large_segment(self) -> int:
        """Return the bytes that must have a place in the segment that `begins_large_segment`; -1 if none begins.

        On a full disk the check-point is not cut: there is little time between two decisions about the last bytes.
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

    def add_slice(self, is_ahead: bool) -> bool:
        """Encode what waits next, up to a slice; False when it has no place. ``is_ahead``: the batch goes on."""
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
        """Take what is encoded next.

        None if there is no room for that on the disk. What was under way when the room went is written while the
        active segment has a place for it, so that nobody waits for it in vain; else what frees room goes on alone.
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
        """Look at a slice of the entries for those that need no room; the others are held."""
        outbox = self._outbox
        entries = outbox.entries
        start = outbox.ready
        if start < outbox.slice_records:
            end, going = self._space.hold(entries, start, outbox.slice_records)
            entries[start:end] = going  # in place, as in `Outbox.taken`
            outbox.ready = start + len(going)

    def room_changed(self) -> None:
        """The disk is full from now on, or some of its room is back for what is held."""
        outbox = self._outbox
        space = self._space
        if not space.has_room:
            rest = outbox.rest_of_call() if self.is_cut and self._unit is None else 0
            outbox.ready = rest if outbox.ready == ALL else max(rest, outbox.ready)
        if space.holds and (space.has_room or (space.spare_bytes > 0 and not self._active.is_reserve)):
            place = min(outbox.ready, len(outbox.entries))
            outbox.entries[place:place] = space.take_held()
            outbox.has_additions = True

    def _encode_unit(self, entry: Entry, position: int, copied_bytes: int) -> None:
        """Encode the next slice of a gathered unit; calls up to ``position`` are complete with all of it."""
        outbox = self._outbox
        assert entry.unit is not None
        is_whole = self._active.encode_unit(entry.unit, outbox.slice_records, outbox.slice_bytes, copied_bytes)
        self._unit = None if is_whole else entry
        self._unit_position = position
        self.is_cut = not is_whole
        self.slices.append(BatchSlice([], position if is_whole else entry.position - 1))

    def _begin(self, entries: list[Entry], rest: int) -> None:
        """Begin the batch, unless it is begun, for these entries and the ``rest`` of the call of the last one."""
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
        """Whether the next segment's file is ready, little is left of this one and much waits: then a sync less is
        worth more than these bytes.
        """
        is_ready = self._space.has_room and self._space.spare_bytes >= self._active.segment_bytes
        return is_ready and self._outbox.has_slice and self._active.is_nearly_full

    def _encode_checkpoint(self, is_ahead: bool) -> bool:
        """Encode a slice of a large check-point, or all that is left, and begin the batch behind it.

        Returns:
            True if that was a slice of its own; else the slice goes on with records.
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
        """Encode the rest of a call or check-point of which a part is encoded: all of it belongs into one batch."""
        while self.is_cut:
            self.add_slice(False)

    def roll(self, size: int) -> NewSegment:
        """Go on to a new segment with room for ``size`` bytes; a copy of the producer audit is queued for it."""
        self._begin_segment(size)
        new_segment = self.new_segment
        assert new_segment is not None
        self._active.encode_checkpoint(new_segment, len(self._index.by_number), self._active.checkpoint_end)
        return new_segment

    def _begin_segment(self, size: int) -> None:
        """Begin a new segment with room for ``size`` bytes; a copy of the producer audit is queued for it."""
        self.new_segment = self._active.begin_segment(size, self._space)
        self._compaction.look_soon()
        if not self.is_last:
            self._audit.copy(self._index, self._outbox)
