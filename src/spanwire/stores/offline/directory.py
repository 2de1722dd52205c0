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
from spanwire.stores.epoch import EPOCH_NAME, TakeOverLock, forget_epoch
from spanwire.stores.journal.segments.segment import segment_number
from spanwire.stores.lock_file import LOCK_NAME, holder_in
from spanwire.stores.offline.held_disk import HeldDisk
from spanwire.stores.offline.read_disk import ReadDisk

FOREIGN_STORE: Final = "db-*.log"  # KahaDB's journal files


class StoreInUseError(StoreError):
    """Raised for a store in use by a broker, if the store must not change."""


class ReadLock:
    """The lock of a data directory for reading. No byte is changed, not even in the lock file."""

    def __init__(self, path: Path) -> None:
        """Raises `StoreInUseError` if a broker uses the store, or `StoreError`."""
        self._path: Final = path
        self._descriptor = -1  # without a lock file it is a copy or a backup
        try:
            self._descriptor = os.open(path / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return
        except OSError as error:
            if self._descriptor < 0:
                raise StoreError(
                    f"{path / LOCK_NAME} cannot be opened: {error.strerror}; look at its rights"
                ) from error
            holder = holder_in(self._descriptor)
            self.release()
            raise StoreInUseError(f"the store in {path} is in use by {holder}: stop that broker first") from error

    def check(self) -> None:
        """Raise `StoreInUseError` if a broker has taken the store since.

        A broker with a lease replaces the lock file.
        """
        held = os.fstat(self._descriptor) if self._descriptor >= 0 else None
        try:
            named = os.stat(self._path / LOCK_NAME, follow_symlinks=False)
        except FileNotFoundError:
            named = None
        if (named and (named.st_dev, named.st_ino)) != (held and (held.st_dev, held.st_ino)):
            raise StoreInUseError(
                f"a broker has taken the store in {self._path} meanwhile, and what was read may be wrong: stop that"
                " broker and run the command again"
            )

    def release(self) -> None:
        """Let a broker use the store."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OwnStore:
    """A store for changes by the process: ``journal`` has the segments."""

    def __init__(self, journal: Path, locked: DataDirectory) -> None:
        self.journal: Final = journal
        self._locked: Final = locked

    def check(self) -> None:
        """Raise `StoreInUseError` if a broker has taken the store since."""
        if not self._locked.is_held():
            raise StoreInUseError(
                f"a broker has taken the store in {self._locked.path} meanwhile, and nothing was changed: stop that"
                " broker and run the command again"
            )


@contextmanager
def read_directory(path: Path) -> Iterator[Path]:
    """Lock the journal in ``path`` for reading.

    Raises:
        StoreError: the directory has no journal; `StoreInUseError` if a broker uses, or begins to use, the directory.
    """
    journal = _journal(path)
    lock = ReadLock(path)
    try:
        yield journal
        lock.check()
    except Exception:
        lock.check()  # what looks like damage may be the work of a broker
        raise
    finally:
        lock.release()


@contextmanager
def shared_directory(path: Path) -> Iterator[ReadDisk]:
    """Open the journal in ``path`` for reading in the present state, also if a broker uses the journal.

    The lock is given back at once, so that a broker may start meanwhile.

    Raises:
        StoreError: the directory has no journal.
    """
    journal = _journal(path)
    disk: ReadDisk
    with ExitStack() as stack:
        try:
            lock = ReadLock(path)
        except StoreInUseError:
            disk = HeldDisk(journal)
        else:
            try:
                disk = HeldDisk(journal)
            except StoreError:  # there is no segment, or there are too many to be open at once
                lock.release()
                disk = ReadDisk(stack.enter_context(read_directory(path)))
            finally:
                lock.release()
        yield stack.enter_context(disk)


@contextmanager
def own_directory(path: Path, make: bool) -> Iterator[OwnStore]:
    """Lock the journal in ``path`` for changes, and end the lease of the last broker.

    No broker renews the lease now. With ``make`` the journal may be missing; the caller creates the journal.

    Raises:
        StoreError: the directory has no journal; `StoreInUseError` if a broker takes the directory at the moment.
        DirectoryInUseError: a broker uses the directory.
        OSError: the epoch cannot be removed.
    """
    journal = path / JOURNAL_DIRECTORY if make and not (path / JOURNAL_DIRECTORY).exists() else _journal(path)
    locked = DataDirectory(path)
    store = OwnStore(journal, locked)
    try:
        if (journal / EPOCH_NAME).exists():
            with TakeOverLock(path) as may_take:  # else a broker could replace the lock behind the look at it
                if not may_take:
                    raise StoreInUseError(f"a broker takes the store in {path} at this moment: stop that broker first")
                forget_epoch(journal)
        store.check()
        yield store
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
