"""Reads messages back: requests, locations, and the check of the bytes from the disk."""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64, mypyc_attr

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.destination import Destination
from spanwire.model.errors import RemoteProtocolError, StoreError
from spanwire.model.message import Message
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE, location_offset, location_segment
from spanwire.stores.journal.index.stored_destination import Entry, StoredDestination
from spanwire.stores.journal.segments.checksum import crc32
from spanwire.stores.journal.segments.record import (
    BODY,
    CRC_MASK,
    HEADER_SIZE,
    MAX_FLAGS,
    MESSAGE,
    MOVED,
    MOVED_BODY,
    expiration_size,
)
from spanwire.stores.journal.segments.segment import segment_name
from spanwire.stores.journal.segments.transfers import NOT_PASSED, Labels


@mypyc_attr(acyclic=True)
class Read:
    """One message to be read, at ``index`` of the answer, with the location of the record."""

    __slots__ = ("index", "number", "offset", "seed", "segment", "sequence", "size")

    def __init__(
        self, index: int, number: int, sequence: int, segment: int, offset: int, length: int, seed: int
    ) -> None:
        self.index: Final[int] = index
        self.number: Final[int] = number
        self.sequence: Final[int] = sequence
        self.segment: Final[int] = segment
        self.offset: Final[int] = offset
        self.size: Final[int] = HEADER_SIZE + length
        self.seed: Final[int] = seed


@mypyc_attr(acyclic=True)
class Label:
    """A number and sequence that the record of a message may have, and the ``older`` ones before."""

    __slots__ = ("number", "older", "sequence")

    def __init__(self, number: int, sequence: int, older: Label | None) -> None:
        self.number: Final[int] = number
        self.sequence: Final[int] = sequence
        self.older: Final[Label | None] = older


@mypyc_attr(acyclic=True)
class PassedRead(Read):
    """A read of a message that came from another destination.

    A record written since has the present number and sequence, an older record those of ``label`` or of an older label.
    """

    __slots__ = ("label",)

    def __init__(
        self, index: int, number: int, sequence: int, segment: int, offset: int, length: int, seed: int, label: Label
    ) -> None:
        super().__init__(index, number, sequence, segment, offset, length, seed)
        self.label: Final[Label] = label

    def was_written_as(self, number: int, sequence: int) -> bool:
        """Return True if the message had this number and sequence once."""
        label: Label | None = self.label
        while label is not None:
            if label.number == number and label.sequence == sequence:
                return True
            label = label.older
        return False


@mypyc_attr(acyclic=True)
class StoredBytes:
    """A message from the disk. ``damage`` says what is wrong with the bytes, if anything."""

    __slots__ = ("damage", "format_id", "raw")

    def __init__(self, format_id: int, raw: bytes, damage: str = "") -> None:
        self.format_id: Final[int] = format_id
        self.raw: Final[bytes] = raw
        self.damage: Final[str] = damage


class Fetch:
    """One request of the broker.

    ``messages`` has the messages from memory, in the order of ``sequences``; ``reads`` are the messages on the disk.
    ``owner`` is None for an unknown destination. ``serial`` rises.
    """

    __slots__ = ("messages", "owner", "reads", "request", "sequences", "serial")

    def __init__(
        self,
        request: int,
        owner: StoredDestination | None,
        sequences: list[int],
        messages: list[Message | None],
        reads: list[Read],
        serial: int = 0,
    ) -> None:
        self.request: Final[int] = request
        self.owner: Final[StoredDestination | None] = owner
        self.sequences: Final[list[int]] = sequences
        self.messages: Final[list[Message | None]] = messages
        self.reads: Final[list[Read]] = reads
        self.serial: Final[int] = serial

    def still_there(self, read: Read) -> bool:
        """Return True if the message was not removed meanwhile."""
        owner = self.owner
        return owner is not None and owner.has(read.sequence)

    def forget_removed(self) -> None:
        """Replace messages that were removed meanwhile by None."""
        owner = self.owner
        if owner is None or not self.reads:
            return
        if owner.is_removed:
            for read in self.reads:
                self.messages[read.index] = None
            return
        locations: list[int] = []
        owner.index.locate([read.sequence for read in self.reads], locations, [])
        for index, read in enumerate(self.reads):
            if (locations[index] == GONE or owner.leaving) and not owner.has(read.sequence):
                self.messages[read.index] = None

    def take_apart(self, found: list[StoredBytes | None], start: int, end: int, formats: MessageFormats) -> int:
        """Decode the messages of the reads from ``start`` to ``end``.

        Returns:
            The index of the first read without a good message, or ``end``.
        """
        messages = self.messages
        for index in range(start, end):
            stored = found[index]
            if stored is None or stored.damage != "":
                return index
            try:
                messages[self.reads[index].index] = formats.index(stored.format_id, stored.raw)
            except (RemoteProtocolError, StoreError):
                return index
        return end


