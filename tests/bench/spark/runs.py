"""What ``make bench-spark`` measures, each with its count of what arrived; order and report are `spark_load`'s."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.options import write_options
from spanwire.pipeline.parquet import with_parquet_options
from tests.bench.brokers.activemq import Broker

PER_TRANSACTION = 5000
ACKNOWLEDGED_AT = 10_000
SYMBOLS = ("AAPL", "GOOG", "IBM", "MSFT")
ONCE = {"qualityOfServiceMode": "ONCE_AND_ONLY_ONCE"}
GROUP = 20_000  # rows of a group of the consumer loop, and of a batch of stomp.py
PARTITIONS = 2
END_S = 600.0  # for what must come to an end


@dataclass(frozen=True)
class Run:
    """One measured run: how many rows in how many seconds, and the CPU of the broker and of everything else."""

    rows: int
    seconds: float
    broker_cpu: float
    other_cpu: float
    steady_rate: float = 0.0  # rows per second of the second half of its batches; 0 where there are none
    parts: dict[str, float] = field(default_factory=dict)  # CPU seconds of everything else, told apart

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds


def url_of(broker: Broker) -> str:
    """The address of a broker for OpenWire."""
    return f"tcp://127.0.0.1:{broker.ports['openwire']}"


def fill(url: str, queue: str, count: int, size: int, start: int = 0) -> None:
    """Send ``count`` persistent messages."""
    body = "x" * size
    with blocking.connect(url) as connection, connection.session(acknowledge="transacted") as session:
        producer = session.create_producer(f"queue://{queue}")
        for n in range(start, start + count):
            producer.send(body, properties={"n": n, "symbol": SYMBOLS[n % 4], "price": n / 7})
            if n % PER_TRANSACTION == PER_TRANSACTION - 1:
                session.commit()
        session.commit()


def source(spark: SparkSession, url: str, queue: str, folder: Path, options: dict[str, str]) -> DataFrame:
    """The stream of a queue: through a staging directory, or by a cursor of its own with any option ``cursor``.

    Without ``url`` the options name the brokers.
    """
    way = {"cursor": queue} if "cursor" in options else {"stagingDirectory": str(folder / "staging")}
    given = {**({"url": url} if url else {}), "destination": queue, **options, **way}
    return spark.readStream.format("spanwire").options(**given).load()


def to_parquet(frame: DataFrame, folder: Path) -> float:
    """Everything that is there into files; tells of each batch. The rate of the steady state."""
    options = with_parquet_options("parquet", {"path": str(folder / "parquet")})
    writer = frame.writeStream.format("parquet").options(**options)
    return finish(writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start())


def to_queue(frame: DataFrame, url: str, queue: str, folder: Path) -> float:
    """Everything that is there into another queue. The rate of the steady state."""
    writer = frame.writeStream.format("spanwire").options(url=url, destination=queue, **quality())
    return finish(writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start())


def quality() -> dict[str, str]:
    """Once and only once, where the sink can do it."""
    try:
        write_options({"destination": "queue://X", **ONCE})
    except ConfigurationError:
        return {}
    return ONCE


def finish(query: StreamingQuery) -> float:
    """Until it has ended. The median rate of the batches of its second half: what the JVM has compiled by then costs no
    more.
    """
    rates: list[float] = []
    query.awaitTermination()
    for progress in query.recentProgress:
        durations = progress.durationMs
        sys.stdout.write(
            f"  batch {progress.batchId}: {progress.numInputRows} rows, "
            f"receive {durations.get('latestOffset', 0)} ms, process {durations.get('addBatch', 0)} ms\n"
        )
        if progress.numInputRows and durations.get("triggerExecution"):
            rates.append(progress.numInputRows / durations["triggerExecution"] * 1000)
    sys.stdout.flush()
    return statistics.median(rates[len(rates) // 2 :]) if rates else 0.0


def check_files(spark: SparkSession, folder: Path, count: int) -> None:
    """Every number once; raises SystemExit otherwise."""
    frame = spark.read.parquet(str(folder / "parquet")).selectExpr("properties['n']::int AS n")
    row = frame.selectExpr("count(*)", "count(DISTINCT n)", "min(n)", "max(n)").first()
    if row is None or tuple(row) != (count, count, 0, count - 1):
        raise SystemExit(f"bench: {count} messages were sent, the files hold (rows, different, least, most) {row}")


def check_queue(url: str, queue: str, count: int) -> None:
    """Every number once, by a consumer that knows nothing of Spark; raises SystemExit otherwise."""
    found: list[int] = []
    with blocking.connect(url) as connection, connection.session(acknowledge="client") as session:
        consumer = session.create_consumer(f"queue://{queue}")
        while len(found) < count and (message := consumer.receive(timeout=5.0)) is not None:
            found.append(int(str(message.properties["n"])))
            if len(found) % ACKNOWLEDGED_AT == 0:  # what is out is in the broker's memory
                message.acknowledge()
        if found:
            message_after = consumer.receive(timeout=1.0)
            if message_after is not None:
                raise SystemExit(f"bench: {queue} holds more than the {count} messages that were sent")
    if sorted(found) != list(range(count)):
        raise SystemExit(f"bench: {count} messages were sent, {queue} holds {len(found)}, {len(set(found))} different")


def rate_frame(spark: SparkSession, count: int, size: int) -> DataFrame:
    """Spark's own source of rows, through the same steps: the same columns in batches of the same size."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(min(count, 100_000))).load()
    symbols = ", ".join(f"'{symbol}'" for symbol in SYMBOLS)
    symbol = f"element_at(array({symbols}), int(value % {len(SYMBOLS)}) + 1)::variant"
    return rows.select(
        F.concat(F.lit("ID:bench-1:1:1:"), F.col("value")).alias("JMSMessageID"),
        F.lit("queue://BENCH").alias("JMSDestination"),
        F.col("timestamp").alias("JMSTimestamp"),
        F.expr(f"map('n', int(value)::variant, 'symbol', {symbol}, 'price', (value / 7)::variant)").alias("properties"),
        F.lit("text").alias("body_type"),
        F.lit("x" * size).alias("text"),
        F.col("value").alias("sequence"),
    )


