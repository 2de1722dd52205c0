"""Files of a store as they will be once they are put right: the bytes that are there, with patches over them.

`PatchedDisk` shows them to recovery before anything is written, so that what a repair saves and loses is known first.
"""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.segments.disk_port import Disk

PLAN_NAME: Final = "repair.plan"  # there while a repair that was decided on has not ended
READ_UNIT: Final = 4096  # what a disk that cannot read a place gives up


class PatchedFile:
    """A file of ``size`` bytes: those of the file ``source`` ("": zeros) with ``patches`` (offset, bytes) over them.

    Patches are added by `add` alone: a table by pages finds those of a range, however many a file has.
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
        """Put one more patch over the bytes and the patches so far."""
        index = len(self.patches)
        self.patches.append((offset, replacement))
        for page in range(offset // READ_UNIT, (offset + len(replacement) - 1) // READ_UNIT + 1):
            self._by_page.setdefault(page, []).append(index)

    def is_changed(self, name: str, size: int) -> bool:
        """Whether the file ``name`` of ``size`` bytes is anything else than this."""
        return self.source != name or self.size != size or len(self.patches) > 0

    def indices_in(self, offset: int, length: int) -> list[int]:
        """Return the indices of all patches in the pages of a range, in the order in which they were added."""
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
        """Bytes of the patched file; what cannot be read is zeros."""
        end = min(offset + length, self.size)
        if end <= offset:
            return b""
        data = bytearray(end - offset)
        if self.source != "":
            found = read_what_can_be(disk, self.source, offset, end - offset)
            data[: len(found)] = found
        for index in self.indices_in(offset, end - offset):
            start, replacement = self.patches[index]
            stop = start + len(replacement)
            if stop > offset and start < end:
                first = max(start, offset)
                last = min(stop, end)
                data[first - offset : last - offset] = replacement[first - start : last - start]
        return bytes(data)


class PatchedDisk(Disk):
    """Reads as if the patches were written; the files it does not know are shown as they are, the ``hidden`` not at
    all. It cannot be written to.
    """

    def __init__(self, disk: Disk, patched: dict[str, PatchedFile], hidden: set[str]) -> None:
        self._disk: Final[Disk] = disk
        self._patched: Final[dict[str, PatchedFile]] = patched
        self._hidden: Final[set[str]] = hidden

    def files(self) -> dict[str, int]:
        """See `Disk.files`."""
        found: dict[str, int] = {}
        for name, size in self._disk.files().items():
            if name not in self._hidden and name not in self._patched:
                found[name] = size
        for name, file in self._patched.items():
            found[name] = file.size
        return found

    def read(self, name: str, offset: int, length: int) -> bytes:
        """See `Disk.read`."""
        file = self._patched.get(name)
        if file is None:
            return self._disk.read(name, offset, length)
        return file.read(self._disk, offset, length)

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        """Refused."""
        raise read_only(name)

    def resize(self, name: str, size: int) -> None:
        """Refused."""
        raise read_only(name)

    def sync(self, name: str) -> None:
        """Refused."""
        raise read_only(name)

    def rename(self, name: str, new_name: str) -> None:
        """Refused."""
        raise read_only(name)

    def delete(self, name: str) -> None:
        """Refused."""
        raise read_only(name)

    def sync_directory(self) -> None:
        """Refused."""
        raise read_only("")


def read_only(name: str) -> OSError:
    """A store that is looked at is not written to."""
    return PermissionError(1, "the store is only looked at", name)


def read_what_can_be(disk: Disk, name: str, offset: int, length: int) -> bytes:
    """As `Disk.read`, with zeros in the place of what the disk cannot read."""
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
