"""Requests and their replies as pairs, what stays unanswered as dead letters: pair_requests.py DIRECTORY.

Queues REQUESTS and REPLIES are read as one stream. A reply has the id of its request as JMSCorrelationID.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from spanwire.pipeline.session import local_session

URL: Final = os.environ.get("SPANWIRE_URL", "tcp://127.0.0.1:61616")
FORMAT = "spanwire"
TIMEOUT_MS: Final = 30_000
ROCKS: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS: Final = {"spark.sql.streaming.stateStore.providerClass": ROCKS}  # transformWithState has no other store

WAITING: Final = "is_request BOOLEAN, text STRING, due BIGINT"
RESULT: Final = "queue STRING, id STRING, text STRING, cause STRING"


class Pairing(StatefulProcessor):  # type: ignore[misc]  # PySpark is not read
    """Keeps the first message of each id until the other one comes, or until its time is over."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called in each task of each batch, before any row."""
        self._handle = handle
        self._waiting = handle.getValueState("waiting", WAITING)

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Pair the messages of one id."""
        for row in rows:
            waiting = self._waiting.get()
            if waiting is None:
                due = timerValues.getCurrentProcessingTimeInMs() + self._timeout_ms
                self._waiting.update((row.is_request, row.text, due))
                self._handle.registerTimer(due)
                continue
            is_request, text, due = waiting
            if is_request == row.is_request:
                yield dead_letter(key[0], row.is_request, row.text, "another message has the same id")
                continue
            self._waiting.clear()
            self._handle.deleteTimer(due)
            request, reply = (text, row.text) if is_request else (row.text, text)
            pair = json.dumps({"request": request, "reply": reply})
            yield Row(queue="queue://PAIRS", id=key[0], text=pair, cause=None)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[str],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Make a dead letter of the message whose time is over."""
        is_request, text, _ = self._waiting.get()
        self._waiting.clear()
        missing = "reply" if is_request else "request"
        yield dead_letter(key[0], is_request, text, f"no {missing} within {self._timeout_ms} ms")


def dead_letter(key: str, is_request: bool, text: str, cause: str) -> Row:
    """Return the result for a message without a partner."""
    return Row(queue=f"queue://{'REQUESTS' if is_request else 'REPLIES'}.UNPAIRED", id=key, text=text, cause=cause)


def paired(messages: DataFrame, timeout_ms: int) -> DataFrame:
    """Return pairs and dead letters as messages for the sink."""
    halves = messages.selectExpr(
        "JMSDestination = 'queue://REQUESTS' AS is_request",
        "coalesce(JMSCorrelationID, JMSMessageID) AS id",
        "text",
    )
    results = halves.groupBy("id").transformWithState(
        statefulProcessor=Pairing(timeout_ms),
        outputStructType=RESULT,
        outputMode="append",
        timeMode="processingTime",
    )
    return results.selectExpr(
        "queue AS JMSDestination",
        "id AS JMSCorrelationID",
        "text",
        "CASE WHEN cause IS NOT NULL THEN map('dlqDeliveryFailureCause', cause) END AS properties",
    )


def start(spark: SparkSession, url: str, directory: Path, timeout_ms: int, every: str = "1 second") -> StreamingQuery:
    """Start the query, which goes on where the checkpoint in the directory ends."""
    messages = (
        spark.readStream.format(FORMAT)
        .option("url", url)
        .option("destination", "queue://REQUESTS,REPLIES")
        .option("stagingDirectory", str(directory / "staging"))
        .load()
    )
    return (
        paired(messages, timeout_ms)
        .writeStream.format(FORMAT)
        .option("url", url)
        .option("qualityOfServiceMode", "ONCE_AND_ONLY_ONCE")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(processingTime=every)
        .start()
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with local_session("pairs", settings=SETTINGS, log=folder / "spark.log") as session:
        start(session, URL, folder, TIMEOUT_MS).awaitTermination()
