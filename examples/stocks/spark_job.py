"""The Spark job of the demonstration: broker B's queue into Parquet, and windows of it back into a queue.

    python spark_job.py tcp://127.0.0.1:61616 DIRECTORY

Two queries. ``archive`` takes trades by a JMS selector, drops by message id what was delivered again, and writes
Parquet; ``windows`` reads the archive as it grows, counts by symbol and 52 weeks, and sends what has changed. Prints
``archived N`` as it goes; reads ``finish``, or the end of its input, then does what is left and prints ``done``.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from prices import ARCHIVE, SELECTOR, WINDOWS
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spanwire.pipeline.session import local_session

CORES: Final = 2
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"  # for a job of a minute
LONGEST_REPLAY: Final = "1 hour"  # between a delivery and its repetition
PAUSE_S: Final = 0.2
MAX_RESTARTS: Final = 20  # of one query, each from its checkpoint

COLUMNS: Final = (
    "JMSMessageID",
    "JMSTimestamp",
    "JMSRedelivered",
    "properties['key']::string AS key",
    "properties['symbol']::string AS symbol",
    "to_date(properties['date']::string, 'MMM d yyyy') AS day",
    "properties['volume']::int AS volume",
    "text::decimal(10, 2) AS price",
)
TOTALS: Final = ("count(*) AS trades", "sum(volume) AS volume", "min(price) AS low", "max(price) AS high")


class Job:
    """Both queries; one that ends because the broker died in the middle of a send goes on from its checkpoint."""

    def __init__(self, spark: SparkSession, url: str, directory: Path) -> None:
        self._spark = spark
        self._url = url
        self._directory = directory
        self._starts: dict[str, Callable[[], StreamingQuery]] = {"archive": self._archive, "windows": self._windows}
        self._restarts = dict.fromkeys(self._starts, 0)
        self._told = 0
        (directory / "archive").mkdir(parents=True)
        self._schema = self._trades().schema
        self._queries = {name: start() for name, start in self._starts.items()}

    def _trades(self) -> DataFrame:
        messages = (
            self._spark.readStream.format("spanwire")
            .option("url", self._url)
            .option("destination", f"queue://{ARCHIVE}")
            .option("selector", SELECTOR)
            .option("stagingDirectory", str(self._directory / "staging"))
            .load()
        )
        once = messages.withWatermark("JMSTimestamp", LONGEST_REPLAY).dropDuplicatesWithinWatermark(["JMSMessageID"])
        return once.selectExpr(*COLUMNS)

    def _archive(self) -> StreamingQuery:
        return (
            self._trades()
            .writeStream.format("parquet")
            .option("path", str(self._directory / "archive"))
            .option("checkpointLocation", str(self._directory / "archive-checkpoint"))
            .start()
        )

    def _windows(self) -> StreamingQuery:
        archive = self._spark.readStream.schema(self._schema).parquet(str(self._directory / "archive"))
        archive.createOrReplaceTempView("archive")
        totals = self._spark.sql(
            f"SELECT symbol, date(window.start) AS begin, {', '.join(TOTALS)} FROM archive "
            "GROUP BY symbol, window(timestamp(day), '52 weeks')"
        )
        return (
            totals.selectExpr("symbol", "to_json(struct(*)) AS text")
            .writeStream.foreachBatch(self._send)
            .outputMode("update")
            .option("checkpointLocation", str(self._directory / "windows-checkpoint"))
            .start()
        )

    def _send(self, changed: DataFrame, batch: int) -> None:
        rows = changed.selectExpr("text", f"map('symbol', symbol, 'batch', '{batch}') AS properties")
        sink = rows.write.format("spanwire").option("url", f"failover:({self._url})")
        sink.option("destination", f"queue://{WINDOWS}").mode("append").save()

    def work(self, finished: threading.Event) -> None:
        """Until told to finish, and then until nothing is left."""
        while not finished.is_set():
            for name, query in self._queries.items():
                if not query.isActive:
                    self._restart(name)
            self._report()
            time.sleep(PAUSE_S)
        for name in self._queries:
            self._drain(name)
        self._report()

    def _drain(self, name: str) -> None:
        while self._restarts[name] <= MAX_RESTARTS:
            try:
                self._queries[name].processAllAvailable()
                self._queries[name].stop()
                return
            except StreamingQueryException:
                self._restart(name)

    def _restart(self, name: str) -> None:
        error = self._queries[name].exception()
        reason = str(error).strip().splitlines()[-1] if error is not None else "it ended"
        self._restarts[name] += 1
        if self._restarts[name] > MAX_RESTARTS:
            raise SystemExit(f"spark job: the query {name} has failed {MAX_RESTARTS} times: {reason}")
        print(f"restarted {name}", flush=True)
        print(f"restarting the query {name}: {error}", file=sys.stderr, flush=True)
        self._queries[name] = self._starts[name]()

    def _report(self) -> None:
        """How many different messages the archive has: as many as the query remembers to drop doubles."""
        progress = self._queries["archive"].lastProgress
        count = progress.stateOperators[0].numRowsTotal if progress is not None and progress.stateOperators else 0
        if count > self._told:
            self._told = count
            print(f"archived {count}", flush=True)


def listen(finished: threading.Event) -> None:
    """Wait for the word, or for the end of whoever would say it."""
    for line in sys.stdin:
        if line.strip() == "finish":
            break
    finished.set()


def main() -> int:
    """Run the job."""
    url, directory = sys.argv[1], Path(sys.argv[2])
    finished = threading.Event()
    threading.Thread(target=listen, args=[finished], daemon=True).start()
    settings = {
        "spark.driver.extraJavaOptions": f"{QUICK_START} -Djava.io.tmpdir={directory}",
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    with local_session("stocks", CORES, settings) as spark:
        Job(spark, url, directory).work(finished)
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
