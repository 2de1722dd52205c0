"""Check and repair of stores whose brokers began with a lease: each start leaves out a number and seals a segment."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.segments.record import DESTINATION
from spanwire.stores.journal.segments.segment import SEGMENT_HEADER_SIZE, SegmentReader, segment_name
from spanwire.stores.offline.inspection import Inspection, inspect
from spanwire.stores.offline.repair import repair
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver, recovered_state
from tests.support.plain_format import plain_formats, plain_message

A: Final = Destination(QUEUE, "A")
B: Final = Destination(QUEUE, "B")
FIRST: Final = segment_name(2)
SECOND: Final = segment_name(4)
THIRD: Final = segment_name(6)


class LeaseDriver(JournalDriver):
    """A journal whose every start takes the store over."""

    def _open(self) -> None:
        self.store = open_journal(self.disk, b"a store for test", 1 << 16, takes_over=True).journal
        self.recovered = []


def run(disk: SimulatedDisk, number: int, queue: Destination) -> LeaseDriver:
    """One run with a lease that stores three messages from ``number`` on and ends in order."""
    driver = LeaseDriver(disk)
    for message in range(number, number + 3):
        driver.store.append(queue, plain_message(queue, message, b"%d" % message * 100))
        driver.turn()
    driver.store.note_clean_stop()
    driver.turn()
    return driver


def without_summaries(disk: SimulatedDisk) -> SimulatedDisk:
    """The disk with its segments alone."""
    for name in list(disk.files()):
        if name.endswith(".summary"):
            disk.delete(name)
    return disk.copy()


def sealed_disk() -> SimulatedDisk:
    """Three runs, and so three segments: the ends of two are recorded."""
    disk = SimulatedDisk()
    for number in (1, 4, 7):
        run(disk, number, A)
    disk = without_summaries(disk)
    assert sorted(disk.files()) == [FIRST, SECOND, THIRD]
    return disk


def late_batches() -> bytes:
    """What an old broker writes behind its seal: with a queue's number and a sequence of later runs."""
    driver = run(SimulatedDisk(), 1, A)
    end = batch_starts(driver.disk, FIRST)[-1]
    for queue in (B, A):
        driver.store.append(queue, plain_message(queue, 99, b"late"))
        driver.turn()
    return driver.disk.contents()[FIRST][end : batch_starts(driver.disk, FIRST)[-1]]


def batch_starts(disk: SimulatedDisk, name: str) -> list[int]:
    """The offsets of the batches of a segment, and its end."""
    reader = SegmentReader(name, disk.contents()[name], None)
    starts = [reader.end]
    while reader.next_batch() is not None:
        starts.append(reader.end)
    return starts


def looked_at(disk: SimulatedDisk) -> Inspection:
    return inspect(disk, plain_formats(), lambda what, done, total: None)


def repaired(disk: SimulatedDisk) -> tuple[SimulatedDisk, list[str]]:
    """The disk after a repair, and the findings before it."""
    found = looked_at(disk)
    assert found.salvage is not None and found.findings
    repair(disk, SimulatedDisk(), found.salvage)
    assert not looked_at(disk).findings
    return disk, [f"{finding.name}: {finding.text}" for finding in found.findings]


def test_the_late_batches_of_these_tests_would_be_read_without_a_seal() -> None:
    disk = run(SimulatedDisk(), 1, A).disk
    disk.write(FIRST, batch_starts(disk, FIRST)[-1], [late_batches()])
    state = recovered_state(disk)
    assert {name: sorted(messages) for name, messages in state.items()} == {"queue://A": [1, 2, 3, 4], "queue://B": [1]}


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_a_last_batch_of_zeros_in_front_of_a_seal_is_repaired(name: str) -> None:
    disk = sealed_disk()
    expected = recovered_state(disk.copy())
    start, end = batch_starts(disk, name)[-2:]
    disk.patch(name, start, bytes(end - start))
    after, texts = repaired(disk)
    assert texts == [f"{name}: {end - start} bytes are damaged"]
    assert recovered_state(after) == expected  # the batch said that the broker ended in order


