"""A unit that was gathered is encoded in slices, lies in one batch, and counts whole or not at all."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from spanwire.broker.metadata import SCHEDULES, MetadataRecord
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.message import Message
from spanwire.stores.journal.batch import Batch, write_batch
from spanwire.stores.journal.index.stored_destination import TRANSFER_WEIGHT
from spanwire.stores.journal.outbox import MAX_SLICE_BYTES, MAX_SLICE_RECORDS
from spanwire.stores.journal.segments.record import TRANSFER
from spanwire.stores.journal.segments.segment import BATCH_HEAD_SIZE, segment_name
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import body_of, plain_message
from tests.unit.stores.journal.test_transfers import records

A: Final = Destination(QUEUE, "A")
B: Final = Destination(QUEUE, "B")
C: Final = Destination(QUEUE, "C")
SEGMENT: Final = 1 << 22
METADATA: Final = MetadataRecord(SCHEDULES, b"key", b"value")


def messages_of(destination: Destination, count: int) -> list[Message]:
    """Messages of several lengths and priorities, some of which expire."""
    messages: list[Message] = []
    for number in range(count):
        plain = plain_message(destination, number, bytes((0, 1, 7, 8, 40)[number % 5]))
        due = 0 if number % 7 else 1 << 42
        messages.append(
            Message(
                plain.format_id, plain.raw, plain.content_start, plain.properties_start, plain.tail_start,
                plain.destination, plain.producer_id, plain.sequence, True, number % 10, due, 0,
            )
        )  # fmt: skip
    return messages


def gathered(
    additions: list[tuple[Destination, Message]], removals: list[tuple[Destination, int]], metadata: int = 0
) -> StoreUnit:
    unit = StoreUnit()
    for metadata_record in facts_of(metadata):
        unit.add_metadata(metadata_record)
    for destination, message in additions:
        unit.add(destination, message)
    for destination, sequence in removals:
        unit.remove(destination, sequence)
    return unit


def facts_of(count: int) -> list[MetadataRecord]:
    """Facts of single messages, of several lengths; one ends what is not there."""
    metadata = [MetadataRecord(SCHEDULES, str(number).encode(), bytes(number % 9)) for number in range(count)]
    return [*metadata, MetadataRecord(SCHEDULES, b"none", None)] if metadata else []


def batch_of(driver: JournalDriver) -> tuple[Batch, int]:
    """The next batch, and in how many slices it was encoded."""
    slices = 0
    while driver.store.gather():
        slices += 1
    assert not driver.store.has_large_call
    batch = driver.store.next_batch()
    assert batch is not None
    return batch, slices


def sequences(driver: JournalDriver, destination: Destination) -> list[int]:
    for found in driver.recovered:
        if found.destination == destination:
            return list(found.sequences)
    return []


def begun(count: int) -> tuple[JournalDriver, list[tuple[Destination, Message]], list[tuple[Destination, int]]]:
    """A journal with messages of A, and what a unit is to do there."""
    driver = JournalDriver(segment_bytes=SEGMENT)
    kept = [driver.store.append(A, message) for message in messages_of(A, count)]
    driver.store.add_destination(B)
    driver.store.add_destination(C)
    driver.turn()
    additions = list(zip([B, C] * count, messages_of(B, count), strict=False))
    return driver, additions, [(A, sequence) for sequence in kept]


@pytest.mark.large
@pytest.mark.parametrize("count", [1, 10, MAX_SLICE_RECORDS + 3])
def test_a_gathered_unit_is_what_a_unit_is_on_the_disk(count: int) -> None:
    contents: list[dict[str, bytes]] = []
    books: list[object] = []
    for is_gathered in (False, True):
        driver, additions, removals = begun(count)
        if is_gathered:
            unit = gathered(additions, removals, count)
            driver.store.append_gathered(unit, [])
            assert [(line.destination, line.first) for line in unit.targets()] == [(B, 1), (C, 1)][
                : len(unit.targets())
            ]
        else:
            driver.store.append_unit(additions, removals, facts_of(count))
        driver.turn()
        contents.append(driver.disk.contents())
        books.append(driver.books())
    assert contents[0] == contents[1]
    assert books[0] == books[1]


@pytest.mark.large
def test_each_turn_encodes_some_records_of_a_unit() -> None:
    count = 2 * MAX_SLICE_RECORDS + 5
    driver, additions, removals = begun(count)
    driver.store.append_gathered(gathered(additions, removals, count), [METADATA])
    batch, slices = batch_of(driver)
    assert slices == 3 * count // MAX_SLICE_RECORDS + 1
    assert batch.size == sum([len(part) for part in batch.parts])
    driver.end_one(batch)
    assert driver.store.stored_position == driver.store.position()


def test_each_turn_encodes_some_bytes_of_a_unit() -> None:
    driver = JournalDriver(segment_bytes=SEGMENT)
    body = bytes(MAX_SLICE_BYTES // 4)
    driver.store.append_gathered(gathered([(A, plain_message(A, number, body)) for number in range(16)], []), [])
    batch, slices = batch_of(driver)
    assert slices == 4
    driver.end_one(batch)
    driver.crash()
    assert sequences(driver, A) == list(range(1, 17))


@pytest.mark.large
@pytest.mark.parametrize("seed", range(20))
def test_a_write_cut_short_anywhere_leaves_nothing_of_a_unit(seed: int) -> None:
    count = 50
    driver, additions, removals = begun(count)
    driver.store.append_gathered(gathered(additions, removals), [METADATA])
    batch, _ = batch_of(driver)
    data = b"".join(batch.parts)
    end = len(data.rstrip(b"\0"))  # what is behind it are zeros in the file, too
    cuts = {0, 1, end - 1} | {Random(seed).randrange(end) for _ in range(10)}
    for cut in cuts:
        disk = driver.disk.copy()
        disk.write(segment_name(batch.segment), batch.offset, [data[:cut]])
        again = JournalDriver(disk, SEGMENT)
        assert (len(sequences(again, A)), sequences(again, B), again.metadata) == (count, [], {})
    driver.end_one(batch)
    driver.crash()
    assert (sequences(driver, A), len(sequences(driver, B)), len(sequences(driver, C))) == ([], 25, 25)
    assert driver.metadata == {SCHEDULES: {b"key": b"value"}}


@pytest.mark.large
@pytest.mark.parametrize("slices", range(4))
def test_a_power_cut_between_two_slices_leaves_nothing_of_a_unit(slices: int) -> None:
    count = 2 * MAX_SLICE_RECORDS
    driver, additions, removals = begun(count)
    driver.store.append_gathered(gathered(additions, removals), [METADATA])
    for _ in range(slices):
        assert driver.store.gather()
    driver.crash()
    assert (len(sequences(driver, A)), sequences(driver, B), driver.metadata) == (count, [], {})


def test_calls_between_two_slices_come_behind_the_unit() -> None:
    count = MAX_SLICE_RECORDS
    driver, additions, removals = begun(count)
    store = driver.store
    early = store.append(C, plain_message(C, 1 << 20, b"early"))
    unit = gathered(additions, [*removals, (C, early)])
    store.append_gathered(unit, [])
    position = store.position()
    assert store.gather()
    late = store.append(B, plain_message(B, 1 << 21, b"late"))
    gone = store.append(B, plain_message(B, 1 << 22, b"gone"))
    store.remove(B, gone)
    store.put_metadata(METADATA.table, METADATA.key, b"later")
    assert store.backlog_bytes > 0
    assert not store.may_wait
    batch, _ = batch_of(driver)
    assert position in [part.position for part in batch.slices]
    write_batch(driver.disk, batch, True)
    assert store.on_completed(batch) >= position
    driver.turn()
    driver.crash()
    assert late == count // 2 + 1
    assert sequences(driver, B) == list(range(1, late + 1))
    assert sequences(driver, C) == [sequence for sequence in range(1, count // 2 + 2) if sequence != early]
    assert sequences(driver, A) == []


def test_a_destination_removed_between_two_slices_is_gone_with_what_the_unit_adds() -> None:
    driver, additions, removals = begun(MAX_SLICE_RECORDS)
    driver.store.append_gathered(gathered(additions, removals), [])
    assert driver.store.gather()
    driver.store.remove_destination(B)
    driver.store.remove_destination(A)
    driver.turn()
    driver.crash()
    assert [found.destination.name for found in driver.recovered] == ["C"]
    assert len(sequences(driver, C)) == MAX_SLICE_RECORDS // 2
    assert [count for _, count, *_ in driver.books() if count < 0] == []


def test_a_unit_that_is_too_large_is_refused() -> None:
    driver = JournalDriver()
    body = bytes(1 << 20)
    unit = gathered([(A, plain_message(A, 1, body))] * 1025, [])
    with pytest.raises(ResourceAllocationError, match="1025 MiB"):
        driver.store.append_gathered(unit, [])
    assert not driver.store.has_work


def test_a_full_disk_takes_no_additions_but_removals() -> None:
    driver, additions, removals = begun(5)
    driver.store.space_changed(0, False)
    with pytest.raises(ResourceAllocationError, match="disk"):
        driver.store.append_gathered(gathered(additions, removals), [])
    driver.store.append_gathered(gathered([], removals), [])
    driver.store.space_changed(SEGMENT, True)
    driver.turn()
    driver.crash()
    assert sequences(driver, A) == []


def test_removing_what_is_not_there_changes_nothing() -> None:
    driver, _, removals = begun(3)
    driver.store.append_gathered(gathered([], [*removals[1:], (A, 1 << 40), (Destination(QUEUE, "X"), 1)]), [])
    driver.turn()
    driver.crash()
    assert sequences(driver, A) == [1]


def test_what_a_unit_adds_may_be_removed_by_the_next_before_it_is_encoded() -> None:
    driver = JournalDriver(segment_bytes=SEGMENT)
    unit = gathered([(A, message) for message in messages_of(A, 600)], [])
    driver.store.append_gathered(unit, [])
    (line,) = unit.targets()
    removal = StoreUnit()
    removal.remove_all(A, list(range(line.first, line.first + line.count)))
    driver.store.append_gathered(removal, [])
    driver.turn()
    driver.crash()
    assert sequences(driver, A) == []


def moving(
    transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: int = 0, at_once: int = 1000
) -> StoreUnit:
    """A unit that moves messages, gathered some at a time."""
    unit = gathered([], removals, metadata)
    for transfer in transfers:
        moved = unit.transfer(transfer.source, transfer.target)
        for start in range(0, len(transfer.sequences), at_once):
            moved.add(transfer.sequences[start : start + at_once])
    return unit


def staged(count: int) -> tuple[JournalDriver, list[int]]:
    """A journal with messages of A, and their sequences."""
    driver, _, removals = begun(count)
    return driver, [sequence for _, sequence in removals]


def contents_of(driver: JournalDriver, destination: Destination, wanted: list[int]) -> list[bytes | None]:
    driver.store.fetch(1, destination, wanted)
    driver.answer_fetches()
    return [None if message is None else body_of(message) for message in driver.fetched.pop(1)]


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_gathered_transfers_are_what_transfers_are_on_the_disk(count: int) -> None:
    contents: list[dict[str, bytes]] = []
    books: list[object] = []
    for is_gathered in (False, True):
        driver, there = staged(3 * count)
        transfers = [
            Transfer(A, there[:count], B), Transfer(A, there[count : 2 * count : 2], C), Transfer(A, [], B),
            Transfer(A, there[2 * count : -1], B),
        ]  # fmt: skip
        if is_gathered:
            unit = moving(transfers, [(A, there[-1])], 5, 7)
            driver.store.append_gathered(unit, [])
            assert [moved.first for moved in unit.transfers] == [1, 1, 1 + count, 1 + count]
        else:
            driver.store.transfer_unit(transfers, [(A, there[-1])], facts_of(5))
        driver.turn()
        contents.append(driver.disk.contents())
        books.append(driver.books())
    assert contents[0] == contents[1]
    assert books[0] == books[1]


@pytest.mark.large
def test_each_turn_encodes_some_moved_messages_of_a_unit() -> None:
    count = 2 * MAX_SLICE_RECORDS + 5
    driver, there = staged(count + 1)
    driver.store.append_gathered(moving([Transfer(A, there[:-1], B)], [(A, there[-1])], count), [METADATA])
    backlog = driver.store.backlog_bytes
    batch, slices = batch_of(driver)
    assert slices == 5, "three transfers weigh more, and there are as many metadata records"
    assert batch.size == sum([len(part) for part in batch.parts]) <= backlog + BATCH_HEAD_SIZE
    driver.end_one(batch)
    assert driver.store.stored_position == driver.store.position()
    assert contents_of(driver, B, [1, count]) == [b"", bytes((0, 1, 7, 8, 40)[(count - 1) % 5])]
    most = MAX_SLICE_RECORDS - TRANSFER_WEIGHT
    firsts = [record.sequence for _, record in records(driver, TRANSFER)]
    assert firsts == [1, 1 + most, 1 + 2 * most]
    driver.crash()
    assert (sequences(driver, A), sequences(driver, B)) == ([], list(range(1, count + 1)))


def test_many_small_transfers_of_a_unit_take_as_many_slices_as_they_weigh() -> None:
    count = 1000
    driver, there = staged(count)
    unit = moving([Transfer(A, [sequence], (B, C)[sequence % 2]) for sequence in there], [])
    driver.store.append_gathered(unit, [])
    backlog = driver.store.backlog_bytes
    batch, slices = batch_of(driver)
    assert slices == count // (MAX_SLICE_RECORDS // (TRANSFER_WEIGHT + 1) + 1)
    assert batch.size <= backlog + BATCH_HEAD_SIZE
    driver.end_one(batch)
    driver.crash()
    assert [len(sequences(driver, destination)) for destination in (A, B, C)] == [0, count // 2, count // 2]


@pytest.mark.large
@pytest.mark.parametrize("slices", range(4))
def test_a_power_cut_between_two_slices_moves_nothing(slices: int) -> None:
    driver, there = staged(2 * MAX_SLICE_RECORDS)
    driver.store.append_gathered(moving([Transfer(A, there, B)], []), [METADATA])
    for _ in range(slices):
        assert driver.store.gather() or slices == 3
    driver.crash()
    assert (sequences(driver, A), sequences(driver, B), driver.metadata) == (there, [], {})


@pytest.mark.large
def test_a_write_cut_short_anywhere_moves_nothing() -> None:
    driver, there = staged(20)
    driver.store._outbox.slice_records = 3
    driver.store.append_gathered(moving([Transfer(A, there[::2], B), Transfer(A, there[1::2], C)], []), [METADATA])
    batch, slices = batch_of(driver)
    assert slices == 20, "each transfer is more than a slice"
    data = b"".join(batch.parts)
    for cut in range(0, len(data.rstrip(b"\0")), 5):
        disk = driver.disk.copy()
        disk.write(segment_name(batch.segment), batch.offset, [data[:cut]])
        again = JournalDriver(disk, SEGMENT)
        assert (sequences(again, A), sequences(again, B), again.metadata) == (there, [], {})
    driver.end_one(batch)
    driver.crash()
    assert (sequences(driver, A), len(sequences(driver, B)), len(sequences(driver, C))) == ([], 10, 10)


@pytest.mark.parametrize("is_gathered", [False, True])
def test_what_is_not_on_the_disk_yet_moves_with_a_unit(is_gathered: bool) -> None:
    driver = JournalDriver(segment_bytes=SEGMENT)
    messages = messages_of(A, 600)
    if is_gathered:
        driver.store.append_gathered(gathered([(A, message) for message in messages], []), [])
    else:
        for message in messages:
            driver.store.append(A, message)
    driver.store.append_gathered(moving([Transfer(A, list(range(1, 601)), B)], []), [])
    late = driver.store.append(A, plain_message(A, 1 << 20))
    driver.turn()
    assert contents_of(driver, A, [1, 600, late]) == [None, None, b""]
    for _ in range(2):
        assert contents_of(driver, B, [1, 2, 600]) == [b"", b"\0", bytes(40)]
        assert (driver.store.sizes(B, [0, 601]), driver.store.sizes(A, [600])) == ([0, 0], [0])
        driver.crash()
    assert sequences(driver, A) == [late]


def test_what_is_not_there_leaves_a_gap_in_a_gathered_transfer() -> None:
    driver, there = staged(3)
    driver.store.remove(A, there[1])
    transfers = [Transfer(Destination(QUEUE, "X"), [5, 6], B), Transfer(A, [*there, 50], B), Transfer(C, [1], B)]
    unit = moving(transfers, [])
    driver.store.append_gathered(unit, [])
    after = driver.store.append(B, plain_message(B, 9))
    driver.turn()
    assert ([moved.first for moved in unit.transfers], after) == ([1, 3, 7], 8)
    driver.crash()
    assert sequences(driver, B) == [3, 5, 8]


def test_a_full_disk_moves_nothing_with_a_unit() -> None:
    driver, there = staged(5)
    driver.store.space_changed(0, False)
    with pytest.raises(ResourceAllocationError, match="disk"):
        driver.store.append_gathered(moving([Transfer(A, there, B)], []), [])
    driver.store.space_changed(SEGMENT, True)
    driver.store.append_gathered(moving([Transfer(A, there, B)], []), [])
    driver.store.space_changed(0, False)
    driver.turn()
    driver.store.space_changed(SEGMENT, True)
    driver.turn()
    driver.crash()
    assert sequences(driver, B) == [1, 2, 3, 4, 5]


def test_a_destination_removed_between_two_slices_is_gone_with_what_the_unit_moves() -> None:
    driver, there = staged(2 * MAX_SLICE_RECORDS)
    driver.store.append_gathered(moving([Transfer(A, there[::2], B), Transfer(A, there[1::2], C)], []), [])
    assert driver.store.gather()
    driver.store.remove_destination(B)
    driver.turn()
    driver.crash()
    assert (sequences(driver, A), sequences(driver, B)) == ([], [])
    assert len(sequences(driver, C)) == MAX_SLICE_RECORDS
    assert [count for _, count, *_ in driver.books() if count < 0] == []
