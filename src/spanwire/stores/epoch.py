"""The epoch of a store shared by several brokers: the owner, and the time since its last sign.

    DIRECTORY/journal/epoch      "EPOCH PID HOST TOKEN RENEWALS HOLDER", replaced by each broker that takes the store
    DIRECTORY/takeover           locked by a broker while it takes the store

The broker with the token in the file owns the store, as long as the file has its name. The owner writes a higher count
of renewals again and again: the *lease*. Another broker may replace the file after a standstill of the count for the
time of a lease; the old owner finds the replacement at a look (`Epoch.check`). A look follows each sync and precedes
each answer. ``docs/internals/adr/0019-epochs.md`` has the proof: no acknowledged message is lost then.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from spanwire.model.errors import FencedError, StoreError
from spanwire.stores.lock_file import LOCK_MODE, LockHolder, host_name

EPOCH_NAME: Final = "epoch"
DRAFT_NAME: Final = "epoch.new"
TAKE_OVER_NAME: Final = "takeover"
TOKEN_BYTES: Final = 8  # octets of chance: no two brokers have the same token, whatever became of the file
COUNT_DIGITS: Final = 12  # renewals; one each millisecond for thirty years
GIVEN_UP: Final = 10**COUNT_DIGITS - 1  # the count in the file of a broker that has ended in order
MAX_EPOCH_BYTES: Final = 800  # bytes read of the file: host and holder have at most 255 each
HOLDER_ID: Final = re.compile(r"[\w.:@-]{1,255}", re.ASCII)
EPOCH: Final = re.compile(
    r"(\d{1,18}) (\d{1,10}) ([\w.-]{1,255}) ([0-9a-f]{16}) (\d{1,18}) ([\w.:@-]{1,255})", re.ASCII
)
NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
GONE: Final = (errno.ENOENT, errno.ESTALE)  # the second by NFS, for a replaced file


class EpochText(NamedTuple):
    """The contents of an epoch file; ``number`` is 0 without a readable file.

    After an orderly end of its broker an epoch is ``given_up``: the epoch never expires, the lock alone counts.
    """

    number: int
    holder: LockHolder
    holder_id: str
    given_up: bool = False

    def __str__(self) -> str:
        """Return the owner for a line of text."""
        return f"{self.holder_id} ({self.holder})"


NO_EPOCH: Final = EpochText(0, LockHolder(0, ""), "")


class Epoch:
    """The epoch of the broker, from `claim_epoch` on.

    ``token`` is part of the names of the broker's own files.
    """

    def __init__(self, path: Path, number: int, token: str, holder_id: str) -> None:
        self.path: Final = path
        self.number: Final = number
        self.token: Final = token
        self._mark: Final = f"{number} {os.getpid()} {host_name()} {token} ".encode("ascii")
        self._holder_id: Final = holder_id
        self._renewals = 0
        self._file = (0, 0)
        self._descriptor = -1

    def text(self) -> bytes:
        """Return the contents of the file for the present count of renewals."""
        return self._mark + f"{self._renewals:0{COUNT_DIGITS}} {self._holder_id}\n".encode("ascii")

    def own(self, descriptor: int) -> None:
        """Note the broker's own epoch file, and keep the file's ``descriptor`` open until `close`.

        An open file keeps its inode number, also without a name, so that no later epoch's file gets the same number.
        """
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        self._file = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Close the file. The broker no longer owns the store."""
        self._file = (0, 0)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def check(self) -> None:
        """Return normally if the broker still owns the store.

        The file is opened by name each time, so NFS asks the server.

        Raises:
            FencedError: another broker has taken over the store.
            StoreError: the file cannot be read, so the owner is unknown.
        """
        try:
            found = self._read(os.O_RDONLY)
        except OSError as error:
            raise self._unreadable(error) from error
        if not found:
            raise self._fenced()

    def renew(self) -> None:
        """Write a higher count of renewals.

        Raises:
            FencedError: another broker has taken over the store.
            OSError: the file cannot be written; the lease runs out unless a later call succeeds.
        """
        self._renewals += 1
        if not self._read(os.O_RDWR):
            raise self._fenced()

    def give_up(self) -> None:
        """Write the end of the broker, unless another broker has taken over the store.

        An error has no effect.
        """
        self._renewals = GIVEN_UP
        with suppress(OSError):
            self._read(os.O_RDWR)

    def _read(self, flags: int) -> bool:
        """Return True for the broker's own file; with ``O_RDWR`` write the count into the same file."""
        try:
            descriptor = os.open(self.path, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno in GONE:
                return False
            if error.errno in NO_DESCRIPTORS and flags == os.O_RDONLY:
                return self._is_named()
            raise
        try:
            if not os.pread(descriptor, MAX_EPOCH_BYTES, 0).startswith(self._mark):
                return False
            if flags != os.O_RDONLY:
                os.pwrite(descriptor, self.text(), 0)
        finally:
            os.close(descriptor)
        return True

    def _is_named(self) -> bool:
        """Return True if the broker's file still has its name; for a process without free descriptors.

        The descriptor of `own` keeps the file's inode number from a later epoch's file.
        """
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._file

    def _fenced(self) -> FencedError:
        owner = epoch_in(read_epoch(self.path.parent))
        by = f"{owner} has taken over the store with epoch {owner.number}" if owner.number else "the epoch file is gone"
        return FencedError(
            f"{by}; this broker held epoch {self.number}, acknowledges and writes nothing more, and ends"
        )

    def _unreadable(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self.path} cannot be read: {error.strerror or error}; nothing is acknowledged any more, because another"
            " broker may have taken over the store; look at the file system and start the broker again"
        )


