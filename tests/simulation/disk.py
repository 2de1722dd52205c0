"""A disk in memory that can lose its power.

Bytes written since a file's last sync, and names changed since the last sync of the directory, are at risk: after a
power cut any of them may be there, missing, or (bytes) there in part, in any combination. Every call that changes
something counts as one step; the power can be cut before any step, a call can be made to fail. `Risks` lists what is at
risk at a moment, sector by sector, so that a test can go through the outcomes one by one. A write can be taken in
parts, as by an operating system: each part is a step.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Final

from spanwire.stores.journal.segments.whole_write import fill, write_whole

SECTOR_BYTES: Final = 512  # what a disk writes whole or not at all


class PowerCutError(Exception):
    """The power went; the disk does nothing from here on."""


class SimulatedFile:
    """Bytes that are safe, and writes that are not yet."""

    def __init__(self) -> None:
        self.safe = b""
        self.unsynced: list[tuple[int, bytes]] = []
        self.now = bytearray()

    def write(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        if len(self.now) < end:
            self.now.extend(bytes(end - len(self.now)))
        self.now[offset:end] = data
        self.unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        del self.now[size:]
        self.unsynced.append((-1, size.to_bytes(8, "big")))

    def sync(self) -> None:
        self.safe = bytes(self.now)
        self.unsynced = []

    def after_power_cut(self, keep: Callable[[bytes], bytes | None]) -> SimulatedFile:
        """What is found later; ``keep`` decides how much of each unsynced write there is (None: nothing)."""
        found = bytearray(self.safe)
        for offset, data in self.unsynced:
            kept = keep(data)
            if kept is None:
                continue
            if offset < 0:
                if len(kept) == len(data):
                    del found[int.from_bytes(data, "big") :]
                continue
            end = offset + len(kept)
            if len(found) < end:
                found.extend(bytes(end - len(found)))
            found[offset:end] = kept
        file = SimulatedFile()
        file.now = found
        file.sync()
        return file


class SimulatedDisk:
    """Does what `spanwire.stores.journal.segments.disk_port.Disk` says. ``trace`` lists the steps taken."""

    def __init__(self, cut_at: int = -1) -> None:
        self.steps = 0
        self.cut_at = cut_at
        self.off = False
        self.fail_at: dict[int, int] = {}  # step → errno
        self.room = -1  # bytes left, whatever is deleted, or -1 for plenty
        self.capacity = -1  # bytes that all files together may have, or -1 for plenty
        self.refuses = ""  # calls in whose line of the trace this stands fail
        self.takes: Callable[[int], int] = all_of_it  # bytes that a write takes of those it was given
        self.trusts = False  # a writer that does not look at what a write says it took
        self.lies = ""  # syncs whose line in the trace begins so do nothing: a drive that keeps all in its cache
        self.trace: list[str] = []
        self.failures: list[str] = []  # the steps that failed
        self._files: dict[str, SimulatedFile] = {}
        self._safe_names: dict[str, SimulatedFile] = {}
        self._name_changes: list[tuple[str, str, str, SimulatedFile]] = []

    # The port

    def files(self) -> dict[str, int]:
        return {name: len(file.now) for name, file in self._files.items()}

    def read(self, name: str, offset: int, length: int) -> bytes:
        if name not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return bytes(self._files[name].now[offset : offset + length])

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        if self.trusts:
            self.write_some(name, offset, parts)
        else:
            write_whole(self, name, offset, parts)

    def write_some(self, name: str, offset: int, parts: list[bytes] | list[memoryview]) -> int:
        data = b"".join(parts)
        if len(data) > 1:
            data = data[: max(1, min(self.takes(len(data)), len(data)))]
        grown = max(0, offset + len(data) - len(self._files[name].now))
        room = self._room()
        if 0 <= room < grown:
            data = data[: len(data) - grown + room]
            grown = room
            if not data:
                raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= grown if self.room >= 0 else 0
        self._files[name].write(offset, data)  # the step comes after: a cut may find the write half done
        self._step(f"write {name} {offset} {len(data)}")
        return len(data)

    def resize(self, name: str, size: int) -> None:
        if name not in self._files:
            self._files[name] = SimulatedFile()
            self._name_changes.append(("create", name, "", self._files[name]))
        file = self._files[name]
        end = len(file.now)
        if size < end:
            file.truncate(size)
        if size <= end:
            self._step(f"resize {name} {size}")
        elif self.trusts:
            self.write_some(name, end, [bytes(size - end)])
        else:
            fill(self, name, end, size)

    def sync(self, name: str) -> None:
        self._step(f"sync {name}")
        if not self._lies_about(f"sync {name}"):
            self._files[name].sync()

    def rename(self, name: str, new_name: str) -> None:
        self._files[new_name] = self._files.pop(name)
        self._name_changes.append(("rename", name, new_name, self._files[new_name]))
        self._step(f"rename {name} {new_name}")

    def delete(self, name: str) -> None:
        if name not in self._files:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        self._name_changes.append(("delete", name, "", self._files.pop(name)))
        self._step(f"delete {name}")

    def sync_directory(self) -> None:
        self._step("sync directory")
        if not self._lies_about("sync directory"):
            self._safe_names = dict(self._files)
            self._name_changes = []

    # What the tests do to it

    def power_cut(self, random: Random) -> SimulatedDisk:
        """The disk after a power cut at this moment."""

        def keep(data: bytes) -> bytes | None:
            choice = random.randrange(4)
            if choice == 0:
                return None
            return data if choice < 3 else data[: random.randrange(len(data) + 1)]

        return self.power_cut_keeping(keep, lambda: random.random() < 0.5)

    def power_cut_keeping(self, keep: Callable[[bytes], bytes | None], keep_name: Callable[[], bool]) -> SimulatedDisk:
        """As `power_cut`, with the choice of what stays left to the caller."""
        names = dict(self._safe_names)
        for change, name, new_name, file in self._name_changes:
            if not keep_name():
                continue
            if change == "create":
                names[name] = file
            elif change == "rename":
                if names.get(name) is file:
                    names[new_name] = names.pop(name)
            elif names.get(name) is file:
                del names[name]
        disk = SimulatedDisk()
        disk._files = {name: file.after_power_cut(keep) for name, file in names.items()}
        disk._safe_names = dict(disk._files)
        return disk

    def risks(self) -> Risks:
        """All that a power cut at this moment could take."""
        names = dict(self._safe_names)
        inodes = [*self._safe_names.values(), *(change[3] for change in self._name_changes)]
        return Risks(names, list(self._name_changes), list(dict.fromkeys(inodes)))

    @classmethod
    def holding(cls, files: dict[str, bytes]) -> SimulatedDisk:
        """A disk with these files, all of them safe."""
        disk = cls()
        for name, data in files.items():
            disk.put(name, data)
        return disk

    def copy(self) -> SimulatedDisk:
        """The same bytes on another disk, everything synced."""
        return self.power_cut_keeping(lambda data: data, lambda: True)

    def patch(self, name: str, offset: int, data: bytes) -> None:
        """Damage: other bytes at this place."""
        file = self._files[name]
        file.now[offset : offset + len(data)] = data
        file.sync()

    def cut_off(self, name: str, size: int) -> None:
        """Damage: the file ends early."""
        file = self._files[name]
        del file.now[size:]
        file.sync()

    def put(self, name: str, data: bytes) -> None:
        """A file with these bytes, as if it had always been there."""
        file = SimulatedFile()
        file.now = bytearray(data)
        file.sync()
        self._files[name] = file
        self._safe_names[name] = file

    def lose(self, name: str) -> None:
        """Damage: the file is gone."""
        del self._files[name]
        self._safe_names.pop(name, None)

    def contents(self) -> dict[str, bytes]:
        """Every file's bytes."""
        return {name: bytes(file.now) for name, file in self._files.items()}

    def _room(self) -> int:
        if self.capacity < 0:
            return self.room
        free = max(0, self.capacity - sum(len(file.now) for file in self._files.values()))
        return free if self.room < 0 else min(free, self.room)

    def _lies_about(self, what: str) -> bool:
        return self.lies != "" and what.startswith(self.lies)

    def _step(self, what: str) -> None:
        if self.off:
            raise PowerCutError
        step: Final = self.steps
        self.steps += 1
        if step == self.cut_at:
            self.off = True
            raise PowerCutError
        number = self.fail_at.get(step, errno.EIO if self.refuses and self.refuses in what else 0)
        if number:
            self.failures.append(what)
            raise OSError(number, errno.errorcode[number])
        self.trace.append(what)


