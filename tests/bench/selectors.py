"""``make bench-selectors``: a thousand consumers with distinct selectors on one queue, with and without a queue full of
messages that match nobody.

STOMP on both brokers, the messages not persistent, those that match nobody persistent. Every message must reach the one
consumer whose selector it meets, once and in order. Brokers run one after the other; the broker's CPU time per message
is the figure to compare, because this generator is Python and shares the machine.
"""

from __future__ import annotations

import argparse
import json
import re
import select
import shutil
import socket
import statistics
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.brokers.activemq import Broker, classic, interpreter, spanwire
from tests.bench.reports.origin import ROOT

CONNECTIONS = 10  # on which the consumers are
BATCH = 50  # messages of one write
WINDOW = 4_000  # messages on their way at most
ANSWER_SECONDS = 120.0  # until a receipt must be there
STALL_SECONDS = 60.0  # without any message until a run is given up
RECEIVE_BYTES = 1 << 18
BODY = b"x" * 100
DELIVERED = re.compile(rb"\nsubscription:(\d+)\n")
NUMBERED = re.compile(rb"\nnumber:(\d+)\n")


@dataclass(frozen=True)
class Result:
    """One run on one broker."""

    broker: str
    consumers: int
    pending: int
    count: int
    ready_seconds: float
    rate: float
    cpu_us: float
    resident_mib: float


