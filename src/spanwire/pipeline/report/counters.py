"""Counters of brokers, from archived replies of the statistics plugin.

Each reply describes one destination. Between two replies: enqueued = dequeued + growth of the size. Expired messages
count as dequeued (Apache ActiveMQ, StatisticsPlugin). Counters begin at 0 when a broker starts, so the time between the
last reply before a start and the first reply after it is left out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.report.model import MAX_SERIES, Column, Kind, LineChart, Series, Table, Value, limit_rows
from spanwire.pipeline.report.traffic import MAX_DESTINATIONS, begin_of, bucket, span_text, step_of

COLUMNS: Final = (
    Column("broker"), Column("destination"), Column("answers", Kind.COUNT), Column("enqueued", Kind.COUNT),
    Column("dequeued", Kind.COUNT), Column("expired", Kind.COUNT), Column("growth", Kind.COUNT),
    Column("unaccounted", Kind.COUNT), Column("size", Kind.COUNT), Column("largest size", Kind.COUNT),
    Column("consumers", Kind.COUNT), Column("producers", Kind.COUNT), Column("memory %", Kind.COUNT),
    Column("starts seen", Kind.COUNT),
)  # fmt: skip
ABOUT: Final = (
    "From the broker's answers: sums between the first and the last one, without the time over a start of the broker. "
    "Unaccounted = enqueued - dequeued - growth, which should be 0 for a queue. The last columns are those of the last "
    "answer, memory that of the fullest."
)


def counters(statistics: DataFrame) -> tuple[Table, LineChart | None]:
    """Return each destination of each broker, and the sizes of the largest queues over time."""
    window = Window.partitionBy("broker", "destination").orderBy("at")
    frame = statistics.where("at IS NOT NULL")
    for name in ("enqueued", "dequeued", "expired", "size"):
        frame = frame.withColumn(f"{name}_before", F.lag(name).over(window))
    is_start = (F.col("enqueued") < F.col("enqueued_before")) | (F.col("dequeued") < F.col("dequeued_before"))
    frame = frame.withColumn("is_start", F.coalesce(is_start, F.lit(False)))
    sums = [
        F.coalesce(F.sum(F.when(~F.col("is_start"), F.col(name) - F.col(f"{name}_before"))), F.lit(0)).alias(alias)
        for name, alias in (
            ("enqueued", "enqueued"), ("dequeued", "dequeued"), ("expired", "expired"), ("size", "growth"),
        )
    ]  # fmt: skip
    last = [F.max_by(name, "at").alias(f"last_{name}") for name in ("size", "consumers", "producers")]
    grouped = frame.groupBy("broker", "destination").agg(
        F.count("*").alias("answers"), *sums, *last, F.max("size").alias("largest"),
        F.max("memory_percent").alias("memory_percent"), F.count_if("is_start").alias("starts"),
        F.min("at").alias("begin"), F.max("at").alias("end"),
    )  # fmt: skip
    records = grouped.orderBy(F.desc("largest"), "broker", "destination").limit(MAX_DESTINATIONS).collect()
    rows: list[tuple[Value, ...]] = [
        (
            row["broker"], row["destination"], row["answers"], row["enqueued"], row["dequeued"], row["expired"],
            row["growth"], row["enqueued"] - row["dequeued"] - row["growth"], row["last_size"], row["largest"],
            row["last_consumers"], row["last_producers"], row["memory_percent"], row["starts"],
        )
        for row in records
    ]  # fmt: skip
    chart = None
    if records:
        shown = [(row["broker"], row["destination"]) for row in records[:MAX_SERIES]]
        chart = _sizes(frame, shown, min(row["begin"] for row in records), max(row["end"] for row in records))
    return limit_rows("counters", "What the brokers count", ABOUT, COLUMNS, rows), chart


def _sizes(frame: DataFrame, shown: list[tuple[str, str]], begin: datetime, end: datetime) -> LineChart:
    step_s = step_of(begin, end)
    names = {name for _, name in shown}
    some = frame.where(F.col("destination").isin(sorted(names)))
    counts = some.groupBy("broker", "destination", bucket(F.col("at"), step_s)).agg(F.max("size").alias("size"))
    sizes: dict[tuple[str, str], dict[int, float]] = {}
    for row in counts.collect():
        sizes.setdefault((row["broker"], row["destination"]), {})[row["bucket"]] = float(row["size"])
    first, last = int(begin.timestamp()) // step_s, int(end.timestamp()) // step_s
    series = [
        Series(
            f"{name} at {broker}",
            [
                (begin_of(number, step_s, begin), sizes.get((broker, name), {}).get(number))
                for number in range(first, last + 1)
            ],
        )
        for broker, name in shown
    ]
    return LineChart("sizes", "Messages in queues over time", f"most in steps of {span_text(step_s)}", series)