def all_of_it(size: int) -> int:
    """What a write takes on a usual day."""
    return size


class Piece:
    """Part of an unsynced write, within one sector; of a truncation, the whole (``offset`` -1)."""

    __slots__ = ("data", "file", "offset")

    def __init__(self, file: int, offset: int, data: bytes) -> None:
        self.file: Final = file
        self.offset: Final = offset
        self.data: Final = data


def pieces(number: int, file: SimulatedFile) -> list[Piece]:
    """The unsynced writes of a file, sector by sector; zeros that only make it longer stay in one piece."""
    found: list[Piece] = []
    for offset, data in file.unsynced:
        if offset < 0 or not any(data):
            found.append(Piece(number, offset, data))
            continue
        start = 0
        while start < len(data):
            end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
            found.append(Piece(number, offset + start, data[start:end]))
            start = end
    return found


class Risks:
    """What had not been synced at one moment: names changed first, then pieces of writes, numbered from 0.

    It keeps its own copies, so the disk may go on.
    """

    def __init__(
        self,
        safe_names: dict[str, SimulatedFile],
        changes: list[tuple[str, str, str, SimulatedFile]],
        files: list[SimulatedFile],
    ) -> None:
        number_of = {id(file): number for number, file in enumerate(files)}
        self._safe_names: Final = {name: number_of[id(file)] for name, file in safe_names.items()}
        self._changes: Final = [(kind, name, new, number_of[id(file)]) for kind, name, new, file in changes]
        self._safe: Final = [file.safe for file in files]
        self._pieces: Final = [piece for number, file in enumerate(files) for piece in pieces(number, file)]

    def __len__(self) -> int:
        return len(self._changes) + len(self._pieces)

    def without(self, missing: frozenset[int]) -> SimulatedDisk:
        """The disk after a power cut that took exactly these, as far as the others can stand without them."""
        names = dict(self._safe_names)
        for number, (kind, name, new_name, file) in enumerate(self._changes):
            if number in missing:
                continue
            if kind == "create":
                names[name] = file
            elif names.get(name) == file:
                del names[name]
                if kind == "rename":
                    names[new_name] = file
        found = [bytearray(data) for data in self._safe]
        for number, piece in enumerate(self._pieces, len(self._changes)):
            if number in missing:
                continue
            data = found[piece.file]
            if piece.offset < 0:
                del data[int.from_bytes(piece.data, "big") :]
                continue
            end = piece.offset + len(piece.data)
            if len(data) < end:
                data.extend(bytes(end - len(data)))
            data[piece.offset : end] = piece.data
        return SimulatedDisk.holding({name: bytes(found[file]) for name, file in names.items()})
