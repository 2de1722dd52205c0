"""What can be saved of damaged stores: every record that is whole, nothing that was never stored, and a clean store.

SPANWIRE_DAMAGED sets how many are tried (600 unless told, half of them by the interpreted build),
SPANWIRE_FIRST_DAMAGED where they begin.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from random import Random
from typing import Final, cast

import pytest

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.patches import READ_UNIT
from spanwire.stores.journal.segments.record import (
    BODY,
    CHECKPOINT,
    DESTINATION,
    EXPIRES,
    HEADER_SIZE,
    MESSAGE,
    METADATA,
    MOVED,
    MOVED_BODY,
    REFERENCE,
    REMOVAL,
    TRANSFER,
    Record,
    encode_header,
    expiration_size,
)
from spanwire.stores.journal.segments.segment import BATCH_HEAD_SIZE, SEGMENT_HEADER_SIZE, SegmentReader, segment_number
from spanwire.stores.journal.segments.transfers import decode_transfer
from spanwire.stores.offline.contents import StoreContents
from spanwire.stores.offline.inspection import Inspection, inspect
from spanwire.stores.offline.repair import finish, is_interrupted, repair
from tests.simulation.damage import Damage, Sample, foreign_files
from tests.simulation.disk import PowerCutError, SimulatedDisk
from tests.support.journal_driver import JournalDriver, State, recovered_state
from tests.support.plain_format import plain_formats, plain_message
from tests.support.seeds import SHORT

DAMAGED: Final = int(os.environ.get("SPANWIRE_DAMAGED", "300" if SHORT else "600"))
FIRST: Final = int(os.environ.get("SPANWIRE_FIRST_DAMAGED", "0"))
SAMPLES: Final = 12
REPLAY: Final = (
    "SPANWIRE_FIRST_DAMAGED={0} SPANWIRE_DAMAGED=1 python -m pytest tests/unit/stores/offline/test_salvage.py"
)
A: Final = Destination(QUEUE, "A")
LINES: Final = (A, Destination(QUEUE, "B.C"), Destination(SUBSCRIPTION, "client:name"))


def looked_at(disk: SimulatedDisk) -> Inspection:
    """Looks and changes nothing."""
    before = disk.contents()
    found = inspect(disk, plain_formats(), lambda what, done, total: None)
    assert disk.contents() == before
    return found


def repaired(disk: SimulatedDisk) -> tuple[SimulatedDisk, SimulatedDisk, Inspection]:
    """The disk after a repair, the quarantine, and what was found before."""
    found = looked_at(disk)
    disk = disk.copy()
    quarantine = SimulatedDisk()
    if found.findings:
        assert found.salvage is not None
        repair(disk, quarantine, found.salvage)
    return disk, quarantine, found


def records_of(files: dict[str, bytes]) -> list[tuple[str, Record, bytes]]:
    """Every record of undamaged segments, with its payload."""
    found: list[tuple[str, Record, bytes]] = []
    for name, data in sorted(files.items()):
        if segment_number(name) > 0:
            reader = SegmentReader(name, data, None)
            batch = reader.next_batch()
            while batch is not None:
                found += [(name, record, reader.payload(record)) for record in batch]
                batch = reader.next_batch()
    return found


class MixedSample:
    """A store with shared bodies, metadata records, redelivery counts, and messages that were moved; as `Sample`."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        driver = JournalDriver()
        live: list[tuple[Destination, int]] = []
        for number in range(1, 260):
            message = plain_message(A, number, b"%d" % (number % 10) * random.choice((10, 200, 900)))
            lines = random.sample(LINES, random.choice((1, 1, 2, 3)))
            live += zip(lines, driver.store.append_shared(lines, message), strict=True)
            if number % 3 == 0:
                driver.store.put_metadata(random.randrange(1, 8), b"%d" % (number % 9), bytes(random.randrange(200)))
            if number % 7 == 0:
                driver.store.note_redelivery(*live[random.randrange(len(live))], 1 + number % 4)
            while len(live) > 12:
                driver.store.remove(*live.pop(random.randrange(len(live)) if number % 20 else 0))
            driver.turn()
        if seed % 2 == 0:
            driver.store.note_clean_stop()
            driver.turn()
        self.clean: Final = seed % 2 == 0
        self.files: Final = driver.disk.contents()
        self.newest: Final = max(name for name in self.files if name.endswith(".journal"))
        self.foreign: Final = foreign_files(seed)


