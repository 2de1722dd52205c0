"""Room on the disk, as the journal knows it, and what waits for it.

The file of the next segment is filled with zeros ahead of its use. If the disk is full then, no new message is taken
any more until it is not; what frees room goes on in the rest of the active segment, and then in the reserve
(`spare_files`): removals, redelivery counts, facts, what compaction moves and the records that let segments go. For
these the last `RESERVED_SHARE` of a segment is kept free of messages until the next file is ready. Messages that were
on their way when the room went are written before that share, or into that part of the reserve which is made for them.

What finds no place there is held in its order, and others overtake it where that changes nothing: positions are
reported only up to the first held one.
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
    FACT,
    FACT_DISCARDED,
    MESSAGE,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    SEGMENT_DROPPED,
)
from spanwire.stores.journal.segments.segment import RESERVE_NAME, SPARE_NAME

RESERVED_SHARE: Final = 8  # an eighth of 32 MiB holds 65,000 removals that are synced one by one
LEAST_SEGMENT: Final = 128 * 1024  # bytes with which a start on a full disk begins: room for 2,000 removals
UNMANAGED: Final = -1  # nobody tells of files made ahead: each is made when it is needed


class DiskSpace:
    """``spare_bytes`` is the size of the next segment's file as far as it is ready, or `UNMANAGED`; ``needed`` what it
    must have before the journal can go on. ``waits`` is True from when a batch did not fit until something changes.
    ``kept_bytes`` of the reserve are for what makes room.
    """

    __slots__ = ("_held", "_holds_facts", "has_room", "kept_bytes", "needed", "spare_bytes", "waits")

    def __init__(self) -> None:
        self._held: list[Entry] = []
        self._holds_facts = False
        self.has_room = True
        self.kept_bytes = 0
        self.needed = 0
        self.spare_bytes = UNMANAGED
        self.waits = False

    @property
    def holds(self) -> bool:
        """Whether any call waits for room."""
        return bool(self._held)

    def limit(self, position: int) -> int:
        """The position that is on the disk when all up to ``position`` that is not held is."""
        return min(position, self._held[0].position - 1) if self._held else position

    def change(self, spare_bytes: int, has_room: bool) -> bool:
        """Takes what the disk's owner tells; whether room came or went."""
        self.spare_bytes = spare_bytes
        self.waits = False
        changed = has_room != self.has_room
        self.has_room = has_room
        return changed

    def take_held(self) -> list[Entry]:
        """All held calls in their order, which are held no longer."""
        held = self._held
        self._held = []
        self._holds_facts = False
        return held

    def hold(self, queue: list[Entry], start: int, at_most: int) -> tuple[int, list[Entry]]:
        """Looks at ``at_most`` entries of ``queue`` from ``start``, and at the rest of the last call. Gives where it
        ended, and the entries among them that go on without room for messages; holds the others.
        """
        going: list[Entry] = []
        call: list[Entry] = []
        place = start
        end = len(queue)
        while place < end:
            entry = queue[place]
            if entry.kind == SEGMENT_DROPPED:
                going.append(entry)
            elif call and call[0].position != entry.position:
                if place - start >= at_most:
                    break
                self._settle(call, going)
                call = [entry]
            else:
                call.append(entry)
            place += 1
        self._settle(call, going)
        return place, going

    def _settle(self, call: list[Entry], going: list[Entry]) -> None:
        """Entries of one call go on or are held, all of them."""
        for entry in call:
            if not self._goes(entry):
                break
        else:
            going.extend(call)
            return
        for entry in call:
            if entry.kind == FACT or entry.kind == FACT_DISCARDED or (entry.unit is not None and entry.unit.unit.facts):
                self._holds_facts = True
        self._held.extend(call)

    def _goes(self, entry: Entry) -> bool:
        """Whether it may be written before everything that is held."""
        kind = entry.kind
        if kind == REMOVAL:
            return entry.location != GONE  # else its message is held
        if kind == UNIT:
            return entry.unit is not None and entry.unit.frees_room()
        if kind == REDELIVERY:
            waiting = entry.owner.unwritten.get(entry.sequence)
            return (waiting is None or waiting.handed_over) and not entry.owner.arrives(entry.sequence)
        if kind == FACT or kind == FACT_DISCARDED:
            if entry.table == PRODUCER_AUDIT and self._held:
                return False  # it says that the held messages are on the disk
            return not self._holds_facts  # the last one under a key counts
        if kind == DESTINATION_REMOVED or kind == CLEAN_STOP:
            return not self._held  # nothing of its destination may follow it
        if kind == MESSAGE or kind == REFERENCE:
            return entry.owner.is_removed
        return kind == DESTINATION or kind == CANCELLED


def possible_segment(disk: Disk, size: int) -> int:
    """Makes the next segment's file, with ``size`` bytes or, on a disk that is nearly full, of the reserve, or half of
    that and so on down to `LEAST_SEGMENT`; gives the size. Raises `OSError` when there is no room for that either.
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
