"""The power is cut while batches grow slice by slice: each counts whole or not at all, and nothing stored is lost."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from tests.simulation.disk import PowerCutError
from tests.simulation.gathering_journal import GatheringJournal, gather_and_work
from tests.support.journal_driver import JournalDriver, recovered_state
from tests.support.seeds import SEEDS, SHORT

CALLS = 400
STEP = 13 if SHORT else 2  # steps from cut to cut
CALLS_BEFORE_EACH_CUT = 130  # made again for every step, where the seeds make each call once


@pytest.mark.large
@pytest.mark.parametrize("seed", SEEDS)
def test_many_crashes_in_a_row_lose_nothing_of_batches_that_grow_in_slices(seed: int) -> None:
    random = Random(seed)
    checked = GatheringJournal()
    for _ in range(6):
        disk = checked.driver.disk
        disk.cut_at = disk.steps + random.randrange(120)
        try:
            gather_and_work(checked, random, CALLS)
            checked.crash(random)
        except PowerCutError:
            checked.after(checked.driver.disk.power_cut(random))
        checked.check()
    assert checked.gathered > 0
    assert checked.cut > 0


@pytest.mark.large
def test_a_cut_at_every_step_leaves_a_batch_of_slices_whole_or_not_at_all() -> None:
    cut_at = 0
    while True:
        checked = GatheringJournal()
        disk = checked.driver.disk
        disk.cut_at = disk.steps + cut_at
        try:
            gather_and_work(checked, Random(4), CALLS_BEFORE_EACH_CUT)
        except PowerCutError:
            for left in (
                disk.power_cut_keeping(lambda data: None, lambda: False),
                disk.power_cut_keeping(lambda data: data, lambda: True),
            ):
                driver = JournalDriver(left)
                assert checked.is_allowed(driver.state(), driver.metadata)
            checked.after(disk.power_cut(Random(cut_at)))
            gather_and_work(checked, Random(cut_at), 20)
            checked.check()
            cut_at += STEP
            continue
        break
    assert cut_at > 150


def beginning(length: int, data: bytes) -> bytes:
    return data[:length]


def test_a_batch_of_slices_that_is_torn_at_any_byte_is_dropped_whole() -> None:
    checked = GatheringJournal()
    checked.append("A", 30)
    checked.driver.turn()
    before = recovered_state(checked.driver.disk.copy())
    checked.append("A", 700)
    checked.unit([("A", 5), ("D", 60), ("A", 70), ("D", 80), ("A", 90)], [("A", 1)])
    checked.remove("A", 2)
    assert checked.driver.store.gather()
    assert checked.driver.store.gather()
    disk = checked.driver.disk
    disk.cut_at = disk.steps + 1  # the write is made, its sync is not
    batch = checked.driver.store.next_batch()
    assert batch is not None and len(batch.slices) == 3
    with pytest.raises(PowerCutError):
        checked.driver.end_one(batch)
    size = int(disk.trace[-1].split()[-1])
    assert size == batch.size
    for length in range(size + 1):
        torn = disk.power_cut_keeping(partial(beginning, length), lambda: True)
        whole = disk.copy().contents() == torn.contents()
        assert recovered_state(torn) == (checked.state if whole else before), length
