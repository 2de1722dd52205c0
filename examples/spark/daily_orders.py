"""Queue ORDERS into Parquet, and sums by region: spark-submit daily_orders.py DIRECTORY."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spanwire.pipeline.executors import prepare_executors

URL = os.environ.get("SPANWIRE_URL", "tcp://127.0.0.1:61616")


def drain(spark: SparkSession, url: str, queue: str, directory: Path) -> None:
    """Everything that is in the queue now, exactly once, whatever is killed meanwhile."""
    orders = (
        spark.readStream.format("spanwire")
        .option("url", url)
        .option("destination", f"queue://{queue}")
        .option("stagingDirectory", str(directory / "_staging"))
        .load()
    )
    query = (
        orders.selectExpr(
            "JMSMessageID AS id",
            "JMSTimestamp AS sent_at",
            "properties['region']::string AS region",
            "properties['amount']::double AS amount",
            "text",
        )
        .writeStream.format("parquet")
        .option("path", str(directory / "orders"))
        .option("checkpointLocation", str(directory / "_checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def totals(spark: SparkSession, directory: Path) -> DataFrame:
    """Orders and amounts by region."""
    orders = spark.read.parquet(str(directory / "orders"))
    sums = orders.groupBy("region").agg(sf.count("*").alias("orders"), sf.sum("amount").alias("total"))
    return sums.orderBy("region")


if __name__ == "__main__":
    with SparkSession.builder.appName("daily orders").getOrCreate() as session:
        prepare_executors(session)  # for a cluster
        drain(session, URL, "ORDERS", Path(sys.argv[1]))
        totals(session, Path(sys.argv[1])).show()