@cache
def sample(number: int) -> Sample:
    if number % 3 == 0:
        return cast(Sample, MixedSample(number))
    return Sample(number, clean=number % 2 == 0)


@cache
def kept_by(number: int) -> tuple[State, dict[int, dict[bytes, bytes]]]:
    """The messages and metadata records that a start on the undamaged sample finds."""
    return found_on(SimulatedDisk.holding(sample(number).files))


def found_on(disk: SimulatedDisk) -> tuple[State, dict[int, dict[bytes, bytes]]]:
    """All messages and metadata records."""
    metadata = {table: kept for table, kept in StoreContents(disk).metadata.items() if kept}
    return recovered_state(disk), metadata


class Place:
    """Where a message lay last: file, its record or body, the reference to that, and what made it a message of the
    line.
    """

    def __init__(self, name: str, record: Record, reference: Record | None, transfers: tuple[Place, ...] = ()) -> None:
        self.name: Final = name
        self.record: Final = record
        self.reference: Final = reference
        self.transfers: Final = transfers
        self.parts: Final = [(part.offset, part.end) for part in (record, reference) if part is not None]

    def passed(self, name: str, transfer: Record) -> Place:
        """The same message in the line to which ``transfer`` gives it."""
        return Place(self.name, self.record, self.reference, (*self.transfers, Place(name, transfer, None)))

    def is_whole(self, files: dict[str, bytes], damaged: Damage) -> bool:
        """Whether any file has all its bytes at their place."""
        original = files[self.name]
        return any(
            all(data[start:end] == original[start:end] for start, end in self.parts) for data in damaged.files.values()
        ) and all(transfer.is_whole(files, damaged) for transfer in self.transfers)


@cache
def history(number: int) -> dict[tuple[str, int], tuple[bytes, Place]]:
    """All messages that stand in the sample's files, live or not, by line and sequence."""
    found: dict[tuple[str, int], tuple[bytes, Place]] = {}
    names: dict[int, str] = {}
    body: tuple[Record, bytes] | None = None
    for name, record, payload in records_of(sample(number).files):
        raw = payload[expiration_size(record.flags & EXPIRES) :]
        if record.kind == DESTINATION:
            names[record.destination] = payload.decode()
        elif record.kind in (BODY, MOVED_BODY):
            body = (record, raw)
        elif record.kind in (MESSAGE, MOVED):
            found[names[record.destination], record.sequence] = (raw, Place(name, record, None))
        elif record.kind == REFERENCE:
            assert body is not None
            found[names[record.destination], record.sequence] = (body[1], Place(name, body[0], record))
        elif record.kind == TRANSFER:
            runs = decode_transfer(payload)
            assert runs is not None
            new = record.sequence
            for first, count in zip(runs.firsts, runs.counts, strict=True):
                for old in range(first, first + count):
                    if (names[runs.source], old) in found:
                        message, place = found[names[runs.source], old]
                        found[names[record.destination], new] = (message, place.passed(name, record))
                    new += 1
    return found


def saved_rightly(number: int, damage: Damage) -> str:
    """Repairs one damaged store; raises AssertionError when too little is saved or too much."""
    files = sample(number).files
    messages = history(number)
    try:
        disk, quarantine, found = repaired(SimulatedDisk.holding(damage.files))
    except StoreError as error:
        if "restore a backup" in str(error) and "\n" not in str(error):
            return "unreadable"
        raise
    for name, data in quarantine.contents().items():
        assert damage.files[name] == data
    for name, data in damage.files.items():
        assert name in quarantine.contents() or disk.contents()[name] == data
    assert not looked_at(disk).findings
    saved, metadata = found_on(disk)
    for line, kept in saved.items():
        for sequence, (raw, _) in kept.items():
            told = line if (line, sequence) in messages else line.removeprefix("queue://")  # the name is a message's
            known = messages.get((told, sequence))
            assert "another store" in damage.text or (known is not None and known[0] == raw), (line, sequence)
    for line, kept in kept_by(number)[0].items():
        for sequence, (raw, _) in kept.items():
            place = messages[line, sequence][1]
            whole = place.is_whole(files, damage)
            is_saved = saved.get(line, {}).get(sequence, (b"", 0))[0] == raw
            assert is_saved or not whole or damage.shortens, f"message {sequence} of {line} was not saved"
    again = JournalDriver(disk.copy())
    again.reopen()  # a start that reads the summaries which the one before has made
    assert (again.state(), {table: kept for table, kept in again.metadata.items() if kept}) == (saved, metadata)
    same = (saved, metadata) == kept_by(number)
    assert same or found.has_loss or damage.shortens, "something is lost and nobody was told"
    return "repaired" if found.findings else "harmless"


