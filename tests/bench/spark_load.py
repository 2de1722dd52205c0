"""``make bench-spark``: a queue of half a million messages through Structured Streaming into Parquet on local[2].

Messages of 1 KiB with three properties lie persistent in one queue of a Spanwire in a process of its own; everything
shares this machine's cores. A first small stream pays for the start of Spark's machinery and is not counted. The
figure is rows per second from the start of the query to its end; afterwards every message is looked for in the files.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spanwire._build import version_text
from spanwire.client import blocking
from spanwire.pipeline.session import local_session
from tests.bench.brokers import spanwire

COUNT = 500_000
SIZE = 1024
WARM_UP = 2000
FLOOR = 30_000  # rows per second
PER_TRANSACTION = 5000
SYMBOLS = ("AAPL", "GOOG", "IBM", "MSFT")


def fill(url: str, queue: str, count: int, size: int) -> float:
    """Seconds to send ``count`` persistent messages."""
    body = "x" * size
    started = time.monotonic()
    with blocking.connect(url) as connection, connection.session(acknowledge="transacted") as session:
        producer = session.create_producer(f"queue://{queue}")
        for n in range(count):
            producer.send(body, properties={"n": n, "symbol": SYMBOLS[n % 4], "price": n / 7})
            if n % PER_TRANSACTION == PER_TRANSACTION - 1:
                session.commit()
        session.commit()
    return time.monotonic() - started


def archive(spark: SparkSession, url: str, queue: str, folder: Path, options: dict[str, str]) -> float:
    """Seconds from the start of the stream to its end."""
    source = spark.readStream.format("spanwire").options(
        url=url, destination=queue, stagingDirectory=str(folder / "staging"), **options
    )
    writer = source.load().writeStream.format("parquet").option("path", str(folder / "parquet"))
    started = time.monotonic()
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.monotonic() - started
    for progress in query.recentProgress:
        durations = progress.durationMs
        sys.stdout.write(
            f"  batch {progress.batchId}: {progress.numInputRows} rows, "
            f"receive {durations.get('latestOffset', 0)} ms, process {durations.get('addBatch', 0)} ms\n"
        )
    return seconds


def cpu_seconds() -> float:
    """User and system time of this process and all below it so far; of what has ended, as far as it was waited for."""
    ticks: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks[int(path.parent.name)] = (int(fields[1]), sum(int(field) for field in fields[11:15]))
    family = {os.getpid()}
    while True:
        grown = family | {pid for pid, (parent, _) in ticks.items() if parent in family}
        if grown == family:
            break
        family = grown
    return sum(ticks[pid][1] for pid in family if pid in ticks) / os.sysconf("SC_CLK_TCK")


def check(spark: SparkSession, folder: Path, count: int) -> None:
    """Every number once; raises SystemExit otherwise."""
    frame = spark.read.parquet(str(folder / "parquet")).selectExpr("properties['n']::int AS n")
    row = frame.selectExpr("count(*)", "count(DISTINCT n)", "min(n)", "max(n)").first()
    if row is None or tuple(row) != (count, count, 0, count - 1):
        raise SystemExit(f"bench: {count} messages were sent, the files hold (rows, different, least, most) {row}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the way from a queue into Parquet.")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of format spanwire")
    arguments = parser.parse_args()
    options = dict(word.split("=", 1) for word in arguments.option)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = spanwire("spanwire", Path(sys.executable), folder / "broker")
        url = f"tcp://127.0.0.1:{broker.ports['openwire']}"
        try:
            fill(url, "WARM", WARM_UP, arguments.size)
            seconds = fill(url, "BENCH", arguments.count, arguments.size)
            sys.stdout.write(f"sent {arguments.count} messages of {arguments.size} bytes in {seconds:.1f} s\n")
            with local_session("bench", 2, {"spark.sql.warehouse.dir": str(folder / "warehouse")}) as spark:
                archive(spark, url, "WARM", folder / "warm", options)
                cpu, all_cpu = broker.cpu_seconds(), cpu_seconds()
                seconds = archive(spark, url, "BENCH", folder / "bench", options)
                cpu, all_cpu = broker.cpu_seconds() - cpu, cpu_seconds() - all_cpu
                check(spark, folder / "bench", arguments.count)
        finally:
            broker.stop()
    result = {
        "rows": arguments.count,
        "bytes": arguments.size,
        "seconds": round(seconds, 2),
        "rows_per_second": round(arguments.count / seconds),
        "floor": FLOOR,
        "broker_cpu_us_per_row": round(cpu / arguments.count * 1e6, 1),
        "spark_cpu_us_per_row": round((all_cpu - cpu) / arguments.count * 1e6, 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "build": version_text(),
    }
    sys.stdout.write(json.dumps(result) + "\n")
    return 0 if arguments.count / seconds >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
