"""Files filled with zeros in advance: the next segment's file, and the reserve for a full disk.

With the reserve consumers can always empty the store: if the disk has no room for the next segment, the reserve becomes
the segment. The reserve has room for the removal of every stored message (`RESERVE_PER_MESSAGE`), for messages that
were queued, and for a whole segment of moved records, which frees old segments and so room for the next file. The
reserve is created when the first segment is half full, and outlives the broker. No clock and no thread here; the writer
calls.

Each step ends with a sync, except for the last step of a segment's file, which is synced as a segment. The next batch
may have to wait for a sync, so steps are small while time is left. Steps grow so that both files are ready when the
active segment is full (`SpareFiles.due`). If that is near, or a batch waits for the files, few large steps cost fewer
syncs than many small steps; on a slow disk a sync costs more than the bytes.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.persistence.unsynced_bytes import MAX_UNSYNCED_BYTES
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.segment import MAX_SEGMENT_BYTES, RESERVE_NAME, SPARE_NAME

STEP_BYTES: Final = 1024 * 1024  # least bytes of a step; a batch does not wait long for the sync
NO_HURRY: Final = 1 << 62  # bytes; the active segment has room while the files grow
RESERVE_PER_MESSAGE: Final = 32  # bytes: a removal and its share of a batch's head; with a sync for each, twice
RESERVE_STEPS: Final = 32  # steps of a segment by which the reserve grows; smaller steps are not worth a sync
SHRINK_SHARE: Final = 4  # times the wanted size; a larger reserve is cut


def kept_bytes(segment_bytes: int, messages: int) -> int:
    """Return the part of the reserve without messages, for a store of ``messages`` messages.

    Moved messages are the exception.
    """
    return segment_bytes + RESERVE_PER_MESSAGE * messages


def wanted_reserve(segment_bytes: int, messages: int, under_way: int) -> int:
    """Return the bytes of the whole reserve; ``under_way`` is the largest backlog so far."""
    late = max(segment_bytes // 2, min(under_way, MAX_UNSYNCED_BYTES))
    step = max(1, segment_bytes // RESERVE_STEPS)
    size = (kept_bytes(segment_bytes, messages) + late + step - 1) // step * step
    return min(size, MAX_SEGMENT_BYTES)


class SpareFiles:
    """Both files with their present and wanted sizes. ``name`` is the file that is being written."""

    __slots__ = ("_disk", "_sync", "name", "reserve_bytes", "reserve_target", "spare_bytes", "spare_target")

    def __init__(self, disk: Disk, sync: bool) -> None:
        self._disk: Final[Disk] = disk
        self._sync: Final[bool] = sync
        self.name = SPARE_NAME
        self.spare_bytes = 0
        self.spare_target = 0
        self.reserve_bytes = disk.files().get(RESERVE_NAME, 0)
        self.reserve_target = 0

    @property
    def is_ready(self) -> bool:
        """Return True if both files have the wanted sizes."""
        return self.spare_bytes >= self.spare_target and self.reserve_bytes >= self.reserve_target

    @property
    def missing_bytes(self) -> int:
        """The bytes that both files lack."""
        return max(0, self.spare_target - self.spare_bytes) + max(0, self.reserve_target - self.reserve_bytes)

    def due(self, written_bytes: int, room_bytes: int) -> int:
        """Return the missing bytes that should be written by now.

        The share of the missing bytes is the share of ``written_bytes`` in the room of the active segment, of which
        ``room_bytes`` are left.
        """
        return self.missing_bytes * written_bytes // max(1, written_bytes + room_bytes)

    @property
    def ready_bytes(self) -> int:
        """The size of the next segment's file if complete, else 0."""
        return self.spare_bytes if self.spare_bytes >= self.spare_target else 0

    def taken(self) -> None:
        """Record that the next segment's file became a segment."""
        self.spare_bytes = 0

    def grow(self, is_full: bool, step_bytes: int = STEP_BYTES) -> None:
        """Write a step of at most ``step_bytes`` to one file.

        While the disk ``is_full`` the next segment comes first.

        Raises:
            OSError: the disk refused.
        """
        spare_first = is_full or self.reserve_bytes >= self.reserve_target
        if spare_first and self.spare_bytes < self.spare_target:
            self.name = SPARE_NAME
            self.spare_bytes = self._grow(self.spare_bytes, self.spare_target, step_bytes)
            if self._sync and self.spare_bytes < self.spare_target:
                self._disk.sync(self.name)
            return
        self.name = RESERVE_NAME
        self.reserve_bytes = self._grow(self.reserve_bytes, self.reserve_target, step_bytes)
        if self._sync:
            self._disk.sync(self.name)

    def _grow(self, size: int, target: int, step_bytes: int) -> int:
        size = min(size + step_bytes, target)
        self._disk.resize(self.name, size)
        return size

    def use_reserve(self) -> None:
        """Turn the reserve into the next segment's file, which has no room on the disk.

        The new name is synced before any write, so that the old name never comes back with a segment.

        Raises:
            OSError: the disk refused.
        """
        if self.spare_bytes >= self.spare_target or self.reserve_bytes <= self.spare_bytes:
            return
        self.name = RESERVE_NAME
        self._disk.rename(RESERVE_NAME, SPARE_NAME)
        if self._sync:
            self._disk.sync_directory()
        self.spare_bytes = self.reserve_bytes
        self.reserve_bytes = 0

    def shrink_reserve(self) -> None:
        """Give back most of a reserve for messages that are removed.

        Raises:
            OSError: the disk refused.
        """
        if self.reserve_target > 0 and self.reserve_bytes > SHRINK_SHARE * self.reserve_target:
            self.name = RESERVE_NAME
            self._disk.resize(RESERVE_NAME, self.reserve_target)
            self.reserve_bytes = self.reserve_target
