"""Shared storage in memory and a queue, which stop or do something else at a call that the test chooses."""

from __future__ import annotations

import io
from collections.abc import Callable
from enum import Enum
from typing import BinaryIO

from tests.support.pipeline_messages import Raw, raw


class Stop(Enum):
    """What a call has done when its process is killed."""

    NOTHING = "nothing"
    HALF = "half"
    ALL = "all"


class KilledError(BaseException):
    """The process is killed."""


class SharedDisk:
    """The files of one directory and the calls of all its users."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.stop_at: dict[int, Stop] = {}
        self.before: dict[int, Callable[[], None]] = {}

    def process(self) -> FakeFiles:
        """The files as one process sees them; a process that was killed calls nothing any more."""
        return FakeFiles(self)


class FakeFiles:
    """Duck-typed to `spanwire.pipeline.storage.shared_files.SharedFiles`."""

    def __init__(self, disk: SharedDisk) -> None:
        self._disk = disk
        self._is_killed = False

    def address(self, name: str = "") -> str:
        return f"fake://bucket/{name}" if name else "fake://bucket"

    def sizes(self) -> dict[str, int]:
        self.call("list", lambda stop: None)
        return {name: len(content) for name, content in self._disk.files.items()}

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        self.call(f"read {name}", lambda stop: None)
        if name not in self._disk.files:
            raise FileNotFoundError(name)
        content = self._disk.files[name]
        return content[offset:] if length is None else content[offset : offset + length]

    def write(self, name: str, content: BinaryIO) -> None:
        content.seek(0, io.SEEK_SET)
        octets = content.read()

        def effect(stop: Stop) -> None:
            self._disk.files[name] = octets if stop is Stop.ALL else octets[: len(octets) // 2]

        self.call(f"write {name}", effect)

    def remove(self, name: str) -> None:
        def effect(stop: Stop) -> None:
            if stop is Stop.ALL:
                self._disk.files.pop(name, None)

        self.call(f"remove {name}", effect)

    def call(self, text: str, effect: Callable[[Stop], None]) -> None:
        """One step of this process, on shared storage or elsewhere."""
        disk = self._disk
        if self._is_killed:
            raise KilledError
        number = len(disk.calls)
        disk.calls.append(text)
        if number in disk.before:
            disk.before.pop(number)()
        stop = disk.stop_at.get(number)
        if stop is not Stop.NOTHING:
            effect(stop or Stop.ALL)
        if stop is not None:
            self._is_killed = True
            raise KilledError


class StepBroker:
    """A queue with any number of consumers; what one of them has not acknowledged comes back when it closes."""

    def __init__(self, count: int) -> None:
        self.waiting = [raw(number) for number in range(count)]
        self.acknowledgements: list[FakeFiles] = []

    def consumer(self, process: FakeFiles) -> StepConsumer:
        return StepConsumer(self, process)


class StepConsumer:
    """Duck-typed to `spanwire.pipeline.link.batch_receiver.MessageSource`."""

    def __init__(self, broker: StepBroker, process: FakeFiles) -> None:
        self._broker = broker
        self._process = process
        self._unacknowledged: list[Raw] = []

    def receive(self, max_count: int, timeout_s: float) -> list[Raw]:
        waiting = self._broker.waiting
        taken = waiting[:max_count]
        del waiting[:max_count]
        self._unacknowledged += taken
        return taken

    def acknowledge(self) -> None:
        def effect(stop: Stop) -> None:
            if stop is Stop.ALL:
                self._unacknowledged.clear()
                self._broker.acknowledgements.append(self._process)

        self._process.call("acknowledge", effect)

    def is_connected(self) -> bool:
        return True

    def has_messages(self) -> bool:
        return bool(self._broker.waiting)

    def close(self) -> None:
        self._broker.waiting[:0] = [message.again() for message in self._unacknowledged]
        self._unacknowledged.clear()
