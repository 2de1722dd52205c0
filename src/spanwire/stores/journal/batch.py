"""A batch for the writer: one write and one sync, now and then with a new segment or files to delete."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from spanwire.stores.journal.index.stored_destination import Entry
from spanwire.stores.journal.recovery.summary import Summary, summary_name, try_summary
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.segment import SPARE_NAME, segment_name


class NewSegment:
    """A segment to be created before the batch is written: number, size and first bytes.

    ``summary`` is the summary of the segment before, to be written when the writer has time.
    """

    __slots__ = ("number", "parts", "size", "summary")

    def __init__(self, number: int, size: int, parts: list[bytes], summary: Summary | None) -> None:
        self.number: Final[int] = number
        self.size: Final[int] = size
        self.parts: Final[list[bytes]] = parts
        self.summary: Final[Summary | None] = summary


class BatchSlice:
    """Entries of a batch that were encoded together.

    After the sync all calls up to ``position`` are stored.
    """

    __slots__ = ("entries", "position")

    def __init__(self, entries: list[Entry], position: int) -> None:
        self.entries: Final[list[Entry]] = entries
        self.position = position


class Batch:
    """Bytes for ``offset`` of segment ``segment``, in ``parts``.

    The parts are empty if only files are deleted.

    After the sync all calls up to ``position`` survive a power cut; ``waiters`` calls of `MessageStore.position` wait
    for the batch. ``slices`` are the entries in the slices of their encoding, ``completed_slices`` of them are
    reported. ``sync_seconds`` is the time of a write that only wrote and synced ``parts``; else -1.
    """

    __slots__ = (
        "completed_slices",
        "deletions",
        "new_segment",
        "offset",
        "parts",
        "position",
        "segment",
        "size",
        "slices",
        "sync_seconds",
        "waiters",
    )

    def __init__(
        self,
        position: int,
        segment: int,
        offset: int,
        size: int,
        parts: list[bytes],
        slices: list[BatchSlice],
        new_segment: NewSegment | None,
        deletions: list[int],
        waiters: int = 0,
    ) -> None:
        self.position: Final[int] = position
        self.segment: Final[int] = segment
        self.offset: Final[int] = offset
        self.size: Final[int] = size
        self.parts: Final[list[bytes]] = parts
        self.slices: Final[list[BatchSlice]] = slices
        self.completed_slices = 0
        self.sync_seconds = -1.0
        self.new_segment: Final[NewSegment | None] = new_segment
        self.deletions: Final[list[int]] = deletions
        self.waiters: Final[int] = waiters

    @property
    def entries(self) -> list[Entry]:
        """All entries in their order."""
        return [entry for part in self.slices for entry in part.entries]


def open_segment(disk: Disk, new_segment: NewSegment, batch: Batch, sync: bool) -> None:
    """Create the file of a new segment with the batch under another name.

    The file is renamed after the sync.

    That saves one sync. The call may be repeated after an `OSError` because of a full disk.
    """
    disk.resize(SPARE_NAME, new_segment.size)
    disk.write(SPARE_NAME, 0, new_segment.parts)
    if batch.parts:
        disk.write(SPARE_NAME, batch.offset, batch.parts)
    if sync:
        disk.sync(SPARE_NAME)
    disk.rename(SPARE_NAME, segment_name(new_segment.number))
    if sync:
        disk.sync_directory()


def delete_segments(disk: Disk, batch: Batch, sync: bool) -> None:
    """Delete the files of dropped segments."""
    if not batch.deletions:
        return
    for number in batch.deletions:
        disk.delete(segment_name(number))
        with suppress(OSError):  # not every segment has one, and one without its segment does no harm
            disk.delete(summary_name(number))
    if sync:
        disk.sync_directory()


def write_batch(disk: Disk, batch: Batch, sync: bool) -> str:
    """Write a batch and return when the batch is on the disk.

    Without ``sync`` the operating system has the batch at the return.

    Returns:
        A line for the log about a summary that could not be written, or "".

    Raises:
        OSError: the write failed; nothing may be tried again.
    """
    if batch.new_segment is not None:
        open_segment(disk, batch.new_segment, batch, sync)
    elif batch.parts:
        name = segment_name(batch.segment)
        disk.write(name, batch.offset, batch.parts)
        if sync:
            disk.sync(name)
    delete_segments(disk, batch, sync)
    if batch.new_segment is not None and batch.new_segment.summary is not None:
        return try_summary(disk, batch.new_segment.summary)
    return ""
