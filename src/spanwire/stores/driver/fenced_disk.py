"""The files of a journal, if another broker may take over the store at any time.

Used only with a lease (`spanwire.stores.epoch`); every other broker has a plain `FileDisk`.

| what an old owner may do late | why it does no harm |
|---|---|
| write to its segment | the new owner's first segment has the old one's end; bytes behind it are not read |
| create, fill, cut or remove its next segment's file, its reserve or an unfinished summary | names with its token |
| make its next segment's file a segment | the new owner removes the file before a look for segments |
| delete a segment | only a segment dropped by a record on the disk before the take-over |
| answer | after a sync follows a look at the epoch, and only then an answer |
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from spanwire.stores.journal.recovery.summary import NEW_NAME
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.segment import RESERVE_NAME, SPARE_NAME

OWN_NAMES: Final = (SPARE_NAME, RESERVE_NAME, NEW_NAME)


class Files(Disk, Protocol):
    """A `Disk` with files to close, such as `FileDisk`."""

    def close(self) -> None:
        """Close all files."""
        ...


class Fence(Protocol):
    """Checks for the broker's ownership of the store, as `spanwire.stores.epoch.Epoch` does."""

    def check(self) -> None:
        """Raise `StoreError` if another broker has taken over the store."""
        ...


class FencedDisk:
    """Implements `Disk` with the files of another disk, and looks at the epoch after each sync and error."""

    def __init__(self, files: Files, fence: Fence, token: str) -> None:
        self._files: Final[Files] = files
        self._fence: Final[Fence] = fence
        self._own: Final[dict[str, str]] = {name: own_name(name, token) for name in OWN_NAMES}
        self._suffix: Final[str] = own_name("", token)

    def files(self) -> dict[str, int]:
        return {name.removesuffix(self._suffix): size for name, size in self._files.files().items()}

    def read(self, name: str, offset: int, length: int) -> bytes:
        try:
            return self._files.read(self._name(name), offset, length)
        except OSError:
            self._fence.check()
            raise

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        try:
            self._files.write(self._name(name), offset, parts)
        except OSError:
            self._fence.check()
            raise

    def resize(self, name: str, size: int) -> None:
        try:
            self._files.resize(self._name(name), size)
        except OSError:
            self._fence.check()
            raise

    def sync(self, name: str) -> None:
        try:
            self._files.sync(self._name(name))
        except OSError:
            self._fence.check()
            raise
        self._fence.check()

    def rename(self, name: str, new_name: str) -> None:
        try:
            self._files.rename(self._name(name), self._name(new_name))
        except OSError:
            self._fence.check()
            raise

    def delete(self, name: str) -> None:
        try:
            self._files.delete(self._name(name))
        except FileNotFoundError:
            self._fence.check()  # an old owner has deleted the segment that it had dropped
        except OSError:
            self._fence.check()
            raise

    def sync_directory(self) -> None:
        try:
            self._files.sync_directory()
        except OSError:
            self._fence.check()
            raise
        self._fence.check()

    def close(self) -> None:
        """Close all files."""
        self._files.close()

    def _name(self, name: str) -> str:
        return self._own.get(name, name)


def own_name(name: str, token: str) -> str:
    """Return the name of the file ``name`` of the broker with ``token``."""
    return f"{name}.{token}"


def remove_others_files(journal: Path, fence: Fence | None) -> None:
    """Remove the next segment's file, the reserve and unfinished summaries of all earlier brokers.

    The room comes free at once, even if a hanging broker has the files open. Without a ``fence`` the files of a broker
    without a lease stay, because the lock keeps both brokers apart.

    Raises:
        StoreError: another broker has taken over the store.
        OSError: a file cannot be removed.
    """
    with os.scandir(journal) as entries:
        names = [entry.name for entry in entries]
    if fence is not None:
        fence.check()  # behind the list: what is in it belongs to no later broker
    for name in names:
        for plain in OWN_NAMES:
            if name.startswith(plain + ".") or (name == plain and fence is not None):
                _remove(journal / name)


def _remove(path: Path) -> None:
    """Remove a file and free the room."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.unlink(path)
            if os.fstat(descriptor).st_nlink == 0:  # else it has just become a segment
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)
