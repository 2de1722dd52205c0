"""``spanwire pipeline archive``: queues or subscribed topics into Parquet, every header and property with its type.

    DIRECTORY/destination=…/day=2026-01-31/…parquet    the messages; JMSDestination is a column as well
    DIRECTORY/_archive/…                               checkpoint and staged messages; Spark does not read names with _

What is archived is taken off the queue. Files are written exactly once, whatever is killed, as long as the directory
stays whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from spanwire.pipeline.parquet import PARQUET, with_parquet_options
from spanwire.pipeline.routes.query import AVAILABLE_NOW

STATE: Final = "_archive"
DESTINATION: Final = "destination"
DAY: Final = "day"
PARTITIONS: Final = (DESTINATION, DAY)
TIMES: Final = ("JMSTimestamp", "JMSActiveMQBrokerInTime")  # an advisory has the second one alone


class ArchiveQuery:
    """Starts the query of an archive, as often as need be."""

    def __init__(self, spark: SparkSession, options: dict[str, str], directory: Path, trigger: str) -> None:
        """``options`` are those of a stream read, without the staging directory. ``directory`` is made absolute:
        executors have working directories of their own.
        """
        self._spark: Final = spark
        self._directory: Final = directory.absolute()
        self._options: Final = {**options, "stagingDirectory": str(self._directory / STATE / "staging")}
        self._trigger: Final = trigger

    def start(self) -> StreamingQuery:
        """A running query."""
        frame = self._spark.readStream.format("spanwire").options(**self._options).load()
        frame = frame.withColumn(DESTINATION, F.col("JMSDestination"))
        frame = frame.withColumn(DAY, F.to_date(F.coalesce(*TIMES, F.timestamp_millis(F.lit(0)))))
        writer = frame.writeStream.format(PARQUET).partitionBy(*PARTITIONS).option("path", str(self._directory))
        writer = writer.options(**with_parquet_options(PARQUET, {})).option(
            "checkpointLocation", str(self._directory / STATE / "checkpoint")
        )
        writer = writer.queryName("archive")
        if self._trigger == AVAILABLE_NOW:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=self._trigger).start()
