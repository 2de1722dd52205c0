"""The journal's state machine, call by call."""

from __future__ import annotations

import errno
from random import Random

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.stores.journal.batch import Batch, write_batch
from spanwire.stores.journal.index.sequences import (
    GONE,
    SequenceIndex,
    location_offset,
    location_segment,
    packed_location,
)
from spanwire.stores.journal.outbox import MAX_SLICE_BYTES, MAX_SLICE_RECORDS, MAX_UNIT_BYTES
from spanwire.stores.journal.segments.record import CANCELLED, MESSAGE
from spanwire.stores.journal.segments.segment import MAX_SEGMENT_BYTES, SegmentReader
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import body_of, plain_message

A = Destination(QUEUE, "A")


def kinds(driver: JournalDriver) -> list[int]:
    """The kinds of all records in the newest segment."""
    name = max(driver.disk.files())
    reader = SegmentReader(name, driver.disk.contents()[name], None)
    found: list[int] = []
    batch = reader.next_batch()
    while batch is not None:
        found += [record.kind for record in batch]
        batch = reader.next_batch()
    return found


def test_a_message_removed_before_its_write_leaves_only_its_numbers() -> None:
    driver = JournalDriver()
    message = plain_message(A, 77, b"secret body")
    driver.store.remove(A, driver.store.append(A, message))
    driver.turn()
    assert MESSAGE not in kinds(driver)
    assert CANCELLED in kinds(driver)
    data = driver.disk.contents()[max(driver.disk.files())]
    assert b"secret body" not in data
    assert (77).to_bytes(8, "little") + b"ID:test:1:1:1" in data


def test_a_message_removed_while_its_write_is_under_way_is_removed_afterwards() -> None:
    driver = JournalDriver()
    sequence = driver.store.append(A, plain_message(A, 1))
    batch = driver.store.next_batch()
    assert batch is not None
    driver.store.remove(A, sequence)
    driver.store.fetch(1, A, [sequence])
    write_batch(driver.disk, batch, True)
    driver.store.on_completed(batch)
    driver.turn()
    assert driver.fetched[1] == [None]
    driver.crash()
    assert list(driver.recovered[0].sequences) == []


def test_messages_removed_together_while_their_write_is_under_way_are_removed_afterwards() -> None:
    driver = JournalDriver()
    sequences = [driver.store.append(A, plain_message(A, number)) for number in range(9)]
    batch = driver.store.next_batch()
    assert batch is not None
    driver.store.remove_all(A, sequences[1:8])
    driver.store.fetch(1, A, sequences)
    assert [message is None for message in driver.store.take_fetches()[0].messages] == [False, *[True] * 7, False]
    write_batch(driver.disk, batch, True)
    driver.store.on_completed(batch)
    driver.turn()
    driver.crash()
    assert list(driver.recovered[0].sequences) == [sequences[0], sequences[8]]


@pytest.mark.parametrize("seed", range(8))
def test_removing_many_at_once_writes_and_counts_what_removing_one_by_one_does(seed: int) -> None:
    random = Random(seed)
    drivers = [JournalDriver(), JournalDriver()]
    kept: list[int] = []
    under_way: list[Batch | None] = [None, None]
    for step in range(600):
        choice = random.randrange(10)
        if choice < 4:
            for number in range(random.randrange(1, 12)):
                message = plain_message(A, step * 100 + number, bytes(random.choice((0, 40, 700))))
                kept.append(max([driver.store.append(A, message) for driver in drivers]))
        elif choice < 6 and kept:
            first = random.randrange(len(kept)) if random.random() < 0.3 else 1
            leaving = kept[first : first + random.randrange(40) : random.choice((1, 1, 2))]
            leaving += [*leaving[:1], 1 << 40]
            kept = [sequence for sequence in kept if sequence not in leaving]
            for sequence in leaving:
                drivers[0].store.remove(A, sequence)
            drivers[1].store.remove_all(A, leaving)
        elif choice < 8:
            for place, driver in enumerate(drivers):
                batch = under_way[place]
                under_way[place] = None if batch is not None else driver.store.next_batch()
                if batch is not None:
                    write_batch(driver.disk, batch, True)
                    driver.store.on_completed(batch)
        elif under_way == [None, None]:
            for driver in drivers:
                driver.scan_one()
        assert drivers[0].store.position() == drivers[1].store.position()
        assert drivers[0].disk.contents() == drivers[1].disk.contents()
        assert drivers[0].books() == drivers[1].books()
    assert drivers[0].store.moved_bytes > 0
    drivers[1].crash()
    assert set(drivers[1].recovered[0].sequences) >= set(kept[:1])


