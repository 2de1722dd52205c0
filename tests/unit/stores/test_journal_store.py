"""The journal store on real files: lock, modes, threads, failures, kill -9."""

from __future__ import annotations

import errno
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import FencedError, StoreError
from spanwire.stores.driver.answers import ANSWER_SLICE
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.driver.fenced_disk import FencedDisk
from spanwire.stores.driver.journal_store import ACK_SYNC_DELAY
from spanwire.stores.driver.reader import JournalReader
from spanwire.stores.driver.writer import JournalWriter
from spanwire.stores.epoch import claim_epoch
from spanwire.stores.journal.batch import Batch
from spanwire.stores.journal.compaction.compaction import Scan
from spanwire.stores.journal.fetching.fetch import Fetch, Read, StoredBytes
from spanwire.stores.journal.fetching.fetch_blocks import MAX_BLOCK_BYTES, blocks
from spanwire.stores.journal.group_commit import MAX_PAUSE, MIN_CLIENTS
from spanwire.stores.journal.segments.segment import segment_name
from spanwire.stores.start_progress import StartProgress
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver
from tests.support.journal_store_driver import JournalStoreDriver
from tests.support.loop import PostedCalls
from tests.support.plain_format import body_of, plain_message

A = Destination(QUEUE, "A")
KILL_CYCLES = 10
MIB = 1024 * 1024


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[JournalStoreDriver]:
    made = JournalStoreDriver(tmp_path / "data")
    yield made
    if not made.failures:
        made.journal_store.stop()


def test_directories_are_for_their_owner_alone_and_so_are_the_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        driver = JournalStoreDriver(tmp_path / "data")
        driver.store.append(A, plain_message(A, 1))
        driver.turn()
    finally:
        os.umask(before)
    assert stat.S_IMODE(driver.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((driver.path / "journal").stat().st_mode) == 0o700
    for file in [driver.path / "lock", *(driver.path / "journal").iterdir()]:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    driver.journal_store.stop()


def test_a_second_broker_is_refused_in_one_line_that_names_the_first(driver: JournalStoreDriver) -> None:
    before = sorted(file.name for file in (driver.path / "journal").iterdir())
    with pytest.raises(StoreError) as caught:
        JournalStoreDriver(driver.path)
    assert str(caught.value) == (
        f"the data directory {driver.path} is in use by process {os.getpid()}: stop that broker or give this one"
        " another directory"
    )
    assert sorted(file.name for file in (driver.path / "journal").iterdir()) == before


def test_the_lock_is_free_again_after_a_stop_and_after_a_refused_store(tmp_path: Path) -> None:
    driver = JournalStoreDriver(tmp_path / "data")
    driver.journal_store.stop()
    bad = tmp_path / "data" / "journal" / segment_name(1)
    good = bad.read_bytes()
    bad.write_bytes(b"something else")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"cannot be opened: 0000000001\.journal is not a journal segment"):
            JournalStoreDriver(tmp_path / "data")
        assert bad.read_bytes() == b"something else"
    bad.write_bytes(good)
    JournalStoreDriver(tmp_path / "data").journal_store.stop()


def test_a_clean_stop_gives_back_the_room_that_was_set_aside(driver: JournalStoreDriver) -> None:
    driver.store.append(A, plain_message(A, 1))
    driver.reopen()
    sizes = {file.name: file.stat().st_size for file in (driver.path / "journal").iterdir()}
    assert sizes[segment_name(1)] < 1000
    assert sizes[segment_name(2)] == driver.segment_bytes


def test_stop_writes_what_has_gathered_and_tells_so(tmp_path: Path) -> None:
    driver = JournalStoreDriver(tmp_path / "data")
    sequence = driver.store.append(A, plain_message(A, 1))
    driver.journal_store.turn(0.0)
    driver.store.append(A, plain_message(A, 2))
    position = driver.store.position()
    driver.journal_store.stop()
    assert driver.stored == position
    driver.calls.run_all()  # what the thread posted before it ended changes nothing any more
    assert driver.stored == position
    again = JournalStoreDriver(tmp_path / "data")
    assert again.clean
    assert list(again.recovered[0].sequences) == [sequence, sequence + 1]
    again.journal_store.stop()


