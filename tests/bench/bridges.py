"""What a bridge takes: messages per second and CPU time between two brokers, the latency it adds, and idle bridges.

    python -m tests.bench.bridges [--repeats 3] [--messages 20000] [--python PATH] [--only spanwire|classic]
                                  [--part rates|latency|idle|broker] [--quick] [--require]

Between two Spanwire brokers and between two ActiveMQ Classic brokers, each beside a straight loop of a Java client of
the same quality of service and batch size, in the same run, taking turns: persistent messages of 1 KiB wait in the
queue of the source, and the clock runs from the first tenth to the last one at the target. Each process has carried
``--warm`` messages before. Lost, doubled and reordered messages end the run. ``--part broker`` is what a message of the
source's own takes its broker beside a bridge that is idle, floods, is blocked by its target, or was killed with a batch
under way. ``--require`` ends with an error when a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.client import blocking
from tests.bench.brokers.activemq import Broker, classic, interpreter, spanwire
from tests.bench.brokers.process import cpu_seconds, resident_mib
from tests.support.peers import activemq_classpath, missing

SOURCES: Final = Path(__file__).parent / "loads"
QUALITIES: Final = ("DUPLICATES_OK", "ONCE_AND_ONLY_ONCE")
KIB: Final = 1024
BATCH: Final = 500  # messages; maxBatchSize of a bridge without one
FILL: Final = 1_000  # messages in one transaction of the producer
WARM: Final = 20_000  # messages before the first measured ones, which a virtual machine of Java needs
FEW: Final = 4_000  # messages to see that a bridge works
STATISTICS: Final = "<plugins><statisticsBrokerPlugin/></plugins>"
OWN: Final = "BENCH.OWN"  # queue of messages that cross no bridge
FLOOD: Final = 5  # times as many messages cross a flooding bridge
LOOK_S: Final = 0.05  # between two looks at the target's queue
LIMIT_S: Final = 300.0
SAMPLES: Final = 200  # messages one by one, for the latency
IDLE_BRIDGES: Final = 1_000
IDLE_S: Final = 20.0  # seconds in which idle bridges are watched
STOP_S: Final = 30.0
START_S: Final = 120.0  # seconds within which all bridges run
GOALS: Final = {  # times the rate of the loop in Java, and times its CPU time per message
    ("spanwire", "DUPLICATES_OK"): (1.5, None),
    ("classic", "DUPLICATES_OK"): (0.95, 0.5),
    ("spanwire", "ONCE_AND_ONLY_ONCE"): (2.0, None),
    ("classic", "ONCE_AND_ONLY_ONCE"): (0.95, 0.5),
}
MOST_ADDED_MS: Final = 2.0
MOST_IDLE_CPU: Final = 0.01  # of a core
MOST_IDLE_MIB: Final = 100.0

TOML: Final = """\
[bridges.{name}]
sourceConnectionFactory = "{source}"
sourceDestination = "queue://{queue}"
targetConnectionFactory = "{target}"
targetDestination = "queue://{queue}"
qualityOfServiceMode = "{quality}"
maxBatchSize = {batch}
failureRetryInterval = 1000
maxRetries = -1
"""


def url_of(broker: Broker) -> str:
    """The address of a broker for OpenWire."""
    return f"tcp://127.0.0.1:{broker.ports['openwire']}"


@dataclass(frozen=True)
class Figures:
    """Messages per second, and microseconds of the bridge's CPU time for each."""

    rate: float
    cpu_us: float


class Pair:
    """Two brokers of one kind."""

    def __init__(self, label: str, start: Callable[[Path], Broker], work: Path) -> None:
        self.label = label
        self.source = start(work / f"{label}-source")
        try:
            self.target = start(work / f"{label}-target")
        except SystemExit:
            self.source.stop()
            raise

    def stop(self) -> None:
        """End both."""
        self.source.stop()
        self.target.stop()


