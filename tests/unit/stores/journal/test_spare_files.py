"""The files that are made ahead: in which order they grow, and what becomes of the reserve on a full disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.stores.journal.segments.segment import MAX_SEGMENT_BYTES, RESERVE_NAME, SPARE_NAME
from spanwire.stores.journal.space import LEAST_SEGMENT, possible_segment
from spanwire.stores.journal.spare_files import STEP_BYTES, SpareFiles, wanted_reserve
from tests.simulation.disk import SimulatedDisk


def made(disk: SimulatedDisk, spare: int, reserve: int, is_full: bool = False) -> SpareFiles:
    files = SpareFiles(disk, True)
    files.spare_target, files.reserve_target = spare, reserve
    while not files.is_ready:
        files.grow(is_full)
    return files


def test_a_reserve_holds_a_removal_of_each_message_besides_what_compaction_needs() -> None:
    assert wanted_reserve(1 << 25, 0, 1000) == 48 << 20
    assert wanted_reserve(1 << 25, 0, 20 << 20) == 52 << 20
    assert wanted_reserve(1 << 25, 0, 200 << 20) == 96 << 20
    assert wanted_reserve(1 << 25, 1_000_000, 0) == 79 << 20  # 32,000,000 bytes more, in whole steps
    assert wanted_reserve(1 << 25, 1_000_000_000, 0) == MAX_SEGMENT_BYTES


@pytest.mark.parametrize("is_full", [False, True])
def test_the_reserve_comes_first_and_on_a_full_disk_last(is_full: bool) -> None:
    disk = SimulatedDisk()
    made(disk, 2 * STEP_BYTES, STEP_BYTES, is_full)
    order = [line.split()[1] for line in disk.trace if line.startswith("write")]
    assert order == ([SPARE_NAME, SPARE_NAME, RESERVE_NAME] if is_full else [RESERVE_NAME, SPARE_NAME, SPARE_NAME])
    assert disk.files() == {SPARE_NAME: 2 * STEP_BYTES, RESERVE_NAME: STEP_BYTES}


def test_without_room_the_reserve_becomes_the_next_segments_file_and_its_new_name_is_synced() -> None:
    disk = SimulatedDisk()
    files = made(disk, 0, 3000)
    files.spare_target = 2000
    assert files.ready_bytes == 0
    files.use_reserve()
    assert (files.ready_bytes, files.reserve_bytes) == (3000, 0)
    assert disk.trace[-2:] == [f"rename {RESERVE_NAME} {SPARE_NAME}", "sync directory"]
    files.use_reserve()
    assert disk.files() == {SPARE_NAME: 3000}


def test_a_file_that_is_whole_or_not_needed_is_not_replaced() -> None:
    disk = SimulatedDisk()
    made(disk, 1000, 3000).use_reserve()
    made(disk, 0, 3000).use_reserve()
    assert disk.files() == {SPARE_NAME: 1000, RESERVE_NAME: 3000}


def test_a_reserve_that_an_earlier_run_left_is_kept_and_one_that_is_far_too_large_is_cut() -> None:
    disk = SimulatedDisk()
    made(disk, 0, 9000)
    files = SpareFiles(disk, True)
    files.reserve_target = 3000
    files.shrink_reserve()
    assert files.reserve_bytes == disk.files()[RESERVE_NAME] == 9000
    files.reserve_target = 2000
    files.shrink_reserve()
    assert files.reserve_bytes == disk.files()[RESERVE_NAME] == 2000


def test_a_start_without_any_room_begins_with_the_reserve() -> None:
    disk = SimulatedDisk()
    made(disk, 0, 3 * LEAST_SEGMENT)
    disk.room = 0
    assert possible_segment(disk, 2 * LEAST_SEGMENT) == 2 * LEAST_SEGMENT
    assert disk.files() == {SPARE_NAME: 2 * LEAST_SEGMENT}


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 8))
def test_files_that_grow_by_what_is_due_are_ready_when_the_segment_is_full(missing: int, room: int, batch: int) -> None:
    disk = SimulatedDisk()
    files = SpareFiles(disk, True)
    files.spare_target, files.reserve_target = missing * 100, 0
    left, batches, due = room * 100, 0, 0
    while left > 0:
        written = min(left, batch * 100)
        left -= written
        batches += 1
        due += files.due(written, left)
        if due >= 100 and not files.is_ready:
            files.grow(False, due)
            due = 0
    if not files.is_ready:
        files.grow(False, max(due, files.missing_bytes))
    assert files.is_ready
    assert len([line for line in disk.trace if line.startswith("sync")]) <= batches + 1
