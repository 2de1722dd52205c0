"""A journal store on a disk whose syncs end when the test says so, and a clock that goes on with each of them."""

from __future__ import annotations

from pathlib import Path
from threading import Semaphore
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.directory import DataDirectory
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.driver.journal_store import JournalStore
from spanwire.stores.journal.opening import open_journal
from tests.support.loop import PostedCalls
from tests.support.plain_format import plain_formats
from tests.support.wrapped_disk import WrappedDisk

SYNC_SECONDS: Final = 0.4
STORE_ID: Final = b"a store for test"


class WaitingDisk(WrappedDisk):
    """Real files; from `hold` on each sync is posted to the loop, and ends when the test releases it."""

    def __init__(self, directory: Path, calls: PostedCalls) -> None:
        super().__init__(directory)
        self.asked: list[str] = []  # syncs that wait: one at most, for there is one writer
        self.is_held = False
        self._calls: Final = calls
        self._released: Final = Semaphore(0)

    def sync(self, name: str) -> None:
        self._wait(name)
        super().sync(name)

    def sync_directory(self) -> None:
        self._wait("the directory")
        super().sync_directory()

    def release(self) -> None:
        """The sync that waits ends."""
        self.asked.clear()
        self._released.release()

    def _wait(self, name: str) -> None:
        if self.is_held:
            self._calls.post(lambda: self.asked.append(name))
            self._released.acquire()


class SlowStore:
    """``now`` goes on by `SYNC_SECONDS` with each sync, and with nothing else."""

    def __init__(self, path: Path, segment_bytes: int) -> None:
        self.calls: Final = PostedCalls()
        directory = DataDirectory(path)
        files = directory.subdirectory("journal")
        self.disk: Final = WaitingDisk(files, self.calls)
        opened = open_journal(self.disk, STORE_ID, segment_bytes)
        self.now = 0.0
        self.syncs = 0
        self.turns = 0
        self.reports: list[int] = []
        self.failures: list[StoreError] = []
        self._is_woken = False
        callbacks = (
            self._stored,
            lambda request, messages: None,
            self.failures.append,
            self.calls.post,
            lambda has_room: None,
        )
        self._store: Final = JournalStore(
            directory, (self.disk, FileDisk(files)), opened, plain_formats(), callbacks, (True, 0.0)
        )
        self.journal: Final = opened.journal
        self.disk.is_held = True
        self._store.start()

    def turn(self) -> None:
        """One turn of the loop."""
        self.turns += 1
        self._store.turn(self.now)

    def _stored(self, position: int) -> None:
        """As in a broker: a turn follows a report, and nothing else that the store does."""
        self.reports.append(position)
        self._is_woken = True

    def run(self) -> None:
        """What was posted, waiting for the first of it, and the turns that follow."""
        self.calls.run_one()
        self.calls.run_all()
        if self._is_woken:
            self._is_woken = False
            self.turn()

    def run_to_sync(self) -> None:
        """Turns of the loop until the disk syncs and the loop has nothing more to do."""
        self.turn()
        while not self.disk.asked or not self.calls.is_empty:
            self.run()

    def sync(self) -> None:
        """The sync that is under way ends."""
        self.now += SYNC_SECONDS
        self.syncs += 1
        self.disk.release()

    def syncs_until(self, position: int) -> int:
        """How many syncs end before all up to ``position`` is stored."""
        before = self.syncs
        while not self.reports or self.reports[-1] < position:
            if self.disk.asked:
                self.sync()
            self.run()
            while not self.calls.is_empty:
                self.run()
        return self.syncs - before

    def stop(self) -> None:
        self.disk.is_held = False
        self.disk.release()  # also a sync that is not posted yet
        self._store.stop()
