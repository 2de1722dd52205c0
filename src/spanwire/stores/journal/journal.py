"""The journal: a message store as a pure state machine.

Calls queue entries and return; `Journal.next_batch` turns what has gathered into one write; whoever does that write (a
writer thread, a test) reports it with `Journal.completed`. One batch is under way at a time, the next gathers
meanwhile. No I/O, no clock, no threads: all of it runs on the loop's thread; the shell is ``stores/journal_store.py``.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import PRODUCER_AUDIT, Fact, check_fact
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.broker.ports import AuditSource, MessageStore, MetadataStore, StoreUsage, Transfer, UnitStore
from spanwire.model.destination import Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.message import Message
from spanwire.stores.journal.active_segment import ActiveSegment
from spanwire.stores.journal.audit_copies import AuditCopies
from spanwire.stores.journal.batch import Batch
from spanwire.stores.journal.compaction import Compaction, Scan
from spanwire.stores.journal.fetching.fetch import Fetch, fetch_of, sizes_of
from spanwire.stores.journal.fetching.readers import Readers
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.index.stored_destination import Entry, OwnedRemovals, StoredDestination
from spanwire.stores.journal.next_batch import MAX_GATHERED_BYTES, NextBatch
from spanwire.stores.journal.outbox import Outbox, check_unit, check_unit_bytes, transfer_bytes, unit_bytes
from spanwire.stores.journal.recovery.recovery import Recovery
from spanwire.stores.journal.segments.record import (
    AUDIT_MARK,
    CLEAN_STOP,
    DESTINATION,
    DESTINATION_REMOVED,
    FACT,
    MESSAGE,
    MOVED,
    REDELIVERY,
    REFERENCE,
    SEGMENT_DROPPED,
)
from spanwire.stores.journal.segments.segment import (
    DEFAULT_SEGMENT_BYTES,
    MAX_SEGMENT_BYTES,
    MIN_SEGMENT_BYTES,
)
from spanwire.stores.journal.space import DiskSpace
from spanwire.stores.journal.spare_files import wanted_reserve

MAX_REDELIVERY_COUNT: Final = 0xFFFFFFFF


class Journal(MessageStore, UnitStore, MetadataStore, StoreUsage):
    """Keeps messages in segments on a disk. Leaves the writing, reading and syncing to whoever drives it.

    ``stored_position`` is what `completed` last gave, ``waiters`` how often `position` was asked for since the last
    batch. Removing what is not there changes nothing.
    """

    def __init__(
        self,
        recovery: Recovery,
        store_id: bytes,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        is_unsynced: bool = False,
    ) -> None:
        self._index: Final[JournalIndex] = recovery.index
        self._segment_bytes: Final[int] = max(MIN_SEGMENT_BYTES, min(segment_bytes, MAX_SEGMENT_BYTES))
        self._outbox: Final[Outbox] = Outbox()
        self._space: Final[DiskSpace] = DiskSpace()
        self._fetches: list[Fetch] = []
        self._deletions: list[int] = []
        self._in_flight: Batch | None = None
        self._waited = 0  # the highest position that somebody asked for
        self._in_flight_bytes = 0
        self._most_under_way = 0
        self._active: Final[ActiveSegment] = ActiveSegment(
            recovery.index,
            store_id,
            self._segment_bytes,
            recovery.last,
            recovery.last_end,
            recovery.last_batches,
        )
        self._active.is_unsynced = is_unsynced
        self._compaction: Final[Compaction] = Compaction(
            recovery.index, self._active, self._space, self._outbox.nobody, self._segment_bytes
        )
        self._audit: Final[AuditCopies] = AuditCopies(recovery.replay.audit_segment)
        self._next: Final[NextBatch] = NextBatch(
            recovery.index, self._active, self._outbox, self._space, self._compaction, self._audit
        )
        self._readers: Final[Readers] = Readers()
        self._asked = False
        self._failed = False
        self.stored_position = 0
        self.waiters = 0

    # The port

    def append(self, destination: Destination, message: Message) -> int:
        """See `MessageStore.append`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            owner = self._create(destination)
        self._outbox.position += 1
        self._outbox.has_additions = True
        return self._outbox.message(owner, message)

    def remove(self, destination: Destination, sequence: int) -> None:
        """See `MessageStore.remove`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            return
        entry = owner.unwritten.get(sequence)
        if entry is not None and not entry.handed_over:
            self._outbox.position += 1
            self._outbox.cancel(entry)
            return
        if sequence in owner.leaving:
            return
        if owner.arriving and owner.arrives(sequence):
            self._outbox.position += 1
            self._outbox.remove_in_unit(owner, sequence)
            return
        location = owner.take_out(sequence)
        if location == GONE:
            return
        if entry is not None:
            del owner.unwritten[sequence]
        self._outbox.position += 1
        self._outbox.removal(owner, sequence, location)

    def remove_all(self, destination: Destination, sequences: list[int]) -> None:
        """See `MessageStore.remove_all`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            return
        if owner.unwritten or owner.leaving:
            for sequence in sequences:
                self.remove(destination, sequence)
            return
        locations: list[int] = []
        lengths: list[int] = []
        index = owner.index
        index.remove_all(sequences, locations, lengths)
        for place, sequence in enumerate(sequences):
            location = locations[place]
            if location == GONE:
                self.remove(destination, sequence)
                continue
            if owner.moving:
                location = owner.moving.pop(sequence, location)
            self._outbox.position += 1
            index.removed_length = lengths[place]
            self._outbox.removal(owner, sequence, location)

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        """See `UnitStore.append_shared`."""
        if not destinations:
            return []
        owners = self._owners(destinations)
        self._outbox.position += 1
        self._outbox.has_additions = True
        if len(owners) == 1:
            return [self._outbox.message(owners[0], message)]
        before, size = len(self._outbox.entries), self._outbox.size
        sequences = self._outbox.references(owners, message)
        self._outbox.note_call(before, size)
        return sequences

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        facts: list[Fact],
    ) -> list[int]:
        """See `UnitStore.append_unit`; raises `ResourceAllocationError` for a unit above `MAX_UNIT_BYTES`."""
        check_unit(additions, removals, facts)
        if additions and not self._space.has_room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        owners = self._owners([addition[0] for addition in additions])
        before, size = self._begin_unit()
        sequences: list[int] = []
        for place, addition in enumerate(additions):
            sequences.append(self._outbox.message(owners[place], addition[1]))
        self._end_unit(removals, facts, before, size)
        return sequences

    def append_gathered(self, unit: StoreUnit, facts: list[Fact]) -> None:
        """See `UnitStore.append_gathered`; raises as `append_unit`."""
        removals: list[OwnedRemovals] = []
        for wanted in unit.removals():
            owner = self._index.by_name.get(wanted.destination.qualified_name)
            if owner is not None:
                removals.append(OwnedRemovals(owner, wanted.sequences))
        check_unit_bytes(unit_bytes(unit, removals), facts)
        if unit.messages and not self._space.has_room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        owners = self._owners([line.destination for line in unit.targets()])
        if not (unit.messages or removals or unit.facts or facts):
            return
        self._begin_unit()
        for fact in facts:
            self._outbox.fact(fact.table, fact.key, fact.value)
        if unit.messages or removals or unit.facts:
            self._outbox.unit(unit, owners, removals)

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], facts: list[Fact]
    ) -> list[int]:
        """See `UnitStore.transfer_unit`; raises as `append_unit`."""
        sources = self._owners([transfer.source for transfer in transfers])
        size = 0
        for place, transfer in enumerate(transfers):
            size += transfer_bytes(sources[place], transfer.sequences)
        check_unit([], removals, facts, size)
        if transfers and not self._space.has_room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        targets = self._owners([transfer.target for transfer in transfers])
        before, size = self._begin_unit()
        firsts: list[int] = []
        for place, transfer in enumerate(transfers):
            firsts.append(self._outbox.transfer(sources[place], targets[place], transfer.sequences))
        self._end_unit(removals, facts, before, size)
        return firsts

    def _begin_unit(self) -> tuple[int, int]:
        self._outbox.position += 1
        self._outbox.has_additions = True
        return len(self._outbox.entries), self._outbox.size

    def _end_unit(self, removals: list[tuple[Destination, int]], facts: list[Fact], before: int, size: int) -> None:
        for destination, sequence in removals:
            owner = self._index.by_name.get(destination.qualified_name)
            if owner is not None:
                self._outbox.remove_in_unit(owner, sequence)
        for fact in facts:
            self._outbox.fact(fact.table, fact.key, fact.value)
        if len(self._outbox.entries) == before:
            self._outbox.position -= 1  # nothing to write, so nothing would ever report this position
        else:
            self._outbox.note_call(before, size)

    def put_fact(self, table: int, key: bytes, value: bytes) -> None:
        """See `MetadataStore.put_fact`."""
        check_fact(key, value)
        self._outbox.position += 1
        self._outbox.has_additions = True
        self._outbox.fact(table, key, value)

    def discard_fact(self, table: int, key: bytes) -> None:
        """See `MetadataStore.discard_fact`; of a fact that never was, too, a record is written."""
        self._outbox.position += 1
        self._outbox.has_additions = True
        self._outbox.fact(table, key, None)

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
            self._create(destination)

    def remove_destination(self, destination: Destination) -> None:
        """See `MessageStore.remove_destination`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            return
        owner.is_removed = True
        self._index.forget(owner)
        self._outbox.position += 1
        self._outbox.record(DESTINATION_REMOVED, owner, owner.high, b"")

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
    def moved_bytes(self) -> int:
        """Bytes that compaction has written again in this run."""
        return self._compaction.moved_bytes

    def has_room(self) -> bool:
        """See `StoreUsage.has_room`."""
        return self._space.has_room

    # The driver

    @property
    def has_work(self) -> bool:
        """Whether `next_batch` would give one."""
        if self._in_flight is not None or self._failed:
            return False
        if self._deletions or self._next.slices:
            return True
        return not self._space.waits and bool(
            self._outbox.entries or (self._compaction.has_ready and not self._next.is_last)
        )

    @property
    def may_wait(self) -> bool:
        """Nobody waits for what has gathered, and losing it in a crash would only mean redelivery."""
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
    def is_writing(self) -> bool:
        """Whether a batch is under way."""
        return self._in_flight is not None

    @property
    def has_slice(self) -> bool:
        """Whether more waits than one turn encodes."""
        return self._next.has_slice

    @property
    def has_large_call(self) -> bool:
        """Whether a call waits, or a check-point is next, that is too large to be encoded in one turn."""
        return self._next.is_cut or bool(self._outbox.large) or self._next.begins_large_segment

    def take_answer(self) -> int:
        """The position to report again, because somebody asked when all was on the disk already; else -1."""
        if not self._asked or self.stored_position != self._outbox.position:
            return -1
        self._asked = False
        return self.stored_position

    @property
    def segment_end(self) -> int:
        """Where the newest segment ends."""
        return self._active.end

    @property
    def segment(self) -> int:
        """The number of the newest segment."""
        return self._active.number

    @property
    def segment_bytes(self) -> int:
        """The size of a usual segment."""
        return self._segment_bytes

    @property
    def wanted_spare(self) -> int:
        """The size that the next segment's file should have soon; 0 while it has that, or is not needed yet."""
        space = self._space
        wanted = self._segment_bytes if self._active.is_half_full or not space.has_room else 0
        if space.waits and space.needed > wanted:
            wanted = space.needed
        wanted = max(wanted, self._compaction.wanted_spare)
        return wanted if wanted > space.spare_bytes else 0

    @property
    def wanted_reserve(self) -> int:
        """The size that the reserve for a full disk should have; 0 before there is half a segment."""
        if not self._active.is_half_full and self._compaction.live == 0:
            return 0
        return wanted_reserve(self._segment_bytes, self._compaction.live, self._most_under_way)

    @property
    def room_bytes(self) -> int:
        """What the active segment takes before the next one must be there; 0 while a batch waits for that."""
        return 0 if self._space.waits else self._active.message_room

    @property
    def waits_for_space(self) -> bool:
        """Whether the last batch did not fit: nothing but deletions comes before `space_changed`."""
        return self._space.waits

    @property
    def has_unwritten(self) -> bool:
        """Whether calls wait that `next_batch` has not given yet, for the disk to have room or for their turn."""
        return bool(self._outbox.entries or self._next.slices) or self._space.holds

    def space_changed(self, spare_bytes: int, has_room: bool) -> bool:
        """So much of the next segment's file is ready, and the disk has room for messages or not; whether the latter is
        new. From the first call on, a batch waits rather than ask for a segment whose file is not ready; `UNMANAGED`
        bytes end that.
        """
        if not has_room and self._active.has_checkpoint:
            self._next.add_slice(False)  # all that is left of the check-point
        if self._next.new_segment is not None and spare_bytes > 0:
            spare_bytes = 0  # the next batch takes that file
        changed = self._space.change(spare_bytes, has_room)
        self._next.room_changed()
        return changed

    def first_batch(self) -> Batch:
        """Opens the segment of this run, to be written before anything else: no run continues another's file."""
        batch = Batch(0, self._active.number + 1, 0, 0, [], [], self._next.roll(0), [])
        self._next.new_segment = None
        self._in_flight = batch
        return batch

    def next_batch(self) -> Batch | None:
        """What is to be written now; None while a batch is under way, after a failure, or when there is nothing. Takes
        what `gather` encoded and one slice more, or the rest of a call that was begun.
        """
        if not self.has_work:
            return None
        self._most_under_way = max(self._most_under_way, self._outbox.size + self._next.size)
        self._next.add_slice(False)
        self._next.complete_call()
        if self._space.waits and not self._deletions and not self._next.slices and not self._active.has_batch:
            return None
        slices = self._next.slices
        self._next.slices = []
        position = self.stored_position
        for part in slices:
            part.position = self._outbox.limit(self._space.limit(part.position))
            position = part.position
        deletions = self._deletions
        self._deletions = []
        new_segment = self._next.new_segment
        self._next.new_segment = None
        active = self._active
        offset = active.end
        parts: list[bytes] = []
        if active.has_batch:
            offset = active.batch_start
            parts = active.end_batch()
        waiters = self.waiters
        self.waiters = 0
        size = active.end - offset
        batch = Batch(position, active.number, offset, size, parts, slices, new_segment, deletions, waiters)
        self._in_flight = batch
        self._in_flight_bytes = size
        self._next.size = 0
        if not self._next.is_last:
            self._index.removals.release()
            self._compaction.look_now_and_then()
            self._drop_segments()
        return batch

    def release_removed(self) -> bool:
        """Release a slice of the messages of removed destinations; False if there is none.

        To be called in each turn of the loop.
        """
        if self._index.removals.is_empty or self._failed or self._next.is_last:
            return False
        self._index.removals.release()
        if self._index.removals.is_empty:
            self._drop_segments()
        return True

    def _drop_segments(self) -> None:
        """Queue the records that let segments go which nothing needs any more."""
        for number in self._index.segments.droppable(self._active.number):
            self._index.drop_segment(number)
            self._outbox.record(SEGMENT_DROPPED, self._outbox.nobody, number, b"")

    def gather(self) -> bool:
        """Encode a slice of the next batch, which grows until `next_batch` takes it; False when there is none, or no
        place for it that is certain. What was encoded counts as under way: a removal of it is written behind it.
        """
        if self._failed or (self._next.size >= MAX_GATHERED_BYTES and not self._next.is_cut):
            return False
        return self.has_slice and self._next.add_slice(True)

    def completed(self, batch: Batch) -> int:
        """The batch is on the disk; gives the position that is stored now."""
        while self.complete_slice(batch):
            pass
        return self.stored_position

    def complete_slice(self, batch: Batch) -> bool:
        """The batch is on the disk: count its next slice as stored; False if that was the last. The next batch may be
        written as soon as the first was counted.
        """
        place = batch.completed_slices
        if place == 0:
            self._in_flight = None
            self._in_flight_bytes = 0
            for number in batch.deletions:
                self._index.segments.deleted(number)
        position = batch.position
        if place < len(batch.slices):
            self._complete_entries(batch.slices[place].entries)
            position = batch.slices[place].position
        self._readers.add_unread(self._deletions)
        if position > self.stored_position:
            self.stored_position = position
        batch.completed_slices = place + 1
        return batch.completed_slices < len(batch.slices)

    def _complete_entries(self, entries: list[Entry]) -> None:
        dropped: set[int] = set()
        for entry in entries:
            if entry.kind == MESSAGE:
                owner = entry.owner
                if owner.unwritten.get(entry.sequence) is entry:
                    del owner.unwritten[entry.sequence]
            elif entry.kind == SEGMENT_DROPPED:
                dropped.add(entry.sequence)
                self._readers.drop(entry.sequence)
            elif entry.kind > SEGMENT_DROPPED:
                self._completed_rare(entry)
        if dropped:
            self._index.drop_labels(dropped)  # what was moved out of them is read elsewhere since the batch before

    def _completed_rare(self, entry: Entry) -> None:
        kind = entry.kind
        owner = entry.owner
        if kind == MOVED or (kind == REFERENCE and entry.location != GONE):
            self._index.moved(owner, entry.sequence)
        elif kind == REFERENCE and owner.unwritten.get(entry.sequence) is entry:
            del owner.unwritten[entry.sequence]
        elif kind == FACT and entry.table == PRODUCER_AUDIT and entry.payload == AUDIT_MARK:
            self._audit.waits = False

    def fail(self) -> None:
        """A write or sync failed: `next_batch` gives nothing from now on."""
        self._failed = True

    def note_clean_stop(self) -> None:
        """The last thing before the store is closed in order; no record may follow it."""
        self._next.is_last = True
        self._outbox.record(CLEAN_STOP, self._outbox.nobody, 0, b"")

    def take_fetches(self) -> list[Fetch]:
        """The requests since the last call, to be answered even when memory holds all of it; then comes `answered`."""
        fetches = self._fetches
        self._fetches = []
        return fetches

    def answered(self, fetch: Fetch) -> None:
        """A fetch that was taken needs no file any more."""
        self._readers.end(fetch.serial)
        self._readers.add_unread(self._deletions)

    def take_scan(self) -> Scan | None:
        """A block of an old segment that is to be read now, at leisure, or None; answered by `scanned`."""
        return None if self._failed or self._next.is_last else self._compaction.next_scan()

    def scanned(self, scan: Scan, block: bytes) -> None:
        """The block of a `take_scan`; empty when it cannot be read."""
        self._compaction.scanned(scan, block)

    def take_damaged(self) -> list[tuple[int, int]]:
        """(segment, byte) of damaged records found since the last call: what follows them stays where it is."""
        return self._compaction.take_damaged()

    def attach_audit(self, source: AuditSource) -> None:
        """From now on a copy of ``source`` goes into each segment; to be called before the first batch, when it holds
        what recovery found.
        """
        self._audit.attach(source, self._index, self._active.number)
        self._audit.copy(self._index, self._outbox)

    # Inside

    def _create(self, destination: Destination) -> StoredDestination:
        owner = self._index.create(destination)
        self._outbox.position += 1
        self._outbox.has_additions = True
        self._outbox.record(DESTINATION, owner, owner.high, destination.qualified_name.encode("utf-8", "surrogatepass"))
        return owner

    def _owners(self, destinations: list[Destination]) -> list[StoredDestination]:
        return [self._index.by_name.get(known.qualified_name) or self._create(known) for known in destinations]
