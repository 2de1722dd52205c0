"""kill -9 of a whole replay, Python and Java, in the middle: the same command goes on, and nothing is doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

import pytest
from pyarrow.fs import LocalFileSystem

from spanwire.management.control_client import ControlClient
from spanwire.pipeline.archive.archive_query import STATE
from spanwire.pipeline.archive.shared_archive import SharedArchive
from spanwire.pipeline.link.broker_link import consume
from spanwire.pipeline.options import read_options
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.storage.arrow_files import ArrowFiles
from tests.support.broker_process import COMMAND, BrokerProcess
from tests.support.queues import numbered, send, take, take_all

TOTAL: Final = 1200
RATE: Final = 400  # messages per second: twelve batches
LISTED: Final = "queue://LISTED"
TIMEOUT_S: Final = 120


def kept(url: str, directory: Path) -> None:
    """Archive the queue, without Spark, as in a bucket."""
    staging = directory / STATE / "staging"
    staging.mkdir(parents=True)
    options = read_options({"url": url, "destination": "queue://REPLAYED", "stagingDirectory": "s3://bucket/staging"})
    staged, files = (
        ArrowFiles(LocalFileSystem(), str(one), "the archive", has_directories=True) for one in (staging, directory)
    )
    archive = SharedArchive(options, lambda: consume(options), staged, files, lambda event: None)
    archive.run(AVAILABLE_NOW, threading.Event())


@pytest.mark.long
@pytest.mark.timeout(5 * TIMEOUT_S)
def test_a_replay_killed_in_the_middle_goes_on_and_doubles_nothing(url: str, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    send(url, "REPLAYED", numbered(TOTAL))
    kept(url, archive)
    command = [*COMMAND, "pipeline", "replay", str(archive), "--url", url, "--to", "queue://AGAIN"]
    replay = subprocess.Popen(
        [*command, "--rate", str(RATE), "--json"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert replay.stdout is not None
    first = json.loads(replay.stdout.readline())
    os.killpg(replay.pid, signal.SIGKILL)
    replay.wait()
    replay.stdout.close()
    assert (first["sent"], first["total"]) == (RATE // 4, TOTAL)
    done = subprocess.run([*command, "--rate", "4000"], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.stdout.splitlines()[-1] == f"replay: sent {TOTAL} messages", done.stderr
    assert [message.body for message in take(url, "AGAIN", 5)] == [f"text {number}" for number in range(5)]
    undo = subprocess.run([*command, "--undo"], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert undo.stdout == f"replay: removed {TOTAL - 5}, gone 5, in use 0\n", undo.stderr
    assert take_all(url, "AGAIN") == []


def replays(broker: BrokerProcess, state: str) -> list[dict[str, object]]:
    """The replays into `LISTED` among the tasks of a broker that are in a state. Killed ones of others stay a while."""
    rows = ControlClient(broker.directory / "data", TIMEOUT_S).ask("tasks")
    assert isinstance(rows, list)
    replays = [row for row in rows if row["operation"] == "replay" and row["target"] == LISTED]
    return [row for row in replays if row["state"] == state]


@pytest.mark.long
@pytest.mark.timeout(5 * TIMEOUT_S)
def test_a_replay_is_a_task_of_the_broker_that_can_be_cancelled_and_goes_on(
    spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url, archive = spanwire.openwire_uri(), tmp_path / "listed"
    send(url, "REPLAYED", numbered(TOTAL))
    kept(url, archive)
    command = [*COMMAND, "pipeline", "replay", str(archive), "--url", url, "--to", LISTED]
    replay = subprocess.Popen([*command, "--rate", "40", "--json"], stdout=subprocess.PIPE, text=True)
    assert replay.stdout is not None
    json.loads(replay.stdout.readline())
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := replays(spanwire, "running")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    (task,) = found
    assert (task["sources"], task["target"], task["total"]) == (str(archive), LISTED, TOTAL)
    ControlClient(spanwire.directory / "data", TIMEOUT_S).ask("task-cancel", id=task["id"])
    out, _ = replay.communicate(timeout=TIMEOUT_S)
    assert "the same command goes on" in out.splitlines()[-1]
    assert [row["id"] for row in replays(spanwire, "cancelled")] == [task["id"]]
    done = subprocess.run([*command, "--rate", "4000"], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.stdout.splitlines()[-1] == f"replay: sent {TOTAL} messages", done.stderr
    (task,) = replays(spanwire, "done")
    assert (task["processed"], task["total"]) == (TOTAL, TOTAL)
    assert len(take_all(url, "LISTED")) == TOTAL
