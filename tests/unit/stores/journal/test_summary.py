"""Summaries of segments: a start with them knows what a start without them would, and bad ones are passed over."""

from __future__ import annotations

import errno
from random import Random

import pytest

from spanwire.broker.metadata import MetadataRecord
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.recovery import Recovery, recover
from spanwire.stores.journal.recovery.summary import LEAST_SHARE, SUMMARY_HEADER_SIZE, summary_name, summary_number
from spanwire.stores.journal.segments.segment import segment_name
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import STORE_ID, JournalDriver
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")
B = Destination(QUEUE, "B")
BODY = b"x" * 600


class CountingDisk(SimulatedDisk):
    """Counts the bytes that are read of each file."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__()
        self.bytes_read: dict[str, int] = {}
        for name, data in disk.contents().items():
            self.put(name, data)

    def read(self, name: str, offset: int, length: int) -> bytes:
        data = super().read(name, offset, length)
        self.bytes_read[name] = self.bytes_read.get(name, 0) + len(data)
        return data


def worked_disk(seed: int = 1, calls: int = 150) -> SimulatedDisk:
    """A disk after all kinds of calls, and a crash."""
    random = Random(seed)
    driver = JournalDriver()
    store = driver.store
    for number in range(calls):
        destination = random.choice((A, A, B))
        choice = random.randrange(10)
        if choice < 6:
            sequence = store.append(destination, plain_message(destination, number, BODY))
            for _ in range(random.choice((0, 0, 5))):  # neighbours that look alike
                store.append(destination, plain_message(destination, number, BODY[:50]))
            if random.random() < 0.3:
                driver.turn()
                store.remove(destination, random.randrange(1, sequence + 1))
        elif choice == 6:
            store.note_redelivery(A, random.randrange(1, 20), number)
        elif choice == 7:
            store.put_metadata(random.randrange(1, 3), b"k%d" % random.randrange(5), b"v" * random.randrange(50))
        elif choice == 8:
            store.append_unit([(B, plain_message(B, number, BODY))], [(A, 2)], [MetadataRecord(1, b"k1", None)])
        else:
            store.append_shared([A, B], plain_message(A, number, BODY))
        if random.random() < 0.5:
            driver.turn()
    driver.turn()
    return driver.disk.copy()


def knowledge(recovery: Recovery) -> object:
    """All that a start learned."""
    owners = []
    for owner in recovery.index.by_number.values():
        places = [
            (sequence, owner.index.find(sequence), owner.index.length(sequence)) for sequence in owner.index.sequences()
        ]
        owners.append((owner.number, owner.destination, owner.high, places, dict(owner.notes)))
    segments = [
        (state.number, state.end, state.live, state.live_bytes, state.held_bytes, set(state.refers))
        for state in recovery.index.segments.by_number.values()
    ]
    found = [
        (each.destination, each.sequences, each.redeliveries, each.priorities, list(each.expirations.wall_ms))
        for each in recovery.destinations()
    ]
    return owners, found, segments, recovery.metadata(), recovery.last, recovery.last_end, recovery.clean


def without_summaries(disk: SimulatedDisk) -> SimulatedDisk:
    bare = disk.copy()
    for name in disk.files():
        if name.endswith(".summary"):
            bare.lose(name)
    return bare


def summaries(disk: SimulatedDisk) -> list[int]:
    return sorted(number for name in disk.files() if (number := summary_number(name)) > 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_start_with_summaries_learns_what_a_start_without_them_does(seed: int) -> None:
    disk = worked_disk(seed)
    assert len(summaries(disk)) > 3
    assert knowledge(recover(disk)) == knowledge(recover(without_summaries(disk)))


def test_a_start_after_a_crash_reads_the_newest_segment_alone() -> None:
    driver = JournalDriver()
    for number in range(60):
        driver.store.append(A, plain_message(A, number, BODY))
        driver.turn()
    disk = CountingDisk(driver.disk.copy())
    newest = driver.store.segment
    recover(disk)
    assert newest > 5
    for number in range(1, newest):
        assert disk.bytes_read[segment_name(number)] <= 80
        assert disk.bytes_read[summary_name(number)] < 1500
    assert disk.bytes_read[segment_name(newest)] >= 4096


def test_segments_that_had_to_be_read_get_their_summary() -> None:
    disk = without_summaries(worked_disk())
    expected = knowledge(recover(disk))
    before = [number for number in range(1, 100) if segment_name(number) in disk.files()]
    made = [summary.number for summary in recover(disk).summaries]
    assert len(made) >= len(before) - 1  # one is above a fourth of its segment
    assert summaries(disk) == []  # a look changes nothing
    open_journal(disk, STORE_ID, 4096)
    assert summaries(disk) == made
    again = CountingDisk(disk)
    recovery = recover(again)
    assert all(again.bytes_read[segment_name(number)] <= 80 for number in made)
    assert recovery.summaries[0].number > before[-1]  # only the segment of the start itself was read
    owners = knowledge(recovery)
    assert isinstance(owners, tuple) and isinstance(expected, tuple)
    assert [owner[3:] for owner in owners[0]] == [owner[3:] for owner in expected[0]]


@pytest.mark.parametrize("seed", range(3))
def test_any_flipped_bit_in_a_summary_makes_the_segment_itself_be_read(seed: int) -> None:
    disk = worked_disk(seed, 40)
    expected = knowledge(recover(disk))
    name = summary_name(summaries(disk)[0])
    data = disk.contents()[name]
    for offset in range(0, len(data), 5):
        damaged = CountingDisk(disk)
        damaged.patch(name, offset, bytes([data[offset] ^ 1 << offset % 8]))
        assert knowledge(recover(damaged)) == expected
        assert damaged.bytes_read[segment_name(summaries(disk)[0])] > 80  # more than its header


@pytest.mark.parametrize("size", [0, 1, SUMMARY_HEADER_SIZE - 1, SUMMARY_HEADER_SIZE, SUMMARY_HEADER_SIZE + 20])
def test_a_summary_that_was_not_written_whole_is_passed_over(size: int) -> None:
    disk = worked_disk()
    expected = knowledge(recover(disk))
    disk.cut_off(summary_name(summaries(disk)[0]), size)
    assert knowledge(recover(disk)) == expected


class UnreadableDisk(SimulatedDisk):
    """Nothing of a summary can be read."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        if summary_number(name) > 0:
            raise OSError(errno.EIO, "Input/output error", name)
        return super().read(name, offset, length)


