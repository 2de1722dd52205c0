"""A write or sync that fails at any call: nothing is answered after it, the next start finds what was answered before.

SPANWIRE_ERRORS_EVERY sets how finely the first 500 calls are tried: every 8th unless told.
"""

from __future__ import annotations

import errno
import os
from random import Random
from traceback import extract_tb

import pytest

from spanwire.stores.journal.opening import open_journal
from tests.simulation.disk import PowerCutError, SimulatedDisk
from tests.support.journal_driver import STORE_ID, recovered_state
from tests.support.journal_model import CheckedJournal, work

LAST_CALL = 500
EVERY = int(os.environ.get("SPANWIRE_ERRORS_EVERY", "8"))
CALLS = 1200
SMALL_SEGMENT = 4096


def run_until_error(seed: int, call: int, number: int) -> tuple[CheckedJournal, bool]:
    """The load of ``seed`` until call ``call`` to the disk, or one of those after it, fails with ``number``; whether a
    journal was open then. An error of a summary ends nothing.
    """
    disk = SimulatedDisk()
    checked = CheckedJournal(disk)
    first = disk.steps + call
    disk.fail_at = dict.fromkeys(range(first, first + LAST_CALL), number)
    with pytest.raises(OSError) as caught:
        work(checked, Random(seed), CALLS)
    assert caught.value.errno == number
    disk.fail_at = {}
    assert all("summary" in failure for failure in disk.failures[:-1])
    assert "summary" not in disk.failures[-1]
    return checked, all(frame.name != "reopen" for frame in extract_tb(caught.value.__traceback__))


@pytest.mark.large
@pytest.mark.parametrize("call", range(1, LAST_CALL + 1, EVERY))
def test_after_a_failed_call_nothing_is_answered_and_nothing_answered_is_lost(call: int) -> None:
    checked, is_open = run_until_error(call % 5, call, errno.EIO)
    store = checked.driver.store
    stored = store.stored_position
    store.fail()
    if is_open:
        checked.append("A", 10)
        assert not store.has_work
        assert store.next_batch() is None
        assert store.take_answer() == -1
        assert store.stored_position == stored
    disk = checked.driver.disk
    allowed = checked.allowed
    for seed in range(3):  # the pages of a failed sync are there, gone, or there in part
        assert recovered_state(disk.power_cut(Random(seed))) in allowed
    assert recovered_state(disk.copy()) in allowed
    checked.allowed = allowed
    checked.after(disk.power_cut(Random(call)))
    work(checked, Random(call), 10)
    checked.reopen()
    checked.check()


@pytest.mark.large
@pytest.mark.parametrize("seed", range(4))
def test_errors_of_summaries_end_nothing(seed: int) -> None:
    disk = SimulatedDisk()
    disk.refuses = "summary"
    checked = CheckedJournal(disk)
    work(checked, Random(seed), 600)
    checked.reopen()
    checked.check()
    assert len(disk.failures) > 10
    assert not [name for name in disk.files() if name.endswith(".summary")]


@pytest.mark.parametrize("call", range(12))
def test_a_start_that_fails_changes_nothing_that_was_stored(call: int) -> None:
    checked = CheckedJournal()
    work(checked, Random(6), 60)
    checked.append("A", 700)
    disk = checked.driver.disk
    disk.cut_at = disk.steps + 1
    with pytest.raises(PowerCutError):
        checked.write_one()
    torn = disk.power_cut_keeping(lambda data: data[: len(data) // 2], lambda: True)
    expected = recovered_state(torn.copy())
    torn.fail_at = {call: errno.EIO}
    try:
        open_journal(torn, STORE_ID, SMALL_SEGMENT)
    except OSError:
        assert call < torn.steps
    torn.fail_at = {}
    assert recovered_state(torn.power_cut(Random(call))) == expected
