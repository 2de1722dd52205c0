"""What it takes a broker to hand a deep persistent queue to one consumer.

    python -m tests.bench.deep_queue [--python PATH] [--against PATH] [--count N] [--rounds N]

Each round fills a queue of each build and drains it with one OpenWire consumer that acknowledges 100,000 messages at a
time; only so much as the broker keeps in memory is not read back from the disk. CPU is that of the broker's process, so
other work on the machine changes it little; the rate includes the client, which is of the environment that runs this.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from spanwire.client import blocking
from tests.bench.brokers.activemq import Broker, interpreter, spanwire

KIB = 1024
PER_TRANSACTION = 5_000
PER_ACKNOWLEDGEMENT = 100_000
PATIENCE = 60.0  # seconds for one message
TO_SETTLE = 0.5  # seconds in which the store tidies up what an acknowledgement left


def fill(url: str, queue: str, count: int) -> None:
    """Send ``count`` persistent messages of 1 KiB."""
    body = "x" * KIB
    with blocking.connect(url) as connection, connection.session(acknowledge="transacted") as session:
        producer = session.create_producer(f"queue://{queue}")
        for number in range(1, count + 1):
            producer.send(body, properties={"number": number})
            if number % PER_TRANSACTION == 0:
                session.commit()
        session.commit()


def drain(url: str, queue: str, count: int) -> None:
    """Receive them all in order and acknowledge them; raises SystemExit when that is not what comes."""
    with blocking.connect(url) as connection, connection.session(acknowledge="client") as session:
        consumer = session.create_consumer(f"queue://{queue}")
        for number in range(1, count + 1):
            message = consumer.receive(timeout=PATIENCE)
            if message is None or message.properties["number"] != number:
                raise SystemExit(f"deep_queue: message {number} of {count} did not come in its turn")
            if number % PER_ACKNOWLEDGEMENT == 0 or number == count:
                message.acknowledge()


def drained(broker: Broker, queue: str, count: int) -> tuple[float, float]:
    """Microseconds of CPU for a message, and messages a second."""
    url = f"tcp://127.0.0.1:{broker.ports['openwire']}"
    fill(url, queue, count)
    time.sleep(TO_SETTLE)
    before, started = broker.cpu_seconds(), time.monotonic()
    drain(url, queue, count)
    seconds = time.monotonic() - started
    time.sleep(TO_SETTLE)
    return (broker.cpu_seconds() - before) / count * 1e6, count / seconds


def main() -> None:
    """A line for each build and round, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build to measure"
    )
    parser.add_argument("--against", type=interpreter, help="interpreter of a build to compare with")
    parser.add_argument("--count", type=int, default=200_000, help="messages of a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    pythons = [options.python] if options.against is None else [options.python, options.against]
    found: list[list[tuple[float, float]]] = [[] for _ in pythons]
    with tempfile.TemporaryDirectory(prefix="spanwire-bench-") as work:
        brokers: list[Broker] = []
        try:
            for place, python in enumerate(pythons):
                brokers.append(spanwire(f"build {place}", python, Path(work) / f"broker{place}"))
            for turn in range(options.rounds):
                for place, broker in enumerate(brokers):
                    found[place].append(drained(broker, f"DEEP.{turn}", options.count))
                    print(f"{broker.label}: {found[place][-1][0]:.2f} us, {found[place][-1][1]:,.0f}/s", flush=True)
        finally:
            for broker in brokers:
                broker.stop()
    for place, rounds in enumerate(found):
        cpu = statistics.median([one[0] for one in rounds])
        rate = statistics.median([one[1] for one in rounds])
        print(f"build {place}, medians: {cpu:.2f} us, {rate:,.0f}/s")


if __name__ == "__main__":
    main()
