"""What a bridge takes: messages per second and CPU time between two brokers, the latency it adds, and idle bridges.

    python -m tests.bench.bridges [--repeats 3] [--messages 20000] [--python PATH] [--only spanwire|classic]
                                  [--part rates|latency|idle|broker] [--quick] [--require]

Between two Spanwire brokers and between two ActiveMQ Classic brokers, each beside a straight loop of a Java client and
the JMS bridge of ActiveMQ Artemis, of the same quality of service and batch size, in the same run, taking turns:
persistent messages of 1 KiB wait in the queue of the source, and the clock runs from the first tenth to the last one at
the target. Each process has carried ``--warm`` messages before. Lost, doubled and reordered messages end the run.
``--part latency`` sends one message at a time, in turns through the bridge and at each broker alone. ``--part broker``
is what a message of the source's own takes its broker beside a bridge that is idle, floods, is blocked by its target,
or was killed with a batch under way. ``--require`` ends with an error when a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.client import blocking
from tests.bench.bridge_carriers import (
    BATCH,
    KIB,
    TOML,
    Carrier,
    Look,
    Pair,
    artemis,
    bridge,
    compile_java,
    drain,
    fill,
    java,
    url_of,
)
from tests.bench.brokers.activemq import Broker, classic, interpreter, spanwire
from tests.support.peers import missing

QUALITIES: Final = ("DUPLICATES_OK", "ONCE_AND_ONLY_ONCE")
WARM: Final = 20_000  # messages before the first measured ones, which a virtual machine of Java needs
FEW: Final = 4_000  # messages to see that a bridge works
STATISTICS: Final = "<plugins><statisticsBrokerPlugin/></plugins>"
OWN: Final = "BENCH.OWN"  # queue of messages that cross no bridge
FLOOD: Final = 5  # times as many messages cross a flooding bridge
LOOK_S: Final = 0.05  # between two looks at the target's queue
LIMIT_S: Final = 300.0
SAMPLES: Final = 200  # messages one by one on each way, for the latency
UNCOUNTED: Final = 20  # messages before them on each way
PAUSE_S: Final = 0.02  # between two of them
IDLE_BRIDGES: Final = 1_000
IDLE_S: Final = 20.0  # seconds in which idle bridges are watched
START_S: Final = 120.0  # seconds within which all bridges run
GOALS: Final = {  # times the rate of the loop in Java, and times its CPU time per message
    ("spanwire", "DUPLICATES_OK"): (1.5, None),
    ("classic", "DUPLICATES_OK"): (0.95, 0.5),
    ("spanwire", "ONCE_AND_ONLY_ONCE"): (2.0, None),
    ("classic", "ONCE_AND_ONLY_ONCE"): (0.95, 0.5),
}
MOST_ADDED_MS: Final = 2.0
MOST_IDLE_CPU: Final = 0.01  # of a core
MOST_IDLE_MIB: Final = 95.0


@dataclass(frozen=True)
class Figures:
    """Messages per second, and microseconds of CPU time for each: of the carrier, and of both brokers."""

    rate: float
    cpu_us: float
    brokers_us: float


def carry(pair: Pair, carrier: Carrier, count: int) -> Figures:
    """Let ``count`` messages cross that wait at the source, and return what that took."""
    look = Look(pair.target, carrier.queue)
    carrier.hold()
    fill(pair.source, carrier.queue, count)
    before, before_brokers = carrier.cpu_seconds(), pair.cpu_seconds()
    carrier.go_on()
    begin, begin_size, size = time.monotonic(), 0, 0
    deadline = begin + LIMIT_S
    while size < count:
        time.sleep(LOOK_S)
        carrier.check()
        size = look.size()
        if size <= count // 10:
            begin, begin_size = time.monotonic(), size
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: {carrier.label} between {pair.label} brokers is stuck at {size} messages")
    seconds = time.monotonic() - begin
    cpu, brokers = carrier.cpu_seconds() - before, pair.cpu_seconds() - before_brokers
    look.close()
    drain(pair.target, carrier.queue, count)
    return Figures((count - begin_size) / seconds, cpu * 1e6 / count, brokers * 1e6 / count)


def rates(pair: Pair, python: Path, classes: Path, work: Path, options: argparse.Namespace) -> list[str]:
    """Each carrier in both qualities of service; gives the goals that are missed."""
    missed: list[str] = []
    for quality in QUALITIES:
        carriers = [bridge(python, pair, quality, work)]
        found: dict[str, list[Figures]] = {}
        try:
            carriers.append(java(classes, pair, quality, work))
            if (other := artemis(classes, pair, quality, work)) is not None:
                carriers.append(other)
            for carrier in carriers:
                found[carrier.label] = []
                carry(pair, carrier, options.warm)
            for _ in range(options.repeats):
                for carrier in carriers:
                    found[carrier.label].append(carry(pair, carrier, options.messages))
        finally:
            for carrier in carriers:
                carrier.stop()
        missed += compared(pair.label, quality, found)
    return missed


def compared(label: str, quality: str, found: dict[str, list[Figures]]) -> list[str]:
    """Print the medians of all carriers with their spread; gives the goals that are missed beside the loop in Java."""
    missed: list[str] = []
    ours = median(found["bridge"])
    for carrier, all_ in found.items():
        one = median(all_)
        slowest, fastest = min(figures.rate for figures in all_), max(figures.rate for figures in all_)
        line = (
            f"{label:9} {quality:19} {carrier:8} {one.rate:8,.0f}/s ({slowest:,.0f} to {fastest:,.0f}), "
            f"CPU time of a message: {one.cpu_us:.1f} µs, of both brokers {one.brokers_us:.1f} µs"
        )
        if carrier != "bridge":
            line += (
                f"; the bridge has {ours.rate / one.rate:.2f} times the rate, {ours.cpu_us / one.cpu_us:.2f} the CPU"
            )
        print(line, flush=True)
    theirs = median(found["java"])
    times, cpu_times = ours.rate / theirs.rate, ours.cpu_us / theirs.cpu_us
    least, most = GOALS[label, quality]
    if times < least:
        missed.append(f"{label} {quality}: {times:.2f} times the rate of the loop in Java, not {least}")
    if most is not None and cpu_times > most:
        missed.append(f"{label} {quality}: {cpu_times:.2f} times the CPU of the loop in Java, not {most}")
    return missed


def median(all_: list[Figures]) -> Figures:
    """The median of each figure."""
    return Figures(
        statistics.median(one.rate for one in all_),
        statistics.median(one.cpu_us for one in all_),
        statistics.median(one.brokers_us for one in all_),
    )


class Way:
    """A producer at a broker and a consumer at the same or another one, for one message at a time."""

    def __init__(self, near: Broker, far: Broker, queue: str, stack: ExitStack) -> None:
        sending = stack.enter_context(stack.enter_context(blocking.connect(url_of(near))).session())
        receiving = stack.enter_context(stack.enter_context(blocking.connect(url_of(far))).session())
        self.queue = queue
        self.found: list[float] = []  # milliseconds
        self._producer = sending.create_producer(f"queue://{queue}")
        self._consumer = receiving.create_consumer(f"queue://{queue}")

    def send_one(self) -> None:
        """Measure from the begin of a send to the arrival at the consumer."""
        begin = time.perf_counter()
        self._producer.send(bytes(KIB))
        if self._consumer.receive(10.0) is None:
            raise SystemExit(f"bench: a message of {self.queue} does not arrive")
        self.found.append((time.perf_counter() - begin) * 1e3)

    def p50(self) -> float:
        """The median."""
        return statistics.median(self.found)

    def described(self) -> str:
        """The median and the middle half."""
        first, middle, third = statistics.quantiles(self.found, n=4)
        return f"{middle:.2f} ms ({first:.2f} to {third:.2f})"


def latency(pair: Pair, python: Path, work: Path, options: argparse.Namespace) -> list[str]:
    """What the bridge adds to the latency of its two brokers, one message at a time, with and without it in turns."""
    carrier = bridge(python, pair, "DUPLICATES_OK", work)
    try:
        carry(pair, carrier, FEW // 4)
        with ExitStack() as stack:
            through = Way(pair.source, pair.target, carrier.queue, stack)
            alone = [Way(broker, broker, "BENCH.ALONE", stack) for broker in (pair.source, pair.target)]
            for number in range(UNCOUNTED + options.samples):
                for way in (through, *alone):
                    if number == UNCOUNTED:
                        way.found.clear()
                    way.send_one()
                    time.sleep(PAUSE_S)
    finally:
        carrier.stop()
    above_one = through.p50() - max(way.p50() for way in alone)
    added = through.p50() - sum(way.p50() for way in alone)
    print(
        f"{pair.label:9} latency p50 (middle half) {through.described()} through the bridge, "
        f"{alone[0].described()} and {alone[1].described()} at its brokers alone: {added:.2f} ms above both, "
        f"{above_one:.2f} ms above the slower one",
        flush=True,
    )
    return [f"{pair.label}: the bridge adds {added:.2f} ms, not {MOST_ADDED_MS}"] if added > MOST_ADDED_MS else []


def idle(pair: Pair, python: Path, work: Path, options: argparse.Namespace) -> list[str]:
    """What bridges without messages take."""
    count: int = options.bridges
    file = work / "idle.toml"
    file.write_text(
        "".join(
            TOML.format(
                name=f"idle{number}",
                source=url_of(pair.source),
                target=url_of(pair.target),
                queue=f"IDLE.{number}",
                quality="DUPLICATES_OK",
                batch=BATCH,
            )
            for number in range(count)
        )
    )
    command = [str(python.absolute()), "-P", "-m", "spanwire", "bridge", "run", str(file)]
    carrier = Carrier("idle bridges", command, "", file.with_suffix(".log"))
    try:
        deadline = time.monotonic() + START_S
        while carrier.log().count(": running, ") < count:
            carrier.check()
            if time.monotonic() > deadline:
                raise SystemExit("bench: idle bridges do not start")
            time.sleep(1.0)
        time.sleep(2.0)
        before = carrier.cpu_seconds()
        time.sleep(options.seconds)
        share = (carrier.cpu_seconds() - before) / options.seconds
        memory = carrier.resident_mib()
    finally:
        carrier.stop()
    print(f"{pair.label:9} {count:,} idle bridges: {share:.2%} of a core, {memory:.0f} MiB", flush=True)
    missed = [f"idle bridges take {share:.2%} of a core, not {MOST_IDLE_CPU:.0%}"] if share > MOST_IDLE_CPU else []
    return [*missed, f"idle bridges take {memory:.0f} MiB"] if memory > MOST_IDLE_MIB else missed


def own_message(pair: Pair, count: int) -> float:
    """Microseconds of the source's CPU time for a message that is sent to it and taken from it."""
    before = pair.source.cpu_seconds()
    fill(pair.source, OWN, count)
    drain(pair.source, OWN, count)
    return (pair.source.cpu_seconds() - before) * 1e6 / count


