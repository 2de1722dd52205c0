"""``make bench-spark``: Spanwire's data source on local[2], beside what one would write without it, in one run.

| section | what | must |
|---|---|---|
| parquet | a queue of a million into files; in turn Spark's rate source, and a consumer without Spark | 60,000/s |
| queue | from queue to queue, once and only once, in batches of 20,000; in turn stomp.py in foreachBatch | 30,000/s |
| latency | a batch of one row over one partition, median | 300 ms |
| route | ``spanwire pipeline run``: from the command to the first rows; what it takes when nothing comes | 15 s; 3 % |
| memory | the same over ``--minutes`` and ten million rows (``--only memory``, not otherwise) | flat |
| simulate | ``spanwire network simulate`` with a million brokers | 180 s |

Messages of 1 KiB with three properties lie persistent in queues of a Spanwire in a process of its own; everything
shares this machine's cores, and a small stream that is not counted pays for the start of Spark's machinery. Every
message is looked for where it must have come to. The figures go to ``--output`` in JSON and Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from spanwire._build import version_text
from spanwire.pipeline.session import local_session
from tests.bench.brokers.activemq import Broker, spanwire
from tests.bench.reports.origin import ROOT, commit
from tests.bench.spark import runs
from tests.bench.spark.runs import Run

SECTIONS = ("parquet", "queue", "latency", "route", "simulate")
MEMORY = "memory"
COUNT = 1_000_000
SIZE = 1024
WARM_UP = 20_000
BATCHES = 40  # of the latency
IDLE_S = 30.0
MEMORY_ROWS = 10_000_000
SIMULATE = "network simulate --topology regular --brokers 1000000 --degree 10 --network-ttl 3 --master local[2]".split()
PARQUET_FLOOR = 60_000
QUEUE_FLOOR = 30_000
LATENCY_CEILING_MS = 300
FIRST_ROWS_CEILING_S = 15
IDLE_CEILING = 0.03
SIMULATE_CEILING_S = 180
HEAP_GROWTH_MIB = 32  # a leak of 10 octets for each of ten million rows shows so much in a third of the run
GROWTH_CEILING = 1.15  # of resident memory, from the first third of a run to its last


@dataclass
class Report:
    """One line for each figure; a missed floor is told at the end."""

    lines: list[tuple[str, str, str, str]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, name: str, figure: str, must: str = "", is_met: bool = True, remark: str = "") -> None:
        """Note a figure and show it."""
        self.lines.append((name, figure, must, remark))
        sys.stdout.write(f"{name}: {figure}" + (f" (must: {must})" if must else "") + f" {remark}\n")
        sys.stdout.flush()
        if not is_met:
            self.missed.append(f"{name} is {figure}, which misses {must}")

    def rates(self, name: str, measured: list[Run], floor: int = 0) -> None:
        """The median rate of some runs, and the CPU of the median run."""
        rate = statistics.median(run.rate for run in measured)
        broker = statistics.median(run.broker_cpu / run.rows * 1e6 for run in measured)
        other = statistics.median(run.other_cpu / run.rows * 1e6 for run in measured)
        spread = f"{min(run.rate for run in measured):,.0f} to {max(run.rate for run in measured):,.0f}"
        remark = f"{len(measured)} runs of {measured[0].rows:,} rows, {spread}; CPU a row: "
        remark += f"broker {broker:.1f} µs, the rest {other:.1f} µs"
        steady = statistics.median(run.steady_rate for run in measured)
        remark += f"; {steady:,.0f} rows/s in the second half of the batches" if steady else ""
        self.add(name, f"{rate:,.0f} rows/s", f"{floor:,} rows/s" if floor else "", rate >= floor, remark)


class Bench:
    """The sections, on one broker."""

    def __init__(self, broker: Broker, folder: Path, options: argparse.Namespace, report: Report) -> None:
        self._broker = broker
        self._url = f"tcp://127.0.0.1:{broker.ports['openwire']}"
        self._folder = folder
        self._given = options
        self._options = dict(word.split("=", 1) for word in options.option)
        self._report = report
        self._number = 0

    def on_spark(self, sections: list[str]) -> None:
        """All that share one session."""
        with local_session("bench", 2, {"spark.sql.warehouse.dir": str(self._folder / "warehouse")}) as spark:
            spark.sparkContext.setLogLevel("FATAL")  # the others' queries end in the middle of a batch
            runs.fill(self._url, "WARM", WARM_UP, SIZE)
            folder = self._new_folder()
            runs.to_parquet(runs.source(spark, self._url, "WARM", folder, self._options), folder)
            if "queue" in sections:
                runs.fill(self._url, "WARM", WARM_UP, SIZE)
                folder = self._new_folder()
                frame = runs.source(spark, self._url, "WARM", folder, self._options).select("properties", "text")
                runs.to_queue(frame, self._url, "WARMED", folder)
            if "parquet" in sections:
                self._parquet(spark)
            if "queue" in sections:
                self._queue(spark)
            if "latency" in sections:
                self._latency(spark)

    def _parquet(self, spark: SparkSession) -> None:
        count, size = self._given.count, self._given.size
        ours, rate, loop = [], [], []
        for number in range(self._given.rounds):
            queue, folder = f"BENCH.{number}", self._new_folder()
            runs.fill(self._url, queue, count, size)
            frame = runs.source(spark, self._url, queue, folder, self._options)
            ours.append(self._timed(count, partial(runs.to_parquet, frame, folder)))
            runs.check_files(spark, folder, count)
            self._clear(folder)
            folder = self._new_folder()
            rate.append(self._timed(count, partial(runs.rate_to_parquet, spark, count, size, folder)))
            self._clear(folder)
            queue, folder, fewer = f"LOOP.{number}", self._new_folder(), count // 5
            runs.fill(self._url, queue, fewer, size)
            loop.append(self._timed(fewer, partial(runs.consumer_loop, self._url, queue, fewer, folder)))
            self._clear(folder)
        self._report.rates("queue into Parquet", ours, PARQUET_FLOOR)
        self._report.rates("Spark's rate source into Parquet", rate)
        self._report.rates("a consumer loop into Parquet, without Spark", loop)

    def _queue(self, spark: SparkSession) -> None:
        count, size = self._given.count, self._given.size
        ours, stomp = [], []
        options = {"maxRowsPerBatch": str(runs.FORWARDED), **self._options}
        for number in range(self._given.rounds):
            queue, target, folder = f"FROM.{number}", f"TO.{number}", self._new_folder()
            runs.fill(self._url, queue, count, size)
            frame = runs.source(spark, self._url, queue, folder, options)
            frame = frame.select("properties", "body_type", "text")
            ours.append(self._timed(count, partial(runs.to_queue, frame, self._url, target, folder)))
            runs.check_queue(self._url, target, count)
            self._clear(folder)
            folder, fewer, port = self._new_folder(), count // 16, self._broker.ports["stomp"]
            target = f"STOMP.{number}"
            work = partial(runs.stomp_in_foreach_batch, spark, port, target, fewer, size, folder)
            stomp.append(self._timed(fewer, work))
            self._clear(folder)
        mode = runs.quality().get("qualityOfServiceMode", "DUPLICATES_OK")
        self._report.rates(f"queue to queue, {mode}, batches of {runs.FORWARDED:,}", ours, QUEUE_FLOOR)
        self._report.rates("stomp.py in foreachBatch from the rate source", stomp)

    def _latency(self, spark: SparkSession) -> None:
        found = runs.batch_milliseconds(spark, self._url, self._new_folder(), BATCHES)
        if not found:
            raise SystemExit("bench: no batch of one row came to an end")
        median = statistics.median(found)
        remark = f"{len(found)} batches, {min(found)} to {max(found)} ms, without the wait for the message"
        is_met = median <= LATENCY_CEILING_MS
        self._report.add("a batch of one row", f"{median:.0f} ms", f"{LATENCY_CEILING_MS} ms", is_met, remark)

    def route(self) -> None:
        """``spanwire pipeline run`` from outside."""
        first_s, cpu_s, share = runs.first_rows_and_idle(self._url, self._new_folder(), IDLE_S)
        is_met, must, remark = first_s <= FIRST_ROWS_CEILING_S, f"{FIRST_ROWS_CEILING_S} s", f"{cpu_s:.1f} s of CPU"
        self._report.add("from the command to the first rows", f"{first_s:.1f} s", must, is_met, remark)
        is_met = share <= IDLE_CEILING
        self._report.add("an idle route, trigger 1 s", f"{share:.1%} of a core", f"{IDLE_CEILING:.0%}", is_met)

    def memory(self) -> None:
        """Resident memory of a route that works for minutes."""
        rows = self._given.rows
        samples = runs.memory_over(self._url, self._new_folder(), self._given.minutes, rows)
        for sample in samples[:: max(1, len(samples) // 20)]:
            sys.stdout.write(
                f"  {sample.minute:5.1f} min: JVM {sample.java:.0f} MiB, of its heap {sample.live:.0f} in use, "
                f"Python {sample.python:.0f} MiB, {sample.rows:,} rows\n"
            )
        third = max(1, len(samples) // 3)
        middle, end = samples[third : 2 * third] or samples, samples[-third:]
        remark = f"{rows:,} rows in {samples[-1].minute:.1f} minutes"
        java = (
            f"{statistics.median(one.java for one in middle):.0f} to {statistics.median(one.java for one in end):.0f}"
        )
        self._report.add("resident memory of the JVM", f"{java} MiB", remark=f"its heap grows to -Xmx; {remark}")
        # Whatever a batch allocates between the collection and the look is in it, so the least is nearest to the truth.
        early, late = min(one.live for one in middle), min(one.live for one in end)
        must = f"growth below {HEAP_GROWTH_MIB} MiB from the second third to the last"
        is_met = late - early < HEAP_GROWTH_MIB
        self._report.add("heap of the JVM in use", f"{early:.0f} to {late:.0f} MiB", must, is_met, remark)
        self._flat(
            "memory of the Python processes", [one.python for one in middle], [one.python for one in end], remark
        )

    def _flat(self, name: str, middle: list[float], end: list[float], remark: str) -> None:
        early, late = statistics.median(middle), statistics.median(end)
        must = f"growth below {GROWTH_CEILING - 1:.0%} from the second third to the last"
        self._report.add(name, f"{early:.0f} to {late:.0f} MiB", must, late <= early * GROWTH_CEILING, remark)

    def simulate(self) -> None:
        """``spanwire network simulate``, where there is this command."""
        command = [sys.executable, "-m", "spanwire", *SIMULATE]
        if subprocess.run([*command[:5], "--help"], capture_output=True, check=False).returncode != 0:
            self._report.add("network simulate", "there is no such command")
            return
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - started
        if done.returncode != 0:
            raise SystemExit(f"bench: {' '.join(SIMULATE)} failed: {done.stderr.strip()[-500:]}")
        is_met = seconds <= SIMULATE_CEILING_S
        remark = f"spanwire {' '.join(SIMULATE)}"
        self._report.add("a million brokers simulated", f"{seconds:.0f} s", f"{SIMULATE_CEILING_S} s", is_met, remark)

    def _timed(self, rows: int, work: Callable[[], float | None]) -> Run:
        mine, broker, started = runs.cpu_seconds(os.getpid()), self._broker.cpu_seconds(), time.monotonic()
        steady = work() or 0.0
        seconds = time.monotonic() - started
        broker_cpu = self._broker.cpu_seconds() - broker
        return Run(rows, seconds, broker_cpu, runs.cpu_seconds(os.getpid()) - mine - broker_cpu, steady)

    def _new_folder(self) -> Path:
        self._number += 1
        folder = self._folder / f"run{self._number}"
        folder.mkdir()
        return folder

    @staticmethod
    def _clear(folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


def write(report: Report, options: argparse.Namespace) -> Path:
    """Keep the figures as JSON and Markdown."""
    kernel = ".".join(platform.release().split(".")[:2])
    name = f"spark-{time.strftime('%Y-%m-%d')}-{commit()}"
    about = {
        "commit": commit(),
        "build": version_text(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {kernel}",
        "load": "{:.1f} {:.1f} {:.1f}".format(*os.getloadavg()),
        "rounds": options.rounds,
        "bytes": options.size,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    kept = {"about": about, "figures": report.lines, "missed": report.missed}
    (options.output / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    lines = [f"# Spark benchmark {name}", "", *(f"- {key}: {value}" for key, value in about.items()), ""]
    lines += ["| | measured | must | |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(line)} |" for line in report.lines]
    target: Path = options.output / f"{name}.md"
    target.write_text("\n".join([*lines, "", *report.missed]).rstrip() + "\n")
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the data source on Spark, beside others.")
    parser.add_argument(
        "--count", type=int, default=COUNT, help="messages into Parquet; a third of them between queues"
    )
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=[*SECTIONS, MEMORY])
    parser.add_argument("--minutes", type=float, default=10.0, help="of the section memory")
    parser.add_argument("--rows", type=int, default=MEMORY_ROWS, help="of the section memory")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of format spanwire; cursor=x reads by cursors",
    )
    parser.add_argument("--output", type=Path, default=ROOT / "docs/internals/benchmarks")
    options = parser.parse_args()
    sections = options.only or list(SECTIONS)
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        broker = spanwire("spanwire", Path(sys.executable), Path(name) / "broker")
        try:
            bench = Bench(broker, Path(name), options, report)
            if {"parquet", "queue", "latency"} & set(sections):
                bench.on_spark(sections)
            for section, work in (("route", bench.route), (MEMORY, bench.memory), ("simulate", bench.simulate)):
                if section in sections:
                    work()
        finally:
            broker.stop()
    sys.stdout.write(f"written to {write(report, options)}\n")
    for line in report.missed:
        sys.stdout.write(f"bench: {line}\n")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
