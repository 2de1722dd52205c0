"""The journal: a message store as a pure state machine.

Calls queue entries and return. `Journal.next_batch` turns the queued entries into one write. The driver, a writer
thread or a test, reports the write with `Journal.on_completed`. One batch is written at a time, and the next grows
meanwhile. No I/O, no clock, no threads: everything runs on the loop's thread. `spanwire.stores.driver` is the shell.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import MetadataRecord, check_metadata
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.broker.persistence.stored_sums import StoredSums, StoreLedger
from spanwire.broker.ports import AuditSource, MessageStore, MetadataStore, StoreUsage, UnitStore
from spanwire.model.destination import Destination
from spanwire.model.ledger import ACKNOWLEDGED, Sums
from spanwire.model.message import Message
from spanwire.stores.journal.active_segment import ActiveSegment
from spanwire.stores.journal.audit_copies import AuditCopies
from spanwire.stores.journal.batch import Batch
from spanwire.stores.journal.batch_completion import BatchCompletion
from spanwire.stores.journal.compaction.compaction import Compaction, Scan
from spanwire.stores.journal.fetching.fetch import Fetch, fetch_of, sizes_of
from spanwire.stores.journal.fetching.readers import Readers
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.next_batch import MAX_GATHERED_BYTES, NextBatch
from spanwire.stores.journal.outbox import Outbox
from spanwire.stores.journal.recovery.recovery import Recovery
from spanwire.stores.journal.segment_cleanup import SegmentCleanup
from spanwire.stores.journal.segments.record import (
    CLEAN_STOP,
    DESTINATION_REMOVED,
    REDELIVERY,
)
from spanwire.stores.journal.segments.segment import DEFAULT_SEGMENT_BYTES, MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES
from spanwire.stores.journal.space import DiskSpace
from spanwire.stores.journal.unit_calls import UnitCalls

MAX_REDELIVERY_COUNT: Final = 0xFFFFFFFF


class Journal(MessageStore, UnitStore, MetadataStore, StoreUsage, StoreLedger):
    """Keeps messages in segments on a disk. The driver writes, reads and syncs.

    ``segment_bytes`` is the size of a usual segment, ``stored_position`` the last result of `on_completed`, ``waiters``
    the number of calls of `position` since the last batch. Removing an unknown message changes nothing.
    """

    def __init__(
        self, recovery: Recovery, store_id: bytes, segment_bytes: int = DEFAULT_SEGMENT_BYTES, is_unsynced: bool = False
    ) -> None:
        self._index: Final[JournalIndex] = recovery.index
        self.segment_bytes: Final[int] = max(MIN_SEGMENT_BYTES, min(segment_bytes, MAX_SEGMENT_BYTES))
        self._outbox: Final[Outbox] = Outbox()
        self._space: Final[DiskSpace] = DiskSpace()
        self._fetches: list[Fetch] = []
        self._deletions: list[int] = []
        self._in_flight: Batch | None = None
        self._waited = 0  # the highest position that somebody asked for
        self._in_flight_bytes = 0
        self._active: Final[ActiveSegment] = ActiveSegment(
            recovery.index, store_id, self.segment_bytes, recovery.last, recovery.last_end, recovery.last_batches
        )
        self._active.is_unsynced = is_unsynced
        self._compaction: Final[Compaction] = Compaction(
            recovery.index, self._active, self._space, self._outbox.nobody, self.segment_bytes
        )
        self._audit: Final[AuditCopies] = AuditCopies(recovery.replay.audit_segment)
        self._next: Final[NextBatch] = NextBatch(
            recovery.index, self._active, self._outbox, self._space, self._compaction, self._audit
        )
        self._readers: Final[Readers] = Readers()
        self._units: Final[UnitCalls] = UnitCalls(recovery.index, self._outbox, self._space)
        self._cleanup: Final[SegmentCleanup] = SegmentCleanup(recovery.index, self._active, self._outbox)
        self._completion: Final[BatchCompletion] = BatchCompletion(recovery.index, self._readers, self._audit)
        self._asked = False
        self._failed = False
        self.stored_position = 0
        self.waiters = 0

    def append(self, destination: Destination, message: Message) -> int:
        """See `MessageStore.append`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            owner = self._units.create(destination)
        self._outbox.position += 1
        self._outbox.has_additions = True
        return self._outbox.message(owner, message)

    def remove(self, destination: Destination, sequence: int, way: int = ACKNOWLEDGED) -> None:
        """See `MessageStore.remove`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            return
        entry = owner.unwritten.get(sequence)
        if entry is not None and not entry.handed_over:
            self._outbox.position += 1
            self._outbox.cancel(entry, way)
            return
        if sequence in owner.leaving:
            return
        if owner.arriving and owner.arrives(sequence):
            self._outbox.position += 1
            self._outbox.remove_in_unit(owner, sequence, way)
            return
        location = owner.take_out(sequence)
        if location == GONE:
            return
        if entry is not None:
            del owner.unwritten[sequence]
        self._outbox.position += 1
        self._outbox.removal(owner, sequence, location, way)

    def remove_all(self, destination: Destination, sequences: list[int], way: int = ACKNOWLEDGED) -> None:
        """See `MessageStore.remove_all`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            return
        if owner.unwritten or owner.leaving:
            for sequence in sequences:
                self.remove(destination, sequence, way)
            return
        locations: list[int] = []
        lengths: list[int] = []
        index = owner.index
        index.remove_all(sequences, locations, lengths)
        for position, sequence in enumerate(sequences):
            location = locations[position]
            if location == GONE:
                self.remove(destination, sequence, way)
                continue
            if owner.moving:
                location = owner.moving.pop(sequence, location)
            self._outbox.position += 1
            index.removed_length = lengths[position]
            self._outbox.removal(owner, sequence, location, way)

    def next_sequence(self, destination: Destination) -> int:
        """See `UnitStore.next_sequence`."""
        return self._index.next_sequence(destination)

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        """See `UnitStore.append_shared`."""
        return self._units.append_shared(destinations, message)

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
        way: int = ACKNOWLEDGED,
    ) -> list[int]:
        """See `UnitStore.append_unit`.

        Raises:
            ResourceAllocationError: the unit is larger than `MAX_UNIT_BYTES`, or the disk is full.
        """
        return self._units.append_unit(additions, removals, metadata, way)

    def append_gathered(self, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
        """See `UnitStore.append_gathered`; raises the errors of `append_unit`."""
        self._units.append_gathered(unit, metadata)

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: list[MetadataRecord]
    ) -> list[int]:
        """See `UnitStore.transfer_unit`; raises the errors of `append_unit`."""
        return self._units.transfer_unit(transfers, removals, metadata)

    def put_metadata(self, table: int, key: bytes, value: bytes) -> None:
        """See `MetadataStore.put_metadata`."""
        check_metadata(key, value)
        self._outbox.position += 1
        self._outbox.has_additions = True
        self._outbox.put_metadata(table, key, value)

    def discard_metadata(self, table: int, key: bytes) -> None:
        """See `MetadataStore.discard_metadata`; a record is written for an unknown key, too."""
        self._outbox.position += 1
        self._outbox.has_additions = True
        self._outbox.put_metadata(table, key, None)

    def note_redelivery(self, destination: Destination, sequence: int, redelivery_count: int) -> None:
        """See `MessageStore.note_redelivery`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None or not owner.has(sequence):
            return
        self._outbox.position += 1
        count = min(redelivery_count, MAX_REDELIVERY_COUNT)
        self._outbox.record(REDELIVERY, owner, sequence, count.to_bytes(4, "little"))

    def fetch(self, request: int, destination: Destination, sequences: list[int]) -> None:
        """See `MessageStore.fetch`; the driver collects requests with `take_fetches`."""
        self._fetches.append(fetch_of(self._index, request, destination, sequences, self._readers.begin()))

    def sizes(self, destination: Destination, sequences: list[int]) -> list[int]:
        """See `StoreUsage.sizes`."""
        return sizes_of(self._index, destination, sequences)

    def add_destination(self, destination: Destination) -> None:
        """See `MessageStore.add_destination`."""
        if destination.qualified_name not in self._index.by_name:
            self._units.create(destination)

    def remove_destination(self, destination: Destination) -> None:
        """See `MessageStore.remove_destination`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            return
        owner.is_removed = True
        self._index.forget(owner)
        self._outbox.position += 1
        self._outbox.record(DESTINATION_REMOVED, owner, owner.high, b"")

    def counted(self) -> list[Destination]:
        """See `StoreLedger.counted`."""
        return [owner.destination for owner in self._index.by_number.values()]

    def sums(self, destination: Destination | None) -> StoredSums | None:
        """See `StoreLedger.sums`."""
        return self._index.stored_sums(destination)

    def link_sums(self) -> Sums:
        """See `StoreLedger.link_sums`."""
        return self._index.link_sums

    def position(self) -> int:
        """See `MessageStore.position`."""
        self._waited = self._outbox.position
        self._asked = True
        self.waiters += 1
        return self._outbox.position

    def used_bytes(self) -> int:
        """See `StoreUsage.used_bytes`."""
        return self._index.segments.used_bytes + max(0, self._space.spare_bytes)

    @property
    def segment_count(self) -> int:
        """Number of segments."""
        return len(self._index.segments.by_number)

    @property
    def moved_bytes(self) -> int:
        """Bytes that compaction has written in this run."""
        return self._compaction.moved_bytes

    def has_room(self) -> bool:
        """See `StoreUsage.has_room`."""
        return self._space.has_room

    @property
    def has_work(self) -> bool:
        """Return True if `next_batch` would return a batch."""
        if self._in_flight is not None or self._failed:
            return False
        if self._deletions or self._next.slices:
            return True
        return not self._space.waits and bool(
            self._outbox.entries or (self._compaction.has_ready and not self._next.is_last)
        )

    @property
    def is_quiet(self) -> bool:
        """Return True if a turn has nothing to do: nothing queued, under way, to compact or to release."""
        return not (
            self._outbox.entries
            or self._in_flight is not None
            or self._asked
            or self._fetches
            or self._deletions
            or self._next.slices
            or self._compaction.is_busy
            or not self._index.removals.is_empty
        )

    @property
    def may_wait(self) -> bool:
        """Return True if no client waits for the queued entries; their loss only means redelivery."""
        return (
            not self._outbox.has_additions
            and self._waited <= self.stored_position
            and not self._deletions
            and not self._next.slices
        )

    @property
    def backlog_bytes(self) -> int:
        """Bytes that are not known to be on the disk."""
        return self._outbox.size + self._next.size + self._in_flight_bytes

    @property
    def last_position(self) -> int:
        """The position of the last call."""
        return self._outbox.position

    @property
    def is_writing(self) -> bool:
        """Return True while a batch is being written."""
        return self._in_flight is not None

    @property
    def has_slice(self) -> bool:
        """Return True if more is queued than one turn encodes."""
        return self._next.has_slice

    @property
    def has_large_call(self) -> bool:
        """Return True if a queued call, or the next check-point, is too large for one turn."""
        return self._next.is_cut or bool(self._outbox.large) or self._next.begins_large_segment

    def take_answer(self) -> int:
        """Return the position for a caller of `position` when everything was stored already; else -1."""
        if not self._asked or self.stored_position != self._outbox.position:
            return -1
        self._asked = False
        return self.stored_position

    @property
    def segment_end(self) -> int:
        """The end of the newest segment."""
        return self._active.end

    @property
    def segment(self) -> int:
        """The number of the newest segment."""
        return self._active.number

    @property
    def wanted_spare(self) -> int:
        """The size that the next segment's file should have soon; 0 if large enough or not needed."""
        return self._next.wanted_spare

    @property
    def wanted_reserve(self) -> int:
        """The size of the reserve for a full disk; 0 until half a segment is written."""
        return self._next.wanted_reserve

    @property
    def room_bytes(self) -> int:
        """Bytes left in the active segment before the next file; 0 while a batch waits for the file."""
        return 0 if self._space.waits else self._active.message_room

    @property
    def waits_for_space(self) -> bool:
        """Return True if the last batch did not fit: only deletions are possible until `space_changed`."""
        return self._space.waits

    @property
    def has_unwritten(self) -> bool:
        """Return True if calls wait for room on the disk or for their batch."""
        return bool(self._outbox.entries or self._next.slices) or self._space.holds

    def space_changed(self, spare_bytes: int, has_room: bool) -> bool:
        """Take the ready bytes of the next segment's file, and whether the disk has room for messages.

        From the first call on, a batch waits instead of asking for a segment without a ready file; `UNMANAGED` bytes
        end that.

        Returns:
            True if ``has_room`` changed.
        """
        if not has_room and self._active.has_checkpoint:
            self._next.add_slice(False)  # all that is left of the check-point
        if self._next.new_segment is not None and spare_bytes > 0:
            spare_bytes = 0  # the next batch takes that file
        changed = self._space.change(spare_bytes, has_room)
        self._next.room_changed()
        return changed

    def first_batch(self, takes_over: bool = False) -> Batch:
        """Begin the segment of this run, to be written first: no run continues the file of another run.

        With ``takes_over`` the segment leaves out a number, and stays for as long as the segment before it.
        """
        last = self._active.number
        self._active.skips = 1 if takes_over else 0
        new_segment = self._next.roll(0)
        self._active.skips = 0
        if takes_over and last in self._index.segments.by_number:
            self._index.segments.refer(last, new_segment.number)
        batch = Batch(0, new_segment.number, 0, 0, [], [], new_segment, [])
        self._next.new_segment = None
        self._in_flight = batch
        return batch

    def next_batch(self) -> Batch | None:
        """Return the next batch: the slices of `gather` and one slice more, or the rest of a cut call.

        Returns:
            None while a batch is being written, after a failure, or if nothing can be written.
        """
        if not self.has_work:
            return None
        self._next.note_backlog()
        self._next.add_slice(False)
        self._next.complete_call()
        if self._space.waits and not self._deletions and not self._next.slices and not self._active.has_batch:
            return None
        batch = self._next.finish(self.stored_position, self._deletions, self.waiters)
        self._deletions = []
        self.waiters = 0
        self._in_flight = batch
        self._in_flight_bytes = batch.size
        if not self._next.is_last:
            self._index.removals.release()
            self._compaction.choose_now_and_then()
            self._cleanup.drop_segments()
        return batch

    def release_removed(self) -> bool:
        """Release a slice of the messages of removed destinations; False if there is none.

        To be called in each turn of the loop.
        """
        return not self._failed and not self._next.is_last and self._cleanup.release_removed()

    def gather(self) -> bool:
        """Encode a slice of the next batch, which grows until `next_batch` takes the batch.

        An encoded entry counts as written: a removal follows as a record of its own. Returns False if nothing is queued
        or the slice has no certain room.
        """
        if self._failed or (self._next.size >= MAX_GATHERED_BYTES and not self._next.is_cut):
            return False
        return self.has_slice and self._next.add_slice(True)

    def on_completed(self, batch: Batch) -> int:
        """Count a written batch as stored and return the stored position."""
        while self.complete_slice(batch):
            pass
        return self.stored_position

    def complete_slice(self, batch: Batch) -> bool:
        """Count the next slice of a written batch as stored; False if the slice was the last.

        The next batch may be written as soon as the first slice is counted.
        """
        index = batch.completed_slices
        if index == 0:
            self._in_flight = None
            self._in_flight_bytes = 0
            for number in batch.deletions:
                self._index.segments.deleted(number)
        position = batch.position
        if index < len(batch.slices):
            self._completion.complete(batch.slices[index].entries)
            position = batch.slices[index].position
        self._readers.add_unread(self._deletions)
        if position > self.stored_position:
            self.stored_position = position
        if self.stored_position >= self._waited:
            self._asked = False  # the driver reports this batch, too
        batch.completed_slices = index + 1
        return batch.completed_slices < len(batch.slices)

    def fail(self) -> None:
        """Stop after a failed write or sync: `next_batch` returns None from now on."""
        self._failed = True

    def note_clean_stop(self) -> None:
        """Queue the last record before the store is closed; no other record may follow."""
        self._next.is_last = True
        self._outbox.record(CLEAN_STOP, self._outbox.nobody, 0, b"")

    def take_fetches(self) -> list[Fetch]:
        """Return the requests since the last call, answered by memory or not; `answered` must follow for each."""
        fetches = self._fetches
        self._fetches = []
        return fetches

    def answered(self, fetch: Fetch) -> None:
        """Record that a fetch no longer reads files."""
        self._readers.end(fetch.serial)
        self._readers.add_unread(self._deletions)

    def take_scan(self) -> Scan | None:
        """Return a block of an old segment to be read with low priority, or None; `scanned` must follow."""
        return None if self._failed or self._next.is_last else self._compaction.next_scan()

    def scanned(self, scan: Scan, block: bytes) -> None:
        """Take the bytes of a `take_scan`; empty if the file cannot be read."""
        self._compaction.scanned(scan, block)

    def take_damaged(self) -> list[tuple[int, int]]:
        """Return (segment, byte) of damaged records found since the last call.

        The rest of such a segment is not compacted.
        """
        return self._compaction.take_damaged()

    def attach_audit(self, source: AuditSource) -> None:
        """Write a copy of ``source`` into each segment from now on.

        The call comes before the first batch, when ``source`` has the result of recovery.
        """
        self._audit.attach(source, self._index, self._active.number)
        self._audit.copy(self._index, self._outbox)
