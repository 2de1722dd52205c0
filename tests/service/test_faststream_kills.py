"""Services of FastStream while their broker is killed again and again: each message is handled at least once."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from spanwire.client import blocking
from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import BrokerProcess, spanwire_command

TIMEOUT_S: Final = 60.0
PROGRAM: Final = """\
import asyncio
import json
import os
import sys
from typing import Annotated

from faststream import Context, FastStream

from spanwire.adapters.faststream import SpanwireBroker, SpanwireMessage

Handled = Annotated[SpanwireMessage, Context("message")]
url, path, name = sys.argv[1:]
broker = SpanwireBroker(url, client_id=name)
app = FastStream(broker)
ledger = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(kind, number, message):
    line = {"kind": kind, "number": number, "redelivered": message.raw_message.redelivered}
    os.write(ledger, json.dumps(line).encode() + b"\\n")


@broker.subscriber("ORDERS", prefetch=20, max_workers=4)
@broker.publisher("BILLS")
async def bill(number: int, message: Handled) -> int:
    await asyncio.sleep(0.005)
    note("order", number, message)
    return number


@broker.subscriber("topic://NEWS", durable="news")
async def read(number: int, message: Handled) -> None:
    note("news " + name, number, message)


@app.after_startup
async def say() -> None:
    print("open", flush=True)


asyncio.run(app.run())
"""


@contextmanager
def service(name: str, url: str, directory: Path) -> Iterator[AnnouncingProcess]:
    """A process with the program, killed at the end."""
    (directory / "program.py").write_text(PROGRAM, "utf-8")
    path = os.pathsep.join(entry for entry in ("", *sys.path) if entry)
    command = [sys.executable, "program.py", url, str(directory / f"{name}.jsonl"), name]
    process = AnnouncingProcess(command, directory, [], {**os.environ, "PYTHONPATH": path})
    try:
        process.wait_until(lambda line: line == "open", TIMEOUT_S)
        yield process
    finally:
        process.end(signal.SIGKILL)


def noted(directory: Path) -> list[dict[str, object]]:
    """Return what handlers have noted, each service in the order of its calls."""
    files = sorted(directory.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def numbers(directory: Path, kind: str) -> Counter[object]:
    return Counter(note["number"] for note in noted(directory) if note["kind"] == kind)


def wait_for_all(directory: Path, count: int, *kinds: str) -> None:
    """Return when each number of each kind was handled. Raises AssertionError with what is missing."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if all(len(numbers(directory, kind)) == count for kind in kinds):
            return
        time.sleep(0.1)
    missing = {kind: sorted(set(range(count)) - set(numbers(directory, kind)))[:10] for kind in kinds}
    raise AssertionError(f"not handled after {TIMEOUT_S:.0f} s: {missing}")


def send(url: str, start: int, end: int) -> None:
    with blocking.connect(url) as connection, connection.session() as session:
        producer = session.create_producer()
        for number in range(start, end):
            for name in ("queue://ORDERS", "topic://NEWS"):
                producer.send(json.dumps(number), {"content-type": "application/json"}, name)


def check_bills(url: str, count: int) -> None:
    """Read bills until each number was among them, and find no dead letter."""
    missing = set(range(count))
    with blocking.connect(url) as connection, connection.session() as session:
        consumer = session.create_consumer("queue://BILLS")
        while missing:
            message = consumer.receive(TIMEOUT_S)
            assert message is not None, f"no bill for {sorted(missing)[:10]}"
            missing.discard(message.json())
        assert list(session.create_browser("queue://ActiveMQ.DLQ")) == []


def try_kills(directory: Path, kills: int, per_kill: int) -> None:
    count = per_kill * (kills + 1)
    with BrokerProcess(spanwire_command(), directory / "broker") as broker:
        url = f"failover:({broker.openwire_uri()})?maxReconnectDelay=200"
        with service("one", url, directory) as first, service("two", url, directory):
            for round_ in range(kills):
                send(url, round_ * per_kill, (round_ + 1) * per_kill)
                broker.kill()  # while handlers run and bills and acknowledgements are under way
                if round_ == kills // 2:
                    first.end(signal.SIGKILL)
                broker.start()
            send(url, kills * per_kill, count)
            with service("one", url, directory):
                wait_for_all(directory, count, "order", "news one", "news two")
        check_bills(url, count)
    twice = sum(numbers(directory, "order").values()) - count
    flagged = sum(1 for note in noted(directory) if note["kind"] == "order" and note["redelivered"])
    assert twice <= flagged  # whatever was handled twice was flagged the second time


def test_each_message_is_handled_though_broker_and_service_are_killed(tmp_path: Path) -> None:
    try_kills(tmp_path, kills=1, per_kill=40)


@pytest.mark.long
def test_each_message_is_handled_through_twenty_kills(tmp_path: Path) -> None:
    try_kills(tmp_path, kills=20, per_kill=100)
