"""Sends messages of an archive to their original or another destination, at a bounded rate.

The selected messages are ordered by time once and divided into portions. Each portion is sent and then recorded, so a
stopped replay continues after the last recorded portion. An unrecorded portion is sent again with the same duplicate
ids.

    STATE/replay.json     the selection, the number of portions, and the number of sent portions
    STATE/portions/…      the messages in order
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import DAY, DESTINATION, PARTITIONS
from spanwire.pipeline.archive.shared_reading import read_shared_archive
from spanwire.pipeline.arrow.schema import COLUMNS, DDL
from spanwire.pipeline.selector_column import selector_column
from spanwire.pipeline.storage.location import Location, parse

ARCHIVE_DDL: Final = f"{DDL}, {DESTINATION} string, {DAY} date"
MAX_PORTION: Final = 10_000  # messages sent between two records
PORTION_S: Final = 2  # seconds of sending per portion, if there is a rate
NUMBER: Final = "replay_number"
PORTION: Final = "replay_portion"
ORDER: Final = ("JMSTimestamp", "sequence", "JMSMessageID")


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


class Replay:
    """One replay with its state directory."""

    def __init__(
        self, spark: SparkSession, selection: Selection, options: dict[str, str], state: Path, rate: int | None
    ) -> None:
        """Use the ``options`` of a writer, and at most ``rate`` messages per second."""
        self._spark: Final = spark
        self._selection: Final = selection
        self._options: Final = options
        self._state: Final = state
        self._rate: Final = rate
        self._note: Final = state / "replay.json"

    def run(self, now: Callable[[], float], wait: Callable[[float], object], tell: Callable[[int, int], None]) -> int:
        """Send the portions that were not sent before; return the number of messages.

        Args:
            wait: waits some seconds and returns True to stop.
            tell: is called with the number of sent portions and of all portions.
        """
        note = self._load_note()
        portions, done, run = int(str(note["portions"])), int(str(note["done"])), str(note["run"])
        count = 0
        started = now()
        for portion in range(done, portions):
            count += self._send(portion, run)
            note["done"] = portion + 1
            self._write(note)
            tell(portion + 1, portions)
            pause_s = 0.0 if self._rate is None else max(0.0, started + count / self._rate - now())
            if wait(pause_s):
                break
        return count

    def _send(self, portion: int, run: str) -> int:
        path = str(self._state / "portions" / f"{PORTION}={portion}")
        frame = self._spark.read.parquet(path).coalesce(1).sortWithinPartitions(NUMBER).drop(NUMBER)
        frame = frame.withColumn("JMSExpiration", F.lit(None).cast("timestamp"))  # old messages would expire at once
        count = int(frame.count())
        options = {**self._options, "duplicateIdPrefix": f"{run}/{portion}"}
        frame.write.format("spanwire").mode("append").options(**options).save()
        return count

    def _load_note(self) -> dict[str, object]:
        """Return the record of this replay; create the portions without one."""
        selection = {**self._selection.texts(), "destination": self._options.get("destination", "")}
        if self._note.exists():
            try:
                note: dict[str, object] = json.loads(self._note.read_text(encoding="utf-8"))
                recorded = note["choice"]
            except (ValueError, KeyError, TypeError):
                raise ConfigurationError(f"{self._note} is damaged; delete {self._state} to begin anew") from None
            if recorded != selection:
                raise ConfigurationError(f"{self._state} belongs to another replay; choose another --state")
            return note
        note = {"choice": selection, "run": uuid.uuid4().hex[:12], "portions": self._write_portions(), "done": 0}
        self._write(note)
        return note

    def _write_portions(self) -> int:
        size = MAX_PORTION if self._rate is None else max(1, min(MAX_PORTION, self._rate * PORTION_S))
        names = [name for name, _ in COLUMNS]
        number = F.row_number().over(Window.orderBy(*ORDER)) - 1
        frame = select_messages(self._spark, self._selection).select(*names).withColumn(NUMBER, number)
        frame = frame.withColumn(PORTION, F.floor(F.col(NUMBER) / size))
        path = str(self._state / "portions")
        frame.write.mode("overwrite").partitionBy(PORTION).parquet(path)
        return len(list(Path(path).glob(f"{PORTION}=*")))

    def _write(self, note: dict[str, object]) -> None:
        temporary = self._state / ".replay.tmp"
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(note), encoding="utf-8")
        temporary.rename(self._note)
