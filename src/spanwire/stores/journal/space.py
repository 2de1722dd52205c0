"""Room on the disk for the journal, and calls that wait for room.

The file of the next segment is filled with zeros in advance. If the disk is full then, no new message is accepted until
the disk has room. Records that free room are still written into the rest of the active segment, and then into the
reserve (`spare_files`): removals, redelivery counts, metadata records, moved messages and dropped segments. The last
`RESERVED_SHARE` of a segment is kept free of messages for such records until the next file is ready. Messages that were
queued when the disk became full are written before the share, or into their own part of the reserve.

Other calls are held in their order. A call may overtake held calls if the order makes no difference. Positions are
reported only up to the first held call.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from spanwire.broker.metadata import PRODUCER_AUDIT
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.index.stored_destination import UNIT, Entry
from spanwire.stores.journal.segments.disk_port import DISK_FULL, Disk
from spanwire.stores.journal.segments.record import (
    CANCELLED,
    CLEAN_STOP,
    DESTINATION,
    DESTINATION_REMOVED,
    MESSAGE,
    METADATA,
    METADATA_DISCARDED,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    SEGMENT_DROPPED,
)
from spanwire.stores.journal.segments.segment import RESERVE_NAME, SPARE_NAME

RESERVED_SHARE: Final = 8  # an eighth of 32 MiB holds 65,000 removals that are synced one by one
LEAST_SEGMENT: Final = 128 * 1024  # bytes with which a start on a full disk begins: room for 2,000 removals
UNMANAGED: Final = -1  # files are not made in advance, but when needed


class DiskSpace:
    """The room on the disk; ``spare_bytes`` is the ready size of the next segment's file.

    The size may be `UNMANAGED`. ``needed`` is the required size.

    ``waits`` is True from a batch that did not fit until the next change. ``kept_bytes`` of the reserve are for records
    that free room.
    """

    __slots__ = (
        "_held",
        "_holds_destination",
        "_holds_metadata",
        "has_room",
        "kept_bytes",
        "needed",
        "spare_bytes",
        "waits",
    )

    def __init__(self) -> None:
        self._held: list[Entry] = []
        self._holds_destination = False  # the end of one, behind which it may begin again
        self._holds_metadata = False
        self.has_room = True
        self.kept_bytes = 0
        self.needed = 0
        self.spare_bytes = UNMANAGED
        self.waits = False

    @property
    def holds(self) -> bool:
        """Return True if a call waits for room."""
        return bool(self._held)

    def limit(self, position: int) -> int:
        """Return the position that is stored once all calls up to ``position`` are, except for held calls."""
        return min(position, self._held[0].position - 1) if self._held else position

    def change(self, spare_bytes: int, has_room: bool) -> bool:
        """Take the present state of the disk; return True if ``has_room`` changed."""
        self.spare_bytes = spare_bytes
        self.waits = False
        changed = has_room != self.has_room
        self.has_room = has_room
        return changed

    def take_held(self) -> list[Entry]:
        """Return all held calls in their order and hold none of them any longer."""
        held = self._held
        self._held = []
        self._holds_destination = False
        self._holds_metadata = False
        return held

    def hold(self, queue: list[Entry], start: int, at_most: int) -> tuple[int, list[Entry]]:
        """Hold calls that need room for messages.

        The calls are among ``at_most`` entries of ``queue`` and the rest of the last call.

        Returns:
            The index of the next entry to look at, and the entries from ``start`` on that go on.
        """
        going: list[Entry] = []
        call: list[Entry] = []
        index = start
        end = len(queue)
        while index < end:
            entry = queue[index]
            if entry.kind == SEGMENT_DROPPED:
                going.append(entry)
            elif call and call[0].position != entry.position:
                if index - start >= at_most:
                    break
                self._settle(call, going)
                call = [entry]
            else:
                call.append(entry)
            index += 1
        self._settle(call, going)
        return index, going

    def _settle(self, call: list[Entry], going: list[Entry]) -> None:
        """Hold or pass all entries of one call."""
        for entry in call:
            if not self._goes(entry):
                break
        else:
            going.extend(call)
            return
        for entry in call:
            if entry.kind == DESTINATION_REMOVED:
                self._holds_destination = True
            elif (
                entry.kind == METADATA
                or entry.kind == METADATA_DISCARDED
                or (entry.unit is not None and entry.unit.unit.metadata)
            ):
                self._holds_metadata = True
        self._held.extend(call)

    def _goes(self, entry: Entry) -> bool:
        """Return True if the entry may overtake all held entries."""
        kind = entry.kind
        if kind == REMOVAL:
            return entry.location != GONE  # else its message is held
        if kind == UNIT:
            return entry.unit is not None and entry.unit.frees_room()
        if kind == REDELIVERY:
            waiting = entry.owner.unwritten.get(entry.sequence)
            return (waiting is None or waiting.handed_over) and not entry.owner.arrives(entry.sequence)
        if kind == METADATA or kind == METADATA_DISCARDED:
            if entry.table == PRODUCER_AUDIT and self._held:
                return False  # it says that the held messages are on the disk
            return not self._holds_metadata  # the last one under a key counts
        if kind == DESTINATION_REMOVED or kind == CLEAN_STOP:
            return not self._held  # nothing of its destination may follow it
        if self._holds_destination:
            return False  # two destinations may not have one name, nor may a message come before its destination
        if kind == MESSAGE or kind == REFERENCE:
            return entry.owner.is_removed
        return kind == DESTINATION or kind == CANCELLED


def possible_segment(disk: Disk, size: int) -> int:
    """Create the next segment's file and return its size.

    On a nearly full disk the reserve takes its place, or the size is halved, down to `LEAST_SEGMENT`.

    Raises:
        OSError: the disk has no room for the smallest file either.
    """
    while True:
        try:
            disk.resize(SPARE_NAME, size)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            if disk.files().get(RESERVE_NAME, 0) >= size:
                disk.rename(RESERVE_NAME, SPARE_NAME)
                disk.sync_directory()
                continue
            if size // 2 < LEAST_SEGMENT:
                with suppress(FileNotFoundError):
                    disk.delete(SPARE_NAME)
                raise
            size //= 2
        else:
            return size
