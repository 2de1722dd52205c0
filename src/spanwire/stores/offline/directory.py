"""Finds the data directory of a stopped broker, and locks it against a start of the broker."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.directory import DataDirectory
from spanwire.stores.driver.journal_store import JOURNAL_DIRECTORY
from spanwire.stores.journal.segments.segment import segment_number
from spanwire.stores.lock_file import LOCK_NAME, holder_in
from spanwire.stores.offline.held_disk import HeldDisk
from spanwire.stores.offline.read_disk import ReadDisk

FOREIGN_STORE: Final = "db-*.log"  # KahaDB's journal files


class StoreInUseError(StoreError):
    """Raised if a broker uses a store that must not change."""


@contextmanager
def read_directory(path: Path) -> Iterator[Path]:
    """Lock the journal in ``path`` for reading. No byte is changed, not even in the lock file.

    Raises:
        StoreError: the directory has no journal; `StoreInUseError` if a broker uses it.
    """
    journal = _journal(path)
    try:
        descriptor = os.open(path / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield journal  # without a lock file it is a copy or a backup
        return
    except OSError as error:
        raise StoreError(f"{path / LOCK_NAME} cannot be opened: {error.strerror}; look at its rights") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreInUseError(
                f"the store in {path} is in use by {holder_in(descriptor)}: stop that broker first"
            ) from error
        yield journal
    finally:
        os.close(descriptor)


@contextmanager
def shared_directory(path: Path) -> Iterator[ReadDisk]:
    """Open the journal in ``path`` for reading; one that a broker uses as it is at this moment.

    Raises:
        StoreError: the directory has no journal.
    """
    with ExitStack() as stack:
        disk: ReadDisk
        try:
            disk = ReadDisk(stack.enter_context(read_directory(path)))
        except StoreInUseError:
            disk = HeldDisk(_journal(path))
        yield stack.enter_context(disk)


@contextmanager
def own_directory(path: Path, make: bool) -> Iterator[Path]:
    """Lock the journal in ``path`` for changes.

    With ``make`` the journal may be missing; the caller creates it.

    Raises:
        StoreError: the directory has no journal, or a broker uses it.
    """
    journal = path / JOURNAL_DIRECTORY if make and not (path / JOURNAL_DIRECTORY).exists() else _journal(path)
    locked = DataDirectory(path)
    try:
        yield journal
    finally:
        locked.release()


def _journal(path: Path) -> Path:
    """Return the directory with the segments.

    Raises:
        StoreError: ``path`` has no such directory.
    """
    if not path.is_dir():
        raise StoreError(f"{path} is no directory; name the data directory of a broker")
    journal = path / JOURNAL_DIRECTORY
    if journal.is_dir():
        return journal
    if any(segment_number(child.name) > 0 for child in path.iterdir()):
        raise StoreError(f"{path} is the inside of a store; name the directory above it, {path.parent}")
    if next(path.glob(FOREIGN_STORE), None) is not None:
        raise StoreError(f"{path} holds a KahaDB store of ActiveMQ, which this command does not read")
    below = sorted(child.parent for child in path.glob(f"*/{JOURNAL_DIRECTORY}"))
    hint = f"; there is one in {below[0]}" if below else ""
    raise StoreError(f"{path} holds no store (no directory {JOURNAL_DIRECTORY}){hint}")
