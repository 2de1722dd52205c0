"""A batch that is encoded slice by slice while the one before it is on its way to the disk."""

from __future__ import annotations

import errno

import pytest

from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.next_batch import MAX_GATHERED_BYTES
from spanwire.stores.journal.outbox import MAX_SLICE_BYTES, MAX_SLICE_RECORDS
from spanwire.stores.journal.segments.record import CANCELLED, HEADER_SIZE, MESSAGE, REMOVAL, record_size
from spanwire.stores.journal.segments.segment import BATCH_HEAD_SIZE, segment_name
from tests.simulation.disk import PowerCutError
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")
B = Destination(QUEUE, "B")


def driver_with_slices(records: int = 2, segment_bytes: int = 65536) -> JournalDriver:
    """A journal with one line, whose slices have so many records."""
    driver = JournalDriver(segment_bytes=segment_bytes)
    driver.store.add_destination(A)
    driver.turn()
    driver.store._outbox.slice_records = records
    return driver


def fill(driver: JournalDriver, count: int) -> list[int]:
    return [driver.store.append(A, plain_message(A, number)) for number in range(count)]


def recovered_after(driver: JournalDriver, length: int) -> int:
    """How many messages there are after a power cut that left so many bytes of each write."""
    disk = driver.disk.power_cut_keeping(lambda data: data[:length], lambda: True)
    return sum(len(line.sequences) for line in JournalDriver(disk, 65536).recovered)


def test_slices_that_were_encoded_ahead_are_written_as_one_batch_with_what_came_last() -> None:
    driver = driver_with_slices()
    fill(driver, 2)
    first = driver.store.next_batch()
    assert first is not None
    sequences = fill(driver, 7)
    assert [driver.store.gather() for _ in range(4)] == [True, True, True, False]
    driver.end_one(first)
    batch = driver.store.next_batch()
    assert batch is not None
    assert [len(part.entries) for part in batch.slices] == [2, 2, 2, 1]
    position = driver.store.position()
    driver.end_one(batch)
    assert driver.stored == position
    driver.crash()
    assert list(driver.recovered[0].sequences)[-7:] == sequences


def test_each_slice_counts_by_itself_and_the_next_batch_may_go_after_the_first() -> None:
    driver = driver_with_slices()
    before = driver.store.stored_position
    fill(driver, 6)
    while driver.store.gather():
        pass
    batch = driver.store.next_batch()
    assert batch is not None
    write_batch(driver.disk, batch, True)
    assert driver.store.complete_slice(batch)
    assert driver.store.stored_position == before + 2
    fill(driver, 1)
    assert driver.store.has_work
    assert driver.store.complete_slice(batch)
    assert driver.store.stored_position == before + 4
    assert not driver.store.complete_slice(batch)
    assert driver.store.stored_position == before + 6


def test_a_message_that_is_removed_before_its_slice_is_cancelled_and_afterwards_removed() -> None:
    driver = driver_with_slices()
    sequences = fill(driver, 4)
    driver.store.gather()
    driver.store.remove(A, sequences[0])
    driver.store.remove(A, sequences[3])
    batch = driver.store.next_batch()
    assert batch is not None
    assert [entry.kind for entry in batch.entries] == [MESSAGE, MESSAGE, MESSAGE, CANCELLED]
    driver.end_one(batch)
    removal = driver.write_one()
    assert removal is not None
    assert [(entry.kind, entry.sequence) for entry in removal.entries] == [(REMOVAL, sequences[0])]
    driver.crash()
    assert list(driver.recovered[0].sequences) == sequences[1:3]


def test_a_line_that_is_removed_while_its_messages_are_encoded_is_gone() -> None:
    driver = driver_with_slices()
    fill(driver, 5)
    driver.store.gather()
    driver.store.remove_destination(A)
    driver.turn()
    driver.crash()
    assert driver.recovered == []


