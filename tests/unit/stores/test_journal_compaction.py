"""Compaction with the threads of a store, on real files."""

from __future__ import annotations

from pathlib import Path

from spanwire.model.destination import QUEUE, Destination
from tests.support.journal_store_driver import JournalStoreDriver
from tests.support.plain_format import body_of, plain_message

A = Destination(QUEUE, "A")
B = Destination(QUEUE, "B")
MAX_ROUNDS = 400


def test_a_store_with_one_old_message_stays_small_and_serves_it_all_the_time(tmp_path: Path) -> None:
    driver = JournalStoreDriver(tmp_path / "data")
    kept = driver.store.append(A, plain_message(A, 1, b"kept"))
    flowing: list[int] = []
    largest = 0
    first = tmp_path / "data" / "journal" / "0000000001.journal"
    rounds = 0
    while first.exists() and rounds < MAX_ROUNDS:
        rounds += 1
        flowing += [driver.store.append(B, plain_message(B, number, b"f" * 3000)) for number in range(10)]
        driver.turn()
        if len(flowing) > 35:  # the removals lie in later segments
            for sequence in flowing[:10]:
                driver.store.remove(B, sequence)
            del flowing[:10]
        driver.store.fetch(1, A, [kept])
        driver.turn()
        (found,) = driver.fetched.pop(1)
        assert found is not None
        assert body_of(found) == b"kept"
        largest = max(largest, driver.store.used_bytes())
    assert not first.exists()
    assert largest < 16 * driver.segment_bytes
    assert not driver.failures
    driver.crash()
    assert {str(line.destination): list(line.sequences) for line in driver.recovered}["queue://A"] == [kept]
    driver.journal_store.stop()
