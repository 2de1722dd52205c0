"""What is in force in mostly dead segments is written again, and nobody notices but the disk."""

from __future__ import annotations

import tarfile
from pathlib import Path
from random import Random
from typing import Final

import pytest

from spanwire.broker.metadata import SUBSCRIPTIONS
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.stores.driver.reader import read_all, read_block
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.compaction.compaction import MAX_SCAN_BYTES, SCAN_BYTES, SCAN_RECORDS, Scan, usual_step
from spanwire.stores.journal.segments.record import HEADER_SIZE, MOVED_BODY, REFERENCE
from spanwire.stores.journal.segments.segment import segment_name, segment_number
from spanwire.stores.journal.space import UNMANAGED
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import body_of, plain_message

VECTORS: Final = Path(__file__).parents[3] / "vectors" / "stores"
A = Destination(QUEUE, "A")
B = Destination(QUEUE, "B")


def flow(driver: JournalDriver, messages: int, size: int = 900, first: int = 1000) -> None:
    """Messages come and go, each removed three messages later, with every write on the disk and nothing compacted."""
    flowing: list[int] = []
    for number in range(first, first + messages):
        flowing.append(driver.store.append(B, plain_message(B, number, b"f" * size)))
        driver.write_one()
        if len(flowing) > 3:
            driver.store.remove(B, flowing.pop(0))
        driver.write_one()
    for sequence in flowing:
        driver.store.remove(B, sequence)
    driver.write_one()


def bodies(driver: JournalDriver, sequences: list[int], destination: Destination = A) -> list[bytes | None]:
    driver.store.fetch(1, destination, sequences)
    driver.answer_fetches()
    return [None if message is None else body_of(message) for message in driver.fetched.pop(1)]


def test_one_old_message_does_not_keep_the_journal_from_shrinking() -> None:
    driver = JournalDriver()
    kept = driver.store.append(A, plain_message(A, 1, b"kept"))
    largest = 0
    for number in range(40):
        flow(driver, 10, first=1000 + 10 * number)
        driver.turn()
        largest = max(largest, driver.store.used_bytes())
    assert largest <= 6 * driver.segment_bytes
    assert driver.store.moved_bytes < 40 * 10 * 900 / 20, "a small message is moved now and then, not much else"
    assert bodies(driver, [kept]) == [b"kept"]
    driver.crash()
    assert list(driver.recovered[0].sequences) == [kept]
    assert bodies(driver, [kept]) == [b"kept"]


def test_a_journal_that_is_full_of_what_is_in_force_is_left_alone() -> None:
    driver = JournalDriver()
    for number in range(60):
        driver.store.append(A, plain_message(A, number, b"x" * 800))
        driver.turn()
    flow(driver, 8)
    driver.turn()
    assert driver.store.moved_bytes == 0


def test_a_message_is_read_from_its_old_place_until_the_new_one_is_on_the_disk() -> None:
    driver = JournalDriver()
    kept = driver.store.append(A, plain_message(A, 1, b"kept"))
    flow(driver, 40)
    while driver.scan_one():
        pass
    batch = driver.store.next_batch()
    assert batch is not None
    assert driver.store.moved_bytes > 0
    assert bodies(driver, [kept]) == [b"kept"], "its new place has not been written yet"
    write_batch(driver.disk, batch, True)
    driver.store.on_completed(batch)
    assert bodies(driver, [kept]) == [b"kept"]
    driver.turn()
    assert segment_name(1) not in driver.disk.files()
    assert bodies(driver, [kept]) == [b"kept"]


def test_a_segment_is_not_deleted_under_a_fetch_that_was_asked_for_before() -> None:
    driver = JournalDriver()
    kept = driver.store.append(A, plain_message(A, 1, b"kept"))
    flow(driver, 40)
    driver.store.fetch(1, A, [kept])
    (fetch,) = driver.store.take_fetches()
    while driver.write_one() is not None or driver.scan_one():
        pass
    assert driver.store.moved_bytes > 0
    assert segment_name(1) in driver.disk.files()
    (found,) = read_all(driver.disk, fetch.reads)
    assert found is not None
    assert found.raw.endswith(b"kept")
    driver.store.answered(fetch)
    driver.turn()
    assert segment_name(1) not in driver.disk.files()


@pytest.mark.parametrize("moment", ["read", "taken", "written"])
def test_messages_removed_together_while_they_are_moved_are_counted_as_one_by_one(moment: str) -> None:
    drivers = [JournalDriver(), JournalDriver()]
    for together, driver in enumerate(drivers):
        kept = [driver.store.append(A, plain_message(A, number, b"kept")) for number in range(10)]
        flow(driver, 40)
        while driver.scan_one():
            pass
        if moment == "read":
            remove(driver, kept[1:9], together == 1)
        batch = driver.store.next_batch()
        assert batch is not None
        if moment == "taken":
            remove(driver, kept[1:9], together == 1)
        write_batch(driver.disk, batch, True)
        driver.store.on_completed(batch)
        if moment == "written":
            remove(driver, kept[1:9], together == 1)
        driver.turn()
        assert driver.store.moved_bytes > 0
        assert bodies(driver, kept) == [b"kept", *[None] * 8, b"kept"]
    assert drivers[0].disk.contents() == drivers[1].disk.contents()
    assert drivers[0].books() == drivers[1].books()


