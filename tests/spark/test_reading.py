"""Queues as DataFrames, from both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType, VariantType, VariantVal

from spanwire.client import Body, Property
from spanwire.client.messages.typed_values import Byte, Double, Float, Int, Long, Short
from spanwire.model.message_view import BYTE_VALUE, INT_VALUE, LIST_VALUE, MAP_VALUE, STRING_VALUE, PropertyValue
from spanwire.pipeline.arrow.schema import arrow_schema
from spanwire.pipeline.columns.variant import decode_variant, encode_variant
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.queues import Sent, numbered, send, take_all
from tests.support.streams import run_to_the_end

BATCH_TIMEOUT_S = 200
TYPED: dict[str, Property] = {
    "a": Byte(1),
    "b": Short(2),
    "c": Int(3),
    "d": Long(4),
    "e": Float(0.5),
    "f": Double(0.25),
    "g": True,
    "h": "x",
}
SPARK_TYPES = {"a": "TINYINT", "b": "SMALLINT", "c": "INT", "d": "BIGINT", "e": "FLOAT", "f": "DOUBLE"}


def batch(spark: SparkSession, url: str, queue: str, **options: str) -> DataFrame:
    return spark.read.format("spanwire").options(url=url, destination=f"queue://{queue}", **options).load()


def archive(spark: SparkSession, url: str, queue: str, folder: Path, **options: str) -> DataFrame:
    """Everything in the queue through a stream into Parquet; what lies there then."""
    source = spark.readStream.format("spanwire").options(
        url=url, destination=f"queue://{queue}", stagingDirectory=str(folder / "staging"), **options
    )
    writer = source.load().writeStream.format("parquet").option("path", str(folder / "parquet"))
    run_to_the_end(writer.option("checkpointLocation", str(folder / "checkpoint")))
    return spark.read.parquet(str(folder / "parquet"))


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select(functions.expr("properties['n']::int")).collect())


def wait_for(query: StreamingQuery, is_done: Callable[[], bool]) -> None:
    """Let the stream work until something is so; fails when it never is, or the query ends."""
    deadline = time.monotonic() + BATCH_TIMEOUT_S
    while not is_done():
        assert not query.awaitTermination(1), "the query has ended"
        assert time.monotonic() < deadline, f"nothing more came: {query.lastProgress}"


def test_spark_and_arrow_agree_about_the_columns(spark: SparkSession) -> None:
    frame = spark.read.format("spanwire").option("destination", "Q").load()
    assert to_arrow_schema(frame.schema, timezone="UTC").equals(arrow_schema(), check_metadata=True)


def test_a_batch_read_looks_at_the_queue_and_leaves_it(spark: SparkSession, url: str) -> None:
    send(url, "BROWSED", numbered(300))
    frame = batch(spark, url, "BROWSED")
    assert numbers(frame) == list(range(300))
    assert numbers(batch(spark, url, "BROWSED", selector="n >= 290")) == list(range(290, 300))
    assert len(take_all(url, "BROWSED")) == 300


@pytest.mark.smoke
def test_a_stream_takes_every_message_once_and_the_queue_is_empty(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    send(url, "ARCHIVED", numbered(2500))
    found = archive(spark, url, "ARCHIVED", tmp_path, maxRowsPerBatch="1000")
    assert numbers(found) == list(range(2500))
    assert found.where("text = 'text ' || (properties['n']::string)").count() == 2500
    assert take_all(url, "ARCHIVED") == []


def test_the_broker_selects(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, "SELECTED", numbered(20))
    assert numbers(archive(spark, url, "SELECTED", tmp_path, selector="n < 5")) == list(range(5))
    assert len(take_all(url, "SELECTED")) == 15


def test_types_of_properties_survive_spark_and_parquet(spark: SparkSession, url: str, tmp_path: Path) -> None:
    send(url, "TYPED", [Sent("x", TYPED)])
    found = archive(spark, url, "TYPED", tmp_path)
    (row,) = found.collect()
    properties = row["properties"].items()
    kinds = {name: decode_variant(bytes(value.value), bytes(value.metadata)) for name, value in properties}
    assert {name: type(value).__name__ for name, (_, value) in kinds.items()} == {
        "a": "int", "b": "int", "c": "int", "d": "int", "e": "float", "f": "float", "g": "bool", "h": "str",
    }  # fmt: skip
    assert [kinds[name][0] for name in "abcdefgh"] == [2, 4, 5, 6, 8, 7, 1, 9]
    values = found.select(
        *[functions.expr(f"properties['{name}']::double").alias(name) for name in SPARK_TYPES]
    ).collect()
    assert list(values[0]) == [1.0, 2.0, 3.0, 4.0, 0.5, 0.25]


def test_every_kind_of_body_arrives(spark: SparkSession, url: str, tmp_path: Path) -> None:
    bodies: list[Body] = ["text ä", b"\x00\xff", {"k": Int(1), "s": "x"}, [Int(1), "x"], None]
    send(url, "BODIES", [Sent(body, {"n": n}) for n, body in enumerate(bodies)])
    found = archive(spark, url, "BODIES", tmp_path)
    rows = found.orderBy(functions.expr("properties['n']::int")).collect()
    assert [row["body_type"] for row in rows] == ["text", "bytes", "map", "stream", "message"]
    assert (rows[0]["text"], bytes(rows[1]["bytes"])) == ("text ä", b"\x00\xff")
    assert found.select(functions.expr("variant_get(body, '$.s', 'string')")).where("body_type = 'map'").first() == (
        "x",
    )
    assert found.select(functions.expr("variant_get(body, '$[1]', 'string')")).where(
        "body_type = 'stream'"
    ).first() == ("x",)


def test_spark_reads_nested_values_as_we_write_them(spark: SparkSession) -> None:
    inner: PropertyValue = (MAP_VALUE, {"z": (INT_VALUE, 1), "a": (STRING_VALUE, "x" * 100)})
    wide: PropertyValue = (LIST_VALUE, [(BYTE_VALUE, n % 100) for n in range(300)])
    value, metadata = encode_variant((MAP_VALUE, {"inner": inner, "wide": wide}))
    schema = StructType([StructField("v", VariantType())])
    frame = spark.createDataFrame([(VariantVal(value, metadata),)], schema)
    row = frame.select(
        functions.expr("variant_get(v, '$.inner.a', 'string')"),
        functions.expr("variant_get(v, '$.inner.z', 'int')"),
        functions.expr("variant_get(v, '$.wide[299]', 'int')"),
        functions.expr("schema_of_variant(v)"),
    ).first()
    assert row is not None
    assert (row[0], row[1], row[2]) == ("x" * 100, 1, 99)
    assert row[3] == "OBJECT<inner: OBJECT<a: STRING, z: BIGINT>, wide: ARRAY<BIGINT>>"


def test_a_query_goes_on_from_its_checkpoint(spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path) -> None:
    url = spanwire.openwire_uri()
    for start in (0, 100):
        send(url, "AGAIN", numbered(100, start))
        found = archive(spark, url, "AGAIN", tmp_path)
    assert numbers(found) == list(range(200))
    assert [path.name for path in (tmp_path / "staging").glob("*.arrow")] == []


def test_a_new_checkpoint_begins_with_what_is_still_staged(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "STAGED", numbered(10))
    options = {"url": url, "destination": "STAGED", "stagingDirectory": str(tmp_path / "staging")}
    assert numbers(spark.read.format("spanwire").options(mode="consume", **options).load()) == list(range(10))
    send(url, "STAGED", numbered(10, 10))
    assert numbers(archive(spark, url, "STAGED", tmp_path)) == list(range(20))


def test_a_consuming_batch_read_gives_the_same_again_until_its_directory_is_deleted(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "DRAINED", numbered(1500))
    frame = batch(spark, url, "DRAINED", mode="consume", stagingDirectory=str(tmp_path), maxRowsPerBatch="1000")
    assert numbers(frame) == list(range(1500))
    assert take_all(url, "DRAINED") == []
    assert frame.count() == 1500


def test_a_running_stream_outlives_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        send(broker.openwire_uri(), "LASTING", numbered(100))
        source = spark.readStream.format("spanwire").options(
            url=broker.openwire_uri(), destination="LASTING", stagingDirectory=str(tmp_path / "staging")
        )
        writer = source.load().writeStream.format("parquet").option("path", str(tmp_path / "parquet"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            wait_for(query, lambda: len(list((tmp_path / "parquet").glob("*.parquet"))) > 0)
            broker.kill()
            broker.start()
            send(broker.openwire_uri(), "LASTING", numbered(100, 100))
            wait_for(query, lambda: numbers(spark.read.parquet(str(tmp_path / "parquet")))[-1:] == [199])
        finally:
            query.stop()
    assert numbers(spark.read.parquet(str(tmp_path / "parquet"))) == list(range(200))
