"""What users and rights cost: the same broker with and without them, in alternating pairs of runs.

    python -m tests.bench.rights [--pairs 21] [--python PATH]

Reports the ratio of the broker's CPU time per message within each pair: median and the interval that holds the true
median with 95 % (order statistics, no assumption about the noise). Loss and order are checked in every run.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from tests.bench.brokers.activemq import Broker, interpreter, spanwire
from tests.bench.loads.generator import Generators, compile_generators, measure
from tests.bench.loads.workloads import KIB, Workload

USER = "bench"
PASSWORD = "for-the-benchmark-alone"
GROUPS = "producers,consumers"

PLUGINS = f"""<plugins>
   <simpleAuthenticationPlugin><users>
    <authenticationUser username="{USER}" password="{PASSWORD}" groups="{GROUPS}"/>
    <authenticationUser username="other" password="another-{PASSWORD}" groups="others"/>
   </users></simpleAuthenticationPlugin>
   <authorizationPlugin><map><authorizationMap><authorizationEntries>
    <authorizationEntry queue="BENCH.&gt;" read="consumers" write="producers" admin="producers,consumers"/>
    <authorizationEntry topic="BENCH.&gt;" read="consumers" write="producers" admin="producers,consumers"/>
    <authorizationEntry queue="OTHER.&gt;" read="others" write="others" admin="others"/>
    <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="consumers" write="producers" admin="producers,consumers"/>
   </authorizationEntries></authorizationMap></map></authorizationPlugin>
  </plugins>"""

PAIRED = [
    Workload("openwire queue 1p1c 1 KiB", "openwire", "queue", 1, 1, KIB, 300_000),
    Workload("openwire queue 1p1c 1 KiB, one call per message", "openwire", "queue", 1, 1, KIB, 200_000, 1),
    Workload("openwire topic 1p10c 1 KiB", "openwire", "topic", 1, 10, KIB, 60_000, window=2_000),
    Workload("stomp queue 1p1c 1 KiB", "stomp", "queue", 1, 1, KIB, 300_000),
]


def interval(ratios: list[float]) -> tuple[float, float]:
    """The order statistics between which the median lies with 95 %."""
    ordered = sorted(ratios)
    count = len(ordered)
    tail = 0.0
    below = 0
    while tail + math.comb(count, below) / 2**count <= 0.025:
        tail += math.comb(count, below) / 2**count
        below += 1
    place = max(0, below - 1)
    return ordered[place], ordered[count - 1 - place]


def pairs(load: Generators, plain: Broker, guarded: Broker, workload: Workload, count: int) -> list[float]:
    """The ratio of CPU per message, guarded to plain, of each pair; who goes first changes from pair to pair."""
    ratios: list[float] = []
    for number in range(count):
        cpu: dict[str, float] = {}
        for broker in (plain, guarded) if number % 2 else (guarded, plain):
            found = measure(load, broker, workload, number).cpu_us
            assert found is not None  # the process is ours
            cpu[broker.label] = found
        ratios.append(cpu[guarded.label] / cpu[plain.label])
    return ratios


def main() -> None:
    """Two brokers, all workloads, one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument(
        "--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build to measure"
    )
    options = parser.parse_args()
    os.environ.update(LOAD_USER=USER, LOAD_PASSWORD=PASSWORD)  # the broker without users takes any
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    brokers: list[Broker] = []
    try:
        load = compile_generators(work)
        brokers.append(spanwire("plain", options.python, work / "plain"))
        brokers.append(spanwire("guarded", options.python, work / "guarded", PLUGINS))
        for workload in PAIRED:
            for broker in brokers:
                measure(load, broker, workload, 1_000)  # warm
            ratios = pairs(load, brokers[0], brokers[1], workload, options.pairs)
            low, high = interval(ratios)
            change = (statistics.median(ratios) - 1) * 100
            print(
                f"{workload.name:48} {change:+5.1f} % CPU per message"
                f" [{(low - 1) * 100:+.1f} to {(high - 1) * 100:+.1f}], {len(ratios)} pairs",
                flush=True,
            )
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
