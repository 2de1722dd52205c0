"""Messages that pass from one line to another where they lie: what the journal keeps for that, and for how long."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.persistence.store_unit import Transfer
from spanwire.model.destination import QUEUE, TRANSACTION, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.fetching.fetch import PassedRead, check_read
from spanwire.stores.journal.outbox import transfer_bytes
from spanwire.stores.journal.segments.record import MESSAGE, MOVED, TRANSFER, Record
from spanwire.stores.journal.segments.segment import SegmentReader, segment_name, segment_number
from spanwire.stores.journal.segments.transfers import (
    NOT_PASSED,
    Labels,
    TransferRuns,
    decode_transfer,
    encode_transfer,
)
from tests.support.journal_driver import JournalDriver, recovered_state
from tests.support.plain_format import body_of, plain_message
from tests.unit.stores.offline.test_salvage import repaired

STAGED = Destination(TRANSACTION, "staged")
A = Destination(QUEUE, "A")
B = Destination(QUEUE, "B")


def staged(driver: JournalDriver, count: int, size: int = 0) -> list[int]:
    """Messages of the first line, on the disk."""
    found = [driver.store.append(STAGED, plain_message(A, n, b"%d" % n + bytes(size))) for n in range(count)]
    driver.write_one()
    return found


def passed(driver: JournalDriver, sequences: list[int], target: Destination = A, source: Destination = STAGED) -> int:
    """Made messages of another line; gives the first sequence."""
    (first,) = driver.store.transfer_unit([Transfer(source, sequences, target)], [], [])
    driver.write_one()
    return first


def flow(driver: JournalDriver, messages: int, first: int = 1000) -> None:
    """Messages of another queue come and go, each removed three messages later; nothing is compacted meanwhile."""
    flowing: list[int] = []
    for number in range(first, first + messages):
        flowing.append(driver.store.append(B, plain_message(B, number, bytes(900))))
        driver.write_one()
        if len(flowing) > 3:
            driver.store.remove(B, flowing.pop(0))
        driver.write_one()
    for sequence in flowing:
        driver.store.remove(B, sequence)
    driver.write_one()


def bodies(driver: JournalDriver, destination: Destination, sequences: list[int]) -> list[bytes | None]:
    driver.store.fetch(1, destination, sequences)
    driver.answer_fetches()
    return [None if message is None else body_of(message) for message in driver.fetched.pop(1)]


def records(driver: JournalDriver, kind: int) -> list[tuple[int, Record]]:
    """All of a kind, with their segments."""
    found: list[tuple[int, Record]] = []
    for name, data in sorted(driver.disk.contents().items()):
        if segment_number(name) > 0:
            reader = SegmentReader(name, data, None)
            batch = reader.next_batch()
            while batch is not None:
                found += [(segment_number(name), record) for record in batch if record.kind == kind]
                batch = reader.next_batch()
    return found


def test_a_message_is_written_once_however_often_it_passes_on() -> None:
    driver = JournalDriver(segment_bytes=1 << 20)
    first = passed(driver, staged(driver, 100, 1000))
    before = driver.store.segment_end
    again = passed(driver, list(range(first, first + 100)), B, A)
    assert driver.store.segment_end - before < 200
    assert len(records(driver, MESSAGE)) == 100
    assert bodies(driver, B, [again, again + 99]) == [b"0" + bytes(1000), b"99" + bytes(1000)]


def test_what_was_counted_while_it_ran_is_what_a_start_counts() -> None:
    driver = JournalDriver()
    sequences = staged(driver, 30, 300)
    driver.store.note_redelivery(STAGED, sequences[7], 2)
    driver.write_one()
    flow(driver, 3)
    first = passed(driver, sequences[5:25])
    driver.store.remove(A, first + 3)
    driver.store.note_redelivery(A, first + 4, 1)
    flow(driver, 3, first=2000)
    passed(driver, [first, first + 9], B, A)
    driver.write_one()
    books = driver.books()
    driver.crash()
    assert driver.books()[: len(books)] == books


def test_a_transfer_stays_as_long_as_the_messages_that_it_is_about_and_no_longer() -> None:
    driver = JournalDriver()
    sequences = staged(driver, 3, 2000)
    flow(driver, 5)
    first = passed(driver, sequences)
    written = records(driver, TRANSFER)[0][0]
    oldest = records(driver, MESSAGE)[0][0]
    assert oldest < written
    for place in range(3):
        flow(driver, 30, first=1000 * (place + 1))
        driver.crash(Random(place))
        kept = list(range(first + place, first + 3))
        assert bodies(driver, A, kept) == [b"%d" % n + bytes(2000) for n in range(place, 3)]
        driver.store.remove(A, first + place)
    driver.turn()
    flow(driver, 10, first=9000)
    driver.turn()
    flow(driver, 10, first=9500)
    driver.turn()
    assert segment_name(written) not in driver.disk.files()
    assert not records(driver, TRANSFER)
    driver.crash()
    found = {str(line.destination): list(line.sequences) for line in driver.recovered}
    assert found[str(A)] == [] and found[str(STAGED)] == []


def test_what_is_written_again_has_its_new_name_and_needs_the_transfer_no_more() -> None:
    driver = JournalDriver()
    first = passed(driver, [*staged(driver, 2)])
    for place in range(4):
        flow(driver, 20, first=1000 * (place + 1))
        driver.turn()
    moved = [(record.destination, record.sequence) for _, record in records(driver, MOVED)]
    number = driver.store._index.by_name[A.qualified_name].number
    assert (number, first) in moved and (number, first + 1) in moved
    assert not records(driver, TRANSFER)
    index = driver.store._index
    assert not index.passed and not index.origins and not index.labelled
    for _ in range(2):
        assert bodies(driver, A, [first, first + 1]) == [b"0", b"1"]
        driver.crash()


@pytest.mark.parametrize("moment", ["found", "taken", "written"])
def test_messages_pass_on_while_they_are_written_again(moment: str) -> None:
    driver = JournalDriver()
    sequences = staged(driver, 2)
    flow(driver, 40)
    while driver.scan_one():
        pass
    first = 0
    if moment == "found":
        (first,) = driver.store.transfer_unit([Transfer(STAGED, sequences, A)], [], [])
    batch = driver.store.next_batch()
    assert batch is not None
    if moment == "taken":
        (first,) = driver.store.transfer_unit([Transfer(STAGED, sequences, A)], [], [])
        assert bodies(driver, A, [first]) == [b"0"]
    write_batch(driver.disk, batch, True)
    driver.store.on_completed(batch)
    if moment == "written":
        (first,) = driver.store.transfer_unit([Transfer(STAGED, sequences, A)], [], [])
    assert driver.store.moved_bytes > 0
    driver.turn()
    flow(driver, 20, first=5000)
    driver.turn()
    for _ in range(2):
        assert bodies(driver, A, [first, first + 1]) == [b"0", b"1"]
        assert bodies(driver, STAGED, sequences) == [None, None]
        driver.crash()


@pytest.mark.parametrize("twice", [False, True])
def test_a_message_can_be_read_while_the_last_ones_of_its_segment_are_written_again(twice: bool) -> None:
    driver = JournalDriver()
    sequences = staged(driver, 2, 50)
    flow(driver, 8)
    first = passed(driver, sequences)
    line = B if twice else A
    if twice:
        first = passed(driver, [first, first + 1], B, A)
    flow(driver, 60, first=3000)
    moves = 0
    while True:
        batch = driver.store.next_batch()
        assert bodies(driver, line, [first, first + 1]) == [b"%d" % n + bytes(50) for n in range(2)]
        if batch is not None:
            moves += sum([entry.kind == MOVED for entry in batch.entries])
            driver.end_one(batch)
        elif not driver.scan_one():
            break
    assert moves == 2 and not driver.damaged
    index = driver.store._index
    assert not index.passed and not index.origins


def test_a_record_that_was_never_the_message_is_not_taken_for_it() -> None:
    driver = JournalDriver()
    first = passed(driver, staged(driver, 3))
    driver.store.fetch(1, A, [first])
    (fetch,) = driver.store.take_fetches()
    (read,) = fetch.reads
    block = driver.disk.read(segment_name(read.segment), read.offset, read.size)
    assert isinstance(read, PassedRead) and check_read(read, block, 0).damage == ""
    driver.store.answered(fetch)
    labels = driver.store._index.origins[read.number]
    labels.others[0] += 1  # the fault
    assert bodies(driver, A, [first]) == [None]
    assert "its checksum does not hold" in driver.damaged[0]


def test_a_lost_transfer_leaves_the_messages_in_their_old_line() -> None:
    driver = JournalDriver()
    sequences = staged(driver, 3)
    passed(driver, sequences)
    driver.store.append(B, plain_message(B, 9))
    driver.turn()
    segment, record = records(driver, TRANSFER)[0]
    disk = driver.disk.copy()
    disk.patch(segment_name(segment), record.payload_start, b"\xff")
    after, _, found = repaired(disk)
    assert found.has_loss
    assert "a record's checksum does not hold: where staged messages went" in found.findings[0].line()
    assert list(recovered_state(after)[str(STAGED)]) == sequences


@given(st.integers(0, (1 << 32) - 1), st.lists(st.integers(0, 1 << 40), unique=True, max_size=50))
def test_a_transfer_reads_back_as_it_was_written(source: int, sequences: list[int]) -> None:
    runs = TransferRuns(source)
    for sequence in sequences:
        runs.add(sequence)
    payload = encode_transfer(runs)
    found = decode_transfer(payload)
    assert found is not None and (found.source, found.count) == (source, len(sequences))
    flat = [first + n for first, count in zip(found.firsts, found.counts, strict=True) for n in range(count)]
    assert flat == sequences
    assert decode_transfer(payload[:-1]) is None and decode_transfer(payload + b"\0") is None


def test_labels_are_found_by_any_sequence_of_a_run_until_their_segment_goes() -> None:
    labels = Labels()
    labels.add(100, 10, 7, 500, 3)
    labels.add(20, 5, 8, 900, 4)
    assert [labels.run_index(sequence) for sequence in (19, 25, 99, 110)] == [NOT_PASSED] * 4
    assert [(labels.numbers[place], labels.other(place, 24)) for place in [labels.run_index(24)]] == [(8, 904)]
    assert [(labels.numbers[place], labels.other(place, 100)) for place in [labels.run_index(100)]] == [(7, 500)]
    labels.drop({3, 9})
    assert labels.run_index(100) == NOT_PASSED and labels.run_index(20) == 0
    labels.drop({4})
    assert len(labels) == 0


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 8)), max_size=30),
    st.booleans(),
    st.lists(st.sets(st.integers(1, 8)), max_size=4),
)
def test_labels_of_dropped_segments_go_and_no_others(
    runs: list[tuple[int, int]], rises: bool, drops: list[set[int]]
) -> None:
    if rises:
        runs.sort(key=lambda run: run[1])
    labels = Labels()
    expected: dict[int, tuple[int, int]] = {}
    for place, (count, segment) in enumerate(runs):
        labels.add(place * 5, count, segment, place * 7, segment)
        expected.update({place * 5 + n: (segment, place * 7 + n) for n in range(count)})
    for gone in [*drops, set(range(9))]:
        labels.drop(gone)
        expected = {sequence: known for sequence, known in expected.items() if known[0] not in gone}
        places = {sequence: labels.run_index(sequence) for sequence in range(5 * len(runs))}
        found = {
            sequence: (labels.numbers[place], labels.other(place, sequence))
            for sequence, place in places.items()
            if place != NOT_PASSED
        }
        assert found == expected
    assert len(labels) == 0


def test_lines_without_passed_messages_are_not_remembered() -> None:
    driver = JournalDriver()
    for number in range(6):
        queue = Destination(QUEUE, f"T{number}")
        passed(driver, staged(driver, 1, 10), queue)
        driver.store.remove_destination(queue)
        driver.turn()
        flow(driver, 6, first=1000 * (number + 1))
        driver.turn()
    index = driver.store._index
    assert not index.passed and not index.origins and not index.labelled


def test_what_was_not_written_yet_counts_once_in_the_size_of_a_unit() -> None:
    driver = JournalDriver(segment_bytes=1 << 20)
    body = bytes(64 * 1024 * 1024)
    sequences = [driver.store.append(STAGED, plain_message(A, n, body)) for n in range(6)]
    targets = [Destination(QUEUE, f"Q{n}") for n in range(6)]
    transfers = [Transfer(STAGED, [sequence], target) for sequence, target in zip(sequences, targets, strict=True)]
    firsts = driver.store.transfer_unit(transfers, [], [])  # 384 MiB, of 1,024 that are allowed
    assert [driver.store.sizes(target, [first])[0] > len(body) for target, first in zip(targets, firsts, strict=True)]
    again = [Transfer(target, [first] * 3, A) for target, first in zip(targets, firsts, strict=True)]
    with pytest.raises(ResourceAllocationError, match="holds 1152 MiB"):
        driver.store.transfer_unit(again, [], [])


def test_a_unit_is_at_most_as_large_as_was_reckoned() -> None:
    driver = JournalDriver(segment_bytes=1 << 20)
    on_disk = staged(driver, 20)
    shared = driver.store.append_shared([STAGED, B], plain_message(A, 50, bytes(3000)))[0]
    waiting = [driver.store.append(STAGED, plain_message(A, n, bytes(100))) for n in range(60, 63)]
    sequences = [waiting[0], *on_disk[:15:2], shared, on_disk[15], waiting[1], on_disk[17], waiting[2], on_disk[1]]
    reckoned = transfer_bytes(driver.store._index.by_name[STAGED.qualified_name], sequences)
    before = driver.store.backlog_bytes
    driver.store.transfer_unit([Transfer(STAGED, sequences, B)], [], [])
    assert 0 < driver.store.backlog_bytes - before <= reckoned < 2 * (driver.store.backlog_bytes - before)
