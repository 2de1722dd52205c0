"""More than one queue, topics, and filters that the broker applies."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from spanwire.client import blocking
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.queues import Sent, numbered, send, take_all
from tests.support.streams import run_to_the_end


def test_a_pattern_takes_the_messages_of_all_queues_under_it(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "WILD.A", numbered(30))
    send(url, "WILD.B.C", numbered(30, 30))
    with blocking.connect(url) as connection, connection.session(acknowledge="auto") as session:
        session.create_producer("queue://WILD.A,WILD.B.C").send("both", properties={"n": 60})
    source = spark.readStream.format("spanwire").options(
        url=url, destination="queue://WILD.>", stagingDirectory=str(tmp_path / "staging")
    )
    writer = source.load().writeStream.format("parquet").option("path", str(tmp_path / "parquet"))
    query = run_to_the_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    found = spark.read.parquet(str(tmp_path / "parquet")).selectExpr("JMSDestination", "properties['n']::int").collect()
    wanted = [("queue://WILD.A", n) for n in [*range(30), 60]] + [("queue://WILD.B.C", n) for n in range(30, 61)]
    assert sorted(map(tuple, found)) == wanted
    assert query.lastProgress is not None
    latest = json.loads(str(query.lastProgress["sources"][0]["latestOffset"]))
    assert latest["segment"] >= 1 and latest["behindMs"] >= 0


def test_a_durable_subscription_of_a_topic_is_read_and_a_topic_is_written(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    options = {"url": url, "destination": "topic://NEWS", "clientId": "reader", "subscription": "archive"}
    source = spark.readStream.format("spanwire").options(**options, stagingDirectory=str(tmp_path / "staging"))
    writer = source.load().writeStream.format("parquet").option("path", str(tmp_path / "parquet"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    run_to_the_end(writer)  # from here on the topic keeps messages for it
    frame = spark.range(20).selectExpr("cast(id AS string) AS text")
    frame.write.format("spanwire").mode("append").options(url=url, destination="topic://NEWS").save()
    run_to_the_end(writer)
    rows = spark.read.parquet(str(tmp_path / "parquet")).select("JMSDestination", "text").collect()
    assert sorted(int(row["text"]) for row in rows) == list(range(20))
    assert {row["JMSDestination"] for row in rows} == {"topic://NEWS"}


def test_queues_of_two_brokers_are_read_by_one_stream_and_the_progress_tells_of_each(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    first = spanwire.openwire_uri()
    with BrokerProcess(spanwire_command(), tmp_path / "second") as broker:
        second = broker.openwire_uri()
        for number, (url, queue) in enumerate([(first, "MANY.A"), (first, "MANY.B"), (second, "MANY.A")]):
            send(url, queue, numbered(100, 100 * number))
        source = spark.readStream.format("spanwire").options(
            brokers=f"{first},{second}",
            destination="MANY.A,MANY.B",
            cursor="many",
            selector="n <> 57",
            maxRowsPerBatch="200",
        )
        writer = source.load().writeStream.format("parquet").option("path", str(tmp_path / "parquet"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = run_to_the_end(writer)
        send(second, "MANY.B", numbered(100, 300))
        again = run_to_the_end(writer)
        left = [len(take_all(url, "MANY.A")) for url in (first, second)]
    found = spark.read.parquet(str(tmp_path / "parquet")).selectExpr("properties['n']::int").collect()
    assert sorted(n for (n,) in found) == [n for n in range(400) if n != 57]
    assert left == [1, 0]
    assert query.lastProgress is not None and again.lastProgress is not None
    latest = json.loads(str(query.lastProgress["sources"][0]["latestOffset"]))
    names = [f"{url} queue://MANY.{end}" for url in sorted((first, second)) for end in "AB"]
    assert (sorted(latest["sources"]), sorted(latest["lag"]), latest["away"]) == (names, names, {})
    assert sum(json.loads(str(again.lastProgress["sources"][0]["latestOffset"]))["sources"].values()) == 399


def test_a_filter_reaches_the_broker_when_it_is_asked_to(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "FILTERED", [*numbered(10), Sent("text x", {"_AMQ_NONE": 1})])
    frame = spark.read.format("spanwire").options(url=url, destination="FILTERED", filterPushdown="true")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        rows = frame.load().where("JMSPriority > 4").count()
        assert rows == 0
        assert frame.option("selector", "n < 7").load().where("JMSPriority = 4 AND text <> 'text 3'").count() == 6
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert len(take_all(url, "FILTERED")) == 11


def test_a_write_repeated_under_one_prefix_arrives_once(spark: SparkSession, spanwire: BrokerProcess) -> None:
    url = spanwire.openwire_uri()
    frame = spark.range(3).coalesce(1).selectExpr("cast(id AS string) AS text")
    for _ in range(2):
        writer = frame.write.format("spanwire").mode("append").options(url=url, destination="REPEATED")
        writer.option("duplicateIdPrefix", "query/7").save()  # the broker drops what it has
    ids = [message.properties["_AMQ_DUPL_ID"] for message in take_all(url, "REPEATED")]
    assert ids == [f"query/7/0/{n}" for n in range(3)]
