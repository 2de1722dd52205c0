"""The command ``spanwire bridge`` without a broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spanwire.cli.main import main
from tests.support.ports import free_port

FILE = """\
[bridges.orders]
sourceConnectionFactory = "tcp://127.0.0.1:{port}"
sourceDestination = "queue://A"
targetConnectionFactory = "tcp://127.0.0.1:{port}?jms.password=hunter2"
targetDestination = "queue://B"
maxRetries = {retries}
failureRetryInterval = 1
"""
PROGRAM = """\
import runpy, signal, sys

class Reporter:
    def find_spec(self, name, path, target=None):
        if name.startswith("spanwire.cli"):
            print(signal.getsignal(signal.SIGHUP).name)
            sys.exit()

signal.signal(signal.SIGHUP, signal.SIG_DFL)
sys.meta_path.insert(0, Reporter())
runpy.run_module("spanwire", run_name="__main__")
"""


def written(tmp_path: Path, retries: int = 0, more: str = "") -> str:
    file = tmp_path / "bridge.toml"
    file.write_text(FILE.format(port=free_port(), retries=retries) + more)
    return str(file)


@pytest.mark.parametrize("words", [["check"], ["run", "--dry-run"]])
def test_a_check_shows_the_bridges_without_secrets(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bridge", words[0], written(tmp_path), *words[1:]]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("bridge orders\n  queue://A at tcp://127.0.0.1:") and "hunter2" not in told.out
    assert told.err == ""


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_bridge_that_is_refused_is_one_line_and_status_1(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, more='subscriptionName = "s"\n')
    assert main(["bridge", command, file]) == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    assert f"spanwire bridge: {file}:1: bridge orders: subscriptionName is for topics" in told.err


ROUTE = """\
- route:
    id: orders
    from:
      uri: "near:queue:A?concurrentConsumers=3"
      steps:
        - idempotentConsumer: {header: number}
        - to: "near:queue:B"
"""


def test_a_route_that_is_refused_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "route.yaml"
    file.write_text(ROUTE)
    assert main(["bridge", "check", str(file), "--broker", "near=tcp://127.0.0.1:1"]) == 1
    assert f"spanwire bridge: {file}:4: orders: concurrentConsumers" in capsys.readouterr().err


def test_a_bridge_that_has_used_up_its_retries_says_so_and_ends_with_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bridge", "run", written(tmp_path, retries=2)]) == 1
    told = capsys.readouterr()
    assert "bridge orders: retrying after a failure: no connection to tcp://127.0.0.1" in told.err
    assert "ERROR" in told.err and "bridge orders: failed, all 2 retries are used up: no connection to" in told.err
    assert told.out.startswith("bridge orders: failed, received 0, forwarded 0 in 0 batches, failures 3, last error: ")
    assert "hunter2" not in told.out + told.err


def test_an_unknown_command_is_answered_with_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bridge", "chekc"]) == 2
    assert "there is no command 'chekc'; did you mean check?" in capsys.readouterr().err


def test_a_signal_for_all_processes_of_a_broker_ends_no_host_of_java_providers_while_it_starts(tmp_path: Path) -> None:
    """Another interpreter tells what the program does with the signal when it begins to import the commands."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    for words, handler in ((["bridge", "jvm"], "SIG_IGN"), (["bridge", "run"], "SIG_DFL")):
        done = subprocess.run([sys.executable, str(program), *words], check=True, capture_output=True, text=True)
        assert done.stdout.split() == [handler]
