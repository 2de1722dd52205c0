"""Files that are filled with zeros ahead of their use: the next segment's, and the reserve for a full disk.

The reserve is kept so that consumers can always empty the store: when the disk has no room for the next segment, the
reserve becomes that segment. It has a place for the removal of everything that is stored (`RESERVE_PER_MESSAGE`), for
messages that were under way, and for a whole segment's worth of what compaction writes again, which frees old segments
and so makes room for the next file. It is made when the first segment is half full, and outlives the broker. No clock
and no thread here; the disk is called by whoever drives it.

Each step but the last of a segment's file, which is synced when it becomes a segment, ends with a sync, for which the
next batch may have to wait; so steps are small while there is time. They are
as large as they must be for both files to be ready when the active segment is full (`SpareFiles.due`): where that is
near, or a batch waits for the files, a few large steps cost fewer syncs than many small ones, and on a slow disk a sync
costs more than the bytes.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.persistence.unsynced_bytes import MAX_UNSYNCED_BYTES
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.segment import MAX_SEGMENT_BYTES, RESERVE_NAME, SPARE_NAME

STEP_BYTES: Final = 1024 * 1024  # zeros written and synced at a time at least; a batch need not wait long for that
NO_HURRY: Final = 1 << 62  # bytes: the active segment has room for all that may come while the files grow
RESERVE_PER_MESSAGE: Final = 32  # bytes: a removal and its share of a batch's head; those synced one by one take twice
RESERVE_STEPS: Final = 32  # parts of a segment by which the reserve grows: a sync is not worth some bytes more
SHRINK_SHARE: Final = 4  # a reserve of more than so many times what is wanted is cut


def kept_bytes(segment_bytes: int, messages: int) -> int:
    """Bytes of the reserve in which no message is written but by compaction, for a store with so many of them."""
    return segment_bytes + RESERVE_PER_MESSAGE * messages


def wanted_reserve(segment_bytes: int, messages: int, under_way: int) -> int:
    """Bytes of the whole reserve; ``under_way`` is the most that ever waited to be written."""
    late = max(segment_bytes // 2, min(under_way, MAX_UNSYNCED_BYTES))
    step = max(1, segment_bytes // RESERVE_STEPS)
    size = (kept_bytes(segment_bytes, messages) + late + step - 1) // step * step
    return min(size, MAX_SEGMENT_BYTES)


class SpareFiles:
    """Both files, as large as they are and as they should be. ``name`` is the one that is being written."""

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
        """Whether both are as large as they should be."""
        return self.spare_bytes >= self.spare_target and self.reserve_bytes >= self.reserve_target

    @property
    def missing_bytes(self) -> int:
        """How much both lack together."""
        return max(0, self.spare_target - self.spare_bytes) + max(0, self.reserve_target - self.reserve_bytes)

    def due(self, written_bytes: int, room_bytes: int) -> int:
        """How much of what is missing should be made by now, after ``written_bytes`` went into the active segment that
        has room for ``room_bytes`` more: the same share of what is missing as of the room there was.
        """
        return self.missing_bytes * written_bytes // max(1, written_bytes + room_bytes)

    @property
    def ready_bytes(self) -> int:
        """The size of the next segment's file if all of it is there, else 0."""
        return self.spare_bytes if self.spare_bytes >= self.spare_target else 0

    def taken(self) -> None:
        """The next segment's file became a segment."""
        self.spare_bytes = 0

    def grow(self, is_full: bool, step_bytes: int = STEP_BYTES) -> None:
        """One step for one of them, of ``step_bytes`` or less. While the disk ``is_full`` the next segment comes first.
        Raises `OSError`.
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
        """There is no room for the next segment's file: the reserve takes its place, as far as it was made itself.
        Raises `OSError`.

        Its name is synced before it is written to, so that it never comes back under the old one with a segment in it.
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
        """Give back most of a reserve for messages that are gone. Raises `OSError`."""
        if self.reserve_target > 0 and self.reserve_bytes > SHRINK_SHARE * self.reserve_target:
            self.name = RESERVE_NAME
            self._disk.resize(RESERVE_NAME, self.reserve_target)
            self.reserve_bytes = self.reserve_target
