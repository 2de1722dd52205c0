from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.pipeline.routes.batch_rows import BatchRows, unstorable_column

QUERY = "7d1c"
WAY = ("set n to sql rand()",)


class Frame:
    """Rows of a step that gives others each time."""

    def __init__(self, *numbers: int, schema: StructType | None = None) -> None:
        self.schema = StructType([StructField("n", LongType())]) if schema is None else schema
        self.numbers = numbers
        self.tries = 0

    @property
    def write(self) -> Frame:
        return self

    def format(self, name: str) -> Frame:
        assert name == "noop"
        return self

    def mode(self, _: str) -> Frame:
        return self

    def save(self) -> None:
        self.tries += 1


class Session:
    """Reads files as Spark does, in lists."""

    @property
    def read(self) -> Session:
        return self

    def schema(self, _: StructType) -> Session:
        return self

    def parquet(self, path: str) -> list[int]:
        plain = path.removeprefix("file:").replace("\\", "")
        return [int(str(n)) for n in pq.read_table(plain)["n"].to_pylist()]


def write(frame: DataFrame, path: Path) -> int:
    rows = cast(Frame, frame)
    rows.save()
    path.mkdir()
    pq.write_table(pa.table({"n": rows.numbers}), path / "part-0.parquet")
    return len(rows.numbers)


def rows_of(home: Path, batch: int, query: str = QUERY) -> BatchRows:
    found = BatchRows(cast(SparkSession, Session()), home, query, batch, write)
    found.sweep()
    return found


def kept(rows: BatchRows, frame: Frame, way: tuple[str, ...] = WAY, memory: Frame | None = None) -> list[int]:
    return cast(list[int], rows.keep(cast(DataFrame, frame), way, cast(DataFrame | None, memory)))


def test_another_try_of_a_batch_gets_the_rows_of_the_first_and_takes_no_steps(tmp_path: Path) -> None:
    home, again = tmp_path / "odd [name]", Frame(3, 4)
    assert kept(rows_of(home, 5), Frame(1, 2)) == [1, 2]
    assert kept(rows_of(home, 5), again) == [1, 2]
    assert again.tries == 0


def test_steps_with_a_memory_run_again_for_its_sake(tmp_path: Path) -> None:
    first, memory = Frame(1, 2), Frame(1, 2)
    kept(rows_of(tmp_path, 5), first, memory=memory)
    assert (first.tries, memory.tries) == (1, 0)
    again = Frame(3, 4)
    assert kept(rows_of(tmp_path, 5), again, memory=memory) == [1, 2]
    assert (again.tries, memory.tries) == (0, 1)


def test_rows_behind_other_steps_and_of_another_checkpoint_are_other_rows(tmp_path: Path) -> None:
    kept(rows_of(tmp_path, 5), Frame(1))
    assert kept(rows_of(tmp_path, 5), Frame(2), ("changed",)) == [2]
    assert kept(rows_of(tmp_path, 5, "new"), Frame(3)) == [3]


def test_the_next_batch_removes_what_is_committed_and_what_a_crash_left(tmp_path: Path) -> None:
    kept(rows_of(tmp_path, 5), Frame(1))
    kept(rows_of(tmp_path, 6), Frame(2))
    (directory,) = tmp_path.iterdir()
    (directory / "half.0.tmp").mkdir()
    (directory / "half.0.tmp" / "part-0.parquet").write_bytes(b"PAR")
    assert kept(rows_of(tmp_path, 6), Frame(3)) == [2]
    assert [path.name.endswith(".tmp") for path in directory.iterdir()] == [False]


