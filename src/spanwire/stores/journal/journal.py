"""The journal: a message store as a pure state machine.

Calls queue entries and return; `Journal.next_batch` turns what has gathered into one write; whoever does that write (a
writer thread, a test) reports it with `Journal.completed`. One batch is under way at a time, the next gathers
meanwhile. No I/O, no clock, no threads: all of it runs on the loop's thread; the shell is ``stores/journal_store.py``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.broker.facts import PRODUCER_AUDIT, Fact, check_fact
from spanwire.broker.ports import AuditSource, MessageStore
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.message import Message
from spanwire.stores.journal.active_segment import ActiveSegment
from spanwire.stores.journal.batch import Batch, NewSegment, write_batch
from spanwire.stores.journal.compaction import Compaction, Scan
from spanwire.stores.journal.disk_port import Disk
from spanwire.stores.journal.fetch import Fetch, Read
from spanwire.stores.journal.index import Entry, JournalIndex, SharedBody, StoredDestination
from spanwire.stores.journal.record import (
    AUDIT_MARK,
    BODY,
    CANCELLED,
    CLEAN_STOP,
    DESTINATION,
    DESTINATION_REMOVED,
    EXPIRATION_SIZE,
    EXPIRES,
    FACT,
    FACT_DISCARDED,
    HEADER_SIZE,
    MESSAGE,
    MOVED,
    PRIORITY_MASK,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    SEGMENT_DROPPED,
    record_size,
)
from spanwire.stores.journal.recovery import Progress, Recovery, recover, repair, write_summaries
from spanwire.stores.journal.segment import (
    BATCH_HEAD_SIZE,
    DEFAULT_SEGMENT_BYTES,
    MAX_SEGMENT_BYTES,
    MIN_SEGMENT_BYTES,
)
from spanwire.stores.journal.sequences import GONE, location_offset, location_segment
from spanwire.stores.journal.space import RESERVED_SHARE, UNMANAGED, DiskSpace, possible_segment

MIB: Final = 1024 * 1024
MAX_BATCH_BYTES: Final = 4 * MIB  # encoding one batch must not hold the loop for more than some milliseconds
MAX_UNIT_BYTES: Final = 1024 * MIB  # a transaction lies in one batch and so in one segment of at most 4 GiB
MAX_UNWRITTEN_BYTES: Final = 64 * MIB  # above this `Journal.is_congested` asks the broker to hold producers back
LOOK_INTERVAL: Final = 256  # batches between two looks for something to compact, besides those at each new segment
MAX_REDELIVERY_COUNT: Final = 0xFFFFFFFF

_PRODUCER_SEQUENCE: Final = Struct("<q")


class Journal(MessageStore):
    """Keeps messages in segments on a disk. Leaves the writing, reading and syncing to whoever drives it.

    ``stored_position`` is what `completed` last gave, ``waiters`` how often `position` was asked for since the last
    batch. Removing what is not there changes nothing.
    """

    def __init__(self, recovery: Recovery, store_id: bytes, segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> None:
        self._index: Final[JournalIndex] = recovery.index
        self._segment_bytes: Final[int] = max(MIN_SEGMENT_BYTES, min(segment_bytes, MAX_SEGMENT_BYTES))
        self._nobody: Final[StoredDestination] = StoredDestination(0, Destination(QUEUE, "-"), 0)
        self._queue: list[Entry] = []
        self._space: Final[DiskSpace] = DiskSpace()
        self._fetches: list[Fetch] = []
        self._deletions: list[int] = []
        self._in_flight: Batch | None = None
        self._position = 0
        self._waited = 0  # the highest position that somebody asked for
        self._has_additions = False  # the queue holds more than removals and notes
        self._queued_bytes = 0
        self._in_flight_bytes = 0
        self._active: Final[ActiveSegment] = ActiveSegment(
            recovery.index,
            store_id,
            self._segment_bytes,
            recovery.last,
            recovery.last_end,
            recovery.last_batches,
        )
        self._compaction: Final[Compaction] = Compaction(recovery.index, self._nobody, self._segment_bytes)
        self._audit: AuditSource | None = None
        self._audit_segment: Final[int] = recovery.replay.audit_segment
        self._audit_waits = False  # a copy of the audit stands in the queue
        self._until_look = 0  # batches
        self._serial = 0  # of the last fetch
        self._reading: Final[dict[int, bool]] = {}  # serials of the fetches that are not answered yet, in order
        self._dropped: list[tuple[int, int]] = []  # (serial, segment): to be deleted when no older fetch is open
        self._asked = False
        self._failed = False
        self._stopping = False
        self.stored_position = 0
        self.waiters = 0

    # The port

    def append(self, destination: Destination, message: Message) -> int:
        """See `MessageStore.append`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            owner = self._create(destination)
        self._position += 1
        self._has_additions = True
        return self._enqueue_message(owner, message)

    def remove(self, destination: Destination, sequence: int) -> None:
        """See `MessageStore.remove`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            return
        entry = owner.unwritten.get(sequence)
        if entry is not None and not entry.handed_over:
            self._position += 1
            self._cancel(entry)
            return
        if sequence in owner.leaving:
            return
        location = owner.take_out(sequence)
        if location == GONE:
            return
        if entry is not None:
            del owner.unwritten[sequence]
        self._position += 1
        self._enqueue_removal(owner, sequence, location)

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        """See `MessageStore.append_shared`."""
        if not destinations:
            return []
        owners = self._owners(destinations)
        self._position += 1
        self._has_additions = True
        if len(owners) == 1:
            return [self._enqueue_message(owners[0], message)]
        return self._enqueue_references(owners, message)

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        facts: list[Fact],
    ) -> list[int]:
        """See `MessageStore.append_unit`; raises `ResourceAllocationError` for a unit above `MAX_UNIT_BYTES`."""
        self._check_unit(additions, removals, facts)
        if additions and not self._space.has_room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        owners = self._owners([addition[0] for addition in additions])
        before = len(self._queue)
        self._position += 1
        self._has_additions = True
        sequences: list[int] = []
        for place, addition in enumerate(additions):
            sequences.append(self._enqueue_message(owners[place], addition[1]))
        for removal in removals:
            self._remove_in_unit(removal[0], removal[1])
        for fact in facts:
            self._enqueue_fact(fact.table, fact.key, fact.value)
        if len(self._queue) == before:
            self._position -= 1  # nothing to write, so nothing would ever report this position
        return sequences

    def put_fact(self, table: int, key: bytes, value: bytes) -> None:
        """See `MessageStore.put_fact`."""
        check_fact(key, value)
        self._position += 1
        self._has_additions = True
        self._enqueue_fact(table, key, value)

    def discard_fact(self, table: int, key: bytes) -> None:
        """See `MessageStore.discard_fact`; of a fact that never was, too, a record is written."""
        self._position += 1
        self._has_additions = True
        self._enqueue_fact(table, key, None)

    def note_redelivery(self, destination: Destination, sequence: int, redelivery_count: int) -> None:
        """See `MessageStore.note_redelivery`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None or not owner.has(sequence):
            return
        self._position += 1
        count = min(redelivery_count, MAX_REDELIVERY_COUNT)
        self._enqueue(REDELIVERY, owner, sequence, count.to_bytes(4, "little"))

    def fetch(self, request: int, destination: Destination, sequences: list[int]) -> None:
        """See `MessageStore.fetch`; the driver collects requests with `take_fetches`."""
        owner = self._index.by_name.get(destination.qualified_name)
        messages: list[Message | None] = []
        reads: list[Read] = []
        for place, sequence in enumerate(sequences):
            message: Message | None = None
            if owner is not None:
                entry = owner.unwritten.get(sequence)
                if entry is not None:
                    message = entry.message
                else:
                    self._locate(owner, sequence, place, reads)
            messages.append(message)
        self._serial += 1
        self._reading[self._serial] = True
        self._fetches.append(Fetch(request, owner, sequences, messages, reads, self._serial))

    def add_destination(self, destination: Destination) -> None:
        """See `MessageStore.add_destination`."""
        if destination.qualified_name not in self._index.by_name:
            self._create(destination)

    def remove_destination(self, destination: Destination) -> None:
        """See `MessageStore.remove_destination`."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None:
            return
        for entry in list(owner.unwritten.values()):
            if not entry.handed_over:
                self._cancel(entry)
        owner.unwritten.clear()
        self._index.forget(owner)
        self._position += 1
        self._enqueue(DESTINATION_REMOVED, owner, owner.high, b"").segments = self._index.take_counts(owner)

    def position(self) -> int:
        """See `MessageStore.position`."""
        self._waited = self._position
        self._asked = True
        self.waiters += 1
        return self._position

    def used_bytes(self) -> int:
        """See `MessageStore.used_bytes`."""
        return self._index.segments.used_bytes

    def has_room(self) -> bool:
        """See `MessageStore.has_room`."""
        return self._space.has_room

    # The driver

    @property
    def has_work(self) -> bool:
        """Whether `next_batch` would give one."""
        if self._in_flight is not None or self._failed:
            return False
        if self._deletions:
            return True
        return not self._space.waits and bool(self._queue or (self._compaction.has_ready and not self._stopping))

    @property
    def may_wait(self) -> bool:
        """Nobody waits for what has gathered, and losing it in a crash would only mean redelivery."""
        return not self._has_additions and self._waited <= self.stored_position and not self._deletions

    @property
    def backlog_bytes(self) -> int:
        """Bytes that are not known to be on the disk."""
        return self._queued_bytes + self._in_flight_bytes

    @property
    def is_congested(self) -> bool:
        """More than `MAX_UNWRITTEN_BYTES` wait for the disk."""
        return self.backlog_bytes > MAX_UNWRITTEN_BYTES

    def take_answer(self) -> int:
        """The position to report again, because somebody asked when all was on the disk already; else -1."""
        if not self._asked or self.stored_position != self._position:
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
    def is_half_full(self) -> bool:
        """It is time to prepare the next segment's file."""
        return self._active.end * 2 > self._active.size

    @property
    def wanted_spare(self) -> int:
        """The size that the next segment's file should have soon; 0 while it has that, or is not needed yet."""
        wanted = self._segment_bytes if self.is_half_full else 0
        space = self._space
        if space.waits and space.needed > wanted:
            wanted = space.needed
        return wanted if wanted > space.spare_bytes else 0

    @property
    def waits_for_space(self) -> bool:
        """Whether the last batch did not fit: nothing but deletions comes before `space_changed`."""
        return self._space.waits

    @property
    def has_unwritten(self) -> bool:
        """Whether calls wait that `next_batch` has not given yet, for the disk to have room or for their turn."""
        return bool(self._queue) or self._space.holds

    def space_changed(self, spare_bytes: int, has_room: bool) -> bool:
        """So much of the next segment's file is ready, and the disk has room for messages or not; whether the latter is
        new. From the first call on, a batch waits rather than ask for a segment whose file is not ready; `UNMANAGED`
        bytes end that.
        """
        changed = self._space.change(spare_bytes, has_room)
        if has_room and self._space.holds:
            self._queue = self._space.take_held(self._queue)
            self._has_additions = True
        return changed

    def first_batch(self) -> Batch:
        """Opens the segment of this run, to be written before anything else: no run continues another's file."""
        batch = Batch(0, self._active.number + 1, 0, 0, [], [], self._roll(0), [])
        self._in_flight = batch
        return batch

    def next_batch(self) -> Batch | None:
        """What is to be written now; None while a batch is under way, after a failure, or when there is nothing."""
        if not self.has_work:
            return None
        entries, size = self._take()
        if self._space.waits and not self._deletions:
            return None
        position = self.stored_position
        if not self._space.waits:
            position = self._space.limit(self._position if not self._queue else entries[-1].position)
            entries, size = self._with_moves(entries, size)
        deletions = self._deletions
        self._deletions = []
        new_segment: NewSegment | None = None
        parts: list[bytes] = []
        if entries:
            size += BATCH_HEAD_SIZE
            if self._active.end + size > self._active.size:
                new_segment = self._roll(size)
            parts = self._active.encode(entries, size)
        waiters = self.waiters
        self.waiters = 0
        batch = Batch(
            position, self._active.number, self._active.end, size, parts, entries, new_segment, deletions, waiters
        )
        self._active.end += size
        self._in_flight = batch
        self._in_flight_bytes = size
        if not self._stopping:
            self._look()
            for number in self._index.segments.droppable(self._active.number):
                self._index.segments.drop(number)
                self._enqueue(SEGMENT_DROPPED, self._nobody, number, b"")
        return batch

    def completed(self, batch: Batch) -> int:
        """The batch is on the disk; gives the position that is stored now."""
        self._in_flight = None
        self._in_flight_bytes = 0
        for entry in batch.entries:
            if entry.kind == MESSAGE:
                owner = entry.owner
                if owner.unwritten.get(entry.sequence) is entry:
                    del owner.unwritten[entry.sequence]
            elif entry.kind >= SEGMENT_DROPPED:
                self._completed_rare(entry)
        if self._dropped:
            self._delete_unread()
        for number in batch.deletions:
            self._index.segments.deleted(number)
        if batch.position > self.stored_position:
            self.stored_position = batch.position
        return self.stored_position

    def _completed_rare(self, entry: Entry) -> None:
        kind = entry.kind
        owner = entry.owner
        if kind == MOVED or (kind == REFERENCE and entry.location != GONE):
            owner.moved(entry.sequence)
        elif kind == REFERENCE and owner.unwritten.get(entry.sequence) is entry:
            del owner.unwritten[entry.sequence]
        elif kind == FACT and entry.table == PRODUCER_AUDIT and entry.payload == AUDIT_MARK:
            self._audit_waits = False
        elif kind == SEGMENT_DROPPED:
            self._dropped.append((self._serial, entry.sequence))

    def fail(self) -> None:
        """A write or sync failed: `next_batch` gives nothing from now on."""
        self._failed = True

    def note_clean_stop(self) -> None:
        """The last thing before the store is closed in order; no record may follow it."""
        self._stopping = True
        self._enqueue(CLEAN_STOP, self._nobody, 0, b"")

    def take_fetches(self) -> list[Fetch]:
        """The requests since the last call, to be answered even when memory holds all of it; then comes `answered`."""
        fetches = self._fetches
        self._fetches = []
        return fetches

    def answered(self, fetch: Fetch) -> None:
        """A fetch that was taken needs no file any more."""
        self._reading.pop(fetch.serial, False)
        if self._dropped:
            self._delete_unread()

    def take_scan(self) -> Scan | None:
        """A block of an old segment that is to be read now, at leisure, or None; answered by `scanned`."""
        if self._failed or self._stopping:
            return None
        return self._compaction.next_scan()

    def scanned(self, scan: Scan, block: bytes) -> None:
        """The block of a `take_scan`; empty when it cannot be read."""
        self._compaction.scanned(scan, block)

    def take_damaged(self) -> list[tuple[int, int]]:
        """(segment, byte) of damaged records found since the last call: what follows them stays where it is."""
        damaged = self._compaction.damaged.copy()
        self._compaction.damaged.clear()
        return damaged

    def attach_audit(self, source: AuditSource) -> None:
        """From now on a copy of ``source`` goes into each segment; to be called before the first batch, when it holds
        what recovery found.
        """
        self._audit = source
        segments = self._index.segments
        segments.keep_from = self._audit_segment if self._audit_segment > 0 else self._active.number
        self._copy_audit()

    # Inside

    def _create(self, destination: Destination) -> StoredDestination:
        owner = self._index.create(destination)
        self._position += 1
        self._has_additions = True
        self._enqueue(DESTINATION, owner, owner.high, destination.qualified_name.encode("utf-8", "surrogatepass"))
        return owner

    def _enqueue(self, kind: int, owner: StoredDestination, sequence: int, payload: bytes) -> Entry:
        size = record_size(len(payload))
        entry = Entry(kind, owner, sequence, None, payload, self._position, size)
        self._queue.append(entry)
        self._queued_bytes += size
        return entry

    def _enqueue_removal(self, owner: StoredDestination, sequence: int, location: int) -> None:
        entry = Entry(REMOVAL, owner, sequence, None, b"", self._position, HEADER_SIZE)
        entry.location = location
        entry.length = owner.index.removed_length
        self._queue.append(entry)
        self._queued_bytes += HEADER_SIZE

    def _enqueue_message(self, owner: StoredDestination, message: Message) -> int:
        owner.high += 1
        sequence = owner.high
        entry = self._enqueue_body(MESSAGE, owner, sequence, message)
        owner.unwritten[sequence] = entry
        return sequence

    def _enqueue_body(self, kind: int, owner: StoredDestination, sequence: int, message: Message) -> Entry:
        payload = message.encoded()
        size = HEADER_SIZE + ((len(payload) + 7) & -8)
        flags = message.priority & PRIORITY_MASK
        if message.expiration_ms > 0:
            flags |= EXPIRES
            size += EXPIRATION_SIZE
        entry = Entry(kind, owner, sequence, message, payload, self._position, size)
        entry.flags = flags
        entry.format_id = message.format_id
        self._queue.append(entry)
        self._queued_bytes += size
        return entry

    def _enqueue_references(self, owners: list[StoredDestination], message: Message) -> list[int]:
        """One body and behind it a reference for each line."""
        shared = SharedBody()
        shared.references = len(owners)
        self._enqueue_body(BODY, self._nobody, 0, message).shared = shared
        sequences: list[int] = []
        for owner in owners:
            owner.high += 1
            entry = self._enqueue(REFERENCE, owner, owner.high, b"")
            entry.message = message
            entry.shared = shared
            owner.unwritten[owner.high] = entry
            sequences.append(owner.high)
        return sequences

    def _owners(self, destinations: list[Destination]) -> list[StoredDestination]:
        owners: list[StoredDestination] = []
        for destination in destinations:
            owner = self._index.by_name.get(destination.qualified_name)
            owners.append(self._create(destination) if owner is None else owner)
        return owners

    def _enqueue_fact(self, table: int, key: bytes, value: bytes | None) -> None:
        kind = FACT_DISCARDED if value is None else FACT
        payload = key if value is None else key + value
        self._enqueue(kind, self._nobody, len(key), payload).table = table

    def _check_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        facts: list[Fact],
    ) -> None:
        size = len(removals) * record_size(0)
        for addition in additions:
            size += record_size(len(addition[1].encoded()))
        for fact in facts:
            value = b"" if fact.value is None else fact.value
            check_fact(fact.key, value)
            size += record_size(len(fact.key) + len(value))
        if size > MAX_UNIT_BYTES:
            raise ResourceAllocationError(
                f"the transaction holds {size // MIB} MiB, at most {MAX_UNIT_BYTES // MIB} MiB can be committed at once"
            )

    def _cancel(self, entry: Entry) -> None:
        """The message of a waiting entry is not needed: only its numbers are written."""
        message = entry.message
        if message is None:
            return
        message_id = message.message_id
        payload = _PRODUCER_SEQUENCE.pack(message_id.sequence) + str(message_id.producer_id).encode(
            "utf-8", "surrogatepass"
        )
        size = record_size(len(payload))
        self._queued_bytes += size - entry.size
        entry.size = size
        entry.kind = CANCELLED
        entry.flags = 0
        entry.format_id = 0
        entry.payload = payload
        if entry.shared is not None:
            entry.shared.references -= 1
            entry.shared = None
        entry.message = None
        entry.owner.unwritten.pop(entry.sequence, None)

    def _remove_in_unit(self, destination: Destination, sequence: int) -> None:
        """A waiting message is written first: it may not vanish unless the whole unit counts."""
        owner = self._index.by_name.get(destination.qualified_name)
        if owner is None or not owner.has(sequence):
            return
        entry = owner.unwritten.pop(sequence, None)
        if entry is not None and not entry.handed_over:
            owner.leaving.add(sequence)
            self._enqueue(REMOVAL, owner, sequence, b"")
            return
        self._enqueue_removal(owner, sequence, owner.take_out(sequence))

    def _locate(self, owner: StoredDestination, sequence: int, place: int, reads: list[Read]) -> None:
        location = owner.index.find(sequence)
        if location == GONE or sequence in owner.leaving:
            return
        segment = location_segment(location)
        seed = self._index.segments.seeds[segment]
        length = owner.index.length(sequence)
        reads.append(Read(place, owner.number, sequence, segment, location_offset(location), length, seed))

    def _take(self) -> tuple[list[Entry], int]:
        """Takes entries from the queue up to `MAX_BATCH_BYTES`, whole calls only, with the bytes of their records.

        Nothing if there is no room for that on the disk; what needs none goes on without the rest.
        """
        taken: list[Entry] = []
        size = 0
        space = self._space
        if space.waits:
            return taken, size
        if not space.has_room:
            self._queue = space.hold(self._queue)
        queue = self._queue
        queued_bytes = self._queued_bytes
        count = 0
        position = -1
        for entry in queue:
            if size > MAX_BATCH_BYTES and entry.position != position:
                break
            position = entry.position
            count += 1
            self._queued_bytes -= entry.size
            if entry.kind >= REDELIVERY and _is_void(entry):
                continue
            taken.append(entry)
            size += entry.size
        if space.spare_bytes != UNMANAGED and taken and not self._fits(BATCH_HEAD_SIZE + size):
            self._queued_bytes = queued_bytes
            space.waits = True
            return [], 0
        if count == len(queue):
            self._queue = []
            self._has_additions = False
        else:
            self._queue = queue[count:]
        return taken, size

    def _with_moves(self, entries: list[Entry], size: int) -> tuple[list[Entry], int]:
        """What compaction writes again goes in front: what clients said meanwhile comes behind it and counts."""
        if self._stopping or not self._compaction.has_ready:
            return entries, size
        moves = self._compaction.take(size, self._room_for_moves(size), self._position)
        for entry in moves:
            size += entry.size
        return moves + entries, size

    def _room_for_moves(self, size: int) -> int:
        """Bytes that may be written again in a batch that has ``size`` without taking the disk's last ones."""
        space = self._space
        if space.spare_bytes == UNMANAGED:
            return MAX_UNIT_BYTES
        left = self._active.size - self._active.end
        if space.has_room and space.spare_bytes > 0:
            left = max(left, space.spare_bytes - 2 * self._active.checkpoint_end)
        elif not space.has_room:
            left -= self._active.size // (2 * RESERVED_SHARE)
        return left - size - BATCH_HEAD_SIZE

    def _look(self) -> None:
        """Now and then: whether there is something to compact."""
        self._until_look -= 1
        if self._until_look <= 0:
            self._until_look = LOOK_INTERVAL
            room = MAX_UNIT_BYTES if self._space.has_room else self._room_for_moves(0)
            self._compaction.look(self._active.number, room)

    def _delete_unread(self) -> None:
        """Dropped segments that no fetch reads any more may be deleted."""
        oldest = self._serial + 1
        for serial in self._reading:
            oldest = serial
            break
        kept: list[tuple[int, int]] = []
        for dropped in self._dropped:
            if dropped[0] < oldest:
                self._deletions.append(dropped[1])
            else:
                kept.append(dropped)
        self._dropped = kept

    def _copy_audit(self) -> None:
        """What the audit knows by now goes behind all that is known by now; it may lose nothing before."""
        audit = self._audit
        if audit is None or self._audit_waits or self._stopping:
            return
        self._audit_waits = True
        self._position += 1
        facts = audit.audit_facts()
        gone = set(self._index.facts.get(PRODUCER_AUDIT, {}))
        for fact in facts:
            gone.discard(fact.key)
            self._enqueue_fact(PRODUCER_AUDIT, fact.key, fact.value)
        for key in gone:
            self._enqueue_fact(PRODUCER_AUDIT, key, None)
        self._enqueue_fact(PRODUCER_AUDIT, AUDIT_MARK, b"")

    def _roll(self, size: int) -> NewSegment:
        new_segment = self._active.roll(size)
        if self._space.spare_bytes != UNMANAGED:
            self._space.spare_bytes = 0
        self._until_look = 0
        self._copy_audit()
        return new_segment

    def _fits(self, size: int) -> bool:
        """Whether a batch of ``size`` bytes has its place on the disk; else the next segment's file must come first."""
        space = self._space
        space.needed = max(self._segment_bytes, 2 * self._active.checkpoint_end + size)
        if space.spare_bytes >= space.needed:
            return True
        limit = self._active.size
        if self._has_additions and space.has_room:
            limit -= limit // RESERVED_SHARE
        return self._active.end + size <= limit


