"""A disk in memory that can lose its power.

Bytes written since a file's last sync, and names changed since the last sync of the directory, are at risk: after a
power cut any of them may be there, missing, or (bytes) there in part, in any combination. Every call that changes
something counts as one step; the power can be cut before any step, a call can be made to fail.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import Final


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
    """Does what `spanwire.stores.journal.disk_port.Disk` says. ``trace`` lists the steps taken."""

    def __init__(self, cut_at: int = -1) -> None:
        self.steps = 0
        self.cut_at = cut_at
        self.off = False
        self.fail_at: dict[int, int] = {}  # step → errno
        self.room = -1  # bytes left, or -1 for plenty
        self.trace: list[str] = []
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
        data = b"".join(parts)
        self._files[name].write(offset, data)  # the step comes after: a cut may find the write half done
        self._step(f"write {name} {offset} {len(data)}")

    def resize(self, name: str, size: int) -> None:
        if name not in self._files:
            self._files[name] = SimulatedFile()
            self._name_changes.append(("create", name, "", self._files[name]))
        file = self._files[name]
        grown = size - len(file.now)
        if grown > 0:
            if 0 <= self.room < grown:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.room -= grown if self.room >= 0 else 0
            file.write(len(file.now), bytes(grown))
        elif grown < 0:
            file.truncate(size)
        self._step(f"resize {name} {size}")

    def sync(self, name: str) -> None:
        self._step(f"sync {name}")
        self._files[name].sync()

    def rename(self, name: str, new_name: str) -> None:
        self._files[new_name] = self._files.pop(name)
        self._name_changes.append(("rename", name, new_name, self._files[new_name]))
        self._step(f"rename {name} {new_name}")

    def delete(self, name: str) -> None:
        self._name_changes.append(("delete", name, "", self._files.pop(name)))
        self._step(f"delete {name}")

    def sync_directory(self) -> None:
        self._step("sync directory")
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

    def _step(self, what: str) -> None:
        if self.off:
            raise PowerCutError
        step: Final = self.steps
        self.steps += 1
        if step == self.cut_at:
            self.off = True
            raise PowerCutError
        if step in self.fail_at:
            number = self.fail_at[step]
            raise OSError(number, errno.errorcode[number])
        self.trace.append(what)
