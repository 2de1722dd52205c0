"""The files of a store, opened for reading only: the user needs no right to write."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from spanwire.stores.journal.segments.patches import read_only

MAX_OPEN_FILES: Final = 8  # descriptors; messages of one destination lie in neighbouring segments


class ReadDisk:
    """Implements `spanwire.stores.journal.segments.disk_port.Disk` for reading.

    Methods that write raise `PermissionError`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory
        self._descriptors: Final[dict[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all files; may be called twice."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def files(self) -> dict[str, int]:
        with os.scandir(self._directory) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file(follow_symlinks=False)}

    def read(self, name: str, offset: int, length: int) -> bytes:
        descriptor = self._descriptor(name)
        chunks: list[bytes] = []  # the kernel reads at most 2 GiB per call
        while length > 0:
            chunk = os.pread(descriptor, length, offset)
            if not chunk:
                break
            chunks.append(chunk)
            offset += len(chunk)
            length -= len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _descriptor(self, name: str) -> int:
        """Return the open file of a name."""
        descriptor = self._descriptors.get(name)
        if descriptor is None:
            if len(self._descriptors) >= MAX_OPEN_FILES:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))
            descriptor = self._descriptors[name] = self._open(name)
        return descriptor

    def _open(self, name: str) -> int:
        return os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        raise read_only(name)

    def resize(self, name: str, size: int) -> None:
        raise read_only(name)

    def sync(self, name: str) -> None:
        raise read_only(name)

    def rename(self, name: str, new_name: str) -> None:
        raise read_only(name)

    def delete(self, name: str) -> None:
        raise read_only(name)

    def sync_directory(self) -> None:
        raise read_only("")
