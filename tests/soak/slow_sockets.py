"""Slowloris: thousands of sockets that say nothing, or one byte at a time, beside one healthy client.

    python -m tests.soak.slow_sockets --count 2000 --seconds 15 --rounds 3 [--kinds http,web,ws] [--healthy web]

The healthy client sends over STOMP with a receipt, over STOMP in a WebSocket, or by POST to the web process, at a
fixed rate, first alone, then beside the slow ones. The attacker is a process of its own and opens anew what the broker
closes. Prints one line of JSON; status 1 when the p99 beside them is more than twice that alone.
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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from spanwire._build import version_text
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from tests.bench.http_ports import StompEnd
from tests.service.started import Started, StompClient
from tests.soak.idle_connections import HOST, Broker, resident_bytes

RATES: Final = {"stomp": 500, "ws": 500, "web": 100}  # sends per second of the healthy client
BODY: Final = b"x" * 1024
ALLOWED: Final = 2.0
SPREAD: Final = 5  # sockets that send in one burst
PRIORITY: Final = -15  # of the broker and the healthy client, where the system lets us
KINDS: Final = ("silent", "stomp", "openwire", "hello", "reader", "http", "web", "ws")
SCRIPTS: Final = {
    "silent": b"",
    "stomp": b"CONNECT\naccept-version:1.2\nhost:" + b"x" * 7000,
    "openwire": FrameEncoder().encode(wire_format_info(WireFormatPreferences())) + b"\0\0\xff\xff\x03" + b"x" * 60000,
    "hello": b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb\x03\x03" + b"x" * 16000,
    "http": b"POST / HTTP/1.1\r\nHost: localhost\r\nclientID: ID:slow\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60000,
    "web": b"POST /api/message/SLOW HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 16000,
    "ws": b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nX: " + b"x" * 16000,
    "reader": b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SUBSCRIBE\nid:1\ndestination:/topic/NOISE\n\n\0",
}
PORTS: Final = {
    "silent": "tcp", "stomp": "stomp", "openwire": "tcp", "hello": "ssl", "reader": "stomp",
    "http": "http", "web": "web", "ws": "ws",
}  # fmt: skip
LISTENING: Final = re.compile(r"Listening for web requests at: http://127\.0\.0\.1:(\d+)")


class WebBroker(Broker):
    """With connectors for HTTP and WebSocket, and the web process."""

    def text(self) -> str:
        connectors = '<transportConnector uri="http://127.0.0.1:0"/><transportConnector uri="ws://127.0.0.1:0"/>'
        text = super().text().replace("</transportConnectors>", f"{connectors}</transportConnectors>")
        return text.replace("<transportConnectors>", '<web port="0"/><transportConnectors>')

    def start(self) -> None:
        super().start()
        self.awaits("Listening for web requests at")
        self.ports["web"] = next(int(match[1]) for line in self.errors if (match := LISTENING.search(line)))


class Slow:
    """One socket of the attacker; ``reader`` logs in at once, subscribes and never reads."""

    def __init__(self, kind: str, port: int) -> None:
        self._script: Final = SCRIPTS[kind]
        self._port: Final = port
        self._position = 0
        self.reopened = -1
        self._open()
        if kind == "reader":
            self._channel.sendall(self._script)
            self._position = len(self._script)

    def _open(self) -> None:
        self._channel = socket.create_connection((HOST, self._port), 30)
        self._channel.setblocking(False)
        self._position = 0
        self.reopened += 1

    def dribbles(self) -> None:
        """One byte more; a socket that the broker closed is opened anew."""
        with contextlib.suppress(BlockingIOError):
            try:
                if not self._channel.recv(1, socket.MSG_PEEK):
                    raise ConnectionResetError
                self._channel.recv(64)
            except ConnectionError:
                self._channel.close()
                self._open()
                return
        if self._position < len(self._script):
            with contextlib.suppress(BlockingIOError, ConnectionError):
                self._position += self._channel.send(self._script[self._position : self._position + 1])


def attack(count: int, ports: dict[str, int], kinds: list[str]) -> None:
    """Until somebody ends it. One line says that all sockets are open."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    each = [kinds[number % len(kinds)] for number in range(count)]
    sockets = [Slow(kind, ports[PORTS[kind]]) for kind in each]
    sys.stdout.write("open\n")
    sys.stdout.flush()
    while True:
        started = time.monotonic()
        for number, slow in enumerate(sockets):
            slow.dribbles()
            if number % SPREAD == SPREAD - 1:  # over a second: slow clients do not keep step with each other
                time.sleep(max(0.0, started + (number + 1) / count - time.monotonic()))


Send = Callable[[int], None]  # one message with a number, up to the broker's answer


