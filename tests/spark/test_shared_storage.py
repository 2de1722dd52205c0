"""Streams, archives and replay with S3 in place of a shared disk, without Hadoop's connector."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from spanwire.client.messages.typed_values import Byte, Float
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.commands import archive
from spanwire.pipeline.archive.selection import ARCHIVE_DDL, Selection, totals
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.supervisor import RouteEvent
from spanwire.pipeline.storage.arrow_files import open_files
from tests.support.broker_process import BrokerProcess
from tests.support.canary import CANARY
from tests.support.peers import missing, require
from tests.support.queues import Sent, numbered, send, take_all
from tests.support.replays import replayed

if TYPE_CHECKING or missing("s3") is None:
    from tests.support.s3_server import S3Server

COUNT = 2500  # rows: more than one partition


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    require("s3")
    with S3Server() as server:
        server.create_bucket("streams")
        yield server


def test_a_stream_stages_in_a_bucket_and_shows_no_secret(
    spark: SparkSession, spanwire: BrokerProcess, s3: S3Server, tmp_path: Path
) -> None:
    url, address = spanwire.openwire_uri(), s3.address("streams/staging", "s3a")
    send(url, "SHARED", numbered(COUNT))
    for _ in range(2):
        source = spark.readStream.format("spanwire").options(
            url=url, destination="SHARED", stagingDirectory=address, maxRowsPerBatch="2000"
        )
        writer = source.load().writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        assert CANARY not in str(query.recentProgress)
        assert "credential" not in str(query.lastProgress)
        send(url, "SHARED", numbered(5, COUNT))
    texts = [row["text"] for row in spark.read.parquet(str(tmp_path / "out")).select("text").collect()]
    assert sorted(texts) == sorted(f"text {number}" for number in range(COUNT + 5))
    assert len(take_all(url, "SHARED")) == 5


@pytest.mark.long
def test_an_archive_in_a_bucket_is_chosen_from_sent_again_and_read_by_spark(
    spark: SparkSession, spanwire: BrokerProcess, s3: S3Server, tmp_path: Path
) -> None:
    url, address = spanwire.openwire_uri(), s3.address("streams/archive", "s3a")
    send(url, "KEEP.A", [Sent(f"a {n}", {"n": n, "b": Byte(1), "f": Float(0.5)}) for n in range(20)])
    send(url, "KEEP.B", [Sent(b"b", {"n": 20}), Sent({"m": 1}, {"n": 21})])
    told: list[RouteEvent] = []
    options = {"url": url, "destination": "queue://KEEP.>"}
    assert archive("unused", options, address, AVAILABLE_NOW, told.append, threading.Event())
    assert [(event.rows, event.batch) for event in told] == [(22, 1)]
    expected = [("queue://KEEP.A", 20), ("queue://KEEP.B", 2)]
    assert [(one.destination, one.count) for one in totals(spark, Selection(address))] == expected
    choice = Selection(address, selector="n BETWEEN 5 AND 14")
    sent = replayed(spark, choice, url, tmp_path / "state")
    found = take_all(url, "KEEP.A")
    assert (sent, [message.body for message in found]) == (10, [f"a {n}" for n in range(5, 15)])
    assert found[0].typed_properties["b"] == ("byte", 1) and found[0].typed_properties["f"] == ("float", 0.5)
    files = open_files(address)
    for name in files.all_sizes():
        if name.endswith(".parquet"):
            (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "copy" / name).write_bytes(files.read(name))
    rows = spark.read.schema(ARCHIVE_DDL).parquet(str(tmp_path / "copy"))
    numbers = rows.where("destination = 'queue://KEEP.B'").selectExpr("properties['n']::int AS n", "body:m::int AS m")
    assert sorted((row["n"], row["m"]) for row in numbers.collect()) == [(20, None), (21, 1)]
    assert [(one.destination, one.count) for one in totals(spark, Selection(str(tmp_path / "copy")))] == expected


def test_a_bucket_without_an_archive_is_refused(spark: SparkSession, s3: S3Server) -> None:
    with pytest.raises(ConfigurationError, match="s3://streams/nothing is no archive"):
        totals(spark, Selection(s3.address("streams/nothing")))
