"""Queued calls of the broker, as records in their order."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Final

from spanwire.broker.metadata import MetadataRecord, check_metadata
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.ledger import LINK_SHIFT, MOVED_OUT, PURGED, WAY_MASK
from spanwire.model.message import Message
from spanwire.model.units import MIB
from spanwire.stores.journal.index.stored_destination import (
    TRANSFER_WEIGHT,
    UNIT,
    Arrival,
    Entry,
    GatheredUnit,
    OwnedRemovals,
    OwnedTransfer,
    SharedBody,
    StoredDestination,
)
from spanwire.stores.journal.segments.record import (
    BODY,
    CANCELLED,
    EXPIRATION_SIZE,
    EXPIRES,
    FORMAT_MASK,
    HEADER_SIZE,
    MESSAGE,
    METADATA,
    METADATA_DISCARDED,
    ORIGIN_SHIFT,
    PRIORITY_MASK,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    SEGMENT_DROPPED,
    TRANSFER,
    record_size,
)
from spanwire.stores.journal.segments.transfers import FIXED_BYTES, RUN_BYTES, TransferRuns, encode_transfer

MAX_SLICE_BYTES: Final = 4 * 1024 * 1024  # bytes of a slice; encoding takes some milliseconds of the loop
MAX_SLICE_RECORDS: Final = 4_096  # records of a slice; a record costs half a microsecond
MAX_UNIT_BYTES: Final = 1024 * 1024 * 1024  # bytes; a transaction is one batch, in one segment of at most 4 GiB

ALL: Final = 1 << 40  # entries; more than ever wait

LEAST_TRANSFER: Final = record_size(FIXED_BYTES + RUN_BYTES)

_PRODUCER_SEQUENCE: Final = Struct("<q")


class Slice:
    """The next ``entries``, with records of ``size`` bytes in all.

    ``count`` also counts entries without effect. With the slice all calls up to ``position`` are complete. ``rest`` is
    the number of remaining bytes of a cut call.
    """

    __slots__ = ("count", "entries", "position", "rest", "size")

    def __init__(self, entries: list[Entry], size: int, count: int, position: int, rest: int) -> None:
        self.entries: Final[list[Entry]] = entries
        self.size: Final[int] = size
        self.count: Final[int] = count
        self.position: Final[int] = position
        self.rest: Final[int] = rest


class Outbox:
    """Queued ``entries`` of ``size`` bytes in all; entries of one call have the same ``position``.

    Records of dropped segments have the position of the call before and are no part of that call.
    ``has_additions`` says that other entries than removals and redelivery counts are queued; ``nobody`` is the owner of
    entries without a destination. ``slice_bytes`` and ``slice_records`` bound a slice. ``large`` has the positions of
    larger calls, also of held calls. On a full disk the first ``ready`` entries need no room; later entries are not
    looked at yet, or were held before.
    """

    __slots__ = (
        "entries", "has_additions", "large", "nobody", "position", "ready", "size", "slice_bytes", "slice_records",
    )  # fmt: skip

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.size = 0
        self.large: Final[set[int]] = set()
        self.ready = ALL
        self.slice_bytes = MAX_SLICE_BYTES
        self.slice_records = MAX_SLICE_RECORDS
        self.position = 0
        self.has_additions = False
        self.nobody: Final[StoredDestination] = StoredDestination(0, Destination(QUEUE, "-"), 0)

    def record(self, kind: int, owner: StoredDestination, sequence: int, payload: bytes) -> Entry:
        """Queue a record without a message."""
        size = record_size(len(payload))
        entry = Entry(kind, owner, sequence, None, payload, self.position, size)
        self.entries.append(entry)
        self.size += size
        return entry

    def removal(self, owner: StoredDestination, sequence: int, location: int, way: int) -> None:
        """Queue the removal of a message at ``location``, gone from the index, with its way in the ledger."""
        entry = Entry(REMOVAL, owner, sequence, None, b"", self.position, HEADER_SIZE)
        entry.flags = way & WAY_MASK
        entry.format_id = way >> LINK_SHIFT
        entry.location = location
        owner.departing += 1
        entry.length = owner.index.removed_length
        self.entries.append(entry)
        self.size += HEADER_SIZE

    def message(self, owner: StoredDestination, message: Message) -> int:
        """Queue a message of one destination and return its sequence."""
        owner.high += 1
        sequence = owner.high
        entry = self._body(MESSAGE, owner, sequence, message)
        owner.unwritten[sequence] = entry
        return sequence

    def _body(self, kind: int, owner: StoredDestination, sequence: int, message: Message) -> Entry:
        payload = message.encoded()
        size = HEADER_SIZE + ((len(payload) + 7) & -8)
        flags = message.priority & PRIORITY_MASK
        if message.expiration_ms > 0:
            flags |= EXPIRES
            size += EXPIRATION_SIZE
        entry = Entry(kind, owner, sequence, message, payload, self.position, size)
        entry.flags = flags
        entry.format_id = message.format_id | message.origin << ORIGIN_SHIFT
        self.entries.append(entry)
        self.size += size
        return entry

    def references(self, owners: list[StoredDestination], message: Message) -> list[int]:
        """Queue one body and a reference for each destination; return the sequences."""
        shared = SharedBody()
        shared.references = len(owners)
        self._body(BODY, self.nobody, 0, message).shared = shared
        sequences: list[int] = []
        for owner in owners:
            owner.high += 1
            entry = self.record(REFERENCE, owner, owner.high, b"")
            entry.format_id = message.origin << ORIGIN_SHIFT
            entry.message = message
            entry.shared = shared
            owner.unwritten[owner.high] = entry
            sequences.append(owner.high)
        return sequences

    def remove_in_unit(self, owner: StoredDestination, sequence: int, way: int) -> None:
        """Queue a removal in a unit.

        A waiting message is written first, because the removal counts only with the whole unit.
        """
        if not owner.has(sequence):
            return
        entry = owner.unwritten.pop(sequence, None)
        if (entry is not None and not entry.handed_over) or (owner.arriving and owner.arrives(sequence)):
            owner.leaving.add(sequence)
            record = self.record(REMOVAL, owner, sequence, b"")
            record.flags = way & WAY_MASK
            record.format_id = way >> LINK_SHIFT
            return
        self.removal(owner, sequence, owner.take_out(sequence), way)

    def transfer(self, source: StoredDestination | None, target: StoredDestination, sequences: list[int]) -> int:
        """Queue the transfer of messages to consecutive sequences of another destination.

        Returns the first sequence.

        Messages that may not be on the disk yet are written again for the target. Without a source, none is there.
        """
        first = target.high + 1
        if source is None:
            target.high += len(sequences)
            return first
        if source.has_all(sequences):
            self._transfer_run(source, target, sequences)
            return first
        run: list[int] = []
        for sequence in sequences:
            entry = source.unwritten.get(sequence) if source.unwritten else None
            if entry is None and source.has(sequence):
                run.append(sequence)
                continue
            self._transfer_run(source, target, run)
            run = []
            if entry is not None and entry.message is not None:
                self.message(target, entry.message)
                self.entries[-1].format_id &= FORMAT_MASK  # as one that a TRANSFER record moves
                self.remove_in_unit(source, sequence, MOVED_OUT)
            else:
                target.high += 1  # what is not there leaves a gap
        self._transfer_run(source, target, run)
        return first

    def _transfer_run(self, source: StoredDestination, target: StoredDestination, sequences: list[int]) -> None:
        if not sequences:
            return
        runs = TransferRuns(source.number)
        if sequences == list(range(sequences[0], sequences[0] + len(sequences))):
            runs.firsts.append(sequences[0])
            runs.counts.append(len(sequences))
        else:
            for sequence in sequences:
                runs.add(sequence)
        first = target.high + 1
        self.record(TRANSFER, target, first, encode_transfer(runs))
        target.arriving.append(Arrival(first, source, array("q", sequences)))
        source.leaving.update(sequences)
        target.high += len(sequences)

    def put_metadata(self, table: int, key: bytes, value: bytes | None) -> None:
        """Queue a metadata record; the end of the metadata record if ``value`` is None."""
        kind = METADATA_DISCARDED if value is None else METADATA
        payload = key if value is None else key + value
        self.record(kind, self.nobody, len(key), payload).table = table

    def unit(
        self,
        unit: StoreUnit,
        owners: list[StoredDestination],
        removals: list[OwnedRemovals],
        sources: list[StoredDestination | None],
    ) -> None:
        """Queue a gathered unit, the last entry of its call.

        ``owners`` are the destinations of the unit's targets.

        ``sources`` are those of its transfers. A transfer from an unknown destination leaves a gap.
        """
        for index, target in enumerate(unit.targets()):
            target.first = owners[index].high + 1
            owners[index].high += target.count
        transfers: list[OwnedTransfer] = []
        for index, transfer in enumerate(unit.transfers):
            source = sources[index]
            if source is not None and transfer.count > 0:
                transfers.append(OwnedTransfer(transfer, source, owners[transfer.additions.index]))
        transfers.reverse()
        size = unit_bytes(unit, removals) + moved_bytes(unit, self.slice_records)
        entry = Entry(UNIT, self.nobody, 0, None, b"", self.position, size)
        entry.unit = GatheredUnit(unit, owners, removals, transfers)
        self.entries.append(entry)
        self.size += size
        if size > self.slice_bytes or unit.size + len(transfers) * TRANSFER_WEIGHT > self.slice_records:
            self.large.add(self.position)

    def cancel(self, entry: Entry, way: int) -> None:
        """Drop the message of a waiting entry: only the numbers are written, and its way out of the ledger."""
        message = entry.message
        if message is None:
            return
        payload = cancellation(message)
        size = record_size(len(payload))
        self.size += size - entry.size
        entry.size = size
        entry.kind = CANCELLED
        entry.flags = way & WAY_MASK
        entry.format_id = entry.format_id & ~FORMAT_MASK | way >> LINK_SHIFT
        entry.payload = payload
        if entry.shared is not None:
            entry.shared.references -= 1
            entry.shared = None
        entry.message = None
        entry.owner.unwritten.pop(entry.sequence, None)

    @property
    def has_slice(self) -> bool:
        """Return True if more is queued than `take` returns."""
        return self.size > self.slice_bytes or len(self.entries) > self.slice_records or bool(self.large)

    def note_call(self, before: int, size_before: int) -> None:
        """Remember a call larger than a slice.

        The call began behind ``before`` entries and ``size_before`` bytes.
        """
        if len(self.entries) - before > self.slice_records or self.size - size_before > self.slice_bytes:
            self.large.add(self.position)

    def take(self, is_cut: bool = False, at_most: int = ALL) -> Slice:
        """Return the next slice of whole calls, or a part of a call larger than a slice.

        The entries, at most ``at_most``, stay queued until `taken`. With ``is_cut`` the slice before ended within a
        call: the slice has no other call, because only this call's room is certain, and ``rest`` is not counted again.
        A gathered unit ends a slice, and is encoded in slices of its own. Messages of removed destinations are
        cancelled here.
        """
        chosen: list[Entry] = []
        size = 0
        count = 0
        position = -1
        first = 0
        start = 0
        for entry in self.entries:
            if count >= at_most:
                break
            if entry.position != position or entry.kind == SEGMENT_DROPPED:
                if size > self.slice_bytes or count >= self.slice_records or (is_cut and count > 0):
                    break
                position = entry.position
                first = count
                start = size
            elif count - first >= self.slice_records or size - start > self.slice_bytes:
                rest = 1 if is_cut else self._rest(count, position, at_most)
                return Slice(chosen, size, count, position - 1, rest)
            count += 1
            if entry.owner.is_removed and entry.message is not None and entry.sequence not in entry.owner.leaving:
                self.cancel(entry, PURGED)  # but one that a later record takes away is written, for the ledger
            if entry.kind >= REDELIVERY and _is_void(entry):
                continue
            chosen.append(entry)
            size += entry.size
            if entry.kind == UNIT:
                break
        return Slice(chosen, size, count, self.position if count == len(self.entries) else position, 0)

    def _rest(self, count: int, position: int, at_most: int) -> int:
        """Return the largest size in bytes of the rest of a call, behind the first ``count`` entries.

        A cancelled reference is longer, and each reference may be cancelled before it is encoded.
        """
        size = 0
        longest = 0
        for index in range(count, min(len(self.entries), at_most)):
            entry = self.entries[index]
            if entry.position != position or entry.kind == SEGMENT_DROPPED:
                break
            if entry.kind == REFERENCE and entry.message is not None:
                if longest == 0:  # all references of a call have one message
                    longest = record_size(len(cancellation(entry.message)))
                size += longest
            else:
                size += entry.size
        return size

    def taken(self, count: int) -> None:
        """Remove the first ``count`` entries."""
        entries = self.entries
        for index in range(count):
            self.size -= entries[index].size
        if self.large and count > 0:
            left = entries[count].position if count < len(entries) else -1
            for index in range(count):
                if entries[index].position != left:
                    self.large.discard(entries[index].position)
        if self.ready != ALL:
            self.ready = max(0, self.ready - count)
        if count == len(entries):
            self.entries = []
            self.has_additions = False
            return
        del entries[:count]  # in place: a copy would touch all that wait

    def limit(self) -> int:
        """Return the highest position without a queued call up to there.

        On a full disk, entries that need no room may have overtaken other entries, so all such entries are compared.
        """
        out_of_order = 0 if self.ready == ALL else self.ready
        lowest = self.position + 1
        for index, entry in enumerate(self.entries):
            if index > out_of_order and lowest <= self.position:
                break
            if entry.position < lowest and entry.kind != SEGMENT_DROPPED:
                lowest = entry.position
        return lowest - 1

    def rest_of_call(self) -> int:
        """Return the number of entries of the first call."""
        count = 0
        for entry in self.entries:
            if entry.position != self.entries[0].position or entry.kind == SEGMENT_DROPPED:
                break
            count += 1
        return count


def cancellation(message: Message) -> bytes:
    """Return the payload of a CANCELLED record: i64 producer sequence and producer id.

    For a message that another broker forwarded with a number below 0, only the number.
    """
    if message.link_number < 0:
        return _PRODUCER_SEQUENCE.pack(message.link_number)
    return _PRODUCER_SEQUENCE.pack(message.sequence) + message.producer_id.octets()


def check_unit(
    additions: list[tuple[Destination, Message]],
    removals: list[tuple[Destination, int]],
    metadata: list[MetadataRecord],
    transferred_bytes: int = 0,
) -> None:
    """Check the size of a unit.

    Raises:
        ResourceAllocationError: the unit is larger than `MAX_UNIT_BYTES`.
    """
    size = transferred_bytes + len(removals) * record_size(0)
    for addition in additions:
        size += record_size(len(addition[1].encoded()))
    check_unit_bytes(size, metadata)


def unit_bytes(unit: StoreUnit, removals: list[OwnedRemovals]) -> int:
    """Return the bytes of all records of a gathered unit."""
    size = len(unit.messages) * HEADER_SIZE + unit.message_bytes + unit.expiring * EXPIRATION_SIZE
    size += len(unit.metadata) * HEADER_SIZE + unit.metadata_bytes
    for own in removals:
        size += len(own.sequences) * HEADER_SIZE
    return size


def moved_bytes(unit: StoreUnit, slice_records: int) -> int:
    """Return the most bytes of the records of a unit's transfers.

    Each slice of ``slice_records`` may cut one.
    """
    if not unit.transfers:
        return 0
    weight = unit.moved + len(unit.transfers) * TRANSFER_WEIGHT
    size = ((weight + slice_records) // max(1, slice_records - TRANSFER_WEIGHT) + 1) * LEAST_TRANSFER
    for transfer in unit.transfers:
        size += record_size(FIXED_BYTES + len(transfer.firsts) * RUN_BYTES)
    return size


def check_unit_bytes(size: int, metadata: list[MetadataRecord]) -> None:
    """Check a unit of ``size`` bytes and ``metadata``.

    Raises:
        ResourceAllocationError: the unit is larger than `MAX_UNIT_BYTES`.
    """
    for metadata_record in metadata:
        value = b"" if metadata_record.value is None else metadata_record.value
        check_metadata(metadata_record.key, value)
        size += record_size(len(metadata_record.key) + len(value))
    if size > MAX_UNIT_BYTES:
        raise ResourceAllocationError(
            f"the transaction holds {size // MIB} MiB, at most {MAX_UNIT_BYTES // MIB} MiB can be committed at once"
        )


def transfer_bytes(source: StoredDestination | None, sequences: list[int]) -> int:
    """Return the most bytes that a transfer writes."""
    size = LEAST_TRANSFER + len(sequences) * RUN_BYTES
    unwritten = source.unwritten if source is not None else None
    if unwritten:
        for sequence in sequences:
            entry: Entry | None = unwritten.get(sequence)
            if entry is not None and entry.message is not None:  # written again, removed, and its neighbours apart
                size += record_size(len(entry.message.encoded())) + EXPIRATION_SIZE + HEADER_SIZE + LEAST_TRANSFER
    return size


def _is_void(entry: Entry) -> bool:
    """Return True if the entry has no effect any more."""
    if entry.kind == REDELIVERY:
        return not entry.owner.has(entry.sequence)
    return entry.kind == BODY and entry.shared is not None and entry.shared.references == 0
