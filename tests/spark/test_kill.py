"""kill -9 of what Spark runs in, in the middle of a batch: nothing is lost, and doubles are known by their ids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from spanwire.client.messages.message import Message
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.queues import numbered, send, take_all
from tests.support.spark_kills import WITHOUT_IDS
from tests.support.spark_victim import SENT_BEFORE_HOLD

ROOT = Path(__file__).resolve().parents[2]
HELD_TIMEOUT_S = 250.0  # until a batch is held, with the start of Spark
END_TIMEOUT_S = 250.0
COUNT = 1200


@contextmanager
def victim(url: str, folder: Path, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program in a process group of its own, with a path on which there is no Python of ours."""
    log = (folder / f"log-{mode}").open("ab")
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "tests.support.spark_victim", url, str(folder), mode]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def wait_for_held(folder: Path, process: subprocess.Popen[bytes], before: set[int]) -> int:
    """The process of a task that has sent a part of a batch and waits, another than those ``before``."""
    deadline = time.monotonic() + HELD_TIMEOUT_S
    while True:
        for path in folder.glob("held-*"):
            pid = int(path.name.split("-")[1])
            if pid not in before:
                return pid
        assert process.poll() is None and time.monotonic() < deadline, (folder / "log-held").read_text()[-3000:]
        time.sleep(0.05)


def numbers_by_id(found: list[Message]) -> dict[object, int]:
    """The message of each duplicate id; two of one id must be the same message."""
    by_id: dict[object, int] = {}
    for message in found:
        n = message.properties["n"]
        assert isinstance(n, int)
        assert by_id.setdefault(message.properties["_AMQ_DUPL_ID"], n) == n
    return by_id


@pytest.mark.long
@pytest.mark.timeout(3 * HELD_TIMEOUT_S)
def test_a_worker_and_then_the_driver_killed_in_the_middle_of_a_batch_lose_nothing(tmp_path: Path) -> None:
    with BrokerProcess(spanwire_command(), tmp_path / "broker", inside=WITHOUT_IDS) as broker:
        url = broker.openwire_uri()
        send(url, "IN", numbered(COUNT))
        with victim(url, tmp_path, "held") as process:
            worker = wait_for_held(tmp_path, process, set())
            os.kill(worker, signal.SIGKILL)
            other = wait_for_held(tmp_path, process, {worker})
            os.killpg(process.pid, signal.SIGKILL)
            with suppress(ProcessLookupError):  # Spark's Python may end with its Java
                os.kill(other, signal.SIGKILL)
        with victim(url, tmp_path, "once") as process:
            assert process.wait(END_TIMEOUT_S) == 0, (tmp_path / "log-once").read_text()[-3000:]
        found = take_all(url, "OUT")
    assert sorted(numbers_by_id(found).values()) == list(range(COUNT))
    assert len(found) == COUNT + 2 * SENT_BEFORE_HOLD, "of each batch that a kill has opened, what was sent comes twice"
