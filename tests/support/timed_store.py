"""A journal store on a disk whose syncs take the time that the test says, on a clock that nothing else moves."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Final

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.directory import DataDirectory
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.driver.journal_store import JournalStore
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.segments.segment import segment_number
from tests.support.loop import PostedCalls
from tests.support.plain_format import plain_formats, plain_message
from tests.support.wrapped_disk import WrappedDisk

A: Final = Destination(QUEUE, "A")
STORE_ID: Final = b"a store for test"
MIB: Final = 1024 * 1024
FAST: Final = 0.0001  # seconds


class TimedDisk(WrappedDisk):
    """Real files. A sync of a segment takes ``seconds`` on ``clock``; `syncs` says if the loop waited for it."""

    def __init__(self, directory: Path, clock: list[float]) -> None:
        super().__init__(directory)
        self.seconds = FAST
        self.full_writes = 0  # writes that find no room
        self.fails = False
        self.syncs: Final[list[tuple[bool, float]]] = []  # on the loop's thread, seconds
        self._clock: Final = clock
        self._loop: Final = threading.current_thread()

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        if self.full_writes > 0 and segment_number(name) > 0:
            self.full_writes -= 1
            raise OSError(errno.ENOSPC, "no room")
        super().write(name, offset, parts)

    def sync(self, name: str) -> None:
        if segment_number(name) > 0:
            if self.fails:
                raise OSError(errno.EIO, "the disk is broken")
            self._clock[0] += self.seconds
            self.syncs.append((threading.current_thread() is self._loop, self.seconds))
        super().sync(name)


class TimedStore:
    """A store, and clients that send to it and wait. ``blocked`` lists the seconds that each turn took."""

    def __init__(self, path: Path, segment_bytes: int = 4 * MIB, sync: bool = True) -> None:
        self._clock: Final = [1000.0]
        self.calls: Final = PostedCalls()
        self._path: Final = path
        directory = DataDirectory(path)
        files = directory.subdirectory("journal")
        self.disk: Final = TimedDisk(files, self._clock)
        opened = open_journal(self.disk, STORE_ID, segment_bytes, sync)
        self.stored = 0
        self.reports = 0
        self.failures: list[StoreError] = []
        self.blocked: list[float] = []
        callbacks = (
            self._on_stored,
            lambda request, messages: None,
            self.failures.append,
            self.calls.post,
            lambda has_room: None,
        )
        files_of_store = (self.disk, FileDisk(files))
        self.store: Final = JournalStore(
            directory, files_of_store, opened, plain_formats(), callbacks, (sync, 0.0), lambda: self._clock[0]
        )
        self.journal: Final = opened.journal
        self.store.start()
        self.send()
        self.disk.syncs.clear()

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock[0]

    def pass_time(self, seconds: float) -> None:
        """Nothing happens meanwhile."""
        self._clock[0] += seconds

    def _on_stored(self, position: int) -> None:
        self.reports += 1
        self.stored = position

    def turn(self, active: int) -> None:
        """One turn of the loop in which so many sockets had input."""
        before = len(self.disk.syncs)
        self.store.turn(self.now, active)
        # The writer's thread may sync meanwhile, too.
        self.blocked.append(sum(seconds for is_loop, seconds in self.disk.syncs[before:] if is_loop))

    def send(self, clients: int = 1, others: int = 0, size: int = 100) -> None:
        """So many clients send a message each and wait, while others want nothing of the store; all in one turn."""
        for number in range(clients):
            self.journal.append(A, plain_message(A, number, b"x" * size))
        for _ in range(clients):
            position = self.journal.position()
        self.turn(clients + others)
        self.await_stored(position)

    def await_stored(self, position: int) -> None:
        """Turns without input until all up to there is stored, and the writer's thread has nothing more to do."""
        while (self.stored < position or not self.store._writer.is_idle(0)) and not self.failures:
            if not self.calls.is_empty or self.stored < position:
                due = self.store.next_deadline()
                if due is not None and due > self.now:
                    self.pass_time(due - self.now)
                else:
                    self.calls.run_one()
            self.turn(0)
        self.calls.run_all()

    def send_until_the_loop_syncs(self) -> None:
        """One client sends until the store has learned that the disk is fast."""
        while not self.disk.syncs or not self.disk.syncs[-1][0]:
            assert len(self.disk.syncs) < 100, "the loop never syncs"
            self.send()

    @property
    def loop_syncs(self) -> list[float]:
        """The seconds of syncs for which the loop stood still."""
        return [seconds for is_loop, seconds in self.disk.syncs if is_loop]

    def stop(self) -> None:
        """End the threads, whatever has failed."""
        try:
            self.store.stop()
        except StoreError:
            assert self.failures
