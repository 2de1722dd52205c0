"""Portions of a replay: which messages a file has, and the slices of its record batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.replay_note import read_starts, read_targets, write_starts
from spanwire.pipeline.archive.replay_portions import LAST, SparkPortions, packed, slices, unpacked
from spanwire.pipeline.options import write_options


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], names=["n"])


@pytest.mark.parametrize(("first", "until"), [(0, 5), (1, 4), (2, 3), (0, 2), (3, 5), (4, 5)])
def test_a_range_of_messages_is_cut_out_of_all_record_batches(first: int, until: int) -> None:
    parts = slices([batch(0, 1), batch(2), batch(), batch(3, 4)], first, until)
    assert [number for part in parts for number in part.column(0).to_pylist()] == list(range(first, until))


def test_a_record_batch_comes_out_of_its_bytes_as_it_was() -> None:
    (carried,) = packed(iter([batch(1, 2)]))
    assert unpacked(carried.column(0)[0].as_py()).equals(batch(1, 2))


def test_a_batch_ends_where_its_file_does(tmp_path: Path) -> None:
    write_starts(tmp_path, [(0, "0-0"), (2000, "1-0"), (2003, "1-1")])
    portions = SparkPortions(None, tmp_path, write_options({}))
    assert [portions.end_of(number) for number in (0, 1999, 2000, 2002, 2003)] == [2000, 2000, 2003, 2003, LAST]


@pytest.mark.parametrize("text", ["", "{", "[1]", '[["a", "b"]]'])
def test_damaged_notes_are_named(tmp_path: Path, text: str) -> None:
    for name in ("portions.json", "targets.json"):
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=r"portions.json, which names the portions of the replay, is missing"):
        read_starts(tmp_path)
    if text in ("", "{"):
        with pytest.raises(ConfigurationError, match=r"targets.json, which names the destinations of the replay, is"):
            read_targets(tmp_path)
