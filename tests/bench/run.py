"""``make bench``: Spanwire beside ActiveMQ Classic, alternating in one run on the same machine.

Every run checks loss, doubles and order. Rates are lower bounds on a shared machine; the broker's CPU time per message
is the figure to compare. Results go to ``docs/internals/benchmarks/`` with the commit and the machine. ``QUICK=1`` runs
once instead of thrice.
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
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from tests.bench.brokers.activemq import Broker, classic, interpreter, spanwire
from tests.bench.floors import floors
from tests.bench.loads.workloads import WORKLOADS, Workload
from tests.bench.reports import chart
from tests.support.peers import activemq_classpath, missing

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WARM_UP_SECONDS = 30.0  # before the first count, for the benefit of the just-in-time compiler
QUICK_WARM_UP_SECONDS = 10.0
RUN_DEADLINE = 900  # seconds for one call of the generator; Classic needs six minutes to fill the queue of the drain
GENERATOR_LIMIT = 0.9  # cores above which the generator, not the broker, sets the rate


def compile_generators(directory: Path) -> dict[str, list[str]]:
    """The commands that make load, by protocol: our own in C, and the Java client where it is."""
    target = str(directory / "load")
    subprocess.run(["cc", "-O2", "-pthread", "-D_GNU_SOURCE", "-o", target, str(HERE / "loads" / "load.c")], check=True)
    commands = {"openwire": [target], "stomp": [target]}
    if missing("activemq-client") is None:
        classpath = activemq_classpath()
        subprocess.run(
            ["javac", "-cp", classpath, "-d", str(directory), str(HERE / "loads" / "JmsLoad.java")], check=True
        )
        commands["jms"] = ["java", "-Xmx512m", "-cp", f"{classpath}:{directory}", "JmsLoad"]
    return commands


Generators = dict[str, list[str]]


@dataclass(frozen=True)
class Figures:
    """What one run gave: messages per second, broker CPU µs per message, cores the generator used, latency, memory."""

    rate: float
    cpu_us: float
    generator_cores: float
    p50_us: float
    p99_us: float
    resident_mib: float


@dataclass(frozen=True)
class Row:
    """One workload on one broker: every run, and their medians."""

    workload: Workload
    broker: str
    runs: list[Figures]

    @property
    def median(self) -> Figures:
        """The median of each figure by itself."""
        columns = zip(*(astuple(run) for run in self.runs), strict=True)
        return Figures(*(statistics.median(column) for column in columns))


def measure(load: Generators, broker: Broker, workload: Workload, number: int) -> Figures:
    """One run of one workload; raises `SystemExit` when a message was lost, doubled or reordered."""
    destination = f"BENCH.{number}.{workload.kind}"
    if workload.restart:
        _generate(load, broker, workload.fill(), destination)
        broker.restart()
        workload = workload.drain()
    before = broker.cpu_seconds()
    result = _generate(load, broker, workload, destination)
    cpu = broker.cpu_seconds() - before
    return Figures(
        rate=workload.count / result["seconds"],
        cpu_us=cpu * 1e6 / workload.count,
        generator_cores=result["generator_cpu_seconds"] / result["seconds"],
        p50_us=result["p50_us"],
        p99_us=result["p99_us"],
        resident_mib=broker.resident_mib(),
    )


def _generate(load: Generators, broker: Broker, workload: Workload, destination: str) -> dict[str, float]:
    """What one call of the generator reports."""
    done = subprocess.run(
        [*load[workload.protocol], *workload.arguments(broker.ports[workload.protocol], destination)],
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {workload.name} on {broker.label} failed: {done.stderr.strip()}")
    result: dict[str, float] = json.loads(done.stdout)
    if result["lost"] or result["doubled"] or result["reordered"]:
        raise SystemExit(f"bench: {workload.name} on {broker.label} broke a promise: {result}")
    return result


def warm_up(load: Generators, brokers: list[Broker], seconds: float) -> None:
    """Run every kind of workload on every broker, uncounted."""
    number = 0
    for broker in brokers:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for workload in WORKLOADS:
                if time.monotonic() < deadline and not (workload.rate or workload.synchronous or workload.restart):
                    number += 1
                    measure(load, broker, workload, number)


def compare(load: Generators, brokers: list[Broker], repeats: int) -> list[Row]:
    """All workloads, the brokers in turn within each repeat."""
    rows: list[Row] = []
    number = 10_000
    for workload in WORKLOADS:
        runs: dict[str, list[Figures]] = {broker.label: [] for broker in brokers}
        for _ in range(repeats):
            for broker in brokers:
                number += 1
                runs[broker.label].append(measure(load, broker, workload, number))
        for label, figures in runs.items():
            row = Row(workload, label, figures)
            rows.append(row)
            median = row.median
            print(
                f"{workload.name:45} {label:10} {median.rate:>10.0f}/s {median.cpu_us:>8.2f} µs/msg "
                f"p50 {median.p50_us:>6.0f} p99 {median.p99_us:>6.0f} µs",
                flush=True,
            )
    return rows


def table(rows: list[Row]) -> str:
    """The rows in Markdown, with the ratios to Classic."""
    lines = [
        "| workload | broker | msg/s [min-max] | broker CPU µs/msg | rate : Classic | CPU : Classic "
        "| p50 / p99 µs | RSS MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = {row.workload.name: row.median for row in rows if row.broker == "classic"}
    for row in rows:
        median = row.median
        rates = [run.rate for run in row.runs]
        marked = "*" if median.generator_cores > GENERATOR_LIMIT else ""
        peer = base.get(row.workload.name)
        rate = f"{median.rate / peer.rate:.2f}" if peer else "-"
        cpu = f"{median.cpu_us / peer.cpu_us:.2f}" if peer and peer.cpu_us else "-"
        latency = f"{median.p50_us:.0f} / {median.p99_us:.0f}" if row.workload.rate else "-"
        lines.append(
            f"| {row.workload.name} | {row.broker} | {median.rate:.0f}{marked} [{min(rates):.0f}-{max(rates):.0f}] "
            f"| {median.cpu_us:.2f} | {rate} | {cpu} | {latency} | {median.resident_mib:.0f} |"
        )
    return "\n".join(lines)


def commit() -> str:
    """The commit that is measured, marked when the tree differs from it."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"


