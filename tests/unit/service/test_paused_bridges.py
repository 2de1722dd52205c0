"""The names of paused bridges on the disk: read in each format, and refused from a newer Spanwire."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.service.children.paused_bridges import FILE_NAME, FORMAT, PausedBridges


@pytest.mark.parametrize("record", ['{"paused": ["a", "b"]}', '{"format": 1, "paused": ["a", "b"]}'])
def test_names_of_format_1_are_read_with_and_without_its_number(record: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(record, "utf-8")
    paused = PausedBridges(tmp_path)
    paused.read()
    assert paused.names == {"a", "b"}
    paused.change(["a"], False)
    assert json.loads((tmp_path / FILE_NAME).read_text("utf-8")) == {"format": FORMAT, "paused": ["b"]}


def test_names_of_a_newer_spanwire_are_refused_in_one_line_and_left_alone(tmp_path: Path) -> None:
    text = json.dumps({"format": FORMAT + 1, "paused": {"a": "until Monday"}})
    (tmp_path / FILE_NAME).write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as refused:
        PausedBridges(tmp_path).read()
    assert str(refused.value) == (
        f"{tmp_path / FILE_NAME} has the format 2 of a newer Spanwire, and this one reads 1: start the newer one, or "
        "move the file away; then no bridge stays paused"
    )
    assert (tmp_path / FILE_NAME).read_text("utf-8") == text


@pytest.mark.parametrize("content", ["[1]", '{"paused": 1}', '{"paused": ["a", 1]}', '{"format": "1", "paused": []}'])
def test_a_damaged_file_is_refused_in_one_line_and_left_alone(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(content, "utf-8")
    with pytest.raises(ConfigurationError) as refused:
        PausedBridges(tmp_path).read()
    assert str(refused.value) == (
        f"{tmp_path / FILE_NAME} cannot be read: it is damaged; restore it, or move it away; then no bridge stays "
        "paused"
    )
    assert (tmp_path / FILE_NAME).read_text("utf-8") == content


def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    paused = PausedBridges(tmp_path)
    paused.change(["a", "b"], True)
    whole = (tmp_path / FILE_NAME).read_bytes()
    for length in range(len(whole)):
        (tmp_path / FILE_NAME).write_bytes(whole[:length])
        with pytest.raises(ConfigurationError, match="it is damaged"):
            PausedBridges(tmp_path).read()
