"""The journal: a message store as a pure state machine.

Calls queue entries and return; `Journal.next_batch` turns what has gathered into one write; whoever does that write (a
writer thread, a test) reports it with `Journal.completed`. One batch is under way at a time, the next gathers
meanwhile. No I/O, no clock, no threads: all of it runs on the loop's thread; the shell is ``stores/journal_store.py``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.broker.facts import Fact, check_fact
from spanwire.broker.ports import MessageStore
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.message import Message
from spanwire.stores.journal.batch import Batch, NewSegment, write_batch
from spanwire.stores.journal.checkpoint import encode_checkpoint
from spanwire.stores.journal.disk_port import Disk
from spanwire.stores.journal.fetch import Fetch, Read
from spanwire.stores.journal.index import (
    GONE,
    Entry,
    JournalIndex,
    StoredDestination,
    location_offset,
    location_segment,
)
from spanwire.stores.journal.record import (
    CANCELLED,
    CLEAN_STOP,
    DESTINATION,
    DESTINATION_REMOVED,
    FACT,
    FACT_DISCARDED,
    MESSAGE,
    PADDING,
    REDELIVERY,
    REMOVAL,
    SEGMENT_DROPPED,
    encode_header,
    record_size,
)
from spanwire.stores.journal.recovery import Progress, Recovery, recover, repair, write_summaries
from spanwire.stores.journal.segment import (
    BATCH_HEAD_SIZE,
    DEFAULT_SEGMENT_BYTES,
    MAX_SEGMENT_BYTES,
    MIN_SEGMENT_BYTES,
    encode_batch_head,
    encode_segment_header,
    segment_seed,
)
from spanwire.stores.journal.space import RESERVED_SHARE, UNMANAGED, DiskSpace, possible_segment
from spanwire.stores.journal.summary import SummaryDraft

MIB: Final = 1024 * 1024
MAX_BATCH_BYTES: Final = 4 * MIB  # encoding one batch must not hold the loop for more than some milliseconds
MAX_UNIT_BYTES: Final = 1024 * MIB  # a transaction lies in one batch and so in one segment of at most 4 GiB
MAX_UNWRITTEN_BYTES: Final = 64 * MIB  # above this `Journal.is_congested` asks the broker to hold producers back
LARGE_PAYLOAD: Final = 32 * 1024  # from here on a body is handed over as it is instead of being copied together
MAX_REDELIVERY_COUNT: Final = 0xFFFFFFFF

_PRODUCER_SEQUENCE: Final = Struct("<q")


class Journal(MessageStore):
    """Keeps messages in segments on a disk. Leaves the writing, reading and syncing to whoever drives it.

    ``stored_position`` is what `completed` last gave, ``waiters`` how often `position` was asked for since the last
    batch. Removing what is not there changes nothing.
    """

    def __init__(self, recovery: Recovery, store_id: bytes, segment_bytes: int = DEFAULT_SEGMENT_BYTES) -> None:
        self._index: Final[JournalIndex] = recovery.index
        self._store_id: Final[bytes] = store_id
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
        self._segment = recovery.last
        self._segment_end = recovery.last_end
        self._segment_size = 0  # full, so that the first batch opens a segment of its own
        self._checkpoint_end = 0  # where the first batch of the segment ends
        self._draft = SummaryDraft(0, 0)  # the summary of the segment being written
        self._batch_number = recovery.last_batches
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
        location = owner.index.remove(sequence)
        if location == GONE:
            return
        if entry is not None:
            del owner.unwritten[sequence]
        self._position += 1
        self._enqueue(REMOVAL, owner, sequence, b"").location = location

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        """See `MessageStore.append_shared`."""
        additions: list[tuple[Destination, Message]] = []
        for destination in destinations:
            additions.append((destination, message))
        return self.append_unit(additions, [], [])

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
        owners: list[StoredDestination] = []
        for addition in additions:
            owner = self._index.by_name.get(addition[0].qualified_name)
            owners.append(self._create(addition[0]) if owner is None else owner)
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
        self._fetches.append(Fetch(request, owner, sequences, messages, reads))

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
        return len(self._index.segments.live) * self._segment_bytes

    def has_room(self) -> bool:
        """See `MessageStore.has_room`."""
        return self._space.has_room

    # The driver

    @property
    def has_work(self) -> bool:
        """Whether `next_batch` would give one."""
        if self._in_flight is not None or self._failed:
            return False
        return bool(self._deletions) or (bool(self._queue) and not self._space.waits)

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
        return self._segment_end

    @property
    def segment(self) -> int:
        """The number of the newest segment."""
        return self._segment

    @property
    def segment_bytes(self) -> int:
        """The size of a usual segment."""
        return self._segment_bytes

    @property
    def is_half_full(self) -> bool:
        """It is time to prepare the next segment's file."""
        return self._segment_end * 2 > self._segment_size

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
        batch = Batch(0, self._segment + 1, 0, 0, [], [], self._roll(0), [])
        self._in_flight = batch
        return batch

    def next_batch(self) -> Batch | None:
        """What is to be written now; None while a batch is under way, after a failure, or when there is nothing."""
        if not self.has_work:
            return None
        entries, size = self._take()
        if self._space.waits and not self._deletions:
            return None
        deletions = self._deletions
        self._deletions = []
        new_segment: NewSegment | None = None
        parts: list[bytes] = []
        if entries:
            size += BATCH_HEAD_SIZE
            if self._segment_end + size > self._segment_size:
                new_segment = self._roll(size)
            parts = self._encode(entries, size)
        position = self.stored_position
        if not self._space.waits:
            position = self._space.limit(self._position if not self._queue else entries[-1].position)
        waiters = self.waiters
        self.waiters = 0
        batch = Batch(position, self._segment, self._segment_end, size, parts, entries, new_segment, deletions, waiters)
        self._segment_end += size
        self._in_flight = batch
        self._in_flight_bytes = size
        if not self._stopping:
            for number in self._index.segments.droppable(self._segment):
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
            elif entry.kind == SEGMENT_DROPPED:
                self._deletions.append(entry.sequence)
        for number in batch.deletions:
            self._index.segments.deleted(number)
        if batch.position > self.stored_position:
            self.stored_position = batch.position
        return self.stored_position

    def fail(self) -> None:
        """A write or sync failed: `next_batch` gives nothing from now on."""
        self._failed = True

    def note_clean_stop(self) -> None:
        """The last thing before the store is closed in order; no record may follow it."""
        self._stopping = True
        self._enqueue(CLEAN_STOP, self._nobody, 0, b"")

    def take_fetches(self) -> list[Fetch]:
        """The requests since the last call, to be answered even when memory holds all of it."""
        fetches = self._fetches
        self._fetches = []
        return fetches

    # Inside

    def _create(self, destination: Destination) -> StoredDestination:
        owner = self._index.create(destination)
        self._position += 1
        self._has_additions = True
        self._enqueue(DESTINATION, owner, owner.high, destination.qualified_name.encode("utf-8", "surrogatepass"))
        return owner

    def _enqueue(self, kind: int, owner: StoredDestination, sequence: int, payload: bytes) -> Entry:
        entry = Entry(kind, owner, sequence, None, payload, self._position)
        self._queue.append(entry)
        self._queued_bytes += record_size(len(payload))
        return entry

    def _enqueue_message(self, owner: StoredDestination, message: Message) -> int:
        owner.high += 1
        sequence = owner.high
        payload = message.encoded()
        entry = Entry(MESSAGE, owner, sequence, message, payload, self._position)
        owner.unwritten[sequence] = entry
        self._queue.append(entry)
        self._queued_bytes += record_size(len(payload))
        return sequence

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
        self._queued_bytes += record_size(len(payload)) - record_size(len(entry.payload))
        entry.kind = CANCELLED
        entry.payload = payload
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
        location = owner.index.remove(sequence)
        self._enqueue(REMOVAL, owner, sequence, b"").location = location

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
            bytes_on_disk = record_size(len(entry.payload))
            self._queued_bytes -= bytes_on_disk
            if entry.kind == REDELIVERY and not entry.owner.has(entry.sequence):
                continue
            taken.append(entry)
            size += bytes_on_disk
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

    def _fits(self, size: int) -> bool:
        """Whether a batch of ``size`` bytes has its place on the disk; else the next segment's file must come first."""
        space = self._space
        space.needed = max(self._segment_bytes, 2 * self._checkpoint_end + size)
        if space.spare_bytes >= space.needed:
            return True
        limit = self._segment_size
        if self._has_additions and space.has_room:
            limit -= limit // RESERVED_SHARE
        return self._segment_end + size <= limit

    def _roll(self, size: int) -> NewSegment:
        """Goes on to a new segment that has room for ``size`` bytes."""
        summary = self._draft.finish(self._store_id, self._segment_end, self._batch_number)
        number = self._segment + 1
        seed = segment_seed(self._store_id, number)
        parts = [encode_segment_header(self._store_id, number, self._segment, self._segment_end, self._batch_number)]
        parts.extend(encode_checkpoint(self._index, seed))
        end = 0
        for part in parts:
            end += len(part)
        self._index.segments.open(number, seed)
        self._segment = number
        self._segment_end = end
        self._segment_size = max(self._segment_bytes, 2 * end + size)  # a large check-point must not fill it
        self._checkpoint_end = end
        if self._space.spare_bytes != UNMANAGED:
            self._space.spare_bytes = 0
        self._batch_number = 1
        self._draft = SummaryDraft(number, self._segment_size)
        last = end - len(parts[-3]) - len(parts[-2]) - len(parts[-1])  # header, payload and padding
        self._draft.add(b"".join(parts[1:]), last, parts[-3])
        return NewSegment(number, self._segment_size, [b"".join(parts)], summary)

    def _encode(self, entries: list[Entry], size: int) -> list[bytes]:
        """The bytes of a batch at the end of the current segment; the index learns where everything lies."""
        segment = self._segment
        seed = self._index.segments.seeds[segment]
        offset = self._segment_end
        self._batch_number += 1
        head = encode_batch_head(seed, offset, self._batch_number, size)
        heads: list[bytes] = [head]  # for the summary: all but the messages
        last = offset
        small: list[bytes] = [head]
        parts: list[bytes] = []
        offset += BATCH_HEAD_SIZE
        for entry in entries:
            payload = entry.payload
            length = len(payload)
            format_id = 0
            message = entry.message
            if message is not None:
                format_id = message.format_id
            number = entry.owner.number + entry.table
            head = encode_header(seed, offset, entry.kind, 0, format_id, number, entry.sequence, payload)
            small.append(head)
            heads.append(head)
            if message is None and length > 0:
                heads.append(payload)
                heads.append(PADDING[length & 7])
            last = offset
            if length > LARGE_PAYLOAD:
                parts.append(b"".join(small))
                parts.append(payload)
                small = []
            elif length > 0:
                small.append(payload)
            if length & 7:
                small.append(PADDING[length & 7])
            self._written(entry, segment, offset, length)
            offset += record_size(length)
        parts.append(b"".join(small))
        self._draft.add(b"".join(heads), last, head)
        return parts

    def _written(self, entry: Entry, segment: int, offset: int, length: int) -> None:
        index = self._index
        owner = entry.owner
        kind = entry.kind
        entry.handed_over = True
        if kind == MESSAGE:
            entry.payload = b""
            index.written_message(owner, entry.sequence, segment, offset, length)
        elif kind == REMOVAL:
            location = entry.location
            if location == GONE:
                location = owner.index.remove(entry.sequence)
                owner.leaving.discard(entry.sequence)
            if location != GONE:
                index.written_removal(owner, entry.sequence, location, segment)
        elif kind == REDELIVERY:
            index.written_redelivery(owner, entry.sequence, segment)
        else:
            self._written_rare(entry, segment)

    def _written_rare(self, entry: Entry, segment: int) -> None:
        index = self._index
        kind = entry.kind
        if kind == DESTINATION:
            index.enter(entry.owner)
        elif kind == DESTINATION_REMOVED:
            if entry.segments is not None:
                index.written_destination_removal(entry.segments, segment)
            index.leave(entry.owner)
        elif kind == FACT:
            index.written_fact(entry.table, entry.payload[: entry.sequence], segment)
        elif kind == FACT_DISCARDED:
            index.written_fact_discard(entry.table, entry.payload, segment)


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
