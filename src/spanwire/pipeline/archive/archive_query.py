"""Archives queues or subscribed topics in Parquet, with all headers and typed properties.

    DIRECTORY/destination=…/day=2026-01-31/…parquet    the messages; JMSDestination is a column as well
    DIRECTORY/_archive/…                               checkpoint and staged messages; Spark does not read names with _

Archived messages are removed from the queue. Files are written exactly once, whichever process is killed, as long as
the directory stays complete.
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
TIMES: Final = ("JMSTimestamp", "JMSActiveMQBrokerInTime")  # an advisory has only the second


class ArchiveQuery:
    """Starts the query of an archive, as often as necessary."""

    def __init__(self, spark: SparkSession, options: dict[str, str], directory: Path, trigger: str) -> None:
        """Use the ``options`` of a stream reader without stagingDirectory.

        ``directory`` is made absolute, because executors have other working directories.
        """
        self._spark: Final = spark
        self._directory: Final = directory.absolute()
        self._options: Final = {**options, "stagingDirectory": str(self._directory / STATE / "staging")}
        self._trigger: Final = trigger

    def start(self) -> StreamingQuery:
        """Start a query and return it."""
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
