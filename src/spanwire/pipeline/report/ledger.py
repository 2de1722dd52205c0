"""The ledger of queues: sent = delivered + dead + expired + pending, for each message.

A message must have one end: without an end it is lost, with several it is doubled. A message with an end but without a
reported arrival is unannounced, unless it is older than the record. Sent messages are known for queues with
`advisoryForDelivery`, or from an archive of sent messages; other queues have no ledger.
`spanwire.pipeline.report.sightings` determines the ends of a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.report.clients import Consumer
from spanwire.pipeline.report.model import MAX_SHOWN_IDS, Column, Kind, Table, Value, limit_rows
from spanwire.pipeline.report.sightings import KEY, at_brokers, in_archives, of_messages, other_copies
from spanwire.pipeline.report.sources import SENT
from spanwire.pipeline.report.traffic import DELIVERED, MAX_DESTINATIONS

LOST: Final = "lost"
DOUBLED: Final = "doubled"
UNANNOUNCED: Final = "unannounced"
STUCK: Final = "stuck"
BROKEN: Final = (LOST, DOUBLED, UNANNOUNCED)
STATES: Final = (*BROKEN, STUCK)
ENDS: Final = ("delivered", "dead", "expired", "pending")
NOWHERE: Final = "sent, and seen nowhere"
MAX_NAMED: Final = 5  # queues named in a note

LEDGER_COLUMNS: Final = (
    Column("queue"), Column("sent", Kind.COUNT), *[Column(name, Kind.COUNT) for name in (*ENDS, STUCK, *BROKEN)],
    Column("the ledger"),
)  # fmt: skip
LEDGER_ABOUT: Final = (
    "Sent = delivered + dead + expired + pending, over all brokers; each message counts once when sent."
)
ID_COLUMNS: Final = (
    Column("is"), Column("message id"), Column("queue"), Column("what is known"), Column("sent", Kind.TIME),
    Column("last seen", Kind.TIME),
)  # fmt: skip
ID_ABOUT: Final = "The messages that break the ledger, and those that wait for too long."
HOLDS: Final = "holds"
IS_BROKEN: Final = "is broken"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The sums by queue, the shown ids, notes on unknown facts, and all flagged ids as a frame."""

    table: Table
    ids: Table
    counts: dict[str, int]
    notes: list[str]
    flagged: DataFrame

    @property
    def is_broken(self) -> bool:
        """Return True if there are ids that break the ledger."""
        return any(self.counts.get(state, 0) for state in BROKEN)


def ledger(
    spark: SparkSession,
    messages: DataFrame,
    events: DataFrame,
    consumers: Mapping[str, Consumer],
    stuck_after_s: int,
) -> Ledger:
    """Return the ledger of all sightings; the record ends with the last sighting."""
    begin, end = record(messages, events)
    sightings = at_brokers(spark, events, consumers)
    frame = of_messages(sightings, in_archives(messages), other_copies(messages))
    frame = (
        frame.withColumn("state", _state(begin, end, stuck_after_s)).withColumn("is_sent", _is_sent(begin)).persist()
    )
    rows = frame.groupBy("destination").agg(*_sums()).orderBy("destination").limit(MAX_DESTINATIONS).collect()
    known = [row for row in rows if row["announced"]]
    unknown = [row["destination"] for row in rows if not row["announced"]]
    flagged = frame.where(F.col("state").isNotNull() & F.col("destination").isin([row["destination"] for row in known]))
    flagged = flagged.select(
        *KEY, "state", F.coalesce(F.nullif("place", F.lit("")), F.lit(NOWHERE)).alias("place"), "sent_at", "since"
    )
    counts = {name: sum(int(row[name]) for row in known) for name in ("sent", *STATES)}
    total = sum(counts[state] for state in STATES)
    order = F.array_position(F.array(*[F.lit(state) for state in STATES]), F.col("state"))
    shown = flagged.orderBy(order, *KEY).limit(MAX_SHOWN_IDS).collect() if total else []
    ids: list[tuple[Value, ...]] = [
        (row["state"], row["id"], row["destination"], row["place"], row["sent_at"], row["since"]) for row in shown
    ]
    return Ledger(
        limit_rows("ledger", "Ledger", LEDGER_ABOUT, LEDGER_COLUMNS, [_ledger_row(row) for row in known]),
        Table("ids", "Messages to look at", ID_ABOUT, ID_COLUMNS, ids, total),
        counts,
        _notes(known, unknown),
        flagged,
    )


def record(messages: DataFrame, events: DataFrame) -> tuple[datetime | None, datetime | None]:
    """Return the time of the first known sent message and of the last sighting."""
    advised = events.agg(
        F.min(F.when(F.col("kind") == DELIVERED, F.col("at"))).alias("begin"), F.max("at").alias("end")
    ).first()
    archived = messages.agg(
        F.min(F.when(F.col("role") == SENT, F.col("sent_at"))).alias("begin"),
        F.greatest(F.max("sent_at"), F.max("in_at")).alias("end"),
    ).first()
    assert advised is not None and archived is not None  # sums without rows are one row of nulls
    begins = [row["begin"] for row in (advised, archived) if row["begin"] is not None]
    ends = [row["end"] for row in (advised, archived) if row["end"] is not None]
    return min(begins, default=None), max(ends, default=None)


def _ends() -> SparkColumn:
    return F.col("delivered") + F.col("dead") + F.col("expired") + F.col("pending")


def _is_old(begin: datetime | None) -> SparkColumn:
    return F.coalesce(F.col("sent_at") < F.lit(begin), F.lit(False)) if begin is not None else F.lit(False)


def _is_sent(begin: datetime | None) -> SparkColumn:
    return F.col("is_announced") | _is_old(begin)


def _state(begin: datetime | None, end: datetime | None, stuck_after_s: int) -> SparkColumn:
    """Return the state of a flagged message, or null."""
    latest = None if end is None else end - timedelta(seconds=stuck_after_s)
    waits = F.lit(False) if latest is None else (F.col("pending") > 0) & (F.col("since") <= F.lit(latest))
    return (
        F.when(F.col("is_announced") & (_ends() == 0), LOST)
        .when(_ends() > 1, DOUBLED)
        .when(~_is_sent(begin) & (_ends() > 0), UNANNOUNCED)
        .when(waits, STUCK)
    )


def _sums() -> list[SparkColumn]:
    sums = [F.sum(name).alias(name) for name in ENDS]
    states = [F.count_if(F.col("state") == state).alias(state) for state in STATES]
    return [F.count_if("is_sent").alias("sent"), F.count_if("is_announced").alias("announced"), *sums, *states]


def _ledger_row(row: Row) -> tuple[Value, ...]:
    is_broken = any(row[state] for state in BROKEN)
    sums = [int(row[name]) for name in ("sent", *ENDS, STUCK, *BROKEN)]
    return (row["destination"], *sums, IS_BROKEN if is_broken else HOLDS)


def _notes(known: list[Row], unknown: list[str]) -> list[str]:
    notes = []
    if unknown:
        notes.append(
            f"No record of what was sent to {names_of(unknown)}, so there is no ledger. Set advisoryForDelivery and "
            "advisoryForConsumed in the broker's policy and archive its advisories, or name an archive of what was "
            "sent with --sent."
        )
    silent = [row["destination"] for row in known if row["sent"] and row["sent"] == row["pending"]]
    if silent:
        notes.append(
            f"Nothing has left {names_of(silent)}: there was no consumer, or advisoryForConsumed is not set in the "
            "broker's policy."
        )
    return notes


def names_of(names: list[str]) -> str:
    """Return some names and the number of the others."""
    shown = ", ".join(names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"