@pytest.mark.parametrize("part", [1.0, 0.9, 0.5, 0.1])
def test_what_an_old_owner_wrote_behind_the_seal_is_no_damage(part: float) -> None:
    disk = sealed_disk()
    expected = recovered_state(disk.copy())
    late = late_batches()
    disk.write(FIRST, batch_starts(disk, FIRST)[-1], [late[: int(len(late) * part)]])
    found = looked_at(disk)
    assert (found.findings, found.warnings) == ([], [])
    assert recovered_state(disk) == expected


@pytest.mark.parametrize("part", [1.0, 0.5])
@pytest.mark.parametrize("damaged", [FIRST, SECOND, THIRD])
def test_a_repair_brings_nothing_back_from_behind_the_seal(part: float, damaged: str) -> None:
    disk = sealed_disk()
    expected = recovered_state(disk.copy())["queue://A"]
    late = late_batches()
    starts = batch_starts(disk, damaged)
    disk.write(FIRST, batch_starts(disk, FIRST)[-1], [late[: int(len(late) * part)]])
    disk.patch(damaged, starts[-3] + 100, b"!")  # the last message of that run
    lost = max(sequence for sequence in expected if sequence <= 3 * int(damaged[:10]) // 2)
    del expected[lost]
    after, _ = repaired(disk)
    assert recovered_state(after) == {"queue://A": expected}


def test_a_repair_that_removes_the_segment_with_the_seal_takes_no_late_bytes_along() -> None:
    disk = run(sealed_disk(), 10, A).disk
    disk = without_summaries(disk)
    expected = recovered_state(disk.copy())["queue://A"]
    disk.write(FIRST, batch_starts(disk, FIRST)[-1], [late_batches()])
    disk.patch(SECOND, SEGMENT_HEADER_SIZE, bytes(disk.files()[SECOND] - SEGMENT_HEADER_SIZE))
    disk.delete(THIRD)  # it would say that there was something in the second
    after, _ = repaired(disk)
    assert sorted(after.files())[0] == FIRST and SECOND not in after.files()
    kept = {sequence: message for sequence, message in expected.items() if not 4 <= sequence <= 9}
    assert recovered_state(after) == {"queue://A": kept}


def test_a_late_queue_gives_its_name_to_no_other() -> None:
    disk = SimulatedDisk()
    run(disk, 1, A)
    late, end = late_batches(), batch_starts(disk, FIRST)[-1]
    run(disk, 4, Destination(QUEUE, "C"))
    disk = without_summaries(disk)
    expected = recovered_state(disk.copy())
    reader = SegmentReader(SECOND, disk.contents()[SECOND], None)
    batch = reader.next_batch()
    while batch is not None:
        for record in batch:
            if record.kind == DESTINATION and reader.payload(record) == b"queue://C":
                disk.patch(SECOND, record.payload_start, b"!")
        batch = reader.next_batch()
    disk.write(FIRST, end, [late])
    after, _ = repaired(disk)
    assert list(recovered_state(after)) == list(expected) == ["queue://A", "queue://C"]


def test_a_header_that_seals_is_made_again_with_its_seal() -> None:
    disk = sealed_disk()
    expected = recovered_state(disk.copy())
    end = batch_starts(disk, FIRST)[-1]
    before = disk.contents()[SECOND][:SEGMENT_HEADER_SIZE]
    disk.patch(SECOND, 0, bytes(SEGMENT_HEADER_SIZE))
    after, texts = repaired(disk)
    assert texts == [f"{SECOND}: its header is damaged"]
    assert after.contents()[SECOND][:SEGMENT_HEADER_SIZE] == before
    after.write(FIRST, end, [late_batches()])
    assert recovered_state(after) == expected
