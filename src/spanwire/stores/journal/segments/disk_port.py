"""The port `Disk`: one flat directory of files. `spanwire.stores.driver.disk` has the real files.

A power cut keeps the bytes of a file as of the last `Disk.sync` of that file, and the names, sizes and deletions as of
the last `Disk.sync_directory`. All later changes may be lost, in any order. All methods raise `OSError`.
"""

from __future__ import annotations

import errno
from typing import Final, Protocol

DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)  # errors that end as soon as the disk has space


class Disk(Protocol):
    """One directory of segment files.

    Calls block; only the writer thread, the reader thread and recovery use it.
    """

    def files(self) -> dict[str, int]:
        """Return the size in bytes of every file by name."""
        ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return at most ``length`` bytes; fewer at the end of the file."""
        ...

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        """Write the parts one after the other. After a normal return all parts are written."""
        ...

    def resize(self, name: str, size: int) -> None:
        """Cut the file to ``size``, or append zeros and allocate their space on the disk.

        Creates a missing file.
        """
        ...

    def sync(self, name: str) -> None:
        """Return when the file's bytes are on the disk. After an error the bytes may be on the disk or lost."""
        ...

    def rename(self, name: str, new_name: str) -> None:
        """Give a file another name. An existing file of the new name is replaced."""
        ...

    def delete(self, name: str) -> None:
        """Remove a file."""
        ...

    def sync_directory(self) -> None:
        """Return when all creations, renames and deletions are on the disk."""
        ...