def test_a_message_under_way_is_fetched_from_memory() -> None:
    driver = JournalDriver()
    message = plain_message(A, 1)
    sequence = driver.store.append(A, message)
    for _ in range(2):
        driver.store.fetch(1, A, [sequence])
        driver.answer_fetches()
        assert driver.fetched.pop(1) == [message]
        driver.store.next_batch()


def test_one_batch_is_under_way_at_a_time() -> None:
    driver = JournalDriver()
    driver.store.append(A, plain_message(A, 1))
    first = driver.store.next_batch()
    driver.store.append(A, plain_message(A, 2))
    assert driver.store.next_batch() is None
    assert first is not None
    driver.store.on_completed(first)
    assert driver.store.next_batch() is not None


def test_a_large_backlog_is_cut_into_batches_but_never_inside_a_unit() -> None:
    driver = JournalDriver(segment_bytes=1 << 20)
    body = b"x" * 500_000
    single = [driver.store.append(A, plain_message(A, n, body)) for n in range(20)]
    position = driver.store.position()
    driver.store.append_unit([(A, plain_message(A, n, body)) for n in range(20)], [(A, single[0])], [])
    assert driver.store.backlog_bytes > 20_000_000
    sizes: list[int] = []
    positions: list[int] = []
    batch: Batch | None = driver.write_one()
    while batch is not None:
        sizes.append(sum(entry.kind == MESSAGE for entry in batch.entries))
        positions.append(driver.stored)
        batch = driver.write_one()
    assert sizes[:3] == [9, 9, 22]  # 4 MiB each, then the rest with the whole unit
    assert sum(sizes) == 40
    assert positions[:2] == [10, 19]
    assert positions[2] > position
    assert driver.store.backlog_bytes == 0


@pytest.mark.large
def test_a_batch_has_a_limited_number_of_records_but_for_a_unit() -> None:
    driver = JournalDriver()
    for number in range(MAX_SLICE_RECORDS + 10):
        driver.store.append(A, plain_message(A, number))
    driver.store.append_unit([(A, plain_message(A, number)) for number in range(MAX_SLICE_RECORDS)], [], [])
    sizes = []
    batch = driver.write_one()
    while batch is not None:
        sizes.append(sum(entry.kind == MESSAGE for entry in batch.entries))
        batch = driver.write_one()
    assert sizes[:2] == [MAX_SLICE_RECORDS - 1, 11 + MAX_SLICE_RECORDS]  # the first has the line's own record
    assert driver.store.backlog_bytes == 0


def test_a_unit_that_is_too_large_is_refused_and_changes_nothing() -> None:
    driver = JournalDriver()
    body = plain_message(A, 1, b"x" * 10_000_000)
    before = driver.store.position()
    with pytest.raises(ResourceAllocationError, match="at most 1024 MiB can be committed at once"):
        driver.store.append_unit([(A, body)] * 110, [], [])
    assert driver.store.position() == before
    assert not driver.store.has_work
    assert MAX_UNIT_BYTES + MAX_SLICE_BYTES < MAX_SEGMENT_BYTES


def test_a_message_larger_than_a_segment_gets_a_segment_that_fits() -> None:
    driver = JournalDriver()
    sequence = driver.store.append(A, plain_message(A, 1, b"z" * 100_000))
    driver.store.append(A, plain_message(A, 2, b"small"))
    driver.turn()
    driver.crash()
    driver.store.fetch(1, A, [sequence, sequence + 1])
    driver.turn()
    assert [body_of(message) for message in driver.fetched[1] if message] == [b"z" * 100_000, b"small"]


