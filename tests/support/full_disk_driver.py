"""A journal on a simulated disk that is really full, with what the writer thread does there, done by the test."""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.segments.disk_port import DISK_FULL
from spanwire.stores.journal.spare_files import SpareFiles
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver

MANY: Final = 10_000  # turns in which something must have come to its end


class FullDiskDriver(JournalDriver):
    """``turn`` writes, compacts, makes files ahead and tells the journal of the room, until nothing happens any more.

    Without ``has_reserve`` nothing is kept for a full disk.
    """

    def __init__(self, disk: SimulatedDisk, segment_bytes: int, has_reserve: bool = True) -> None:
        self.has_reserve: Final = has_reserve
        self.was_full = False
        super().__init__(disk, segment_bytes)

    def _open(self) -> None:
        super()._open()
        self.files = SpareFiles(self.disk, True)
        self._told = (0, True)
        self.store.space_changed(0, True)

    def turn(self) -> None:
        for _ in range(MANY):
            moved = self.scan_one()
            batch = self.write_one()
            if batch is not None and batch.new_segment is not None:
                self.files.taken()
                self._told = (0, self._told[1])
            if not self._look_for_room() and batch is None and not moved:
                self.answer_fetches()
                return
        raise AssertionError("the journal does not come to rest")

    def _look_for_room(self) -> bool:
        """Whether there was something to tell."""
        files = self.files
        files.spare_target = max(self.store.wanted_spare, files.ready_bytes and files.spare_target)
        files.reserve_target = self.store.wanted_reserve if self.has_reserve else 0
        room = True
        try:
            while not files.is_ready:
                files.grow(not self._told[1])
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            files.use_reserve()
            room = False
            self.was_full = True
        told = (files.ready_bytes if files.spare_target else files.spare_bytes, room)
        if told == self._told:
            return False
        self._told = told
        self.store.space_changed(*told)
        return True

    @property
    def has_room(self) -> bool:
        """Whether messages are taken."""
        return self.store.has_room()