def test_removals_nobody_waits_for_are_handed_over_after_a_short_delay(driver: JournalStoreDriver) -> None:
    sequence = driver.store.append(A, plain_message(A, 1))
    driver.turn()
    before = driver.stored
    driver.now = 100.0
    driver.store.remove(A, sequence)
    driver.journal_store.turn(100.0)
    assert driver.journal_store.next_deadline() == 100.0 + ACK_SYNC_DELAY
    driver.journal_store.turn(100.0 + ACK_SYNC_DELAY / 2)
    assert driver.journal_store.backlog_bytes > 0
    driver.journal_store.turn(100.0 + ACK_SYNC_DELAY)
    assert driver.journal_store.next_deadline() is None
    driver.calls.run_one()
    assert driver.stored == before + 1


def test_a_batch_waits_a_moment_for_the_clients_that_the_last_one_answered(driver: JournalStoreDriver) -> None:
    def clients_send(count: int) -> None:
        for number in range(count):
            driver.store.append(A, plain_message(A, number))
            driver.store.position()  # somebody waits

    clients_send(MIN_CLIENTS - 1)
    driver.turn()  # waits like one more client
    driver.now = 100.0
    clients_send(1)
    driver.journal_store.turn(100.0)
    assert driver.journal_store.next_deadline() == 100.0 + MAX_PAUSE
    assert driver.journal_store.backlog_bytes > 0
    clients_send(MIN_CLIENTS - 2)
    driver.journal_store.turn(100.0)
    assert driver.journal_store.next_deadline() == 100.0 + MAX_PAUSE, "the batch left before the last client came"
    clients_send(1)
    driver.journal_store.turn(100.0)
    assert driver.journal_store.next_deadline() is None, "a client was counted twice: answered, and waiting again"
    driver.calls.run_one()
    assert driver.stored == driver.store.position()


def test_a_batch_that_only_tidies_up_is_reported_too_for_somebody_may_wait_behind_it(tmp_path: Path) -> None:
    driver = JournalStoreDriver(tmp_path / "data", segment_bytes=4096)
    driver.store.remove(A, driver.store.append(A, plain_message(A, 1)))
    driver.store.append(A, plain_message(A, 2, b"x" * 4000))
    driver.turn()  # the first segment is not needed any more, and that is still to be written
    reports = driver.reports
    driver.journal_store.turn(1.0)
    driver.journal_store.turn(2.0)  # nobody waits for it, so it may be late
    driver.store.append(A, plain_message(A, 3))
    position = driver.store.position()
    driver.journal_store.turn(2.0)
    driver.run_until_reported()
    assert driver.reports == reports + 1
    assert driver.stored < position
    while driver.stored < position:
        driver.journal_store.turn(2.0)
        driver.calls.run_one()
    driver.journal_store.stop()


def test_many_segments_with_spares_are_written_and_read_back(driver: JournalStoreDriver) -> None:
    sequences = []
    for number in range(200):
        sequences.append(driver.store.append(A, plain_message(A, number, b"%03d" % number * 700)))
        if number % 5 == 0:
            driver.turn()
    driver.turn()
    driver.store.fetch(1, A, sequences[::-1])
    driver.turn()
    found = [body_of(message)[:3] for message in driver.fetched[1] if message is not None]
    assert found == [b"%03d" % number for number in reversed(range(200))]
    assert len(list((driver.path / "journal").iterdir())) > 5
    assert driver.failures == []


def test_switched_off_syncs_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        driver = JournalStoreDriver(tmp_path / "data", sync=False)
    assert "disk syncs are off" in caplog.text
    driver.store.append(A, plain_message(A, 1))
    driver.turn()
    driver.reopen()
    assert len(driver.recovered[0].sequences) == 1
    driver.journal_store.stop()


