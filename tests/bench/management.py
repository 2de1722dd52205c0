"""Measures what management costs a broker: open pages and scrapes beside load, long lists, slow sockets.

    python -m tests.bench.management [--seconds 10] [--rounds 3] [--queues 10000] [--sockets 2000]

Rounds with and without what is measured alternate; of each figure the median is shown, and the rounds beside it. CPU is
that of the broker's process alone, because the web process is another one. Prints one line of JSON for each part.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started

LISTENING: Final = re.compile(r"Listening for web requests at: http://127\.0\.0\.1:(\d+)")
HOST: Final = "127.0.0.1"
BATCH: Final = 200  # sends of one write; the last one has a receipt
BODY: Final = "x" * 1024
PAGES: Final = 50
VIEWS: Final = "queues,topics,connections"
PAGE_ROWS: Final = 100
CREATED: Final = 100  # destinations in one request
TICKS: Final = os.sysconf("SC_CLK_TCK")
SUBSCRIBE: Final = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SUBSCRIBE\nid:1\ndestination:/topic/LOAD\n\n\0"
HALF_A_HEAD: Final = b"GET /health/live HTTP/1.1\r\nHost: "


class WithWebPort(Started):
    """A broker that starts its web process."""

    def text(self) -> str:
        return super().text().replace("</broker>", '<web port="0"/></broker>')

    def web_port(self) -> int:
        """The port, once the web process listens."""
        self.awaits("Listening for web requests at: ")
        return next(int(found[1]) for line in self.errors if (found := LISTENING.search(line)))


def cpu_s(pid: int) -> float:
    """Processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def full_load(broker: Started, seconds: float) -> dict[str, float]:
    """Send to a topic with one consumer as fast as it goes: rate, and CPU of the broker for a message."""
    frame = f"SEND\ndestination:/topic/LOAD\n\n{BODY}\0"
    last = f"SEND\ndestination:/topic/LOAD\nreceipt:r\n\n{BODY}\0"
    batch = (frame * (BATCH - 1) + last).encode()
    with socket.create_connection((HOST, broker.ports["stomp"]), TIMEOUT_S) as consumer, broker.stomp() as producer:
        consumer.sendall(SUBSCRIBE)
        consumer.recv(4096)
        stop = threading.Event()
        drain = threading.Thread(target=_drain, args=(consumer, stop), daemon=True)
        drain.start()
        sent, began, before = 0, time.monotonic(), cpu_s(broker.pid)
        while time.monotonic() - began < seconds:
            producer.send_raw(batch)
            producer.receive()
            sent += BATCH
        used, took = cpu_s(broker.pid) - before, time.monotonic() - began
        stop.set()
        drain.join()
    return {"rate": sent / took, "cpu_us": used / sent * 1e6}


def _drain(consumer: socket.socket, stop: threading.Event) -> None:
    consumer.settimeout(0.2)
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            consumer.recv(1 << 20)


def latencies(broker: Started, seconds: float, rate: float) -> list[float]:
    """Round trips of sends with a receipt at a rate, sorted, in seconds."""
    found: list[float] = []
    with broker.stomp() as client:
        began = time.monotonic()
        for number in range(int(seconds * rate)):
            due = began + number / rate
            time.sleep(max(0.0, due - time.monotonic()))
            client.transact(f"SEND\ndestination:/topic/PACED\nreceipt:{number}\n\n{BODY}", str(number))
            found.append(time.monotonic() - due)
    return sorted(found)


def share(values: list[float], part: float) -> float:
    """A quantile of sorted seconds, in milliseconds."""
    return round(values[min(len(values) - 1, int(len(values) * part))] * 1000, 3)


@contextlib.contextmanager
def watchers(port: int) -> Iterator[None]:
    """Open pages, each a stream of events, and a scrape each second."""
    streams = [http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S) for _ in range(PAGES)]
    for stream in streams:
        stream.request("GET", f"/api/v1/events?views={VIEWS}")
    stop = threading.Event()
    threads = [threading.Thread(target=_scrape, args=(port, stop), daemon=True)]
    threads += [threading.Thread(target=_read, args=(stream, stop), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for stream in streams:
            if stream.sock is not None:
                with contextlib.suppress(OSError):
                    stream.sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(TIMEOUT_S)


def _scrape(port: int, stop: threading.Event) -> None:
    while not stop.wait(1.0):
        connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        connection.close()


def _read(stream: http.client.HTTPConnection, stop: threading.Event) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        answer = stream.getresponse()
        while not stop.is_set() and answer.read1(65536):
            pass


@contextlib.contextmanager
def slow_sockets(port: int, count: int) -> Iterator[None]:
    """Sockets that have sent half a head, and then nothing; the web process closes them after a while."""
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection((HOST, port), TIMEOUT_S))
            with contextlib.suppress(OSError):
                sockets[-1].sendall(HALF_A_HEAD)
        yield
    finally:
        for one in sockets:
            one.close()


def compared(
    measure: Callable[[], float], around: Callable[[], contextlib.AbstractContextManager[None]], rounds: int
) -> dict[str, object]:
    """A figure alone and beside something, by turns."""
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(rounds):
        alone.append(measure())
        with around():
            beside.append(measure())
    ratio = statistics.median(beside) / statistics.median(alone)
    return {
        "alone": [round(one, 3) for one in alone],
        "beside": [round(one, 3) for one in beside],
        "ratio": round(ratio, 3),
    }


def pages(broker: WithWebPort, port: int, queues: int, requests: int = 300) -> dict[str, object]:
    """Times of single pages of a long list, while the list is made anew each second."""
    client = ControlClient(broker.data, TIMEOUT_S)
    for start in range(0, queues, CREATED):
        client.ask("create", destinations=[f"queue://LONG.{start + number}" for number in range(CREATED)])
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    found: list[float] = []
    for number in range(requests):
        page = 1 + number * 7 % max(1, queues // PAGE_ROWS)
        began = time.monotonic()
        connection.request("GET", f"/api/v1/queues?page={page}&size={PAGE_ROWS}&sort=-pending")
        answer = json.loads(connection.getresponse().read())
        found.append(time.monotonic() - began)
        assert len(answer["items"]) == PAGE_ROWS
        time.sleep(0.02)
    connection.close()
    found.sort()
    return {"queues": queues, "p50_ms": share(found, 0.5), "p99_ms": share(found, 0.99), "max_ms": share(found, 1.0)}


def main() -> int:
    parser = argparse.ArgumentParser(description="What management costs a broker.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--sockets", type=int, default=2_000)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder, WithWebPort(Path(folder)) as broker:
        port = broker.web_port()
        full_load(broker, options.seconds / 2)
        rate = full_load(broker, options.seconds / 2)["rate"] / 4
        rounds = options.rounds

        def cpu() -> float:
            return full_load(broker, options.seconds)["cpu_us"]

        def p99() -> float:
            return share(latencies(broker, options.seconds, min(rate, 2_000)), 0.99)

        parts: dict[str, Callable[[], dict[str, object]]] = {
            "CPU in µs a message beside 50 pages and a scrape": lambda: compared(cpu, lambda: watchers(port), rounds),
            "p99 in ms at a quarter of that load": lambda: compared(p99, lambda: watchers(port), rounds),
            "p99 in ms beside slow sockets": lambda: compared(p99, lambda: slow_sockets(port, options.sockets), rounds),
            "page of a list": lambda: pages(broker, port, options.queues),
        }
        for name, part in parts.items():
            sys.stdout.write(json.dumps({"what": name, "build": version_text(), **part()}, ensure_ascii=False) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
