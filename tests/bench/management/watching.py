"""Open pages, each a stream of events, and a scrape each second; clients that begin a request and never end it.

    python -m tests.bench.management.watching --port N [--streams 50] [--scrapes]

A process of its own, so that what it reads takes no time of the one that measures. Says "open" once all streams are
open, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import contextlib
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from tests.bench.management.load import fetched
from tests.bench.management.web_broker import HOST
from tests.service.started import TIMEOUT_S

VIEWS: Final = "queues,topics,connections"
HALF_A_HEAD: Final = b"GET /health/live HTTP/1.1\r\nHost: "
OPEN: Final = b"event: open"


@contextlib.contextmanager
def watchers(port: int, streams: int, *, scrapes: bool = False) -> Iterator[None]:
    """Run this module beside a measurement."""
    command = [sys.executable, "-m", "tests.bench.management.watching", "--port", str(port), "--streams", str(streams)]
    with subprocess.Popen(
        command + ["--scrapes"] * scrapes, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "open":
            raise SystemExit("management: the streams of events did not open")
        yield
        if process.poll() is not None:
            raise SystemExit("management: a stream of events has ended")
        process.communicate()


@contextlib.contextmanager
def slow_sockets(port: int, count: int) -> Iterator[None]:
    """Sockets that have sent half a head, and then nothing."""
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            sockets.append(socket.create_connection((HOST, port), TIMEOUT_S))
            with contextlib.suppress(OSError):  # closed to make room
                sockets[-1].sendall(HALF_A_HEAD)
        yield
    finally:
        for one in sockets:
            one.close()


def _opened(port: int, selector: selectors.BaseSelector) -> None:
    request = f"GET /api/v1/events?views={VIEWS} HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n"
    stream = socket.create_connection((HOST, port), TIMEOUT_S)
    stream.sendall(request.encode())
    selector.register(stream, selectors.EVENT_READ)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--scrapes", action="store_true")
    options = parser.parse_args()
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    for _ in range(options.streams):
        _opened(options.port, selector)
    is_open: set[object] = set()
    has_said = False
    scraped = time.monotonic()
    while True:
        for key, _ in selector.select(0.1):
            if key.fileobj is sys.stdin:
                return 0
            assert isinstance(key.fileobj, socket.socket)
            data = key.fileobj.recv(1 << 16)
            if not data:
                return 1
            if OPEN in data:
                is_open.add(key.fileobj)
        if len(is_open) == options.streams and not has_said:
            has_said = True
            print("open", flush=True)
        if options.scrapes and time.monotonic() - scraped >= 1.0:
            scraped = time.monotonic()
            fetched(options.port, "/metrics")


if __name__ == "__main__":
    sys.exit(main())
