"""``make bench``: message brokers beside each other, alternating in one run on the same machine.

    python -m tests.bench.run [--brokers compiled,pure,classic,artemis,rabbitmq] [--only TEXT] [--output DIRECTORY]
    python -m tests.bench.run --address stomp://HOST:PORT [--address openwire://HOST:PORT] [--user NAME] [--pid N]
    python -m tests.bench.run --page FILE.json

Starts both builds of Spanwire, ActiveMQ Classic, ActiveMQ Artemis and RabbitMQ, as far as they are on this machine, or
measures one broker that is running. A password for it is in BENCH_PASSWORD. Every run checks loss, doubles and order.
The page, its charts and the figures are in the output directory after each workload, so that an interrupted run has
them, too. ``--page`` writes the page anew from the figures. QUICK=1 runs fewer workloads, once instead of thrice.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.brokers.activemq import interpreter
from tests.bench.brokers.given import given
from tests.bench.brokers.present import Present, find_brokers, parse_names
from tests.bench.brokers.process import BrokerProcess, Measured
from tests.bench.floors import floors
from tests.bench.loads.generator import FailedRun, Figures, Generators, compile_generators, measure
from tests.bench.loads.workloads import WORKLOADS, Workload
from tests.bench.reports.chart import HAS_MATPLOTLIB, short
from tests.bench.reports.origin import ROOT, commit, machine
from tests.bench.reports.page import write
from tests.bench.reports.results import OWN, TITLES, Results, Row, read_results

REPEATS: Final = 3
WARM_UP_SECONDS: Final = 30.0  # before the first count, for the benefit of the just-in-time compiler
QUICK_WARM_UP_SECONDS: Final = 10.0
FIRST_NUMBER: Final = 10_000  # of a counted run's destination; those before are of the warm-up
LONG: Final = 25 * 60.0  # seconds after which each workload runs once, so that all is over in 40 minutes
PATIENCE: Final = 300.0  # seconds for one run; the slowest that is known takes 20 on a machine without other work
LONG_PATIENCE: Final = 600.0  # seconds to fill the queue of the drain; Classic needs two minutes for it


@dataclass
class Comparison:
    """Runs workloads on brokers in turn, and keeps what each run gave."""

    load: Generators
    brokers: Sequence[Measured]
    results: Results
    directory: Path
    name: str
    started: float = field(default_factory=time.monotonic)

    def warm_up(self, workloads: Sequence[Workload], seconds: float) -> list[Measured]:
        """Run every kind of workload, uncounted; return the brokers on which that worked."""
        plain = [each for each in workloads if not (each.rate or each.synchronous or each.restart)] or list(workloads)
        warm: list[Measured] = []
        number = 0
        for broker in self.brokers:
            deadline = time.monotonic() + seconds
            try:
                for workload in [each for each in plain if each.protocol in broker.ports]:
                    if time.monotonic() < deadline and not workload.restart:
                        number += 1
                        measure(self.load, broker, workload, number, PATIENCE)
                warm.append(broker)
            except FailedRun as error:
                if broker.label in OWN:
                    raise
                self.results.left_out.append(f"{TITLES[broker.label]} is left out: {error}.")
        return warm

    def run(self, workloads: Sequence[Workload], repeats: int) -> None:
        """All workloads, the brokers in turn within each repeat; write the page after each workload."""
        number = FIRST_NUMBER
        for workload in workloads:
            rows = [Row(workload, broker.label) for broker in self.brokers if can_run(broker, workload)]
            failures: dict[str, str] = {}
            for repeat in range(1 if workload.restart else repeats):
                if repeat and time.monotonic() > self.started + LONG:
                    break
                for broker in self.brokers:
                    row = next((row for row in rows if row.broker == broker.label), None)
                    if row is None or broker.label in failures:
                        continue
                    number += 1
                    try:
                        row.runs.append(self._measure(broker, workload, number))
                    except FailedRun as error:
                        failures[broker.label] = str(error)
                        print(f"bench: {error}", flush=True)
            for row in rows:
                if row.runs:
                    print(line(row), flush=True)
            self.results.rows += [Row(row.workload, row.broker, row.runs, failures.get(row.broker, "")) for row in rows]
            self.save()

    def _measure(self, broker: Measured, workload: Workload, number: int) -> Figures:
        try:
            return measure(self.load, broker, workload, number, LONG_PATIENCE if workload.restart else PATIENCE)
        except FailedRun:
            if not broker.is_alive():
                broker.restart()
            raise

    def save(self) -> Path:
        """Write what there is so far."""
        return write(self.results, self.directory, self.name)


def can_run(broker: Measured, workload: Workload) -> bool:
    """Return True if the broker speaks the protocol, and is ours where it is restarted or keeps messages."""
    is_for_ours = workload.restart or not workload.consumers
    return workload.protocol in broker.ports and not (is_for_ours and broker.label == "given")


def line(row: Row) -> str:
    """Return the medians on one line."""
    median = row.median
    cpu = "      -" if median.cpu_us is None else f"{median.cpu_us:7.2f}"
    latency = f"   p50 {median.p50_us:,.0f} p99 {median.p99_us:,.0f} µs" if row.workload.rate else ""
    return f"{row.workload.name:40} {TITLES[row.broker]:22} {short(median.rate):>9}/s {cpu} µs/msg{latency}"


def start(present: Sequence[Present], work: Path, results: Results) -> list[BrokerProcess]:
    """Start brokers; a foreign one that does not start is left out with the reason."""
    started: list[BrokerProcess] = []
    try:
        for one in present:
            try:
                broker = one.start(work / one.label)
            except (SystemExit, OSError, ValueError, subprocess.SubprocessError) as error:
                if one.label in OWN:
                    raise
                print(f"bench: {error}", flush=True)
                said = str(error).strip().splitlines()
                results.left_out.append(f"{TITLES[one.label]} is left out: it did not start ({said[-1][:200]}).")
            else:
                started.append(broker)
                results.brokers[one.label] = broker.about
    except BaseException:
        stop(started)
        raise
    return started


def stop(brokers: Sequence[BrokerProcess]) -> None:
    """End the processes that `start` has started."""
    for broker in brokers:
        broker.stop()


def choose(only: str, is_quick: bool) -> list[Workload]:
    """Return the workloads whose name or section contains a text, of those that a quick run has."""
    wanted = only.lower()
    chosen = [each for each in WORKLOADS if wanted in each.name.lower() or wanted in each.section.lower()]
    found = [each for each in chosen if each.quick or not is_quick or (only and not each.restart)]
    if not found:
        names = "\n".join(each.name for each in WORKLOADS)
        raise SystemExit(f"bench: no workload is named {only!r}; there are:\n{names}")
    return found


def compare(options: argparse.Namespace, work: Path, results: Results, name: str) -> None:
    """Start what is to be measured, measure it, end it."""
    is_quick = os.environ.get("QUICK") == "1"
    repeats, warm = (1, QUICK_WARM_UP_SECONDS) if is_quick else (REPEATS, WARM_UP_SECONDS)
    load = compile_generators(work)
    workloads = [each for each in choose(options.only, is_quick) if each.protocol in load]
    if "jms" not in load:
        results.left_out.append("ActiveMQ's Java client is left out: it is not installed (make peers).")
    running = [given(options.address, options.user, options.pid)] if options.address else []
    results.brokers.update({broker.label: broker.about for broker in running})
    present: list[Present] = []
    if options.brokers or not running:
        present, absent = find_brokers(options.brokers, options.compiled, options.pure)
        results.left_out += absent
    started = start(present, work, results)
    comparison = Comparison(load, [*started, *running], results, options.output, name)
    try:
        for sentence in results.left_out:
            print(f"bench: {sentence}")
        print(f"warming up for {warm:.0f} s each, then {len(workloads)} workloads, {repeats} runs of each", flush=True)
        comparison.brokers = comparison.warm_up(workloads, warm)
        comparison.run(workloads, repeats)
        if started:
            results.floors = floors(work, work)
        results.is_complete = True
        print(f"\nwritten to {comparison.save()}")
    except KeyboardInterrupt:
        if results.rows:
            print(f"\nbench: interrupted; what was measured is in {comparison.save()}")
        raise SystemExit(130) from None
    finally:
        stop(started)


def main() -> None:
    """Measure, or write a page anew; end with an error if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--brokers", type=parse_names, default=(), help="labels with commas; default: all that are here"
    )
    parser.add_argument("--only", default="", help="run only workloads whose name or section contains this")
    parser.add_argument("--output", type=Path, default=ROOT / "out/bench")
    parser.add_argument("--address", action="append", default=[], help="openwire://HOST:PORT or stomp://HOST:PORT")
    parser.add_argument("--user", default="", help="name for the broker at --address")
    parser.add_argument("--pid", type=int, help="process of the broker at --address, for its CPU and memory")
    parser.add_argument("--pure", type=interpreter, default=ROOT / ".venv/bin/python", help="Python of the pure build")
    parser.add_argument("--compiled", type=interpreter, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--page", type=Path, metavar="FILE.json", help="write the page of these figures anew")
    options = parser.parse_args()
    if options.page is not None:
        print(f"written to {write(read_results(options.page), options.page.parent, options.page.stem)}")
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the brokers, too
    results = Results(
        about={
            "Spanwire's commit": commit(),
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
            "Python": platform.python_version(),
            "runs": "one of few workloads (QUICK=1): figures scatter"
            if os.environ.get("QUICK") == "1"
            else f"{REPEATS}",
        }
    )
    if not HAS_MATPLOTLIB:
        results.left_out.append("The charts are left out: this Python has no matplotlib (make bench installs it).")
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    try:
        compare(options, work, results, f"{time.strftime('%Y-%m-%d')}-{commit()}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if results.failures else 0)


if __name__ == "__main__":
    main()