@pytest.mark.timeout(120 + DAMAGED // 20)
@pytest.mark.large
def test_all_whole_records_of_damaged_stores_are_saved_and_nothing_else() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + DAMAGED):
        damage = Damage(sample(seed % SAMPLES), Random(seed))
        try:
            outcomes[saved_rightly(seed % SAMPLES, damage)] += 1
        except Exception as error:
            raise AssertionError(f"{damage.text}: {error}\nreplay: {REPLAY.format(seed)}") from error
    print(dict(outcomes))
    if DAMAGED >= 300:
        assert outcomes["repaired"] > DAMAGED // 2
        assert outcomes["harmless"] > DAMAGED // 50
        assert outcomes["unreadable"] < DAMAGED // 20


def filled_disk(messages: int = 12) -> SimulatedDisk:
    """Three or four segments with messages that all live, stopped in order."""
    driver = JournalDriver()
    for number in range(messages):
        driver.store.append(A, plain_message(A, number, b"%d" % (number % 10) * 700))
        driver.turn()
    driver.store.note_clean_stop()
    driver.turn()
    return driver.disk.copy()


def segments(disk: SimulatedDisk) -> list[str]:
    """The files of the segments in their order."""
    return sorted(name for name in disk.files() if segment_number(name) > 0)


def first_record(disk: SimulatedDisk, kind: int, number: int = 0) -> tuple[str, Record]:
    """The ``number``-th record of a kind and its file."""
    found = [(name, record) for name, record, _ in records_of(disk.contents()) if record.kind == kind]
    return found[number]


def test_a_clean_store_has_no_damage_and_a_report() -> None:
    found = looked_at(filled_disk())
    assert not found.findings
    assert [(line.name, line.messages, line.lost) for line in found.destinations] == [("queue://A", 12, 0)]
    assert 12 * 700 < found.live_bytes < found.used_bytes


def test_a_damaged_message_is_named_and_all_others_are_saved() -> None:
    disk = filled_disk()
    name, record = first_record(disk, MESSAGE, 3)
    disk.patch(name, record.payload_start + 100, b"!")
    before = recovered_state(filled_disk())["queue://A"]
    after, quarantine, found = repaired(disk)
    texts = [finding.line() for finding in found.findings]
    assert texts == [
        f"{name} at byte {record.offset}: a record's checksum does not hold: message {record.sequence} of queue://A"
    ]
    assert found.has_loss
    assert [line.lost for line in found.destinations] == [1]
    del before[record.sequence]
    assert recovered_state(after)["queue://A"] == before
    assert quarantine.contents()[name] == disk.contents()[name]


def test_a_lost_removal_brings_the_message_back() -> None:
    driver = JournalDriver()
    for number in range(3):
        driver.store.append(A, plain_message(A, number))
    driver.turn()
    driver.store.remove(A, 2)
    driver.turn()
    driver.store.append(A, plain_message(A, 9))
    driver.turn()
    disk = driver.disk.copy()
    name, record = first_record(disk, REMOVAL)
    disk.patch(name, record.offset + 1, b"\xff")
    after, _, found = repaired(disk)
    assert found.has_loss
    assert sorted(recovered_state(after)["queue://A"]) == [1, 2, 3, 4]