def remove(driver: JournalDriver, sequences: list[int], together: bool) -> None:
    """In one call or in many."""
    if together:
        driver.store.remove_all(A, sequences)
        return
    for sequence in sequences:
        driver.store.remove(A, sequence)


@pytest.mark.parametrize("moment", ["read", "taken", "written"])
def test_a_message_removed_while_it_is_moved_stays_removed(moment: str) -> None:
    driver = JournalDriver()
    kept = driver.store.append(A, plain_message(A, 1, b"kept"))
    other = driver.store.append(A, plain_message(A, 2, b"other"))
    flow(driver, 40)
    while driver.scan_one():
        pass
    if moment == "read":
        driver.store.remove(A, kept)
    batch = driver.store.next_batch()
    assert batch is not None
    if moment == "taken":
        driver.store.remove(A, kept)
    write_batch(driver.disk, batch, True)
    driver.store.on_completed(batch)
    if moment == "written":
        driver.store.remove(A, kept)
    driver.turn()
    assert bodies(driver, [kept, other]) == [None, b"other"]
    flow(driver, 30, first=2000)
    driver.turn()
    for _ in range(2):
        driver.crash(Random(1))
        assert {str(found.destination): list(found.sequences) for found in driver.recovered}["queue://A"] == [other]


def test_a_queue_removed_while_its_messages_are_moved_stays_removed() -> None:
    driver = JournalDriver()
    driver.store.append(A, plain_message(A, 1, b"kept"))
    flow(driver, 40)
    while driver.scan_one():
        pass
    batch = driver.store.next_batch()
    assert batch is not None
    driver.store.remove_destination(A)
    write_batch(driver.disk, batch, True)
    driver.store.on_completed(batch)
    driver.turn()
    flow(driver, 20, first=2000)
    driver.turn()
    assert driver.store.used_bytes() <= 4 * driver.segment_bytes
    driver.crash()
    assert [str(found.destination) for found in driver.recovered] == ["queue://B"]


def test_redelivery_counts_and_facts_move_and_newer_ones_count() -> None:
    driver = JournalDriver()
    kept = driver.store.append(A, plain_message(A, 1, b"kept"))
    other = driver.store.append(A, plain_message(A, 2, b"other"))
    for count in (1, 2):
        driver.store.note_redelivery(A, kept, count)
        driver.store.note_redelivery(A, other, count)
    driver.store.put_metadata(SUBSCRIPTIONS, b"kept", b"1")
    driver.store.put_metadata(SUBSCRIPTIONS, b"newer", b"1")
    driver.store.put_metadata(SUBSCRIPTIONS, b"gone", b"1")
    flow(driver, 40)
    while driver.scan_one():
        pass
    driver.store.note_redelivery(A, other, 3)
    driver.store.put_metadata(SUBSCRIPTIONS, b"newer", b"2")
    driver.store.discard_metadata(SUBSCRIPTIONS, b"gone")
    driver.turn()
    assert segment_name(1) not in driver.disk.files()
    driver.crash()
    assert driver.recovered[0].redeliveries == {kept: 2, other: 3}
    assert driver.metadata == {SUBSCRIPTIONS: {b"kept": b"1", b"newer": b"2"}}


def test_a_shared_body_moves_with_those_references_that_are_left() -> None:
    driver = JournalDriver()
    first, second = driver.store.append_shared([A, B], plain_message(A, 1, b"shared"))
    third = driver.store.append_shared([A, B], plain_message(A, 2, b"again"))
    driver.store.remove(A, third[0])
    driver.write_one()
    driver.store.remove(A, first)
    flow(driver, 40)
    driver.turn()
    assert segment_name(1) not in driver.disk.files()
    for _ in range(2):
        assert bodies(driver, [first, third[0]]) == [None, None]
        assert bodies(driver, [second, third[1]], B) == [b"shared", b"again"]
        driver.crash()


def test_a_shared_body_that_is_written_again_for_references_of_a_later_batch_needs_its_room_again() -> None:
    driver = JournalDriver()
    (first, second) = driver.store.append_shared([A, B], plain_message(A, 1, b"shared" * 100))
    driver.write_one()
    flow(driver, 40)
    while driver.scan_one():
        pass
    compaction = driver.store._compaction
    cost = compaction.ready_bytes - HEADER_SIZE  # of the body and one reference
    assert len(compaction.take(0, cost, driver.store.position())) == 2
    assert compaction.ready_bytes == cost
    assert compaction.take(0, cost - 1, driver.store.position()) == []
    entries = compaction.take(0, cost, driver.store.position())
    assert [entry.kind for entry in entries] == [MOVED_BODY, REFERENCE]
    assert compaction.ready_bytes == 0
    assert bodies(driver, [first]) == bodies(driver, [second], B) == [b"shared" * 100]


