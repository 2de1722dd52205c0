"""The lock file of a data directory: the holder, and the marker of waiting brokers.

    DIRECTORY/lock       locked by the broker that uses the directory; holds "PID HOST"
    DIRECTORY/standby    locked, shared, by each broker that waits for ``lock``

The operating system releases both kinds of lock at the end of a process, however the process ends. The text in a lock
file is for people: only the lock itself decides.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

LOCK_NAME: Final = "lock"
LOCK_DRAFT: Final = "lock.new"
STANDBY_NAME: Final = "standby"
LOCK_MODE: Final = 0o600
MAX_HOLDER_BYTES: Final = 320  # bytes read of a lock file; a host name has at most 255
NO_HOST_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")  # characters that no lock file has in the name of a host
HOLDER: Final = re.compile(r"(\d{1,10})(?: ([A-Za-z0-9._-]{1,255}))?")


class LockHolder(NamedTuple):
    """The holder of a lock, as named in the lock file.

    ``process`` is 0 for a file without a number; ``host`` is empty in a file of an earlier version.
    """

    process: int
    host: str

    @property
    def is_elsewhere(self) -> bool:
        """Return True if the holder runs on another machine."""
        if self.host and self.host != host_name():
            return True
        return self.process > 0 and not _is_running(self.process)

    def __str__(self) -> str:
        """Return the holder for a line of text."""
        if not self.process:
            return "another program"
        if self.host and self.host != host_name():
            return f"process {self.process} on {self.host}"
        where = ", which does not run on this machine" if self.is_elsewhere else ""
        return f"process {self.process}{where}"


UNKNOWN: Final = LockHolder(0, "")


def host_name() -> str:
    """Return the name of the machine as in a lock file and in an epoch."""
    return NO_HOST_NAME.sub("-", os.uname().nodename) or "unknown"


def own_text() -> bytes:
    """Return the contents of the process's lock file."""
    return f"{os.getpid()} {host_name()}\n".encode("ascii")


def holder_in(descriptor: int) -> LockHolder:
    """Return the holder named in an open lock file; `UNKNOWN` for an unreadable or foreign file."""
    try:
        text = os.pread(descriptor, MAX_HOLDER_BYTES, 0).decode("ascii", "replace").strip()
    except OSError:
        return UNKNOWN
    named = HOLDER.fullmatch(text)
    return UNKNOWN if named is None else LockHolder(int(named[1]), named[2] or "")


def holder_of(directory: Path) -> LockHolder:
    """Return the holder named in the lock file of ``directory``; `UNKNOWN` without a readable file."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return UNKNOWN
    try:
        return holder_in(descriptor)
    finally:
        os.close(descriptor)


class StandbyMarker:
    """The marker of a waiting broker of a directory, until `withdraw` or the end of the process."""

    def __init__(self, directory: Path) -> None:
        self._path: Final = directory / STANDBY_NAME
        self._descriptor = -1

    def set(self) -> None:
        """Set the marker, unless set already. After a failure the next call tries again."""
        if self._descriptor >= 0:
            return
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, LOCK_MODE)
        except OSError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return
        self._descriptor = descriptor

    def withdraw(self) -> None:
        """Remove the marker. May be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def has_standby(directory: Path) -> bool:
    """Return True if a broker waits for ``directory``, on whichever machine."""
    try:
        descriptor = os.open(directory / STANDBY_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # the process belongs to another user
    return True
