"""Archives as frames for a report: messages, advisories, statistics.

Messages of a topic below ``ActiveMQ.Advisory.`` are advisories in any archive. Only archives named as statistics are
read as statistics. Facts that a broker without `advisoryFor…` does not publish are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import PARTITIONS, STATE
from spanwire.pipeline.archive.selection import ARCHIVE_DDL, read_archive
from spanwire.pipeline.columns.destinations import ADVISORIES
from spanwire.pipeline.storage.location import local_path

MAX_ARCHIVES: Final = 100  # archives of one kind; Spark lists the files of each
MESSAGES: Final = "messages"
SENT: Final = "sent"
EVENT: Final = rf"^topic://{ADVISORIES.replace('.', '[.]')}([A-Za-z]+)(?:[.](Queue|Topic|TempQueue|TempTopic)[.](.*))?$"
SCHEMES: Final = {"Queue": "queue://", "Topic": "topic://", "TempQueue": "temp-queue://", "TempTopic": "temp-topic://"}
DEAD_LETTERS: Final = r"^queue://(ActiveMQ[.])?DLQ([.].*)?$"
CONNECTION: Final = r"^(.*):[^:]*:[^:]*:[^:]*$"  # message id: connection:session:producer:number


@dataclass(frozen=True, slots=True)
class Inputs:
    """The directories of archives."""

    messages: tuple[str, ...]
    advisories: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()

    def check(self) -> None:
        """Check the directories.

        Raises:
            ConfigurationError: a directory is no archive, is named twice, or no archive is named.
        """
        named = [*self.messages, *self.advisories, *self.statistics, *self.sent]
        if not named:
            raise ConfigurationError("name an archive at least, as spanwire pipeline archive has written it")
        seen: set[Path] = set()
        for name in named:
            local = local_path(name)
            if local is None:
                raise ConfigurationError(f"{name} is on shared storage, where no report reads; name a copy on a disk")
            path = local.resolve()
            if not path.is_dir():
                raise ConfigurationError(f"there is no directory {name}")
            if not any(path.glob(f"{PARTITIONS[0]}=*")) and not (path / STATE).is_dir():
                raise ConfigurationError(f"{name} is no archive; there is no {PARTITIONS[0]}=… in it")
            if path in seen:
                raise ConfigurationError(f"{name} is named twice; its messages would count as doubled")
            seen.add(path)
        for group in (self.messages, self.advisories, self.statistics, self.sent):
            if len(group) > MAX_ARCHIVES:
                raise ConfigurationError(f"{len(group)} archives are more than the {MAX_ARCHIVES} of one report")


def messages(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """Return a row for each archived message except advisories.

    | archive, role | name of the archive, and ``messages`` or ``sent`` |
    | id, destination, connection | connection: of the sender |
    | sent_at, in_at, out_at | by the clock of the sender and of the last broker |
    | path | ids of the forwarding brokers, never null |
    | size | octets of the archived body |
    | redelivered, persistent, cause | cause: of a dead letter, or null |
    """
    rows = [_read(spark, name, MESSAGES) for name in inputs.messages]
    rows += [_read(spark, name, SENT) for name in inputs.sent]
    rows += [_read(spark, name, MESSAGES) for name in inputs.advisories]
    frame = reduce(DataFrame.unionByName, rows) if rows else _empty_frame(spark)
    frame = frame.where(~F.col("JMSDestination").startswith(f"topic://{ADVISORIES}"))
    return frame.select(
        "archive",
        "role",
        F.col("JMSMessageID").alias("id"),
        F.col("JMSDestination").alias("destination"),
        F.nullif(F.regexp_extract("JMSMessageID", CONNECTION, 1), F.lit("")).alias("connection"),
        F.col("JMSTimestamp").alias("sent_at"),
        F.col("JMSActiveMQBrokerInTime").alias("in_at"),
        F.col("JMSActiveMQBrokerOutTime").alias("out_at"),
        _path(F.col("JMSActiveMQBrokerPath")).alias("path"),
        _size().alias("size"),
        F.coalesce("JMSRedelivered", F.lit(False)).alias("redelivered"),
        (F.col("JMSDeliveryMode") == "PERSISTENT").alias("persistent"),
        F.try_variant_get(F.col("properties")["dlqDeliveryFailureCause"], "$", "string").alias("cause"),
    )


def events(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """Return a row for each advisory.

    | kind | such as ``MessageDelivered``, ``Consumer`` |
    | broker, broker_id, at | the publishing broker, and the time by its clock |
    | destination | the destination of the advisory |
    | structure | the type of the structure in the body |
    | id, connection, sent_at, in_at, path, size | of a message in the body |
    | party | the id of a consumer, producer or connection in the body |
    | client, subscription, is_network | of a client in the body |
    """
    names = [*inputs.messages, *inputs.advisories]
    rows = [_read(spark, name, MESSAGES) for name in names]
    frame = reduce(DataFrame.unionByName, rows) if rows else _empty_frame(spark)
    frame = frame.where(F.col("JMSDestination").startswith(f"topic://{ADVISORIES}"))
    family = F.regexp_extract("JMSDestination", EVENT, 2)
    scheme = reduce(
        lambda rest, family_name: F.when(family == family_name, SCHEMES[family_name]).otherwise(rest),
        SCHEMES,
        F.lit(None),
    )
    return frame.select(
        F.regexp_extract("JMSDestination", EVENT, 1).alias("kind"),
        F.coalesce(_property("originBrokerName"), _property("originBrokerId"), F.lit("?")).alias("broker"),
        _property("originBrokerId").alias("broker_id"),
        F.coalesce("JMSActiveMQBrokerInTime", "JMSTimestamp").alias("at"),
        F.concat(scheme, F.regexp_extract("JMSDestination", EVENT, 3)).alias("destination"),
        _entry("type").alias("structure"),
        F.coalesce(_entry("messageId"), _property("orignalMessageId")).alias("id"),
        _entry("connectionId").alias("connection"),
        F.timestamp_millis(_entry("timestamp", "bigint")).alias("sent_at"),
        F.timestamp_millis(_entry("brokerInTime", "bigint")).alias("in_at"),
        _path(_entry("brokerPath", "array<string>")).alias("path"),
        F.coalesce(_entry("size", "bigint"), F.lit(0)).alias("size"),
        F.coalesce(_entry("consumerId"), _entry("objectId"), _property("consumerId"), _entry("producerId")).alias(
            "party"
        ),
        _entry("clientId").alias("client"),
        _entry("subscriptionName").alias("subscription"),
        F.coalesce(_entry("networkSubscription", "boolean"), F.lit(False)).alias("is_network"),
    )


def statistics(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """Return a row for each reply of the statistics plugin about a destination.

    The columns are broker, destination, at, size, enqueued, dequeued, expired, consumers, producers, memory_percent.
    """
    rows = [_read(spark, name, MESSAGES) for name in inputs.statistics]
    frame = reduce(DataFrame.unionByName, rows) if rows else _empty_frame(spark)
    frame = frame.where(_entry("destinationName").isNotNull() & _entry("enqueueCount", "bigint").isNotNull())
    return frame.select(
        F.coalesce(_entry("brokerName"), F.lit("?")).alias("broker"),
        _entry("destinationName").alias("destination"),
        F.coalesce("JMSTimestamp", "JMSActiveMQBrokerInTime").alias("at"),
        _entry("size", "bigint").alias("size"),
        _entry("enqueueCount", "bigint").alias("enqueued"),
        _entry("dequeueCount", "bigint").alias("dequeued"),
        F.coalesce(_entry("expiredCount", "bigint"), F.lit(0)).alias("expired"),
        _entry("consumerCount", "bigint").alias("consumers"),
        _entry("producerCount", "bigint").alias("producers"),
        _entry("memoryPercentUsage", "bigint").alias("memory_percent"),
    )


def _read(spark: SparkSession, name: str, role: str) -> DataFrame:
    label = Path(name).resolve().name
    return read_archive(spark, name).withColumn("archive", F.lit(label)).withColumn("role", F.lit(role))


def _empty_frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], ARCHIVE_DDL).withColumn("archive", F.lit("")).withColumn("role", F.lit(MESSAGES))


def _entry(name: str, kind: str = "string") -> Column:
    """Return an entry of a map body or of an advisory; null for another type."""
    return F.try_variant_get("body", f"$.{name}", kind)


def _property(name: str) -> Column:
    return F.try_variant_get(F.col("properties")[name], "$", "string")


def _path(column: Column) -> Column:
    return F.coalesce(column, F.array().cast("array<string>"))


def _size() -> Column:
    structured = F.when(F.col("body_type").isin("map", "stream"), F.length(F.to_json("body")))
    return F.coalesce(F.octet_length("text"), F.octet_length("bytes"), structured, F.lit(0)).cast("bigint")