class TakeOverLock:
    """Keeps other brokers from taking the store at the same time: a context, True with the lock."""

    def __init__(self, directory: Path) -> None:
        self._path: Final = directory / TAKE_OVER_NAME
        self._descriptor = -1

    def __enter__(self) -> bool:
        """Return False while another broker takes the store.

        Raises:
            StoreError: the file cannot be opened or locked.
        """
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, LOCK_MODE)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.__exit__()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise StoreError(f"{self._path} cannot be locked: {error.strerror}; look at the directory") from error
        return True

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_epoch(journal: Path) -> bytes:
    """Return the contents of the epoch file in the directory ``journal``; b"" without a readable file."""
    try:
        descriptor = os.open(journal / EPOCH_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, MAX_EPOCH_BYTES, 0)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def epoch_in(text: bytes) -> EpochText:
    """Return the epoch of a file's contents; `NO_EPOCH` for other contents."""
    found = EPOCH.fullmatch(text.decode("ascii", "replace").strip())
    if found is None:
        return NO_EPOCH
    return EpochText(int(found[1]), LockHolder(int(found[2]), found[3]), found[6], int(found[5]) == GIVEN_UP)


def claim_epoch(journal: Path, holder_id: str) -> Epoch:
    """Make the broker the owner of the store in ``journal``.

    The old owner finds the change at the next look. The caller holds the `TakeOverLock`, and closes the epoch at the
    end of the use. The file is on the disk before the store is read.

    Raises:
        StoreError: the file cannot be written.
    """
    number = epoch_in(read_epoch(journal)).number + 1
    path = journal / EPOCH_NAME
    epoch = Epoch(path, number, secrets.token_hex(TOKEN_BYTES), holder_id)
    draft = journal / DRAFT_NAME
    try:
        descriptor = _open_draft(draft)
        epoch.own(descriptor)
        os.pwrite(descriptor, epoch.text(), 0)  # over the bytes of `_prepare_draft`, which have room on a full disk
        os.ftruncate(descriptor, len(epoch.text()))
        os.fsync(descriptor)
        os.replace(draft, path)
        sync_directory(journal)
    except OSError as error:
        epoch.close()
        raise StoreError(
            f"{path} cannot be written: {error.strerror or error}; make room or look at the directory, or remove"
            " lease-database-locker"
        ) from error
    _prepare_draft(draft)
    return epoch


def _open_draft(draft: Path) -> int:
    """Return a descriptor of the draft, created if missing. Raises OSError."""
    return os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, LOCK_MODE)


def _prepare_draft(draft: Path) -> None:
    """Make the file for the next claim while the disk has room."""
    with suppress(OSError):
        descriptor = _open_draft(draft)
        try:
            os.pwrite(descriptor, b"\n" * MAX_EPOCH_BYTES, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def forget_epoch(journal: Path) -> bool:
    """Remove the epoch file: the store has an owner without a lease from now on.

    Returns False if there is no such file. Raises OSError.
    """
    path = journal / EPOCH_NAME
    if not path.exists():
        return False
    path.unlink()
    (journal / DRAFT_NAME).unlink(missing_ok=True)
    sync_directory(journal)
    return True


def sync_directory(path: Path) -> None:
    """Return when the names in a directory are on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LeaseWatch:
    """Watches the epoch file of another broker; times are monotonic seconds of the process."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s: Final = lease_s
        self._text = b""
        self._since = 0.0

    def expired(self, text: bytes, now: float) -> bool:
        """Take the present contents of the file. Return True for the same contents over the time of a lease.

        A missing or foreign file never expires: the file's broker has no lease. An epoch that was given up never
        expires.
        """
        if text != self._text:
            self._text = text
            self._since = now
        epoch = epoch_in(text)
        return now - self._since >= self._lease_s and epoch.number > 0 and not epoch.given_up
