"""What hops cost: messages from a producer at the first broker of a row to a consumer at the last one, beside the same
at one broker.

    python -m tests.bench.networks.chain [--brokers 3] [--repeats 5] [--python PATH] [--without-classic] [--quick]
                                        [--require]

For Spanwire and for ActiveMQ Classic in the same run, taking turns: the rate through the chain, the CPU time of all
brokers per message, and how much of it each hop adds in terms of what one broker needs. Loss, doubles and order are
checked in every run. Meanwhile each broker is asked how many messages wait in its queue: no hop's queue may grow.
``--require`` ends with an error when Spanwire's chain is not three times as fast as Classic's, or a hop adds more than
2.5 times one broker's CPU, or a queue grows.
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
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from spanwire.client import blocking
from tests.bench.brokers.activemq import Broker, classic, interpreter, spanwire
from tests.bench.loads.generator import RUN_DEADLINE, Generators, compile_generators
from tests.bench.loads.workloads import KIB, Workload
from tests.support.peers import missing

INSIDE = """<plugins><statisticsBrokerPlugin/></plugins>
  {connector}"""
CONNECTOR = """<networkConnectors>
   <networkConnector name="on" networkTTL="{ttl}" uri="static:(tcp://127.0.0.1:{port})?initialReconnectDelay=200"/>
  </networkConnectors>"""
WORKLOADS = [
    Workload("chain, queue 1p1c 1 KiB", "openwire", "queue", 1, 1, KIB, 100_000),
    Workload("chain, queue 4p4c 1 KiB", "openwire", "queue", 4, 4, KIB, 100_000),
    Workload("chain, queue 4p4c 1 KiB persistent", "openwire", "queue", 4, 4, KIB, 50_000, persistent=True),
]
QUICK_COUNT = 2_000
SAMPLE_EVERY = 0.2  # seconds between two looks at the queues
ANSWER_SECONDS = 1.0  # for a broker that is asked how many messages wait; one that has no such queue yet is silent
LEAST_SAMPLES = 9  # with which a queue can be said to grow
WINDOW = 2_000  # messages that wait at a hop while they are on their way: two windows of a bridge
TIMES_CLASSIC = 3.0
MOST_ADDED = 2.5

Start = Callable[[Path, str], Broker]


class Depths:
    """How many messages waited in one queue of one broker, in the order of the looks."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self.found: list[int] = []
        self._about = f"queue://ActiveMQ.Statistics.Destination{queue}"
        self._connection = blocking.connect(f"tcp://127.0.0.1:{broker.ports['openwire']}")
        self._requestor = self._connection.requestor()

    def look(self) -> None:
        """Ask once; no answer in time is no look."""
        answer = self._requestor.request(self._about, b"", None, ANSWER_SECONDS)
        if answer is not None and isinstance(answer.body, dict):
            self.found.append(int(answer.body["size"]))

    def close(self) -> None:
        """Ask no more."""
        self._connection.close()

    @property
    def grows(self) -> bool:
        """Whether more wait in the last third than in the first, by more than is on its way anyway."""
        third = len(self.found) // 3
        if len(self.found) < LEAST_SAMPLES:
            return False
        return statistics.median(self.found[-third:]) > statistics.median(self.found[:third]) + WINDOW


@dataclass(frozen=True)
class Figures:
    """Messages per second, CPU µs of all brokers per message, and the most that waited at each broker."""

    rate: float
    cpu_us: float
    deepest: tuple[int, ...] = ()
    growing: tuple[int, ...] = ()  # places of the brokers whose queue grows


