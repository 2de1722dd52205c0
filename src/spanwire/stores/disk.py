"""Real files behind the journal's `Disk` port.

Each instance keeps its own descriptors, so the writer and the reader thread have one each and share nothing. Files are
made with mode 0600. Linux: pwritev and fdatasync, or both in one call (RWF_DSYNC, pwritev(2)); macOS: F_FULLFSYNC,
because its fsync stops at the drive's cache.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from spanwire.stores.journal.segments.whole_write import MAX_PARTS_PER_WRITE, fill, write_whole

if sys.platform == "darwin":
    import fcntl

MAX_OPEN_FILES: Final = 8  # descriptors one instance keeps; a drain reads one or two segments at a time
FILE_MODE: Final = 0o600
WRITE_THROUGH: Final[int] = getattr(os, "RWF_DSYNC", 0)
NO_WRITE_THROUGH: Final = (errno.EOPNOTSUPP, errno.ENOSYS)  # what a kernel or file system without it says
NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


class FileDisk:
    """The files of one directory; does what `Disk` says. Not for use by two threads at a time.

    With ``write_through`` a write to a file that has nothing unsynced is synced by the same system call, so that the
    `sync` that follows finds nothing to do: one way into the kernel and back for each batch instead of two.
    """

    def __init__(self, directory: Path, write_through: bool = False) -> None:
        self._directory: Final = directory
        self._flags = WRITE_THROUGH if write_through else 0
        self._descriptors: dict[str, int] = {}
        self._own = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        self._reserve = os.dup(self._own)  # given up for a file when the process may open no other; -1 then
        self._synced: Final[set[str]] = set()  # files of which nothing was written since their last sync

    def files(self) -> dict[str, int]:
        with os.scandir(self._directory) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file(follow_symlinks=False)}

    def read(self, name: str, offset: int, length: int) -> bytes:
        descriptor = self._open(name)
        if os.fstat(descriptor).st_nlink == 0:
            self._close(name)
            raise FileNotFoundError(2, "the file was deleted", name)
        data = os.pread(descriptor, length, offset)
        if len(data) == length:
            return data
        chunks = [data]  # the kernel gives at most 2 GiB at a time
        while chunks[-1]:
            offset += len(chunks[-1])
            length -= len(chunks[-1])
            chunks.append(os.pread(descriptor, length, offset))
        return b"".join(chunks)

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        if len(parts) > MAX_PARTS_PER_WRITE or not self._flags:
            self._synced.discard(name)
        write_whole(self, name, offset, parts)

    def write_some(self, name: str, offset: int, parts: list[bytes] | list[memoryview]) -> int:
        """See `PartWriter.write_some`."""
        descriptor = self._open(name)
        if name in self._synced:
            try:
                return os.pwritev(descriptor, parts, offset, self._flags)
            except OSError as error:
                if error.errno not in NO_WRITE_THROUGH:
                    raise
                self._flags = 0  # nothing was written; from now on each sync is a call
                self._synced.discard(name)
        return os.pwritev(descriptor, parts, offset)

    def resize(self, name: str, size: int) -> None:
        self._synced.discard(name)
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            descriptor = self._keep(name, os.O_RDWR | os.O_CREAT)
        end = os.fstat(descriptor).st_size
        if size < end:
            os.ftruncate(descriptor, size)
        fill(self, name, end, size)

    def sync(self, name: str) -> None:
        if name in self._synced:
            return
        descriptor = self._open(name)
        if sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(descriptor)
        self._synced.add(name)

    def rename(self, name: str, new_name: str) -> None:
        os.rename(self._directory / name, self._directory / new_name)
        self._close(new_name)  # what it was is gone
        self._synced.discard(new_name)
        if name in self._synced:
            self._synced.remove(name)
            self._synced.add(new_name)
        descriptor = self._descriptors.pop(name, None)
        if descriptor is not None:
            self._descriptors[new_name] = descriptor

    def delete(self, name: str) -> None:
        self._close(name)
        self._synced.discard(name)
        os.unlink(self._directory / name)

    def sync_directory(self) -> None:
        os.fsync(self._own)

    def close(self) -> None:
        """Give all descriptors back."""
        for descriptor in (*self._descriptors.values(), self._reserve, self._own):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptors = {}
        self._reserve = self._own = -1

    def _open(self, name: str) -> int:
        descriptor = self._descriptors.get(name)
        return self._keep(name, os.O_RDWR) if descriptor is None else descriptor

    def _keep(self, name: str, flags: int) -> int:
        while len(self._descriptors) >= MAX_OPEN_FILES:
            self._close(next(iter(self._descriptors)))
        descriptor = self._opened(name, flags | os.O_NOFOLLOW)
        self._descriptors[name] = descriptor
        return descriptor

    def _opened(self, name: str, flags: int) -> int:
        """A new descriptor. Clients may hold all that the process can have: then one of the own ones must do."""
        try:
            return os.open(self._directory / name, flags | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS or not self._give_one_up():
                raise
        return os.open(self._directory / name, flags | os.O_CLOEXEC, FILE_MODE)

    def _give_one_up(self) -> bool:
        if self._reserve < 0 and not self._descriptors:
            return False
        descriptor, self._reserve = self._reserve, -1
        os.close(descriptor if descriptor >= 0 else self._descriptors.pop(next(iter(self._descriptors))))
        return True

    def _close(self, name: str) -> None:
        descriptor = self._descriptors.pop(name, None)
        if descriptor is None:
            return
        os.close(descriptor)
        if self._reserve < 0:
            with suppress(OSError):  # another one took it: the next file is opened in the place of one of the own
                self._reserve = os.dup(self._own)
