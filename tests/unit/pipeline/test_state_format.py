"""Checkpoints of every released format are read, and those of a newer Spanwire refused."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from struct import Struct
from typing import cast

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.replay_note import NOTE, ReplayNote, read_note, read_starts, read_targets
from spanwire.pipeline.arrow.segments import StagingDirectory, read_rows, row_count
from spanwire.pipeline.routes.batch_rows import COLUMNS, BatchRows, kept_columns, rows_name
from spanwire.pipeline.routes.delivery import step_key
from spanwire.pipeline.routes.route_state import RouteState, open_state
from spanwire.pipeline.source.offsets import CURSOR, NUMBER, SEGMENT, number_of, segment_of, segments_between
from spanwire.pipeline.storage.state_format import FORMAT, KEY
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.tar_archives import unpack
from tests.vectors.checkpoints.make import several_route

CHECKPOINTS = Path(__file__).resolve().parents[2] / "vectors/checkpoints"
ROUTE = b'[{route: {id: kept, from: {uri: "activemq:queue:KEPT", steps: [{to: "activemq:queue:KEPT.OUT"}]}}}]'
NEWER = {KEY: FORMAT + 1}
VARIANT = Struct("<xd")  # a double of Spark's type VARIANT, behind its header


def restored(number: int, folder: Path, part: str = "") -> Path:
    with tarfile.open(CHECKPOINTS / f"format-{number}{part}.tar.xz") as archive:
        unpack(archive, folder)
    return folder


def offsets_of(checkpoint: Path, batch: int) -> dict[str, object]:
    """The offset of the source in a file of Spark's: version, metadata, one line for each source."""
    found: dict[str, object] = json.loads((checkpoint / f"offsets/{batch}").read_text("utf-8").splitlines()[2])
    return found


def test_there_is_a_checkpoint_of_each_format() -> None:
    formats = range(1, FORMAT + 1)
    names = [f"format-{number}{part}.tar.xz" for number in formats for part in ("-several", "")]
    assert sorted(path.name for path in CHECKPOINTS.glob("*.xz")) == names


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_a_checkpoint_of_each_format_is_read(number: int, tmp_path: Path) -> None:
    (route,) = read_routes(ROUTE, "kept.yaml", Placeholders({}, {})).routes
    state = open_state(restored(number, tmp_path), route)
    checkpoint, staging = Path(state.checkpoint), Path(state.staging)
    query = json.loads((checkpoint / "metadata").read_text("utf-8"))["id"]
    ids = json.loads((CHECKPOINTS / f"format-{number}.json").read_text("utf-8"))
    assert all(identifier.startswith(f"{query}/") for identifier in ids.values())
    (segment,) = segments_between(offsets_of(checkpoint, 0), offsets_of(checkpoint, 1))
    directory = StagingDirectory(staging, {"destination": "queue://KEPT", "selector": ""})
    assert segment in directory.numbers() and directory.is_settled(segment)
    directory.close()
    rows = [row for part in read_rows(staging, segment, 0, row_count(staging, segment)) for row in part.to_pylist()]
    assert [row["text"] for row in rows] == [f"kept {n}" for n in range(5, 10)]


def several(number: int, folder: Path) -> tuple[RouteState, str, Path]:
    """The state of the route with several endpoints, its query, and the kept rows of its second batch."""
    (route,) = several_route("tcp://127.0.0.1:9", "/files").routes
    state = open_state(restored(number, folder, "-several"), route)
    query = json.loads((Path(state.checkpoint) / "metadata").read_text("utf-8"))["id"]
    return state, query, state.batches / f"{query}-0000000001" / rows_name([step_key(0, route.steps[0])])


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_the_rows_and_ledgers_of_a_batch_of_each_format_are_found_again(number: int, tmp_path: Path) -> None:
    state, query, rows = several(number, tmp_path)
    dice = json.loads((CHECKPOINTS / f"format-{number}-several.json").read_text("utf-8"))
    columns = kept_columns(rows)
    assert columns.names[:3] == ["JMSMessageID", "JMSDestination", "JMSTimestamp"]
    table = pq.read_table(rows, columns=["text", "properties"])
    assert table.num_rows == len(dice)
    found = dict(zip(table.column("text").to_pylist(), map(dict, table.column("properties").to_pylist()), strict=True))
    assert {text: VARIANT.unpack(properties["dice"]["value"])[0] for text, properties in found.items()} == dice
    ledgers = json.loads(state.ledgers.read_text("utf-8"))
    assert [state.first_batch(ledger, 7) for ledger in ledgers] == [0, 0]
    assert state.run_of(query) == json.loads(state.note.read_text("utf-8"))["run"]


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_the_rows_and_ledgers_of_a_newer_spanwire_are_refused_with_the_state(number: int, tmp_path: Path) -> None:
    state, _, _ = several(number, tmp_path)
    state.note.write_text(json.dumps({**json.loads(state.note.read_text("utf-8")), **NEWER}), "utf-8")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (route,) = several_route("tcp://127.0.0.1:9", "/files").routes
    with pytest.raises(ConfigurationError, match=r"the state of the route in .*/several has the format '2' of a newer"):
        open_state(tmp_path, route)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_columns_of_kept_rows_that_were_cut_off_anywhere_are_refused_in_one_line(tmp_path: Path) -> None:
    state, query, rows = several(FORMAT, tmp_path)
    kept = BatchRows(cast(SparkSession, None), state.batches, query, 1)
    good = kept_columns(rows)
    assert kept.columns(rows, good) == good
    octets = (rows / COLUMNS).read_bytes()
    for length in range(0, len(octets), 7):
        (rows / COLUMNS).write_bytes(octets[:length])
        with pytest.raises(ConfigurationError, match="is damaged; it has rows of batch 1 that some endpoints may have"):
            kept.columns(rows, good)
    for wrong in (b'"x"', b"[1]", b'{"fields": 3}', b'{"fields": [{"name": "a", "type": "strange"}]}', b"[" * 100_000):
        (rows / COLUMNS).write_bytes(wrong)
        with pytest.raises(ConfigurationError, match="is damaged"):
            kept.columns(rows, good)


