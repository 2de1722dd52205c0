"""The data directory: created with mode 0700, and locked for one broker.

Foreign write access is checked.

| state | result |
|---|---|
| all users may write to the directory, or another user owns the directory | refused |
| the group may write to the directory | a warning |
| another user owns the directory and this process is root's | a warning: new files belong to root |
| the directory, or ``journal`` in the directory, is a symbolic link to a directory | followed |
| the lock or a journal file is a symbolic link | refused |
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.lock_file import (
    LOCK_DRAFT,
    LOCK_MODE,
    LOCK_NAME,
    UNKNOWN,
    LockHolder,
    holder_in,
    holder_of,
    own_text,
)

logger: Final = logging.getLogger(__name__)

DIRECTORY_MODE: Final = 0o700
MAX_REPLACED: Final = 10  # attempts to lock a file that another process replaces meanwhile
IN_USE: Final = (errno.EAGAIN, errno.EACCES)  # the errors of flock(2) for a locked file; NFS returns EACCES
ADVICE: Final = {
    errno.EMFILE: "allow this user more open files (ulimit -n)",
    errno.ENFILE: "the system has no more open files to give",
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room in this user's quota",
    errno.EROFS: "mount its file system for writing, or name another directory",
    errno.EACCES: "give this user the right to read and write it, or name another directory",
    errno.EPERM: "give this user the right to read and write it, or name another directory",
    errno.ELOOP: "put the file itself in the place of the symbolic link",
    errno.ENOTDIR: "name a directory",
}


class RightsFault(Enum):
    """A fault of the owner and mode of a directory; the first two are refused, the others a warning."""

    OWNER = "another user owns it"
    EVERYBODY = "all users may write to it"
    OWNER_OF_ROOT = "another user owns it, and the broker is root's"
    GROUP = "its group may write to it"


class DirectoryInUseError(StoreError):
    """Raised for a data directory locked by another broker; ``holder`` is the other broker."""

    def __init__(self, path: Path, holder: LockHolder) -> None:
        super().__init__(f"the data directory {path} is in use{_user_of(holder)}")
        self.path: Final = path
        self.holder: Final = holder


class DataDirectory:
    """A data directory and the lock. The operating system releases the lock at the end of the process."""

    def __init__(self, path: Path, *, needs_lock: bool = True, replaces_lock: bool = False) -> None:
        """Create and lock ``path``.

        Without ``needs_lock`` a file system without locks is no obstacle; a lock held by another broker is an obstacle.
        With ``replaces_lock`` a new file takes the place of the lock file held by another broker, and the other broker
        ends at the next look.

        Raises:
            DirectoryInUseError: another broker uses the directory.
            StoreError: the directory is unusable.
        """
        self.path: Final = path
        self.predecessor: LockHolder = UNKNOWN  # the holder that ended without releasing the lock
        self._needs_lock: Final = needs_lock
        self._descriptor = -1
        _create_directory(path, "the data directory", parents=True)
        if replaces_lock:
            self._replace()
            return
        for _ in range(MAX_REPLACED):
            self._open()
            self._lock()
            if self.is_held():
                break
            self.release()  # another process has replaced the file between both calls
        else:
            raise StoreError(f"{path / LOCK_NAME} is replaced again and again; find the program that does so")
        self._sign()

    def is_held(self) -> bool:
        """Return True unless the lock file was removed or replaced, so that another broker could lock its own.

        Raises:
            OSError: the file system does not answer.
        """
        try:
            named, held = os.stat(self.path / LOCK_NAME, follow_symlinks=False), os.fstat(self._descriptor)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)

    def subdirectory(self, name: str) -> Path:
        """Return a directory in the data directory, created if missing.

        Raises:
            StoreError: the directory cannot be created or used. The lock is released.
        """
        path = self.path / name
        try:
            _create_directory(path, "the directory", parents=False)
        except StoreError:
            self.release()
            raise
        return path

    def release(self) -> None:
        """Let another broker use the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _replace(self) -> None:
        """Lock a new file, and rename the new file to the lock file. Raises `StoreError`."""
        lock, draft = self.path / LOCK_NAME, self.path / LOCK_DRAFT
        self.predecessor = holder_of(self.path)
        try:
            draft.unlink(missing_ok=True)
            self._descriptor = os.open(
                draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, LOCK_MODE
            )
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(OSError):  # on a full disk nobody can tell who has it
                os.write(self._descriptor, own_text())
            os.replace(draft, lock)
        except OSError as error:
            self.release()
            raise StoreError(
                f"{lock} cannot be replaced: {error.strerror}; {advice(error, 'look at the directory')}"
            ) from error

    def _open(self) -> None:
        lock = self.path / LOCK_NAME
        try:
            self._descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, LOCK_MODE)
        except OSError as error:
            raise StoreError(
                f"{lock} cannot be opened: {error.strerror}; {advice(error, 'look at the directory')}"
            ) from error

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in IN_USE:
                holder = holder_in(self._descriptor)
                self.release()
                raise DirectoryInUseError(self.path, holder) from error
            if not self._needs_lock:
                logger.warning(
                    "the data directory %s cannot be locked: %s; nothing keeps a second broker out of it",
                    self.path,
                    error.strerror,
                )
                return
            self.release()
            raise StoreError(
                f"the data directory {self.path} cannot be locked: {error.strerror}; name a directory on a disk of"
                " this machine"
            ) from error

    def _sign(self) -> None:
        """Write the process into the lock file, and keep the earlier holder."""
        self.predecessor = holder_in(self._descriptor)
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, own_text(), 0)
        except OSError as error:
            logger.warning(
                "%s cannot be written: %s; nobody can tell who uses the directory",
                self.path / LOCK_NAME,
                error.strerror,
            )