class Link:
    """One STOMP connection; frames go out as they are given."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._receipts = 0
        self.ask(b"CONNECT\naccept-version:1.1\nhost:bench\nheart-beat:0,0\n\n\0", b"CONNECTED\n")

    def ask(self, frame: bytes, answer: bytes) -> None:
        """Send a frame and wait until ``answer`` is there."""
        self.socket.settimeout(ANSWER_SECONDS)
        self.socket.sendall(frame)
        received = b""
        while answer not in received:
            data = self.socket.recv(RECEIVE_BYTES)
            if not data:
                raise SystemExit(f"bench: the broker closed a connection: {received[-500:]!r}")
            received += data

    def settle(self) -> None:
        """Wait until all that was sent is taken in."""
        self._receipts += 1
        name = b"r%d" % self._receipts
        self.ask(b"SEND\ndestination:/topic/BENCH.RECEIPTS\nreceipt:%s\n\n\0" % name, name)


def _sent(queue: str, account: str, number: int, persistent: bool) -> bytes:
    head = f"SEND\ndestination:/queue/{queue}\naccount:{account}\namount:{number % 100 + 100}\nnumber:{number}\n"
    if persistent:
        head += "persistent:true\n"
    return f"{head}content-length:{len(BODY)}\n\n".encode() + BODY + b"\0"


def fill(port: int, queue: str, count: int) -> None:
    """Messages that match nobody."""
    link = Link(port)
    for start in range(0, count, BATCH):
        link.socket.sendall(
            b"".join([_sent(queue, "nobody", n, True) for n in range(start, min(start + BATCH, count))])
        )
        if start % (BATCH * 100) == 0:
            link.settle()
    link.settle()
    link.socket.close()


def subscribe(port: int, queue: str, consumers: int) -> list[Link]:
    """The consumers, each with a selector of its own."""
    links = [Link(port) for _ in range(CONNECTIONS)]
    for number in range(consumers):
        links[number % CONNECTIONS].socket.sendall(
            f"SUBSCRIBE\nid:{number}\ndestination:/queue/{queue}\nack:auto\n"
            f"selector:account = 'a{number}' AND amount >= 100\n\n\0".encode()
        )
    for link in links:
        link.settle()
    return links


class Receiver:
    """Counts what arrives and where; raises on what is wrong."""

    def __init__(self, links: list[Link], consumers: int) -> None:
        self._poll = select.epoll()
        self._sockets = {link.socket.fileno(): link.socket for link in links}
        self._rests = dict.fromkeys(self._sockets, b"")
        self._last = [-1] * consumers
        self._consumers = consumers
        self.received = 0
        self.window = threading.Semaphore(WINDOW)
        for number, one in self._sockets.items():
            one.setblocking(False)
            self._poll.register(number, select.EPOLLIN)

    def start_over(self) -> None:
        """The next message of each consumer is its first."""
        self._last = [-1] * self._consumers
        self.received = 0

    def run(self, count: int) -> None:
        """Until all are there."""
        while self.received < count:
            ready = self._poll.poll(STALL_SECONDS)
            if not ready:
                raise SystemExit(f"bench: {count - self.received} of {count} messages did not arrive")
            for number, _ in ready:
                self._take(number, self._sockets[number].recv(RECEIVE_BYTES))

    def _take(self, number: int, data: bytes) -> None:
        if not data:
            raise SystemExit("bench: the broker closed a consumer's connection")
        whole, _, self._rests[number] = (self._rests[number] + data).rpartition(b"\0")
        targets = [int(found) for found in DELIVERED.findall(whole)]
        numbers = [int(found) for found in NUMBERED.findall(whole)]
        if len(targets) != len(numbers):
            raise SystemExit(f"bench: not only messages arrived: {whole[:300]!r}")
        for target, sent in zip(targets, numbers, strict=True):
            if sent % self._consumers != target or sent <= self._last[target]:
                raise SystemExit(f"bench: message {sent} came to consumer {target} after {self._last[target]}")
            self._last[target] = sent
        self.received += len(targets)
        if targets:
            self.window.release(len(targets))


def _produce(port: int, queue: str, consumers: int, count: int, window: threading.Semaphore) -> None:
    link = Link(port)
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        for _ in numbers:
            if not window.acquire(timeout=STALL_SECONDS):
                return
        link.socket.sendall(b"".join([_sent(queue, f"a{n % consumers}", n, False) for n in numbers]))
    link.settle()
    link.socket.close()


def measure(broker: Broker, queue: str, consumers: int, count: int, pending: int) -> Result:
    """One run; raises `SystemExit` when a message is lost, doubled, misled or out of order."""
    port = broker.ports["stomp"]
    fill(port, queue, pending)
    began = time.monotonic()
    links = subscribe(port, queue, consumers)
    receiver = Receiver(links, consumers)
    _run(port, queue, consumers, consumers, receiver)  # the first message of each comes when it has looked at all
    ready = time.monotonic() - began
    receiver.start_over()
    before = broker.cpu_seconds()
    seconds = _run(port, queue, consumers, count, receiver)
    cpu = broker.cpu_seconds() - before
    for link in links:
        link.socket.close()
    return Result(
        broker.label, consumers, pending, count, ready, count / seconds, cpu * 1e6 / count, broker.resident_mib()
    )


def _run(port: int, queue: str, consumers: int, count: int, receiver: Receiver) -> float:
    producer = threading.Thread(target=_produce, args=(port, queue, consumers, count, receiver.window), daemon=True)
    began = time.monotonic()
    producer.start()
    receiver.run(count)
    seconds = time.monotonic() - began
    producer.join()
    return seconds


def main() -> None:
    """Each broker that is there, with and without pending messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pure", type=interpreter, default=ROOT / ".venv/bin/python", help="interpreter of the pure build"
    )
    parser.add_argument("--compiled", type=interpreter, default=ROOT / ".venv-compiled/bin/python")
    parser.add_argument("--brokers", default="compiled,pure,classic")
    parser.add_argument("--consumers", type=int, default=1_000)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--require", default="", help="rates the compiled build must reach: without,with pending")
    options = parser.parse_args()
    missed = False
    for name in options.brokers.split(","):
        for place, pending in enumerate((0, options.pending)):
            results = _results(name, options, pending)
            if not results:
                continue
            rate = statistics.median(result.rate for result in results)
            for result in results:
                print(json.dumps(asdict(result)), flush=True)
            required = float(options.require.split(",")[place]) if options.require and name == "compiled" else 0.0
            missed = missed or rate < required
            print(f"{name}: {rate:.0f} messages/s to {options.consumers} consumers behind {pending}", flush=True)
    if missed:
        raise SystemExit("bench: a required rate was missed")


def _results(name: str, options: argparse.Namespace, pending: int) -> list[Result]:
    work = Path(tempfile.mkdtemp(prefix="spanwire-selectors-"))
    python = options.compiled if name == "compiled" else options.pure
    if name == "classic" and not Path("/usr/share/activemq/bin/activemq.jar").exists():
        print("bench: ActiveMQ Classic is missing: apt-get install activemq")
        return []
    broker = classic(work / name) if name == "classic" else spanwire(name, python, work / name)
    results: list[Result] = []
    try:
        for number in range(options.repeats):
            results.append(measure(broker, f"BENCH.SELECTORS.{number}", options.consumers, options.count, pending))
        return results
    except SystemExit as failure:
        if name != "classic":
            raise
        print(f"{name}, {pending} pending: {failure}", flush=True)
        return results
    finally:
        broker.stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
