"""Keeps rows of the current batch on disk, so that each attempt gives several endpoints the same rows.

    STATE/ROUTE/batches/QUERY-0000000007/8c1f…   rows after some of the steps: Parquet, synced before it gets this name
                                        …tmp     unfinished
                                        …/_columns.json    names and types of the columns

A repeated batch finds the kept rows and does not run the steps again. Another attempt of the steps might return other
rows than one endpoint has committed. The rows are removed when the next batch begins, because Spark has committed the
previous batch by then; so only one batch is on the disk.

`delivery` decides which rows to keep. The name of the rows is made of the steps before them, so rows of changed steps
are not used. A Python function with the same name counts as the same step; changed columns of a table are found by name
and type.
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
from spanwire.pipeline.storage.state_format import DAMAGED

NAME: Final = re.compile(r"(.+)-(\d{10,})")
TEMPORARY: Final = ".tmp"
COLUMNS: Final = "_columns.json"  # Spark ignores files whose names begin with an underscore
KEY_DIGITS: Final = 32  # hexadecimal digits of the hash of the steps before some rows
DIRECTORY_MODE: Final = 0o700  # other users must not read messages
FULL: Final = ("No space left on device", "Disk quota exceeded", "File too large")
GLOB: Final = re.compile(r"([\[\]{}*?\\])")  # characters of patterns in paths that Spark reads


class BatchRows:
    """The kept rows of one batch; created for each batch."""

    def __init__(
        self,
        spark: SparkSession,
        batches: Path,
        query: str,
        batch: int,
        write: Callable[[DataFrame, Path], int] | None = None,
    ) -> None:
        """Keep rows in ``batches`` for a batch of a query.

        Args:
            query: Spark's id of the query, different for a new checkpoint with batches from 0 on.
            write: writes rows as Parquet into a new directory and returns the number of rows; by default `write_rows`.
        """
        self._spark: Final = spark
        self._batches: Final = batches.absolute()
        self._query: Final = query
        self._batch: Final = batch
        self._write: Final = write_rows if write is None else write
        self._batch_directory: Final = self._batches / f"{query}-{batch:010}"

    def sweep(self) -> None:
        """Remove rows of committed batches and other checkpoints, and unfinished rows of a crash.

        Raises:
            ConfigurationError: there are rows of a later batch, so this batch was committed before.
        """
        for path in [] if not self._batches.exists() else sorted(self._batches.iterdir()):
            match = NAME.fullmatch(path.name)
            if match is not None and match[1] == self._query and int(match[2]) > self._batch:
                raise ConfigurationError(
                    f"spanwire: {path} holds rows of a later batch than {self._batch}, which Spark begins: another run "
                    "of this route is ahead, or the checkpoint was set back; then delete that directory"
                )
            if path != self._batch_directory:
                shutil.rmtree(path, ignore_errors=True)
        for path in self._batch_directory.glob(f"*{TEMPORARY}"):
            shutil.rmtree(path, ignore_errors=True)

    def keep(self, frame: DataFrame, step_keys: Sequence[str], memory: DataFrame | None = None) -> DataFrame:
        """Return the rows, or the kept rows of an earlier attempt under the same ``step_keys``.

        Steps with state of their own, which end in ``memory``, run in any case, because the state belongs to the
        batch.

        Raises:
            SpanwireError: the disk is full.
            ConfigurationError: rows are missing, cannot be kept, or were kept with other columns.
        """
        untyped = [field.name for field in frame.schema.fields if isinstance(field.dataType, NullType)]
        for name in untyped:  # Parquet has no column without a type
            frame = frame.withColumn(name, F.col(f"`{name}`").cast("string"))
        directory = self._batch_directory / rows_name(step_keys)
        if not directory.exists():
            fault = unstorable_column(frame.schema)
            if fault is not None:
                raise ConfigurationError(f"spanwire: {fault}")
            self._store(frame, directory)
            memory = None
        columns = self.columns(directory, frame.schema)
        if memory is not None:
            memory.write.format("noop").mode("overwrite").save()
        return self._spark.read.schema(columns).parquet("file:" + GLOB.sub(r"\\\1", str(directory)))

    def columns(self, directory: Path, now: StructType) -> StructType:
        """Return the columns of the kept rows, after a comparison with the present columns."""
        try:
            columns = kept_columns(directory)
        except (*DAMAGED, AssertionError, PySparkException):
            raise ConfigurationError(
                f"spanwire: {directory} is damaged; it has rows of batch {self._batch} that some endpoints may have "
                "committed. Delete it if none has"
            ) from None
        differences = sorted(column_texts(columns) ^ column_texts(now))
        if differences or columns.names != now.names:
            raise ConfigurationError(
                f"spanwire: the rows of batch {self._batch} in {directory} were kept with other columns than its steps "
                f"give now ({', '.join(differences) or 'their order'}): set the table or source back until the batch "
                "is done, or delete that directory; then endpoints that have committed their part keep rows that "
                "others do not receive"
            )
        return columns

    def _store(self, frame: DataFrame, directory: Path) -> None:
        temporary = directory.with_name(f"{directory.name}.{uuid.uuid4().hex[:12]}{TEMPORARY}")
        try:
            directory.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            count = self._write(frame, temporary)
            (temporary / COLUMNS).write_text(frame.schema.json(), encoding="utf-8")
            if count != sync_rows(temporary):
                raise ConfigurationError(
                    f"spanwire: not all rows of batch {self._batch} are in {self._batches}: all executors must "
                    "share the state directory of a route with several endpoints, if one of them commits once"
                )
            self._publish(temporary, directory)
        except (PySparkException, Py4JError, OSError) as error:
            reason = next((words for words in FULL if words in str(error)), None)
            if reason is None:
                raise
            raise SpanwireError(
                f"spanwire: the rows of batch {self._batch} cannot be kept in {self._batches}: {reason}"
            ) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _publish(self, temporary: Path, directory: Path) -> None:
        try:
            temporary.rename(directory)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            return  # another run of the route was first; both use its rows
        for directory in (self._batch_directory, self._batches, self._batches.parent):
            sync(directory)


def rows_name(step_keys: Sequence[str]) -> str:
    """Return the name of the directory of rows after some steps."""
    return sha256("\n".join(step_keys).encode()).hexdigest()[:KEY_DIGITS]


def kept_columns(directory: Path) -> StructType:
    """Return the names and types of kept rows. A damaged file raises any error of the JSON or of Spark's types."""
    return StructType.fromJson(json.loads((directory / COLUMNS).read_text(encoding="utf-8")))