def _is_void(entry: Entry) -> bool:
    """Whether what it says concerns nothing any more."""
    if entry.kind == REDELIVERY:
        return not entry.owner.has(entry.sequence)
    return entry.kind == BODY and entry.shared is not None and entry.shared.references == 0


class OpenedJournal:
    """A journal ready for use and what recovery found."""

    __slots__ = ("journal", "recovery")

    def __init__(self, journal: Journal, recovery: Recovery) -> None:
        self.journal: Final[Journal] = journal
        self.recovery: Final[Recovery] = recovery


def open_journal(
    disk: Disk,
    new_store_id: bytes,
    segment_bytes: int = DEFAULT_SEGMENT_BYTES,
    sync: bool = True,
    progress: Progress | None = None,
) -> OpenedJournal:
    """Recovers the store on ``disk``, repairs it after a crash and opens this run's segment.

    ``new_store_id`` (16 unpredictable bytes) names a store that does not exist yet. Raises `StoreError` and `OSError`.
    """
    recovery = recover(disk, progress)
    repair(disk, recovery)
    if not recovery.clean:
        recovery.index.skip_lost_sequences()
    store_id = recovery.store_id if recovery.store_id else new_store_id
    journal = Journal(recovery, store_id, possible_segment(disk, segment_bytes))
    batch = journal.first_batch()
    write_batch(disk, batch, sync)
    journal.completed(batch)
    write_summaries(disk, recovery)
    return OpenedJournal(journal, recovery)