class Carrier:
    """A process that carries messages of one queue from the source to the target."""

    def __init__(self, label: str, command: list[str], queue: str, log: Path) -> None:
        self.label = label
        self.queue = queue
        with log.open("wb") as opened:
            self._process = subprocess.Popen(command, stdout=opened, stderr=subprocess.STDOUT)
        self._log = log

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return cpu_seconds(self._process.pid)

    def resident_mib(self) -> float:
        """Resident memory."""
        return resident_mib(self._process.pid)

    def hold(self) -> None:
        """Stop the process until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let the process run."""
        self._process.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """End the benchmark if the process has ended."""
        if self._process.poll() is not None:
            raise SystemExit(f"bench: {self.label} has ended:\n{self._log.read_text(errors='replace')[-2000:]}")

    def log(self) -> str:
        """What the process has written."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """End the process at once, with its batch under way."""
        self._process.kill()
        self._process.wait(STOP_S)

    def stop(self) -> None:
        """End the process."""
        self.go_on()
        self._process.terminate()
        self._process.wait(STOP_S)


def bridge(python: Path, pair: Pair, quality: str, work: Path) -> Carrier:
    """Our bridge."""
    queue = f"BENCH.BRIDGE.{quality}"
    file = work / f"{pair.label}-{quality}.toml"
    file.write_text(
        TOML.format(
            name="bench",
            source=url_of(pair.source),
            target=url_of(pair.target),
            queue=queue,
            quality=quality,
            batch=BATCH,
        )
    )
    command = [str(python), "-P", "-m", "spanwire", "bridge", "run", str(file)]
    return Carrier("bridge", command, queue, file.with_suffix(".log"))


def java(classes: Path, pair: Pair, quality: str, work: Path) -> Carrier:
    """The loop in Java."""
    queue = f"BENCH.JAVA.{quality}"
    command = ["java", "-Xmx512m", "-cp", f"{classes}:{activemq_classpath()}", "JmsBridge"]
    log = work / f"{pair.label}-{quality}-java"
    command += [
        url_of(pair.source),
        url_of(pair.target),
        queue,
        str(BATCH),
        quality,
        str(log.with_suffix(".decisions")),
    ]
    return Carrier("java", command, queue, log.with_suffix(".log"))


def fill(broker: Broker, queue: str, count: int) -> None:
    """Send numbered persistent messages."""
    body = bytes(KIB - 8)
    with blocking.connect(url_of(broker)) as connection, connection.session("transacted") as session:
        producer = session.create_producer(f"queue://{queue}")
        for number in range(count):
            producer.send(number.to_bytes(8, "big") + body)
            if number % FILL == FILL - 1:
                session.commit()
        session.commit()


def drain(broker: Broker, queue: str, count: int) -> None:
    """Take all messages, and end the benchmark if one is lost, doubled or out of order."""
    with blocking.connect(url_of(broker)) as connection, connection.session() as session:
        consumer = session.create_consumer(f"queue://{queue}")
        for number in range(count):
            message = consumer.receive(10.0)
            found = None if message is None else int.from_bytes(bytes(message.body)[:8], "big")
            if found != number:
                raise SystemExit(f"bench: {queue} has {found} in place of message {number} of {count}")
        if consumer.receive(0.2) is not None:
            raise SystemExit(f"bench: {queue} has more than {count} messages")


class Look:
    """Asks a broker how many messages wait in a queue."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self._about = f"queue://ActiveMQ.Statistics.Destination{queue}"
        self._connection = blocking.connect(url_of(broker))
        self._requestor = self._connection.requestor()

    def size(self) -> int:
        """The messages now; a queue that is not there yet has none."""
        answer = self._requestor.request(self._about, b"", None, 1.0)
        return int(answer.body["size"]) if answer is not None and isinstance(answer.body, dict) else 0

    def close(self) -> None:
        """Ask no more."""
        self._connection.close()


