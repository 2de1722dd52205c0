"""The check-point of many destinations at the start of a segment: encoded slice by slice, and whole on the disk."""

from __future__ import annotations

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.stores.journal.batch import Batch
from spanwire.stores.journal.recovery.checkpoint import decode_checkpoint
from spanwire.stores.journal.segments.record import CHECKPOINT, DESTINATION, LEDGER
from spanwire.stores.journal.segments.segment import SegmentReader, segment_name
from tests.simulation.disk import PowerCutError
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import plain_message

COUNT = 100
SLICE = 16
SEGMENT = 65536
A = Destination(QUEUE, "A")


def filled() -> JournalDriver:
    """A journal with so many destinations, whose segment has no room for the message that waits."""
    driver = JournalDriver(segment_bytes=SEGMENT)
    for number in range(COUNT):
        driver.store.append(Destination(QUEUE, f"Q{number}"), plain_message(A, number))
    driver.turn()
    driver.store._outbox.slice_records = SLICE
    driver.store.append(A, plain_message(A, 1, b"x" * (SEGMENT - 8_000)))
    return driver


def encoded_destinations(driver: JournalDriver) -> int:
    """How many records of destinations the new segment has so far."""
    new_segment = driver.store._next.new_segment
    return 0 if new_segment is None else sum(part.count(b"queue://") for part in new_segment.parts)


def gathered(driver: JournalDriver) -> Batch:
    """The next batch, encoded as the shell does it: while a large call waits, a slice in each turn."""
    while driver.store.has_large_call and driver.store.gather():
        pass
    batch = driver.store.next_batch()
    assert batch is not None
    return batch


def checkpoint_names(driver: JournalDriver, number: int) -> set[str]:
    """The destinations in the check-point of a segment."""
    data = driver.disk.contents()[segment_name(number)]
    reader = SegmentReader(segment_name(number), data, None)
    records = reader.next_batch()
    assert records is not None
    assert records[0].kind == CHECKPOINT
    assert decode_checkpoint(reader.payload(records[0])) is not None
    assert {record.kind for record in records[1:]} == {DESTINATION, LEDGER}
    names = [record for record in records if record.kind == DESTINATION]
    assert records[0].sequence == len(names)
    return {reader.payload(record).decode() for record in names}


def test_a_check_point_of_many_destinations_is_encoded_some_in_each_turn() -> None:
    driver = filled()
    turns: list[int] = []
    before = 0
    assert driver.store.has_large_call
    assert driver.store.has_slice
    while driver.store.has_large_call:
        assert driver.store.gather()
        turns.append(encoded_destinations(driver) - before)
        before = encoded_destinations(driver)
    assert sum(turns) == COUNT
    assert max(turns) <= SLICE
    batch = driver.store.next_batch()
    assert batch is not None
    assert len(batch.entries) == 2
    driver.end_one(batch)
    assert checkpoint_names(driver, driver.store.segment) == {f"queue://Q{number}" for number in range(COUNT)}


def test_what_happens_between_two_slices_of_a_check_point_is_found_again() -> None:
    driver = filled()
    for _ in range(3):
        assert driver.store.gather()
    new = Destination(QUEUE, "new")
    driver.store.append(new, plain_message(new, 1))
    driver.store.remove_destination(Destination(QUEUE, "Q1"))
    driver.store.remove_destination(Destination(QUEUE, f"Q{COUNT - 1}"))
    driver.store.append(Destination(QUEUE, "Q2"), plain_message(A, 2))
    driver.store.remove(Destination(QUEUE, "Q3"), 1)
    driver.end_one(gathered(driver))
    driver.turn()
    counted = driver.books()
    driver.crash()
    found = {line.destination.name: len(line.sequences) for line in driver.recovered}
    names = {f"Q{number}" for number in range(COUNT)} - {"Q1", f"Q{COUNT - 1}"}
    assert set(found) == names | {"A", "new"}
    assert found["Q2"] == 2
    assert found["Q3"] == 0
    assert found["A"] == found["new"] == 1
    assert [book[:3] for book in driver.books() if book[1]] == [book[:3] for book in counted if book[1]]


def test_a_segment_that_is_begun_in_slices_may_be_cut_off_anywhere() -> None:
    for cut in range(1, 12):
        driver = filled()
        batch = gathered(driver)
        driver.disk.cut_at = driver.disk.steps + cut
        try:
            driver.end_one(batch)
        except PowerCutError:
            pass
        driver.disk.cut_at = -1
        driver.crash()
        found = {line.destination.name: len(line.sequences) for line in driver.recovered}
        assert all(found[f"Q{number}"] == 1 for number in range(COUNT))
        assert found.get("A", 1) == 1


def test_a_large_call_behind_the_check_point_begins_a_segment_of_its_own() -> None:
    driver = filled()
    assert driver.store.gather()
    big = [(A, plain_message(A, number, b"y" * 10_000)) for number in range(2, 40)]
    driver.store.append_unit(big, [], [])
    position = driver.store.position()
    while driver.stored < position:
        driver.end_one(gathered(driver))
    driver.crash()
    assert {line.destination.name: len(line.sequences) for line in driver.recovered}["A"] == 39


@pytest.mark.parametrize("has_room", [True, False])
def test_a_check_point_of_which_a_part_is_encoded_is_completed_when_the_room_goes(has_room: bool) -> None:
    driver = filled()
    driver.store.space_changed(4 * SEGMENT, True)
    assert driver.store.gather()
    assert encoded_destinations(driver) == SLICE
    driver.store.space_changed(0, has_room)
    assert (encoded_destinations(driver) == COUNT) is not has_room
    driver.end_one(gathered(driver))
    driver.crash()
    assert {line.destination.name: len(line.sequences) for line in driver.recovered}["A"] == 1


def test_a_store_that_is_closed_within_a_check_point_completes_it() -> None:
    driver = filled()
    assert driver.store.gather()
    driver.reopen()
    assert driver.clean
    assert len(driver.recovered) == COUNT + 1
