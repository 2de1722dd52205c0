"""kill -9 of what Spark runs in, in the middle of a batch: nothing is lost, and doubles are told by their ids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from tests.support.broker_process import BrokerProcess
from tests.support.queues import numbered, rest, send

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 200.0  # until the first message has come through
END_TIMEOUT_S = 200.0
COUNT = 1200
BEFORE_WORKER = 150  # messages that have come through: the first batch of 500 has begun and is not done
BEFORE_DRIVER = 750  # the same of the second


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


def receive(consumer: blocking.Consumer, count: int, found: list[Message], timeout_s: float) -> None:
    """Until there are ``count``, or fail."""
    deadline = time.monotonic() + timeout_s
    while len(found) < count:
        message = consumer.receive(timeout=1.0)
        if message is not None:
            found.append(message)
        assert time.monotonic() < deadline, f"only {len(found)} messages came through"


def numbers_by_id(found: list[Message]) -> dict[object, int]:
    """The message of each duplicate id; two of one id must be the same message."""
    by_id: dict[object, int] = {}
    for message in found:
        n = message.properties["n"]
        assert isinstance(n, int)
        assert by_id.setdefault(message.properties["_AMQ_DUPL_ID"], n) == n
    return by_id


@pytest.mark.long
@pytest.mark.timeout(3 * START_TIMEOUT_S)
def test_a_worker_and_then_the_driver_killed_in_the_middle_of_a_batch_lose_nothing(
    spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "IN", numbered(COUNT))
    found: list[Message] = []
    with blocking.connect(url) as connection, connection.session(acknowledge="auto") as session:
        consumer = session.create_consumer("queue://OUT")
        with victim(url, tmp_path, "forever") as process:
            receive(consumer, BEFORE_WORKER, found, START_TIMEOUT_S)
            workers = [int(path.name) for path in (tmp_path / "pids").iterdir()]
            assert [pid for pid in workers if kill(pid)], "no worker was there to be killed"
            receive(consumer, BEFORE_DRIVER, found, START_TIMEOUT_S)
            os.killpg(process.pid, signal.SIGKILL)
        with victim(url, tmp_path, "once") as process:
            assert process.wait(END_TIMEOUT_S) == 0, (tmp_path / "log-once").read_text()[-3000:]
        found += rest(session, consumer, "OUT")
    by_id = numbers_by_id(found)
    assert sorted(by_id.values()) == list(range(COUNT))
    assert len(found) > COUNT, "the kills hit no open batch"


def kill(pid: int) -> bool:
    """Whether there was such a process."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
