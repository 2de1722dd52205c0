"""The segment that is being written: where it ends, what its next bytes are, and the step to the next one.

The index learns where each record lies as soon as its bytes are made. A message is read from memory until they are on
the disk, one that is written again from its old place.
"""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.batch import NewSegment
from spanwire.stores.journal.index.index import Entry, GatheredUnit, JournalIndex
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.outbox import MAX_BATCH_BYTES, MAX_BATCH_RECORDS
from spanwire.stores.journal.recovery.checkpoint import encode_checkpoint
from spanwire.stores.journal.recovery.replay import BODIES
from spanwire.stores.journal.recovery.summary import SummaryDraft
from spanwire.stores.journal.segments.record import (
    BODY,
    DESTINATION,
    DESTINATION_REMOVED,
    EXPIRATION_SIZE,
    EXPIRES,
    FACT,
    FACT_DISCARDED,
    HEADER_SIZE,
    MESSAGE,
    MOVED,
    MOVED_BODY,
    PADDING,
    PRIORITY_MASK,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    TRANSFER,
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
from spanwire.stores.journal.segments.transfers import decode_transfer
from spanwire.stores.journal.space import RESERVED_SHARE, UNMANAGED, DiskSpace

LARGE_PAYLOAD: Final = 32 * 1024  # from here on a body is handed over as it is instead of being copied together
SLICE_RECORDS: Final = MAX_BATCH_RECORDS  # of a gathered unit that are encoded in one turn, as of a usual batch
SLICE_BYTES: Final = MAX_BATCH_BYTES  # the same


class Encoding:
    """A batch whose bytes are being made: ``parts`` so far, up to the byte ``offset`` of the segment. ``heads`` are all
    but the messages, for the summary; the newest record has the ``header`` and lies at ``last``.
    """

    __slots__ = ("began", "entries", "header", "heads", "last", "offset", "parts")

    def __init__(self, entries: list[Entry], header: bytes, start: int) -> None:
        self.entries: Final[list[Entry]] = entries
        self.header = header
        self.heads: Final[list[bytes]] = [header]
        self.last = start
        self.offset = start + BATCH_HEAD_SIZE
        self.parts: Final[list[bytes]] = []
        self.began = False


class ActiveSegment:
    """``number``, where its last batch ends (``end``), how many there are (``batches``), the ``size`` of its file and
    where its check-point ends. A size of 0 is full, so that the first batch of a run opens a segment of its own.
    ``is_unsynced`` says that the batches behind a check-point are not synced one by one, so that any may be missing;
    ``is_reserve`` that the segment was begun on a full disk, ``late_end`` up to where it then takes messages.
    """

    __slots__ = (
        "_draft",
        "_index",
        "_segment_bytes",
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
    )

    def __init__(
        self, index: JournalIndex, store_id: bytes, segment_bytes: int, number: int, end: int, batches: int
    ) -> None:
        self._index: Final[JournalIndex] = index
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
        self._draft = SummaryDraft(0, 0)

    @property
    def is_half_full(self) -> bool:
        """It is time to prepare the next segment's file."""
        return self.end * 2 > self.size

    @property
    def message_room(self) -> int:
        """Bytes of messages that it takes before the next segment's file must be there."""
        return max(0, self.size - self.size // RESERVED_SHARE - self.end)

    def fits(self, size: int, space: DiskSpace, has_additions: bool) -> bool:
        """Whether a batch of ``size`` bytes has its place on the disk; else the next segment's file must come first."""
        if space.spare_bytes == UNMANAGED:
            return True
        space.needed = max(self._segment_bytes, 2 * self.checkpoint_end + size)
        if space.spare_bytes >= space.needed:
            return True
        if has_additions and space.has_room:
            return self.keeps_reserve(size)
        return self.end + size <= self.size

    def keeps_reserve(self, size: int) -> bool:
        """Whether a batch of ``size`` bytes leaves alone what is kept for removals and the like."""
        if self.is_reserve:
            return self.end + size <= self.late_end
        return self.end + size <= self.size - self.size // RESERVED_SHARE

    def takes_late(self, size: int, space: DiskSpace) -> bool:
        """Whether messages that were under way when the room went have a place, here or in the reserve."""
        if self.keeps_reserve(size):
            return True
        late = space.spare_bytes - space.kept_bytes
        return not self.is_reserve and self.checkpoint_end + size <= late

    def roll(self, size: int, space: DiskSpace) -> NewSegment:
        """Goes on to a new segment that has room for ``size`` bytes; it takes the file that is ready."""
        ready = 0
        if space.spare_bytes != UNMANAGED:
            ready = 0 if space.has_room else space.spare_bytes
            space.spare_bytes = 0
        index = self._index
        number = self.number + 1
        seed = segment_seed(self._store_id, number)
        parts = [encode_segment_header(self._store_id, number, self.number, self.end, self.batches)]
        parts.extend(encode_checkpoint(index, seed))
        end = 0
        for part in parts:
            end += len(part)
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
        last = end - len(parts[-3]) - len(parts[-2]) - len(parts[-1])  # header, payload and padding
        self._draft.add(b"".join(parts[1:]), last, parts[-3])
        return NewSegment(number, self.size, [b"".join(parts)], summary)

    def begin(self, entries: list[Entry], size: int) -> Encoding:
        """A batch of ``size`` bytes at the end of the segment; the caller moves `end` behind it."""
        self.batches += 1
        header = encode_batch_head(self.seed, self.end, self.batches, size, self.is_unsynced and self.batches > 2)
        return Encoding(entries, header, self.end)

    def go_on(self, encoding: Encoding) -> bool:
        """Make the bytes of the next slice; False when there are more. All but a gathered unit at the end is one
        slice.
        """
        entries = encoding.entries
        unit = entries[-1].unit
        if not encoding.began:
            encoding.began = True
            self._encode(encoding, entries if unit is None else entries[:-1])
        if unit is not None:
            end = encoding.offset + SLICE_BYTES
            records = self._encode_messages(encoding, unit, end)
            if unit.place < len(unit.unit.messages) or not self._encode_removals(encoding, unit, records):
                return False
        self._draft.add(b"".join(encoding.heads), encoding.last, encoding.header)
        return True

    def _encode(self, encoding: Encoding, entries: list[Entry]) -> None:
        seed = self.seed
        offset = encoding.offset
        header = encoding.header
        heads = encoding.heads
        last = encoding.last
        small: list[bytes] = [header]
        parts = encoding.parts
        for entry in entries:
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
            if length > LARGE_PAYLOAD:
                parts.append(b"".join(small))
                parts.append(payload)
                small = []
            elif length > 0:
                small.append(payload)
            if length & 7:
                small.append(PADDING[length & 7])
            self._written(entry, offset, stored)
            offset += entry.size
        parts.append(b"".join(small))
        encoding.offset = offset
        encoding.header = header
        encoding.last = last

    def _encode_messages(self, encoding: Encoding, gathered: GatheredUnit, end: int) -> int:
        """Messages of a unit up to the byte ``end`` or `SLICE_RECORDS`; how many records are left of these."""
        seed = self.seed
        offset = encoding.offset
        unit = gathered.unit
        place = gathered.place
        stop = min(len(unit.messages), place + SLICE_RECORDS)
        left = SLICE_RECORDS - (stop - place)
        small: list[bytes] = []
        heads: list[bytes] = []
        while place < stop and offset < end:
            message = unit.messages[place]
            payload = unit.payloads[place]
            line = unit.lines[place].place
            owner = gathered.owners[line]
            sequence = gathered.nexts[line]
            gathered.nexts[line] = sequence + 1
            flags = message.priority & PRIORITY_MASK
            stored = len(payload)
            if message.expiration_ms > 0:
                stored += EXPIRATION_SIZE
                expires = encode_expiration(message.expiration_ms)
                header = encode_message_header(
                    seed, offset, MESSAGE, flags | EXPIRES, message.format_id, owner.number, sequence, expires, payload
                )
            else:
                header = encode_header(seed, offset, MESSAGE, flags, message.format_id, owner.number, sequence, payload)
            small.append(header)
            heads.append(header)
            encoding.header = header
            encoding.last = offset
            if len(payload) > LARGE_PAYLOAD:
                encoding.parts.append(b"".join(small))
                encoding.parts.append(payload)
                small = []
            else:
                small.append(payload)
            if len(payload) & 7:
                small.append(PADDING[len(payload) & 7])
            self._index.written_message(owner, sequence, self.number, offset, stored)
            offset += record_size(stored)
            place += 1
        encoding.parts.append(b"".join(small))
        encoding.heads.append(b"".join(heads))
        encoding.offset = offset
        gathered.place = place
        return left

    def _encode_removals(self, encoding: Encoding, gathered: GatheredUnit, at_most: int) -> bool:
        """Removals of a unit, ``at_most`` so many; whether that were all."""
        small: list[bytes] = []
        while gathered.removals and at_most > 0:
            removals = gathered.removals[-1]
            owner = removals.owner
            start = gathered.removed
            stop = min(len(removals.sequences), start + at_most)
            for sequence in removals.sequences[start:stop]:
                header = encode_header(self.seed, encoding.offset, REMOVAL, 0, 0, owner.number, sequence, b"")
                small.append(header)
                encoding.header = header
                encoding.last = encoding.offset
                encoding.offset += HEADER_SIZE
                owner.unwritten.pop(sequence, None)
                owner.leaving.discard(sequence)
                location = owner.take_out(sequence)
                if location != GONE:
                    self._index.written_removal(owner, sequence, location, owner.index.removed_length, self.number)
            at_most -= stop - start
            gathered.removed = stop
            if stop == len(removals.sequences):
                gathered.removals.pop()
                gathered.removed = 0
        records = b"".join(small)
        encoding.parts.append(records)
        encoding.heads.append(records)
        return not gathered.removals

    def _written(self, entry: Entry, offset: int, length: int) -> None:
        index = self._index
        owner = entry.owner
        kind = entry.kind
        entry.handed_over = True
        if kind == MESSAGE:
            entry.payload = b""
            index.written_message(owner, entry.sequence, self.number, offset, length)
        elif kind == REMOVAL:
            if entry.location == GONE:
                entry.location = owner.take_out(entry.sequence)
                entry.length = owner.index.removed_length
                owner.leaving.discard(entry.sequence)
            if entry.location != GONE:
                index.written_removal(owner, entry.sequence, entry.location, entry.length, self.number)
        elif kind == REDELIVERY:
            index.written_redelivery(owner, entry.sequence, self.number, offset)
        elif kind == REFERENCE:
            self._written_reference(entry)
        else:
            self._written_rare(entry, offset, length)

    def _written_reference(self, entry: Entry) -> None:
        shared = entry.shared
        if shared is None:
            return
        index = self._index
        if entry.location != GONE:
            index.written_move(entry.owner, entry.sequence, entry.location, self.number, shared.offset, shared.length)
        else:
            index.written_message(entry.owner, entry.sequence, self.number, shared.offset, shared.length)

    def _written_rare(self, entry: Entry, offset: int, length: int) -> None:
        index = self._index
        kind = entry.kind
        if kind == BODY or kind == MOVED_BODY:
            entry.payload = b""
            if entry.shared is not None:
                entry.shared.offset = offset
                entry.shared.length = length
        elif kind == MOVED:
            entry.payload = b""
            index.written_move(entry.owner, entry.sequence, entry.location, self.number, offset, length)
        elif kind == DESTINATION:
            index.enter(entry.owner)
        elif kind == DESTINATION_REMOVED:
            self._written_destination_removal(entry)
        elif kind == FACT:
            index.written_fact(entry.table, entry.payload[: entry.sequence], self.number, offset, length)
        elif kind == FACT_DISCARDED:
            index.written_fact_discard(entry.table, entry.payload, self.number)
        elif kind == TRANSFER:
            self._written_transfer(entry)

    def _written_destination_removal(self, entry: Entry) -> None:
        index = self._index
        if entry.segments is not None:
            index.written_destination_removal(entry.segments, self.number)
        index.written_destination_removal(index.take_counts(entry.owner), self.number)  # what has come since
        index.leave(entry.owner)

    def _written_transfer(self, entry: Entry) -> None:
        runs = decode_transfer(entry.payload)
        if runs is not None:
            owner = entry.owner
            self._index.written_transfer(owner, entry.sequence, runs, self.number)
            for place, arrival in enumerate(owner.arriving):
                if arrival.first == entry.sequence:
                    del owner.arriving[place]
                    break


def add_payload(heads: list[bytes], kind: int, flags: int, payload: bytes) -> None:
    """As much of a payload as a summary holds."""
    if kind in BODIES:
        if flags & EXPIRES:
            heads.append(payload[:EXPIRATION_SIZE])
    else:
        heads.append(payload)
        heads.append(PADDING[len(payload) & 7])
