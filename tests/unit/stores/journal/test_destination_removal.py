"""A destination that is removed with many messages: gone at once, and the segments learn of it slice by slice."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.stores.journal.index.destination_removal import MAX_RELEASED
from spanwire.stores.journal.index.sequences import BLOCK_SEQUENCES
from spanwire.stores.journal.segments.record import CANCELLED, DESTINATION_REMOVED
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import plain_message

A: Final = Destination(QUEUE, "A")
B: Final = Destination(QUEUE, "B")
COUNT: Final = 3 * MAX_RELEASED
SEGMENT: Final = 1 << 20


def filled(count: int = COUNT) -> JournalDriver:
    """A journal with so many messages of one destination, and one message of another in its newest segment."""
    driver = JournalDriver(segment_bytes=SEGMENT)
    for first in range(0, count, 5000):
        messages = [(A, plain_message(A, number)) for number in range(first, min(first + 5000, count))]
        driver.store.append_unit(messages, [], [])
        driver.turn()
    driver.store.append(B, plain_message(B, 1))
    driver.turn()
    return driver


def live(driver: JournalDriver) -> int:
    return sum(book[1] for book in driver.books())


@pytest.fixture(scope="module")
def many() -> JournalDriver:
    """See `filled`; its disk is not to be changed."""
    return filled()


def test_messages_of_a_removed_destination_are_released_in_slices(many: JournalDriver) -> None:
    driver = JournalDriver(many.disk.copy(), SEGMENT)
    assert live(driver) == COUNT + 1
    driver.store.remove_destination(A)
    assert driver.store.sizes(A, [1, COUNT]) == [0, 0]
    slices: list[int] = []
    before = live(driver)
    assert driver.write_one() is not None
    while True:
        slices.append(before - live(driver))
        before = live(driver)
        if not driver.store.release_removed():
            break
    assert sum(slices) == COUNT
    assert max(slices) < MAX_RELEASED + BLOCK_SEQUENCES
    assert len([count for count in slices if count > 0]) >= 3
    driver.turn()
    assert len(driver.books()) <= 2
    counted = driver.books()
    again = JournalDriver(driver.disk.copy(), SEGMENT)
    assert [book for book in again.books() if book[1] > 0] == [book for book in counted if book[1] > 0]


def test_the_segment_with_the_removal_stays_until_all_is_released(many: JournalDriver) -> None:
    driver = JournalDriver(many.disk.copy(), SEGMENT)
    segments = {book[0] for book in driver.books()}
    driver.store.remove_destination(A)
    assert driver.write_one() is not None
    with_removal = driver.store.segment
    sequence = driver.store.append(B, plain_message(B, 2, bytes(SEGMENT)))
    assert driver.write_one() is not None
    assert driver.store.segment > with_removal
    assert not driver.store._index.removals.is_empty
    assert {with_removal, max(segments)} <= {book[0] for book in driver.books()}
    driver.store.remove_all(B, [1, sequence])  # the first lies in an old segment, which would stay
    driver.turn()
    assert driver.store._index.removals.is_empty
    assert with_removal not in {book[0] for book in driver.books()}
    assert live(driver) == 0


@pytest.mark.large
def test_a_power_cut_between_two_slices_leaves_the_destination_removed(many: JournalDriver) -> None:
    driver = JournalDriver(many.disk.copy(), SEGMENT)
    driver.store.remove_destination(A)
    assert driver.write_one() is not None
    for _ in range(4):
        cut = JournalDriver(driver.disk.power_cut(Random(1)), SEGMENT)
        assert [line.destination for line in cut.recovered] == [B]
        assert cut.store._index.removals.is_empty
        assert live(cut) == 1
        driver.store.release_removed()
        driver.write_one()


def test_two_removals_in_one_segment_keep_it_until_both_are_released() -> None:
    driver = JournalDriver(segment_bytes=SEGMENT)
    for destination in (A, B):
        driver.store.append_unit([(destination, plain_message(destination, number)) for number in range(9000)], [], [])
        driver.turn()
    driver.store.remove_destination(A)
    driver.store.remove_destination(B)
    assert driver.write_one() is not None
    pinned = driver.store.segment
    state = driver.store._index.segments.by_number[pinned]
    seen = 0
    while not driver.store._index.removals.is_empty:
        assert pinned in state.refers
        seen += 1
        assert driver.store.release_removed()
    assert seen == 2
    assert pinned not in state.refers
    assert not driver.store.release_removed()


def test_waiting_messages_of_a_removed_destination_are_cancelled_when_their_slice_comes() -> None:
    driver = JournalDriver(segment_bytes=SEGMENT)
    driver.store.add_destination(A)
    driver.turn()
    driver.store._outbox.slice_records = 10
    sequences = [driver.store.append(A, plain_message(A, number)) for number in range(30)]
    waiting = driver.store._outbox.entries
    driver.store.remove_destination(A)
    assert [entry for entry in waiting if entry.kind == CANCELLED] == []
    assert driver.store.sizes(A, sequences) == [0] * 30
    batch = driver.store.next_batch()
    assert batch is not None
    assert len(batch.entries) == 10
    assert {entry.kind for entry in batch.entries} == {CANCELLED}
    driver.end_one(batch)
    kinds: list[int] = []
    while (batch := driver.store.next_batch()) is not None:
        kinds += [entry.kind for entry in batch.entries]
        driver.end_one(batch)
    assert kinds == [CANCELLED] * 20 + [DESTINATION_REMOVED]
    assert driver.store.backlog_bytes == 0
    driver.crash()
    assert driver.recovered == []