@contextlib.contextmanager
def healthy(kind: str, broker: Started) -> Iterator[Send]:
    """A client that sends one message after the other."""
    if kind == "stomp":
        with broker.stomp() as client:
            yield lambda number: _receipted(client, number)
    elif kind == "ws":
        end = StompEnd(broker.ports["ws"], is_websocket=True)

        def send(number: int) -> None:
            head = f"SEND\ndestination:/topic/HEALTHY\nreceipt:{number}\n\n".encode()
            end.socket.sendall(end.wire(head + BODY + b"\0"))
            end.until(b"RECEIPT")

        yield send
        end.socket.close()
    else:
        connection = http.client.HTTPConnection(HOST, broker.ports["web"], timeout=30)

        def asked(number: int) -> http.client.HTTPResponse:
            headers = {"Content-Type": "text/plain"}
            connection.request("POST", f"/api/message/HEALTHY?type=topic&n={number}", BODY, headers)
            return connection.getresponse()

        def post(number: int) -> None:
            try:
                answer = asked(number)
            except (ConnectionError, http.client.RemoteDisconnected):  # a connection between requests may be closed
                connection.close()
                answer = asked(number)
            if answer.status != 200:
                raise ConnectionError(f"{answer.status} {answer.read(200)!r}")
            answer.read()

        yield post
        connection.close()


def _receipted(client: StompClient, number: int) -> None:
    client.transact(f"SEND\ndestination:/topic/HEALTHY\nreceipt:{number}\n\n{BODY.decode()}", str(number))


def latencies(send: Send, seconds: float, rate: int) -> list[float]:
    """Round trips at a rate, in seconds; a late one does not make the next one late."""
    found = []
    started = time.monotonic()
    for number in range(int(seconds * rate)):
        due = started + number / rate
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        send(number)
        found.append(time.monotonic() - due)
    return sorted(found)


def quantile_ms(sorted_values: list[float], share: float) -> float:
    return round(sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))] * 1000, 3)


def beside_slow_ones(
    broker: Started, send: Send, count: int, seconds: float, rate: int, kinds: list[str]
) -> list[float]:
    """Round trips while ``count`` slow sockets are open."""
    command = [sys.executable, "-m", "tests.soak.slow_sockets", "--attack", json.dumps(broker.ports)]
    attacker = subprocess.Popen([*command, "--count", str(count), "--kinds", ",".join(kinds)], stdout=subprocess.PIPE)
    assert attacker.stdout is not None
    try:
        attacker.stdout.readline()
        return latencies(send, seconds, rate)
    finally:
        attacker.kill()
        attacker.wait()
        attacker.stdout.close()


def measure(
    broker: Started, count: int, seconds: float, rounds: int, kinds: list[str], client: str
) -> dict[str, object]:
    """Alone and beside the attacker by turns; of each figure the median."""
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    rate = RATES[client]
    with healthy(client, broker) as send:
        latencies(send, 3, rate)
        before = resident_bytes(broker.pid)
        for _ in range(rounds):
            alone.append(latencies(send, seconds, rate))
            beside.append(beside_slow_ones(broker, send, count, seconds, rate, kinds))
        grown = resident_bytes(broker.pid) - before

    def median_ms(runs: list[list[float]], share: float) -> float:
        return statistics.median(quantile_ms(run, share) for run in runs)

    return {
        "build": version_text(),
        "sockets": count,
        "kinds": kinds,
        "healthy": client,
        "p50_alone_ms": median_ms(alone, 0.5),
        "p99_alone_ms": median_ms(alone, 0.99),
        "p50_beside_ms": median_ms(beside, 0.5),
        "p99_beside_ms": median_ms(beside, 0.99),
        "p99_alone_all_ms": [quantile_ms(run, 0.99) for run in alone],
        "p99_beside_all_ms": [quantile_ms(run, 0.99) for run in beside],
        "max_beside_ms": median_ms(beside, 1.0),
        "ratio_p99": round(median_ms(beside, 0.99) / median_ms(alone, 0.99), 2),
        "grown_mib": round(grown / 2**20, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Latency of a healthy client beside slow sockets.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of slow sockets, separated by commas")
    parser.add_argument("--healthy", default="stomp", choices=sorted(RATES), help="kind of the healthy client")
    parser.add_argument("--attack", metavar="PORTS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown kinds {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.attack:
        attack(options.count, json.loads(options.attack), kinds)
    with contextlib.suppress(OSError):  # other programs of this machine should not be what is measured
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    with tempfile.TemporaryDirectory() as folder, WebBroker(Path(folder)) as broker:
        found = measure(broker, options.count, options.seconds, options.rounds, kinds, options.healthy)
    sys.stdout.write(json.dumps(found) + "\n")
    return 0 if float(str(found["ratio_p99"])) <= ALLOWED else 1


if __name__ == "__main__":
    sys.exit(main())
