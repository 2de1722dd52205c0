"""Sightings of messages of queues: a row for each message at each broker, then a row for each message.

| sighting | source |
|---|---|
| arrived at a broker | the advisory MessageDelivered |
| left a broker | MessageConsumed; also for dead and expired messages |
| dead, expired | MessageDLQd, Expired; a dead letter in an archive |
| received | a row of an archive |
| sent | a row of an archive of sent messages |

A message that left a broker was forwarded as often as it arrived elsewhere from that broker, and at least once if a
later sighting has the broker in its path. Otherwise its consumer was a receiver. A message that a bridge consumed and
that has no later sighting has vanished between two brokers. A message is pending where it arrived and did not leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.report.clients import Consumer, network_only
from spanwire.pipeline.report.sources import DEAD_LETTERS, MESSAGES, SENT
from spanwire.pipeline.report.traffic import MAX_DESTINATIONS

ARRIVED: Final = "arrived"
KINDS: Final[dict[str, str]] = {
    "MessageDelivered": ARRIVED,
    "MessageConsumed": "left",
    "MessageDLQd": "dead",
    "Expired": "expired",
}
DISPATCHED: Final = "MessageDispatched"
KEY: Final = ("destination", "id")
EXPIRY_CAUSE: Final = "%expir%"  # pattern for the cause of an expired dead letter


def is_queue() -> SparkColumn:
    """Return a column: true for queues except dead-letter queues.

    A dead letter belongs to the ledger of its original queue.
    """
    name = F.col("destination")
    return name.startswith("queue://") & ~name.rlike(DEAD_LETTERS)


def at_brokers(spark: SparkSession, events: DataFrame, consumers: Mapping[str, Consumer]) -> DataFrame:
    """Return a row for each message at each broker with sightings.

    The row counts how often the message arrived, was delivered, forwarded, vanished, died, expired and is pending.
    """
    reported = events.where(F.col("kind").isin(*KINDS, DISPATCHED) & F.col("id").isNotNull() & is_queue())
    is_arrival = F.col("kind") == "MessageDelivered"
    from_id = F.when(is_arrival & (F.size("path") > 0), F.element_at("path", -1))
    seen = reported.groupBy(*KEY, "broker").agg(
        *[F.count_if(F.col("kind") == kind).alias(name) for kind, name in KINDS.items()],
        F.max("broker_id").alias("broker_id"),
        F.min("sent_at").alias("sent_at"),
        F.max(F.when(is_arrival, F.col("at"))).alias("arrived_at"),
        F.max("at").alias("last_at"),
        F.collect_list(from_id).alias("direct"),
        F.array_distinct(F.flatten(F.collect_list("path"))).alias("behind"),
        F.max_by("party", F.when(F.col("kind") == DISPATCHED, F.col("at"))).alias("taker"),
    )
    return _with_takers(spark, seen, consumers)


def in_archives(messages: DataFrame) -> DataFrame:
    """Return a row for each archived message: the number of receptions, and the brokers on its path."""
    rows = messages.where((F.col("role") == MESSAGES) & F.col("cause").isNull() & is_queue())
    return rows.groupBy(*KEY).agg(
        F.count("*").alias("received"),
        F.min("sent_at").alias("archived_sent_at"),
        F.array_distinct(F.flatten(F.collect_list("path"))).alias("archived_behind"),
    )


def other_copies(messages: DataFrame) -> DataFrame:
    """Return copies of sent messages and dead letters by id alone, because their queues differ."""
    is_sent, is_dead = F.col("role") == SENT, F.col("cause").isNotNull() | F.col("destination").rlike(DEAD_LETTERS)
    rows = messages.where(is_sent | is_dead).withColumn("has_expired", F.lower("cause").like(EXPIRY_CAUSE))
    return rows.groupBy("id").agg(
        F.count_if(is_sent).alias("sent_copies"),
        F.count_if(~is_sent & ~F.coalesce("has_expired", F.lit(False))).alias("dead_copies"),
        F.count_if(~is_sent & F.coalesce("has_expired", F.lit(False))).alias("expired_copies"),
        F.min("sent_at").alias("copy_sent_at"),
        F.min(F.when(is_sent, F.col("destination"))).alias("copy_destination"),
    )


def of_messages(sightings: DataFrame, archived: DataFrame, copies: DataFrame) -> DataFrame:
    """Return a row for each message: destination, id, sent_at, since, place, is_announced, and its ends.

    The ends are the numbers of delivered, dead, expired and pending copies.
    """
    sightings = _with_forwards(sightings, archived)
    at_all = sightings.groupBy(*KEY).agg(
        *[F.sum(name).alias(name) for name in (ARRIVED, "delivered", "dead", "expired", "pending")],
        F.min("sent_at").alias("sent_at"),
        F.coalesce(F.max(F.when(F.col("pending") > 0, F.col("arrived_at"))), F.max("last_at")).alias("since"),
        F.concat_ws("; ", F.sort_array(F.collect_list(_location_text()))).alias("place"),
    )
    both = at_all.join(archived.drop("archived_behind"), list(KEY), "full_outer")
    both = both.join(copies, "id", "full_outer")
    both = both.withColumn("destination", F.coalesce("destination", "copy_destination"))
    both = both.where(F.col("destination").isNotNull())
    zero = F.lit(0)
    for name in (ARRIVED, "delivered", "dead", "expired", "pending", "received", "sent_copies"):
        both = both.withColumn(name, F.coalesce(name, zero))
    further = F.greatest(F.col("received") - F.col("delivered"), zero)  # deliveries without an advisory
    both = both.withColumn("pending", F.greatest(F.col("pending") - further, zero))
    both = both.withColumn("delivered", F.greatest("delivered", "received"))
    has_no_end = F.col("delivered") + F.col("dead") + F.col("expired") + F.col("pending") == 0
    for name in ("dead", "expired"):
        both = both.withColumn(name, F.when(has_no_end, F.coalesce(f"{name}_copies", zero)).otherwise(F.col(name)))
    in_archive = F.when(F.col("received") > 0, F.concat(F.lit("in archives: "), F.col("received").cast("string")))
    return both.select(
        *KEY,
        F.coalesce("sent_at", "archived_sent_at", "copy_sent_at").alias("sent_at"),
        "since",
        F.concat_ws("; ", F.nullif("place", F.lit("")), in_archive).alias("place"),
        ((F.col(ARRIVED) > 0) | (F.col("sent_copies") > 0)).alias("is_announced"),
        "delivered",
        "dead",
        "expired",
        "pending",
    )


def _with_takers(spark: SparkSession, seen: DataFrame, consumers: Mapping[str, Consumer]) -> DataFrame:
    """Add ``is_bridge``: true if a bridge consumed the message.

    The last dispatch decides, or all known consumers of the destination.
    """
    takers = [(consumer_id, consumer.is_network) for consumer_id, consumer in consumers.items()]
    known = spark.createDataFrame(takers, "taker string, taker_is_bridge boolean")
    pairs = seen.select("broker", "destination").distinct().limit(MAX_DESTINATIONS).collect()
    bridged = network_only(consumers, [(row["broker"], row["destination"]) for row in pairs])
    rows = [(broker, destination, True) for broker, destination in sorted(bridged)]
    only = spark.createDataFrame(rows, "broker string, destination string, is_bridged boolean")
    joined = seen.join(F.broadcast(known), "taker", "left").join(F.broadcast(only), ["broker", "destination"], "left")
    return joined.withColumn("is_bridge", F.coalesce("taker_is_bridge", "is_bridged", F.lit(False)))


def _with_forwards(sightings: DataFrame, archived: DataFrame) -> DataFrame:
    """Add the ends of each message at each broker, from later sightings."""
    direct = sightings.select(*KEY, F.explode("direct").alias("broker_id"), F.lit(1).alias("times"))
    passed = sightings.select(*KEY, F.explode("behind").alias("broker_id")).unionByName(
        archived.select(*KEY, F.explode("archived_behind").alias("broker_id"))
    )
    behind = passed.distinct().withColumn("times", F.lit(0))
    forwards = (
        direct.unionByName(behind)
        .groupBy(*KEY, "broker_id")
        .agg(F.greatest(F.sum("times"), F.lit(1)).alias("forwarded"))
    )
    joined = sightings.join(forwards, [*KEY, "broker_id"], "left")
    joined = joined.withColumn("forwarded", F.coalesce("forwarded", F.lit(0)))
    zero = F.lit(0)
    ended = F.greatest("dead", "expired")
    received = F.greatest(F.col("left") - ended - F.col("forwarded"), zero)
    left_count = F.greatest(F.col("left"), ended + F.col("forwarded"))
    return joined.select(
        *KEY, "broker", ARRIVED, "sent_at", "arrived_at", "last_at", "expired",
        F.greatest(F.col("dead") - F.col("expired"), zero).alias("dead"),
        F.when(F.col("is_bridge"), zero).otherwise(received).alias("delivered"),
        F.when(F.col("is_bridge"), received).otherwise(zero).alias("vanished"),
        F.greatest(F.col(ARRIVED) - left_count, zero).alias("pending"),
    )  # fmt: skip


def _location_text() -> SparkColumn:
    """Return the ends of a message at a broker as text; null if the broker forwarded it."""
    words = {"delivered": "delivered at", "dead": "dead at", "expired": "expired at", "pending": "pending at"}
    texts = [
        F.when(F.col(name) > 0, F.concat(F.lit(f"{text} "), F.col("broker"), _times(F.col(name))))
        for name, text in words.items()
    ]
    vanished = F.when(
        F.col("vanished") > 0, F.concat("broker", F.lit(" gave it to another broker, where it did not arrive"))
    )
    return F.nullif(F.concat_ws(", ", *texts, vanished), F.lit(""))


def _times(count: SparkColumn) -> SparkColumn:
    return F.when(count > 1, F.concat(F.lit(" "), count.cast("string"), F.lit(" times"))).otherwise("")
