"""Bodies with a schema in Spark: Avro, Protobuf and JSON out of queues and into them, with a registry and without."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from examples.spark.formats import convert
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
from tests.support.broker_process import BrokerProcess
from tests.support.queues import Sent, send, take_all
from tests.support.schema_registry import running_registry

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
        ],
    }
)
JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
        "required": ["id"],
    }
)
AT = datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)


def orders(spark: SparkSession) -> DataFrame:
    return spark.range(1, 3).selectExpr(
        "id",
        "cast(id * 1.25 AS DECIMAL(9, 2)) AS price",
        "timestamp'2026-01-02T03:04:05.006Z' AS at",
        "date'2026-01-02' AS day",
        "array('a', 'b') AS tags",
        "map('k', cast(id AS int)) AS counts",
    )


def descriptors(folder: Path) -> Path:
    """What protoc makes of two messages."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    file.message_type.add(name="Item").field.add(name="name", number=1, type=9, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="items", number=3, type=11, label=3, type_name=".shop.Item")
    path = folder / "shop.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    return path


def test_columns_of_all_formats_become_bodies_and_come_back(spark: SparkSession, tmp_path: Path) -> None:
    message = protobuf_schema(descriptors(tmp_path), "shop.Order")
    items = sf.expr("array(named_struct('name', tags[0]))").alias("items")
    columns = ("id", "price", "at", "day", "tags", "counts")
    with running_registry("app:secret") as state:
        registry = SchemaRegistry(state.url, "app", "secret")
        registered = registry.register("orders-value", AVRO)
        framed_json = registry.register("json-value", JSON_SCHEMA, JSON)
        framed_message = register_protobuf(registry, "shop-value", message)
        bodies = {
            "avro": avro_body(*columns, schema=AVRO),
            "framed_avro": avro_body(*columns, schema=registered),
            "json": json_body("id", "at", schema=JSON_SCHEMA),
            "framed_json": json_body("id", "at", schema=framed_json),
            "message": protobuf_body("id", "at", items, schema=message),
            "framed_message": protobuf_body("id", "at", items, schema=framed_message),
        }
        readers = {
            "avro": avro_as(AVRO, "avro"),
            "framed_avro": avro_as(registered, "framed_avro"),
            "json": json_as(JSON_SCHEMA, "json"),
            "framed_json": json_as(framed_json, "framed_json"),
            "message": protobuf_as(message, "message"),
            "framed_message": protobuf_as(framed_message, "framed_message"),
        }
        frame = orders(spark).select("id", *[body.alias(name) for name, body in bodies.items()])
        decoded = [reader.alias(f"{name}_again") for name, reader in readers.items()]
        rows = frame.select("*", *decoded).orderBy("id").toArrow().to_pylist()
    for number, row in enumerate(rows, 1):
        price, order = number * Decimal("1.25"), {"id": number, "at": AT}
        avro = {**order, "price": price, "day": AT.date(), "tags": ["a", "b"], "counts": [("k", number)]}
        assert row["avro_again"] == row["framed_avro_again"] == avro
        assert row["json_again"] == row["framed_json_again"] == order
        assert row["message_again"] == row["framed_message_again"] == {**order, "items": [{"name": "a"}]}
        assert row["json"] == f'{{"id":{number},"at":"2026-01-02T03:04:05.006000Z"}}'
        assert row["framed_avro"] == bytes.fromhex("00 00 01 86 a1") + row["avro"]
        assert row["framed_json"] == bytes.fromhex("00 00 01 86 a2") + row["json"].encode()
        assert row["framed_message"] == bytes.fromhex("00 00 01 86 a3 02 02") + row["message"]
    assert len(rows) == 2


def test_a_bad_body_becomes_null_or_its_reason_or_ends_the_query(spark: SparkSession, spanwire: BrokerProcess) -> None:
    url = spanwire.openwire_uri()
    schema = (
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}'
    )
    send(url, "FORMATS.BAD", [Sent(b"\x02\x02x", {}), Sent(b"\x02\x04x", {}), Sent("text", {})])
    frame = spark.read.format("spanwire").options(url=url, destination="FORMATS.BAD").load()
    rows = frame.select(avro_as(schema).alias("null"), avro_as(schema, on_error="column").alias("row")).collect()
    assert [row["null"] and tuple(row["null"]) for row in rows] == [(1, "x"), None, None]
    assert [row["row"] and tuple(row["row"]) for row in rows] == [
        (1, "x", None),
        (None, None, "2 octets are announced, and 1 are there"),
        None,
    ]
    with pytest.raises(PySparkException, match="spanwire: a body cannot be read: 2 octets are announced"):
        frame.select(avro_as(schema, on_error="fail")).collect()
    with pytest.raises(PySparkException, match="spanwire: a row makes no body: a: expected int, got null"):
        spark.sql("SELECT cast(null AS int) AS a, 'x' AS b").select(avro_body("a", "b", schema=schema)).collect()


def test_the_example_converts_orders_in_queues(spark: SparkSession, spanwire: BrokerProcess) -> None:
    url = spanwire.openwire_uri()
    placed = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    expected = [(number, region, number * 1.5, placed) for number, region in enumerate(("north", "south", "west"), 1)]
    with running_registry() as state:
        for queue, frame in convert(spark, url, SchemaRegistry(state.url)).items():
            rows = frame.select("id", "region", sf.col("amount").cast("double"), "placed").orderBy("id").toArrow()
            assert [tuple(row.values()) for row in rows.to_pylist()] == expected, queue
            assert [one.kind for one in take_all(url, queue)] == ["bytes"] * 3
    assert sorted(state.subjects) == ["orders-avro-value", "orders-json-value", "orders-protobuf-value"]