def arrived(pair: Pair, look: Look, queue: str, count: int) -> None:
    """Wait until all messages of the bridge are at the target, and take them."""
    deadline = time.monotonic() + LIMIT_S
    while look.size() < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: {queue} is stuck at {look.size()} of {count} messages")
        time.sleep(LOOK_S)
    drain(pair.target, queue, count)


def beside_bridges(pair: Pair, python: Path, work: Path, count: int) -> None:
    """What a message of its own takes the source's broker beside a bridge in each state."""
    own_message(pair, FEW)
    found = {"no bridge": own_message(pair, count)}
    carrier = bridge(python, pair, "DUPLICATES_OK", work)
    look = Look(pair.target, carrier.queue)
    try:
        carry(pair, carrier, FEW)
        found["an idle one"] = own_message(pair, count)
        carrier.hold()
        fill(pair.source, carrier.queue, FLOOD * count)
        before, begin = pair.source.cpu_seconds(), look.size()
        carrier.go_on()
        own_message(pair, count)
        messages = count + look.size() - begin
        found["a flooding one, whose messages count"] = (pair.source.cpu_seconds() - before) * 1e6 / messages
        arrived(pair, look, carrier.queue, FLOOD * count)
        os.kill(pair.target.pid, signal.SIGSTOP)
        fill(pair.source, carrier.queue, count)
        time.sleep(1.0)
        found["a blocked one"] = own_message(pair, count)
        os.kill(pair.target.pid, signal.SIGCONT)
        arrived(pair, look, carrier.queue, count)
        fill(pair.source, carrier.queue, count)
    finally:
        os.kill(pair.target.pid, signal.SIGCONT)
        carrier.kill()
        look.close()
    found["a killed one"] = own_message(pair, count)
    rows = ", ".join(f"{label} {microseconds:.1f}" for label, microseconds in found.items())
    print(f"{pair.label:9} µs of the source's CPU for a message of its own, beside: {rows}", flush=True)


