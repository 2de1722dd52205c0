"""The writer thread: the next segment's file, a full disk, syncs by the clock."""

from __future__ import annotations

import errno
from random import Random

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.driver.writer import JournalWriter
from spanwire.stores.journal.batch import Batch
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.segments.segment import RESERVE_NAME, SPARE_NAME, segment_name
from spanwire.stores.journal.spare_files import STEP_BYTES
from tests.support.journal_driver import SMALL_SEGMENT, STORE_ID, JournalDriver
from tests.support.loop import PostedCalls
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")


class WriterDriver:
    """A writer thread on a simulated disk, and the journal whose batches it gets. ``told`` lists what it reported."""

    def __init__(self, sync: bool = True, sync_interval: float = 0.0) -> None:
        self.journal = JournalDriver(sync=sync)
        self.disk = self.journal.disk
        self.calls = PostedCalls()
        self.told: list[object] = []
        self.writer = JournalWriter(
            self.disk,
            lambda batch: self.calls.post(
                lambda: self.told.append(("written", self.journal.store.on_completed(batch)))
            ),
            lambda error: self.calls.post(lambda: self.told.append(str(error))),
            lambda spare, room: self.calls.post(lambda: self.told.append((spare, room))),
            sync,
            sync_interval,
        )
        self.writer.start()

    def batch(self) -> Batch:
        self.journal.store.append(A, plain_message(A, 1))
        batch = self.journal.store.next_batch()
        assert batch is not None
        return batch

    def until(self, told: object) -> None:
        """Wait for this report."""
        while not self.told or self.told[-1] != told:
            self.calls.run_one()


def test_the_next_segments_file_is_reported_when_all_of_it_is_ready() -> None:
    driver = WriterDriver()
    driver.writer.hand_over(driver.batch(), 3 * STEP_BYTES + 1)
    driver.until((3 * STEP_BYTES + 1, True))
    assert driver.disk.files()[SPARE_NAME] == 3 * STEP_BYTES + 1
    assert driver.told == [("written", 2), (3 * STEP_BYTES + 1, True)]
    driver.writer.prepare(4 * STEP_BYTES)
    driver.until((4 * STEP_BYTES, True))
    driver.writer.stop()
    assert len(driver.told) == 3


@pytest.mark.large
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_without_room_for_the_next_segment_is_told_and_tried_again(number: int) -> None:
    driver = WriterDriver()
    batch = driver.batch()
    driver.disk.fail_at = {driver.disk.steps + 2: number, driver.disk.steps + 3: number}
    driver.writer.hand_over(batch, 4096)
    driver.until((4096, True))
    driver.writer.stop()
    assert driver.told == [("written", 2), (0, False), (4096, True)]
    assert driver.writer.failed is None


def test_room_is_looked_for_at_once_when_a_segment_was_deleted() -> None:
    driver = WriterDriver()
    first = driver.batch()
    driver.disk.room = 10
    driver.writer.hand_over(first, 4096)
    driver.until((0, False))
    driver.disk.put(segment_name(7), b"x" * 5000)
    deletion = Batch(0, 1, 0, 0, [], [], None, [7])
    driver.disk.room = 5000
    driver.writer.hand_over(deletion, 4096)
    driver.until((4096, True))
    driver.writer.stop()
    assert driver.writer._next_attempt == 0.0, "it waited for the time of its next look"


@pytest.mark.large
def test_a_write_without_room_is_written_again_and_answered_once() -> None:
    driver = WriterDriver()
    batch = driver.batch()
    driver.disk.fail_at = {driver.disk.steps: errno.ENOSPC}
    driver.writer.hand_over(batch, 0)
    driver.until((0, True))
    driver.writer.stop()
    assert driver.told == [(0, False), ("written", 2), (0, True)]
    driver.journal.reopen()
    assert list(driver.journal.recovered[0].sequences) == [1]


