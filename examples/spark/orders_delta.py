"""Queue ORDERS into a Delta table, each order once: spark-submit --packages … orders_delta.py DIRECTORY."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spanwire.pipeline.delta import write_once
from spanwire.pipeline.executors import prepare_executors

URL = os.environ.get("SPANWIRE_URL", "tcp://127.0.0.1:61616")
ROWS = "25"  # of a batch


def fill(spark: SparkSession, url: str, queue: str, directory: Path) -> None:
    """Take what is in the queue now into two tables, whatever was killed before."""
    orders = (
        spark.readStream.format("spanwire")
        .option("url", url)
        .option("destination", f"queue://{queue}")
        .option("cursor", "delta")
        .option("maxRowsPerBatch", ROWS)
        .load()
        .selectExpr("JMSMessageID AS id", "properties['region']::string AS region", "text")
    )

    def write(batch: DataFrame, number: int) -> None:
        write_once(batch, number, {"path": str(directory / "orders")})
        write_once(batch.where("region = 'north'"), number, {"path": str(directory / "north")})

    query = (
        orders.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(directory / "_checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with SparkSession.builder.appName("orders into Delta").getOrCreate() as session:
        prepare_executors(session)  # for a cluster
        fill(session, URL, "ORDERS", folder)
        rows = session.read.format("delta").load(str(folder / "orders"))
        north = session.read.format("delta").load(str(folder / "north"))
        different = rows.select("id").distinct().count()
        print(f"{rows.count()} orders, {different} different ones, {north.count()} of the north")
