"""``make bench-spark``: Spanwire's data source on local[2], beside what one would write without it, in one run.

| section | what | must |
|---|---|---|
| parquet | a queue of a million into files; beside Spark's sources of rows and of Kafka, and a consumer | 100,000/s |
| queue | from queue to queue, once and only once; in turn stomp.py in foreachBatch | 50,000/s |
| classic | a queue of ActiveMQ Classic into files; in turn a plain consumer in Java | 20,000/s, or 0.8 times Java |
| latency | a batch of one row over one partition, median; beside Spark's rate source | 100 ms, or 40 more |
| route | ``spanwire pipeline run``: to the first rows, beside a program with the rate source | 8 s, or 2 more |
| route | what it takes when nothing comes, in a minute | 1 % of a core |
| brokers | two brokers and two workers of a cluster beside one and one (``--only brokers``) | CPU a row 1.18 times |
| memory | a route over ``--minutes`` and ten million rows (``--only memory``); 0: as fast as it can | flat |
| simulate | ``spanwire network simulate`` with a million brokers | 180 s |

Messages of 1 KiB with three properties lie persistent in queues of a Spanwire in a process of its own; everything
shares this machine's cores, and a small stream that is not counted pays for the start of Spark's machinery. Every
message is looked for where it must have come to. The figures go to ``--output`` in JSON and Markdown. For Kafka,
SPANWIRE_SPARK_JARS names a folder with the folders ``kafka`` (jars of Spark's source) and ``kafka-server``.
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
from tests.bench.brokers.activemq import Broker, classic, spanwire
from tests.bench.reports.origin import ROOT, commit
from tests.bench.spark import classic as java
from tests.bench.spark import clusters, kafka, pipeline_run, runs
from tests.bench.spark.processes import PartsOfRun, cpu_seconds
from tests.bench.spark.runs import Run
from tests.support.kafka import JARS, KafkaProcess
from tests.support.peers import missing
from tests.support.spark_cluster import SparkCluster

SECTIONS = ("parquet", "queue", "classic", "latency", "route", "simulate")
MEMORY = "memory"
BROKERS = "brokers"
COUNT = 1_000_000
SIZE = 1024
WARM_UP = 20_000
BATCHES = 40  # of the latency
IDLE_S = 60.0
STARTS = 3  # of a route, and of a program with the rate source
MEMORY_ROWS = 10_000_000
SIMULATE = "network simulate --topology regular --brokers 1000000 --degree 10 --network-ttl 3 --master local[2]".split()
PARQUET_FLOOR = 100_000
QUEUE_FLOOR = 50_000
CLASSIC_FLOOR = 20_000
CLASSIC_SHARE = 0.8  # of the rate of a consumer in Java
LATENCY_CEILING_MS = 100
LATENCY_ABOVE_MS = 40  # Spark's own rate source
FIRST_ROWS_CEILING_S = 8
FIRST_ROWS_ABOVE_S = 2  # the rate source
IDLE_CEILING = 0.01
SCALE_GROWTH = 2 / 1.7  # of the CPU a row, at which two of each are 1.7 times one
SIMULATE_CEILING_S = 180
PART_FLOOR_US = 0.1  # of CPU a row; smaller parts are not shown
HEAP_GROWTH_MIB = 32  # a leak of 10 octets for each of ten million rows shows so much in a third of the run
SHOWN_EVERY = 5  # looks at the memory
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
        names = dict.fromkeys(name for run in measured for name in run.parts)
        parts = {
            name: statistics.median(run.parts.get(name, 0.0) / run.rows * 1e6 for run in measured) for name in names
        }
        shown = sorted(((name, each) for name, each in parts.items() if each >= PART_FLOOR_US), key=lambda one: -one[1])
        remark += "; the rest is " + ", ".join(f"{name} {each:.1f} µs" for name, each in shown) if shown else ""
        self.add(name, f"{rate:,.0f} rows/s", f"{floor:,} rows/s" if floor else "", rate >= floor, remark)


class Bench:
    """The sections, on one broker."""

    def __init__(self, broker: Broker, folder: Path, options: argparse.Namespace, report: Report) -> None:
        self._broker = broker
        self._url = runs.url_of(broker)
        self._folder = folder
        self._given = options
        self._options = dict(word.split("=", 1) for word in options.option)
        self._report = report
        self._number = 0

    def on_spark(self, sections: list[str]) -> None:
        """All that share one session."""
        settings = {"spark.sql.warehouse.dir": str(self._folder / "warehouse")}
        if jars := kafka.jars()[0]:
            settings["spark.jars"] = ",".join(map(str, jars))
        with local_session("bench", 2, settings) as spark:
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
                self._kafka(spark)
            if "queue" in sections:
                self._queue(spark)
            if "classic" in sections:
                self._classic(spark)
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

    def _kafka(self, spark: SparkSession) -> None:
        name = "a topic of Kafka into Parquet"
        jars, server_jars = kafka.jars()
        if not jars:
            self._report.add(name, "not measured", remark=f"{JARS} names no folder with the jars")
            return
        count, found = self._given.count, []
        with KafkaProcess(server_jars, self._folder / "kafka") as server:
            for number in range(self._given.rounds):
                topic, folder = f"BENCH.{number}", self._new_folder()
                kafka.fill(spark, server.servers, topic, count, self._given.size)
                frame = kafka.source(spark, server.servers, topic)
                found.append(self._timed(count, partial(runs.to_parquet, frame, folder), server.pid))
                runs.check_files(spark, folder, count)
                self._clear(folder)
        self._report.rates(name, found)

    def _queue(self, spark: SparkSession) -> None:
        count, size = self._given.count, self._given.size
        ours, stomp = [], []
        for number in range(self._given.rounds):
            queue, target, folder = f"FROM.{number}", f"TO.{number}", self._new_folder()
            runs.fill(self._url, queue, count, size)
            frame = runs.source(spark, self._url, queue, folder, self._options)
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
        self._report.rates(f"queue to queue, {mode}", ours, QUEUE_FLOOR)
        self._report.rates("stomp.py in foreachBatch from the rate source", stomp)

    def _classic(self, spark: SparkSession) -> None:
        reason = missing("activemq-broker")
        if reason is not None:
            self._report.add("ActiveMQ Classic into Parquet", "not measured", remark=reason)
            return
        count, size = self._given.count // 5, self._given.size
        broker = classic(self._folder / "classic")
        url, mine = runs.url_of(broker), self._broker
        ours: list[Run] = []
        plain: list[float] = []
        try:
            classes = java.compiled(self._new_folder())
            self._broker = broker
            for number in range(self._given.rounds):
                queue, folder = f"CLASSIC.{number}", self._new_folder()
                runs.fill(url, queue, count, size)
                frame = runs.source(spark, url, queue, folder, self._options)
                ours.append(self._timed(count, partial(runs.to_parquet, frame, folder)))
                runs.check_files(spark, folder, count)
                self._clear(folder)
                runs.fill(url, f"JAVA.{number}", count, size)
                plain.append(count / java.drain_seconds(classes, url, f"JAVA.{number}", count))
        finally:
            self._broker = mine
            broker.stop()
        beside = statistics.median(plain)
        floor = min(CLASSIC_FLOOR, round(CLASSIC_SHARE * beside))
        self._report.rates("ActiveMQ Classic into Parquet", ours, floor)
        spread = f"{len(plain)} runs, {min(plain):,.0f} to {max(plain):,.0f}"
        self._report.add("a consumer in Java, without Spark", f"{beside:,.0f} rows/s", remark=spread)

    def _latency(self, spark: SparkSession) -> None:
        rate = runs.rate_milliseconds(spark, self._new_folder(), BATCHES)
        found = runs.batch_milliseconds(spark, self._url, self._new_folder(), BATCHES)
        if not found:
            raise SystemExit("bench: no batch of one row came to an end")
        median = statistics.median(found)
        beside = statistics.median(rate)
        remark = f"{len(found)} batches, {min(found)} to {max(found)} ms, without the wait for the message; "
        remark += f"{beside:.0f} ms with Spark's rate source"
        most = max(LATENCY_CEILING_MS, beside + LATENCY_ABOVE_MS)
        self._report.add("a batch of one row", f"{median:.0f} ms", f"{most:.0f} ms", median <= most, remark)

    def route(self) -> None:
        """``spanwire pipeline run`` from outside."""
        ours, rate = [], []
        for _ in range(STARTS):
            ours.append(pipeline_run.first_rows_and_idle(self._url, self._new_folder(), IDLE_S))
            rate.append(pipeline_run.rate_source_first_rows(self._new_folder()))
        first_s, beside = (statistics.median(one[0] for one in all_) for all_ in (ours, rate))
        remark = f"{', '.join(f'{one[0]:.1f} s with {one[1]:.1f} s of CPU' for one in ours)}; the rate source "
        remark += ", ".join(f"{seconds:.1f} s with {cpu:.1f}" for seconds, cpu in rate)
        most = max(FIRST_ROWS_CEILING_S, beside + FIRST_ROWS_ABOVE_S)
        is_met = first_s <= most
        self._report.add("from the command to the first rows", f"{first_s:.1f} s", f"{most:.1f} s", is_met, remark)
        share = statistics.median(one[2] for one in ours)
        remark = ", ".join(f"{one[2]:.2%}" for one in ours)
        must, is_met = f"{IDLE_CEILING:.0%}", share <= IDLE_CEILING
        self._report.add("an idle route, trigger 1 s", f"{share:.2%} of a core", must, is_met, remark)

    def brokers(self) -> None:
        """One broker and one worker, in turn with two of each, as many rows in all."""
        count, size = self._given.count // 5, self._given.size
        second = spanwire("second", Path(sys.executable), self._folder / "second")
        urls = [self._url, runs.url_of(second)]
        found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
        place = self._new_folder()
        try:
            with SparkCluster(place) as cluster:
                for number in range(self._given.rounds):
                    for many, measured in found.items():
                        for index, url in enumerate(urls[:many]):
                            runs.fill(url, clusters.WARM, WARM_UP, size)
                            runs.fill(url, f"SCALE.{number}.{many}", count // many, size, index * (count // many))
                        queue, folder = f"SCALE.{number}.{many}", place / f"{many}-{number}"
                        measured.append(clusters.measured(cluster, many, folder, count // many, queue, urls[:many]))
                        self._clear(folder)
        finally:
            second.stop()
        medians = {
            many: [statistics.median(values) for values in zip(*all_, strict=True)] for many, all_ in found.items()
        }
        for many, (rate, cpu) in medians.items():
            name = "one broker and one worker into Parquet" if many == 1 else "two brokers and two workers"
            remark = f"{self._given.rounds} runs of {count:,} rows; all processes {cpu:.1f} µs of CPU a row"
            self._report.add(name, f"{rate:,.0f} rows/s", remark=remark)
        growth = medians[2][1] / medians[1][1]
        must, is_met = f"{SCALE_GROWTH:.2f} times", growth <= SCALE_GROWTH
        self._report.add("CPU a row of two beside one", f"{growth:.2f} times", must, is_met)

    def memory(self) -> None:
        """Resident memory of a route that works for minutes."""
        rows = self._given.rows
        given = self._given
        samples: list[pipeline_run.Memory] = []
        for sample in pipeline_run.memory_over(self._broker, self._new_folder(), given.minutes, rows, given.size):
            samples.append(sample)
            if len(samples) % SHOWN_EVERY == 1 or sample.rows == rows:
                kinds = ", ".join(f"{kind} {mib:.0f}" for kind, mib in sorted(sample.kinds.items()))
                sys.stdout.write(
                    f"  {sample.minute:5.1f} min, {sample.rows:,} rows: MiB of {kinds}; "
                    f"{sample.live:.0f} of Java's heap in use\n"
                )
                sys.stdout.flush()
        third = max(1, len(samples) // 3)
        middle, end = samples[third : 2 * third] or samples, samples[-third:]
        remark = f"{rows:,} rows in {samples[-1].minute:.1f} minutes"
        # Whatever a batch allocates between the collection and the look is in it, so the least is nearest to the truth.
        early, late = min(one.live for one in middle), min(one.live for one in end)
        must = f"growth below {HEAP_GROWTH_MIB} MiB from the second third to the last"
        is_met = late - early < HEAP_GROWTH_MIB
        self._report.add("heap of the JVM in use", f"{early:.0f} to {late:.0f} MiB", must, is_met, remark)
        for kind in samples[-1].kinds:
            before, after = (statistics.median(one.kinds.get(kind, 0.0) for one in some) for some in (middle, end))
            name, figure = f"resident memory, {kind}", f"{before:.0f} to {after:.0f} MiB"
            if kind == "Java":
                self._report.add(name, figure, remark=f"its heap grows to -Xmx; {remark}")
            else:
                must = f"growth below {GROWTH_CEILING - 1:.0%} from the second third to the last"
                self._report.add(name, figure, must, after <= before * GROWTH_CEILING, remark)

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

    def _timed(self, rows: int, work: Callable[[], float | None], broker: int = 0) -> Run:
        """Run something; ``broker`` is the process whose CPU is told apart, by default the one that is measured."""
        pid = broker or self._broker.pid
        mine, its, started = cpu_seconds(os.getpid()), cpu_seconds(pid), time.monotonic()
        with PartsOfRun(os.getpid(), {self._broker.pid, pid}) as parts:
            steady = work() or 0.0
        seconds = time.monotonic() - started
        its = cpu_seconds(pid) - its
        return Run(rows, seconds, its, cpu_seconds(os.getpid()) - mine - its, steady, dict(parts.seconds()))

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
    parser.add_argument("--only", action="append", default=[], choices=[*SECTIONS, BROKERS, MEMORY])
    parser.add_argument("--minutes", type=float, default=10.0, help="of the section memory; 0: as fast as it can")
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
            if {"parquet", "queue", "classic", "latency"} & set(sections):
                bench.on_spark(sections)
            for section, work in (
                ("route", bench.route),
                (BROKERS, bench.brokers),
                (MEMORY, bench.memory),
                ("simulate", bench.simulate),
            ):
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