@pytest.mark.parametrize("call", ["write summary.new", "rename summary.new"])
def test_a_summary_that_cannot_be_written_is_told_and_nothing_else_happens(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver = WriterDriver()
    driver.journal.store.append(A, plain_message(A, 1, b"x" * 3000))
    driver.journal.turn()
    driver.journal.store.append(A, plain_message(A, 2, b"x" * 3000))
    batch = driver.journal.store.next_batch()
    assert batch is not None and batch.new_segment is not None and batch.new_segment.summary is not None
    driver.disk.refuses = call
    driver.writer.hand_over(batch, 0)
    driver.until(("written", 3))
    driver.writer.hand_over(driver.batch(), 0)
    driver.until(("written", 4))
    driver.writer.stop()
    assert driver.writer.failed is None
    assert [record.getMessage() for record in caplog.records] == [
        "0000000001.summary cannot be written: EIO; nothing is lost, the next start takes longer; look at the disk"
    ]


@pytest.mark.large
def test_a_new_segment_without_room_is_made_later() -> None:
    driver = WriterDriver()
    driver.journal.store.append(A, plain_message(A, 1, b"x" * 5000))
    batch = driver.journal.store.next_batch()
    assert batch is not None and batch.new_segment is not None
    driver.disk.fail_at = {driver.disk.steps + 1: errno.ENOSPC}
    driver.writer.hand_over(batch, 0)
    driver.until((0, True))
    driver.writer.stop()
    driver.journal.reopen()
    assert list(driver.journal.recovered[0].sequences) == [1]


def test_a_stop_does_not_wait_for_room() -> None:
    driver = WriterDriver()
    batch = driver.batch()
    driver.disk.fail_at = dict.fromkeys(range(driver.disk.steps, driver.disk.steps + 100), errno.ENOSPC)
    driver.writer.hand_over(batch, 0)
    driver.until((0, False))
    driver.writer.stop()
    assert isinstance(driver.writer.failed, StoreError)
    assert "make room" in str(driver.writer.failed)


def test_with_an_interval_the_disk_is_synced_by_the_clock_and_before_a_new_segment_and_at_the_end() -> None:
    driver = WriterDriver(sync=False, sync_interval=0.01)
    name = segment_name(1)
    syncs = driver.disk.trace.count(f"sync {name}")
    driver.writer.hand_over(driver.batch(), 0)
    driver.until(("written", 2))
    while driver.disk.trace.count(f"sync {name}") == syncs:
        driver.writer.prepare(0)  # a pass of its loop
    driver.writer.hand_over(driver.batch(), 0)
    driver.until(("written", 3))
    driver.writer.stop()
    assert driver.disk.trace[-1] == f"sync {name}"


def test_without_syncs_none_is_made() -> None:
    driver = WriterDriver(sync=False)
    before = len([step for step in driver.disk.trace if step.startswith("sync")])
    driver.writer.hand_over(driver.batch(), 4096)
    driver.until((4096, True))
    driver.writer.stop()
    assert len([step for step in driver.disk.trace if step.startswith("sync")]) == before


@pytest.mark.parametrize("seed", range(25))
def test_without_syncs_a_power_cut_leaves_a_store_that_starts_with_the_oldest_that_was_sent(seed: int) -> None:
    random = Random(seed)
    driver = WriterDriver(sync=False)
    store = driver.journal.store
    sent: list[int] = []
    removed = 0
    for _ in range(random.randrange(5, 25)):
        sent.append(store.append(A, plain_message(A, 1, b"x" * random.choice((10, 900)))))
        if random.random() < 0.3:
            removed += 1
            store.remove(A, removed)
        while (batch := store.next_batch()) is not None:
            told = len(driver.told)
            driver.writer.hand_over(batch, 0)
            while len(driver.told) == told:
                driver.calls.run_one()
    disk = driver.disk.power_cut(random)
    driver.writer.stop()
    opened = open_journal(disk, STORE_ID, SMALL_SEGMENT)
    found = [sequence for line in opened.recovery.destinations() for sequence in line.sequences]
    assert found == [sequence for sequence in sent if found and found[0] <= sequence <= found[-1]]
    assert not found or found[0] <= removed + 1
    assert all("disk syncs were off" in line or "none of them" in line for line in opened.recovery.warnings)


def test_a_timed_sync_that_fails_ends_the_writer() -> None:
    driver = WriterDriver(sync=False, sync_interval=0.01)
    batch = driver.batch()
    driver.disk.fail_at = {driver.disk.steps + 1: errno.EIO}
    driver.writer.hand_over(batch, 0)
    while len(driver.told) < 2:
        driver.calls.run_one()
    assert driver.told[-1] == (
        f"{segment_name(1)} cannot be synced: EIO; nothing is acknowledged any more, look at the disk and start the"
        " broker again"
    )
    driver.writer.stop()


@pytest.mark.large
def test_a_write_that_was_taken_in_part_before_the_room_went_is_written_again_whole() -> None:
    driver = WriterDriver()
    batch = driver.batch()
    step = driver.disk.steps
    driver.disk.takes = lambda size: size // 2 if driver.disk.steps == step else size
    driver.disk.fail_at = {step + 1: errno.ENOSPC}
    driver.writer.hand_over(batch, 0)
    driver.until((0, True))
    driver.writer.stop()
    assert driver.told == [(0, False), ("written", 2), (0, True)]
    assert f"write {segment_name(1)} {batch.offset} {batch.size}" in driver.disk.trace
    driver.journal.reopen()
    assert list(driver.journal.recovered[0].sequences) == [1]


def test_on_a_full_disk_the_reserve_is_told_as_the_next_segments_file_and_room_comes_with_a_new_one() -> None:
    driver = WriterDriver()
    driver.writer.hand_over(driver.batch(), 0, 9000)
    driver.until(("written", 2))
    driver.writer.prepare(1, 9000)
    driver.until((1, True))
    assert driver.disk.files()[RESERVE_NAME] == 9000
    driver.disk.room = 10
    driver.writer.prepare(4096, 9000)
    driver.until((9000, False))
    assert driver.disk.files()[SPARE_NAME] == 9000
    assert RESERVE_NAME not in driver.disk.files()
    driver.disk.put(segment_name(7), b"x")
    driver.disk.room = -1
    driver.writer.hand_over(Batch(0, 1, 0, 0, [], [], None, [7]), 4096, 9000)
    driver.until((9000, True))
    driver.writer.stop()
    assert driver.disk.files()[RESERVE_NAME] == 9000


class Answers:
    """A journal and its writer on a simulated disk, and the syncs of the disk while a message waited for its answer."""

    def __init__(self, segment_bytes: int) -> None:
        self.driver = JournalDriver(segment_bytes=segment_bytes)
        self.calls = PostedCalls()
        self.written = 0
        self.end = 0  # of the disk's trace when the last batch was written
        self.writer = JournalWriter(
            self.driver.disk,
            self._report,
            lambda error: self.calls.post(lambda: pytest.fail(str(error))),
            lambda spare, room: self.calls.post(lambda: self._space(spare, room)),
        )
        self.driver.store.space_changed(0, True)
        self.writer.start()

    def _report(self, batch: Batch) -> None:
        """Called from the thread: what it does later is no part of the answer."""
        end = len(self.driver.disk.trace)
        self.calls.post(lambda: self._written(batch, end))

    def _written(self, batch: Batch, end: int) -> None:
        self.driver.store.on_completed(batch)
        self.written += 1
        self.end = end

    def _space(self, spare: int, room: bool) -> None:
        self.driver.store.space_changed(spare, room)

    def syncs_for(self, body: bytes, count: int) -> int:
        """Send ``count`` messages at once; return how often the disk synced from then on before they were answered."""
        store, trace = self.driver.store, self.driver.disk.trace
        for _ in range(count):
            store.append(A, plain_message(A, 1, body))
        before, written = -1, self.written
        while self.written == written:
            batch = store.next_batch()
            if batch is not None:
                self.writer.hand_over(batch, store.wanted_spare, store.wanted_reserve, store.room_bytes)
            elif store.wanted_spare:
                self.writer.prepare(store.wanted_spare, store.wanted_reserve, store.room_bytes)
            if before < 0:
                before = len(trace)  # not earlier: until it has the batch the thread may grow files at its leisure
            self.calls.run_one()
        return len([line for line in trace[before : self.end] if line.startswith("sync")])


@pytest.mark.large
@pytest.mark.parametrize("messages", [1, 2, 6])
def test_an_answer_waits_for_few_syncs_however_large_segment_and_reserve_are(messages: int) -> None:
    answers = Answers(24 * STEP_BYTES)
    body = b"x" * (STEP_BYTES // 2)
    syncs = [answers.syncs_for(body, messages) for _ in range(160 // messages)]
    answers.writer.stop()
    assert answers.driver.store.segment > 3
    # its own; the summary of a segment and a step that were begun before; reserve and spare file; the new segment's
    # first bytes and name
    assert max(syncs) <= 7
