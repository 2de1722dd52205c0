"""The power is cut at every step of a mixed load, with every fate of what was not synced; nothing stored is lost."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.stores.journal.opening import open_journal
from tests.simulation.disk import PowerCutError, SimulatedDisk
from tests.support.journal_driver import SMALL_SEGMENT, STORE_ID, JournalDriver, State, recovered_state
from tests.support.journal_model import CheckedJournal, work, work_on_all
from tests.support.plain_format import plain_message
from tests.support.seeds import SEEDS, SHORT

CALLS = 300
STEP = 7 if SHORT else 1  # steps from cut to cut
A = Destination(QUEUE, "A")


def run_until_cut(seed: int, cut_at: int) -> CheckedJournal | None:
    """The load of ``seed``; None if the power was never cut."""
    disk = SimulatedDisk()
    checked = CheckedJournal(disk)
    disk.cut_at = disk.steps + cut_at
    try:
        work(checked, Random(seed), CALLS)
    except PowerCutError:
        return checked
    return None


@pytest.mark.large
def test_a_cut_at_every_step_loses_nothing_stored_and_invents_nothing() -> None:
    cut_at = 0
    while True:
        checked = run_until_cut(4, cut_at)
        if checked is None:
            break
        disk = checked.driver.disk
        assert recovered_state(disk.power_cut_keeping(lambda data: None, lambda: False)) in checked.allowed
        assert recovered_state(disk.power_cut_keeping(lambda data: data, lambda: True)) in checked.allowed
        checked.after(disk.power_cut(Random(cut_at)))
        work(checked, Random(cut_at), 10)
        checked.check()
        cut_at += STEP
    assert cut_at > 150


@pytest.mark.parametrize("seed", SEEDS)
def test_many_crashes_in_a_row_lose_nothing_stored(seed: int) -> None:
    random = Random(seed)
    checked = CheckedJournal()
    for _ in range(6):
        disk = checked.driver.disk
        disk.cut_at = disk.steps + random.randrange(60)
        try:
            work(checked, random, CALLS)
            checked.crash(random)
        except PowerCutError:
            checked.after(checked.driver.disk.power_cut(random))
        checked.check()


@pytest.mark.large
@pytest.mark.parametrize("seed", SEEDS)
def test_many_crashes_in_a_row_lose_no_fact_and_no_moved_or_shared_message(seed: int) -> None:
    random = Random(seed)
    checked = CheckedJournal()
    for _ in range(6):
        disk = checked.driver.disk
        disk.cut_at = disk.steps + random.randrange(120)
        try:
            work_on_all(checked, random, 2 * CALLS)
            checked.crash(random)
        except PowerCutError:
            checked.after(checked.driver.disk.power_cut(random))
        checked.check()


def stuck_first(checked: CheckedJournal, cycles: int) -> None:
    """Messages flow through while the first ones stay: after a while these are written again."""
    kept = [checked.append("A", 100, 9, 1 << 41), *checked.append_shared(["A", "B.C"], 300, 2)]
    checked.note("A", kept[0], 3)
    checked.put_metadata(1, b"kept", bytes(200))
    flowing: list[tuple[str, int]] = []
    for _ in range(cycles):
        name = ("A", "D")[checked.number % 2]
        flowing.append((name, checked.append(name, 900)))
        checked.write_one()
        while checked.scan_one():
            pass
        if len(flowing) > 3:
            checked.remove(*flowing.pop(0))
        checked.write_one()
    for name, sequence in flowing:
        checked.remove(name, sequence)


@pytest.mark.large
def test_the_power_is_cut_at_every_step_while_old_messages_are_written_again() -> None:
    compacted = 0
    for cut_at in range(0, 10_000, STEP):
        checked = CheckedJournal()
        disk = checked.driver.disk
        disk.cut_at = disk.steps + cut_at
        try:
            stuck_first(checked, 36)
        except PowerCutError:
            compacted += checked.driver.store.moved_bytes > 0
            assert recovered_state(disk.power_cut_keeping(lambda data: None, lambda: False)) in checked.allowed
            assert recovered_state(disk.power_cut_keeping(lambda data: data, lambda: True)) in checked.allowed
            checked.after(disk.power_cut(Random(cut_at)))
            stuck_first(checked, 4)
            checked.check()
            continue
        break
    assert compacted > 20 // STEP


def test_the_journal_stays_small_though_one_old_message_stays() -> None:
    checked = CheckedJournal()
    largest = 0
    for _ in range(20):
        stuck_first(checked, 20)
        for name in ("A", "B.C"):  # all but the last one that stays goes
            for sequence in list(checked.state.get("queue://" + name, {}))[:-1]:
                checked.remove(name, sequence)
        largest = max(largest, checked.driver.store.used_bytes())
    assert checked.driver.store.moved_bytes > 0
    assert largest <= 8 * SMALL_SEGMENT
    assert sum(size for name, size in checked.driver.disk.files().items() if "summary" not in name) <= 9 * SMALL_SEGMENT
    checked.crash(Random(1))


def beginning(length: int, data: bytes) -> bytes:
    return data[:length]


def torn_disk() -> tuple[SimulatedDisk, State, State]:
    """A disk whose last batch is not synced, with the states before and with it."""
    checked = CheckedJournal()
    checked.append("A", 30)
    checked.append("A", 40)
    checked.write_one()
    before = checked.driver.disk.copy()
    checked.append("A", 50)
    checked.unit([("A", 5), ("B.C", 60)], [("A", 1)])
    checked.remove("A", 2)
    disk = checked.driver.disk
    disk.cut_at = disk.steps + 1  # the write is made, its sync is not
    with pytest.raises(PowerCutError):
        checked.write_one()
    assert disk.trace[-1].startswith("write")
    return disk, recovered_state(before), checked.state


def test_a_last_write_torn_at_any_byte_is_dropped_whole() -> None:
    disk, before, after = torn_disk()
    size = int(disk.trace[-1].split()[-1])
    for length in range(size + 1):
        torn = disk.power_cut_keeping(partial(beginning, length), lambda: True)
        whole = disk.copy().contents() == torn.contents()
        assert recovered_state(torn) == (after if whole else before), length


def test_a_last_write_whose_beginning_is_missing_is_dropped_whole() -> None:
    disk, before, _ = torn_disk()
    _, name, start, size = disk.trace[-1].split()
    for missing in (1, 4, 24, 40, 100, 200):
        torn = disk.copy()
        torn.patch(name, int(start), bytes(missing))
        driver = JournalDriver(torn)
        assert driver.state() == before
        assert "incomplete write" in driver.warnings[0]
        assert int(size) > missing


def test_a_crash_at_every_step_of_recovery_gives_the_same_state_next_time() -> None:
    disk, before, _ = torn_disk()
    torn = disk.power_cut_keeping(lambda data: data[: len(data) - 9], lambda: True)
    cut_at = 0
    while True:
        attempt = torn.copy()
        attempt.cut_at = cut_at
        try:
            open_journal(attempt, STORE_ID, 4096)
            break
        except PowerCutError:
            for seed in range(6):
                assert recovered_state(attempt.power_cut(Random(seed))) == before
        cut_at += 1
    assert cut_at >= 6


def test_recovering_again_and_again_changes_nothing() -> None:
    checked = CheckedJournal()
    work(checked, Random(3), 300)
    while checked.driver.store.has_work:
        checked.write_one()
    for _ in range(5):
        checked.crash(Random(1))
    assert checked.state


def test_segments_without_live_messages_are_deleted_and_stay_harmless_if_a_deletion_is_lost() -> None:
    driver = JournalDriver()
    seen: dict[str, bytes] = {}
    waiting: list[int] = []
    for number in range(200):
        waiting.append(driver.store.append(A, plain_message(A, number, b"x" * 500)))
        driver.turn()
        seen.update(driver.disk.contents())
        if len(waiting) > 8:
            driver.store.remove(A, waiting.pop(0))
            driver.turn()
    assert len(driver.disk.files()) <= 5
    deleted = [name for name in seen if name not in driver.disk.files()]
    assert len(deleted) > 20
    for name in deleted:
        disk = driver.disk.copy()
        disk.put(name, seen[name])  # as if this deletion alone had not reached the disk
        again = JournalDriver(disk)
        assert list(again.recovered[0].sequences) == waiting
        assert name not in disk.files()


def test_one_old_message_keeps_its_segment_and_the_removals_that_others_need() -> None:
    checked = CheckedJournal()
    kept = checked.append("A", 100)
    for _ in range(60):
        sequence = checked.append("A", 900)
        checked.write_one()
        checked.remove("A", sequence)
        checked.write_one()
    checked.crash(Random(1))
    assert list(checked.state["queue://A"]) == [kept]
    assert len(checked.driver.disk.files()) < 60
