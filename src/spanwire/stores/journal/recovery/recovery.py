"""Recovery: rebuilds the index from all segments or their summaries.

Then the traces of a crash are repaired.

Everything is checked before the first byte is changed. Traces of a crash are repaired and reported: a torn last batch,
a half-made next segment, dropped segments still present. Any other damage raises `StoreError` with one line: the file,
the byte and the damage. A crash during recovery does not change the result of the next start.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Protocol

from spanwire.broker.metadata import MAX_TABLE
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.recovery.replay import BODIES, Replay, checkpoint_of
from spanwire.stores.journal.recovery.summary import (
    MAX_SUMMARY_BYTES,
    NEW_NAME,
    Summary,
    SummaryDraft,
    SummaryReader,
    read_summary,
    summary_name,
    summary_number,
    summary_part,
    try_summary,
)
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.patches import PLAN_NAME
from spanwire.stores.journal.segments.record import (
    CHECKPOINT,
    CLEAN_STOP,
    HEADER_SIZE,
    SEGMENT_DROPPED,
    Record,
    expiration_size,
)
from spanwire.stores.journal.segments.segment import (
    BATCH_HEAD_SIZE,
    SEGMENT_HEADER_SIZE,
    SPARE_NAME,
    SegmentHeader,
    SegmentReader,
    damage,
    read_segment_header,
    segment_name,
    segment_number,
)


class Progress(Protocol):
    """Receives the progress of a start."""

    def on_progress(self, done_bytes: int, total_bytes: int) -> None:
        """``done_bytes`` of ``total_bytes`` have been read."""
        ...


class Recovery:
    """The result of `recover`.

    ``warnings`` are lines for the log; ``clean`` is True after an orderly stop.

    ``last``, ``last_end`` and ``last_batches`` describe the end of the newest segment; ``last`` is 0 for a new store.
    ``summaries`` are new summaries for segments without a summary, `MAX_SUMMARY_BYTES` at most; a later start adds the
    rest.
    """

    __slots__ = (
        "_summary_bytes",
        "clean",
        "index",
        "last",
        "last_batches",
        "last_end",
        "leftovers",
        "replay",
        "store_id",
        "summaries",
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
        self.leftovers: Final[list[str]] = []
        self.warnings: Final[list[str]] = []
        self.summaries: Final[list[Summary]] = []
        self._summary_bytes = 0

    def destinations(self) -> list[RecoveredDestination]:
        """Return the destinations with their messages for the broker."""
        return self.replay.destinations()

    def keep(self, summary: Summary | None) -> None:
        """Keep the summary of a segment for `write_summaries`, unless the limit of memory is reached."""
        if summary is not None:
            size = summary.size
            if self._summary_bytes + size <= MAX_SUMMARY_BYTES:
                self._summary_bytes += size
                self.summaries.append(summary)
                self.index.segments.grow(summary.number, size)

    def metadata(self) -> dict[int, dict[bytes, bytes]]:
        """Return all metadata records by table and key; tables without metadata records are left out."""
        return {table: metadata for table, metadata in self.replay.metadata.items() if metadata}


def recover(disk: Disk, progress: Progress | None = None) -> Recovery:
    """Read the store on ``disk`` without a change. `open_journal` has the repairs that must follow.

    Raises:
        StoreError: the store is damaged, incomplete, or from a newer version.
        OSError: the disk cannot read a file.
    """
    recovery = Recovery()
    files = disk.files()
    numbers = _numbers(files, recovery)
    if not numbers:
        return recovery
    last = _SegmentReplay(recovery, disk, numbers[-1], files)
    sources = _Sources(disk, files, last.needed_segments(numbers), recovery)
    older: SegmentReader | None = None
    for index, number in enumerate(sources.numbers):
        if progress is not None:
            progress.on_progress(sources.done_bytes, sources.total_bytes)
        replay = last
        if number != recovery.last:
            summary = sources.summary(index)
            if summary is not None:
                _check_end(older, summary.header)
                size = files[segment_name(number)] + files[summary_name(number)]
                recovery.replay.begin(number, summary.header.seed, summary.header.version, size)
                keep_seal(recovery.index, summary.header)
                summary.run(recovery.replay)
                recovery.replay.end(summary.end)
                older = None  # `read_summary` has compared the summary's end with the next segment
                continue
            replay = _SegmentReplay(recovery, disk, number, files, sources.end_of(index))
        _check_end(older, replay.reader.header)
        replay.run()
        if number != recovery.last:
            older = replay.reader
    recovery.replay.finish()
    _check_tables(recovery)
    return recovery


def _check_tables(recovery: Recovery) -> None:
    """Raise `StoreError` for metadata records of a newer version, which this one would leave out in silence."""
    unknown = [table for table in recovery.metadata() if not 0 < table <= MAX_TABLE]
    if unknown:
        raise StoreError(
            f"the store has metadata records of table {max(unknown)}, and this build knows tables up to {MAX_TABLE}: "
            "start a newer Spanwire, nothing was changed"
        )


def _numbers(files: dict[str, int], recovery: Recovery) -> list[int]:
    """Return the numbers of the present segments in rising order; note leftover files.

    Raises:
        StoreError: a repair of the store was interrupted, or all segments are missing.
    """
    if PLAN_NAME in files:
        raise StoreError("a repair was interrupted: run spanwire store repair, which ends it")
    numbers: list[int] = []
    for name in files:
        number = segment_number(name)
        if number > 0:
            numbers.append(number)
        elif name == SPARE_NAME or name == NEW_NAME:
            recovery.leftovers.append(name)
    numbers.sort()
    if not numbers:
        refuse_orphans(files)
    return numbers


def refuse_orphans(files: dict[str, int]) -> None:
    """Raise `StoreError` if files without any segment have a summary: the segments were lost."""
    orphan = next((name for name in files if summary_number(name) > 0), "")
    if orphan != "":
        raise StoreError(
            f"{orphan} has no segment, and there is no other: nothing was changed, restore a backup, or name another"
            " directory for a new store"
        )


def cut_end(disk: Disk, recovery: Recovery) -> None:
    """Cut the newest segment of the last run behind its last batch. A crash is harmless: run it again."""
    if recovery.last != 0:
        name = segment_name(recovery.last)
        size = disk.files().get(name, recovery.last_end)  # a broker that takes over at this moment may delete it
        if size != recovery.last_end:
            disk.resize(name, recovery.last_end)
            disk.sync(name)
            recovery.index.segments.grow(recovery.last, recovery.last_end - size)


def remove_leftovers(disk: Disk, recovery: Recovery) -> None:
    """Delete the files that a crash left behind. A crash during this function is harmless: run it again."""
    for name in recovery.leftovers:
        with suppress(FileNotFoundError):  # a broker whose store was taken over may delete it, too
            disk.delete(name)
    if recovery.leftovers:
        disk.sync_directory()


def keep_seal(index: JournalIndex, header: SegmentHeader) -> None:
    """Keep a segment begun by a take-over as long as the one before, whose end its header records.

    Such a segment leaves out a number.
    """
    if header.number > header.previous + 1 and header.previous in index.segments.by_number:
        index.segments.refer(header.previous, header.number)


def write_summaries(disk: Disk, recovery: Recovery) -> None:
    """Write summaries of the segments that this start had to read, for the next start.

    The first error ends the writing and becomes a warning, unless the disk is full.
    """
    for summary in recovery.summaries:
        fault = try_summary(disk, summary)
        if fault:
            recovery.warnings.append(fault)
            break
    recovery.summaries.clear()


def _check_end(older: SegmentReader | None, header: SegmentHeader) -> None:
    """Compare the end of segment ``older`` with the values in the ``header`` of the next segment.

    Raises:
        StoreError: the ends differ.
    """
    if older is None:
        return
    if header.previous != older.header.number:
        return
    if header.previous_end != older.end or header.previous_batches != older.batches:
        raise damage(older.name, older.bad_offset, "a record's checksum does not hold")


class _Sources:
    """The needed segments in order. Recovery reads the summary of a segment if there is a good summary."""

    def __init__(self, disk: Disk, files: dict[str, int], numbers: list[int], recovery: Recovery) -> None:
        self.numbers: Final[list[int]] = numbers
        self.done_bytes = 0
        self.total_bytes = 0
        self._disk: Final[Disk] = disk
        self._files: Final[dict[str, int]] = files
        self._headers: Final[list[SegmentHeader]] = []
        for number in numbers:
            name = segment_name(number)
            header = read_segment_header(name, disk.read(name, 0, SEGMENT_HEADER_SIZE))
            if header.store_id != recovery.store_id:
                raise damage(name, 16, "it belongs to another store")
            self._headers.append(header)
            self.total_bytes += self._size(number)
        needed = set(numbers)
        for name in files:
            number = summary_number(name)
            if number > 0 and number not in needed:
                recovery.leftovers.append(name)

    def end_of(self, index: int) -> int:
        """Return the end of the segment at an index of ``numbers``, recorded by the next one; -1 without.

        Bytes behind the end were written by a broker whose store another one had taken over.
        """
        if index + 1 < len(self._headers) and self._headers[index + 1].previous == self.numbers[index]:
            return self._headers[index + 1].previous_end
        return -1

    def summary(self, index: int) -> SummaryReader | None:
        """Return the good summary of the segment at an index of ``numbers``, or None."""
        header = self._headers[index]
        self.done_bytes += self._size(header.number)
        follower = self._headers[index + 1] if index + 1 < len(self._headers) else None
        return read_summary(self._disk, self._files, header, follower)

    def _size(self, number: int) -> int:
        return self._files.get(summary_name(number), self._files[segment_name(number)])


class _SegmentReplay:
    """Reads one segment up to ``end`` (-1: the end of the file) and has its records applied."""

    def __init__(self, recovery: Recovery, disk: Disk, number: int, files: dict[str, int], end: int = -1) -> None:
        name = segment_name(number)
        expected = recovery.store_id if recovery.store_id else None
        size = files[name] if end < 0 else min(end, files[name])
        self.reader: Final[SegmentReader] = SegmentReader(name, disk.read(name, 0, size), expected)
        self._recovery: Final[Recovery] = recovery
        self._number: Final[int] = number
        self._size: Final[int] = files[name]
        self._replay: Final[Replay] = recovery.replay
        if expected is None:
            recovery.store_id = self.reader.header.store_id

    def needed_segments(self, present: list[int]) -> list[int]:
        """Read the newest segment for the first time, and return the needed segments in order.

        Raises:
            StoreError: a needed segment is missing, or the newest is damaged in a way that no crash can cause.
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
                    f"{segment_name(number)} is missing: nothing was changed, restore a backup or run spanwire store"
                    " repair"
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
            consequence = "disk syncs were off" if reader.is_unsynced else "none of them was acknowledged"
            recovery.warnings.append(
                f"{reader.name} ends with an incomplete write: {torn} bytes after byte {reader.end} were dropped,"
                f" {consequence}"
            )
        recovery.clean = stopped and torn == 0
        recovery.last = self._number
        recovery.last_end = reader.end
        recovery.last_batches = reader.batches

    def run(self) -> None:
        """Apply all batches."""
        reader = self.reader
        reader.rewind()
        self._replay.begin(self._number, reader.header.seed, reader.header.version, self._size)
        keep_seal(self._recovery.index, reader.header)
        draft = SummaryDraft(self._number, self._size)
        start = reader.end
        batch = reader.next_batch()
        while batch is not None:
            self._add(draft, start, batch)
            start = reader.end
            for record in batch:
                self._replay.apply(
                    record.kind,
                    record.flags,
                    record.format_id,
                    record.destination,
                    record.sequence,
                    self._number,
                    record.offset,
                    record.payload_length,
                    self._payload(record),
                )
            self._replay.end_batch()
            batch = reader.next_batch()
        self._replay.end(reader.end)
        if reader.batches == 0:
            raise damage(reader.name, reader.bad_offset, "its check-point cannot be read")
        if self._number != self._recovery.last and reader.bytes_after_end() > 0:
            raise damage(reader.name, reader.bad_offset, "a record's checksum does not hold")
        self._recovery.keep(draft.finish(reader.header.store_id, reader.end, reader.batches))

    def _add(self, draft: SummaryDraft, start: int, batch: list[Record]) -> None:
        data = self.reader.data
        parts = [data[start : start + BATCH_HEAD_SIZE]]
        for record in batch:
            parts.append(summary_part(data, record.offset, record.kind, record.flags, record.payload_length))
        last = batch[-1].offset if batch else start
        draft.add(b"".join(parts), last, data[last : last + HEADER_SIZE])

    def _payload(self, record: Record) -> bytes:
        """Return the part of the payload that `Replay.apply` needs."""
        if record.kind in BODIES:
            return self.reader.data[record.payload_start : record.payload_start + expiration_size(record.flags)]
        return self.reader.payload(record)
