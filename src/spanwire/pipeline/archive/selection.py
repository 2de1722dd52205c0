"""Selects messages of an archive by time and selector, counts them, and shows a sample for a dry run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import DAY, DESTINATION, PARTITIONS
from spanwire.pipeline.archive.shared_reading import read_shared_archive
from spanwire.pipeline.arrow.schema import DDL
from spanwire.pipeline.selector_column import selector_column
from spanwire.pipeline.storage.location import Location, parse

ARCHIVE_DDL: Final = f"{DDL}, {DESTINATION} string, {DAY} date"
ORDER: Final = ("JMSTimestamp", "sequence", "JMSMessageID")
SAMPLE: Final = 10  # messages of each destination that a dry run shows, as many as that of a move
MAX_DESTINATIONS: Final = 1000  # destinations of which a dry run shows a sample


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects messages of an archive in a directory, or at the address of one on shared storage."""

    directory: str
    since: datetime | None = None
    until: datetime | None = None
    selector: str | None = None

    def texts(self) -> dict[str, str]:
        """Return the selection as texts."""
        return {name: str(value) for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class DestinationTotal:
    """The selected messages of one destination."""

    destination: str
    count: int
    first: datetime | None
    last: datetime | None


def read_archive(spark: SparkSession, directory: str) -> DataFrame:
    """Return the rows of an archive; columns that an older archive lacks are null."""
    return spark.read.schema(ARCHIVE_DDL).parquet(directory)


def select_messages(spark: SparkSession, selection: Selection) -> DataFrame:
    """Return the selected messages.

    Raises:
        ConfigurationError: the directory is no archive.
    """
    directory = parse(selection.directory)
    if isinstance(directory, Location):
        frame = read_shared_archive(spark, selection.directory, ARCHIVE_DDL)
    elif not directory.is_dir() or not any(directory.glob(f"{PARTITIONS[0]}=*")):
        raise ConfigurationError(f"{directory} is no archive; there is no {PARTITIONS[0]}=… in it")
    else:
        frame = read_archive(spark, str(directory))
    if selection.since is not None:
        frame = frame.where(F.col("JMSTimestamp") >= F.lit(selection.since))
    if selection.until is not None:
        frame = frame.where(F.col("JMSTimestamp") < F.lit(selection.until))
    return frame if selection.selector is None else frame.where(selector_column(selection.selector))


def totals(spark: SparkSession, selection: Selection) -> list[DestinationTotal]:
    """Return the selected messages by destination."""
    counts = (
        select_messages(spark, selection)
        .groupBy("JMSDestination")
        .agg(F.count("*").alias("count"), F.min("JMSTimestamp").alias("first"), F.max("JMSTimestamp").alias("last"))
    )
    rows = counts.orderBy("JMSDestination").collect()
    return [DestinationTotal(row["JMSDestination"], row["count"], row["first"], row["last"]) for row in rows]


def samples(spark: SparkSession, selection: Selection) -> dict[str, list[str]]:
    """Return the ids of the first selected messages of each destination, for at most `MAX_DESTINATIONS`."""
    window = Window.partitionBy("JMSDestination").orderBy(*ORDER)
    frame = select_messages(spark, selection).select("JMSDestination", *ORDER)
    frame = frame.withColumn("place", F.row_number().over(window)).where(F.col("place") <= SAMPLE)
    found: dict[str, list[str]] = {}
    for row in frame.orderBy("JMSDestination", "place").limit(MAX_DESTINATIONS * SAMPLE).collect():
        found.setdefault(row["JMSDestination"], []).append(row["JMSMessageID"])
    return found
