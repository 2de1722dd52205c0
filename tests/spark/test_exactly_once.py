"""Sinks that take every batch once, on both brokers: what a repeated batch and a wrong broker lead to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spanwire.client import blocking
from tests.support.broker_process import BrokerProcess
from tests.support.queues import TIMEOUT_S, numbered, send, take_all
from tests.support.streams import run_to_the_end

ONCE = "ONCE_AND_ONLY_ONCE"


def numbers(url: str, queue: str) -> list[object]:
    return [message.properties["n"] for message in take_all(url, queue)]


def write_batch(spark: SparkSession, url: str, queue: str, number: int, way: str) -> None:
    frame = spark.range(10).selectExpr("'x' AS text", f"map('n', {number} * 100 + id) AS properties")
    options = {"url": url, "destination": queue, "qualityOfServiceMode": ONCE, "exactlyOnceBy": way}
    frame.write.format("spanwire").mode("append").options(
        **options, ledger=f"series-{queue.removeprefix('topic://')}", ledgerBatch=str(number)
    ).save()


def test_a_stream_whose_last_batch_is_repeated_sends_it_once(spark: SparkSession, url: str, tmp_path: Path) -> None:
    rows = spark.range(2500).coalesce(1).selectExpr("'x' AS text", "map('n', id) AS properties")
    rows.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows")).repartition(2)
    writer = stream.writeStream.format("spanwire").options(
        url=url,
        destination="REPEATED",
        qualityOfServiceMode=ONCE,
        duplicateIdProperty="id",
        checkpointLocation=str(tmp_path / "checkpoint"),
    )
    query = run_to_the_end(writer)
    (tmp_path / "checkpoint/commits/0").unlink()  # as if the driver had been killed right before it wrote that
    (tmp_path / "checkpoint/commits/.0.crc").unlink(missing_ok=True)
    run_to_the_end(writer)
    assert (tmp_path / "checkpoint/commits/0").exists()
    messages = take_all(url, "REPEATED")
    assert sorted(int(str(message.properties["n"])) for message in messages) == list(range(2500))
    assert messages[0].properties["id"] == f"{query.id}/0/0/0"


def test_a_cursor_feeds_a_stream_and_keeps_what_is_not_committed(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url, name = spanwire.openwire_uri(), f"HELD.{tmp_path.name}"
    send(url, name, numbered(2500))
    stream = spark.readStream.format("spanwire").options(url=url, destination=name, cursor=name, maxRowsPerBatch="2000")
    writer = stream.load().select("text", "properties", "sequence").writeStream.format("spanwire")
    writer = writer.options(url=url, destination=f"{name}.OUT", qualityOfServiceMode=ONCE)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = run_to_the_end(writer)
    ends = [json.loads(one["sources"][0]["endOffset"]) for one in query.recentProgress if one["numInputRows"]]
    assert ends == [{"cursor": name, "number": 2000}, {"cursor": name, "number": 2500}]
    assert [message.properties["n"] for message in take_all(url, f"{name}.OUT")] == list(range(2500))
    assert take_all(url, name) == []
    other = spark.readStream.format("spanwire").options(url=url, destination=name, cursor="other").load()
    other_writer = other.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match=f"belongs to the cursor '{name}', not to the cursor 'other'"):
        run_to_the_end(other_writer)


def test_a_cursor_with_a_selector_feeds_a_stream_and_leaves_the_rest_to_others(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url, name = spanwire.openwire_uri(), f"MIXED.{tmp_path.name}"
    send(url, name, numbered(2500))
    options = {"url": url, "destination": name, "cursor": name, "selector": "n >= 2000 OR n < 10"}
    stream = spark.readStream.format("spanwire").options(**options, maxRowsPerBatch="200").load()
    seen: dict[int, list[list[int]]] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        seen.setdefault(batch, []).append(
            sorted(row["n"] for row in frame.selectExpr("CAST(properties.n AS INT) AS n").collect())
        )
        if batch == 1 and len(seen[batch]) == 1:
            raise ValueError("as if the driver had been killed after the batch, before it wrote that")

    writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match="as if the driver"):
        run_to_the_end(writer)
    send(url, name, numbered(5))
    run_to_the_end(writer)
    first, *others = seen[1]
    assert others == [first]
    moved = [number for batch in seen for number in seen[batch][-1]]
    assert sorted(moved) == sorted([*range(10), *range(2000, 2500), *range(5)])
    assert numbers(url, name) == list(range(10, 2000))


@pytest.mark.parametrize("way", [pytest.param("auto", marks=pytest.mark.smoke), "ledger"])
def test_a_series_of_writes_counts_each_number_once(spark: SparkSession, url: str, way: str, tmp_path: Path) -> None:
    queue = f"SERIES.{tmp_path.name}"
    for number in (0, 1, 1, 0, 2):
        write_batch(spark, url, queue, number, way)
    assert sorted(map(int, map(str, numbers(url, queue)))) == [n * 100 + i for n in range(3) for i in range(10)]


def test_a_topic_gives_each_batch_once_to_its_subscription_and_its_queue(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    topic, subscriber = f"VirtualTopic.{tmp_path.name}", f"once-{tmp_path.name}"
    queue = f"Consumer.A.{topic}"
    with blocking.connect(url, client_id=subscriber) as connection, connection.session(acknowledge="auto") as session:
        session.create_consumer(f"queue://{queue}").close()
        consumer = session.create_durable_subscriber(f"topic://{topic}", "s")
        for number in (0, 1, 1):
            write_batch(spark, url, f"topic://{topic}", number, "auto")
        expected = [n * 100 + i for n in range(2) for i in range(10)]
        received = [consumer.receive(timeout=TIMEOUT_S) for _ in expected]
        assert sorted(int(str(message.properties["n"])) for message in received if message is not None) == expected
        assert consumer.receive(timeout=0.1) is None
    assert sorted(map(int, map(str, numbers(url, queue)))) == expected


@pytest.mark.long
def test_a_checkpoint_that_wrote_to_another_broker_is_refused(
    spark: SparkSession, spanwire: BrokerProcess, classic: BrokerProcess
) -> None:
    queue = "MOVED"
    write_batch(spark, spanwire.openwire_uri(), queue, 0, "ledger")
    with pytest.raises(Exception, match="no ledger of the query series-MOVED, which is at batch 1") as caught:
        write_batch(spark, classic.openwire_uri(), queue, 1, "ledger")
    assert "firstLedgerBatch" in str(caught.value)
    with pytest.raises(Exception, match="no ledger of the query series-MOVED"):
        write_batch(spark, spanwire.openwire_uri(), queue, 1, "control")
    assert numbers(classic.openwire_uri(), queue) == []


def test_a_write_that_does_not_say_which_one_it_is_is_refused(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("'x' AS text")
    writer = frame.write.format("spanwire").mode("append").options(destination="Q", qualityOfServiceMode=ONCE)
    with pytest.raises(Exception, match=r"needs a name for this write.*ledgerBatch, a rising number"):
        writer.save()
