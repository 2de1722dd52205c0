"""A Spark program that a test kills: from one queue to another, some rows at a time.

    python -m tests.support.spark_victim URL FOLDER held|once

``held``: the first task of each batch stops when it has sent SENT_BEFORE_HOLD rows and committed them, leaves a file
``held-<process id>-<batch>`` in FOLDER, and waits to be killed. Another attempt at the batch does not stop. ``once``
takes what there is, without a stop, and ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spanwire.pipeline.datasource.source import SpanwireDataSource
from spanwire.pipeline.datasource.stream_writer import BATCH_ID, SpanwireStreamWriter
from spanwire.pipeline.session import local_session
from tests.support.spark_classes import QUICK_JAVA

FOLDER: Final = "SPANWIRE_VICTIM"
ROWS_AT_ONCE: Final = 50  # of a transaction, and of what a task gets at once
SENT_BEFORE_HOLD: Final = 3 * ROWS_AT_ONCE
HOLD_S: Final = 300.0
SETTINGS: Final = {
    "spark.master": "local[2,4]",  # a task is tried four times
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_AT_ONCE),
    "spark.driver.extraJavaOptions": QUICK_JAVA,
}


def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stop when the rows before are sent: whoever asks for the next ones has committed them."""
    for index, batch in enumerate(batches):
        if index * ROWS_AT_ONCE == SENT_BEFORE_HOLD:
            hold(Path(os.environ[FOLDER]), TaskContext.get().getLocalProperty(BATCH_ID))
        yield batch


def hold(folder: Path, batch: str) -> None:
    """Wait to be killed, once in each batch, which has one task."""
    if list(folder.glob(f"held-*-{batch}")):
        return
    (folder / f"held-{os.getpid()}-{batch}").touch()
    time.sleep(HOLD_S)
    raise TimeoutError("nobody has killed this task")


class HeldWriter(SpanwireStreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return super().write(held(iterator))


class HeldDataSource(SpanwireDataSource):
    @classmethod
    def name(cls) -> str:
        return "held"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return HeldWriter(dict(self.options))


def main(url: str, folder: Path, mode: str) -> None:
    os.environ[FOLDER] = str(folder)  # Spark's processes inherit it
    with local_session("victim", 2, {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}) as spark:
        spark.dataSource.register(HeldDataSource)
        source = spark.readStream.format("spanwire").options(
            url=url,
            destination="IN",
            stagingDirectory=str(folder / "staging"),
            maxRowsPerBatch="500",
            numPartitions="1",
        )
        rows = source.load().select("text", "properties")
        writer = rows.writeStream.format("spanwire" if mode == "once" else "held").options(
            url=url, destination="OUT", maxRowsPerTransaction=str(ROWS_AT_ONCE)
        )
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = (writer.trigger(availableNow=True) if mode == "once" else writer).start()
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
