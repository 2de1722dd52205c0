"""A journal on a disk that fills up: messages wait, removals go on, nothing changes its order where that matters."""

from __future__ import annotations

import errno

import pytest

from spanwire.broker.metadata import MetadataRecord
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.stores.journal.batch import Batch
from spanwire.stores.journal.recovery.recovery import recover
from spanwire.stores.journal.segments.segment import SPARE_NAME
from spanwire.stores.journal.space import LEAST_SEGMENT, RESERVED_SHARE, possible_segment
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")
B = Destination(QUEUE, "B")
FULL = Destination(QUEUE, "FULL")
SEGMENT = 65_536


def stored_driver(count: int = 10) -> JournalDriver:
    """A journal with so many messages of a queue on the disk, whose disk somebody watches."""
    driver = JournalDriver(segment_bytes=SEGMENT)
    for number in range(count):
        driver.store.append(A, plain_message(A, number))
    driver.turn()
    driver.store.space_changed(0, True)
    return driver


def full_driver(count: int = 10) -> JournalDriver:
    """The same with an active segment that has a place for removals and the like alone."""
    driver = stored_driver(count)
    size = 0
    for number in range(2):
        size = -driver.store.segment_end
        driver.store.append(FULL, plain_message(FULL, number, b""))
        driver.turn()
        size += driver.store.segment_end
    rest = SEGMENT - SEGMENT // RESERVED_SHARE - driver.store.segment_end
    driver.store.append(FULL, plain_message(FULL, 2, bytes(rest - size - 8)))
    driver.turn()
    assert 0 <= SEGMENT - SEGMENT // RESERVED_SHARE - driver.store.segment_end <= 16
    return driver


def recovered(driver: JournalDriver) -> dict[str, list[int]]:
    """What a start after kill -9 finds of the queues that matter."""
    driver.disk = driver.disk.copy()
    driver._open()
    return {found.destination.name: list(found.sequences) for found in driver.recovered if found.destination != FULL}


def test_without_room_messages_wait_and_removals_go_on() -> None:
    driver = full_driver()
    assert driver.store.space_changed(0, False)
    assert not driver.store.has_room()
    driver.store.append(A, plain_message(A, 11))
    waited = driver.store.position()
    driver.store.remove(A, 1)
    driver.store.note_redelivery(A, 2, 1)
    driver.turn()
    assert driver.stored == waited - 1
    assert driver.store.has_unwritten
    assert recovered(driver) == {"A": list(range(2, 11))}


def test_what_was_under_way_when_the_room_went_is_written_where_it_has_a_place() -> None:
    driver = stored_driver()
    driver.store.append(A, plain_message(A, 11))
    driver.store.space_changed(0, False)
    driver.store.append_unit([], [(A, 1)], [])
    position = driver.store.position()
    driver.turn()
    assert driver.stored == position, "a consumer whose commit is not answered cannot make room"
    assert recovered(driver) == {"A": list(range(2, 12))}


def test_with_room_again_everything_is_written_in_its_order() -> None:
    driver = full_driver()
    driver.store.space_changed(0, False)
    for number in range(20):
        driver.store.append(A, plain_message(A, 11 + number))
        driver.store.remove(A, 1 + number)
    position = driver.store.position()
    driver.turn()
    assert driver.stored < position
    assert driver.store.space_changed(SEGMENT, True)
    driver.turn()
    assert driver.stored == position
    assert not driver.store.has_unwritten
    assert recovered(driver) == {"A": list(range(21, 31))}


def test_a_unit_that_adds_is_refused_without_room_and_one_that_only_removes_is_not() -> None:
    driver = stored_driver()
    driver.store.space_changed(0, False)
    with pytest.raises(ResourceAllocationError, match="the disk of the message store is full"):
        driver.store.append_unit([(A, plain_message(A, 1))], [(A, 1)], [])
    driver.store.append_unit([], [(A, 1), (A, 2)], [MetadataRecord(1, b"k", b"v")])
    position = driver.store.position()
    driver.turn()
    assert driver.stored == position
    assert recovered(driver) == {"A": list(range(3, 11))}


def test_a_unit_that_came_before_the_room_went_stays_whole() -> None:
    driver = full_driver()
    driver.store.append_unit([(A, plain_message(A, 11))], [(A, 1)], [MetadataRecord(1, b"k", b"unit")])
    driver.store.space_changed(0, False)
    driver.store.remove(A, 2)
    driver.store.put_metadata(1, b"k", b"later")
    driver.turn()
    copy = JournalDriver(driver.disk.copy(), SEGMENT)
    assert [list(found.sequences) for found in copy.recovered if found.destination == A] == [[1, *range(3, 11)]]
    driver.store.space_changed(SEGMENT, True)
    driver.turn()
    assert recovered(driver) == {"A": list(range(3, 12))}


def test_the_last_value_of_a_fact_counts_also_when_a_unit_with_an_earlier_one_waits() -> None:
    driver = full_driver()
    driver.store.append_unit([(A, plain_message(A, 11))], [], [MetadataRecord(1, b"k", b"unit")])
    driver.store.space_changed(0, False)
    driver.store.put_metadata(1, b"k", b"later")
    driver.turn()
    driver.store.space_changed(SEGMENT, True)
    driver.turn()
    assert metadata(driver) == {1: {b"k": b"later"}}


def metadata(driver: JournalDriver) -> dict[int, dict[bytes, bytes]]:
    return recover(driver.disk.copy()).metadata()