def fetch_of(index: JournalIndex, request: int, destination: Destination, sequences: list[int], serial: int) -> Fetch:
    """Return the fetch for these messages, with messages from memory and the locations of the others."""
    owner: StoredDestination | None = index.by_name.get(destination.qualified_name)
    messages: list[Message | None] = [None] * len(sequences)
    reads: list[Read] = []
    if owner is None:
        return Fetch(request, None, sequences, messages, reads, serial)
    locations: list[int] = []
    lengths: list[int] = []
    owner.index.locate(sequences, locations, lengths)
    unwritten = owner.unwritten
    leaving = owner.leaving
    number = owner.number
    last = -1
    seed = 0
    origins = index.origins.get(number)
    for position, sequence in enumerate(sequences):
        entry: Entry | None = unwritten.get(sequence) if unwritten else None
        if entry is not None:
            messages[position] = entry.message
            continue
        location = locations[position]
        if location == GONE or (leaving and sequence in leaving):
            if owner.arriving and sequence not in leaving:
                _read_arriving(index, owner, sequence, position, reads)
            continue
        segment = location_segment(location)
        if segment != last:
            seed = index.segments.seeds[segment]
            last = segment
        offset = location_offset(location)
        label = None if origins is None else _label_in(index, origins, sequence)
        if label is None:
            reads.append(Read(position, number, sequence, segment, offset, lengths[position], seed))
        else:
            reads.append(PassedRead(position, number, sequence, segment, offset, lengths[position], seed, label))
    return Fetch(request, owner, sequences, messages, reads, serial)


def sizes_of(index: JournalIndex, destination: Destination, sequences: list[int]) -> list[int]:
    """Return the bytes of each message's record, 0 for unknown messages."""
    owner: StoredDestination | None = index.by_name.get(destination.qualified_name)
    if owner is None:
        return [0] * len(sequences)
    locations: list[int] = []
    lengths: list[int] = []
    owner.index.locate(sequences, locations, lengths)
    unwritten = owner.unwritten
    for position, sequence in enumerate(sequences):
        if locations[position] == GONE:
            lengths[position] = _arriving_size(owner, sequence) if owner.arriving else 0
        entry: Entry | None = unwritten.get(sequence) if unwritten else None
        if entry is not None and entry.message is not None:
            lengths[position] = entry.message.size
        elif owner.leaving and sequence in owner.leaving:
            lengths[position] = 0
    return lengths


def _arriving_size(owner: StoredDestination, sequence: int) -> int:
    holder, original = owner.holder(sequence)
    return 0 if holder.index.find(original) == GONE else holder.index.length(original)


def _read_arriving(
    index: JournalIndex, owner: StoredDestination, sequence: int, position: int, reads: list[Read]
) -> None:
    """Append the read of a message whose transfer is not written yet, if the message is one."""
    holder, original = owner.holder(sequence)
    location = holder.index.find(original)
    if location == GONE:
        return
    segment = location_segment(location)
    seed = index.segments.seeds[segment]
    label = Label(holder.number, original, labels_of(index, holder.number, original))
    length = holder.index.length(original)
    reads.append(PassedRead(position, owner.number, sequence, segment, location_offset(location), length, seed, label))


def labels_of(index: JournalIndex, number: int, sequence: int) -> Label | None:
    """Return the older numbers of a message's record; None if the record has no others."""
    origins = index.origins.get(number)
    return None if origins is None else _label_in(index, origins, sequence)


def _label_in(index: JournalIndex, origins: Labels, sequence: int) -> Label | None:
    position = origins.run_index(sequence)
    if position == NOT_PASSED:
        return None
    older = origins.numbers[position]
    other = origins.other(position, sequence)
    return Label(older, other, labels_of(index, older, other))


def check_reads(reads: list[Read], group: list[int], block: bytes, found: list[StoredBytes | None]) -> None:
    """Check a group of `blocks` that was read as ``block``, as `check_read` does, and fill in ``found``."""
    first = reads[group[0]].offset
    for index in group:
        read = reads[index]
        found[index] = check_read(read, block, read.offset - first)


def check_read(read: Read, block: bytes, start: int) -> StoredBytes:
    """Return the message of ``read``, whose record begins at ``start`` of ``block``.

    Returns `StoredBytes.damage` for a damaged record.
    """
    end = start + read.size
    if end <= len(block) and read.size >= HEADER_SIZE:
        flags: int = block[start + 9]
        payload = start + HEADER_SIZE + expiration_size(flags)
        length: i64 = i64(read_i32_le(block, start + 4)) & CRC_MASK
        if length == read.size - HEADER_SIZE and flags <= MAX_FLAGS and payload <= end:
            raw = block[payload:end]
            expected: i64 = i64(read_i32_le(block, start)) & CRC_MASK
            crc = crc32(raw, crc32(block[start + 4 : payload], (read.seed + read.offset) & CRC_MASK))
            if crc == expected and _is_asked_for(block, start, read):
                return StoredBytes(block[start + 10], raw)  # the byte behind it is for the ledger
    return StoredBytes(0, b"", "its checksum does not hold")


def _is_asked_for(block: bytes, start: int, read: Read) -> bool:
    """Return True if the record is the wanted one. A body stands for the reference right behind."""
    kind: int = block[start + 8]
    if kind == BODY or kind == MOVED_BODY:
        return True
    if kind != MESSAGE and kind != MOVED:
        return False
    number: i64 = i64(read_i32_le(block, start + 12)) & CRC_MASK
    sequence: i64 = read_i64_le(block, start + 16)
    if number == read.number and sequence == read.sequence:
        return True
    return isinstance(read, PassedRead) and read.was_written_as(number, sequence)


def damaged_message(fetch: Fetch, read: Read, what: str) -> str:
    """Return the line for the log about a damaged message."""
    name = "?" if fetch.owner is None else fetch.owner.destination.qualified_name
    return (
        f"{segment_name(read.segment)} is damaged at byte {read.offset}: message {read.sequence} of {name} cannot be"
        f" read, {what}; it is put aside, stop the broker and run `spanwire store repair DIRECTORY`"
    )


def unreadable(read: Read, error: OSError) -> StoreError:
    """Return the error for a read that failed."""
    return StoreError(
        f"{segment_name(read.segment)} cannot be read at byte {read.offset}: {error.strerror or error};"
        " look at the disk and start the broker again"
    )
