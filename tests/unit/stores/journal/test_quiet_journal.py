"""A journal without anything to do says so, and any call ends that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.stores.journal.journal import Journal
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")
B = Destination(QUEUE, "B")

CALLS: dict[str, Callable[[Journal], object]] = {
    "append": lambda journal: journal.append(A, plain_message(A, 2)),
    "remove": lambda journal: journal.remove(A, 1),
    "fetch": lambda journal: journal.fetch(1, A, [1]),
    "position": lambda journal: journal.position(),
    "metadata": lambda journal: journal.put_metadata(1, b"key", b"value"),
    "redelivery": lambda journal: journal.note_redelivery(A, 1, 1),
    "destination": lambda journal: journal.add_destination(B),
    "removal of a destination": lambda journal: journal.remove_destination(A),
}


def quiet_journal() -> JournalDriver:
    """A journal with one message, all of whose work is done."""
    driver = JournalDriver()
    assert driver.store.append(A, plain_message(A, 1)) == 1
    driver.turn()
    assert driver.store.is_quiet
    return driver


@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_the_quiet_until_its_work_is_done(name: str) -> None:
    driver = quiet_journal()
    CALLS[name](driver.store)
    assert not driver.store.is_quiet
    driver.turn()
    driver.store.take_answer()
    assert driver.store.is_quiet


def test_a_journal_is_not_quiet_while_a_batch_is_under_way() -> None:
    driver = quiet_journal()
    driver.store.append(A, plain_message(A, 2))
    batch = driver.store.next_batch()
    assert batch is not None and not driver.store.is_quiet
    driver.end_one(batch)
    assert driver.store.is_quiet


@pytest.mark.large
def test_a_journal_is_not_quiet_while_a_segment_is_compacted() -> None:
    driver = JournalDriver()
    for number in range(1, 200):
        driver.store.append(A, plain_message(A, number, b"x" * 100))
        if number > 3:
            driver.store.remove(A, number)  # three messages keep the first segment
        driver.write_one()
    begun = driver.store._compaction.begun
    while driver.store._compaction.begun == begun:
        driver.store.append(B, plain_message(B, 1, b"x" * 1000))
        driver.write_one()
    assert not driver.store.is_quiet
    driver.turn()
    assert driver.store.is_quiet


def test_a_batch_that_is_reported_is_the_answer_to_who_waits_for_it() -> None:
    driver = quiet_journal()
    driver.store.append(A, plain_message(A, 2))
    position = driver.store.position()
    driver.turn()
    assert driver.stored == position
    assert driver.store.is_quiet
    assert driver.store.take_answer() == -1