def rate_to_parquet(spark: SparkSession, count: int, size: int, folder: Path) -> None:
    """Spark's rate source into files, until there are ``count`` rows."""
    frame = rate_frame(spark, count, size)
    options = with_parquet_options("parquet", {"path": str(folder / "parquet")})
    writer = frame.writeStream.format("parquet").options(**options)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="0 seconds").start()
    deadline = time.monotonic() + END_S
    while sum(progress.numInputRows for progress in query.recentProgress) < count:
        if time.monotonic() > deadline or not query.isActive:
            raise SystemExit(f"bench: the rate source did not give {count} rows")
        time.sleep(0.02)
    query.stop()


def consumer_loop(url: str, queue: str, count: int, folder: Path) -> None:
    """What one writes without Spark: a consumer and a Parquet file; acknowledged when a group of rows is written."""
    columns = pa.schema([("id", pa.string()), ("n", pa.int64()), ("symbol", pa.string()), ("text", pa.string())])
    with (
        blocking.connect(url) as connection,
        connection.session(acknowledge="client") as session,
        pq.ParquetWriter(str(folder / "loop.parquet"), columns) as writer,
    ):
        consumer = session.create_consumer(f"queue://{queue}")
        done = 0
        while done < count:
            rows: list[Message] = []
            while len(rows) < GROUP and done + len(rows) < count:
                message = consumer.receive(timeout=30.0)
                if message is None:
                    raise SystemExit(f"bench: the consumer loop got {done + len(rows)} of {count} messages")
                rows.append(message)
            values = [
                [str(one.message_id) for one in rows],
                [one.properties["n"] for one in rows],
                [one.properties["symbol"] for one in rows],
                [one.body for one in rows],
            ]
            writer.write_table(pa.table(values, schema=columns))
            rows[-1].acknowledge()
            done += len(rows)


def stomp_in_foreach_batch(spark: SparkSession, port: int, queue: str, count: int, size: int, folder: Path) -> None:
    """What many write: stomp.py on the driver, a message for each row of a batch."""
    import stomp  # noqa: PLC0415 - a peer that need not be installed

    connection = stomp.Connection12([("127.0.0.1", port)])
    connection.connect(wait=True)
    sent = [0]

    def deliver(batch: DataFrame, _: int) -> None:
        for row in batch.toLocalIterator():
            if sent[0] < count:
                headers = {"n": row["sequence"], "persistent": "true"}
                connection.send(f"/queue/{queue}", row["text"], headers=headers)
                sent[0] += 1

    frame = rate_frame(spark, min(count, GROUP), size).select("sequence", "text")
    writer = frame.writeStream.foreachBatch(deliver).option("checkpointLocation", str(folder / "checkpoint"))
    deadline = time.monotonic() + END_S
    while sent[0] < count and time.monotonic() < deadline:
        # One batch. A stop in the middle of one shows a stack of Spark, which searches the interruption's text.
        writer.trigger(availableNow=True).start().awaitTermination()
    connection.disconnect()
    if sent[0] < count:
        raise SystemExit(f"bench: stomp.py in foreachBatch sent {sent[0]} of {count} messages")


def rate_milliseconds(spark: SparkSession, folder: Path, batches: int) -> list[int]:
    """How long each batch of one row of Spark's rate source took, as `batch_milliseconds` has it for ours."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").option("numPartitions", "1").load()
    writer = rate.writeStream.format("parquet").option("path", str(folder / "parquet"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="0 seconds").start()
    deadline = time.monotonic() + END_S
    found: list[int] = []
    while len(found) < batches and time.monotonic() < deadline and query.isActive:
        time.sleep(0.1)
        every = [progress for progress in query.recentProgress if progress.numInputRows]
        found = [one.durationMs["triggerExecution"] - one.durationMs.get("latestOffset", 0) for one in every]
    query.stop()
    return found[batches // 5 : batches]


def batch_milliseconds(spark: SparkSession, url: str, folder: Path, batches: int) -> list[int]:
    """How long each batch with rows took, one row at a time over one partition, without what the first ones cost."""
    frame = source(spark, url, "LATENCY", folder, {"numPartitions": "1"})
    writer = frame.writeStream.format("parquet").option("path", str(folder / "parquet"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="0 seconds").start()
    found: list[int] = []
    try:
        with blocking.connect(url) as connection, connection.session(acknowledge="auto") as session:
            producer = session.create_producer("queue://LATENCY")
            last = -1
            deadline = time.monotonic() + END_S
            while len(found) < batches and time.monotonic() < deadline and query.isActive:
                producer.send("x", properties={"n": len(found)})
                while query.isActive and time.monotonic() < deadline:
                    progress = query.lastProgress
                    if progress is not None and progress.batchId > last and progress.numInputRows:
                        last = progress.batchId
                        durations = progress.durationMs
                        # The wait for a message is no part of the batch.
                        found.append(durations["triggerExecution"] - durations.get("latestOffset", 0))
                        break
                    time.sleep(0.005)
    finally:
        query.stop()
    return found[batches // 5 :]
