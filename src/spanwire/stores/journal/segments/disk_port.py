"""The disk as the journal sees it: one flat directory of files. Real files stand in ``stores/disk.py``, a simulated
disk that loses unsynced writes in the tests.

What survives a power cut: the bytes of a file after `Disk.sync` of that file, its name, size and absence after
`Disk.sync_directory`. Nothing else, and in any order. All methods raise `OSError`.
"""

from __future__ import annotations

import errno
from typing import Final, Protocol

DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)  # of the errors, those that room would cure


class Disk(Protocol):
    """One directory of segment files. Blocks; called from the writer and reader threads and during recovery only."""

    def files(self) -> dict[str, int]:
        """The size in bytes of every file by name."""
        ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """At most ``length`` bytes; fewer at the end of the file."""
        ...

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        """Write the parts one after the other, all of them or raise."""
        ...

    def resize(self, name: str, size: int) -> None:
        """Cut the file to ``size``, or fill it up with zeros that take their place on the disk now; creates it."""
        ...

    def sync(self, name: str) -> None:
        """Return when the file's bytes are on the disk. After an error nothing may be assumed of them."""
        ...

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name."""
        ...

    def delete(self, name: str) -> None:
        """Remove a file."""
        ...

    def sync_directory(self) -> None:
        """Return when all creations, renames and deletions are on the disk."""
        ...