def carry(pair: Pair, carrier: Carrier, count: int) -> Figures:
    """Let ``count`` messages cross that wait at the source, and return what that took."""
    look = Look(pair.target, carrier.queue)
    carrier.hold()
    fill(pair.source, carrier.queue, count)
    before = carrier.cpu_seconds()
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
    cpu = carrier.cpu_seconds() - before
    look.close()
    drain(pair.target, carrier.queue, count)
    return Figures((count - begin_size) / seconds, cpu * 1e6 / count)


def rates(pair: Pair, python: Path, classes: Path, work: Path, options: argparse.Namespace) -> list[str]:
    """Both ways in both qualities of service; gives the goals that are missed."""
    missed: list[str] = []
    for quality in QUALITIES:
        carriers = [bridge(python, pair, quality, work), java(classes, pair, quality, work)]
        found: dict[str, list[Figures]] = {carrier.label: [] for carrier in carriers}
        try:
            for carrier in carriers:
                carry(pair, carrier, options.warm)
            for _ in range(options.repeats):
                for carrier in carriers:
                    found[carrier.label].append(carry(pair, carrier, options.messages))
        finally:
            for carrier in carriers:
                carrier.stop()
        medians = {
            label: Figures(statistics.median(one.rate for one in all_), statistics.median(one.cpu_us for one in all_))
            for label, all_ in found.items()
        }
        ours, theirs = medians["bridge"], medians["java"]
        times, cpu_times = ours.rate / theirs.rate, ours.cpu_us / theirs.cpu_us
        print(
            f"{pair.label:9} {quality:19} bridge {ours.rate:8,.0f}/s {ours.cpu_us:6.1f} µs of CPU, Java loop "
            f"{theirs.rate:8,.0f}/s {theirs.cpu_us:6.1f} µs: {times:.2f} times the rate, {cpu_times:.2f} times the CPU",
            flush=True,
        )
        least, most = GOALS[pair.label, quality]
        if times < least:
            missed.append(f"{pair.label} {quality}: {times:.2f} times the rate of the loop in Java, not {least}")
        if most is not None and cpu_times > most:
            missed.append(f"{pair.label} {quality}: {cpu_times:.2f} times the CPU of the loop in Java, not {most}")
    return missed


def one_by_one(source: Broker, target: Broker, queue: str, samples: int) -> float:
    """The median milliseconds from the begin of a send to the arrival at a consumer."""
    found: list[float] = []
    with blocking.connect(url_of(source)) as near, near.session() as sending, blocking.connect(url_of(target)) as far:
        producer = sending.create_producer(f"queue://{queue}")
        with far.session() as receiving:
            consumer = receiving.create_consumer(f"queue://{queue}")
            for _ in range(samples):
                begin = time.perf_counter()
                producer.send(bytes(KIB))
                if consumer.receive(10.0) is None:
                    raise SystemExit(f"bench: a message of {queue} does not arrive")
                found.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(found)


def latency(pair: Pair, python: Path, work: Path, options: argparse.Namespace) -> list[str]:
    """What the bridge adds to the latency of its two brokers."""
    carrier = bridge(python, pair, "DUPLICATES_OK", work)
    try:
        carry(pair, carrier, FEW // 4)
        through = one_by_one(pair.source, pair.target, carrier.queue, options.samples)
    finally:
        carrier.stop()
    alone = [one_by_one(broker, broker, "BENCH.ALONE", options.samples) for broker in (pair.source, pair.target)]
    added = through - sum(alone)
    print(
        f"{pair.label:9} latency p50 {through:.2f} ms through the bridge, {alone[0]:.2f} and {alone[1]:.2f} ms at its "
        f"brokers alone: the bridge adds {added:.2f} ms",
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
    command = [str(python), "-P", "-m", "spanwire", "bridge", "run", str(file)]
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
        classpath = activemq_classpath()
        subprocess.run(["javac", "-cp", classpath, "-d", str(work), str(SOURCES / "JmsBridge.java")], check=True)
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
