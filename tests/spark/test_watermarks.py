"""What the page about an empty output says of windows, watermarks and the progress."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tests.support.broker_process import BrokerProcess
from tests.support.queues import Sent, send

EPOCH: Final = "1970-01-01T00:00:00.000Z"
END_S: Final = 200.0


class Windows:
    """Counts of minutes, with a watermark of 10 seconds, of what is in the queues now."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, queues: Iterable[str]) -> None:
        self._spark: Final = spark
        self._url: Final = url
        self._folder: Final = folder
        self._queues: Final = list(queues)

    def run(self) -> dict[str, Any]:
        """The progress of the last batch that had rows."""
        streams = [self._messages(queue).withWatermark("at", "10 seconds") for queue in self._queues]
        messages = streams[0] if len(streams) == 1 else streams[0].unionByName(streams[1])
        minutes = messages.groupBy(sf.window("at", "1 minute")).count().selectExpr("window.start AS start", "count")
        writer = minutes.writeStream.format("parquet").option("checkpointLocation", str(self._folder / "checkpoint"))
        query = writer.option("path", str(self._folder / "minutes")).trigger(availableNow=True).start()
        assert query.awaitTermination(END_S)
        last: dict[str, Any] = query.lastProgress
        return last

    def written(self) -> list[tuple[str, int]]:
        rows = self._spark.read.schema("start TIMESTAMP, count BIGINT").parquet(str(self._folder / "minutes"))
        return sorted((f"{row['start']:%H:%M}", row["count"]) for row in rows.collect())

    def _messages(self, queue: str) -> DataFrame:
        source = self._spark.readStream.format("spanwire").options(url=self._url, destination=f"queue://{queue}")
        source = source.option("stagingDirectory", str(self._folder / queue))
        return source.load().selectExpr("text::timestamp AS at")


def at(*times: str) -> list[Sent]:
    return [Sent(f"2026-01-31 {time}") for time in times]


def test_a_window_waits_for_a_later_message_and_the_progress_tells(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    windows = Windows(spark, url, tmp_path, ["MINUTES"])
    send(url, "MINUTES", at("12:00:10", "12:00:50"))
    progress = windows.run()
    assert windows.written() == []
    assert progress["stateOperators"][0]["numRowsTotal"] == 1
    assert progress["eventTime"]["watermark"] < "2026-01-31T12:01:00.000Z"
    send(url, "MINUTES", at("12:01:09"))
    windows.run()
    assert windows.written() == []
    send(url, "MINUTES", at("12:01:10"))
    progress = windows.run()
    assert progress["eventTime"]["watermark"] == "2026-01-31T12:01:00.000Z"
    assert windows.written() == [("12:00", 2)]
    send(url, "MINUTES", at("12:00:59"))
    progress = windows.run()
    assert progress["stateOperators"][0]["numRowsDroppedByWatermark"] == 1
    assert windows.written() == [("12:00", 2)]


@pytest.mark.long
def test_an_idle_queue_holds_the_watermark_back(spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path) -> None:
    url = spanwire.openwire_uri()
    windows = Windows(spark, url, tmp_path, ["BUSY", "IDLE"])
    send(url, "BUSY", at("12:00:10", "12:05:00"))
    progress = windows.run()
    assert (windows.written(), progress["eventTime"]["watermark"]) == ([], EPOCH)
    send(url, "IDLE", at("12:04:00"))
    windows.run()
    assert windows.written() == []  # after a start, Spark knows no time of the other queue