def test_the_head_of_a_batch_is_made_again_and_nothing_is_lost() -> None:
    disk = filled_disk()
    name, record = first_record(disk, MESSAGE, 3)
    expected = recovered_state(disk.copy())
    disk.patch(name, record.offset - BATCH_HEAD_SIZE, b"\0" * BATCH_HEAD_SIZE)
    after, _, found = repaired(disk)
    assert [finding.offset for finding in found.findings] == [record.offset - BATCH_HEAD_SIZE]
    assert recovered_state(after) == expected


def test_the_header_of_a_segment_is_made_again() -> None:
    disk = filled_disk()
    expected = recovered_state(disk.copy())
    name = segments(disk)[1]
    disk.patch(name, 0, bytes(SEGMENT_HEADER_SIZE))
    after, _, found = repaired(disk)
    assert [(finding.name, finding.text) for finding in found.findings] == [(name, "its header is damaged")]
    assert not found.has_loss
    assert recovered_state(after) == expected


def test_a_segment_whose_heads_are_all_gone_is_read_to_its_last_byte() -> None:
    driver = JournalDriver()
    driver.store.append(A, plain_message(A, 1, b"x"))
    driver.turn()
    for number in range(2, 5):
        driver.store.append(A, plain_message(A, number, b"x" * 901))
    driver.turn()
    driver.crash()
    disk = driver.disk.copy()
    expected = recovered_state(disk.copy())
    name, record = first_record(disk, MESSAGE, 1)
    disk.patch(name, record.offset - BATCH_HEAD_SIZE, bytes(BATCH_HEAD_SIZE))
    following = segments(disk)[segments(disk).index(name) + 1]
    disk.patch(following, 0, bytes(SEGMENT_HEADER_SIZE))  # else it would tell where the damaged one ends
    after, _, _ = repaired(disk)
    assert recovered_state(after) == expected


def test_a_store_without_any_header_is_read_by_its_records() -> None:
    disk = filled_disk()
    expected = recovered_state(disk.copy())
    for name in segments(disk):
        disk.patch(name, 0, bytes(SEGMENT_HEADER_SIZE))
    after, _, found = repaired(disk)
    assert len(found.findings) == len(segments(disk))
    assert recovered_state(after) == expected


def test_the_first_page_of_the_only_segment_costs_what_was_in_it() -> None:
    driver = JournalDriver(segment_bytes=65536)
    for number in range(9):
        driver.store.append(A, plain_message(A, number, b"x" * 200))
        driver.turn()
    disk = driver.disk.copy()
    lost = [record.sequence for _, record, _ in records_of(disk.contents()) if record.offset < 512]
    disk.patch(segments(disk)[0], 0, bytes(512))
    after, _, found = repaired(disk)
    assert found.has_loss
    assert sorted(recovered_state(after)["queue://A"]) == [number for number in range(1, 10) if number not in lost]


def test_swapped_files_get_their_own_names_back() -> None:
    disk = filled_disk()
    expected = recovered_state(disk.copy())
    one, other = segments(disk)[:2]
    contents = disk.contents()
    disk.put(one, contents[other])
    disk.put(other, contents[one])
    after, _, found = repaired(disk)
    assert not found.has_loss
    assert recovered_state(after) == expected
    assert after.contents()[one] == contents[one]
    assert after.contents()[other] == contents[other]


def test_a_missing_segment_costs_its_messages_alone() -> None:
    disk = filled_disk()
    name, _ = first_record(disk, MESSAGE, 4)
    gone = {
        record.sequence for place, record, _ in records_of(disk.contents()) if place == name if record.kind == MESSAGE
    }
    expected = recovered_state(disk.copy())["queue://A"]
    disk.lose(name)
    after, _, found = repaired(disk)
    assert f"{name}: it is missing" in [finding.line() for finding in found.findings]
    state = recovered_state(after)["queue://A"]
    assert state == {sequence: kept for sequence, kept in expected.items() if sequence not in gone}
    assert gone


def test_the_name_of_a_queue_is_learnt_from_its_messages() -> None:
    disk = filled_disk(2)
    expected = recovered_state(disk.copy())
    name, record = first_record(disk, DESTINATION)
    disk.patch(name, record.payload_start, b"?")
    after, _, _ = repaired(disk)
    assert recovered_state(after) == expected