def test_a_removal_of_a_waiting_message_waits_or_takes_its_place() -> None:
    driver = full_driver(0)
    driver.store.append(A, plain_message(A, 1))
    driver.store.append(A, plain_message(A, 2))
    driver.store.space_changed(0, False)
    driver.store.remove(A, 1)
    driver.store.append_unit([], [(A, 2)], [])
    driver.turn()
    driver.store.space_changed(SEGMENT, True)
    position = driver.store.position()
    driver.turn()
    assert driver.stored == position
    assert recovered(driver) == {"A": []}


def test_a_queue_that_is_removed_and_made_again_while_its_messages_wait() -> None:
    driver = full_driver()
    driver.store.append(A, plain_message(A, 11))
    driver.store.space_changed(0, False)
    driver.store.append(B, plain_message(B, 1))
    driver.store.remove_destination(A)
    driver.store.add_destination(A)
    driver.turn()
    assert recovered_copy(driver)["B"] == []
    driver.store.space_changed(SEGMENT, True)
    driver.turn()
    assert recovered(driver) == {"A": [], "B": [1]}


@pytest.mark.parametrize("last", ["added", "cancelled", "removed"])
def test_a_queue_that_is_made_again_does_not_overtake_its_removal(last: str) -> None:
    driver = full_driver()
    driver.store.space_changed(0, False)
    driver.store.append(FULL, plain_message(FULL, 3))
    driver.store.remove_destination(A)
    sequence = driver.store.append(A, plain_message(A, 11))
    if last == "cancelled":
        driver.store.remove(A, sequence)
    elif last == "removed":
        driver.store.remove_destination(A)
    driver.turn()
    driver.disk = driver.disk.copy()
    copy = JournalDriver(driver.disk.copy(), SEGMENT)
    assert [list(found.sequences) for found in copy.recovered if found.destination == A] == [list(range(1, 11))]
    driver.store.space_changed(SEGMENT, True)
    driver.turn()
    assert driver.stored == driver.store.position()
    assert recovered(driver) == {"added": {"A": [sequence]}, "cancelled": {"A": []}, "removed": {}}[last]


def test_the_end_of_a_queue_does_not_overtake_a_unit_that_held_one_of_its_messages() -> None:
    driver = full_driver()
    driver.store.append_unit([(A, plain_message(A, 11)), (B, plain_message(B, 1))], [], [])
    driver.store.space_changed(0, False)
    driver.store.remove_destination(A)
    driver.turn()
    driver.store.space_changed(SEGMENT, True)
    driver.turn()
    assert recovered(driver) == {"B": [1]}


def recovered_copy(driver: JournalDriver) -> dict[str, list[int]]:
    copy = JournalDriver(driver.disk.copy(), SEGMENT)
    return {found.destination.name: list(found.sequences) for found in copy.recovered}


def test_a_batch_waits_until_the_next_segment_is_ready() -> None:
    driver = stored_driver()
    body = b"x" * (SEGMENT // 4)
    written: list[Batch | None] = []
    for number in range(6):
        driver.store.append(A, plain_message(A, number, body))
        written.append(driver.write_one())
    assert [batch is not None for batch in written] == [True, True, True, False, False, False]
    assert driver.store.waits_for_space
    assert driver.store.wanted_spare >= SEGMENT
    driver.store.space_changed(driver.store.wanted_spare, True)
    batch = driver.write_one()
    assert batch is not None and batch.new_segment is not None
    assert recovered(driver) == {"A": list(range(1, 17))}


def test_a_share_of_each_segment_is_kept_for_removals() -> None:
    driver = stored_driver()
    while not driver.store.waits_for_space:
        driver.store.append(A, plain_message(A, 1, b"x" * 200))
        driver.write_one()
    assert SEGMENT - SEGMENT // RESERVED_SHARE - 400 < driver.store.segment_end <= SEGMENT - SEGMENT // RESERVED_SHARE
    driver.store.space_changed(0, False)
    position = driver.stored
    removed = 0
    while not driver.store.waits_for_space:
        removed += 1
        driver.store.remove(A, removed)
        assert driver.write_one() is not None or driver.store.waits_for_space
    assert removed >= 100
    assert driver.stored == position  # that of the last message before the one that waits
    assert driver.store.segment_end > SEGMENT - 100


def test_segments_that_nothing_needs_are_deleted_while_messages_wait() -> None:
    driver = stored_driver()
    first = driver.store.segment
    while driver.store.segment == first:
        driver.store.append(A, plain_message(A, 1, b"x" * 1000))
        if driver.write_one() is None:
            driver.store.space_changed(SEGMENT, True)
    driver.store.space_changed(0, False)
    driver.store.append(B, plain_message(B, 2, bytes(SEGMENT)))
    files = set(driver.disk.files())
    for sequence in range(1, 100):
        driver.store.remove(A, sequence)
        driver.turn()
    assert files - set(driver.disk.files()) == {f"{first:010d}.journal", f"{first:010d}.summary"}
    assert driver.store.has_unwritten


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_start_on_a_disk_that_is_nearly_full_takes_a_smaller_segment(number: int) -> None:
    disk = SimulatedDisk()
    disk.room = LEAST_SEGMENT * 3
    assert possible_segment(disk, LEAST_SEGMENT * 8) == LEAST_SEGMENT * 2
    assert disk.files() == {SPARE_NAME: LEAST_SEGMENT * 2}
    disk = SimulatedDisk()
    disk.fail_at = {0: number}
    assert possible_segment(disk, LEAST_SEGMENT * 8) == LEAST_SEGMENT * 4


def test_a_start_without_any_room_says_so_and_leaves_nothing_behind() -> None:
    disk = SimulatedDisk()
    disk.room = LEAST_SEGMENT - 1
    with pytest.raises(OSError, match="No space left on device"):
        possible_segment(disk, LEAST_SEGMENT * 8)
    assert disk.files() == {}
