"""Archives on HDFS, and the messages that they stage there, over kills of its servers and of the program.

`tests.support.hdfs` says what they need; no package of a distribution has it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.broker_process import COMMAND, BrokerProcess, spanwire_command
from tests.support.hdfs import DATA_NODE, NAME_NODE, HdfsProcesses, hadoop_jars
from tests.support.patience import SPARK_S
from tests.support.queues import numbered, send, take_all

COUNT: Final = 50
ATTEMPTS: Final = 5  # of a command: where a server stays away for too long, it ends in one line and loses nothing
# In a process of its own: a process has one Java for ever, and other tests have another.
READ: Final = """
import io, json, sys
import pyarrow.parquet as pq
from spanwire.pipeline.storage.arrow_files import open_files
files = open_files(sys.argv[1])
names = sorted(files.all_sizes())
texts = [
    text
    for name in names if name.endswith(".parquet")
    for text in pq.read_table(io.BytesIO(files.read(name))).column("text").to_pylist()
]
print(json.dumps({"texts": texts, "segments": [name for name in names if "segment" in name]}))
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(6 * SPARK_S)]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsProcesses]:
    with HdfsProcesses(hadoop_jars(), tmp_path_factory.mktemp("hdfs")) as servers:
        yield servers


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        yield broker


def finish(hdfs: HdfsProcesses, command: list[str]) -> str:
    """Run a command until it ends well; what it printed then."""
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            command, env=hdfs.environment, capture_output=True, text=True, timeout=SPARK_S, check=False
        )
        if done.returncode == 0:
            return done.stdout
    raise AssertionError(done.stdout + done.stderr)


def interrupt(hdfs: HdfsProcesses, command: list[str], kill: Callable[[int], object]) -> None:
    """Start a command, and call ``kill`` with its process id when it has begun to write."""
    before = hdfs.blocks()
    process = subprocess.Popen(
        command, env=hdfs.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + SPARK_S
        while hdfs.blocks() <= before and process.poll() is None:
            assert time.monotonic() < deadline
        kill(process.pid)
        process.wait(SPARK_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def all_kills(hdfs: HdfsProcesses) -> Iterator[Callable[[int], object]]:
    """Both servers, one after the other, which come back; the program; each server alone."""

    def kill_program(pid: int) -> None:
        os.killpg(pid, signal.SIGKILL)

    def restart(*names: str) -> Callable[[int], object]:
        def kill(_: int) -> None:
            for name in names:
                hdfs.kill(name)
            for name in names:
                hdfs.start(name)

        return kill

    yield from (restart(NAME_NODE, DATA_NODE), kill_program, restart(DATA_NODE), restart(NAME_NODE))


def test_an_archive_has_every_message_once_whatever_is_killed(hdfs: HdfsProcesses, broker: BrokerProcess) -> None:
    url, address = broker.openwire_uri(), hdfs.address("archive")
    command = [*COMMAND, "pipeline", "archive", "queue://ORDERS", address, "--url", url]
    sent = send(url, "ORDERS", numbered(COUNT))
    assert finish(hdfs, command).startswith(f"archive: batch 1, {COUNT} rows")
    for kill in all_kills(hdfs):
        sent += send(url, "ORDERS", numbered(COUNT, sent))
        interrupt(hdfs, command, kill)
    finish(hdfs, command)
    found = json.loads(finish(hdfs, [sys.executable, "-c", READ, address]))
    assert Counter(found["texts"]) == Counter(f"text {number}" for number in range(sent))
    assert found["segments"] == [] and take_all(url, "ORDERS") == []
