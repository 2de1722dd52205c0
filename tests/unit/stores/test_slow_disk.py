"""A disk whose syncs take long: who waits for how many of them, and what one turn of the loop does for it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from spanwire.broker.persistence.unsynced_bytes import MAX_UNSYNCED_BYTES
from spanwire.model.destination import QUEUE, Destination
from spanwire.stores.journal.outbox import MAX_SLICE_RECORDS
from tests.support.plain_format import plain_message
from tests.support.slow_disk import SlowStore

A = Destination(QUEUE, "A")
MIB = 1024 * 1024
LARGE = b"x" * 200_000


@pytest.mark.large
@pytest.mark.parametrize(("segment_bytes", "syncs"), [(256 * MIB, 2), (32 * MIB, 9)])
def test_a_newcomer_behind_all_that_may_wait_for_the_disk_waits_for_few_syncs(
    tmp_path: Path, segment_bytes: int, syncs: int
) -> None:
    store = SlowStore(tmp_path, segment_bytes)
    try:
        message = plain_message(A, 1, LARGE)
        for _ in range(MAX_UNSYNCED_BYTES // len(LARGE)):
            store.journal.append(A, message)
        store.run_to_sync()
        store.journal.append(A, plain_message(A, 2))
        waited = store.syncs_until(store.journal.position())
    finally:
        store.stop()
    assert waited <= syncs


@pytest.mark.large
def test_a_large_unit_is_encoded_some_records_in_each_turn(tmp_path: Path) -> None:
    store = SlowStore(tmp_path, 32 * MIB)
    count = 4 * MAX_SLICE_RECORDS
    try:
        store.journal.append_unit([(A, plain_message(A, number)) for number in range(count)], [], [])
        position = store.journal.position()
        encoded = [0]
        while not store.journal.is_writing:
            store.turn()
            encoded.append(sum(len(part.entries) for part in store.journal._next.slices))
            store.calls.run_all()
        assert max(after - before for before, after in pairwise(encoded)) <= 2 * MAX_SLICE_RECORDS
        assert len(encoded) > 4
        assert store.syncs_until(position) == 1
    finally:
        store.stop()


def test_the_answers_to_a_large_batch_take_several_turns(tmp_path: Path) -> None:
    store = SlowStore(tmp_path, 32 * MIB)
    try:
        store.journal.append(A, plain_message(A, 1))
        store.run_to_sync()
        for number in range(5 * MAX_SLICE_RECORDS):
            store.journal.append(A, plain_message(A, number))
        position = store.journal.position()
        assert store.syncs_until(position) == 2
        steps = [after - before for before, after in pairwise([0, *store.reports])]
        assert max(steps) <= MAX_SLICE_RECORDS + 1
    finally:
        store.stop()


def test_a_pause_behind_a_fast_write_is_none_in_which_the_next_batch_grows(tmp_path: Path) -> None:
    store = SlowStore(tmp_path, 32 * MIB)
    try:
        store.journal.append(A, plain_message(A, 1))
        store.run_to_sync()
        while store.journal.is_writing or not store.calls.is_empty:
            if store.disk.asked:
                store.disk.release()
            store.run()
        store.now += 60.0
        for number in range(3 * MAX_SLICE_RECORDS):
            store.journal.append(A, plain_message(A, number))
        store.turn()
        is_writing = store.journal.is_writing
    finally:
        store.stop()
    assert is_writing
