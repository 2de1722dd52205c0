"""The file of a decision log: read, appended with a sync, and replaced as a whole."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final, Protocol

from spanwire.model.errors import StoreError

FILE: Final = "decisions.log"
NEW_FILE: Final = "decisions.new"
LOCK: Final = "lock"
PRIVATE: Final = 0o600


class LogStorage(Protocol):
    """A file with a longer life than the process. Methods raise `OSError`, or `StoreError`."""

    def open(self) -> bytes | None:
        """Exclude other processes, and return the content; None for a missing file."""
        ...

    def append(self, octets: bytes) -> None:
        """Write behind the content, and return when the disk has it. After an error a part may be there."""
        ...

    def replace(self, octets: bytes) -> None:
        """Replace the content, and return when the disk has the content.

        After an error the old or the new content is there.
        """
        ...

    def close(self) -> None:
        """Let other processes in."""
        ...


class LogFile:
    """A decision log in a directory of its own, with a lock against a second process."""

    def __init__(self, directory: Path) -> None:
        self.path: Final[Path] = directory / FILE
        self._directory: Final[Path] = directory
        self._lock: int | None = None
        self._file: int | None = None

    def open(self) -> bytes | None:
        """Create the directory, take the lock and read."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._lock is None:
            self._lock = os.open(self._directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock)
                self._lock = None
                raise StoreError(
                    f"{self._directory}: another process runs bridges with this log of decisions; stop it, or name "
                    "another directory"
                ) from None
        return read_content(self.path)

    def append(self, octets: bytes) -> None:
        """Write at the end, and sync."""
        assert self._file is not None, "a log is replaced before its first record"
        _write_all(self._file, octets)

    def replace(self, octets: bytes) -> None:
        """Write a new file, sync and rename."""
        self._close_file()
        new = self._directory / NEW_FILE
        self._file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
        _write_all(self._file, octets)
        new.rename(self.path)
        directory = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Close the file, and release the lock."""
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_content(path: Path) -> bytes | None:
    """Return the content of a file, None for a missing file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write_all(file: int, octets: bytes) -> None:
    rest = memoryview(octets)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)
