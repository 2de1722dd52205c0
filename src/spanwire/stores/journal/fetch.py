"""Reading messages back: what is asked for, where it lies, and the check of what came from the disk."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from spanwire.model.destination import Destination
from spanwire.model.errors import StoreError
from spanwire.model.message import Message
from spanwire.stores.journal.index import JournalIndex, StoredDestination
from spanwire.stores.journal.record import (
    BODY,
    HEADER_SIZE,
    MESSAGE,
    MOVED,
    MOVED_BODY,
    Record,
    expiration_size,
    read_record,
)
from spanwire.stores.journal.segment import segment_name
from spanwire.stores.journal.sequences import GONE, location_offset, location_segment


@mypyc_attr(acyclic=True)
class Read:
    """One message to be read: ``place`` in the answer, and where its record lies."""

    __slots__ = ("number", "offset", "place", "seed", "segment", "sequence", "size")

    def __init__(
        self, place: int, number: int, sequence: int, segment: int, offset: int, length: int, seed: int
    ) -> None:
        self.place: Final[int] = place
        self.number: Final[int] = number
        self.sequence: Final[int] = sequence
        self.segment: Final[int] = segment
        self.offset: Final[int] = offset
        self.size: Final[int] = HEADER_SIZE + length
        self.seed: Final[int] = seed


@mypyc_attr(acyclic=True)
class StoredBytes:
    """A message as it came from the disk. ``damage`` says what is wrong with it, if it is not what was written."""

    __slots__ = ("damage", "format_id", "raw")

    def __init__(self, format_id: int, raw: bytes, damage: str = "") -> None:
        self.format_id: Final[int] = format_id
        self.raw: Final[bytes] = raw
        self.damage: Final[str] = damage


class Fetch:
    """One request of the broker. ``messages`` holds what memory already gave, in the order of ``sequences``; ``reads``
    is what the disk must give. ``owner`` is None for a destination that does not exist, ``serial`` rises.
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
        """Whether the message that was read has not been removed meanwhile."""
        owner = self.owner
        return owner is not None and owner.has(read.sequence)


def fetch_of(index: JournalIndex, request: int, destination: Destination, sequences: list[int], serial: int) -> Fetch:
    """What memory gives of these messages, and where the rest lies."""
    owner = index.by_name.get(destination.qualified_name)
    messages: list[Message | None] = []
    reads: list[Read] = []
    for place, sequence in enumerate(sequences):
        message: Message | None = None
        if owner is not None:
            entry = owner.unwritten.get(sequence)
            if entry is not None:
                message = entry.message
            else:
                _add_read(index, owner, sequence, place, reads)
        messages.append(message)
    return Fetch(request, owner, sequences, messages, reads, serial)


def sizes_of(index: JournalIndex, destination: Destination, sequences: list[int]) -> list[int]:
    """The bytes of each message's record, 0 for those that are not there."""
    owner = index.by_name.get(destination.qualified_name)
    sizes: list[int] = []
    for sequence in sequences:
        size = 0
        if owner is not None:
            entry = owner.unwritten.get(sequence)
            if entry is not None and entry.message is not None:
                size = entry.message.size
            elif owner.index.find(sequence) != GONE:
                size = owner.index.length(sequence)
        sizes.append(size)
    return sizes


def _add_read(index: JournalIndex, owner: StoredDestination, sequence: int, place: int, reads: list[Read]) -> None:
    location = owner.index.find(sequence)
    if location == GONE or sequence in owner.leaving:
        return
    segment = location_segment(location)
    seed = index.segments.seeds[segment]
    length = owner.index.length(sequence)
    reads.append(Read(place, owner.number, sequence, segment, location_offset(location), length, seed))


def check_read(read: Read, block: bytes, start: int) -> StoredBytes:
    """The message of ``read``, whose record begins at ``start`` of ``block``; one with `StoredBytes.damage` when the
    bytes are not those that were written.
    """
    end = start + read.size
    record = read_record(memoryview(block), start, min(end, len(block)), read.seed, read.offset)
    if record is None or record.payload_length != read.size - HEADER_SIZE or not _is_asked_for(record, read):
        return StoredBytes(0, b"", "its checksum does not hold")
    return StoredBytes(record.format_id, block[start + HEADER_SIZE + expiration_size(record.flags) : end])


def _is_asked_for(record: Record, read: Read) -> bool:
    """A body stands in for the reference to it, which the index has seen right behind it."""
    if record.kind == BODY or record.kind == MOVED_BODY:
        return True
    if record.kind != MESSAGE and record.kind != MOVED:
        return False
    return record.sequence == read.sequence and record.destination == read.number


def damaged_message(fetch: Fetch, read: Read, what: str) -> str:
    """The one line for the log about a message that is put aside."""
    line = "?" if fetch.owner is None else fetch.owner.destination.qualified_name
    return (
        f"{segment_name(read.segment)} is damaged at byte {read.offset}: message {read.sequence} of {line} cannot be"
        f" read, {what}; it is put aside, stop the broker and run `spanwire store repair DIRECTORY`"
    )


def unreadable(read: Read, error: OSError) -> StoreError:
    """The one line for a read that failed."""
    return StoreError(
        f"{segment_name(read.segment)} cannot be read at byte {read.offset}: {error.strerror or error};"
        " look at the disk and start the broker again"
    )
