"""``spanwire pipeline replay``: messages of an archive to where they were sent first, or elsewhere, at a bounded rate.

The chosen messages are put in order of their time once, in portions; each portion is sent and then noted, so that a
replay that was stopped goes on behind the last one noted. The portion at hand is sent again then, with the same
duplicate ids.

    STATE/replay.json     what is replayed, how many portions there are, and how many are sent
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
from spanwire.pipeline.arrow.schema import COLUMNS, DDL
from spanwire.pipeline.selector_column import selector_column

ARCHIVE_DDL: Final = f"{DDL}, {DESTINATION} string, {DAY} date"
MAX_PORTION: Final = 10_000  # messages sent between two notes
PORTION_S: Final = 2  # of sending, when there is a rate
NUMBER: Final = "replay_number"
PORTION: Final = "replay_portion"
ORDER: Final = ("JMSTimestamp", "sequence", "JMSMessageID")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages of an archive."""

    directory: str
    since: datetime | None = None
    until: datetime | None = None
    selector: str | None = None

    def texts(self) -> dict[str, str]:
        """The same as texts."""
        return {name: str(value) for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class DestinationTotal:
    """The messages of one destination that would be replayed."""

    destination: str
    count: int
    first: datetime | None
    last: datetime | None


def read_archive(spark: SparkSession, directory: str) -> DataFrame:
    """The rows of an archive; a column that an older one does not have is null there."""
    return spark.read.schema(ARCHIVE_DDL).parquet(directory)


def select_messages(spark: SparkSession, selection: Selection) -> DataFrame:
    """The messages. Raises `ConfigurationError` for a directory that is no archive."""
    directory = Path(selection.directory)
    if not directory.is_dir() or not any(directory.glob(f"{PARTITIONS[0]}=*")):
        raise ConfigurationError(f"{directory} is no archive; there is no {PARTITIONS[0]}=… in it")
    frame = read_archive(spark, str(directory))
    if selection.since is not None:
        frame = frame.where(F.col("JMSTimestamp") >= F.lit(selection.since))
    if selection.until is not None:
        frame = frame.where(F.col("JMSTimestamp") < F.lit(selection.until))
    return frame if selection.selector is None else frame.where(selector_column(selection.selector))


def totals(spark: SparkSession, selection: Selection) -> list[DestinationTotal]:
    """What would be replayed, by destination."""
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
        """``options`` are those of a write; ``rate`` bounds messages per second."""
        self._spark: Final = spark
        self._selection: Final = selection
        self._options: Final = options
        self._state: Final = state
        self._rate: Final = rate
        self._note: Final = state / "replay.json"

    def run(self, now: Callable[[], float], wait: Callable[[float], object], tell: Callable[[int, int], None]) -> int:
        """Send what is not sent yet; the number of messages sent now. ``wait`` is given seconds and says whether to
        stop; ``tell`` hears of portions sent and of all.
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
        frame = frame.withColumn("JMSExpiration", F.lit(None).cast("timestamp"))  # they would expire at once
        count = int(frame.count())
        options = {**self._options, "duplicateIdPrefix": f"{run}/{portion}"}
        frame.write.format("spanwire").mode("append").options(**options).save()
        return count

    def _load_note(self) -> dict[str, object]:
        """What is known of this replay; the portions are made when nothing is."""
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
