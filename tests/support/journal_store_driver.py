"""A journal store with its threads on real files, driven by a test."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.model.message import Message
from spanwire.stores.driver.journal_store import JournalStore
from spanwire.stores.journal.loop_syncs import RECENT_SYNCS
from tests.support.loop import PostedCalls
from tests.support.plain_format import plain_formats

NOWHERE: Final = Destination(QUEUE, "NOWHERE")


class JournalStoreDriver:
    """``turn`` waits until everything is written and answered; answers come in the order of the requests.

    ``now`` goes on to the store's deadlines by itself: a batch that waits for more is written when its time is over.
    With ``in_loop`` the store believes that syncs take no time, so that it writes on the test's thread where it may.
    """

    def __init__(self, path: Path, segment_bytes: int = 65536, sync: bool = True, in_loop: bool = False) -> None:
        self.path = path
        self.segment_bytes = segment_bytes
        self.sync = sync
        self.in_loop = in_loop
        self.crashes = 0
        self.fetched: dict[int, list[Message | None]] = {}
        self.failures: list[StoreError] = []
        self.rooms: list[bool] = []
        self._open()

    def _open(self) -> None:
        self.calls = PostedCalls()
        self.now = 0.0
        self.stored = 0
        self.reports = 0
        self.journal_store = JournalStore.open(
            self.path,
            plain_formats(),
            self._stored,
            self._fetched,
            self.failures.append,
            self.calls.post,
            segment_bytes=self.segment_bytes,
            sync=self.sync,
            on_space=self.rooms.append,
            clock=(lambda: 0.0) if self.in_loop else time.monotonic,
        )
        self._position = 0
        self.store = self.journal_store.store
        self.recovered = self.journal_store.recovered
        self.metadata = self.journal_store.metadata
        self.clean = self.journal_store.clean
        for _ in range(RECENT_SYNCS if self.in_loop else 0):
            self.journal_store._loop_syncs.note_sync(0.0)
        self.journal_store.start()

    @property
    def thread_tasks(self) -> int:
        """What the writer's thread was given so far."""
        return self.journal_store._writer._asked

    def _stored(self, position: int) -> None:
        assert position >= self.stored
        self.reports += 1
        self.stored = position

    def _fetched(self, request: int, messages: list[Message | None]) -> None:
        self.fetched[request] = messages

    def turn(self) -> None:
        position = self.store.position()
        self.store.fetch(-1, NOWHERE, [1])
        active = int(self.in_loop and position > self._position)  # a client that sends and waits
        self._position = position
        self.journal_store.turn(self.now, active)
        while (self.stored < position or -1 not in self.fetched) and not self.failures:
            due = self.journal_store.next_deadline()
            if due is not None and due > self.now:
                self.now = due
            else:
                self.calls.run_one()
            self.journal_store.turn(self.now)
        self.fetched.pop(-1, None)
        self.calls.run_all()

    def run_until_reported(self) -> None:
        """Wait for the next batch to be written."""
        reports = self.reports
        while self.reports == reports:
            self.calls.run_one()

    def turn_until(self, condition: Callable[[], bool]) -> None:
        """Turns of the loop until it is so."""
        while not condition():
            self.journal_store.turn(self.now)
            due = self.journal_store.next_deadline()
            if due is not None and due > self.now:
                self.now = due
            elif not condition():
                self.calls.run_one()

    def reopen(self) -> None:
        self.journal_store.stop()
        self._open()

    def crash(self) -> None:
        """A copy of the files as they are now, without a stop: what kill -9 leaves."""
        self.crashes += 1
        target = self.path.parent / f"{self.path.name}-{self.crashes}"
        (target / "journal").mkdir(parents=True)
        for file in (self.path / "journal").iterdir():
            (target / "journal" / file.name).write_bytes(file.read_bytes())
        self.journal_store.stop()
        self.path = target
        self._open()
