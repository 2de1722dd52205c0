"""Export and import: what goes out comes in again, and what does not fit is refused with its line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.metadata import (
    BRIDGES,
    CURSORS,
    DRAINS,
    LEDGER_LINKS,
    MOVES,
    NETWORK_CONNECTORS,
    NETWORK_MEMBERS,
    SCHEDULES,
    STAGED_BATCHES,
    XA_BRANCHES,
    MetadataRecord,
)
from spanwire.broker.scheduler.schedule import stored_form
from spanwire.model.destination import QUEUE, SCHEDULE, SUBSCRIPTION, Destination
from spanwire.model.errors import RemoteProtocolError, SpanwireError, StoreError
from spanwire.model.message import Message
from spanwire.stores.offline.contents import StoreContents
from spanwire.stores.offline.exporting import export_store
from spanwire.stores.offline.importing import ImportReader, fill, import_store
from spanwire.stores.offline.inspection import TABLES
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import FORMAT_PLAIN, PlainFormat, plain_formats, plain_message

A: Final = Destination(QUEUE, "A")
LINES: Final = (A, Destination(QUEUE, "Ü.1"), Destination(SUBSCRIPTION, "client:name"))

Contents = dict[str, list[tuple[int, int, int, bytes]]]


def contents(disk: SimulatedDisk) -> tuple[Contents, dict[int, dict[bytes, bytes]]]:
    """Sequence, redelivery count, format and bytes of every message, and all metadata records."""
    store = StoreContents(disk)
    lines = {
        line.destination.qualified_name: [
            (stored.sequence, line.redeliveries.get(stored.sequence, 0), stored.format_id, stored.raw)
            for stored in store.read(line)
        ]
        for line in store.destinations
    }
    return lines, {table: metadata for table, metadata in store.metadata.items() if metadata}


class StrictFormat(PlainFormat):
    """Says of every broken message that it is none, as the formats of the protocols do."""

    def index(self, raw: bytes) -> Message:
        try:
            return super().index(raw)
        except (SpanwireError, ValueError) as error:
            raise RemoteProtocolError("this is no plain message") from error


def exported(disk: SimulatedDisk, pattern: Destination | None = None) -> bytes:
    output = io.BytesIO()
    export_store(disk, plain_formats(), output, pattern, lambda what, done, total: None)
    return output.getvalue()


def imported(data: bytes, disk: SimulatedDisk | None = None) -> SimulatedDisk:
    disk = SimulatedDisk() if disk is None else disk
    reader = ImportReader(io.BytesIO(data), "export", plain_formats())
    fill(disk, reader, lambda offset: None, segment_bytes=4096)
    return disk


def refused(data: bytes, tmp_path: Path) -> str:
    """The text of the refusal; nothing may be made."""
    source = tmp_path / "export"
    source.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        import_store(tmp_path / "journal", source, plain_formats(), lambda what, done, total: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export"]
    return str(caught.value)


def filled() -> SimulatedDisk:
    """Three messages with a hole, one redelivered, and a metadata record."""
    driver = JournalDriver()
    for number in range(4):
        driver.store.append(A, plain_message(A, number, b"x" * number))
    driver.store.remove(A, 2)
    driver.turn()
    driver.store.note_redelivery(A, 3, 2)
    driver.store.put_metadata(1, b"key", b"\0value")
    driver.turn()
    return driver.disk.copy()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(0, 3000)),
        st.tuples(st.just("remove"), st.integers(0, 2), st.integers(1, 20)),
        st.tuples(st.just("note"), st.integers(0, 2), st.integers(1, 20)),
        st.tuples(st.just("fact"), st.integers(1, 7), st.integers(0, 300)),
        st.tuples(st.just("end"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("turn"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(steps)
def test_an_exported_store_comes_in_again_as_it_was(done: list[tuple[str, int, int]]) -> None:
    driver = JournalDriver()
    for number, (what, place, value) in enumerate(done):
        store = driver.store
        if what == "append":
            store.append(LINES[place], plain_message(A, number, bytes([number]) * value))
        elif what == "remove":
            store.remove(LINES[place], value)
        elif what == "note":
            store.note_redelivery(LINES[place], value, number + 1)
        elif what == "fact":
            store.put_metadata(place, b"key%d" % (value % 5), bytes(value))
        elif what == "end":
            store.remove_destination(LINES[place])
        else:
            driver.turn()
    driver.turn()
    data = exported(driver.disk)
    again = imported(data)
    assert contents(again) == contents(driver.disk)
    assert exported(again).split(b"\n")[1:] == data.split(b"\n")[1:]  # but for the id of the store


def test_scheduled_messages_keep_the_numbers_of_their_jobs() -> None:
    driver = JournalDriver()
    line = Destination(SCHEDULE, "jobs")
    for number in (7, 3, 9):
        message = stored_form(plain_message(A, number, b"x"), number)
        driver.store.append_unit([(line, message)], [], [MetadataRecord(SCHEDULES, str(number).encode(), b"{}")])
    driver.store.remove(line, 2)
    driver.turn()
    for disk in (driver.disk, imported(exported(driver.disk))):
        (found,) = [entry for entry in StoreContents(disk).destinations if entry.destination == line]
        assert list(zip(found.expirations.sequences, found.expirations.wall_ms, strict=True)) == [(1, 7), (3, 9)]
        assert list(found.sequences) == [1, 3]


def test_scheduled_messages_are_not_imported_where_there_are_some_already(tmp_path: Path) -> None:
    driver = JournalDriver()
    driver.store.append_unit([], [], [MetadataRecord(SCHEDULES, b"1", b"{}")])
    driver.turn()
    source = tmp_path / "export"
    source.write_bytes(exported(driver.disk))
    place = tmp_path / "journal"
    import_store(place, source, plain_formats(), lambda what, done, total: None)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(StoreError, match="both hold scheduled messages"):
        import_store(place, source, plain_formats(), lambda what, done, total: None)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (XA_BRANCHES, "prepared transactions"),
        (CURSORS, "cursors or staged batches"),
        (STAGED_BATCHES, "cursors or staged batches"),
    ],
)
def test_what_names_messages_by_their_numbers_is_imported_into_a_new_store_only(
    tmp_path: Path, table: int, what: str
) -> None:
    driver = JournalDriver()
    driver.store.append_unit([], [], [MetadataRecord(table, b"x", b"{}")])
    driver.turn()
    source = tmp_path / "export"
    source.write_bytes(exported(driver.disk))
    place = tmp_path / "journal"
    import_store(place, source, plain_formats(), lambda what, done, total: None)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(StoreError, match=f"holds {what}"):
        import_store(place, source, plain_formats(), lambda what, done, total: None)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


@pytest.mark.parametrize("table", [MOVES, LEDGER_LINKS, DRAINS, NETWORK_CONNECTORS, NETWORK_MEMBERS, BRIDGES])
def test_tasks_and_links_stay_those_of_a_store_that_has_messages(table: int) -> None:
    driver = JournalDriver()
    driver.store.put_metadata(table, b"\1", b"there")
    driver.turn()
    data = exported(driver.disk.copy())
    driver = JournalDriver()
    driver.store.append(A, plain_message(A, 1))
    driver.store.put_metadata(table, b"\1", b"here")
    driver.turn()
    assert contents(imported(data, driver.disk.copy()))[1] == {table: {b"\1": b"here"}}


def test_the_format_is_what_the_documentation_says() -> None:
    lines: list[dict[str, Any]] = [json.loads(line) for line in exported(filled()).splitlines()]
    assert lines[0].keys() == {"spanwire-store-export", "store"}
    assert lines[0]["spanwire-store-export"] == 1
    assert lines[1] == {"destination": "queue://A", "messages": 3}
    assert [line["sequence"] for line in lines[2:5]] == [1, 3, 4]
    assert [line["redelivery_count"] for line in lines[2:5]] == [0, 2, 0]
    assert lines[2].keys() == {"sequence", "priority", "expiration", "redelivery_count", "format", "bytes"}
    assert lines[5] == {"table": 1, "key": "a2V5", "value": "AHZhbHVl"}
    assert lines[6] == {"end": 1, "messages": 3, "facts": 1}


def test_a_pattern_chooses_destinations_and_leaves_the_facts() -> None:
    driver = JournalDriver()
    for name in ("A.B", "A.C.D", "B"):
        driver.store.append(Destination(QUEUE, name), plain_message(A, 1))
    driver.store.put_metadata(1, b"key", b"value")
    driver.turn()
    lines = exported(driver.disk, Destination(QUEUE, "A.>")).splitlines()
    names = [json.loads(line)["destination"] for line in lines if b"destination" in line]
    assert names == ["queue://A.B", "queue://A.C.D"]
    assert json.loads(lines[-1]) == {"end": 2, "messages": 2, "facts": 0}


def test_behind_what_a_store_holds_the_order_stays() -> None:
    disk = filled()
    before, _ = contents(disk)
    after, metadata = contents(imported(exported(disk), disk))
    assert [message[3] for message in after["queue://A"]] == [message[3] for message in before["queue://A"]] * 2
    assert after["queue://A"][:3] == before["queue://A"]
    sequences = [message[0] for message in after["queue://A"]]
    assert sequences == sorted(set(sequences))
    assert metadata == {1: {b"key": b"\0value"}}


@pytest.mark.parametrize(
    ("number", "change", "told"),
    [
        (0, {"spanwire-store-export": 2}, "line 1: the export has version 2"),
        (1, {"destination": "nowhere://A"}, "line 2: the journal holds a destination of unknown kind"),
        (1, {"destination": "queue://"}, "line 2: the destination has an empty name"),
        (1, {"messages": 4}, "line 6: 1 messages of queue://A are missing"),
        (1, {"messages": 2}, "line 5: no destination announced this message"),
        (2, {"sequence": 3}, "line 4: sequence is no whole number from 4"),
        (2, {"sequence": True}, "line 3: sequence is no whole number"),
        (2, {"format": 9}, "line 3: the message cannot be read: message format 9 is unknown"),
        (2, {"bytes": "AAAA"}, "line 3: the message cannot be read"),
        (2, {"bytes": "not base64!"}, "line 3: bytes is no base64"),
        (2, {"priority": 9}, "line 3: priority or expiration are not those of the message"),
        (2, {"redelivery_count": -1}, "line 3: redelivery_count is no whole number"),
        (5, {"table": 0}, "line 6: table is no whole number from 1"),
        (
            5,
            {"table": 99},
            f"line 6: the metadata record is of table 99, this build reads up to {max(TABLES)}: use a newer",
        ),
        (5, {"key": "A" * 2000}, "line 6: the key of a metadata record has"),
        (6, {"messages": 2}, "line 7: the counts do not fit"),
    ],
)
def test_a_line_that_does_not_fit_is_named(number: int, change: dict[str, Any], told: str, tmp_path: Path) -> None:
    lines = exported(filled()).splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **change}).encode()
    text = refused(b"\n".join(lines) + b"\n", tmp_path)
    assert told in text
    assert text.endswith("nothing was stored")
    assert "\n" not in text


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    data = exported(filled())
    for length in range(len(data)):
        text = refused(data[:length], tmp_path)
        assert text.endswith("nothing was stored")
        assert "\n" not in text


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    assert refused(b"", tmp_path).endswith("export: the file is empty; nothing was stored")


def test_something_behind_the_end_is_refused(tmp_path: Path) -> None:
    assert "line 8: something follows" in refused(exported(filled()) + b"{}\n", tmp_path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for data in (b"PK\x03\x04\xff\xff\n", b"[1]\n", b"{}\n", b"[" * 100_000 + b"\n"):
        assert "line " in refused(data, tmp_path)


@given(st.binary(max_size=200), st.integers(0, 2000))
def test_damaged_exports_are_refused_or_hold_the_same(rubbish: bytes, place: int) -> None:
    data = exported(filled())
    place %= len(data)
    damaged = data[:place] + rubbish + data[place + len(rubbish) :]
    try:
        found = list(
            ImportReader(io.BytesIO(damaged), "export", MessageFormats({FORMAT_PLAIN: StrictFormat()})).items()
        )
    except StoreError:
        return
    assert len(found) == 5


def test_a_new_store_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    source = tmp_path / "export"
    source.write_bytes(exported(filled()))
    (tmp_path / "journal.importing").mkdir()
    (tmp_path / "journal.importing" / "0000000001.journal").write_bytes(b"an import that was cut off")
    done = import_store(tmp_path / "journal", source, plain_formats(), lambda what, done, total: None)
    assert done == (3, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export", "journal"]
