"""DataFrames into queues of both brokers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession, functions

from spanwire.client import Body, Property
from spanwire.client.messages.typed_values import Byte, Double, Int, Long
from tests.support.broker_process import BrokerProcess
from tests.support.queues import Sent, numbered, send, take_all
from tests.support.streams import run_to_the_end

DUPLICATE_ID = "_AMQ_DUPL_ID"


@pytest.mark.smoke
def test_rows_become_messages_with_headers_and_typed_properties(spark: SparkSession, url: str) -> None:
    frame = spark.createDataFrame([Row(text="hello", JMSType="t", JMSCorrelationID="c", JMSXGroupID="g")])
    frame = frame.select(
        "*",
        functions.expr("map('price', 1.5D::variant, 'n', 7::bigint::variant, 's', 'x'::variant)").alias("properties"),
        functions.lit(7).alias("JMSPriority"),
        functions.lit("NON_PERSISTENT").alias("JMSDeliveryMode"),
        functions.lit("queue://ANSWERS").alias("JMSReplyTo"),
        functions.lit(datetime(2100, 1, 1, tzinfo=UTC)).alias("JMSExpiration"),
    )
    frame.write.format("spanwire").mode("append").options(url=url, destination="WRITTEN").save()
    (message,) = take_all(url, "WRITTEN")
    assert (message.body, message.kind, message.message_type, message.correlation_id) == ("hello", "text", "t", "c")
    assert (message.priority, message.persistent, message.group_id, str(message.reply_to)) == (
        7, False, "g", "queue://ANSWERS",
    )  # fmt: skip
    assert abs(message.expiration - 4_102_444_800_000) < 60_000
    typed = message.typed_properties
    assert (typed["price"], typed["s"]) == (("double", 1.5), ("string", "x"))
    assert typed["n"][1] == 7  # an integer that Spark made has the smallest width that holds it


def test_each_row_goes_to_the_queue_it_names(spark: SparkSession, url: str) -> None:
    rows = [Row(JMSDestination=f"queue://ROUTED.{n % 2}", bytes=bytes([n])) for n in range(10)]
    spark.createDataFrame(rows).coalesce(1).write.format("spanwire").mode("append").option("url", url).save()
    assert [message.body for message in take_all(url, "ROUTED.0")] == [bytes([n]) for n in range(0, 10, 2)]
    assert [message.body for message in take_all(url, "ROUTED.1")] == [bytes([n]) for n in range(1, 10, 2)]


def test_what_is_read_is_written_as_it_was(spark: SparkSession, url: str, tmp_path: Path) -> None:
    bodies: list[Body] = ["text ä", b"\x00\xff", {"k": Int(1), "l": Long(2)}, [Int(1), "x"], [], None]
    properties: dict[str, Property] = {"a": Byte(1), "b": Double(0.5), "c": "x", "d": True}
    send(url, "ORIGINAL", [Sent(body, {**properties, "n": n}) for n, body in enumerate(bodies)])
    source = spark.readStream.format("spanwire").options(
        url=url, destination="ORIGINAL", stagingDirectory=str(tmp_path / "staging")
    )
    writer = source.load().writeStream.format("spanwire").options(url=url, destination="COPY")
    query = run_to_the_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    copies = take_all(url, "COPY")
    ids = [copy.typed_properties[DUPLICATE_ID] for copy in copies]
    assert [kind for kind, _ in ids] == ["string"] * 6
    assert [value for _, value in ids] == [f"{query.id}/0/0/{index}" for index in range(6)]
    assert [copy.kind for copy in copies] == ["text", "bytes", "map", "stream", "stream", "message"]
    assert [copy.body for copy in copies] == ["text ä", b"\x00\xff", {"k": 1, "l": 2}, [1, "x"], [], None]
    for n, copy in enumerate(copies):
        typed = {name: value for name, value in copy.typed_properties.items() if name != DUPLICATE_ID}
        assert typed == {
            "a": ("byte", 1),
            "b": ("double", 0.5),
            "c": ("string", "x"),
            "d": ("boolean", True),
            "n": ("int", n),
        }


def test_a_stream_may_aggregate_into_a_queue(spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path) -> None:
    url = spanwire.openwire_uri()
    send(url, "PRICES", [Sent("", {"symbol": "AB"[n % 2], "price": float(n)}) for n in range(100)])
    prices = spark.readStream.format("spanwire").options(
        url=url, destination="PRICES", stagingDirectory=str(tmp_path / "staging"), bodies="none"
    )
    totals = (
        prices.load()
        .select(
            "JMSTimestamp",
            functions.expr("properties['symbol']::string AS symbol"),
            functions.expr("properties['price']::double AS price"),
        )
        .withWatermark("JMSTimestamp", "0 seconds")
        .groupBy(functions.window("JMSTimestamp", "1 second"), "symbol")
        .agg(functions.count("*").alias("count"), functions.sum("price").alias("sum"))
        .select(
            functions.to_json(functions.struct("symbol", "count", "sum")).alias("text"),
            functions.expr("map('symbol', symbol::variant, 'count', count::variant)").alias("properties"),
        )
    )
    writer = totals.writeStream.format("spanwire").options(url=url, destination="TOTALS").outputMode("append")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for number in range(2):  # the second run's message moves the watermark over the windows of the first
        run_to_the_end(writer)
        if number == 0:
            spark.sql("SELECT 1").collect()
            later = [Sent("", {"symbol": "C", "price": 0.0})]
            send(url, "PRICES", later)
    totals_found = take_all(url, "TOTALS")
    counted: dict[object, int] = {}
    for message in totals_found:
        symbol, count = message.properties["symbol"], message.properties["count"]
        assert isinstance(count, int)
        counted[symbol] = counted.get(symbol, 0) + count
    assert {symbol: counted.get(symbol) for symbol in "AB"} == {"A": 50, "B": 50}


def test_a_partition_of_many_rows_is_sent_in_several_transactions(spark: SparkSession, spanwire: BrokerProcess) -> None:
    url = spanwire.openwire_uri()
    frame = spark.range(2500).select(functions.col("id").cast("string").alias("text"))
    options = {"url": url, "destination": "MANY", "maxRowsPerTransaction": "400", "duplicateIdProperty": ""}
    frame.write.format("spanwire").mode("append").options(**options).save()
    messages = take_all(url, "MANY")
    assert sorted(int(str(message.body)) for message in messages) == list(range(2500))
    assert all(message.properties == {} for message in messages)


def test_nothing_is_sent_of_a_transaction_with_a_bad_row(spark: SparkSession, spanwire: BrokerProcess) -> None:
    url = spanwire.openwire_uri()
    frame = (
        spark.range(10)
        .coalesce(1)
        .select(functions.col("id").cast("string").alias("text"), functions.col("id").alias("JMSPriority"))
    )
    bad = frame.select("text", functions.expr("JMSPriority + 5").alias("JMSPriority"))
    with pytest.raises(Exception, match="spanwire: JMSPriority is 10; it must lie between 0 and 9"):
        bad.write.format("spanwire").mode("append").options(url=url, destination="BAD").save()
    send(url, "BAD", numbered(1))
    assert [message.body for message in take_all(url, "BAD")] == ["text 0"]
