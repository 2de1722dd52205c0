"""Rows of the batch at hand that several endpoints get, written down once so that each try gives them the same.

    STATE/ROUTE/batches/QUERY-0000000007/8c1f…   rows after some of the steps: Parquet, synced before it gets this name
                                        …tmp     not yet
                                        …/_columns.json    what they are

A batch that Spark repeats finds them there and does not take those steps again: whatever another try of the steps would
give, what one endpoint has committed and what the others still get are the same rows. They go when the next batch
begins, for Spark has committed the one before by then; so there is one batch on the disk.

Leaves to `delivering` which rows need it. The name of rows comes from the steps before them: when these are changed
in the file, rows of the old ones are not taken. A Python function of the same name is the same step, and a table whose
columns are others now is found by the columns.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, CalendarIntervalType, DataType, MapType, NullType, StructType

from spanwire.model.errors import ConfigurationError, SpanwireError
from spanwire.pipeline.arrow.segments import sync
from spanwire.pipeline.parquet import PARQUET, with_parquet_options

NAME: Final = re.compile(r"(.+)-(\d{10,})")
TEMPORARY: Final = ".tmp"
COLUMNS: Final = "_columns.json"  # Spark passes over files that begin so
WAY_DIGITS: Final = 32  # of the hash of the steps before some rows
DIRECTORY_MODE: Final = 0o700  # messages are nobody else's business
FULL: Final = ("No space left on device", "Disk quota exceeded", "File too large")
GLOB: Final = re.compile(r"([\[\]{}*?\\])")  # what Spark takes for a pattern in a path that it reads


class BatchRows:
    """The rows of one batch; made anew for each."""

    def __init__(
        self,
        spark: SparkSession,
        batches: Path,
        query: str,
        batch: int,
        write: Callable[[DataFrame, Path], int] | None = None,
    ) -> None:
        """``query`` is Spark's id of it, which a new checkpoint changes: its batches begin at 0 again. ``write`` writes
        rows as Parquet into a new directory and gives their number, `write_rows` without one.
        """
        self._spark: Final = spark
        self._batches: Final = batches.absolute()
        self._query: Final = query
        self._batch: Final = batch
        self._write: Final = write_rows if write is None else write
        self._home: Final = self._batches / f"{query}-{batch:010}"

    def sweep(self) -> None:
        """Remove the rows of batches that are committed, of another checkpoint, and what a crash left half written.

        Raises `ConfigurationError` when there are rows of a later batch: this one was committed then.
        """
        for path in [] if not self._batches.exists() else sorted(self._batches.iterdir()):
            match = NAME.fullmatch(path.name)
            if match is not None and match[1] == self._query and int(match[2]) > self._batch:
                raise ConfigurationError(
                    f"spanwire: {path} holds rows of a later batch than {self._batch}, which Spark begins: another run "
                    "of this route is ahead, or the checkpoint was set back; then delete that directory"
                )
            if path != self._home:
                shutil.rmtree(path, ignore_errors=True)
        for path in self._home.glob(f"*{TEMPORARY}"):
            shutil.rmtree(path, ignore_errors=True)

    def kept(self, frame: DataFrame, way: Sequence[str], memory: DataFrame | None = None) -> DataFrame:
        """These rows, or those that an earlier try has kept of the same ``way``, the keys of the steps before them.
        Steps with a memory of their own, which ``memory`` ends with, run all the same: it belongs to the batch.

        Raises `SpanwireError` for a full disk, `ConfigurationError` when not all rows are in the directory, they cannot
        be kept, or have other columns than those that are there.
        """
        empty = [field.name for field in frame.schema.fields if isinstance(field.dataType, NullType)]
        for name in empty:  # Parquet has no column without a type
            frame = frame.withColumn(name, F.col(f"`{name}`").cast("string"))
        home = self._home / sha256("\n".join(way).encode()).hexdigest()[:WAY_DIGITS]
        if not home.exists():
            fault = unkept_column(frame.schema)
            if fault is not None:
                raise ConfigurationError(f"spanwire: {fault}")
            self._keep(frame, home)
            memory = None
        columns = self._columns(home, frame.schema)
        if memory is not None:
            memory.write.format("noop").mode("overwrite").save()
        return self._spark.read.schema(columns).parquet("file:" + GLOB.sub(r"\\\1", str(home)))

    def _columns(self, home: Path, now: StructType) -> StructType:
        """Those that the rows were written with."""
        try:
            columns = StructType.fromJson(json.loads((home / COLUMNS).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            raise ConfigurationError(
                f"spanwire: {home} is damaged; it holds rows of batch {self._batch} that some endpoints may have. "
                "Delete it if none has"
            ) from None
        others = sorted(shown_columns(columns) ^ shown_columns(now))
        if others or columns.names != now.names:
            raise ConfigurationError(
                f"spanwire: the rows of batch {self._batch} in {home} were kept with other columns than its steps give "
                f"now ({', '.join(others) or 'their order'}): set the table or source back until the batch is done, or "
                "delete that directory; then endpoints that have had their part keep rows that others do not get"
            )
        return columns

    def _keep(self, frame: DataFrame, home: Path) -> None:
        temporary = home.with_name(f"{home.name}.{uuid.uuid4().hex[:12]}{TEMPORARY}")
        try:
            home.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            count = self._write(frame, temporary)
            (temporary / COLUMNS).write_text(frame.schema.json(), encoding="utf-8")
            if count != sync_rows(temporary):
                raise ConfigurationError(
                    f"spanwire: not all rows of batch {self._batch} are in {self._batches}: the state directory of a "
                    "route with an endpoint that commits once and others must be one that all executors share"
                )
            self._name(temporary, home)
        except (PySparkException, Py4JError, OSError) as error:
            reason = next((words for words in FULL if words in str(error)), None)
            if reason is None:
                raise
            raise SpanwireError(
                f"spanwire: the rows of batch {self._batch} cannot be kept in {self._batches}: {reason}"
            ) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _name(self, temporary: Path, home: Path) -> None:
        try:
            temporary.rename(home)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            return  # another run of the route was first, and both go on with its rows
        for directory in (self._home, self._batches, self._batches.parent):
            sync(directory)


def unkept_column(columns: StructType) -> str | None:
    """Which column Parquet does not keep, if there is one, and what to do."""
    seen: set[str] = set()
    what = "and rows for several endpoints cannot be kept so"
    for field in columns.fields:
        if field.name.lower() in seen:
            return f"there are two columns {field.name!r}, {what}: rename one of them in the step that adds it"
        seen.add(field.name.lower())
        if holds_interval(field.dataType):
            return f"the column {field.name!r} holds an INTERVAL, {what}: cast it to STRING in the step that adds it"
    return None


def holds_interval(kind: DataType) -> bool:
    """Whether a type is, or has in it, the one interval that Parquet does not know: of months and days together."""
    if isinstance(kind, StructType):
        return any(holds_interval(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return holds_interval(kind.keyType) or holds_interval(kind.valueType)
    return holds_interval(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, CalendarIntervalType)


def shown_columns(columns: StructType) -> set[str]:
    """Names with types; whether there may be nulls says nothing of the rows."""
    return {f"{field.name} {field.dataType.simpleString()}" for field in columns.fields}


def write_rows(frame: DataFrame, path: Path) -> int:
    """Write rows as Parquet into a new directory; their number, which Spark counts on the way."""
    seen = Observation()
    counted = frame.observe(seen, F.count(F.lit(1)).alias("rows"))
    counted.write.format(PARQUET).options(**with_parquet_options(PARQUET, {})).save(f"file:{path}")
    return int(seen.get["rows"])


def sync_rows(directory: Path) -> int:
    """Bring the files of a directory to the disk; the number of their rows."""
    count = 0
    for path in directory.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
        if path.suffix == ".parquet":
            count += pq.read_metadata(path).num_rows
    sync(directory)
    return count
