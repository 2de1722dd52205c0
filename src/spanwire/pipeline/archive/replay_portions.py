"""The messages of a replay: selected once, ordered by time, and kept in files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB
from spanwire.pipeline.archive.replay import Portions
from spanwire.pipeline.archive.replay_note import (
    NOTE,
    ReplayNote,
    new_run,
    read_note,
    read_starts,
    write_starts,
    write_targets,
)
from spanwire.pipeline.archive.selection import ORDER, Selection, select_messages
from spanwire.pipeline.arrow.rows import RowReader
from spanwire.pipeline.arrow.schema import COLUMNS
from spanwire.pipeline.options import WriteOptions

ROWS: Final = 2000  # messages of one file, which are in memory together
MAX_BYTES: Final = 64 * MIB  # bytes of their bodies, but for the last one; a broker may have to see a batch as a whole
NUMBER: Final = "replay_number"
PORTION: Final = "replay_portion"
PACKED: Final = "packed"
LAST: Final = 2**63 - 1  # end of the last portion, which the number of messages bounds


class SparkPortions(Portions):
    """Reads the files with Spark, one at a time."""

    def __init__(self, spark: SparkSession, state: Path, options: WriteOptions) -> None:
        """Make messages for the destination of the ``options``, or else for those of the archive."""
        self._spark: Final = spark
        self._directory: Final = state / "portions"
        self._options: Final = options
        self._starts: Final = read_starts(state)
        self._name = ""
        self._batches: list[pa.RecordBatch] = []

    def end_of(self, number: int) -> int:
        """Return the end of the file with a message."""
        after = bisect_right(self._starts, number, key=itemgetter(0))
        return self._starts[after][0] if after < len(self._starts) else LAST

    def rows(self, first: int, until: int, ids: str) -> Iterator[Outgoing]:
        """Return messages of one file."""
        start, name = self._starts[bisect_right(self._starts, first, key=itemgetter(0)) - 1]
        if self._name != name:
            path = str(self._directory / f"{PORTION}={name}")
            frame = self._spark.read.parquet(path).coalesce(1).sortWithinPartitions(NUMBER).drop(NUMBER)
            frame = frame.withColumn("JMSExpiration", F.lit(None).cast("timestamp"))  # old ones would expire at once
            rows = frame.mapInArrow(packed, f"{PACKED} binary").collect()
            self._batches, self._name = [unpacked(row[PACKED]) for row in rows], name
        parts = list(slices(self._batches, first - start, until - start))
        if sum(part.num_rows for part in parts) != until - first:
            raise ConfigurationError(
                f"{self._directory} has lost messages of the replay; delete {self._directory.parent} to begin anew"
            )
        reader = RowReader(self._options, ids)
        for part in parts:
            yield from reader.rows(part)


def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each record batch as the bytes of a stream of Arrow.

    `DataFrame.toArrow` refuses null values of the type VARIANT.
    """
    for batch in batches:
        content = pa.BufferOutputStream()
        with pa.ipc.new_stream(content, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([content.getvalue().to_pybytes()], pa.binary())], names=[PACKED])


def unpacked(content: bytes) -> pa.RecordBatch:
    """Return the record batch of `packed` bytes."""
    return pa.ipc.open_stream(content).read_next_batch()


def slices(batches: list[pa.RecordBatch], first: int, until: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows from ``first`` to ``until``, exclusive, of all record batches together."""
    start = 0
    for batch in batches:
        end = start + batch.num_rows
        if start < until and first < end:
            at = max(first, start)
            yield batch.slice(at - start, min(until, end) - at)
        start = end


def open_note(spark: SparkSession, selection: Selection, destination: str, state: Path) -> ReplayNote:
    """Return the note of a replay, begun if there is none.

    Raises:
        ConfigurationError: the state belongs to another replay or is damaged, or the directory is no archive.
    """
    choice = {**selection.texts(), "destination": destination}
    note = read_note(state / NOTE)
    if note is None:
        total = _write_portions(spark, selection, destination, state)
        note = ReplayNote(state / NOTE, choice, new_run(), total)
        note.save()
        return note
    if note.choice != choice:
        raise ConfigurationError(f"{state} belongs to another replay; choose another --state")
    if note.is_undone:
        raise ConfigurationError(f"the replay in {state} was undone; delete {state} to begin anew")
    return note


def _write_portions(spark: SparkSession, selection: Selection, destination: str, state: Path) -> int:
    """Write the messages, and return their number."""
    names = [name for name, _ in COLUMNS]
    number = F.row_number().over(Window.orderBy(*ORDER)) - 1
    frame = select_messages(spark, selection).select(*names).withColumn(NUMBER, number)
    sizes = [F.coalesce(F.octet_length(F.col(name)), F.lit(0)) for name in ("text", "bytes")]
    sizes.append(F.coalesce(F.octet_length(F.to_json("body")), F.lit(0)))
    before = Window.orderBy(*ORDER).rowsBetween(Window.unboundedPreceding, -1)
    sent = F.coalesce(F.sum(sizes[0] + sizes[1] + sizes[2]).over(before), F.lit(0))
    portion = F.concat_ws("-", F.floor(F.col(NUMBER) / ROWS), F.floor(sent / MAX_BYTES))
    frame = frame.withColumn(PORTION, portion)
    path = str(state / "portions")
    frame.write.mode("overwrite").partitionBy(PORTION).parquet(path)
    if not any(Path(path).glob(f"{PORTION}=*")):
        write_targets(state, [])
        write_starts(state, [])
        return 0
    written = spark.read.parquet(path)
    found = [str(row[0]) for row in written.select("JMSDestination").distinct().collect()]
    write_targets(state, [destination] if destination else sorted(found))
    starts = written.groupBy(PORTION).agg(F.min(NUMBER).alias(NUMBER)).collect()
    write_starts(state, sorted((int(row[NUMBER]), str(row[PORTION])) for row in starts))
    return int(written.count())
