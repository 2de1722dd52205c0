"""Queue ORDERS into topic orders of Kafka, and the topic into Parquet without doubles.

    spark-submit --packages … orders_kafka.py send HOST:PORT DIRECTORY
    spark-submit --packages … orders_kafka.py read HOST:PORT DIRECTORY

Kafka gets a batch again when it is repeated after a crash. Each record has the id of its message and the number of its
batch as headers, so a reader finds doubles by the id, all of them within one batch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spanwire.pipeline.executors import prepare_executors

URL = os.environ.get("SPANWIRE_URL", "tcp://127.0.0.1:61616")
TOPIC = "orders"
MESSAGE_ID = "JMSMessageID"
BATCH_ID = "spanwire.batch"


def records(batch: DataFrame, query: str, number: int) -> DataFrame:
    """Return rows for Kafka's sink, with the id of the message and of the batch as headers."""
    return batch.select(
        sf.lit(TOPIC).alias("topic"),
        sf.expr("properties['region']::string").alias("key"),
        sf.col("text").alias("value"),
        sf.array(
            header(MESSAGE_ID, sf.col("JMSMessageID")),
            header(BATCH_ID, sf.lit(f"{query}/{number}")),
        ).alias("headers"),
    )


def header(name: str, value: Column) -> Column:
    """Return one header."""
    return sf.struct(sf.lit(name).alias("key"), value.cast("binary").alias("value"))


def each_once(topic: DataFrame) -> DataFrame:
    """Return records of a topic that was read with ``includeHeaders``, one for each message."""
    by_name = sf.map_from_entries("headers")
    orders = topic.select(
        by_name[MESSAGE_ID].cast("string").alias("id"),
        by_name[BATCH_ID].cast("string").alias("batch"),
        sf.col("key").cast("string").alias("region"),
        sf.col("value").cast("string").alias("text"),
    )
    return orders.dropDuplicates(["id"])


def send(spark: SparkSession, url: str, servers: str, directory: Path) -> None:
    """Take what is in the queue now into the topic, at least once."""
    orders = (
        spark.readStream.format("spanwire")
        .option("url", url)
        .option("destination", "queue://ORDERS")
        .option("stagingDirectory", str(directory / "_staging"))
        .load()
    )

    def write(batch: DataFrame, number: int) -> None:
        query = str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
        records(batch, query, number).write.format("kafka").option("kafka.bootstrap.servers", servers).save()

    query = (
        orders.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(directory / "_checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read(spark: SparkSession, servers: str, directory: Path) -> None:
    """Write what the topic holds to Parquet, each order once."""
    topic = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", TOPIC)
        .option("includeHeaders", "true")
        .load()
    )
    each_once(topic).write.mode("overwrite").parquet(str(directory / "orders"))
    print(f"{topic.count()} records, {spark.read.parquet(str(directory / 'orders')).count()} orders")


if __name__ == "__main__":
    with SparkSession.builder.appName("orders into Kafka").getOrCreate() as session:
        prepare_executors(session)  # for a cluster
        if sys.argv[1] == "send":
            send(session, URL, sys.argv[2], Path(sys.argv[3]))
        else:
            read(session, sys.argv[2], Path(sys.argv[3]))