def test_only_removals_that_nobody_waits_for_may_wait() -> None:
    driver = JournalDriver()
    first = driver.store.append(A, plain_message(A, 1))
    second = driver.store.append(A, plain_message(A, 2))
    assert driver.store.may_wait is False
    driver.store.position()
    driver.turn()
    driver.store.remove(A, first)
    driver.store.note_redelivery(A, second, 1)
    assert driver.store.has_work
    assert driver.store.may_wait is True
    driver.store.position()
    assert driver.store.may_wait is False
    driver.turn()
    driver.store.remove(A, second)
    assert driver.store.may_wait is True
    driver.store.append(A, plain_message(A, 3))
    assert driver.store.may_wait is False


def test_asking_for_a_position_that_is_stored_already_is_answered_once_more() -> None:
    driver = JournalDriver()
    driver.store.append(A, plain_message(A, 1))
    assert driver.store.take_answer() == -1
    driver.turn()
    position = driver.store.position()
    assert driver.store.take_answer() == position
    assert driver.store.take_answer() == -1


def test_a_changed_head_is_stored_as_it_was_at_the_call() -> None:
    driver = JournalDriver()
    message = plain_message(A, 1, b"body")
    message.tail = b"!"
    sequence = driver.store.append(A, message)
    message.tail = b"?"
    driver.turn()
    driver.store.fetch(1, A, [sequence])
    driver.turn()
    found = driver.fetched[1][0]
    assert found is not None
    assert body_of(found) == b"body!"


@pytest.mark.parametrize("step", range(6))
def test_after_a_failed_write_or_sync_the_journal_gives_nothing_more_and_restarts_with_what_was_stored(
    step: int,
) -> None:
    driver = JournalDriver()
    stored = driver.store.append(A, plain_message(A, 1))
    driver.turn()
    driver.disk.fail_at = {driver.disk.steps + step: errno.EIO}
    driver.store.append(A, plain_message(A, 2, b"x" * 4000))
    batch = driver.store.next_batch()
    assert batch is not None
    with pytest.raises(OSError):
        write_batch(driver.disk, batch, True)
        driver.disk.sync_directory()
    driver.store.fail()
    assert driver.store.next_batch() is None
    assert driver.store.has_work is False
    driver.crash()
    assert list(driver.recovered[0].sequences)[:1] == [stored]


def test_a_full_disk_fails_the_write_and_keeps_what_was_stored() -> None:
    driver = JournalDriver()
    stored = driver.store.append(A, plain_message(A, 1))
    driver.turn()
    driver.disk.room = 100
    driver.store.append(A, plain_message(A, 2, b"x" * 4000))
    batch = driver.store.next_batch()
    assert batch is not None
    with pytest.raises(OSError) as caught:
        write_batch(driver.disk, batch, True)
    assert caught.value.errno == errno.ENOSPC
    driver.disk.room = -1
    driver.crash()
    assert list(driver.recovered[0].sequences) == [stored]


def test_the_index_finds_removes_and_closes_holes() -> None:
    index = SequenceIndex()
    for sequence in range(1, 5001):
        index.add(sequence, packed_location(sequence % 7 + 1, sequence * 8), sequence)
    for sequence in range(1, 5001):
        if sequence % 5:
            assert location_segment(index.remove(sequence)) == sequence % 7 + 1
            assert index.remove(sequence) == GONE
    assert list(index.sequences()) == list(range(5, 5001, 5))
    assert len(index) == 1000
    assert location_offset(index.find(2500)) == 20_000
    assert index.length(2500) == 2500
    assert index.find(2501) == GONE
    assert [location_offset(location) // 8 for location in index.locations()] == list(index.lengths())


def test_a_location_holds_any_segment_of_four_gib() -> None:
    location = packed_location((1 << 33) - 1, MAX_SEGMENT_BYTES - 8)
    assert location < 1 << 63
    assert location_segment(location) == (1 << 33) - 1
    assert location_offset(location) == MAX_SEGMENT_BYTES - 8