def test_a_lost_check_point_is_made_anew() -> None:
    disk = filled_disk()
    expected = recovered_state(disk.copy())
    name, record = [(name, record) for name, record, _ in records_of(disk.contents()) if record.kind == CHECKPOINT][-1]
    disk.patch(name, record.payload_start, b"\xff" * 8)
    after, _, found = repaired(disk)
    assert any("check-point" in finding.text for finding in found.findings)
    assert recovered_state(after) == expected


def test_sequences_of_what_was_lost_are_not_given_out_again() -> None:
    disk = filled_disk()
    name, record = first_record(disk, MESSAGE, 11)
    disk.patch(name, record.payload_start + 50, b"??")
    after, _, _ = repaired(disk)
    driver = JournalDriver(after)
    assert driver.store.append(A, plain_message(A, 99)) > record.sequence


def shared_disk() -> SimulatedDisk:
    """Two messages, each in three lines."""
    driver = JournalDriver()
    for number in range(2):
        driver.store.append_shared(list(LINES), plain_message(A, number, b"%d" % number * 50))
        driver.turn()
    return driver.disk.copy()


def test_a_lost_body_takes_its_references_along_and_no_other_message_gets_them() -> None:
    disk = shared_disk()
    expected = recovered_state(disk.copy())
    name, record = first_record(disk, BODY, 1)
    disk.patch(name, record.payload_start + 60, b"?")
    after, _, found = repaired(disk)
    assert [line.lost for line in found.destinations] == [1, 1, 1]
    assert recovered_state(after) == {line: {1: kept[1]} for line, kept in expected.items()}


def test_a_lost_reference_costs_one_line_its_message() -> None:
    disk = shared_disk()
    expected = recovered_state(disk.copy())
    name, record = first_record(disk, REFERENCE, 3)
    disk.patch(name, record.offset + 1, b"?")
    after, _, _ = repaired(disk)
    del expected["queue://A"][2]
    assert recovered_state(after) == expected


def test_a_shared_body_that_nobody_can_read_is_put_aside_for_all_its_lines() -> None:
    disk = shared_disk()
    name, record = first_record(disk, BODY, 1)
    reader = SegmentReader(name, disk.contents()[name], None)
    broken = b"PLAIM" + reader.payload(record)[5:]
    disk.put(name, resealed(disk.contents()[name], reader.header.seed, record, broken))
    after, _, found = repaired(disk)
    assert len(found.findings) == 3
    assert {line: sorted(kept) for line, kept in recovered_state(after).items()} == {
        line.qualified_name: [1] for line in LINES
    }


def test_a_lost_fact_is_told_and_all_others_stay() -> None:
    driver = JournalDriver()
    driver.store.append(A, plain_message(A, 1))
    for number in range(3):
        driver.store.put_metadata(1, b"key%d" % number, b"value")
    driver.turn()
    disk = driver.disk.copy()
    name, record = first_record(disk, METADATA, 1)
    disk.patch(name, record.payload_start, b"?")
    after, _, found = repaired(disk)
    assert found.has_loss
    assert "a metadata record" in found.findings[0].text
    assert StoreContents(after).metadata == {1: {b"key0": b"value", b"key2": b"value"}}


def test_a_message_that_nobody_can_read_is_put_aside() -> None:
    driver = JournalDriver()
    for number in range(3):
        driver.store.append(A, plain_message(A, number))
    driver.turn()
    disk = driver.disk.copy()
    contents = disk.contents()
    name, record = first_record(disk, MESSAGE, 1)
    reader = SegmentReader(name, contents[name], None)
    broken = b"PLAIM" + reader.payload(record)[5:]
    data = contents[name]
    disk.put(name, resealed(data, reader.header.seed, record, broken))
    after, _, found = repaired(disk)
    assert "message 2 of queue://A cannot be read" in found.findings[0].text
    assert sorted(recovered_state(after)["queue://A"]) == [1, 3]


