"""Rates and sizes by destination and over time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.report.model import MAX_SERIES, Column, Kind, LineChart, Series, Table, Value, limit_rows
from spanwire.pipeline.report.sources import MESSAGES

MAX_DESTINATIONS: Final = 10_000  # destinations in the driver's memory, those with most messages
MAX_STEPS: Final = 120  # steps of a chart over time
STEPS_S: Final = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 43_200, 86_400, 604_800, 2_592_000, 31_536_000)
OTHERS: Final = "all others"
ARCHIVE: Final = "archive"
ADVISORIES: Final = "advisories"
DELIVERED: Final = "MessageDelivered"

COLUMNS: Final = (
    Column("destination"),
    Column("known from"),
    Column("messages", Kind.COUNT),
    Column("per second", Kind.RATE),
    Column("bytes", Kind.BYTES),
    Column("mean size", Kind.BYTES),
    Column("95th percentile", Kind.BYTES),
    Column("largest", Kind.BYTES),
    Column("redelivered", Kind.COUNT),
    Column("first", Kind.TIME),
    Column("last", Kind.TIME),
)
ABOUT: Final = (
    "Sizes are those of the bodies in the archive; advisories tell sizes only where includeBodyForAdvisory is set. "
    "Per second: over the time from the first to the last message."
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic by destination and over time, and totals."""

    table: Table
    chart: LineChart | None
    messages: int
    octets: int
    begin: datetime | None
    end: datetime | None


def traffic(messages: DataFrame, events: DataFrame) -> Traffic:
    """Return the traffic of archives, and of other destinations by their advisories."""
    when = F.coalesce("sent_at", "in_at")
    archived = messages.where(F.col("role") == MESSAGES).withColumn("when", when)
    rows = _sums(archived)
    known = {row["destination"] for row in rows}
    advised = events.where((F.col("kind") == DELIVERED) & (F.size("path") == 0)).withColumn(
        "when", F.coalesce("in_at", "at")
    )
    advised = advised.withColumn("redelivered", F.lit(False))
    advised_rows = [row for row in _sums(advised) if row["destination"] not in known]
    table_rows = [_traffic_row(row, ARCHIVE) for row in rows] + [_traffic_row(row, ADVISORIES) for row in advised_rows]
    all_rows = [*rows, *advised_rows]
    begins = [row["first"] for row in all_rows if row["first"] is not None]
    ends = [row["last"] for row in all_rows if row["last"] is not None]
    begin, end = min(begins, default=None), max(ends, default=None)
    chart = None
    if begin is not None and end is not None:
        names = {row["destination"] for row in advised_rows}
        both = archived.select("destination", "when").unionByName(
            advised.where(F.col("destination").isin(sorted(names)[:MAX_DESTINATIONS])).select("destination", "when")
        )
        largest = sorted(all_rows, key=lambda row: (-row["messages"], row["destination"] or ""))[:MAX_SERIES]
        chart = rates(both, [row["destination"] for row in largest], len(all_rows) > len(largest), begin, end)
    return Traffic(
        limit_rows("destinations", "Destinations", ABOUT, COLUMNS, table_rows),
        chart,
        sum(row["messages"] for row in all_rows),
        sum(row["bytes"] or 0 for row in all_rows),
        begin,
        end,
    )


def step_of(begin: datetime, end: datetime) -> int:
    """Return the seconds of one step of a chart."""
    span_s = max((end - begin).total_seconds(), 1.0)
    return next((step for step in STEPS_S if span_s / step <= MAX_STEPS), STEPS_S[-1])


def rates(frame: DataFrame, names: list[str], has_others: bool, begin: datetime, end: datetime) -> LineChart:
    """Return messages per second over time for these destinations, and for all others together."""
    step_s = step_of(begin, end)
    name = F.when(F.col("destination").isin(names), F.col("destination")).otherwise(OTHERS)
    counts = frame.where(F.col("when").isNotNull()).groupBy(name.alias("name"), bucket(F.col("when"), step_s))
    counts_by_step = {(row["name"], row["bucket"]): row["count"] for row in counts.count().collect()}
    shown = [*names, OTHERS] if has_others else names
    first, last = int(begin.timestamp()) // step_s, int(end.timestamp()) // step_s
    series = [
        Series(
            destination,
            [
                (begin_of(number, step_s, begin), counts_by_step.get((destination, number), 0) / step_s)
                for number in range(first, last + 1)
            ],
        )
        for destination in shown
    ]
    return LineChart("rates", "Messages over time", f"per second, in steps of {span_text(step_s)}", series)


def bucket(when: SparkColumn, step_s: int) -> SparkColumn:
    """Return the number of the step of a time."""
    return F.floor(F.unix_seconds(when) / step_s).alias("bucket")


def begin_of(number: int, step_s: int, like: datetime) -> datetime:
    """Return the begin of a step, in the time zone of ``like``."""
    return datetime.fromtimestamp(0, like.tzinfo) + timedelta(seconds=number * step_s)


def span_text(seconds: int) -> str:
    """Return a length of time as text."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _sums(frame: DataFrame) -> list[Row]:
    """Return the destinations, largest first."""
    grouped = frame.where(F.col("destination").isNotNull()).groupBy("destination")
    sums = grouped.agg(
        F.count("*").alias("messages"),
        F.sum("size").alias("bytes"),
        F.percentile_approx("size", 0.95).alias("p95"),
        F.max("size").alias("largest"),
        F.count_if("redelivered").alias("redelivered"),
        F.min("when").alias("first"),
        F.max("when").alias("last"),
    )
    return list(sums.orderBy(F.desc("messages"), "destination").limit(MAX_DESTINATIONS).collect())


def _traffic_row(row: Row, source: str) -> tuple[Value, ...]:
    first, last, count, octets = row["first"], row["last"], row["messages"], row["bytes"] or 0
    span_s = (last - first).total_seconds() if first is not None and last is not None else 0.0
    return (
        row["destination"],
        source,
        count,
        count / span_s if span_s > 0 else None,
        octets,
        octets / count if count else None,
        row["p95"],
        row["largest"],
        row["redelivered"],
        first,
        last,
    )
