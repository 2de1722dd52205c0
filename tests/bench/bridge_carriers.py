"""Processes that carry messages of one queue between two brokers, and what fills, empties and watches the queues."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from spanwire.client import blocking
from tests.bench.brokers.activemq import Broker
from tests.bench.brokers.process import cpu_seconds, resident_mib
from tests.support.distributions import ARTEMIS, find_destination
from tests.support.peers import FETCHED, activemq_classpath

SOURCES: Final = Path(__file__).parent / "loads"
NARAYANA: Final = FETCHED / "narayana"  # by `make peers-maven`
KIB: Final = 1024
BATCH: Final = 500  # messages; maxBatchSize of a bridge without one
FILL: Final = 1_000  # messages in one transaction of the producer
STOP_S: Final = 30.0

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

    def cpu_seconds(self) -> float:
        """User and system time of both so far."""
        return self.source.cpu_seconds() + self.target.cpu_seconds()

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
            self._process = subprocess.Popen(command, stdout=opened, stderr=subprocess.STDOUT, cwd=log.parent)
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
    command = [str(python.absolute()), "-P", "-m", "spanwire", "bridge", "run", str(file)]
    return Carrier("bridge", command, queue, file.with_suffix(".log"))


def compile_java(classes: Path) -> None:
    """Compile the loop, and the starter of Artemis' bridge where Artemis is to be had."""
    programs = {"JmsBridge.java": activemq_classpath()}
    home = find_destination(ARTEMIS)
    if isinstance(home, Path):
        programs["ArtemisBridge.java"] = artemis_classpath(home)
    else:
        print(f"no bridge of Artemis beside: {home}")
    for program, classpath in programs.items():
        subprocess.run(["javac", "-cp", classpath, "-d", str(classes), str(SOURCES / program)], check=True)


def java(classes: Path, pair: Pair, quality: str, work: Path) -> Carrier:
    """The loop in Java."""
    return java_program("java", "JmsBridge", f"{classes}:{activemq_classpath()}", pair, quality, work)


def artemis(classes: Path, pair: Pair, quality: str, work: Path) -> Carrier | None:
    """The JMS bridge of Artemis; None where it is not to be had."""
    home = find_destination(ARTEMIS)
    if not isinstance(home, Path):
        return None
    if quality == "ONCE_AND_ONLY_ONCE" and not NARAYANA.is_dir():
        print(f"no bridge of Artemis with {quality}: no Narayana in {NARAYANA}, see make peers-maven")
        return None
    return java_program("artemis", "ArtemisBridge", f"{classes}:{artemis_classpath(home)}", pair, quality, work)


def artemis_classpath(home: Path) -> str:
    """ActiveMQ's client as the loop has it, and behind it what Artemis' bridge needs."""
    jms = next((home / "lib").glob("jakarta.jms-api-*.jar"))  # JMS 2.0, before the client's JMS 1.1
    return os.pathsep.join((str(jms), activemq_classpath(), f"{home / 'lib'}/*", f"{NARAYANA}/*"))


def java_program(label: str, program: str, classpath: str, pair: Pair, quality: str, work: Path) -> Carrier:
    """A program in Java that carries a queue of its own."""
    queue = f"BENCH.{label.upper()}.{quality}"
    log = work / f"{pair.label}-{quality}-{label}"
    command = ["java", "-Xmx512m", "-cp", classpath, program]
    command += [url_of(pair.source), url_of(pair.target), queue, str(BATCH), quality, f"{log}.decisions"]
    return Carrier(label, command, queue, log.with_suffix(".log"))


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
