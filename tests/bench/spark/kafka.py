"""A topic of Kafka into Parquet by Spark's own source, through the same steps as a queue."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.bench.spark.runs import PARTITIONS, SYMBOLS
from tests.support.kafka import JARS
from tests.support.kafka_client import KafkaClient

ROWS_PER_BATCH = 100_000  # as the source of a queue has them


def jars() -> tuple[list[Path], Path]:
    """Return the jars of the source, and the folder with those of the server; no jars where there are none."""
    home = Path(os.environ.get(JARS, ""))
    server = home / "kafka-server"
    found = sorted((home / "kafka").glob("*.jar")) if list(server.glob("kafka_*.jar")) else []
    return found, server


def fill(spark: SparkSession, servers: str, topic: str, count: int, size: int) -> None:
    """Write ``count`` records with the texts of a queue's messages, and their properties as headers."""
    KafkaClient(servers).create(topic, PARTITIONS)
    symbols = ", ".join(f"'{symbol}'" for symbol in SYMBOLS)
    symbol = f"element_at(array({symbols}), int(id % {len(SYMBOLS)}) + 1)"
    fields = (("n", "string(id)"), ("symbol", symbol), ("price", "string(id / 7)"))
    headers = ", ".join(f"struct('{name}' AS key, binary({value}) AS value)" for name, value in fields)
    rows = spark.range(count).select(F.lit("x" * size).alias("value"), F.expr(f"array({headers})").alias("headers"))
    rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()


def source(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return the stream of a topic, with the columns that a queue has."""
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(ROWS_PER_BATCH),
    }
    rows = spark.readStream.format("kafka").options(**options).load()
    properties = "map_from_entries(transform(headers, one -> struct(one.key, string(one.value)::variant)))"
    return rows.select(
        F.concat_ws(":", "topic", "partition", "offset").alias("JMSMessageID"),
        F.col("topic").alias("JMSDestination"),
        F.col("timestamp").alias("JMSTimestamp"),
        F.expr(properties).alias("properties"),
        F.lit("text").alias("body_type"),
        F.col("value").cast("string").alias("text"),
        F.col("offset").alias("sequence"),
    )
