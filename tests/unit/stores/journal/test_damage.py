"""Damage that no crash can have made is named with file and byte, and nothing is changed."""

from __future__ import annotations

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.summary import summary_name
from spanwire.stores.journal.segments import record, segment
from spanwire.stores.journal.segments.record import encode_header
from spanwire.stores.journal.segments.segment import (
    BATCH_HEAD_SIZE,
    SEGMENT_HEADER_SIZE,
    SegmentReader,
    encode_batch_head,
    segment_name,
    segment_seed,
)
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import STORE_ID, JournalDriver, recovered_state
from tests.support.plain_format import body_of, plain_message

A = Destination(QUEUE, "A")


def filled_disk(messages: int = 20, store_id: bytes = STORE_ID, summaries: bool = False) -> SimulatedDisk:
    """Some segments with messages that all live, after a crash; without summaries all of it is read."""
    driver = JournalDriver()
    if store_id != STORE_ID:
        driver.disk = SimulatedDisk()
        driver.store = open_journal(driver.disk, store_id, 4096).journal
    for number in range(messages):
        driver.store.append(A, plain_message(A, number, b"%d" % (number % 10) * 700))
        driver.turn()
    disk = driver.disk.copy()
    for name in disk.files():
        if name.endswith(".summary") and not summaries:
            disk.lose(name)
    return disk


def refusal(disk: SimulatedDisk) -> str:
    """What a start on this disk says; it must not change a byte."""
    before = disk.contents()
    with pytest.raises(StoreError) as caught:
        open_journal(disk, STORE_ID, 4096)
    assert disk.contents() == before
    text = str(caught.value)
    assert "\n" not in text
    return text


def state_or_refusal(disk: SimulatedDisk) -> dict[int, tuple[bytes, int]] | str:
    """The messages in A, or the text of the error."""
    try:
        return recovered_state(disk)["queue://A"]
    except StoreError as error:
        return str(error)


def test_any_flipped_bit_is_found_or_changes_nothing_but_the_last_write() -> None:
    disk = filled_disk(8)
    expected = recovered_state(disk.copy())["queue://A"]
    names = sorted(disk.files())
    found = tried = 0
    for name, data in disk.contents().items():
        end = len(data.rstrip(b"\0"))
        for offset in range(0, end, 7):
            tried += 1
            damaged = disk.copy()
            damaged.patch(name, offset, bytes([data[offset] ^ 1 << offset % 8]))
            state = state_or_refusal(damaged)
            if isinstance(state, str):
                found += name in state
                continue
            # padding, which no checksum covers, or the last batch, which looks like a torn one
            last = sorted(expected)[-1]
            assert state == expected or (
                name == names[-1] and state == {key: value for key, value in expected.items() if key != last}
            )
    assert found > tried * 0.8


def test_a_segment_cut_short_is_found() -> None:
    disk = filled_disk()
    first = segment_name(1)
    for size in (0, 10, 63, 64, 100, 1000, 2000, len(disk.contents()[first].rstrip(b"\0")) - 30):
        damaged = disk.copy()
        damaged.cut_off(first, size)
        assert first in refusal(damaged)


def test_a_page_of_zeros_in_the_middle_of_the_last_segment_is_found() -> None:
    disk = filled_disk(3)
    name = max(disk.files())
    damaged = disk.copy()
    damaged.patch(name, 512, bytes(1024))
    text = refusal(damaged)
    assert name in text
    assert "whole batches follow it" in text


def test_a_page_of_zeros_at_the_end_of_an_older_segment_is_found() -> None:
    disk = filled_disk()
    name = segment_name(1)
    data = disk.contents()[name]
    reader = SegmentReader(name, data, STORE_ID)
    starts = [reader.end]
    while reader.next_batch() is not None:
        starts.append(reader.end)
    for start in starts[1:-1]:  # whole batches are gone, what is left looks like a segment that was not full
        damaged = disk.copy()
        damaged.patch(name, start, bytes(len(data) - start))
        assert name in refusal(damaged)
    assert len(starts) > 3


def test_a_missing_segment_is_named() -> None:
    damaged = filled_disk()
    damaged.lose(segment_name(2))
    assert refusal(damaged).startswith("0000000002.journal is missing")


def test_s42_swapped_segments_are_found() -> None:
    disk = filled_disk()
    damaged = disk.copy()
    data = disk.contents()
    damaged.put(segment_name(1), data[segment_name(2)])
    damaged.put(segment_name(2), data[segment_name(1)])
    assert "swapped or renamed" in refusal(damaged)


def test_s42_blocks_swapped_between_segments_or_moved_inside_one_are_found() -> None:
    disk = filled_disk()
    data = disk.contents()
    damaged = disk.copy()
    damaged.patch(segment_name(1), 1024, data[segment_name(2)][1024:2048])
    assert segment_name(1) in refusal(damaged)
    damaged = disk.copy()
    damaged.patch(segment_name(1), 1024, data[segment_name(1)][2048:3072])
    assert segment_name(1) in refusal(damaged)


