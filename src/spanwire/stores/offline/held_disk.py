"""The files of a store at one moment, held open during the work or the start of a broker."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.patches import PLAN_NAME
from spanwire.stores.journal.segments.segment import segment_number
from spanwire.stores.offline.read_disk import ReadDisk

TRIES: Final = 10  # a try fails when the broker deletes a segment meanwhile, which it does seconds apart
SPARE_DESCRIPTORS: Final = 64  # open files of the process beside the segments


class HeldDisk(ReadDisk):
    """Implements the journal's `Disk` for reading the segments of one moment.

    The protocol is `spanwire.stores.journal.segments.disk_port.Disk`. The broker appends to the last segment and
    deletes whole segments. So the segments up to the last one of a listing, each in the present length, are the state
    after a crash at the moment. An open file stays readable after a deletion.
    """

    def __init__(self, directory: Path) -> None:
        """Raises `StoreError` if the segments are too many to be open at once, or change without an end."""
        super().__init__(directory)
        for _ in range(TRIES):
            names = self._segments()
            _allow_open_files(len(names) + SPARE_DESCRIPTORS)
            try:
                for name in names:
                    self._descriptors[name] = self._open(name)
            except FileNotFoundError:
                self.close()
                continue
            if names == [name for name in self._segments() if name <= names[-1]]:
                break
            self.close()
        else:
            raise StoreError(f"the segments in {directory} change all the time: stop the broker for the export")
        self._sizes: Final = {name: os.fstat(descriptor).st_size for name, descriptor in self._descriptors.items()}
        if (directory / PLAN_NAME).exists():
            self._sizes[PLAN_NAME] = 0  # never read: a store with a repair to complete is refused

    def files(self) -> dict[str, int]:
        """Return the segments with their lengths at the beginning."""
        return dict(self._sizes)

    def _segments(self) -> list[str]:
        """Return the names in rising order. Raises `StoreError` without a name."""
        names = sorted(name for name in os.listdir(self._directory) if segment_number(name) > 0)
        if not names:
            raise StoreError(f"{self._directory} holds no segment yet")
        return names

    def _descriptor(self, name: str) -> int:
        return self._descriptors[name]


def _allow_open_files(count: int) -> None:
    """Raise the process's limit of open files. Raises `StoreError` if the system does not allow so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise StoreError(f"{count} files must be open at once and the system allows {hard}: stop the broker first")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