@dataclass(frozen=True)
class Chain:
    """Brokers of one kind in a row; each has a connector to the next."""

    label: str
    brokers: list[Broker]

    def run(self, load: Generators, workload: Workload, number: int, hops: bool) -> Figures:
        """One run from end to end, or on the last broker alone."""
        first, last = self.brokers[0] if hops else self.brokers[-1], self.brokers[-1]
        queue = (
            f"CHAIN.{number}.{'hops' if hops else 'alone'}.{workload.count}.{workload.producers}.{workload.persistent}"
        )
        environment = {**os.environ, "LOAD_CONSUMER_PORT": str(last.ports[workload.protocol])}
        depths = [Depths(broker, queue) for broker in self.brokers] if hops else []
        before = self._cpu_seconds()
        with subprocess.Popen(
            [*load[workload.protocol], *workload.arguments(first.ports[workload.protocol], queue)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as running:
            deadline = time.monotonic() + RUN_DEADLINE
            while running.poll() is None:
                if time.monotonic() > deadline:
                    running.kill()
                for one in depths:
                    one.look()
                time.sleep(SAMPLE_EVERY)
            output, errors = running.communicate()
        if running.returncode != 0:
            raise SystemExit(f"bench: {workload.name} on {self.label} failed: {errors.strip()}")
        cpu = self._cpu_seconds() - before
        for one in depths:
            one.close()
        result = json.loads(output)
        if result["lost"] or result["doubled"] or (result["reordered"] and workload.consumers == 1):
            raise SystemExit(f"bench: {workload.name} on {self.label} broke a promise: {result}")
        return Figures(
            workload.count / result["seconds"],
            cpu * 1e6 / workload.count,
            tuple(max(one.found, default=0) for one in depths),
            tuple(place for place, one in enumerate(depths) if one.grows),
        )

    def _cpu_seconds(self) -> float:
        return sum(broker.cpu_seconds() for broker in self.brokers)

    def stop(self) -> None:
        """End all brokers."""
        for broker in self.brokers:
            broker.stop()


def chain(label: str, start: Start, work: Path, length: int) -> Chain:
    """All brokers, the last one first."""
    made: list[Broker] = []
    connector = ""
    try:
        for place in reversed(range(length)):
            made.insert(0, start(work / f"{label}-{place}", INSIDE.format(connector=connector)))
            connector = CONNECTOR.format(port=made[0].ports["openwire"], ttl=length)
    except SystemExit:
        for broker in made:
            broker.stop()
        raise
    return Chain(label, made)


def report(load: Generators, chains: list[Chain], workload: Workload, repeats: int) -> list[str]:
    """One line for each kind of broker, which take turns; gives what is over its limit."""
    figures: dict[tuple[str, bool], list[Figures]] = {}
    for number in range(repeats + 1):
        for one in chains:
            for hops in (False, True):
                found = one.run(load, workload, number, hops)
                if number > 0:  # the first one warms up
                    figures.setdefault((one.label, hops), []).append(found)
    print(workload.name)
    rates: dict[str, float] = {}
    over: list[str] = []
    for one in chains:
        alone, through = figures[one.label, False], figures[one.label, True]
        rates[one.label] = statistics.median(each.rate for each in through)
        cpu = [statistics.median(each.cpu_us for each in column) for column in (alone, through)]
        added = (cpu[1] - cpu[0]) / cpu[0] / (len(one.brokers) - 1)
        deepest = [max(column) for column in zip(*(each.deepest for each in through), strict=True)]
        growing = sum(bool(each.growing) for each in through)
        print(
            f"  {one.label:10} {rates[one.label]:9,.0f}/s over {len(one.brokers) - 1} hops,"
            f" {statistics.median(each.rate for each in alone):9,.0f}/s without; CPU per message"
            f" {cpu[1]:6.1f} µs and {cpu[0]:6.1f} µs: each hop adds {added:.2f} times one broker's; at most"
            f" {', '.join(f'{each:,}' for each in deepest)} messages waited, a queue grew in {growing} runs",
            flush=True,
        )
        if one.label != "classic" and added > MOST_ADDED:
            over.append(f"{workload.name}: a hop adds {added:.2f} times one broker's CPU")
        if one.label != "classic" and growing > 0:
            over.append(f"{workload.name}: a queue of {one.label} grew in {growing} runs")
    if "classic" in rates:
        times = rates["spanwire"] / rates["classic"]
        print(f"  {times:.1f} times Classic's rate", flush=True)
        if times < TIMES_CLASSIC:
            over.append(f"{workload.name}: {times:.1f} times Classic's rate")
    return over


def main() -> None:
    """Both kinds, all workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build to measure"
    )
    parser.add_argument("--without-classic", action="store_true")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--require", action="store_true", help="end with an error when a limit is not kept")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    chains: list[Chain] = []
    over: list[str] = []
    try:
        load = compile_generators(work)
        python: Path = options.python
        length: int = options.brokers
        chains.append(
            chain("spanwire", lambda place, inside: spanwire("spanwire", python, place, inside), work, length)
        )
        if not options.without_classic and missing("activemq-broker") is None:
            chains.append(chain("classic", classic, work, length))
        for workload in WORKLOADS:
            chosen = replace(workload, count=QUICK_COUNT) if options.quick else workload
            over += report(load, chains, chosen, 1 if options.quick else options.repeats)
    finally:
        for one in chains:
            one.stop()
        shutil.rmtree(work, ignore_errors=True)
    for line in over:
        print(f"over its limit: {line}")
    if over and options.require:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
