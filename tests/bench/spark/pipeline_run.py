"""``spanwire pipeline run`` from outside: its first rows beside those of Spark's rate source, idle, and its memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.brokers.activemq import Broker
from tests.bench.brokers.process import resident_mib
from tests.bench.spark.processes import cpu_seconds, cpu_seconds_in, family_of, java_processes, live_heap
from tests.bench.spark.runs import fill, url_of

SAMPLE_S = 6.0
SAMPLES_PER_COLLECTION = 10
PORTION = 5000  # messages sent at once
AHEAD = 10  # portions that wait in the queue at most
ROUTE = """
- from:
    uri: "spanwire:queue:ROUTE?brokerURL={url}"
    steps: [{{to: "parquet:{files}"}}]
"""


@contextmanager
def running_route(url: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """``spanwire pipeline run`` with a route from a queue into files."""
    (folder / "route.yaml").write_text(ROUTE.format(url=url, files=folder / "parquet"))
    command = [sys.executable, "-m", "spanwire", "pipeline", "run", str(folder / "route.yaml")]
    process = subprocess.Popen(
        [*command, "--master", "local[2]", "--json"],
        stdout=subprocess.PIPE,
        stderr=(folder / "log").open("w"),
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(120.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def next_rows(process: subprocess.Popen[str]) -> int:
    """The rows of the next batch that the command tells of."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            told = json.loads(line)
            if told["rows"]:
                return int(told["rows"])
    raise SystemExit("bench: spanwire pipeline run ended")


# The least program with Spark's own source, with what anybody would set for one machine.
RATE_PROGRAM = """
import sys, time
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1000").load()
writer = rows.writeStream.format("parquet").option("path", sys.argv[1] + "/p").trigger(processingTime="1 second")
query = writer.option("checkpointLocation", sys.argv[1] + "/c").start()
while not any(progress.numInputRows for progress in query.recentProgress):
    time.sleep(0.02)
print("rows", flush=True)
sys.stdin.read()
"""


def rate_source_first_rows(folder: Path) -> tuple[float, float]:
    """Seconds until a program with Spark's rate source has written its first rows, and how many of CPU."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", RATE_PROGRAM, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "log").open("w"),
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    if process.stdout.readline() != "rows\n":
        raise SystemExit(f"bench: the rate source gave no rows:\n{(folder / 'log').read_text()[-2000:]}")
    found = time.monotonic() - started, cpu_seconds(process.pid)
    family = family_of(process.pid)
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    return found


def first_rows_and_idle(url: str, folder: Path, idle_s: float) -> tuple[float, float, float]:
    """Seconds from the command to its first rows, how many of CPU, and its share of a core when nothing comes."""
    fill(url, "ROUTE", 1000, 1024)
    started = time.monotonic()
    with running_route(url, folder) as process:
        next_rows(process)
        first_s, cpu_s = time.monotonic() - started, cpu_seconds(process.pid)
        time.sleep(idle_s / 2)  # the just-in-time compiler has caught up by then
        return first_s, cpu_s, cpu_seconds_in(process.pid, idle_s) / idle_s


class Memory(NamedTuple):
    """One look at a route: resident MiB of the broker, of Java and of the Python processes by what they do.

    ``live`` is what of Java's heap was still in use behind the last full collection.
    """

    minute: float
    kinds: dict[str, float]
    live: float
    rows: int


def memory_over(broker: Broker, folder: Path, minutes: float, count: int, size: int) -> Iterator[Memory]:
    """What a route takes while ``count`` messages come evenly, or with ``minutes`` of 0 as fast as it takes them."""
    rows = sent = looks = 0
    live = 0.0
    url = url_of(broker)
    started = time.monotonic()
    with running_route(url, folder) as process:
        while sent < count:
            fill(url, "ROUTE", min(PORTION, count - sent), size, sent)
            sent += min(PORTION, count - sent)
            while rows < sent - AHEAD * PORTION:
                rows += next_rows(process)
            elapsed = time.monotonic() - started
            if rows and elapsed > SAMPLE_S * (looks + 1):
                if looks % SAMPLES_PER_COLLECTION == 0:
                    live = live_heap(process.pid)
                looks += 1
                yield Memory(elapsed / 60, resident(broker, process.pid), live, rows)
            ahead = minutes * 60 * sent / count - elapsed
            if ahead > 0:
                time.sleep(ahead)
        while rows < count:
            rows += next_rows(process)
        kinds = resident(broker, process.pid)
        yield Memory((time.monotonic() - started) / 60, kinds, live_heap(process.pid), rows)


def resident(broker: Broker, root: int) -> dict[str, float]:
    """MiB of the broker, the command, Java, the reader of the source and the largest of the processes of tasks."""
    javas = java_processes(root)
    found = {"broker": resident_mib(broker.pid)}
    for pid, (_, mib) in family_of(root).items():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if pid in javas:
            kind = "Java"
        elif pid == root:
            kind = "command"
        else:
            kind = "source reader" if b"streaming_source" in words else "tasks"
        found[kind] = max(mib, found.get(kind, 0.0))
    return found
