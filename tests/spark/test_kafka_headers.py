"""What the example gives Kafka's sink, and how it drops doubles. No Kafka is needed: `make soak-spark` has one."""

from __future__ import annotations

import runpy
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.broker_process import BrokerProcess
from tests.support.queues import numbered, send


def test_each_record_has_message_and_batch_as_headers_and_a_reader_takes_each_message_once(
    spark: SparkSession, spanwire: BrokerProcess
) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/spark/orders_kafka.py"))
    url = spanwire.openwire_uri()
    send(url, "KAFKA.HEADERS", numbered(30))
    batch = spark.read.format("spanwire").options(url=url, destination="KAFKA.HEADERS").load().cache()
    first = example["records"](batch, "query", 7)
    assert first.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    again = first.limit(11).union(first)  # killed after 11, and repeated
    found = example["each_once"](again).collect()
    assert sorted(row["text"] for row in found) == sorted(f"text {number}" for number in range(30))
    assert {row["id"] for row in found} == {row["JMSMessageID"] for row in batch.collect()}
    assert {row["batch"] for row in found} == {"query/7"}
