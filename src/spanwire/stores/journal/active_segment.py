"""The segment that is being written.

The module has its end, the bytes of the next batch, and the step to the next segment.

The index gets the location of a record as soon as the record is encoded. Until the bytes are on the disk, a message is
read from memory, a moved message from the old location.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.ledger import LINK_SHIFT, NO_MESSAGE, WAY_MASK
from spanwire.stores.journal.batch import NewSegment
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.index.stored_destination import Entry, GatheredUnit
from spanwire.stores.journal.index.written_records import WrittenRecords
from spanwire.stores.journal.recovery.checkpoint import CheckpointEncoder
from spanwire.stores.journal.recovery.summary import SummaryDraft, add_payload
from spanwire.stores.journal.segments.record import (
    EXPIRATION_SIZE,
    EXPIRES,
    HEADER_SIZE,
    MESSAGE,
    METADATA,
    METADATA_DISCARDED,
    ORIGIN_SHIFT,
    PADDING,
    PRIORITY_MASK,
    REMOVAL,
    encode_expiration,
    encode_header,
    encode_message_header,
    record_size,
)
from spanwire.stores.journal.segments.segment import (
    BATCH_HEAD_SIZE,
    FORMAT_VERSION,
    encode_batch_head,
    encode_segment_header,
    segment_seed,
)
from spanwire.stores.journal.space import RESERVED_SHARE, UNMANAGED, DiskSpace

COPIED_BYTES: Final = 32 * 1024  # bytes; larger bodies are handed over without a copy
COPIED_AHEAD_BYTES: Final = 1024  # bytes; a batch that waits must not cost a second 64 MiB


class ActiveSegment:
    """The newest segment.

    ``number``, ``end`` of the last batch, number of ``batches`` and ``size`` of the file describe the segment.

    A size of 0 means full, so that the first batch of a run begins a new segment. ``checkpoint_end`` is the end of the
    check-point. ``is_unsynced`` says that batches behind the check-point are not synced, so that any may be missing.
    ``is_reserve`` says that the segment was begun on a full disk; ``late_end`` then bounds its messages. ``skips`` is
    how many numbers the next segment leaves out.
    """

    __slots__ = (
        "_checkpoint",
        "_draft",
        "_index",
        "_last",
        "_last_head",
        "_parts",
        "_records",
        "_segment_bytes",
        "_start",
        "_store_id",
        "batches",
        "checkpoint_end",
        "end",
        "is_reserve",
        "is_unsynced",
        "late_end",
        "number",
        "seed",
        "size",
        "skips",
    )

    def __init__(
        self, index: JournalIndex, store_id: bytes, segment_bytes: int, number: int, end: int, batches: int
    ) -> None:
        self._index: Final[JournalIndex] = index
        self._records: Final[WrittenRecords] = WrittenRecords(index)
        self._store_id: Final[bytes] = store_id
        self._segment_bytes: Final[int] = segment_bytes
        self.number = number
        self.end = end
        self.batches = batches
        self.seed = 0
        self.size = 0
        self.checkpoint_end = 0
        self.is_reserve = False
        self.late_end = 0
        self.is_unsynced = False
        self.skips = 0
        self._draft = SummaryDraft(0, 0)
        self._start = 0  # of the batch that is being encoded
        self._parts: list[bytes] = []
        self._checkpoint: CheckpointEncoder | None = None  # of which a part is encoded
        self._last = 0  # where the last record lies, and its head
        self._last_head = b""

    @property
    def segment_bytes(self) -> int:
        """The size of a usual segment."""
        return self._segment_bytes

    @property
    def has_batch(self) -> bool:
        """Return True while a batch is being encoded."""
        return bool(self._parts)

    @property
    def has_checkpoint(self) -> bool:
        """Return True while a part of a new segment's check-point is not encoded."""
        return self._checkpoint is not None

    @property
    def batch_start(self) -> int:
        """The offset of the batch that is being encoded."""
        return self._start

    @property
    def is_half_full(self) -> bool:
        """Return True if the next segment's file should be prepared."""
        return self.end * 2 > self.size

    @property
    def is_nearly_full(self) -> bool:
        """Return True if a fourth or less is left."""
        return self.end * 4 >= self.size * 3

    @property
    def message_room(self) -> int:
        """Bytes of messages that fit before the next segment's file is needed."""
        return max(0, self.size - self.size // RESERVED_SHARE - self.end)

    def fits(self, size: int, space: DiskSpace, has_additions: bool) -> bool:
        """Return True if a batch of ``size`` bytes has room; else the next segment's file must be ready first."""
        if space.spare_bytes == UNMANAGED:
            return True
        space.needed = max(self._segment_bytes, 2 * self.checkpoint_end + size)
        if space.spare_bytes >= space.needed:
            return True
        if has_additions and space.has_room:
            return self.keeps_reserve(size)
        return self.end + size <= self.size

    def stays(self, size: int, space: DiskSpace, has_additions: bool) -> bool:
        """Return True if the batch that is being encoded has room for ``size`` more bytes."""
        return self.end + size <= self.size and self.fits(size, space, has_additions)

    def keeps_reserve(self, size: int) -> bool:
        """Return True if a batch of ``size`` bytes leaves the share for removals untouched."""
        if self.is_reserve:
            return self.end + size <= self.late_end
        return self.end + size <= self.size - self.size // RESERVED_SHARE

    def takes_late(self, size: int, space: DiskSpace) -> bool:
        """Return True if messages queued before the disk became full have room, here or in the reserve."""
        if self.keeps_reserve(size):
            return True
        late = space.spare_bytes - space.kept_bytes
        return not self.is_reserve and self.checkpoint_end + size <= late

    def begin_segment(self, size: int, space: DiskSpace) -> NewSegment:
        """Begin a new segment in the ready file, with room for ``size`` bytes behind the check-point.

        `encode_checkpoint` must follow until the result is True, before any record is encoded.
        """
        ready = 0
        if space.spare_bytes != UNMANAGED:
            ready = 0 if space.has_room else space.spare_bytes
            space.spare_bytes = 0
        index = self._index
        number = self.number + 1 + self.skips
        seed = segment_seed(self._store_id, number)
        header = encode_segment_header(self._store_id, number, self.number, self.end, self.batches)
        checkpoint = CheckpointEncoder(index, seed)
        end = len(header) + checkpoint.size
        summary = self._draft.finish(self._store_id, self.end, self.batches)
        index.segments.seal(self.number, self.end)
        if summary is not None:
            index.segments.grow(self.number, summary.size)
        self.size = max(self._segment_bytes, 2 * end + size, ready)  # a large check-point must not fill it
        self.is_reserve = ready > 0
        self.late_end = ready - space.kept_bytes
        index.segments.open(number, seed, FORMAT_VERSION, self.size)
        self.number = number
        self.seed = seed
        self.end = end
        self.checkpoint_end = end
        self.batches = 1
        self._draft = SummaryDraft(number, self.size)
        self._checkpoint = checkpoint
        return NewSegment(number, self.size, [header], summary)

    def encode_checkpoint(self, segment: NewSegment, records: int, size: int) -> bool:
        """Encode so many records or bytes of the check-point of ``segment``.

        Returns True when the check-point is complete.
        """
        checkpoint = self._checkpoint
        if checkpoint is None:
            return True
        encoded = checkpoint.encode(records, size)
        segment.parts.append(encoded)
        self._draft.add(encoded, checkpoint.last, checkpoint.last_head)
        if not checkpoint.is_complete:
            return False
        self._checkpoint = None
        return True

    def begin_batch(self) -> None:
        """Begin a batch at the end of the segment. The head holds the size and is encoded last."""
        self._start = self.end
        self._parts = [b""]
        self._draft.begin_batch()
        self._last = self.end
        self.end += BATCH_HEAD_SIZE

    def end_batch(self) -> list[bytes]:
        """Encode the head and return the bytes of the batch."""
        self.batches += 1
        size = self.end - self._start
        is_unsynced = self.is_unsynced and self.batches > 2
        head = encode_batch_head(self.seed, self._start, self.batches, size, is_unsynced)
        parts = self._parts
        parts[0] = head
        self._draft.end_batch(head)
        if self._last == self._start:  # a batch without records: its head is the last one
            self._draft.add(b"", self._start, head)
        self._parts = []
        return parts

    def encode(self, entries: list[Entry], copied_bytes: int) -> None:
        """Encode a slice of the batch. Payloads of up to ``copied_bytes`` are copied into one buffer."""
        if not entries:
            return
        seed = self.seed
        offset = self.end
        header = b""
        heads: list[bytes] = []
        last = offset
        small: list[bytes] = []
        parts = self._parts
        for entry in entries:
            if entry.kind >= REMOVAL:
                self._records.before(entry)
            payload = entry.payload
            length = len(payload)
            flags = entry.flags
            number = entry.owner.number + entry.table
            message = entry.message
            stored = length
            if flags > PRIORITY_MASK and message is not None:
                stored += EXPIRATION_SIZE
                expires = encode_expiration(message.expiration_ms)
                header = encode_message_header(
                    seed, offset, entry.kind, flags, entry.format_id, number, entry.sequence, expires, payload
                )
            else:
                header = encode_header(
                    seed, offset, entry.kind, flags, entry.format_id, number, entry.sequence, payload
                )
            small.append(header)
            heads.append(header)
            if message is None and length > 0:
                add_payload(heads, entry.kind, flags, payload)
            last = offset
            if length > copied_bytes:
                parts.append(b"".join(small))
                parts.append(payload)
                small = []
            elif length > 0:
                small.append(payload)
            if length & 7:
                small.append(PADDING[length & 7])
            self._records.written(entry, self.number, offset, stored)
            offset += entry.size
        parts.append(b"".join(small))
        self._last = last
        self._last_head = header
        self._draft.add(b"".join(heads), last, header)
        self.end = offset

    def encode_unit(self, gathered: GatheredUnit, records: int, size: int, copied_bytes: int) -> bool:
        """Encode so many records or bytes of a unit, and one message more; True when the unit is complete."""
        end = self.end + size
        left = self._encode_messages(gathered, records, end, copied_bytes)
        if gathered.message_index < len(gathered.unit.messages):
            return False
        if gathered.transfers:
            entries: list[Entry] = []
            left = gathered.take_transfers(left, entries)
            self.encode(entries, copied_bytes)
            if gathered.transfers:
                return False
        left = self._encode_removals(gathered, left)
        return not gathered.removals and self._encode_metadata(gathered, left, end)

    def _encode_messages(self, gathered: GatheredUnit, records: int, end: int, copied_bytes: int) -> int:
        """Encode messages of a unit up to offset ``end`` and return the rest of ``records``."""
        seed = self.seed
        offset = self.end
        unit = gathered.unit
        index = gathered.message_index
        stop = min(len(unit.messages), index + records)
        left = records - (stop - index)
        small: list[bytes] = []
        heads: list[bytes] = []
        while index < stop and offset < end:
            message = unit.messages[index]
            payload = unit.payloads[index]
            target = unit.additions_of[index].index
            owner = gathered.owners[target]
            sequence = gathered.nexts[target]
            gathered.nexts[target] = sequence + 1
            flags = message.priority & PRIORITY_MASK
            format_id = message.format_id | message.origin << ORIGIN_SHIFT
            stored = len(payload)
            if message.expiration_ms > 0:
                stored += EXPIRATION_SIZE
                expires = encode_expiration(message.expiration_ms)
                header = encode_message_header(
                    seed, offset, MESSAGE, flags | EXPIRES, format_id, owner.number, sequence, expires, payload
                )
            else:
                header = encode_header(seed, offset, MESSAGE, flags, format_id, owner.number, sequence, payload)
            small.append(header)
            heads.append(header)
            self._last_head = header
            self._last = offset
            if len(payload) > copied_bytes:
                self._parts.append(b"".join(small))
                self._parts.append(payload)
                small = []
            else:
                small.append(payload)
            if len(payload) & 7:
                small.append(PADDING[len(payload) & 7])
            self._index.written_message(owner, sequence, self.number, offset, stored)
            self._index.came(owner, message.origin, 1)
            offset += record_size(stored)
            index += 1
        self._parts.append(b"".join(small))
        self._draft.add(b"".join(heads), self._last, self._last_head)
        self.end = offset
        gathered.message_index = index
        return left

    def _encode_metadata(self, gathered: GatheredUnit, at_most: int, end: int) -> bool:
        """Encode at most ``at_most`` metadata records of a unit up to offset ``end``.

        Returns True when all are encoded.
        """
        metadata = gathered.unit.metadata
        index = gathered.metadata_index
        stop = min(len(metadata), index + at_most)
        parts: list[bytes] = []
        while index < stop and self.end < end:
            metadata_record = metadata[index]
            index += 1
            value = metadata_record.value
            kind = METADATA_DISCARDED if value is None else METADATA
            payload = metadata_record.key if value is None else metadata_record.key + value
            header = encode_header(
                self.seed, self.end, kind, 0, 0, metadata_record.table, len(metadata_record.key), payload
            )
            parts.append(header)
            add_payload(parts, kind, 0, payload)
            if value is None:
                self._index.written_metadata_discard(metadata_record.table, metadata_record.key, self.number)
            else:
                self._index.written_metadata(
                    metadata_record.table, metadata_record.key, self.number, self.end, len(payload)
                )
            self._last_head = header
            self._last = self.end
            self.end += record_size(len(payload))
        gathered.metadata_index = index
        records = b"".join(parts)
        self._parts.append(records)
        self._draft.add(records, self._last, self._last_head)
        return index == len(metadata)

    def _encode_removals(self, gathered: GatheredUnit, at_most: int) -> int:
        """Encode at most ``at_most`` removals of a unit and return the rest of ``at_most``."""
        small: list[bytes] = []
        while gathered.removals and at_most > 0:
            removals = gathered.removals[-1]
            owner = removals.owner
            cause = removals.way & WAY_MASK
            link = removals.way >> LINK_SHIFT
            start = gathered.removed
            stop = min(len(removals.sequences), start + at_most)
            for sequence in removals.sequences[start:stop]:
                owner.unwritten.pop(sequence, None)
                owner.leaving.discard(sequence)
                location = owner.take_out(sequence)
                flags = cause if location != GONE else NO_MESSAGE
                header = encode_header(self.seed, self.end, REMOVAL, flags, link, owner.number, sequence, b"")
                small.append(header)
                self._last_head = header
                self._last = self.end
                self.end += HEADER_SIZE
                if location != GONE:
                    self._index.written_removal(owner, sequence, location, owner.index.removed_length, self.number)
                    self._index.went(owner, removals.way, 1)
            at_most -= stop - start
            gathered.removed = stop
            if stop == len(removals.sequences):
                gathered.removals.pop()
                gathered.removed = 0
        records = b"".join(small)
        self._parts.append(records)
        self._draft.add(records, self._last, self._last_head)
        return at_most
