"""A view of a store after a planned repair: the present bytes with patches.

Recovery reads a `PatchedDisk` before a repair writes anything, so the operator knows in advance what the repair saves.
"""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.segments.disk_port import Disk

PLAN_NAME: Final = "repair.plan"  # exists while a decided repair is not complete
READ_UNIT: Final = 4096  # bytes; the part that becomes zeros around an unreadable byte


class PatchedFile:
    """A file of ``size`` bytes: the file ``source`` with ``patches`` (offset, bytes) over it.

    ``source`` "" stands for zeros.

    `add` is the only way to add a patch: a table by pages finds the patches of a range, however many a file has.
    """

    __slots__ = ("_by_page", "patches", "size", "source")

    def __init__(self, source: str, size: int, patches: list[tuple[int, bytes]]) -> None:
        self.source: Final[str] = source
        self.size = size
        self.patches: Final[list[tuple[int, bytes]]] = []
        self._by_page: Final[dict[int, list[int]]] = {}
        for offset, replacement in patches:
            self.add(offset, replacement)

    def add(self, offset: int, replacement: bytes) -> None:
        """Put a patch over the bytes and the earlier patches."""
        index = len(self.patches)
        self.patches.append((offset, replacement))
        for page in range(offset // READ_UNIT, (offset + len(replacement) - 1) // READ_UNIT + 1):
            self._by_page.setdefault(page, []).append(index)

    def is_changed(self, name: str, size: int) -> bool:
        """Return True unless this is the file ``name`` of ``size`` bytes without patches."""
        return self.source != name or self.size != size or len(self.patches) > 0

    def indices_in(self, offset: int, length: int) -> list[int]:
        """Return the indices of all patches in the pages of a range, in the order of their addition."""
        first = offset // READ_UNIT
        last = (offset + length - 1) // READ_UNIT
        if last - first >= len(self._by_page):
            return list(range(len(self.patches)))
        if first == last:
            return self._by_page.get(first, [])
        indices: set[int] = set()
        for page in range(first, last + 1):
            indices.update(self._by_page.get(page, []))
        return sorted(indices)

    def read(self, disk: Disk, offset: int, length: int) -> bytes:
        """Return bytes of the patched file; unreadable bytes are zeros."""
        end = min(offset + length, self.size)
        if end <= offset:
            return b""
        data = bytearray(end - offset)
        if self.source != "":
            source_bytes = read_or_zeros(disk, self.source, offset, end - offset)
            data[: len(source_bytes)] = source_bytes
        for index in self.indices_in(offset, end - offset):
            start, replacement = self.patches[index]
            stop = start + len(replacement)
            if stop > offset and start < end:
                first = max(start, offset)
                last = min(stop, end)
                data[first - offset : last - offset] = replacement[first - start : last - start]
        return bytes(data)


class PatchedDisk(Disk):
    """A read-only disk that shows patched files.

    Files without patches are shown unchanged. ``hidden`` files are not shown. Every method that writes raises
    `PermissionError`.
    """

    def __init__(self, disk: Disk, patched: dict[str, PatchedFile], hidden: set[str]) -> None:
        self._disk: Final[Disk] = disk
        self._patched: Final[dict[str, PatchedFile]] = patched
        self._hidden: Final[set[str]] = hidden

    def files(self) -> dict[str, int]:
        """See `Disk.files`."""
        sizes: dict[str, int] = {}
        for name, size in self._disk.files().items():
            if name not in self._hidden and name not in self._patched:
                sizes[name] = size
        for name, file in self._patched.items():
            sizes[name] = file.size
        return sizes

    def read(self, name: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        file = self._patched.get(name)
        if file is None:
            return self._disk.read(name, offset, length)
        return file.read(self._disk, offset, length)

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        """Raise `PermissionError`."""
        raise read_only(name)

    def resize(self, name: str, size: int) -> None:
        """Raise `PermissionError`."""
        raise read_only(name)

    def sync(self, name: str) -> None:
        """Raise `PermissionError`."""
        raise read_only(name)

    def rename(self, name: str, new_name: str) -> None:
        """Raise `PermissionError`."""
        raise read_only(name)

    def delete(self, name: str) -> None:
        """Raise `PermissionError`."""
        raise read_only(name)

    def sync_directory(self) -> None:
        """Raise `PermissionError`."""
        raise read_only("")


def read_only(name: str) -> OSError:
    """Return the error for a write to a store that was opened for reading."""
    return PermissionError(1, "the store is only looked at", name)


def read_or_zeros(disk: Disk, name: str, offset: int, length: int) -> bytes:
    """Read as `Disk.read` does, with zeros in place of unreadable blocks of `READ_UNIT` bytes."""
    try:
        return disk.read(name, offset, length)
    except OSError:
        pass
    parts: list[bytes] = []
    end = min(offset + length, disk.files()[name])
    while offset < end:
        size = min(READ_UNIT - offset % READ_UNIT, end - offset)
        try:
            parts.append(disk.read(name, offset, size))
        except OSError:
            parts.append(bytes(size))
        offset += size
    return b"".join(parts)
