"""Reading messages back: what is asked for, where it lies, and the check of what came from the disk."""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import StoreError
from spanwire.model.message import Message
from spanwire.stores.journal.index import StoredDestination
from spanwire.stores.journal.record import HEADER_SIZE, MESSAGE, read_record
from spanwire.stores.journal.segment import damage, segment_name


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


class StoredBytes:
    """A message as it came from the disk, checked."""

    __slots__ = ("format_id", "raw")

    def __init__(self, format_id: int, raw: bytes) -> None:
        self.format_id: Final[int] = format_id
        self.raw: Final[bytes] = raw


class Fetch:
    """One request of the broker. ``messages`` holds what memory already gave, in the order of ``sequences``; ``reads``
    is what the disk must give. ``owner`` is None for a destination that does not exist.
    """

    __slots__ = ("messages", "owner", "reads", "request", "sequences")

    def __init__(
        self,
        request: int,
        owner: StoredDestination | None,
        sequences: list[int],
        messages: list[Message | None],
        reads: list[Read],
    ) -> None:
        self.request: Final[int] = request
        self.owner: Final[StoredDestination | None] = owner
        self.sequences: Final[list[int]] = sequences
        self.messages: Final[list[Message | None]] = messages
        self.reads: Final[list[Read]] = reads

    def still_there(self, read: Read) -> bool:
        """Whether the message that was read has not been removed meanwhile."""
        owner = self.owner
        return owner is not None and owner.has(read.sequence)


def check_read(read: Read, block: bytes, start: int) -> StoredBytes:
    """The message of ``read``, whose record begins at ``start`` of ``block``; raises `StoreError` when the bytes are
    not those that were written.
    """
    end = start + read.size
    record = read_record(memoryview(block), start, min(end, len(block)), read.seed, read.offset)
    if (
        record is None
        or record.kind != MESSAGE
        or record.sequence != read.sequence
        or record.destination != read.number
        or record.payload_length != read.size - HEADER_SIZE
    ):
        raise damage(segment_name(read.segment), read.offset, "a message's checksum does not hold")
    return StoredBytes(record.format_id, block[start + HEADER_SIZE : end])


def unreadable(read: Read, error: OSError) -> StoreError:
    """The one line for a read that failed."""
    return StoreError(
        f"{segment_name(read.segment)} cannot be read at byte {read.offset}: {error.strerror or error};"
        " look at the disk and start the broker again"
    )