def test_a_damaged_message_is_put_aside_with_one_line_in_the_log_and_the_others_are_given(
    driver: JournalStoreDriver, caplog: pytest.LogCaptureFixture
) -> None:
    sequence = driver.store.append(A, plain_message(A, 1, b"x" * 500))
    driver.store.append(A, plain_message(A, 2, b"whole"))
    driver.turn()
    path = driver.path / "journal" / segment_name(1)
    data = bytearray(path.read_bytes())
    data[data.index(b"xxxx") + 50] ^= 1
    path.write_bytes(data)
    driver.store.fetch(1, A, [sequence, sequence + 1])
    driver.turn()
    assert driver.fetched[1][0] is None
    assert driver.fetched[1][1] is not None
    assert not driver.failures
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert line.startswith("0000000001.journal is damaged at byte ")
    assert "message 1 of queue://A" in line
    driver.journal_store.stop()


def test_what_was_read_is_taken_apart_some_at_a_time_in_the_order_of_the_requests(driver: JournalStoreDriver) -> None:
    count = 3 * ANSWER_SLICE
    sequences = [driver.store.append(A, plain_message(A, number)) for number in range(count)]
    driver.turn()
    driver.store.fetch(1, A, sequences)
    driver.store.fetch(2, A, sequences[:1])
    driver.journal_store.turn(driver.now)
    driver.calls.run_one()  # the first page came
    driver.calls.run_one()
    assert driver.fetched == {}
    driver.store.remove(A, sequences[0])  # though it was taken apart already
    driver.turn_until(lambda: 2 in driver.fetched)
    assert list(driver.fetched) == [1, 2]
    assert [message is not None for message in driver.fetched[1]] == [False] + [True] * (count - 1)
    assert driver.fetched[2] == [None]


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.EIO, "look at the disk"), (errno.ENOSPC, "make room"), (errno.EDQUOT, "make room")]
)
def test_the_writer_stops_at_the_first_error_of_a_sync_and_never_tries_again(number: int, advice: str) -> None:
    journal = JournalDriver()
    calls = PostedCalls()
    written: list[Batch] = []
    failed: list[StoreError] = []
    writer = JournalWriter(
        journal.disk,
        lambda batch: calls.post(lambda: written.append(batch)),
        lambda e: calls.post(lambda: failed.append(e)),
        lambda spare_bytes, has_room: None,
    )
    writer.start()
    for step in range(2):
        journal.disk.fail_at = {journal.disk.steps + 1: number} if step else {}
        journal.store.append(A, plain_message(A, step))
        batch = journal.store.next_batch()
        assert batch is not None
        writer.hand_over(batch, 0)
        calls.run_one()
        if written and not failed:
            journal.store.on_completed(batch)
    steps = journal.disk.steps
    writer.hand_over(Batch(9, 1, 0, 1, [b"x"], [], None, []), 0)
    writer.stop()
    assert len(written) == 1
    assert len(failed) == 1
    assert journal.disk.steps == steps
    assert "0000000001.journal cannot be written at byte" in str(failed[0])
    assert advice in str(failed[0])
    assert "\n" not in str(failed[0])