def test_a_batch_before_the_one_at_hand_is_refused(tmp_path: Path) -> None:
    kept(rows_of(tmp_path, 6), Frame(1))
    with pytest.raises(ConfigurationError, match="rows of a later batch than 5, which Spark begins"):
        rows_of(tmp_path, 5)
    assert kept(rows_of(tmp_path, 6), Frame(2)) == [1]


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    def fill(_: DataFrame, path: Path) -> int:
        path.mkdir()
        (path / "part-0.parquet").write_bytes(b"PAR")
        raise PySparkException("Job aborted.\n\tat x\nCaused by: java.io.IOException: No space left on device\n\tat y")

    rows = BatchRows(cast(SparkSession, Session()), tmp_path, QUERY, 5, fill)
    with pytest.raises(SpanwireError) as caught:
        kept(rows, Frame(1))
    assert str(caught.value) == (f"spanwire: the rows of batch 5 cannot be kept in {tmp_path}: No space left on device")
    assert not isinstance(caught.value, ConfigurationError)  # there may be room at the next start
    assert kept(rows_of(tmp_path, 5), Frame(2)) == [2]


def test_what_a_step_says_is_told_as_it_is(tmp_path: Path) -> None:
    def fail(_: DataFrame, path: Path) -> int:
        raise PySparkException("spanwire: routes.yaml:7: clean.normalise: ValueError: odd")

    with pytest.raises(PySparkException, match=r"^spanwire: routes\.yaml:7: clean"):
        kept(BatchRows(cast(SparkSession, Session()), tmp_path, QUERY, 5, fail), Frame(1))


def test_rows_that_executors_wrote_elsewhere_are_missed(tmp_path: Path) -> None:
    def elsewhere(frame: DataFrame, path: Path) -> int:
        return write(frame, path) + 1

    with pytest.raises(ConfigurationError, match=r"not all rows of batch 5 are in .* all executors must share"):
        kept(BatchRows(cast(SparkSession, Session()), tmp_path, QUERY, 5, elsewhere), Frame(1))


def test_of_two_runs_the_first_one_decides(tmp_path: Path) -> None:
    def late(frame: DataFrame, path: Path) -> int:
        kept(rows_of(tmp_path / "batches", 5), Frame(1))
        path.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": cast(Frame, frame).numbers}), path / "part-0.parquet")
        return 1

    slow = BatchRows(cast(SparkSession, Session()), tmp_path / "batches", QUERY, 5, late)
    assert kept(slow, Frame(2)) == [1]


def columns(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def test_kept_rows_with_other_columns_than_the_steps_give_now_are_refused(tmp_path: Path) -> None:
    kept(rows_of(tmp_path, 5), Frame(1))
    more, others = columns(n=LongType(), v=StringType()), columns(n=StringType())
    with pytest.raises(ConfigurationError, match=r"were kept with other columns .* now \(v string\): set the table"):
        kept(rows_of(tmp_path, 5), Frame(1, schema=more))
    with pytest.raises(ConfigurationError, match=r"now \(n bigint, n string\).* or delete that directory") as caught:
        kept(rows_of(tmp_path, 5), Frame(1, schema=others))
    assert "\n" not in str(caught.value)
    never_null = StructType([StructField("n", LongType(), nullable=False)])
    assert kept(rows_of(tmp_path, 5), Frame(2, schema=never_null)) == [1]


def test_kept_rows_that_do_not_tell_their_columns_are_damaged(tmp_path: Path) -> None:
    kept(rows_of(tmp_path, 5), Frame(1))
    (note,) = tmp_path.glob("*/*/_columns.json")
    note.unlink()
    with pytest.raises(ConfigurationError, match=r"is damaged; it has rows of batch 5"):
        kept(rows_of(tmp_path, 5), Frame(1))


def test_columns_that_parquet_does_not_keep_are_told_before_anything_is_written(tmp_path: Path) -> None:
    interval = CalendarIntervalType()
    for kind in (interval, ArrayType(interval), MapType(StringType(), columns(x=interval))):
        frame = Frame(1, schema=columns(n=LongType(), wait=kind))
        with pytest.raises(ConfigurationError, match=r"the column 'wait' holds an INTERVAL.* cast it to STRING"):
            kept(rows_of(tmp_path, 5), frame)
        assert frame.tries == 0
    twice = StructType([StructField("text", StringType()), StructField("Text", StringType())])
    assert str(unstorable_column(twice)).startswith("there are two columns 'Text'")
    assert unstorable_column(columns(n=LongType(), since=DayTimeIntervalType())) is None