def main() -> None:
    """All pairs, all parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--warm", type=int, default=WARM)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--bridges", type=int, default=IDLE_BRIDGES)
    parser.add_argument("--seconds", type=float, default=IDLE_S)
    parser.add_argument("--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build")
    parser.add_argument("--only", choices=("spanwire", "classic"))
    parser.add_argument("--part", choices=("rates", "latency", "idle", "broker"))
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--require", action="store_true", help="end with an error when a goal is missed")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.messages, options.samples, options.bridges, options.seconds = 1, 5_000, 30, 50, 3.0
        options.warm = FEW
    work = Path(tempfile.mkdtemp(prefix="spanwire-bench-"))
    python: Path = options.python
    kinds: dict[str, Callable[[Path], Broker]] = {
        "spanwire": lambda place: spanwire("spanwire", python, place, STATISTICS),
        "classic": lambda place: classic(place, STATISTICS),
    }
    missed: list[str] = []
    try:
        compile_java(work)
        for label, start in kinds.items():
            if options.only not in (None, label) or (label == "classic" and missing("activemq-broker") is not None):
                continue
            pair = Pair(label, start, work)
            try:
                if options.part in (None, "rates"):
                    missed += rates(pair, python, work, work, options)
                if options.part in (None, "latency"):
                    missed += latency(pair, python, work, options)
                if options.part in (None, "idle") and label == "spanwire":
                    missed += idle(pair, python, work, options)
                if options.part in (None, "broker") and label == "spanwire":
                    beside_bridges(pair, python, work, options.messages)
            finally:
                pair.stop()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for line in missed:
        print(f"goal missed: {line}")
    if missed and options.require:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
