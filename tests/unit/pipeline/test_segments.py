from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.schema import COLUMNS
from spanwire.pipeline.arrow.segments import StagingDirectory, read_rows, row_count

SOURCE = {"destination": "queue://ORDERS", "selector": ""}


def batch(*ids: str) -> pa.RecordBatch:
    return pa.record_batch({"JMSMessageID": list(ids)})


def rows(path: Path, number: int, first: int, count: int) -> list[str]:
    return [row["JMSMessageID"] for part in read_rows(path, number, first, count) for row in part.to_pylist()]


def test_a_segment_is_read_in_any_range_over_its_batches(tmp_path: Path) -> None:
    directory = StagingDirectory(tmp_path, SOURCE)
    directory.write(3, [batch("a", "b"), batch("c"), batch("d", "e")])
    assert (directory.numbers(), row_count(tmp_path, 3), directory.ids(3)) == ([3], 5, set("abcde"))
    assert rows(tmp_path, 3, 0, 5) == list("abcde")
    assert rows(tmp_path, 3, 1, 3) == list("bcd")
    assert rows(tmp_path, 3, 2, 1) == ["c"]
    directory.close()


def test_columns_that_an_older_segment_does_not_have_are_null(tmp_path: Path) -> None:
    directory = StagingDirectory(tmp_path, SOURCE)
    directory.write(1, [batch("a")])
    directory.close()
    (part,) = read_rows(tmp_path, 1, 0, 1)
    (row,) = part.to_pylist()
    assert set(row) == {name for name, _ in COLUMNS}
    assert (row["JMSMessageID"], row["JMSActiveMQBrokerPath"]) == ("a", None)


def test_a_discarded_segment_is_gone_with_its_note(tmp_path: Path) -> None:
    directory = StagingDirectory(tmp_path, SOURCE)
    directory.write(1, [batch("a")])
    directory.settle(1)
    assert directory.is_settled(1)
    directory.discard(1)
    assert sorted(os.listdir(tmp_path)) == ["lock", "source.json"]
    with pytest.raises(ConfigurationError, match="segment 1 is not in the stagingDirectory"):
        row_count(tmp_path, 1)
    directory.close()


def test_nobody_else_may_read_the_messages(tmp_path: Path) -> None:
    directory = StagingDirectory(tmp_path / "staging", SOURCE)
    directory.write(1, [batch("a")])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "staging").iterdir()}
    assert modes["segment-0000000001.arrow"] == 0o600
    assert stat.S_IMODE((tmp_path / "staging").stat().st_mode) == 0o700
    directory.close()


def test_what_a_crash_left_half_done_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".segment-0000000009.tmp").write_bytes(b"half")
    (tmp_path / "segment-0000000004.settled").touch()
    directory = StagingDirectory(tmp_path, SOURCE)
    assert (directory.numbers(), sorted(os.listdir(tmp_path))) == ([], ["lock", "source.json"])
    directory.close()


def test_a_second_query_is_refused_by_name(tmp_path: Path) -> None:
    first = StagingDirectory(tmp_path, SOURCE)
    with pytest.raises(ConfigurationError, match=f"another query uses the stagingDirectory {tmp_path}"):
        StagingDirectory(tmp_path, SOURCE, lock_timeout_s=0.0)
    first.close()
    StagingDirectory(tmp_path, SOURCE).close()


def test_a_directory_that_becomes_free_is_waited_for(tmp_path: Path) -> None:
    first = StagingDirectory(tmp_path, SOURCE)
    closing = threading.Timer(0.2, first.close)
    closing.start()
    second = StagingDirectory(tmp_path, SOURCE)
    closing.join()
    second.close()


def test_a_directory_of_another_queue_is_refused(tmp_path: Path) -> None:
    StagingDirectory(tmp_path, SOURCE).close()
    with pytest.raises(ConfigurationError, match="holds messages of the destination 'queue://ORDERS', not 'queue://X'"):
        StagingDirectory(tmp_path, {**SOURCE, "destination": "queue://X"})
    StagingDirectory(tmp_path, SOURCE).close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"stagingDirectory .*/file/below: Not a directory"):
        StagingDirectory(tmp_path / "file/below", SOURCE)


def test_nothing_is_left_of_a_segment_that_was_not_finished(tmp_path: Path) -> None:
    directory = StagingDirectory(tmp_path, SOURCE)
    with pytest.raises(OSError, match="no space"), directory.segment(1) as segment:
        segment.add(batch("a"))
        raise OSError("no space")
    assert (directory.numbers(), sorted(os.listdir(tmp_path))) == ([], ["lock", "source.json"])
    directory.write(1, [batch("b")])
    assert rows(tmp_path, 1, 0, 5) == ["b"]
    directory.close()