def test_a_unit_that_is_larger_than_a_slice_is_one_batch_and_may_be_cut_off_anywhere() -> None:
    driver = driver_with_slices()
    fill(driver, 1)
    driver.store.append_unit([(A, plain_message(A, number)) for number in range(9)], [], [])
    fill(driver, 1)
    assert driver.store.has_large_call
    sizes = []
    while driver.store.has_large_call:
        assert driver.store.gather()
        sizes.append(driver.store._next.slices[-1].position)
    position = driver.store.position()
    assert sizes == [position - 2] * 4 + [position - 1]
    batch = driver.store.next_batch()
    assert batch is not None
    driver.disk.cut_at = driver.disk.steps + 1
    with pytest.raises(PowerCutError):
        driver.end_one(batch)
    found = [recovered_after(driver, length) for length in range(0, batch.size + 1, 7)]
    assert found[:-3] == [0] * (len(found) - 3)
    assert set(found[-3:]) <= {0, 11}
    assert recovered_after(driver, batch.size) == 11


@pytest.mark.parametrize("count", [1, 20])
def test_what_follows_a_call_that_was_cut_waits_for_the_next_file_if_it_has_no_place(count: int) -> None:
    driver = driver_with_slices(2, 8192)
    driver.store.space_changed(0, True)
    driver.store.append_unit([(A, plain_message(A, number)) for number in range(5)], [], [])
    driver.store.append_unit([(A, plain_message(A, number, b"x" * (8000 // count))) for number in range(count)], [], [])
    position = driver.store.position()
    batch = driver.store.next_batch()
    assert batch is not None
    assert batch.position == position - 1
    assert batch.offset + batch.size <= 8192
    driver.end_one(batch)
    assert driver.store.next_batch() is None
    assert driver.store.waits_for_space
    driver.store.space_changed(driver.store.wanted_spare, True)
    driver.turn()
    assert driver.stored == position
    driver.crash()
    assert len(driver.recovered[0].sequences) == 5 + count


def leave_room(driver: JournalDriver, size: int) -> None:
    """Fill the segment up to so many bytes."""
    active = driver.store._active
    least = record_size(len(plain_message(A, 1).encoded()))
    left = active.size - active.end - BATCH_HEAD_SIZE - size - least
    driver.store.append(A, plain_message(A, 1, bytes(left // 8 * 8)))
    driver.turn()
    assert size <= active.size - active.end < size + 8


def test_a_call_that_was_cut_has_room_for_the_cancellation_of_what_is_removed_meanwhile() -> None:
    driver = driver_with_slices()
    lines = [Destination(SUBSCRIPTION, f"S{number}") for number in range(20)]
    for line in lines:
        driver.store.add_destination(line)
    driver.turn()
    message = plain_message(A, 1)
    leave_room(driver, BATCH_HEAD_SIZE + record_size(len(message.encoded())) + len(lines) * HEADER_SIZE)
    sequences = driver.store.append_shared(lines, message)
    assert driver.store.gather()
    for line, sequence in zip(lines, sequences, strict=True):
        driver.store.remove(line, sequence)
    batch = driver.store.next_batch()
    assert batch is not None
    assert batch.offset + batch.size <= 65536
    driver.end_one(batch)
    driver.turn()
    driver.crash()
    assert sum(len(line.sequences) for line in driver.recovered if line.destination != A) == 0


def test_a_segment_that_is_dropped_while_a_call_is_cut_is_no_part_of_the_call() -> None:
    driver = JournalDriver(segment_bytes=8192)
    driver.store.append(B, plain_message(B, 1, bytes(7000)))
    driver.turn()
    driver.store.append(A, plain_message(A, 1, bytes(2000)))
    driver.turn()
    driver.store._outbox.slice_records = 2
    unit = [(A, plain_message(A, number)) for number in range(9)]
    leave_room(driver, BATCH_HEAD_SIZE + HEADER_SIZE + sum(record_size(len(added[1].encoded())) for added in unit))
    active = driver.store.segment
    driver.store.remove_destination(B)
    driver.store.append_unit(unit, [], [])
    assert driver.store.gather()
    assert driver.store.has_large_call
    assert driver.store.release_removed()  # nothing is left in the first segment
    batch = driver.store.next_batch()
    assert batch is not None
    assert batch.segment == active
    assert batch.offset + batch.size <= 8192
    driver.end_one(batch)
    driver.turn()
    assert segment_name(1) not in driver.disk.files()
    driver.crash()
    assert len(driver.recovered[0].sequences) == 11


def test_a_unit_of_which_a_part_is_encoded_is_completed_in_slices_when_the_room_goes() -> None:
    driver = driver_with_slices()
    driver.store.space_changed(65536, True)
    driver.store.append_unit([(A, plain_message(A, number)) for number in range(9)], [], [])
    late = driver.store.append(A, plain_message(A, 99, bytes(60_000)))
    driver.store.gather()
    driver.store.space_changed(0, False)
    slices = 0
    while driver.store.has_large_call:
        assert driver.store.gather()
        slices += 1
    assert slices == 4
    assert not driver.store.gather()
    driver.turn()
    assert driver.stored == driver.store.position() - 1
    assert driver.store.has_unwritten
    driver.crash()
    assert len(driver.recovered[0].sequences) == 9
    assert late not in driver.recovered[0].sequences


def test_a_large_call_that_waited_for_room_is_encoded_in_slices() -> None:
    driver = driver_with_slices()
    driver.store.append(A, plain_message(A, 1, bytes(50_000)))
    driver.turn()
    driver.store.space_changed(0, True)
    unit = StoreUnit()
    for number in range(9):
        unit.add(A, plain_message(A, number, bytes(1000)))
    driver.store.append_gathered(unit, [])
    driver.store.append_unit([(A, plain_message(A, number, bytes(1000))) for number in range(9)], [], [])
    driver.store.space_changed(0, False)
    driver.turn()
    assert driver.store.has_unwritten
    driver.store.space_changed(65536, True)
    slices = 0
    while driver.store.has_large_call:
        assert driver.store.gather()
        slices += 1
    assert slices == 10
    driver.turn()
    driver.crash()
    assert len(driver.recovered[0].sequences) == 19


def test_what_waits_for_room_is_looked_at_some_entries_at_a_time() -> None:
    driver = driver_with_slices(4)
    kept = fill(driver, 20)
    driver.turn()
    driver.store.append(A, plain_message(A, 1, bytes(50_000)))
    driver.turn()
    driver.store.space_changed(0, True)
    added = [driver.store.append(A, plain_message(A, number, bytes(1000))) for number in range(20)]
    driver.store.space_changed(0, False)
    for sequence in kept:
        driver.store.remove(A, sequence)
    looked_at = 0
    batches = 0
    while driver.store.has_work:
        waiting = len(driver.store._outbox.entries)
        batch = driver.write_one()
        assert batch is not None
        assert len(batch.entries) <= 4
        assert waiting - len(driver.store._outbox.entries) <= 4
        looked_at += waiting - len(driver.store._outbox.entries)
        batches += 1
    assert (looked_at, batches) == (40, 10)
    driver.store.space_changed(65536, True)
    while driver.store.has_work:
        batch = driver.write_one()
        assert batch is not None
        assert len(batch.entries) <= 4
    assert driver.stored == driver.store.position()
    driver.crash()
    assert [sequence for sequence in driver.recovered[0].sequences if sequence in {*kept, *added}] == added


def test_of_calls_that_were_overtaken_on_a_full_disk_only_those_are_reported_that_are_written() -> None:
    driver = driver_with_slices()
    kept = fill(driver, 3)
    driver.turn()
    leave_room(driver, HEADER_SIZE)  # none for a removal
    driver.store.space_changed(0, True)
    before = driver.store.position()
    added = [driver.store.append(A, plain_message(A, number, bytes(20_000))) for number in range(6)]
    driver.store.space_changed(0, False)
    for sequence in kept:
        driver.store.remove(A, sequence)
    driver.turn()
    assert driver.store.waits_for_space
    driver.store.space_changed(65536, True)
    while driver.store.gather():
        pass
    batch = driver.store.next_batch()
    assert batch is not None
    written = len([entry for entry in batch.entries if entry.kind == MESSAGE])
    assert [entry.kind for entry in batch.slices[0].entries] == [REMOVAL] * 2
    assert 0 < written < len(added)
    driver.end_one(batch)
    assert driver.stored <= before + written
    driver.crash()
    assert list(driver.recovered[0].sequences)[-written:] == added[:written]


def test_on_a_full_disk_nothing_is_encoded_ahead_and_what_was_is_written() -> None:
    driver = driver_with_slices()
    driver.store.space_changed(65536, True)
    sequences = fill(driver, 9)
    assert driver.store.gather()
    driver.store.space_changed(0, False)
    assert not driver.store.gather()
    driver.turn()
    driver.crash()
    assert list(driver.recovered[0].sequences)[:2] == sequences[:2]


def test_the_file_of_the_next_segment_is_not_taken_twice() -> None:
    driver = driver_with_slices(6, 8192)
    driver.store.space_changed(8192, True)
    for number in range(20):
        driver.store.append(A, plain_message(A, number, b"x" * 1000))
    batch = driver.store.next_batch()
    assert batch is not None
    before = driver.store.segment
    while driver.store.gather():
        pass
    segment = driver.store.segment
    assert segment == before + 1
    driver.store.space_changed(8192, True)  # told before the batch that takes the file was handed over
    while driver.store.gather():
        pass
    assert driver.store.segment == segment
    assert driver.store._space.spare_bytes == 0
    driver.end_one(batch)
    driver.store.space_changed(-1, True)
    driver.turn()
    driver.crash()
    assert len(driver.recovered[0].sequences) == 20


def test_a_failed_write_takes_the_slices_behind_it_along() -> None:
    driver = driver_with_slices()
    fill(driver, 2)
    batch = driver.store.next_batch()
    assert batch is not None
    fill(driver, 6)
    assert driver.store.gather()
    driver.disk.fail_at = {driver.disk.steps: errno.EIO}
    with pytest.raises(OSError):
        write_batch(driver.disk, batch, True)
    driver.store.fail()
    assert not driver.store.gather()
    assert driver.store.next_batch() is None
    driver.crash()
    assert list(driver.recovered[0].sequences) in ([], [1, 2])


@pytest.mark.large
def test_a_batch_grows_up_to_a_limit() -> None:
    driver = JournalDriver(segment_bytes=4 * MAX_GATHERED_BYTES)
    body = plain_message(A, 1, b"x" * (MAX_SLICE_BYTES // 4))
    for _ in range(MAX_GATHERED_BYTES // MAX_SLICE_BYTES * 8):
        driver.store.append(A, body)
    while driver.store.gather():
        pass
    batch = driver.store.next_batch()
    assert batch is not None
    assert MAX_GATHERED_BYTES <= batch.size <= MAX_GATHERED_BYTES + 3 * MAX_SLICE_BYTES


def test_redelivery_counts_of_messages_that_are_gone_are_passed_over_slice_by_slice() -> None:
    driver = JournalDriver()
    count = MAX_SLICE_RECORDS + 10
    sequences = [driver.store.append(A, plain_message(A, number)) for number in range(count)]
    driver.turn()
    for sequence in sequences:
        driver.store.note_redelivery(A, sequence, 1)
    for sequence in sequences:
        driver.store.remove(A, sequence)
    position = driver.store.position()
    driver.turn()
    assert driver.stored == position
