"""Reads all segments and rebuilds the index; then, and only then, repairs what a crash left behind.

Everything is checked before the first byte is changed. What a crash can have made (a torn last batch, a half-made next
segment, dropped segments not yet deleted) is put right and reported; all other damage raises `StoreError` with one line
that names the file and the byte. Crashing in here and starting again gives the same result.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.recovery import RecoveredDestination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.disk_port import Disk
from spanwire.stores.journal.index import JournalIndex
from spanwire.stores.journal.record import CHECKPOINT, CLEAN_STOP, SEGMENT_DROPPED, Record, expiration_size
from spanwire.stores.journal.replay import BODIES, Replay, checkpoint_of
from spanwire.stores.journal.segment import (
    SPARE_NAME,
    SegmentReader,
    damage,
    segment_name,
    segment_number,
)


class Recovery:
    """What was found. ``warnings`` are lines for the log; ``clean`` says that the last stop was in order.

    ``last``, ``last_end`` and ``last_batches`` tell where the newest segment ends; ``last`` is 0 for a new store.
    """

    __slots__ = (
        "clean",
        "index",
        "last",
        "last_batches",
        "last_end",
        "leftovers",
        "replay",
        "store_id",
        "torn",
        "warnings",
    )

    def __init__(self) -> None:
        self.index: Final[JournalIndex] = JournalIndex()
        self.replay: Final[Replay] = Replay(self.index)
        self.store_id = b""
        self.clean = True
        self.last = 0
        self.last_end = 0
        self.last_batches = 0
        self.torn = False
        self.leftovers: Final[list[str]] = []
        self.warnings: Final[list[str]] = []

    def destinations(self) -> list[RecoveredDestination]:
        """What the broker gets."""
        return self.replay.destinations()

    def facts(self) -> dict[int, dict[bytes, bytes]]:
        """All facts by table and key."""
        return self.replay.facts


def recover(disk: Disk) -> Recovery:
    """Reads the store on ``disk`` and changes nothing; raises `StoreError` when it cannot be read whole, and `OSError`.

    `repair` must follow before anything is written.
    """
    recovery = Recovery()
    files = disk.files()
    if SPARE_NAME in files:
        recovery.leftovers.append(SPARE_NAME)
    numbers: list[int] = []
    for name in files:
        number = segment_number(name)
        if number > 0:
            numbers.append(number)
    if not numbers:
        return recovery
    numbers.sort()
    last = _SegmentReplay(recovery, disk, numbers[-1], files)
    needed = last.needed_segments(numbers)
    older: SegmentReader | None = None
    for number in needed:
        replay = _SegmentReplay(recovery, disk, number, files)
        _check_end(older, replay.reader)
        replay.run()
        if number != recovery.last:
            older = replay.reader
    return recovery


def repair(disk: Disk, recovery: Recovery) -> None:
    """Removes what a crash left behind. May be cut off anywhere and run again."""
    if recovery.last != 0:
        name = segment_name(recovery.last)
        if disk.files()[name] != recovery.last_end:
            disk.resize(name, recovery.last_end)
            disk.sync(name)
    for name in recovery.leftovers:
        disk.delete(name)
    if recovery.leftovers:
        disk.sync_directory()


def _check_end(older: SegmentReader | None, newer: SegmentReader) -> None:
    """A segment that another one follows must end where that one says."""
    if older is None:
        return
    header = newer.header
    if header.previous != older.header.number:
        return
    if header.previous_end != older.end or header.previous_batches != older.batches:
        raise damage(older.name, older.bad_offset, "a record's checksum does not hold")


class _SegmentReplay:
    """Reads one segment and has its records applied."""

    def __init__(self, recovery: Recovery, disk: Disk, number: int, files: dict[str, int]) -> None:
        name = segment_name(number)
        expected = recovery.store_id if recovery.store_id else None
        self.reader: Final[SegmentReader] = SegmentReader(name, disk.read(name, 0, files[name]), expected)
        self._recovery: Final[Recovery] = recovery
        self._number: Final[int] = number
        self._replay: Final[Replay] = recovery.replay
        if expected is None:
            recovery.store_id = self.reader.header.store_id

    def needed_segments(self, present: list[int]) -> list[int]:
        """Reads the newest segment for the first time: which segments are to be replayed, in order.

        Raises `StoreError` if one of them is missing or this segment is damaged other than by a crash.
        """
        recovery = self._recovery
        reader = self.reader
        needed: set[int] | None = None
        stopped = False
        batch = reader.next_batch()
        while batch is not None:
            for record in batch:
                stopped = record.kind == CLEAN_STOP
                if record.kind == CHECKPOINT:
                    needed = set(checkpoint_of(self._number, record.offset, reader.payload(record)).segments)
                elif record.kind == SEGMENT_DROPPED and needed is not None:
                    needed.discard(record.sequence)
            batch = reader.next_batch()
        if needed is None:
            raise damage(reader.name, reader.bad_offset, "its check-point cannot be read")
        self._end_of_journal(stopped)
        for number in present:
            if number not in needed and number != self._number:
                recovery.leftovers.append(segment_name(number))
        for number in needed:
            if number not in present:
                raise StoreError(
                    f"{segment_name(number)} is missing: restore the file from a backup, nothing was changed"
                )
        needed.add(self._number)
        return sorted(needed)

    def _end_of_journal(self, stopped: bool) -> None:
        recovery = self._recovery
        reader = self.reader
        later = reader.later_batch()
        if later >= 0:
            raise damage(reader.name, reader.bad_offset, f"whole batches follow it at byte {later}")
        torn = reader.bytes_after_end()
        if torn > 0:
            recovery.torn = True
            recovery.warnings.append(
                f"{reader.name} ends with an incomplete write: {torn} bytes after byte {reader.end} were dropped, none"
                " of them was acknowledged"
            )
        recovery.clean = stopped and torn == 0
        recovery.last = self._number
        recovery.last_end = reader.end
        recovery.last_batches = reader.batches

    def run(self) -> None:
        """Apply all batches."""
        reader = self.reader
        self._replay.begin(self._number, reader.header.seed)
        batch = reader.next_batch()
        while batch is not None:
            for record in batch:
                self._replay.apply(
                    record.kind,
                    record.flags,
                    record.destination,
                    record.sequence,
                    self._number,
                    record.offset,
                    record.payload_length,
                    self._payload(record),
                )
            self._replay.end_batch()
            batch = reader.next_batch()
        if reader.batches == 0:
            raise damage(reader.name, reader.bad_offset, "its check-point cannot be read")
        if self._number != self._recovery.last and reader.bytes_after_end() > 0:
            raise damage(reader.name, reader.bad_offset, "a record's checksum does not hold")

    def _payload(self, record: Record) -> bytes:
        """As much of the payload as `Replay.apply` wants."""
        if record.kind in BODIES:
            return self.reader.data[record.payload_start : record.payload_start + expiration_size(record.flags)]
        return self.reader.payload(record)
