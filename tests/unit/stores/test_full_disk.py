"""The journal store on a disk that is full, with its threads: what waits, what goes on, who is told."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.segment import RESERVE_NAME
from tests.support.journal_store_driver import JournalStoreDriver
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")
SEGMENT = 65_536


class FullDisk:
    """While ``is_full``, files do not grow."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._pwritev = os.pwritev
        monkeypatch.setattr(os, "pwritev", self.pwritev)

    def pwritev(self, descriptor: int, parts: list[bytes], offset: int, flags: int = 0) -> int:
        if self.is_full and offset + sum(map(len, parts)) > os.fstat(descriptor).st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._pwritev(descriptor, parts, offset, flags)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


@pytest.fixture
def driver(tmp_path: Path, disk: FullDisk) -> Iterator[JournalStoreDriver]:
    made = JournalStoreDriver(tmp_path / "data", SEGMENT)
    for number in range(SEGMENT * 5 // 8 // 1100):
        made.store.append(A, plain_message(A, number, b"x" * 1000))
        if number == 10:
            made.turn()
            disk.is_full = True
    made.turn_until(lambda: made.rooms == [False])
    yield made
    disk.is_full = False


@pytest.mark.large
def test_messages_wait_and_acknowledgements_do_not(driver: JournalStoreDriver, disk: FullDisk) -> None:
    assert not driver.store.has_room()
    sequence = driver.store.append(A, plain_message(A, 99, bytes(SEGMENT // 2)))
    waits = driver.store.position()
    driver.store.remove(A, 1)
    driver.turn_until(lambda: driver.journal_store.backlog_bytes < SEGMENT // 2 + 200)  # the message alone
    assert driver.stored == waits - 1
    disk.is_full = False
    driver.turn_until(lambda: driver.stored > waits)
    assert driver.rooms == [False, True]
    assert driver.store.has_room()
    driver.reopen()
    sequences = list(driver.recovered[0].sequences)
    assert sequence in sequences
    assert 1 not in sequences
    assert driver.clean
    driver.journal_store.stop()


@pytest.mark.large
def test_it_is_said_once_when_the_room_goes_and_when_it_comes(
    driver: JournalStoreDriver, disk: FullDisk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        disk.is_full = False
        driver.turn_until(lambda: driver.rooms == [False, True])
    assert caplog.messages == ["there is room on the disk again: messages are taken"]
    driver.journal_store.stop()


def test_a_stop_on_a_full_disk_keeps_what_was_acknowledged_and_says_what_it_does_not(
    driver: JournalStoreDriver, disk: FullDisk, caplog: pytest.LogCaptureFixture
) -> None:
    stored = driver.stored
    count = stored - 1  # the first position is the queue's own
    for number in range(60):  # more than the rest of the segment takes
        driver.store.append(A, plain_message(A, number, b"x" * 1000))
    with caplog.at_level(logging.WARNING):
        driver.journal_store.stop()
    assert "sends and acknowledgements without an answer are not kept" in caplog.text
    assert driver.stored == stored
    disk.is_full = False
    again = JournalStoreDriver(driver.path, SEGMENT)
    assert not again.clean  # numbers were given out that are not on the disk
    assert len(again.recovered[0].sequences) == count
    again.journal_store.stop()


def test_a_start_on_a_full_disk_is_possible_when_the_last_run_left_room(
    driver: JournalStoreDriver, disk: FullDisk
) -> None:
    driver.journal_store.stop()
    disk.is_full = False
    again = JournalStoreDriver(driver.path, SEGMENT)
    again.journal_store.stop()
    disk.is_full = True
    with pytest.raises(StoreError) as caught:
        JournalStoreDriver(driver.path, SEGMENT)
    assert "No space left on device; make room on its disk" in str(caught.value)
    disk.is_full = False
    JournalStoreDriver(driver.path, SEGMENT).journal_store.stop()


def test_a_start_on_a_full_disk_takes_the_reserve_that_the_last_run_left(tmp_path: Path, disk: FullDisk) -> None:
    driver = JournalStoreDriver(tmp_path / "data", SEGMENT)
    for number in range(SEGMENT * 3 // 1100):
        driver.store.append(A, plain_message(A, number, b"x" * 1000))
        driver.turn()
    reserve = tmp_path / "data" / "journal" / RESERVE_NAME
    driver.turn_until(lambda: reserve.exists() and reserve.stat().st_size >= SEGMENT * 3 // 2)
    count = driver.store.position()
    driver.turn_until(lambda: driver.stored >= count)
    driver.journal_store.stop()
    disk.is_full = True
    again = JournalStoreDriver(driver.path, SEGMENT)
    assert not reserve.exists()
    for sequence in list(again.recovered[0].sequences):
        again.store.remove(A, sequence)
    disk.is_full = False
    again.journal_store.stop()


@pytest.mark.large
def test_a_stop_is_clean_also_when_its_mark_needs_a_new_segment(tmp_path: Path) -> None:
    for size in range(3700, 4100, 8):
        driver = JournalStoreDriver(tmp_path / str(size), segment_bytes=4096)
        driver.store.append(A, plain_message(A, 1, b"x" * size))
        driver.turn()
        driver.reopen()
        assert driver.clean
        assert len(driver.recovered[0].sequences) == 1
        driver.journal_store.stop()


def test_what_is_told_of_the_disk_after_a_stop_reaches_nobody(driver: JournalStoreDriver, disk: FullDisk) -> None:
    disk.is_full = False
    driver.journal_store.stop()
    driver.journal_store._on_space_change(SEGMENT, True)
    assert driver.rooms == [False]


def test_a_file_that_the_batch_under_way_takes_is_not_counted_on_again(tmp_path: Path, disk: FullDisk) -> None:
    driver = JournalStoreDriver(tmp_path / "data", SEGMENT)
    journal = driver.journal_store._journal
    for number in range(SEGMENT * 5 // 8 // 1100):
        driver.store.append(A, plain_message(A, number, b"x" * 1000))
    driver.turn_until(
        lambda: journal.segment_end > SEGMENT // 2 and not journal.is_writing and not journal.wanted_spare
    )
    driver.store.append(A, plain_message(A, 1, bytes(SEGMENT // 2)))
    driver.journal_store.turn(driver.now)
    assert journal.segment == 2 and journal.is_writing
    driver.journal_store._on_space_change(SEGMENT, False)  # reported before the writer came to the batch
    assert journal.wanted_spare == SEGMENT
    driver.turn_until(lambda: driver.rooms == [False, True])
    driver.journal_store.stop()


@pytest.mark.parametrize("has_space", [True, False])
def test_a_turn_follows_whatever_is_told_of_the_disk(tmp_path: Path, has_space: bool) -> None:
    driver = JournalStoreDriver(tmp_path / "data", SEGMENT)
    driver.turn()
    assert not driver.journal_store._journal.has_unwritten
    reports = driver.reports
    driver.journal_store._on_space_change(SEGMENT, has_space)  # records that compaction read may have room now
    assert driver.reports == reports + 1
    driver.journal_store.stop()