def advice(error: OSError, otherwise: str) -> str:
    """Return the advice for an operator about ``error``."""
    return ADVICE.get(error.errno or 0, otherwise)


def _user_of(holder: LockHolder) -> str:
    """Return the owner of the lock and advice, as the end of an error text."""
    if not holder.process:
        return " by another broker: stop that broker or give this one another directory"
    if holder.is_elsewhere:
        return f" by {holder}: stop the broker on the machine where it runs, or have the file system give up its lock"
    return f" by {holder}: stop that broker or give this one another directory"


def _create_directory(path: Path, what: str, parents: bool) -> None:
    try:
        path.mkdir(mode=DIRECTORY_MODE, parents=parents, exist_ok=True)
    except FileExistsError as error:
        raise StoreError(f"{what} {path} cannot be used: it is a file; name a directory") from error
    except OSError as error:
        failed_path = error.filename or path
        raise StoreError(
            f"{what} {path} cannot be made: {failed_path}: {error.strerror}; {advice(error, 'name another directory')}"
        ) from error
    try:
        status = path.stat()
    except OSError as error:
        raise StoreError(
            f"{what} {path} cannot be used: {error.strerror}; {advice(error, 'name another directory')}"
        ) from error
    check_rights(path, what, status, os.geteuid())


def check_rights(path: Path, what: str, status: os.stat_result, user: int) -> None:
    """Check the owner and mode of the directory ``path``; log a warning about a group with write access.

    Raises:
        StoreError: users other than ``user`` can change the contents of the directory.
    """
    mode = stat.S_IMODE(status.st_mode)
    for fault in rights_faults(status.st_uid, mode, user):
        if fault is RightsFault.OWNER:
            raise StoreError(
                f"{what} {path} belongs to user {status.st_uid}, not to user {user} who runs the broker: run it as that"
                " user or change the owner"
            )
        if fault is RightsFault.EVERYBODY:
            raise StoreError(
                f"{what} {path} can be written by everybody (mode {mode:o}): run chmod o-w {path}, or name a"
                " directory in it"
            )
        if fault is RightsFault.OWNER_OF_ROOT:
            logger.warning(
                "%s %s belongs to user %d; what this broker makes there belongs to root: run it as that user or change "
                "the owner",
                what,
                path,
                status.st_uid,
            )
        else:
            logger.warning("%s %s can be written by its group (mode %o): run chmod g-w %s", what, path, mode, path)


def rights_faults(owner: int, mode: int, user: int) -> list[RightsFault]:
    """Return the faults in owner and mode of a directory for a broker of ``user``."""
    faults = []
    if owner not in (user, 0):
        faults.append(RightsFault.OWNER if user != 0 else RightsFault.OWNER_OF_ROOT)
    if mode & stat.S_IWOTH:
        faults.append(RightsFault.EVERYBODY)
    elif mode & stat.S_IWGRP:
        faults.append(RightsFault.GROUP)
    return faults