def unstorable_column(columns: StructType) -> str | None:
    """Return the problem with a column that Parquet cannot store, and the remedy.

    ``None`` without a problem.
    """
    seen: set[str] = set()
    problem = "which rows for several endpoints cannot have"
    for field in columns.fields:
        if field.name.lower() in seen:
            return f"there are two columns {field.name!r}, {problem}: rename one of them in the step that adds it"
        seen.add(field.name.lower())
        if has_interval(field.dataType):
            return f"the column {field.name!r} holds an INTERVAL, {problem}: cast it to STRING in the step that adds it"
    return None


def has_interval(kind: DataType) -> bool:
    """Return True if a type contains an interval of months and days, unknown in Parquet."""
    if isinstance(kind, StructType):
        return any(has_interval(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return has_interval(kind.keyType) or has_interval(kind.valueType)
    return has_interval(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, CalendarIntervalType)


def column_texts(columns: StructType) -> set[str]:
    """Return names with types; nullability does not matter."""
    return {f"{field.name} {field.dataType.simpleString()}" for field in columns.fields}


def write_rows(frame: DataFrame, path: Path) -> int:
    """Write rows as Parquet into a new directory; return the number of rows, counted by Spark."""
    seen = Observation()
    counted = frame.observe(seen, F.count(F.lit(1)).alias("rows"))
    counted.write.format(PARQUET).options(**with_parquet_options(PARQUET, {})).save(f"file:{path}")
    return int(seen.get["rows"])


def sync_rows(directory: Path) -> int:
    """Sync the files of a directory to the disk; return the number of their rows."""
    count = 0
    for path in directory.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
        if path.suffix == ".parquet":
            count += pq.read_metadata(path).num_rows
    sync(directory)
    return count
