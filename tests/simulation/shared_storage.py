"""One directory that several brokers have open, and brokers that stop before any call to it and go on later.

A broker keeps files open, as the real one does: what it writes to a file whose name is gone, or belongs to another file
by now, is in no file that anybody reads. Without ``keeps_open`` it opens each file anew by its name, which finds the
files of others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from spanwire.model.errors import StoreError

PATIENCE_S: Final = 60.0


class TakenOverError(StoreError):
    """Another broker owns the storage."""


class File:
    """Bytes that may have a name."""

    def __init__(self) -> None:
        self.data = bytearray()


class Storage:
    """The names of files, and the owner."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}
        self.owner = ""


class Actor:
    """A life on a thread of its own, of which only one runs at a time. It stops at each `gate`."""

    def __init__(self, life: Callable[[Actor], None]) -> None:
        self.steps = 0
        self.is_over = False
        self.error: BaseException | None = None
        self._life: Final = life
        self._go: Final = threading.Semaphore(0)
        self._stopped: Final = threading.Semaphore(0)
        self._thread: Final = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def gate(self) -> None:
        """Stop, until `step`."""
        self._stopped.release()
        self._go.acquire()

    def step(self) -> None:
        """Go on to the next gate, or to the end."""
        if self.is_over:
            return
        self.steps += 1
        self._go.release()
        assert self._stopped.acquire(timeout=PATIENCE_S)

    def walk(self, steps: int) -> None:
        """Go so many steps; -1 for all."""
        while steps != 0 and not self.is_over:
            self.step()
            steps -= 1

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._life(self)
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._stopped.release()


class View:
    """The files as one broker has them open: `Files` for a `FencedDisk`. ``gate`` stops before each call, and in
    the middle of a write.
    """

    def __init__(self, storage: Storage, gate: Callable[[], None], keeps_open: bool = True) -> None:
        self._storage: Final = storage
        self._gate: Final = gate
        self._keeps_open: Final = keeps_open
        self._open: dict[str, File] = {}

    def files(self) -> dict[str, int]:
        self._gate()
        return {name: len(file.data) for name, file in self._storage.names.items()}

    def read(self, name: str, offset: int, length: int) -> bytes:
        self._gate()
        return bytes(self._file(name).data[offset : offset + length])

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        self._gate()
        file, data = self._file(name), b"".join(parts)
        half = len(data) // 2
        self._put(file, offset, data[:half])
        self._gate()
        self._put(file, offset + half, data[half:])

    def resize(self, name: str, size: int) -> None:
        self._gate()
        file = self._open.get(name) or self._storage.names.get(name)
        if file is None:
            file = self._storage.names[name] = File()
        self._keep(name, file)
        del file.data[size:]
        file.data.extend(bytes(size - len(file.data)))

    def sync(self, name: str) -> None:
        self._gate()
        self._file(name)

    def rename(self, name: str, new_name: str) -> None:
        self._gate()
        if name not in self._storage.names:
            raise FileNotFoundError(2, "no such file", name)
        self._storage.names[new_name] = self._storage.names.pop(name)
        self._open.pop(new_name, None)
        if name in self._open:
            self._open[new_name] = self._open.pop(name)

    def delete(self, name: str) -> None:
        self._gate()
        self._open.pop(name, None)
        if name not in self._storage.names:
            raise FileNotFoundError(2, "no such file", name)
        del self._storage.names[name]

    def sync_directory(self) -> None:
        self._gate()

    def close(self) -> None:
        self._open = {}

    def _file(self, name: str) -> File:
        file = self._open.get(name) or self._storage.names.get(name)
        if file is None:
            raise FileNotFoundError(2, "no such file", name)
        self._keep(name, file)
        return file

    def _keep(self, name: str, file: File) -> None:
        if self._keeps_open:
            self._open[name] = file

    @staticmethod
    def _put(file: File, offset: int, data: bytes) -> None:
        end = offset + len(data)
        file.data.extend(bytes(max(0, end - len(file.data))))
        file.data[offset:end] = data
