"""Syncs on the loop's thread: when a client alone waits for a fast disk, and never for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.stores.journal.loop_syncs import (
    FAST_SYNC,
    MAX_BATCH_BYTES,
    OTHERS_SECONDS,
    RECENT_SYNCS,
    SLOW_SYNC,
    pause_after,
)
from tests.support.journal_store_driver import JournalStoreDriver
from tests.support.plain_format import plain_message
from tests.support.timed_store import FAST, MIB, A, TimedStore

JUMP = 0.4  # seconds of a sync of a disk that has become slow


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TimedStore]:
    made = TimedStore(tmp_path / "data")
    yield made
    made.stop()


def test_the_loop_syncs_for_a_client_alone_after_some_fast_syncs_of_the_thread(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    assert len(store.disk.syncs) == RECENT_SYNCS // 2 + 1  # the first one was before
    store.send()
    assert store.disk.syncs[-1] == (True, FAST)


def test_the_answer_comes_in_the_turn_of_the_message(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.journal.append(A, plain_message(A, 1))
    position = store.journal.position()
    store.turn(1)
    assert store.stored == position


def test_the_loop_stands_still_for_one_sync_of_a_disk_that_becomes_slow(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.disk.syncs.clear()
    store.blocked.clear()
    store.disk.seconds = JUMP
    for _ in range(300):
        store.send()
        store.pass_time(1.0)
    assert store.loop_syncs == [JUMP]
    assert [seconds for seconds in store.blocked if seconds > SLOW_SYNC] == [pytest.approx(JUMP)]


@pytest.mark.parametrize("seconds", [0.002, 0.01, 0.05])
@pytest.mark.large
def test_a_disk_that_is_slow_now_and_then_adds_little_to_the_mean_wait_of_others(
    store: TimedStore, seconds: float
) -> None:
    store.send_until_the_loop_syncs()
    store.disk.syncs.clear()
    start = store.now
    for number in range(3000):
        store.disk.seconds = seconds if number % 50 == 0 else FAST
        store.send()
        store.pass_time(0.01)
    slow = [seconds for seconds in store.loop_syncs if seconds > SLOW_SYNC]
    mean_wait = sum(seconds**2 / 2 for seconds in slow[1:]) / (store.now - start)
    assert len(slow) > 10 and mean_wait < SLOW_SYNC / 2


def test_the_loop_syncs_again_when_the_disk_is_fast_again_for_a_while(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.disk.seconds = JUMP
    store.send()
    store.disk.seconds = FAST
    store.disk.syncs.clear()
    store.pass_time(pause_after(JUMP) - 1.0)
    for _ in range(RECENT_SYNCS):
        store.send()
    assert store.loop_syncs == []
    store.pass_time(1.0)
    store.send()
    assert store.loop_syncs == [FAST]


def test_a_disk_that_is_neither_fast_nor_slow_is_for_the_thread(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.disk.seconds = 2 * FAST_SYNC
    for _ in range(RECENT_SYNCS):
        store.send()
    store.disk.syncs.clear()
    store.send()
    assert store.loop_syncs == []


def test_a_turn_with_somebody_who_wants_nothing_of_the_store_is_for_the_thread_and_so_are_those_after_it(
    store: TimedStore,
) -> None:
    store.send_until_the_loop_syncs()
    store.disk.syncs.clear()
    store.send(others=1)
    store.send()
    store.pass_time(OTHERS_SECONDS)
    store.turn(1)  # somebody who wants nothing of the store, alone
    store.send()
    assert store.loop_syncs == []
    store.pass_time(OTHERS_SECONDS)
    store.send()
    assert store.loop_syncs == [FAST]


def test_clients_that_wait_together_are_for_the_thread(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.send(clients=2)
    assert not store.disk.syncs[-1][0]


def test_a_large_message_is_for_the_thread(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.send(size=MAX_BATCH_BYTES)
    assert not store.disk.syncs[-1][0]


def test_a_message_nobody_waits_for_is_for_the_thread(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.journal.append(A, plain_message(A, 1))
    store.turn(1)
    store.await_stored(store.journal.last_position)
    assert not store.disk.syncs[-1][0]


def test_the_thread_makes_new_segments_and_their_files(tmp_path: Path) -> None:
    store = TimedStore(tmp_path / "data", segment_bytes=MIB)
    try:
        store.send_until_the_loop_syncs()
        first = store.journal.segment
        while store.journal.segment < first + 2:
            store.send(size=10_000)
        assert 20 < len(store.loop_syncs) < len(store.disk.syncs)
    finally:
        store.stop()


def test_on_a_full_disk_the_thread_writes_the_batch_again(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.disk.full_writes = 1
    stored = store.stored
    store.send()
    assert store.stored > stored and not store.disk.syncs[-1][0]


def test_a_failed_sync_is_told_from_the_loop_and_nothing_is_answered(store: TimedStore) -> None:
    store.send_until_the_loop_syncs()
    store.disk.fails = True
    stored, syncs = store.stored, len(store.disk.syncs)
    store.send()
    store.turn(1)
    assert [str(failure) for failure in store.failures] == [str(store.store._writer.failed)]
    assert "cannot be written at byte" in str(store.failures[0])
    assert store.stored == stored and len(store.disk.syncs) == syncs


def test_without_syncs_the_thread_writes(tmp_path: Path) -> None:
    store = TimedStore(tmp_path / "data", sync=False)
    try:
        for _ in range(2 * RECENT_SYNCS):
            store.send()
        assert store.disk.syncs == []
    finally:
        store.stop()


def test_what_the_loop_has_synced_survives_a_kill(tmp_path: Path) -> None:
    store = TimedStore(tmp_path / "data")
    store.send_until_the_loop_syncs()
    for _ in range(5):
        store.send()
    sent = store.journal.append(A, plain_message(A, 1)) - 1
    copy = tmp_path / "copy"
    (copy / "journal").mkdir(parents=True)
    for file in (tmp_path / "data" / "journal").iterdir():
        (copy / "journal" / file.name).write_bytes(file.read_bytes())
    store.stop()
    again = JournalStoreDriver(copy)
    try:
        assert list(again.recovered[0].sequences) == list(range(1, sent + 1))
    finally:
        again.journal_store.stop()


def test_the_driver_of_other_tests_has_the_loop_write_where_it_may(tmp_path: Path) -> None:
    driver = JournalStoreDriver(tmp_path / "data", in_loop=True)
    tasks = driver.thread_tasks
    for number in range(5):
        driver.store.append(A, plain_message(A, number))
        driver.turn()
    assert driver.thread_tasks == tasks
    driver.journal_store.stop()
