"""The contents of a stopped broker's store.

Contents are destinations and metadata records, and the messages in slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.stores.journal.fetching.fetch import Read, check_read
from spanwire.stores.journal.fetching.fetch_blocks import blocks
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.recovery.recovery import Recovery, recover
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.record import HEADER_SIZE
from spanwire.stores.journal.segments.segment import damage, segment_name

MAX_SLICE: Final = 500  # messages located and read together; bounds the memory


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A stored message: the bytes, the number of the format, and the location of the record."""

    sequence: int
    format_id: int
    raw: bytes
    segment: int
    offset: int
    payload_length: int


class StoreContents:
    """The recovered contents of a store."""

    def __init__(self, disk: Disk) -> None:
        """Recover the store on ``disk`` without changing it.

        Raises:
            StoreError: a start of the broker would fail, too.
            OSError: the disk cannot read a file.
        """
        self._disk: Final = disk
        self.recovery: Final[Recovery] = recover(disk)
        self._journal: Final = Journal(self.recovery, self.recovery.store_id)
        self.destinations: Final[list[RecoveredDestination]] = self.recovery.destinations()
        self.metadata: Final[dict[int, dict[bytes, bytes]]] = self.recovery.metadata()

    @property
    def messages(self) -> int:
        """Count of the messages of all destinations."""
        return sum(len(recovered.sequences) for recovered in self.destinations)

    def read(self, recovered: RecoveredDestination) -> Iterator[StoredMessage]:
        """Yield the messages of a destination in the order of sequences.

        Memory holds one block of messages at a time.
        """
        for first in range(0, len(recovered.sequences), MAX_SLICE):
            self._journal.fetch(0, recovered.destination, list(recovered.sequences[first : first + MAX_SLICE]))
            for fetch in self._journal.take_fetches():
                yield from self._read_slice(fetch.reads)

    def _read_slice(self, reads: list[Read]) -> Iterator[StoredMessage]:
        """Yield the messages of ``reads``; adjacent messages are read in one block.

        Where messages were moved, the order in the file differs from the order of sequences. Each message is then read
        alone.
        """
        locations = [(read.segment, read.offset) for read in reads]
        groups = blocks(reads) if locations == sorted(locations) else [[index] for index in range(len(reads))]
        for group in groups:
            first, last = reads[group[0]], reads[group[-1]]
            name = segment_name(first.segment)
            block = self._disk.read(name, first.offset, last.offset + last.size - first.offset)
            for index in group:
                read = reads[index]
                stored = check_read(read, block, read.offset - first.offset)
                if stored.damage != "":
                    raise damage(name, read.offset, f"a message cannot be read, {stored.damage}")
                yield StoredMessage(
                    read.sequence, stored.format_id, stored.raw, read.segment, read.offset, read.size - HEADER_SIZE
                )