def test_of_many_patches_a_read_looks_at_those_of_its_page_alone() -> None:
    driver = JournalDriver(segment_bytes=1 << 20)
    unit = [(A, plain_message(A, number)) for number in range(2000)]
    driver.store.append_unit(unit, [], [])
    driver.turn()
    found = inspect(driver.disk, MessageFormats({}), lambda what, done, total: None)
    assert len(found.findings) == 2000
    assert found.salvage is not None
    file = max(found.salvage.patched.values(), key=lambda patched: len(patched.patches))
    assert len(file.patches) == 2000
    looked_at = sum(len(file.indices_in(offset, HEADER_SIZE)) for offset, _ in file.patches)
    assert looked_at < 2000 * 2 * (READ_UNIT // HEADER_SIZE)
    contents = driver.disk.contents()[file.source]
    whole = file.read(driver.disk, 0, len(contents))
    pages = [file.read(driver.disk, offset, 1000) for offset in range(0, len(contents), 1000)]
    assert whole == b"".join(pages)
    assert whole != contents


def resealed(data: bytes, seed: int, record: Record, payload: bytes) -> bytes:
    """The segment with another payload in a record, under a checksum that holds."""
    header = encode_header(
        seed, record.offset, record.kind, record.flags, record.format_id, record.destination, record.sequence, payload
    )
    end = record.offset + HEADER_SIZE + len(payload)
    return data[: record.offset] + header + payload + data[end:]


def test_a_store_of_a_newer_version_is_refused_and_stays_as_it_is() -> None:
    disk = filled_disk()
    for name in disk.files():
        disk.patch(name, 8, (99).to_bytes(2, "little"))
    before = disk.contents()
    with pytest.raises(StoreError, match="start a newer Spanwire"):
        looked_at(disk)
    assert disk.contents() == before


def test_a_store_that_a_broker_takes_during_the_repair_stays_as_it_is() -> None:
    disk = filled_disk()
    name, record = first_record(disk, MESSAGE, 2)
    disk.patch(name, record.payload_start, b"???")
    before = disk.contents()
    salvage = looked_at(disk).salvage
    assert salvage is not None

    def taken() -> None:
        raise StoreError("taken")

    with pytest.raises(StoreError, match="taken"):
        repair(disk, SimulatedDisk(), salvage, taken)
    assert not is_interrupted(disk)
    assert {each: data for each, data in disk.contents().items() if each in before} == before


def test_a_segment_under_a_name_with_umlauts_gets_its_own_name_again() -> None:
    disk = filled_disk()
    expected = recovered_state(filled_disk())
    name = segments(disk)[1]
    files = disk.contents()
    files["für mich.summary"] = files.pop(name)
    after, quarantine, _ = repaired(SimulatedDisk.holding(files))
    assert recovered_state(after.copy()) == expected
    assert "für mich.summary" in quarantine.contents()
    assert "für mich.summary" not in after.contents()


@pytest.mark.large
def test_a_repair_that_is_cut_off_anywhere_leaves_the_old_store_or_ends_later() -> None:
    disk = filled_disk()
    expected = recovered_state(filled_disk())["queue://A"]
    for number in (2, 7):
        name, record = first_record(filled_disk(), MESSAGE, number)
        disk.patch(name, record.payload_start, b"???")
        del expected[record.sequence]
    disk.put(segments(disk)[1].replace("journal", "summary"), b"old")
    disk.patch(segments(disk)[-2], 0, bytes(8))
    before = disk.contents()
    outcomes: Counter[str] = Counter()
    for seed in range(300):
        random = Random(seed)
        victim = SimulatedDisk.holding(before)
        salvage = looked_at(victim).salvage
        assert salvage is not None
        victim.cut_at = seed % 60
        try:
            repair(victim, SimulatedDisk(), salvage)
            outcomes["done"] += 1
            after = victim.copy()
        except PowerCutError:
            after = victim.power_cut(random)
            if is_interrupted(after):
                outcomes["half"] += 1
                with pytest.raises(StoreError, match="a repair was interrupted"):
                    recovered_state(after.copy())
            elif {name: data for name, data in after.contents().items() if name in before} == before:
                outcomes["as it was"] += 1
            else:
                outcomes["ended"] += 1
                assert not looked_at(after).findings
            was_interrupted = is_interrupted(after)
            assert finish(after) is was_interrupted
            again, _, _ = repaired(after)
            after = again
        assert recovered_state(after)["queue://A"] == expected
        assert not looked_at(after).findings
    assert min(outcomes["done"], outcomes["as it was"], outcomes["half"]) > 5, outcomes
