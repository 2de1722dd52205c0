"""Orders in Avro, read and sent on as JSON and as Protobuf, with a schema each: python formats.py.

With SCHEMA_REGISTRY=http://registry:8081 the schemas are registered there, and bodies are in Confluent's wire format.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession

from spanwire.pipeline.formats.format_columns import (
    avro_as,
    avro_body,
    json_as,
    json_body,
    protobuf_as,
    protobuf_body,
    protobuf_schema,
    register_protobuf,
)
from spanwire.pipeline.formats.schema_registry import JSON, SchemaRegistry
from spanwire.pipeline.session import local_session

URL = os.environ.get("SPANWIRE_URL", "tcp://127.0.0.1:61616")
SCHEMAS = Path(__file__).parent / "formats"
FIELDS = ("id", "region", "amount", "placed")


def write(frame: DataFrame, body: Column, url: str, queue: str) -> None:
    """One message for each row."""
    frame.select(body).write.format("spanwire").mode("append").options(url=url, destination=queue).save()


def read(spark: SparkSession, order: Column, url: str, queue: str) -> DataFrame:
    """The orders that are in a queue; they stay there."""
    messages = spark.read.format("spanwire").options(url=url, destination=queue).load()
    return messages.select(order.alias("order")).select("order.*")


def convert(spark: SparkSession, url: str, registry: SchemaRegistry | None = None) -> dict[str, DataFrame]:
    """Send orders in each format; what is in each queue then."""
    avro: str = (SCHEMAS / "order.avsc").read_text()
    rules: str = (SCHEMAS / "order.schema.json").read_text()
    avro_schema = avro if registry is None else registry.register("orders-avro-value", avro)
    json_schema = rules if registry is None else registry.register("orders-json-value", rules, JSON)
    message = protobuf_schema(SCHEMAS / "order.desc", "shop.Order")
    if registry is not None:
        message = register_protobuf(registry, "orders-protobuf-value", message)

    orders = spark.range(1, 4).selectExpr(
        "id",
        "element_at(array('north', 'south', 'west'), cast(id AS INT)) AS region",
        "cast(id * 1.5 AS DECIMAL(9, 2)) AS amount",
        "timestamp'2026-01-02T03:04:05Z' AS placed",
    )
    write(orders, avro_body(*FIELDS, schema=avro_schema), url, "ORDERS.AVRO")

    received = read(spark, avro_as(avro_schema), url, "ORDERS.AVRO")
    plain = received.selectExpr("id", "region", "cast(amount AS DOUBLE) AS amount", "placed")
    write(plain, json_body(*FIELDS, schema=json_schema), url, "ORDERS.JSON")
    write(plain, protobuf_body(*FIELDS, schema=message), url, "ORDERS.PROTOBUF")
    return {
        "ORDERS.AVRO": received,
        "ORDERS.JSON": read(spark, json_as(json_schema), url, "ORDERS.JSON"),
        "ORDERS.PROTOBUF": read(spark, protobuf_as(message), url, "ORDERS.PROTOBUF"),
    }


if __name__ == "__main__":
    address = os.environ.get("SCHEMA_REGISTRY")
    with local_session("formats") as session:
        for name, frame in convert(session, URL, SchemaRegistry(address) if address else None).items():
            print(name)
            frame.show(truncate=False)
