"""Writes of which the system takes a part: the journal goes on as if they had been taken whole.

SPANWIRE_ERRORS_EVERY sets how finely the first 500 calls are tried: every 8th unless told.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from spanwire.model.errors import StoreError
from tests.simulation.disk import PowerCutError, SimulatedDisk
from tests.simulation.test_disk_errors import CALLS, EVERY, LAST_CALL
from tests.support.journal_driver import recovered_state
from tests.support.journal_model import CheckedJournal, work, work_on_all

SEEDS = 20
ENOUGH = 10  # seeds, of which at least one must show a planted fault


def any_part(random: Random) -> Callable[[int], int]:
    """Takes any number of bytes, all of them every other time."""
    return lambda size: size if random.random() < 0.5 else random.randrange(1, size + 1)


def live(seed: int, trusts: bool = False) -> CheckedJournal:
    """A load, crashes, starts and stops, all with writes that are cut into parts."""
    random = Random(seed)
    checked = CheckedJournal()
    for _ in range(4):
        checked.driver.disk.takes = any_part(random)
        checked.driver.disk.trusts = trusts
        work_on_all(checked, random, 60)
        checked.crash(random)
    checked.driver.disk.takes = any_part(random)
    checked.driver.disk.trusts = trusts
    work(checked, random, 40)
    checked.reopen()
    checked.check()
    return checked


@pytest.mark.large
@pytest.mark.parametrize("seed", range(SEEDS))
def test_writes_that_are_taken_in_parts_come_to_their_end(seed: int) -> None:
    trace = live(seed).driver.disk.trace
    assert len([line for line in trace if line.startswith("write")]) > 10


def test_a_writer_that_trusts_the_first_answer_is_found() -> None:
    found = 0
    for seed in range(ENOUGH):
        try:
            live(seed, trusts=True)
        except (StoreError, AssertionError, OSError):
            found += 1
    assert found == ENOUGH


def run_until_fault(seed: int, call: int, fault: int) -> CheckedJournal:
    """Call ``call`` takes half of what it gets; the next fails with error ``fault``, or is the last (0)."""
    disk = SimulatedDisk()
    checked = CheckedJournal(disk)
    step = disk.steps + call
    disk.takes = lambda size: size // 2 if disk.steps == step else size
    if fault:
        disk.fail_at = {step + 1: fault}
        found = 0
        try:
            work(checked, Random(seed), CALLS)
        except OSError as error:
            found = error.errno or 0
        may_go_on = fault == errno.ENOSPC or "summary" in disk.failures[0]  # a start makes a smaller segment
        assert found == fault or may_go_on
    else:
        disk.cut_at = step + 1
        with pytest.raises(PowerCutError):
            work(checked, Random(seed), CALLS)
    return checked


@pytest.mark.large
@pytest.mark.parametrize("fault", [errno.EIO, errno.ENOSPC, 0])
@pytest.mark.parametrize("call", range(1, LAST_CALL + 1, EVERY * 3))
def test_between_the_parts_of_a_write_the_disk_may_fail(call: int, fault: int) -> None:
    checked = run_until_fault(call % 5, call, fault)
    disk = checked.driver.disk
    allowed = checked.allowed
    for seed in range(3):
        assert recovered_state(disk.power_cut(Random(seed))) in allowed
    checked.after(disk.power_cut(Random(call)))
    work(checked, Random(call), 10)
    checked.reopen()
    checked.check()
