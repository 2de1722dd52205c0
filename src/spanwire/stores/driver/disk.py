"""The real files behind the journal's `Disk` port.

Each instance has its own descriptors: the writer and the reader thread use one instance each and share nothing. New
files have mode 0600. On Linux a sync is pwritev and fdatasync, or both in one call (RWF_DSYNC, pwritev(2)). On macOS a
sync is F_FULLFSYNC, because fsync stops at the drive's cache.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.segment import SEGMENT_HEADER_SIZE, refuse_newer, segment_name, segment_number
from spanwire.stores.journal.segments.whole_write import MAX_PARTS_PER_WRITE, fill, write_whole

if sys.platform == "darwin":
    import fcntl

MAX_OPEN_FILES: Final = 8  # descriptors of one instance; a drain reads one or two segments at a time
FILE_MODE: Final = 0o600
WRITE_THROUGH: Final[int] = getattr(os, "RWF_DSYNC", 0)
NO_WRITE_THROUGH: Final = (errno.EOPNOTSUPP, errno.ENOSYS)  # errors of a kernel or file system without RWF_DSYNC
NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


class FileDisk:
    """Implements `Disk` for the files of one directory. Only one thread at a time may use an instance.

    With ``write_through``, a write to a file without unsynced bytes also syncs; the following `sync` then has no work.
    The flag saves one system call per batch.
    """

    def __init__(self, directory: Path, write_through: bool = False) -> None:
        self._directory: Final = directory
        self._flags = WRITE_THROUGH if write_through else 0
        self._descriptors: dict[str, int] = {}
        self._directory_descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        self._reserve = os.dup(self._directory_descriptor)  # closed to open a file at the limit of the process; then -1
        self._synced: Final[set[str]] = set()  # files without a write since the last sync

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
        chunks = [data]  # the kernel reads at most 2 GiB per call
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
                self._flags = 0  # no byte was written; from now on each sync is a call of its own
                self._synced.discard(name)
        return os.pwritev(descriptor, parts, offset)

    def resize(self, name: str, size: int) -> None:
        self._synced.discard(name)
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            descriptor = self._open_and_cache(name, os.O_RDWR | os.O_CREAT)
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
        self._close(new_name)  # the descriptor belongs to the replaced file
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
        os.fsync(self._directory_descriptor)

    def close(self) -> None:
        """Close all descriptors."""
        for descriptor in (*self._descriptors.values(), self._reserve, self._directory_descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptors = {}
        self._reserve = self._directory_descriptor = -1

    def _open(self, name: str) -> int:
        descriptor = self._descriptors.get(name)
        return self._open_and_cache(name, os.O_RDWR) if descriptor is None else descriptor

    def _open_and_cache(self, name: str, flags: int) -> int:
        while len(self._descriptors) >= MAX_OPEN_FILES:
            self._close(next(iter(self._descriptors)))
        descriptor = self._open_descriptor(name, flags | os.O_NOFOLLOW)
        self._descriptors[name] = descriptor
        return descriptor

    def _open_descriptor(self, name: str, flags: int) -> int:
        """Return a new descriptor.

        At the limit of the process, close another descriptor of this instance first.
        """
        try:
            return os.open(self._directory / name, flags | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS or not self._close_one():
                raise
        return os.open(self._directory / name, flags | os.O_CLOEXEC, FILE_MODE)

    def _close_one(self) -> bool:
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
            with suppress(OSError):  # without a spare descriptor `_open_descriptor` closes one of this instance
                self._reserve = os.dup(self._directory_descriptor)


def check_files(path: Path) -> None:
    """Check that all segments in ``path`` are regular files. A link may lead to a file of another user.

    Raises:
        StoreError: a segment is not a regular file.
    """
    with os.scandir(path) as entries:
        for entry in entries:
            if segment_number(entry.name) > 0 and not entry.is_file(follow_symlinks=False):
                raise StoreError(f"{entry.name} is no regular file: put the file itself in its place")


def refuse_newer_store(path: Path) -> None:
    """Check the format of the newest segment in ``path`` without the lock: a broker in wait must not take that store.

    A missing or unreadable file is no obstacle, because the owner may be at work.

    Raises:
        StoreError: a newer version has written the segment.
    """
    with suppress(OSError):
        newest = segment_name(max((segment_number(name) for name in os.listdir(path)), default=0))
        descriptor = os.open(path / newest, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            header = os.pread(descriptor, SEGMENT_HEADER_SIZE, 0)
        finally:
            os.close(descriptor)
        try:
            refuse_newer(newest, header)
        except StoreError as newer:
            raise StoreError(f"the store in {path} cannot be opened: {newer}") from newer
