"""Queue ORDERS as a table; the sums by region, and a queue of large orders, made from it."""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

URL = os.environ.get("SPANWIRE_URL", "tcp://127.0.0.1:61616")
STAGING = os.environ.get("ORDERS_STAGING", "/tmp/spanwire-example-staging")
LARGE = 8.0

dp.create_sink(
    "large_orders",
    format="spanwire",
    options={"url": URL, "destination": "queue://ORDERS.LARGE", "qualityOfServiceMode": "ONCE_AND_ONLY_ONCE"},
)


@dp.table
def orders() -> DataFrame:
    """The only flow that reads the queue."""
    spark = SparkSession.active()
    messages = spark.readStream.format("spanwire").options(
        url=URL, destination="queue://ORDERS", stagingDirectory=STAGING
    )
    return messages.load().selectExpr(
        "JMSMessageID AS id", "properties['region']::string AS region", "properties['amount']::double AS amount"
    )


@dp.materialized_view
def totals() -> DataFrame:
    """Orders and amounts by region."""
    read = SparkSession.active().read.table("orders")
    return read.groupBy("region").agg(sf.count("*").alias("orders"), sf.sum("amount").alias("total"))


@dp.append_flow(target="large_orders")
def send_large_orders() -> DataFrame:
    """Each large order as a message, once."""
    new_orders = SparkSession.active().readStream.table("orders")
    return new_orders.where(f"amount >= {LARGE}").selectExpr("id AS JMSCorrelationID", "to_json(struct(*)) AS text")
