"""A Celery worker while its broker is killed: each task is run at least once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from celery import Celery
from kombu import pools

from spanwire.adapters.kombu import register
from tests.support.announcing_process import AnnouncingProcess
from tests.support.broker_process import BrokerProcess, spanwire_command

TIMEOUT_S: Final = 90.0
PROGRAM: Final = """\
import os
import time

from celery import Celery

from spanwire.adapters.kombu import register

register()
app = Celery("shop", broker=os.environ["BROKER"])
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=2, broker_connection_retry_on_startup=True)
if os.environ["ADDRESS"]:
    app.conf.broker_transport_options = {"url": os.environ["ADDRESS"]}
ledger = os.open("ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


@app.task(name="bill")
def bill(number):
    time.sleep(0.01)
    os.write(ledger, f"{number}\\n".encode())
"""


@contextmanager
def worker(directory: Path, broker: str, address: str) -> Iterator[AnnouncingProcess]:
    """A worker with the program, killed at the end."""
    (directory / "shop.py").write_text(PROGRAM, "utf-8")
    path = os.pathsep.join(entry for entry in ("", *sys.path) if entry)
    environment = {**os.environ, "PYTHONPATH": path, "C_FORCE_ROOT": "1", "BROKER": broker, "ADDRESS": address}
    command = [sys.executable, "-m", "celery", "--app", "shop", "worker", "--pool", "solo", "--loglevel", "info"]
    process = AnnouncingProcess(command, directory, [], environment)
    try:
        process.wait_until(lambda line: "ready." in line, TIMEOUT_S)
        yield process
    finally:
        process.end(signal.SIGKILL)


def done(directory: Path) -> set[int]:
    ledger = directory / "ledger"
    return {int(line) for line in ledger.read_text("ascii").splitlines()} if ledger.exists() else set()


def wait_for(directory: Path, count: int) -> None:
    """Return when so many different tasks were run. Raises AssertionError with what is missing."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(done(directory)) < count:
        missing = sorted(set(range(count)) - done(directory))
        assert time.monotonic() < deadline, f"not run after {TIMEOUT_S:.0f} s: {missing[:10]}"
        time.sleep(0.05)


def sender(broker: str, address: str) -> Any:
    register()
    app = Celery("sender", broker=broker)
    if address:
        app.conf.broker_transport_options = {"url": address}
    return app


def try_kills(directory: Path, kills: int, per_kill: int, failover: bool) -> None:
    with BrokerProcess(spanwire_command(), directory / "broker") as broker:
        url = f"spanwire://localhost:{broker.openwire_port}"
        address = f"failover:({broker.openwire_uri()})?maxReconnectDelay=200" if failover else ""
        with worker(directory, url, address):
            for round_ in range(kills):
                app = sender(url, address)
                for number in range(round_ * per_kill, (round_ + 1) * per_kill):
                    app.send_task("bill", [number])
                pools.reset()  # Celery leaves the connections of a closed application open
                app.close()
                wait_for(directory, round_ * per_kill + per_kill // 4)
                broker.kill()  # while tasks run and more of them wait at the broker
                broker.start()
            wait_for(directory, kills * per_kill)


@pytest.mark.parametrize("failover", [False, True], ids=["address", "failover"])
def test_each_task_is_run_though_the_broker_is_killed(tmp_path: Path, failover: bool) -> None:
    try_kills(tmp_path, 1, 40, failover)


@pytest.mark.long
@pytest.mark.parametrize("failover", [False, True], ids=["address", "failover"])
def test_each_task_is_run_through_ten_kills(tmp_path: Path, failover: bool) -> None:
    try_kills(tmp_path, 10, 80, failover)