def test_messages_larger_than_a_block_are_read_whole_and_dead_ones_are_passed_over() -> None:
    driver = JournalDriver(segment_bytes=1 << 20)
    kept = driver.store.append(A, plain_message(A, 1, b"k" * 3 * MAX_SCAN_BYTES))
    dead = driver.store.append(A, plain_message(A, 2, b"d" * 7 * MAX_SCAN_BYTES))
    driver.write_one()
    driver.store.remove(A, dead)
    flow(driver, 60, size=100_000)
    lengths: list[int] = []
    while True:
        scan = driver.store.take_scan()
        if scan is None and driver.write_one() is None:
            break
        if scan is not None:
            lengths.append(scan.length)
            driver.store.scanned(scan, read_block(driver.disk, scan))
    assert 3 * MAX_SCAN_BYTES < max(lengths) < 4 * MAX_SCAN_BYTES
    assert segment_name(1) not in driver.disk.files()
    assert bodies(driver, [kept]) == [b"k" * 3 * MAX_SCAN_BYTES]


def test_blocks_hold_about_as_many_records_whatever_their_size() -> None:
    assert usual_step(0, 0) == SCAN_BYTES
    assert usual_step(24 * 1000, 1000) == SCAN_BYTES
    assert usual_step(1024 * 30, 30) == 1024 * SCAN_RECORDS
    assert usual_step(1 << 30, 1) == MAX_SCAN_BYTES


def test_what_lies_behind_damage_stays_where_it_is_and_somebody_is_told() -> None:
    driver = JournalDriver()
    first = driver.store.append(A, plain_message(A, 1, b"before"))
    hurt = driver.store.append(A, plain_message(A, 2, b"hurt"))
    last = driver.store.append(A, plain_message(A, 3, b"behind"))
    flow(driver, 40)
    at = driver.disk.contents()[segment_name(1)].index(b"hurt")
    driver.disk.patch(segment_name(1), at, b"!")
    driver.turn()
    ((segment, offset),) = driver.store.take_damaged()
    assert segment == 1
    assert 0 < at - offset < 100
    assert driver.store.take_damaged() == []
    assert bodies(driver, [first, hurt, last]) == [b"before", None, b"behind"]
    flow(driver, 40, first=2000)
    driver.turn()
    assert segment_name(1) in driver.disk.files()


def test_a_block_that_cannot_be_read_is_like_damage() -> None:
    driver = JournalDriver()
    driver.store.append(A, plain_message(A, 1, b"kept"))
    flow(driver, 40)
    scan = driver.store.take_scan()
    assert scan is not None
    assert read_block(driver.disk, Scan(99, 0, 10)) == b""
    driver.store.scanned(scan, b"")
    assert driver.store.take_damaged() == [(1, scan.offset)]
    assert driver.store.take_scan() is None


def test_what_has_no_room_on_the_disk_waits_without_making_batches() -> None:
    driver = JournalDriver()
    kept = driver.store.append(A, plain_message(A, 1, b"k" * 6000))
    flow(driver, 40)
    driver.store.space_changed(0, True)
    while driver.scan_one():
        pass
    assert driver.store.moved_bytes == 0
    driver.store.space_changed(driver.segment_bytes, True)
    assert not driver.store.has_work, "the message is larger than the next segment's file"
    wanted = driver.store.wanted_spare
    assert wanted > 6000
    driver.store.space_changed(wanted, True)
    assert driver.store.has_work
    driver.write_one()
    assert driver.store.moved_bytes > 6000
    driver.store.space_changed(UNMANAGED, True)
    driver.turn()
    assert segment_name(1) not in driver.disk.files()
    assert bodies(driver, [kept]) == [b"k" * 6000]


def test_messages_of_format_1_move_into_format_2() -> None:
    disk = SimulatedDisk()
    with tarfile.open(VECTORS / "format-1-killed.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None and segment_number(Path(member.name).name):
                disk.put(Path(member.name).name, file.read())
    old = [name for name in disk.files() if segment_number(name)]
    assert len(old) > 1
    driver = JournalDriver(disk)
    before = driver.state()
    for name, messages in before.items():
        for place, sequence in enumerate(list(messages)):
            if place % 6:
                driver.store.remove(parse_destination(name), sequence)
                del messages[sequence]
    assert sum(len(messages) for messages in before.values()) > 10
    for round_number in range(100):
        flow(driver, 10, first=1000 + 10 * round_number)
        driver.turn()
        if not set(old) & set(driver.disk.files()):
            break
    assert not set(old) & set(driver.disk.files())
    driver.crash()
    after = driver.state()
    assert {name: after[name] for name in before} == before
    for found in driver.recovered:
        assert found.priorities == {}, "what it was is not known, so it counts as usual"
        assert len(found.expirations.sequences) == 0


def test_nothing_is_moved_after_the_stop_was_noted() -> None:
    driver = JournalDriver()
    kept = driver.store.append(A, plain_message(A, 1, b"kept"))
    flow(driver, 40)
    while driver.scan_one():
        pass
    driver.store.note_clean_stop()
    while driver.write_one() is not None:
        pass
    assert driver.store.take_scan() is None
    again = JournalDriver(driver.disk)
    assert again.clean
    assert list(again.recovered[0].sequences) == [kept]
