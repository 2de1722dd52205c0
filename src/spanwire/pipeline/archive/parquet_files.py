"""Archive files on shared storage, written and read with PyArrow.

A file has the rows of a segment by destination and day.

    DIRECTORY/destination=queue%3A%2F%2FORDERS/day=2026-01-31/part-0000000012-….parquet

Directories and columns are those of an archive that Spark writes. The last part of a name is the segment's, so a
segment written again replaces its own files.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import DAY, DESTINATION, TIMES
from spanwire.pipeline.arrow.schema import arrow_schema
from spanwire.pipeline.arrow.segments import with_missing_columns
from spanwire.pipeline.parquet import DISTINCT_COLUMNS
from spanwire.pipeline.storage.shared_files import SharedFiles

ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")  # characters that Spark escapes in directories
FILE_NAME: Final = re.compile(rf"{DESTINATION}=([^/]*)/{DAY}=(\d{{4}}-\d\d-\d\d)/[^/_.][^/]*\.parquet")
ROWS_AT_ONCE: Final = 2000  # rows of a record batch that is read; bounds the memory of a task
Group = tuple[str, date]


class SegmentGroups:
    """The rows of one segment by destination and day, in memory until the write."""

    def __init__(self) -> None:
        self._groups: Final[dict[Group, list[pa.RecordBatch]]] = {}
        self.count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Divide a record batch."""
        self.count += batch.num_rows
        rows: dict[Group, list[int]] = {}
        for row, group in enumerate(zip(batch.column("JMSDestination").to_pylist(), days_of(batch), strict=True)):
            rows.setdefault(group, []).append(row)
        for group, numbers in rows.items():
            part = batch if len(rows) == 1 else batch.take(pa.array(numbers, pa.int32()))
            self._groups.setdefault(group, []).append(part)

    def write(self, files: SharedFiles, segment: str) -> None:
        """Write a file for each destination and day.

        Raises:
            SharedStorageError: the file system refuses.
        """
        for (destination, day), batches in self._groups.items():
            table = pa.Table.from_batches(batches)
            with cast(BinaryIO, TemporaryFile()) as content:
                pq.write_table(table, content, use_dictionary=dictionary_columns(table.schema))
                files.write(file_name(destination, day, segment), content)


def days_of(batch: pa.RecordBatch) -> list[date]:
    """Return the UTC day of each row: of the sending, of the arrival, or the first of all days."""
    times = pc.coalesce(*(batch.column(name) for name in TIMES))
    return [
        datetime.fromtimestamp(0, UTC).date() if day is None else day for day in times.cast(pa.date32()).to_pylist()
    ]


def dictionary_columns(schema: pa.Schema) -> list[str]:
    """Return the columns whose values repeat."""
    return [field.name for field in schema if field.name not in DISTINCT_COLUMNS and field.type == pa.string()]


def file_name(destination: str, day: date, segment: str) -> str:
    """Return the name of a file in its archive."""
    escaped = ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", destination)
    return f"{DESTINATION}={escaped}/{DAY}={day}/part-{segment}.parquet"


def is_file_name(name: str) -> bool:
    """Return True if a file belongs to an archive."""
    return FILE_NAME.fullmatch(name) is not None


def read_file(files: SharedFiles, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with its destination and day.

    Raises:
        ConfigurationError: the file is no Parquet file or is gone.
        SharedStorageError: the file system refuses.
    """
    match = FILE_NAME.fullmatch(name)
    assert match is not None
    destination, day = unquote(match[1]), date.fromisoformat(match[2])
    for batch in stored_batches(files, name):
        yield archive_batch(batch, destination, day)


def stored_batches(files: SharedFiles, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file as they are stored; see `read_file`."""
    try:
        yield from pq.ParquetFile(io.BytesIO(files.read(name))).iter_batches(ROWS_AT_ONCE)
    except FileNotFoundError:
        raise ConfigurationError(f"spanwire: {files.address(name)} was removed while the archive was read") from None
    except pa.ArrowInvalid as error:
        raise ConfigurationError(
            f"spanwire: {files.address(name)} is no complete Parquet file ({str(error).splitlines()[0][:100]}); an "
            "archive that was interrupted writes its last files again when it is started again"
        ) from None


def archive_batch(batch: pa.RecordBatch, destination: str, day: date) -> pa.RecordBatch:
    """Return a record batch with the columns of an archive; columns that an older archive lacks are null."""
    batch = with_missing_columns(batch)
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for field in arrow_schema()
        for column in [batch.column(field.name)]
    ]
    columns.append(pa.array([destination] * batch.num_rows, pa.string()))
    columns.append(pa.array([day] * batch.num_rows, pa.date32()))
    return pa.RecordBatch.from_arrays(columns, names=[*arrow_schema().names, DESTINATION, DAY])
