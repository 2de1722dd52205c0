"""A Spark program that a test kills: from one queue to another, some rows at a time, slowly.

    python -m tests.support.spark_victim URL FOLDER once|forever

Each task leaves its process id in FOLDER/pids. ``once`` ends when the queue is empty.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from spanwire.pipeline.session import local_session
from tests.support.spark_classes import QUICK_JAVA

ROWS_AT_ONCE = 50
PAUSE_S = 0.03  # for so many rows: a batch of 500 takes a third of a second
SETTINGS = {
    "spark.master": "local[2,4]",  # a task is tried four times
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_AT_ONCE),
    "spark.driver.extraJavaOptions": QUICK_JAVA,
}


def main(url: str, folder: Path, mode: str) -> None:
    pids = folder / "pids"
    pids.mkdir(exist_ok=True)

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (pids / str(os.getpid())).touch()
        for batch in batches:
            time.sleep(PAUSE_S)
            yield batch

    with local_session("victim", 2, {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}) as spark:
        source = spark.readStream.format("spanwire").options(
            url=url,
            destination="IN",
            stagingDirectory=str(folder / "staging"),
            maxRowsPerBatch="500",
            numPartitions="1",
        )
        rows = source.load().select("text", "properties")
        rows = rows.mapInArrow(slowly, rows.schema)
        writer = rows.writeStream.format("spanwire").options(
            url=url, destination="OUT", maxRowsPerTransaction=str(ROWS_AT_ONCE)
        )
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = (writer.trigger(availableNow=True) if mode == "once" else writer).start()
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
