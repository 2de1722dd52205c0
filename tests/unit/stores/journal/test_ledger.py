"""The sums of the journal's ledger: where they begin, what a record of them may hold, and what they survive."""

from __future__ import annotations

import tarfile
from pathlib import Path
from random import Random

import pytest

from spanwire.broker.persistence.store_unit import Transfer
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.model.ledger import (
    ACKNOWLEDGED,
    EXPIRED,
    FIRST_LINK,
    FOUND,
    NAMES,
    OTHER_LINKS,
    PURGED,
    TERMS,
    Sums,
    way_over,
)  # fmt: skip
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.replay import Replay
from spanwire.stores.journal.segments.ledger_records import ledger_bytes, ledger_payloads, restore_sums
from spanwire.stores.journal.segments.record import LEDGER, record_size
from spanwire.stores.journal.segments.transfers import MAX_GAPS
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import plain_message
from tests.support.tar_archives import unpack

A, B = Destination(QUEUE, "A"), Destination(QUEUE, "B")
STORES = Path(__file__).parents[3] / "vectors" / "stores"


def sums(driver: JournalDriver, destination: Destination | None = A) -> dict[str, int]:
    """The sums above 0, which balance."""
    entry = driver.store.sums(destination)
    assert entry is not None
    assert entry.sums.balance() == entry.pending
    return {name: count for name, count in zip(NAMES, entry.sums.counts, strict=True) if count}


@pytest.mark.parametrize("name", ["format-1-clean", "format-1-killed", "format-2-clean", "format-2-killed"])
def test_a_store_of_an_older_format_begins_its_ledger_with_what_it_holds(name: str, tmp_path: Path) -> None:
    with tarfile.open(STORES / f"{name}.tar.xz") as archive:
        unpack(archive, tmp_path)
    disk = FileDisk(tmp_path / "journal")
    opened = open_journal(disk, b"not used at all.")
    held = 0
    for destination in opened.journal.counted():
        entry = opened.journal.sums(destination)
        assert entry is not None
        assert entry.sums.counts[FOUND] == entry.pending == entry.sums.balance()
        held += entry.pending
    disk.close()
    assert held > 0


def test_the_sums_go_on_over_stops_crashes_and_segments_that_are_dropped() -> None:
    driver = JournalDriver()
    for number in range(200):
        sequence = driver.store.append(A, plain_message(A, number, b"x" * 300))
        driver.turn()
        driver.store.remove(A, sequence, ACKNOWLEDGED if number % 2 else EXPIRED)
        driver.turn()
        if number == 60:
            driver.reopen()
        if number == 120:
            driver.crash(Random(number))
    assert driver.store.segment > 10
    assert driver.store.segment_count < 5
    assert sums(driver) == {"sent": 200, "acknowledged": 100, "expired": 100}


def test_the_sums_of_a_removed_destination_stay_in_those_of_all_removed_ones() -> None:
    driver = JournalDriver()
    for number in range(3):
        driver.store.append(A, plain_message(A, number))
    driver.turn()
    driver.store.remove(A, 1)
    driver.store.remove_destination(A)
    driver.turn()
    driver.crash()
    assert driver.store.sums(A) is None
    assert sums(driver, None) == {"sent": 3, "acknowledged": 1, "purged": 2}


def test_sums_that_do_not_add_up_are_written_as_they_are_when_their_destination_goes() -> None:
    driver = JournalDriver()
    driver.store.append(A, plain_message(A, 1))
    driver.turn()
    entry = driver.store.sums(A)
    assert entry is not None
    entry.sums.add(ACKNOWLEDGED, 5)
    driver.store.remove_destination(A)
    driver.turn()
    removed = driver.store.sums(None)
    assert removed is not None
    ((link, payload),) = ledger_payloads(removed.sums, True)
    again = Sums()
    assert restore_sums(again, link, payload)
    assert again.balance() == -4


def test_a_removal_that_finds_no_message_does_not_count() -> None:
    driver = JournalDriver()
    driver.store.append_unit([(A, plain_message(A, 1))], [], [])
    driver.store.append_unit([], [(A, 1), (A, 1), (A, 7)], [])
    driver.turn()
    driver.crash()
    assert sums(driver) == {"sent": 1, "acknowledged": 1}


def test_messages_that_a_transfer_does_not_find_do_not_count() -> None:
    driver = JournalDriver()
    for number in range(4):
        driver.store.append(A, plain_message(A, number))
    driver.turn()
    driver.store.remove(A, 2)
    driver.turn()
    driver.store.transfer_unit([Transfer(A, [1, 2, 3, 9], B)], [], [])
    driver.turn()
    driver.crash()
    assert sums(driver) == {"sent": 4, "acknowledged": 1, "moved_out": 2}
    assert sums(driver, B) == {"sent": 2}
    assert MAX_GAPS == 0xFFFF  # what the record can say


def test_each_link_has_sums_of_its_own_and_those_of_all_destinations_together() -> None:
    driver = JournalDriver()
    for destination, origin in ((A, FIRST_LINK), (A, OTHER_LINKS), (B, FIRST_LINK)):
        message = plain_message(destination, origin)
        message.origin = origin
        driver.store.append(destination, message)
    driver.turn()
    driver.store.remove(A, 1, way_over(FIRST_LINK + 1))
    driver.turn()
    driver.crash()
    assert sums(driver) == {"arrived": 2, "forwarded": 1}
    over = driver.store.link_sums().over
    assert over is not None
    counts = {link: {NAMES[term]: count for term, count in enumerate(each) if count} for link, each in over.items()}
    assert counts == {FIRST_LINK: {"arrived": 2}, FIRST_LINK + 1: {"forwarded": 1}, OTHER_LINKS: {"arrived": 1}}


def test_what_the_records_say_is_read_back() -> None:
    written = Sums()
    written.came(0, 5)
    written.came(FIRST_LINK, 7)
    written.went(way_over(OTHER_LINKS), 1 << 40)
    written.went(PURGED, 2)
    read = Sums()
    for link, payload in ledger_payloads(written):
        assert restore_sums(read, link, payload)
    assert (read.counts, read.over, read.terms) == (written.counts, written.over, written.terms)
    assert ledger_bytes(read) == sum(record_size(len(payload)) for _, payload in ledger_payloads(read))


def number(value: int) -> bytes:
    return value.to_bytes(8, "little")


@pytest.mark.parametrize(
    ("link", "payload"),
    [
        (0, b""),
        (0, number(1)),
        (0, number(0) + number(1)),
        (0, number(3) + number(1)),
        (0, number(1) + number(0)),
        (0, number(1 << TERMS) + number(1)),
        (0, number(1) + number(1)[:7]),
        (OTHER_LINKS + 1, number(1) + number(1)),
    ],
)
def test_sums_that_no_journal_writes_are_damage(link: int, payload: bytes) -> None:
    assert not restore_sums(Sums(), link, payload)
    replay = Replay(JournalIndex())
    replay.begin(1, 0, 3, 4096)
    with pytest.raises(
        StoreError, match=r"0000000001\.journal is damaged at byte 64: its sums of the ledger are wrong"
    ):
        replay.apply(LEDGER, 0, 0, 0, link, 1, 64, len(payload), payload)
