"""A project of `spanwire pipeline init`, used as its README says. Its own tests start a broker and a Spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from spanwire.cli.main import main
from tests.support.broker_process import BrokerProcess
from tests.support.patience import SPARK_S
from tests.support.queues import take, take_all

NAME: Final = "shop"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert main(["pipeline", "init", str(tmp_path / NAME)]) == 0
    return tmp_path / NAME


def environment(broker: BrokerProcess | None) -> dict[str, str]:
    """Without what pytest and make tell their children."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTEST_"))}
    return {**kept, **({} if broker is None else {"BROKER_URL": broker.openwire_uri()})}


def make(project: Path, target: str, broker: BrokerProcess | None = None) -> str:
    done = subprocess.run(
        ["make", target], cwd=project, env=environment(broker), capture_output=True, text=True, timeout=SPARK_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(2 * SPARK_S)
def test_the_tests_of_a_new_project_pass_with_its_routes_on_spark(project: Path) -> None:
    assert f"PYTHON ?= {sys.executable}" in (project / "local.mk").read_text("utf-8")
    assert "6 passed" in make(project, "test")


@pytest.mark.long
@pytest.mark.timeout(4 * SPARK_S)
def test_the_targets_of_a_new_project_do_what_they_say(project: Path, own_broker: BrokerProcess) -> None:
    url, queue = own_broker.openwire_uri(), NAME.upper()
    targets = re.findall(r"^  make (\w+)", make(project, "help"), re.MULTILINE)
    assert targets == ["help", "plan", "test", "broker", "send", "drain", "run", "status", "stop"]
    assert f"route {NAME}\n" in make(project, "plan", own_broker)
    make(project, "send", own_broker)
    make(project, "drain", own_broker)
    assert len(take_all(url, f"{queue}.SMALL")) == 3
    log = project / "run.log"
    with log.open("wb") as output:
        running = subprocess.Popen(
            ["make", "run"], cwd=project, env=environment(own_broker), stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        make(project, "send", own_broker)
        deadline = time.monotonic() + SPARK_S
        found = 0
        while found < 3 and running.poll() is None and time.monotonic() < deadline:  # Spark starts meanwhile
            found += len(take(url, f"{queue}.SMALL", 3 - found))
        assert found == 3, log.read_text()
        while f"{NAME}: running" not in make(project, "status", own_broker):
            assert time.monotonic() < deadline
            time.sleep(1)
        assert f"{NAME}.yaml has ended" in make(project, "stop", own_broker)
        assert running.wait(SPARK_S) == 0
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert pq.read_table(project / f"data/{NAME}").num_rows == 6, log.read_text()
