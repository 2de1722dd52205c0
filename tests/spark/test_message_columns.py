"""Columns of one's own out of messages, and messages out of them, with their types and through Parquet."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spanwire.client import Body
from spanwire.client.messages.typed_values import Double, Int, Long
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.message_columns import (
    body_as,
    jms_value,
    json_text,
    map_body,
    properties_of,
    property_as,
    stream_body,
    text_as,
)
from tests.support.broker_process import BrokerProcess
from tests.support.queues import Sent, send, take_all


def test_bodies_and_properties_become_columns(spark: SparkSession, spanwire: BrokerProcess) -> None:
    url = spanwire.openwire_uri()
    properties = {"price": Double(1.5), "n": Long(7)}
    bodies: list[Body] = ['{"symbol": "IBM", "lots": 3}', {"a": Int(1), "b": "x"}, [Int(1), "x"]]
    send(url, "COLUMNS.IN", [Sent(body, properties) for body in bodies])
    frame = spark.read.format("spanwire").options(url=url, destination="COLUMNS.IN").load()
    rows = frame.select(
        property_as("price", "double"),
        property_as("n", "bigint"),
        property_as("none", "int"),
        text_as("symbol STRING, lots INT").alias("json"),
        body_as("struct<a: int, b: string>").alias("map"),
        body_as("array<string>").alias("stream"),
    ).collect()
    assert [tuple(row)[:3] for row in rows] == [(1.5, 7, None)] * 3
    assert tuple(rows[0]["json"]) == ("IBM", 3)
    assert tuple(rows[1]["map"]) == (1, "x")
    assert rows[2]["stream"] == ["1", "x"]


def test_columns_become_bodies_and_properties_of_exact_types(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    typed = {kind: jms_value("id", kind) for kind in ("byte", "short", "int", "long", "float", "double", "string")}
    columns = properties_of(**typed, none=jms_value("nothing", "int"), flag=jms_value("is_so", "boolean"))
    frame = spark.range(5, 6).selectExpr("id", "'x' AS name", "cast(null AS int) AS nothing", "true AS is_so")
    frame.select(json_text("id", "name"), columns).write.parquet(str(tmp_path / "kept"))
    spark.read.parquet(str(tmp_path / "kept")).write.format("spanwire").mode("append").options(
        url=url, destination="COLUMNS.OUT", duplicateIdProperty=""
    ).save()
    for body in (map_body("id", "name"), stream_body("id", "name")):
        frame.select(body).write.format("spanwire").mode("append").options(url=url, destination="COLUMNS.OUT").save()
    text, mapped, stream = take_all(url, "COLUMNS.OUT")
    assert text.body == '{"id":5,"name":"x"}'
    assert text.typed_properties == {
        "byte": ("byte", 5),
        "short": ("short", 5),
        "int": ("int", 5),
        "long": ("long", 5),
        "float": ("float", 5.0),
        "double": ("double", 5.0),
        "string": ("string", "5"),
        "none": ("null", None),
        "flag": ("boolean", True),
    }
    assert (mapped.kind, mapped.body) == ("map", {"id": 5, "name": "x"})
    assert (stream.kind, stream.body) == ("stream", [5, "x"])
    with pytest.raises(ConfigurationError, match="'decimal' is no type of JMS; there are boolean, byte"):
        jms_value("id", "decimal")