def test_a_staged_segment_that_was_cut_off_anywhere_is_refused_in_one_line(tmp_path: Path) -> None:
    staging = restored(FORMAT, tmp_path) / "kept/staging"
    path = staging / "segment-0000000002.arrow"
    octets = path.read_bytes()
    assert sum(part.num_rows for part in read_rows(staging, 2, 0, 5)) == row_count(staging, 2) == 5
    for length in range(0, len(octets), 11):
        path.write_bytes(octets[:length])
        for read in (lambda: row_count(staging, 2), lambda: list(read_rows(staging, 2, 0, 5))):
            with pytest.raises(
                ConfigurationError, match=r"segment-0000000002.arrow is damaged. It holds messages that"
            ):
                read()


def test_offsets_of_today_are_read() -> None:
    assert segment_of(json.loads('{"segment": 12}')) == 12
    assert number_of(json.loads('{"cursor": "nightly", "number": 7}'), "nightly") == 7


def test_what_a_newer_spanwire_has_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the checkpoint has the format '2' of a newer Spanwire"):
        segment_of({SEGMENT: 1, **NEWER})
    with pytest.raises(ConfigurationError, match="of a newer Spanwire"):
        number_of({CURSOR: "c", NUMBER: 1, **NEWER}, "c")
    (route,) = read_routes(ROUTE, "kept.yaml", Placeholders({}, {})).routes
    note = tmp_path / "kept/route.json"
    open_state(tmp_path, route)
    assert json.loads(note.read_text("utf-8"))[KEY] == FORMAT
    for fields in (json.loads(note.read_text("utf-8")), {"source": ["another", "form"]}):
        note.write_text(json.dumps({**fields, **NEWER}), "utf-8")
        with pytest.raises(ConfigurationError, match=r"state of the route in .*/kept has the format '2' of a newer"):
            open_state(tmp_path, route)
    source = {"destination": "queue://KEPT", "selector": ""}
    StagingDirectory(tmp_path / "staging", source).close()
    note = tmp_path / "staging/source.json"
    assert json.loads(note.read_text("utf-8")) == {KEY: FORMAT, **source}
    note.write_text(json.dumps({**source, **NEWER}), "utf-8")
    with pytest.raises(ConfigurationError, match=r"the stagingDirectory .* has the format '2' of a newer"):
        StagingDirectory(tmp_path / "staging", source)


@pytest.mark.parametrize("version", ["2", 0, -1, 1.0, True, None])
def test_a_format_that_is_no_number_is_called_damaged(version: object) -> None:
    with pytest.raises(ConfigurationError, match=r"the checkpoint is damaged, because '.*' is no format"):
        segment_of({SEGMENT: 1, KEY: version})


@pytest.mark.parametrize("number", range(1, FORMAT + 1))
def test_the_note_of_a_replay_of_each_format_is_read(number: int) -> None:
    state = CHECKPOINTS / f"replay-format-{number}"
    note = read_note(state / NOTE)
    assert note is not None
    assert (note.run, note.total, note.sent, note.until, note.batch) == ("0123456789ab", 2_500, 1_000, 2_000, 1)
    assert note.choice == {"archive": "/archive", "where": "n > 7", "destination": "queue://AGAIN"}
    assert (read_targets(state), read_starts(state)) == (["queue://AGAIN"], [(0, "0"), (2_000, "1")])


def test_the_note_of_a_replay_of_a_newer_spanwire_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / NOTE
    ReplayNote(path, {}, "run", 1).save()
    fields = json.loads(path.read_text("utf-8"))
    assert fields[KEY] == FORMAT
    path.write_text(json.dumps({**fields, **NEWER}), "utf-8")
    with pytest.raises(ConfigurationError) as refused:
        read_note(path)
    assert "\n" not in str(refused.value)
    assert f"the replay in {tmp_path} has the format '{FORMAT + 1}' of a newer Spanwire" in str(refused.value)