def test_s42_a_segment_of_another_store_is_found() -> None:
    disk = filled_disk()
    damaged = disk.copy()
    damaged.put(segment_name(1), filled_disk(store_id=b"some other store").contents()[segment_name(1)])
    assert "belongs to another store" in refusal(damaged)


def test_a_segment_of_another_store_is_found_also_when_its_summary_comes_with_it() -> None:
    damaged = filled_disk(summaries=True)
    others = filled_disk(store_id=b"some other store", summaries=True).contents()
    for name in (segment_name(1), summary_name(1)):
        assert len(others[name]) == len(damaged.contents()[name])
        damaged.put(name, others[name])
    assert f"{segment_name(1)} is damaged" in refusal(damaged)
    assert "belongs to another store" in refusal(damaged)


def test_s42_a_foreign_file_under_a_segments_name_is_found() -> None:
    damaged = filled_disk()
    damaged.put(segment_name(1), b"\x89PNG" + b"x" * 5000)
    assert refusal(damaged).startswith("0000000001.journal is not a journal segment")


def test_summaries_without_any_segment_begin_no_new_store() -> None:
    left = {"0000000003.summary": b"of a lost segment", "reserve": bytes(100)}
    disk = SimulatedDisk.holding(left)
    text = refusal(disk)
    assert text.startswith("0000000003.summary has no segment, and there is no other: nothing was changed, restore a")
    assert disk.contents() == left


def test_files_with_other_names_are_left_alone() -> None:
    disk = filled_disk()
    disk.put("notes.txt", b"mine")
    disk.put("1.journal", b"not padded, so no segment")
    open_journal(disk, STORE_ID, 4096)
    assert disk.contents()["notes.txt"] == b"mine"
    assert disk.contents()["1.journal"] == b"not padded, so no segment"


def test_a_newer_format_is_refused_in_one_line() -> None:
    damaged = filled_disk()
    damaged.patch(segment_name(2), 8, (segment.FORMAT_VERSION + 1).to_bytes(2, "little"))
    head = damaged.read(segment_name(2), 0, SEGMENT_HEADER_SIZE)
    damaged.patch(segment_name(2), 12, segment.header_sum(head).to_bytes(4, "little"))
    known = segment.FORMAT_VERSION
    text = refusal(damaged)
    assert f"has journal format {known + 1}, this build reads up to {known}: start a newer Spanwire" in text


def test_a_record_of_a_kind_that_only_a_newer_version_knows_is_refused() -> None:
    disk = filled_disk(1)
    name = max(disk.files())
    data = disk.contents()[name]
    seed = segment_seed(STORE_ID, int(name[:10]))
    end = (len(data.rstrip(b"\0")) + 7) & -8
    size = BATCH_HEAD_SIZE + record.HEADER_SIZE
    disk.patch(name, end, encode_batch_head(seed, end, 3, size))
    kind = record.LAST_KNOWN_KIND + 1
    disk.patch(name, end + BATCH_HEAD_SIZE, encode_header(seed, end + BATCH_HEAD_SIZE, kind, 0, 0, 0, 0, b""))
    text = refusal(disk)
    assert name in text
    assert f"kind {kind} at byte {end + BATCH_HEAD_SIZE}" in text


def test_a_message_that_quotes_a_segment_is_not_taken_for_one() -> None:
    quoted = filled_disk(2)
    driver = JournalDriver(filled_disk(2))
    for data in quoted.contents().values():
        driver.store.append(A, plain_message(A, 9, data))
    driver.turn()
    driver.store.append(A, plain_message(A, 10, b"last"))
    batch = driver.store.next_batch()
    assert batch is not None
    driver.disk.write(segment_name(batch.segment), batch.offset, [b"".join(batch.parts)[:50]])
    driver.disk = driver.disk.copy()
    recovered = JournalDriver(driver.disk)
    assert "incomplete write" in recovered.warnings[0]
    assert len(recovered.recovered[0].sequences) == 2 + len(quoted.contents())


def test_a_damaged_message_is_put_aside_when_it_is_read_back_and_the_others_go_on() -> None:
    driver = JournalDriver()
    sequence = driver.store.append(A, plain_message(A, 1, b"x" * 500))
    driver.turn()
    name = max(driver.disk.files())
    at = driver.disk.contents()[name].index(b"xxxx")
    driver.disk.patch(name, at + 100, b"y")
    driver.store.append(A, plain_message(A, 2, b"whole"))
    driver.turn()
    driver.store.fetch(1, A, [sequence, sequence + 1])
    driver.answer_fetches()
    assert driver.fetched[1][0] is None
    whole = driver.fetched[1][1]
    assert whole is not None
    assert body_of(whole) == b"whole"
    assert len(driver.damaged) == 1
    assert driver.damaged[0].startswith(f"{name} is damaged at byte ")
    assert f"message {sequence} of queue://A cannot be read, its checksum does not hold" in driver.damaged[0]
    assert "spanwire store repair" in driver.damaged[0]
