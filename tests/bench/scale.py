"""``make bench-scale``: what a message costs the broker as one thing at a time grows, in one picture.

    python -m tests.bench.scale [--only NAME] [--most 100000000] [--rounds 3] [--output DIRECTORY]

Connections, destinations, consumers of a queue and of a topic, pending messages, and the size of a message grow, each
with a broker of its own; all else stays at one producer and one consumer of a queue with messages of 100 bytes. STOMP,
one message in a write, not persistent except on the queue with pending messages. Each must arrive once. The figure is
the processor time of the broker for a message, on a topic for a delivery, which must not grow but with the size of a
message: this generator is Python, shares the machine and is no measure of rates.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import select
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.bench.brokers.activemq import Broker, interpreter, spanwire
from tests.bench.loads.workloads import KIB, MIB
from tests.bench.reports import chart
from tests.bench.reports.origin import ROOT, commit
from tests.bench.selectors import RECEIVE_BYTES, STALL_SECONDS, Link

SIZE: Final = 100  # bytes of a body
ROUNDS: Final = 3
COUNT: Final = 50_000  # messages of one point, more where there are more than a tenth as many senders or receivers
WARM_UP: Final = 2_000
WINDOW: Final = 1_000  # messages on their way at most
SIZES_BYTES: Final = (
    400 * MIB
)  # sent at each point of growing sizes, but at least `FEWEST` and at most `COUNT` messages
FEWEST: Final = 4
MIB_IN_WINDOW: Final = 200
SUBSCRIPTIONS_EACH: Final = 100  # of one connection
FILL_BATCH: Final = 200  # pending messages of one write
MAX_HEAD: Final = 4 * KIB  # bytes; more than the headers of a message take
NUMBER: Final = re.compile(rb"\nnumber:(\d+)\n")


@dataclass(frozen=True)
class Point:
    """One measurement."""

    axis: str
    value: int
    messages: int
    cpu_us: float  # the median of all rounds
    least_us: float
    most_us: float
    resident_mib: float


class Arrivals:
    """Counts the messages that arrive at some connections, and finds those that arrive twice or never."""

    def __init__(self, links: list[Link], copies: int) -> None:
        """``copies`` of each message arrive."""
        self._poll = select.epoll()
        self._sockets = {link.socket.fileno(): link.socket for link in links}
        self._rests = dict.fromkeys(self._sockets, b"")
        self._copies = copies
        self._due = 0
        for number, one in self._sockets.items():
            one.setblocking(False)
            self._poll.register(number, select.EPOLLIN)

    def run(self, count: int, window: threading.Semaphore) -> None:
        """Wait for ``count`` messages, and release ``window`` for each whose copies are there.

        Raises:
            SystemExit: a message is missing or comes too often.
        """
        copies = [0] * count
        self._due = count * self._copies
        while self._due > 0:
            ready = self._poll.poll(STALL_SECONDS)
            if not ready:
                raise SystemExit(f"bench: {self._due} of {count * self._copies} deliveries did not happen")
            for number, _ in ready:
                self._take(number, self._sockets[number].recv(RECEIVE_BYTES), copies, window)

    def _take(self, number: int, data: bytes, copies: list[int], window: threading.Semaphore) -> None:
        if not data:
            raise SystemExit("bench: the broker closed a consumer's connection")
        whole, end, rest = (self._rests[number] + data).rpartition(b"\n\n")  # a body has neither
        self._rests[number] = rest[-MAX_HEAD:]
        done = 0
        for found in NUMBER.findall(whole + end):
            copies[int(found)] += 1
            self._due -= 1
            if copies[int(found)] > self._copies:
                raise SystemExit(f"bench: message {int(found)} came too often")
            done += copies[int(found)] == self._copies
        if done:
            window.release(done)

    def close(self) -> None:
        """Close the connections."""
        self._poll.close()
        for one in self._sockets.values():
            one.close()


def head(destination: str, size: int, number: int) -> bytes:
    """Return what goes before the body of a message."""
    return b"SEND\ndestination:%s\ncontent-length:%d\nnumber:%d\n\n" % (destination.encode(), size, number)


def send(links: list[Link], destinations: list[str], size: int, count: int, window: threading.Semaphore) -> None:
    """Send messages, each from the next link to the next destination, in a write of its own."""
    body = b"x" * size + b"\0"
    for number in range(count):
        if not window.acquire(timeout=STALL_SECONDS):
            return  # the receiver says why
        links[number % len(links)].socket.sendall(head(destinations[number % len(destinations)], size, number) + body)


def subscribed(port: int, destinations: list[str]) -> list[Link]:
    """Return connections with a consumer for each of ``destinations``."""
    links: list[Link] = []
    for index, name in enumerate(destinations):
        if index % SUBSCRIPTIONS_EACH == 0:
            links.append(Link(port))
        links[-1].socket.sendall(f"SUBSCRIBE\nid:{index}\ndestination:{name}\nack:auto\n\n\0".encode())
    for link in links:
        link.settle()
    return links


def cost(
    broker: Broker, senders: int, destinations: list[str], consumers: list[str], size: int, count: int, copies: int = 1
) -> float:
    """Return the broker's processor time for a message, in microseconds, after a warm-up."""
    port = broker.ports["stomp"]
    links = [Link(port) for _ in range(senders)]
    receivers = subscribed(port, consumers)
    arrivals = Arrivals(receivers, copies)
    room = max(1, min(WINDOW, MIB_IN_WINDOW * MIB // size))
    spent = 0.0
    for number in (min(count, max(WARM_UP, len(destinations))), count):
        window = threading.Semaphore(room)
        before = broker.cpu_seconds()
        sender = threading.Thread(target=send, args=(links, destinations, size, number, window), daemon=True)
        sender.start()
        arrivals.run(number, window)
        sender.join()
        spent = broker.cpu_seconds() - before
    arrivals.close()
    for link in links:
        link.socket.close()
    return spent * 1e6 / count / copies


def connections(broker: Broker, value: int) -> tuple[int, float]:
    """``value`` producers send to one queue in turn."""
    count = max(COUNT, 10 * value)
    return count, cost(broker, value, ["/queue/C"], ["/queue/C"], SIZE, count)


def destinations(broker: Broker, value: int) -> tuple[int, float]:
    """One producer sends to ``value`` queues in turn; each has a consumer."""
    count = max(COUNT, 5 * value)
    names = [f"/queue/D.{number}" for number in range(value)]
    return count, cost(broker, 1, names, names, SIZE, count)


def queue_consumers(broker: Broker, value: int) -> tuple[int, float]:
    """``value`` consumers share a queue."""
    return COUNT, cost(broker, 1, ["/queue/S"], ["/queue/S"] * value, SIZE, COUNT)


def topic_consumers(broker: Broker, value: int) -> tuple[int, float]:
    """``value`` consumers listen to a topic."""
    count = max(WARM_UP, COUNT // value)
    return count, cost(broker, 1, ["/topic/T"], ["/topic/T"] * value, SIZE, count, copies=value)


def pending(broker: Broker, value: int) -> tuple[int, float]:
    """Messages are sent to the end of a queue with ``value`` persistent messages and consumed at its beginning."""
    link = Link(broker.ports["stomp"])
    one = b"SEND\ndestination:/queue/P\npersistent:true\ncontent-length:%d\n\n%s\0" % (SIZE, b"x" * SIZE)
    for start in range(0, value, FILL_BATCH):
        link.socket.sendall(one * min(FILL_BATCH, value - start))
    link.settle()
    count = COUNT
    port = broker.ports["stomp"]
    reader = Link(port)
    before = broker.cpu_seconds()
    reader.socket.sendall(b"SUBSCRIBE\nid:p\ndestination:/queue/P\nack:auto\nactivemq.prefetchSize:100\n\n\0")
    body = b"x" * SIZE + b"\0"
    seen = 0
    for number in range(count):
        link.socket.sendall(
            b"SEND\ndestination:/queue/P\npersistent:true\ncontent-length:%d\nnumber:%d\n\n" % (SIZE, number) + body
        )
        while seen <= number - WINDOW:
            seen += _messages(reader)
    link.settle()
    while seen < count:
        seen += _messages(reader)
    spent = broker.cpu_seconds() - before
    reader.socket.close()
    link.socket.close()
    return seen, spent * 1e6 / seen


def _messages(reader: Link) -> int:
    """Return the number of messages of which the end has arrived."""
    reader.socket.settimeout(STALL_SECONDS)
    try:
        data = reader.socket.recv(RECEIVE_BYTES)
    except TimeoutError:
        raise SystemExit("bench: pending messages did not arrive") from None
    if not data:
        raise SystemExit("bench: the broker closed a consumer's connection")
    return data.count(b"\0")


def sizes(broker: Broker, value: int) -> tuple[int, float]:
    """Messages have bodies of ``value`` bytes."""
    count = max(FEWEST, min(COUNT, SIZES_BYTES // value))
    return count, cost(broker, 1, ["/queue/B"], ["/queue/B"], value, count)


Axis = tuple[Callable[[Broker, int], tuple[int, float]], list[int]]
AXES: Final[dict[str, Axis]] = {
    "connections": (connections, [1, 10, 100, 1_000, 9_000]),  # ports and files of a usual machine are enough for these
    "destinations": (destinations, [1, 10, 100, 1_000, 20_000]),
    "consumers of a queue": (queue_consumers, [1, 10, 100, 1_000]),
    "consumers of a topic, for a delivery": (topic_consumers, [1, 10, 100, 1_000]),
    "pending messages": (pending, [10, 1_000, 100_000, 1_000_000, 10_000_000]),
    "bytes of a message": (sizes, [100, KIB, 10 * KIB, 100 * KIB, MIB, 10 * MIB, 95 * MIB]),
}


def point(axis: str, value: int, python: Path, rounds: int, work: Path) -> Point:
    """Measure one point some times, each time at a broker of its own."""
    measure, _ = AXES[axis]
    figures: list[float] = []
    for _ in range(rounds):
        directory = Path(tempfile.mkdtemp(dir=work))
        broker = spanwire("compiled", python, directory / "broker")
        try:
            messages, cpu_us = measure(broker, value)
            resident_mib = broker.resident_mib()
        finally:
            broker.stop()
            shutil.rmtree(directory, ignore_errors=True)
        figures.append(cpu_us)
    return Point(axis, value, messages, statistics.median(figures), min(figures), max(figures), resident_mib)


def points(axis: str, python: Path, rounds: int, most: int, work: Path) -> list[Point]:
    """Measure the points of one axis."""
    found: list[Point] = []
    for value in AXES[axis][1]:
        if value > most:
            break
        found.append(point(axis, value, python, rounds, work))
        print(json.dumps(asdict(found[-1])), flush=True)
    return found


def main() -> None:
    """Measure, and write the figures and the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", type=interpreter, default=Path(sys.executable), help="interpreter of the build to measure"
    )
    parser.add_argument("--only", default="", help="only what has this in its name")
    parser.add_argument("--most", type=int, default=100_000_000, help="leave out larger values")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each point; the median counts")
    parser.add_argument("--output", type=Path, default=ROOT / "out")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    work = Path(tempfile.mkdtemp(prefix="spanwire-scale-"))
    curves: chart.Curves = {}
    try:
        for axis in AXES:
            if options.only in axis:
                found = points(axis, options.python, options.rounds, options.most, work)
                curves[axis] = [(point.value, point.cpu_us) for point in found]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    options.output.mkdir(parents=True, exist_ok=True)
    picture = options.output / f"scale-{time.strftime('%Y-%m-%d')}-{commit()}.png"
    print(picture if chart.draw_curves(curves, picture) else "no picture: pip install matplotlib")


if __name__ == "__main__":
    main()
