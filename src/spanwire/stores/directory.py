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
from pathlib import Path
from typing import Final

from spanwire.model.errors import StoreError

logger: Final = logging.getLogger(__name__)

DIRECTORY_MODE: Final = 0o700
LOCK_MODE: Final = 0o600
LOCK_NAME: Final = "lock"
MAX_PID_BYTES: Final = 32
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


class DataDirectory:
    """A data directory and its lock. The operating system releases the lock when the process ends."""

    def __init__(self, path: Path) -> None:
        """Create and lock ``path``.

        Raises:
            StoreError: the directory is unusable, or another broker uses it.
        """
        self.path: Final = path
        self._descriptor = -1
        _create_directory(path, "the data directory", parents=True)
        try:
            self._descriptor = os.open(
                path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, LOCK_MODE
            )
        except OSError as error:
            raise StoreError(
                f"{path / LOCK_NAME} cannot be opened: {error.strerror}; {advice(error, 'look at the directory')}"
            ) from error
        self._lock()

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

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid_text = os.pread(self._descriptor, MAX_PID_BYTES, 0).decode("ascii", "replace").strip()
            self.release()
            if error.errno not in IN_USE:
                raise StoreError(
                    f"the data directory {self.path} cannot be locked: {error.strerror}; name a directory on a disk of"
                    " this machine"
                ) from error
            raise StoreError(f"the data directory {self.path} is in use{_user_of(pid_text)}") from error
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        except OSError as error:
            logger.warning(
                "%s cannot be written: %s; nobody can tell who uses the directory",
                self.path / LOCK_NAME,
                error.strerror,
            )


def advice(error: OSError, otherwise: str) -> str:
    """Return the advice for an operator about ``error``."""
    return ADVICE.get(error.errno or 0, otherwise)


def _user_of(pid_text: str) -> str:
    """Return the owner of the lock and advice, as the end of an error text."""
    if not pid_text.isdigit():
        return " by another broker: stop that broker or give this one another directory"
    if _is_running(int(pid_text)):
        return f" by process {pid_text}: stop that broker or give this one another directory"
    return (
        f" by process {pid_text}, which does not run on this machine: stop the broker on the machine where it runs, or"
        " have the file system give up its lock"
    )


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # the process belongs to another user
    return True


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
    if status.st_uid not in (user, 0):
        if user != 0:
            raise StoreError(
                f"{what} {path} belongs to user {status.st_uid}, not to user {user} who runs the broker: run it as that"
                " user or change the owner"
            )
        logger.warning(
            "%s %s belongs to user %d; what this broker makes there belongs to root", what, path, status.st_uid
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & stat.S_IWOTH:
        raise StoreError(
            f"{what} {path} can be written by everybody (mode {mode:o}): run chmod o-w {path}, or name a"
            " directory in it"
        )
    if mode & stat.S_IWGRP:
        logger.warning("%s %s can be written by its group (mode %o): run chmod g-w %s", what, path, mode, path)