def test_reads_are_grouped_into_blocks_within_limits() -> None:
    reads = [Read(n, 1, n, 1 + n // 50, n % 50 * 40_000 + 64, 30_000, 0) for n in range(100)]
    reads.reverse()
    grouped = blocks(reads)
    assert sorted(place for group in grouped for place in group) == list(range(100))
    for group in grouped:
        first, last = reads[group[0]], reads[group[-1]]
        assert first.segment == last.segment
        assert last.offset + last.size - first.offset <= MAX_BLOCK_BYTES
    assert 4 <= len(grouped) <= 6
    assert len(blocks([Read(0, 1, 1, 1, 64, 5_000_000, 0), Read(1, 1, 2, 1, 5_100_000, 10, 0)])) == 2


def test_a_message_whose_segment_is_gone_is_none() -> None:
    calls = PostedCalls()
    answers: list[list[StoredBytes | None]] = []

    def answered(fetch: Fetch, found: list[StoredBytes | None]) -> None:
        calls.post(lambda: answers.append(found))

    reader = JournalReader(SimulatedDisk(), answered, lambda error: None, lambda scan, block: None)
    reader.start()
    reader.hand_over(Fetch(1, None, [1], [None], [Read(0, 1, 1, 9, 64, 10, 0)]))
    calls.run_one()
    reader.stop()
    assert answers == [[None]]


def test_a_scan_that_finds_another_owner_of_the_store_is_reported(tmp_path: Path) -> None:
    epoch = claim_epoch(tmp_path, "a")
    claim_epoch(tmp_path, "b").close()
    failures: list[StoreError] = []
    scanned: list[bytes] = []
    disk = FencedDisk(FileDisk(tmp_path), epoch, epoch.token)
    reader = JournalReader(disk, lambda fetch, found: None, failures.append, lambda scan, block: scanned.append(block))
    reader.start()
    reader.hand_over(Scan(9, 0, 10))  # the new owner has deleted the segment
    reader.stop()
    epoch.close()
    assert ([type(error) for error in failures], scanned) == ([FencedError], [])


def test_a_file_deleted_by_one_thread_is_gone_for_the_other(tmp_path: Path) -> None:
    writer, reader = FileDisk(tmp_path), FileDisk(tmp_path)
    writer.resize("x", 10)
    assert reader.read("x", 0, 100) == bytes(10)
    writer.write("x", 3, [b"ab", b"", b"c" * 5] + [b"d"] * 3000)
    assert reader.read("x", 2, 6) == b"\0abccc"
    assert writer.files() == {"x": 3 + 7 + 3000}
    writer.delete("x")
    with pytest.raises(FileNotFoundError):
        reader.read("x", 0, 1)
    writer.close()
    reader.close()


@pytest.mark.large
@pytest.mark.parametrize("writer", ["thread", "loop"])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed_again_and_again(tmp_path: Path, writer: str) -> None:
    script = Path(__file__).parent.parent.parent / "support" / "journal_victim.py"
    root = Path(__file__).parent.parent.parent.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])}
    told: dict[str, set[int]] = {"stored": set(), "removing": set(), "removed": set()}
    for cycle in range(KILL_CYCLES):
        child = subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / "data"), str(cycle * 1_000_000), writer],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert child.stdout is not None
        for count, line in enumerate(child.stdout):
            if count == 40 + 30 * cycle:
                child.kill()  # what is still in the pipe is read to the end
            word, number = line.split()
            told[word].add(int(number))
        child.stdout.close()
        assert child.wait() == -9
        driver = JournalStoreDriver(tmp_path / "data")
        assert not driver.clean
        sequences = list(driver.recovered[0].sequences)
        driver.store.fetch(1, A, sequences)
        driver.turn()
        found = [message.message_id.sequence for message in driver.fetched[1] if message is not None]
        assert len(found) == len(sequences)
        assert found == sorted(set(found))
        assert told["stored"] - told["removing"] <= set(found)
        assert not told["removed"] & set(found)
        driver.journal_store.stop()
    assert len(told["stored"]) > 500
    assert len(told["removed"]) > 100


def test_a_start_that_takes_its_time_tells_how_far_it_is(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    progress = StartProgress(Path("/data/journal"), lambda: now)
    with caplog.at_level(logging.INFO):
        for step in range(11):
            progress.on_progress(step * MIB, 10 * MIB)
            now += 0.5
    assert caplog.messages == [
        "journal /data/journal: 20 % of 10 MiB read",
        "journal /data/journal: 60 % of 10 MiB read",
        "journal /data/journal: 100 % of 10 MiB read",
    ]


def test_a_start_that_is_quick_tells_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        driver = JournalStoreDriver(tmp_path / "data")
        driver.store.append(A, plain_message(A, 1))
        driver.reopen()
        driver.journal_store.stop()
    assert caplog.messages == []
