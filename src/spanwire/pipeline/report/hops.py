"""Times from broker to broker, by the broker path.

An arrival is a message at one broker, reported by the advisory ``MessageDelivered``. The path of an arrival names the
last forwarding broker; the arrival of the same message at that broker is the start of the hop. The first hop begins at
the sender, by the sender's clock. Different clocks make times too small, even negative, or too large; the smallest time
is shown. Rows of archives have the whole path, and the total time if the last broker records arrivals (ActiveMQ Classic
does).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.report.model import Bar, BarChart, Column, Kind, Table, Value, limit_rows
from spanwire.pipeline.report.traffic import DELIVERED, MAX_DESTINATIONS

SENDER: Final = "(sender)"
ARROW: Final = " → "
MAX_BARS: Final = 20
MEDIAN: Final = "median"
PERCENTILE: Final = "95th percentile"
TIMES: Final = (
    Column("least", Kind.MILLIS),
    Column(MEDIAN, Kind.MILLIS),
    Column(PERCENTILE, Kind.MILLIS),
    Column("most", Kind.MILLIS),
)
HOP_COLUMNS: Final = (Column("from"), Column("to"), Column("messages", Kind.COUNT), *TIMES)
HOP_ABOUT: Final = (
    "From the arrival at one broker to the arrival at the next, with the time spent waiting in the first."
)
WAY_COLUMNS: Final = (Column("route"), Column("destination"), Column("messages", Kind.COUNT), *TIMES)
WAY_ABOUT: Final = (
    "The brokers that forwarded the archived messages, and where they were archived; times are from the sender to the "
    "last broker, where that notes them."
)


def broker_names(events: DataFrame) -> dict[str, str]:
    """Return the names of the brokers that publish advisories, by broker id."""
    rows = events.where("broker_id IS NOT NULL").select("broker_id", "broker").distinct().limit(MAX_DESTINATIONS)
    return {row["broker_id"]: row["broker"] for row in rows.collect()}


def arrivals(events: DataFrame) -> DataFrame:
    """Return messages at brokers: id, destination, broker, broker_id, arrived_at, sent_at, path."""
    return events.where((F.col("kind") == DELIVERED) & F.col("id").isNotNull()).select(
        "id", "destination", "broker", "broker_id", F.coalesce("in_at", "at").alias("arrived_at"), "sent_at", "path"
    )


def hops(events: DataFrame, names: Mapping[str, str]) -> tuple[Table, BarChart | None]:
    """Return each pair of brokers with forwarded messages, and the times of these hops."""
    here = arrivals(events)
    before = here.select(
        "id", "destination", F.col("broker_id").alias("last"), F.col("arrived_at").alias("left_at")
    ).groupBy("id", "destination", "last")
    before = before.agg(F.min("left_at").alias("left_at"))
    further = here.where(F.size("path") > 0).withColumn("last", F.element_at("path", -1))
    joined = further.join(before, ["id", "destination", "last"])
    first = here.where(F.size("path") == 0).withColumn("last", F.lit(None)).withColumn("left_at", F.col("sent_at"))
    columns = ("last", "broker", "arrived_at", "left_at")
    both = joined.select(*columns).unionByName(first.select(*columns))
    grouped = both.where("left_at IS NOT NULL").groupBy("last", "broker").agg(*_times("left_at", "arrived_at"))
    records = grouped.orderBy(F.desc("count"), "last", "broker").limit(MAX_DESTINATIONS).collect()
    rows: list[tuple[Value, ...]] = [
        (
            SENDER if row["last"] is None else names.get(row["last"], row["last"]),
            row["broker"], row["count"], row["least"], row["middle"], row["high"], row["most"],
        )
        for row in records
    ]  # fmt: skip
    bars = [Bar(f"{row[0]}{ARROW}{row[1]}", _number(row[4]), _number(row[5])) for row in rows[:MAX_BARS]]
    chart = BarChart("hops", "Time from broker to broker", "ms", MEDIAN, PERCENTILE, bars)
    return limit_rows("hops", "Hops", HOP_ABOUT, HOP_COLUMNS, rows), chart if bars else None


def route_table(messages: DataFrame, names: Mapping[str, str]) -> Table:
    """Return the paths of archived messages."""
    grouped = messages.groupBy("path", "archive", "destination").agg(*_times("sent_at", "in_at"))
    records = grouped.orderBy(F.desc("count"), "archive", "destination").limit(MAX_DESTINATIONS).collect()
    rows: list[tuple[Value, ...]] = [
        (
            ARROW.join([*[names.get(part, part or "?") for part in row["path"]], f"archive {row['archive']}"]),
            row["destination"], row["count"], row["least"], row["middle"], row["high"], row["most"],
        )
        for row in records
    ]  # fmt: skip
    return limit_rows("routes", "Routes", WAY_ABOUT, WAY_COLUMNS, rows)


def _times(start: str, end: str) -> list[SparkColumn]:
    millis = (F.unix_micros(end) - F.unix_micros(start)) / 1000
    return [
        F.count("*").alias("count"),
        F.min(millis).alias("least"),
        F.percentile_approx(millis, 0.5).alias("middle"),
        F.percentile_approx(millis, 0.95).alias("high"),
        F.max(millis).alias("most"),
    ]


def _number(value: Value) -> float:
    return max(float(value), 0.0) if isinstance(value, (int, float)) else 0.0
