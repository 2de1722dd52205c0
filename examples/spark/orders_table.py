"""Queue ORDERS into a table of a database, each order once: spark-submit orders_table.py DIRECTORY [JDBC URL]."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spanwire.pipeline.executors import prepare_executors
from spanwire.pipeline.jdbc import write_once

URL = os.environ.get("SPANWIRE_URL", "tcp://127.0.0.1:61616")


def fill(spark: SparkSession, url: str, queue: str, directory: Path, table: dict[str, str]) -> None:
    """Take what is in the queue now, whatever was killed before."""
    orders = (
        spark.readStream.format("spanwire")
        .option("url", url)
        .option("destination", f"queue://{queue}")
        .option("stagingDirectory", str(directory / "_staging"))
        .load()
        .selectExpr("JMSMessageID AS id", "properties['region']::string AS region", "text")
    )

    def write(batch: DataFrame, number: int) -> None:
        write_once(batch, number, table)

    query = (
        orders.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(directory / "_checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    database = sys.argv[2] if len(sys.argv) > 2 else f"jdbc:derby:{folder}/orders;create=true"
    options = {"url": database, "dbtable": "orders"}
    with SparkSession.builder.appName("orders into a table").getOrCreate() as session:
        prepare_executors(session)  # for a cluster
        fill(session, URL, "ORDERS", folder, options)
        rows = session.read.format("jdbc").options(**options).load()
        print(f"{rows.count()} orders, {rows.select('id').distinct().count()} different ones")