def test_summaries_that_cannot_be_read_are_passed_over() -> None:
    disk = worked_disk()
    unreadable = UnreadableDisk.holding(disk.contents())
    assert len(summaries(unreadable)) > 3
    assert knowledge(recover(unreadable)) == knowledge(recover(disk))


def test_a_start_that_cannot_write_summaries_says_so_once() -> None:
    disk = without_summaries(worked_disk())
    disk.refuses = "summary"
    opened = open_journal(disk, STORE_ID, 4096)
    assert summaries(disk) == []
    assert [line for line in opened.recovery.warnings if "summary" in line] == [
        "0000000001.summary cannot be written: EIO; nothing is lost, the next start takes longer; look at the disk"
    ]


def test_summaries_that_were_swapped_or_come_from_another_store_are_passed_over() -> None:
    disk = worked_disk()
    expected = knowledge(recover(disk))
    first, second = (summary_name(number) for number in summaries(disk)[:2])
    swapped = disk.copy()
    swapped.put(first, disk.contents()[second])
    swapped.put(second, disk.contents()[first])
    assert knowledge(recover(swapped)) == expected
    other = JournalDriver()
    other.disk = SimulatedDisk()
    other.store = open_journal(other.disk, b"some other store", 4096).journal
    for number in range(20):
        other.store.append(A, plain_message(A, number, BODY))
        other.turn()
    foreign = disk.copy()
    foreign.put(summary_name(1), other.disk.contents()[summary_name(1)])
    if segment_name(1) in disk.files():
        assert knowledge(recover(foreign)) == expected


def test_a_segment_that_is_shorter_than_its_summary_says_is_named() -> None:
    disk = worked_disk()
    number = summaries(disk)[0]
    disk.cut_off(segment_name(number), 2000)
    with pytest.raises(StoreError, match=segment_name(number)):
        recover(disk)


def test_a_segment_of_another_store_is_named_in_spite_of_a_good_summary() -> None:
    disk = worked_disk()
    number = summaries(disk)[0]
    header = bytearray(disk.contents()[segment_name(number)][:64])
    header[20] ^= 1
    disk.patch(segment_name(number), 0, bytes(header))
    with pytest.raises(StoreError, match=segment_name(number)):
        recover(disk)


def test_a_summary_goes_with_its_segment() -> None:
    driver = JournalDriver()
    for number in range(30):
        driver.store.append(A, plain_message(A, number, BODY))
        driver.turn()
    assert summaries(driver.disk)[0] == 1
    for sequence in range(1, 31):
        driver.store.remove(A, sequence)
        driver.turn()
    assert segment_name(1) not in driver.disk.files()
    assert summary_name(1) not in driver.disk.files()


def test_summaries_that_a_crash_left_behind_are_deleted_and_other_files_are_not() -> None:
    disk = worked_disk()
    number = summaries(disk)[0]
    disk.put(summary_name(999), disk.contents()[summary_name(number)])
    disk.put("summary.new", b"half")
    disk.put("1.summary", b"not padded, so none")
    open_journal(disk, STORE_ID, 4096)
    assert {summary_name(999), "summary.new"}.isdisjoint(disk.files())
    assert "1.summary" in disk.files()


def test_a_summary_that_would_be_nearly_as_large_as_its_segment_is_not_made() -> None:
    driver = JournalDriver()
    for number in range(2000):
        driver.store.put_metadata(1, b"k%d" % (number % 3), b"v" * 40)
        driver.turn()
    assert driver.store.segment > 20
    assert summaries(driver.disk) == []
    assert 1 / LEAST_SHARE < 0.5


def test_a_summary_that_a_power_cut_tore_costs_nothing() -> None:
    for seed in range(30):
        random = Random(seed)
        driver = JournalDriver()
        kept: list[int] = []
        for number in range(40):
            kept.append(driver.store.append(A, plain_message(A, number, BODY)))
            driver.turn()
        driver.crash(random)
        assert list(driver.recovered[0].sequences) == kept
        driver.crash(random)
        assert list(driver.recovered[0].sequences) == kept


@pytest.mark.parametrize("seed", range(5))
def test_the_used_bytes_are_those_of_the_files(seed: int) -> None:
    driver = JournalDriver(without_summaries(worked_disk(seed)))
    for _ in range(3):
        assert driver.store.used_bytes() == sum(driver.disk.files().values())
        for number in range(40):
            driver.store.append(A, plain_message(A, number, BODY))
            driver.turn()
            driver.store.remove(A, 1 + number)
        driver.turn()
        assert driver.store.used_bytes() == sum(driver.disk.files().values())
        driver.reopen()
