"""Load on a broker over STOMP: sends as fast as it takes them, sends at a rate, requests over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from typing import Final

from tests.bench.management.web_broker import HOST, WithWebPort, cpu_s
from tests.service.started import TIMEOUT_S

BATCH: Final = 200  # sends of one write; the last one has a receipt
BODY: Final = "x" * 1024
SUBSCRIBE: Final = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0SUBSCRIBE\nid:1\ndestination:/topic/LOAD\n\n\0"
PAGE_ROWS: Final = 100


def full_load(broker: WithWebPort, seconds: float) -> dict[str, float]:
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


def sends(broker: WithWebPort, seconds: float, rate: float) -> list[float]:
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


def requests(port: int, seconds: float, rate: float) -> list[float]:
    """Round trips of requests over HTTP, each on a connection of its own, at a rate, sorted, in seconds."""
    found: list[float] = []
    began = time.monotonic()
    for number in range(int(seconds * rate)):
        due = began + number / rate
        time.sleep(max(0.0, due - time.monotonic()))
        assert fetched(port, "/api/v1/broker") > 0
        found.append(time.monotonic() - due)
    return sorted(found)


def fetched(port: int, path: str) -> int:
    """The number of bytes that a path is answered with; any answer but 200 ends the measurement."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise SystemExit(f"management: {path} is answered with {answer.status}")
    return len(body)


def pages(port: int, queues: int, count: int) -> list[float]:
    """Times of single pages of a long list, while the list is made anew each second, sorted, in seconds."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)
    found: list[float] = []
    for number in range(count):
        page = 1 + number * 7 % max(1, queues // PAGE_ROWS)
        began = time.monotonic()
        connection.request("GET", f"/api/v1/queues?page={page}&size={PAGE_ROWS}&sort=-pending")
        answer = json.loads(connection.getresponse().read())
        found.append(time.monotonic() - began)
        assert len(answer["items"]) == PAGE_ROWS
        time.sleep(0.02)
    connection.close()
    return sorted(found)


def share(values: list[float], part: float) -> float:
    """A quantile of sorted seconds, in milliseconds."""
    return values[min(len(values) - 1, int(len(values) * part))] * 1000
