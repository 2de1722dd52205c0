"""What a hop costs: messages from a producer at broker A to a consumer at broker B, beside the same without the hop.

    python -m tests.bench.chain [--repeats 5] [--python PATH] [--without-classic]

For Spanwire and for ActiveMQ Classic in the same run: the rate through the chain, the CPU time of both brokers per
message, and how much of it the hop adds in terms of what one broker needs. Loss and order are checked in every run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.brokers import Broker, classic, spanwire
from tests.bench.run import RUN_DEADLINE, Generators, compile_generators
from tests.bench.workloads import KIB, Workload
from tests.support.peers import missing

CONNECTOR = """<networkConnectors>
   <networkConnector name="toB" uri="static:(tcp://127.0.0.1:{port})?initialReconnectDelay=200"/>
  </networkConnectors>"""
WORKLOADS = [
    Workload("chain, queue 1p1c 1 KiB", "openwire", "queue", 1, 1, KIB, 100_000),
    Workload("chain, queue 4p4c 1 KiB", "openwire", "queue", 4, 4, KIB, 100_000),
    Workload("chain, queue 4p4c 1 KiB persistent", "openwire", "queue", 4, 4, KIB, 50_000, persistent=True),
]

Start = Callable[[Path, str], Broker]


@dataclass(frozen=True)
class Chain:
    """Two brokers of one kind; ``near`` has a connector to ``far``."""

    label: str
    near: Broker
    far: Broker

    def run(self, load: Generators, workload: Workload, number: int, hop: bool) -> tuple[float, float]:
        """Messages per second and CPU µs of both brokers per message, over the hop or on the far broker alone."""
        producers = self.near if hop else self.far
        destination = f"CHAIN.{number}.{'hop' if hop else 'alone'}"
        environment = {**os.environ, "LOAD_CONSUMER_PORT": str(self.far.ports[workload.protocol])}
        before = self.near.cpu_seconds() + self.far.cpu_seconds()
        done = subprocess.run(
            [*load[workload.protocol], *workload.arguments(producers.ports[workload.protocol], destination)],
            capture_output=True,
            text=True,
            timeout=RUN_DEADLINE,
            check=False,
            env=environment,
        )
        if done.returncode != 0:
            raise SystemExit(f"bench: {workload.name} on {self.label} failed: {done.stderr.strip()}")
        cpu = self.near.cpu_seconds() + self.far.cpu_seconds() - before
        result = json.loads(done.stdout)
        if result["lost"] or result["doubled"] or (result["reordered"] and workload.consumers == 1):
            raise SystemExit(f"bench: {workload.name} on {self.label} broke a promise: {result}")
        return workload.count / result["seconds"], cpu * 1e6 / workload.count


def chain(label: str, start: Start, work: Path) -> Chain:
    """Both brokers, the far one first."""
    far = start(work / f"{label}-far", "")
    try:
        near = start(work / f"{label}-near", CONNECTOR.format(port=far.ports["openwire"]))
    except SystemExit:
        far.stop()
        raise
    return Chain(label, near, far)


def report(load: Generators, chains: list[Chain], workload: Workload, repeats: int) -> None:
    """One line for each kind of broker; the kinds take turns."""
    figures: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    for number in range(repeats + 1):
        for one in chains:
            for hop in (False, True):
                found = one.run(load, workload, number, hop)
                if number > 0:  # the first one warms up
                    figures.setdefault((one.label, hop), []).append(found)
    print(workload.name)
    for one in chains:
        alone = [statistics.median(column) for column in zip(*figures[one.label, False], strict=True)]
        hop_figures = [statistics.median(column) for column in zip(*figures[one.label, True], strict=True)]
        added = (hop_figures[1] - alone[1]) / alone[1]
        print(
            f"  {one.label:10} {hop_figures[0]:9,.0f}/s over the hop, {alone[0]:9,.0f}/s without; CPU per message"
            f" {hop_figures[1]:6.1f} µs and {alone[1]:6.1f} µs: the hop adds {added:.2f} times one broker's",
            flush=True,
        )


def main() -> None:
    """Both kinds, all workloads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter of the build to measure")
    parser.add_argument("--without-classic", action="store_true")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    chains: list[Chain] = []
    try:
        load = compile_generators(work)
        python: Path = options.python
        chains.append(chain("spanwire", lambda place, inside: spanwire("spanwire", python, place, inside), work))
        if not options.without_classic and missing("activemq-broker") is None:
            chains.append(chain("classic", classic, work))
        for workload in WORKLOADS:
            report(load, chains, workload, options.repeats)
    finally:
        for one in chains:
            one.near.stop()
            one.far.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