def write(rows: list[Row], repeats: int, warm: float, least: dict[str, str], directory: Path) -> Path:
    """Keep the result as JSON and Markdown."""
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{time.strftime('%Y-%m-%d')}-{commit()}"
    kernel = ".".join(platform.release().split(".")[:2])
    about = {
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {kernel}",
        "python": platform.python_version(),
        "repeats": repeats,
        "warm_up_seconds": warm,
        "classic": "ActiveMQ Classic of Debian's packages, -Xms2G -Xmx2G, KahaDB defaults, "
        "memoryUsage 70 % of the heap, UseDedicatedTaskRunner=false",
        **{f"floor: {label}": " ".join(line.split()) for label, line in least.items()},
    }
    kept = {"about": about, "rows": [asdict(row) for row in rows]}
    (directory / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    head = "\n".join(f"- {key}: {value}" for key, value in about.items())
    text = (
        f"# Benchmark {name}\n\n{head}\n\nBrokers alternate within each repeat; medians. CPU is user and system time "
        f"of the whole broker process. A star marks runs in which the generator used more than {GENERATOR_LIMIT} "
        f"cores: judge them by CPU. Every run was checked for loss, doubles and order.\n\n{table(rows)}\n"
    )
    bars: chart.Bars = {}
    for row in rows:
        bars.setdefault(row.workload.name, {})[row.broker] = (row.median.rate, row.median.cpu_us)
    if chart.draw(bars, directory / f"{name}.png"):
        text += f"\n![rate and CPU per message]({name}.png)\n"
    target = directory / f"{name}.md"
    target.write_text(text)
    return target


def main() -> None:
    """Start the brokers, warm them up, run, report, end them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pure", type=interpreter, default=ROOT / ".venv/bin/python", help="interpreter of the pure build"
    )
    parser.add_argument("--compiled", type=interpreter, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--output", type=Path, default=ROOT / "docs/internals/benchmarks")
    parser.add_argument("--only", default="", help="run only workloads whose name contains this")
    options = parser.parse_args()
    quick = os.environ.get("QUICK") == "1"
    repeats, warm = (1, QUICK_WARM_UP_SECONDS) if quick else (3, WARM_UP_SECONDS)
    WORKLOADS[:] = [entry for entry in WORKLOADS if options.only in entry.name and (entry.quick or not quick)]
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    brokers: list[Broker] = []
    try:
        load = compile_generators(work)
        WORKLOADS[:] = [entry for entry in WORKLOADS if entry.protocol in load]
        if shutil.which("java") and Path("/usr/share/activemq/bin/activemq.jar").exists():
            brokers.append(classic(work / "classic"))
        else:
            print("bench: java or ActiveMQ Classic is missing, so there is no comparison: apt-get install activemq")
        for label, python in (("compiled", options.compiled), ("pure", options.pure)):
            if python.exists():
                brokers.append(spanwire(label, python, work / label))
            else:
                print(f"bench: no {label} build at {python}: run make {'compiled' if label == 'compiled' else 'venv'}")
        print(f"warming up for {warm:.0f} s each, then {repeats} runs of {len(WORKLOADS)} workloads")
        warm_up(load, brokers, warm)
        rows = compare(load, brokers, repeats)
        least = floors(work, work)
        for label, line in least.items():
            print(f"floor: {label:38} {line}")
        print(f"\n{table(rows)}\n\nwritten to {write(rows, repeats, warm, least, options.output)}")
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
