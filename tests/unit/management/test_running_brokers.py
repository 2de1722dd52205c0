"""The registry of running brokers: true entries, permissions, and what is left by processes that died."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from spanwire.management.running_brokers import ListedBroker, RunningEntry, announce, running_brokers

BROKER: Final = ListedBroker("orders", 4711, "/data/orders", "/etc/orders.xml", ("tcp://127.0.0.1:61616",), 1_700_000)
ANNOUNCES_AND_DIES: Final = """
import os, signal
from spanwire.management.running_brokers import ListedBroker, announce
entry = announce(ListedBroker("dead", os.getpid(), "/data/dead", "", (), 1), os.environ)
assert entry is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    runtime, temporary = tmp_path / "runtime", tmp_path / "temporary"
    runtime.mkdir(mode=0o700)
    temporary.mkdir(mode=0o700)
    return {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(temporary)}


def entries(environment: dict[str, str]) -> list[Path]:
    return list(Path(environment["XDG_RUNTIME_DIR"]).glob("spanwire/*"))


def test_a_broker_is_listed_until_it_withdraws(environment: dict[str, str]) -> None:
    entry = announce(BROKER, environment)
    assert entry is not None
    assert running_brokers(environment) == [BROKER]
    entry.withdraw()
    entry.withdraw()
    assert running_brokers(environment) == []
    assert entries(environment) == []


def test_only_the_user_can_read_and_write_the_registry(environment: dict[str, str]) -> None:
    entry = announce(BROKER, environment)
    assert entry is not None
    (path,) = entries(environment)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    entry.withdraw()


def test_a_killed_broker_is_not_listed_and_its_entry_goes(environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", ANNOUNCES_AND_DIES], env=environment, check=False, timeout=60)
    assert len(entries(environment)) == 1
    assert running_brokers(environment) == []
    assert entries(environment) == []


def test_brokers_of_a_service_without_a_runtime_directory_are_found(environment: dict[str, str]) -> None:
    entry = announce(BROKER, {"TMPDIR": environment["TMPDIR"], "XDG_RUNTIME_DIR": "/nonexistent"})
    assert entry is not None
    assert running_brokers(environment) == [BROKER]
    entry.withdraw()


def test_a_directory_that_others_can_write_to_is_not_used(
    environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    directory = Path(environment["XDG_RUNTIME_DIR"]) / "spanwire"
    entry = RunningEntry(directory, BROKER)
    directory.chmod(0o777)
    assert running_brokers(environment) == []
    with caplog.at_level(logging.WARNING):
        assert announce(BROKER, environment) is None
    assert "spanwire list does not show this broker" in caplog.text
    entry.withdraw()


def test_a_link_in_place_of_the_directory_is_not_followed(environment: dict[str, str], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (Path(environment["XDG_RUNTIME_DIR"]) / "spanwire").symlink_to(elsewhere)
    assert announce(BROKER, environment) is None
    assert list(elsewhere.iterdir()) == []


def test_damaged_entries_are_passed_over(environment: dict[str, str]) -> None:
    entry = announce(BROKER, environment)
    assert entry is not None
    (path,) = entries(environment)
    path.write_text("{", "utf-8")
    assert running_brokers(environment) == []
    path.write_text(json.dumps({"name": "x", "pid": "many"}), "utf-8")
    assert running_brokers(environment) == []
    entry.withdraw()
