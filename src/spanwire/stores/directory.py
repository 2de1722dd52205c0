"""The data directory: made with mode 0700, and locked so that only one broker uses it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from spanwire.model.errors import StoreError

DIRECTORY_MODE: Final = 0o700
LOCK_MODE: Final = 0o600
LOCK_NAME: Final = "lock"
MAX_PID_BYTES: Final = 32


class DataDirectory:
    """A directory that this process holds the lock of. The lock goes with the process, however that ends."""

    def __init__(self, path: Path) -> None:
        """Makes and locks ``path``; raises `StoreError` when it cannot be used or another broker uses it."""
        self.path: Final = path
        try:
            path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            self._descriptor = os.open(
                path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, LOCK_MODE
            )
        except OSError as error:
            raise StoreError(
                f"the data directory {path} cannot be used: {error.strerror}; make it a directory that this user may"
                " write to, or name another one"
            ) from error
        self._lock()

    def subdirectory(self, name: str) -> Path:
        """A directory in it, made if need be."""
        path = self.path / name
        try:
            path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        except OSError as error:
            self.release()
            raise StoreError(f"the directory {path} cannot be made: {error.strerror}") from error
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
            owner = os.pread(self._descriptor, MAX_PID_BYTES, 0).decode("ascii", "replace").strip()
            self.release()
            by = f" by process {owner}" if owner.isdigit() else " by another broker"
            raise StoreError(
                f"the data directory {self.path} is in use{by}: stop that broker or give this one another directory"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
