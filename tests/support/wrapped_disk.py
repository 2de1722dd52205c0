"""Real files behind a disk whose calls a test can change: a compiled `FileDisk` has no interpreted subclass."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from spanwire.stores.driver.disk import FileDisk


class WrappedDisk:
    """Passes each call on to a `FileDisk`."""

    def __init__(self, directory: Path) -> None:
        self._files: Final = FileDisk(directory)

    def files(self) -> dict[str, int]:
        return self._files.files()

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self._files.read(name, offset, length)

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        self._files.write(name, offset, parts)

    def resize(self, name: str, size: int) -> None:
        self._files.resize(name, size)

    def sync(self, name: str) -> None:
        self._files.sync(name)

    def rename(self, name: str, new_name: str) -> None:
        self._files.rename(name, new_name)

    def delete(self, name: str) -> None:
        self._files.delete(name)

    def sync_directory(self) -> None:
        self._files.sync_directory()

    def close(self) -> None:
        self._files.close()
