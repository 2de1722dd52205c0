"""Tests that share brokers or Spark run in one process of a parallel run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.groups import LONG_FIRST, OWN_DRIVERS, WITH_PEERS, group_of, rank_of

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import os
import pathlib

import pytest


@pytest.mark.parametrize("number", range(4))
def test_where(number):
    place = pathlib.Path(os.environ["PLACES"], os.environ["PYTEST_XDIST_WORKER"])
    with place.open("a") as file:
        file.write(pathlib.Path(__file__).name + "\\n")
"""


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/spark/test_reading.py::test_it[a::b/c]", "spark"),
        ("tests/spark/test_routes.py::test_it", "spark"),
        ("tests/spark/test_cluster.py::test_it", "drivers"),
        ("tests/conformance/differential/test_failures.py::test_it[x]", "differential"),
        ("tests/interop/bridge_providers/test_peers.py::test_it[x]", "tests/interop/bridge_providers"),
        ("tests/interop/test_kill.py::test_it", "tests/interop/test_kill.py"),
        ("tests/interop/test_resends.py::test_it", "tests/interop/test_resends.py"),
    ],
)
def test_the_file_decides_on_the_group(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


def test_tests_that_take_long_come_first() -> None:
    files = ["tests/unit/cli/test_a.py", "tests/faults/test_b.py", "tests/spark/test_c.py", "tests/interop/test_d.py"]
    assert sorted(files, key=rank_of) == [files[2], files[3], files[1], files[0]]
    assert [folder for folder in LONG_FIRST if not (ROOT / folder).is_dir()] == []


def test_all_tests_with_foreign_peers_have_their_mark_and_no_others(pytestconfig: pytest.Config) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "peers",
         "tests/interop/test_kill.py", "tests/conformance/test_memory_store.py"],
        cwd=pytestconfig.rootpath, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert collected, done.stdout + done.stderr
    assert {line.startswith(WITH_PEERS) for line in collected} == {True}


def test_files_with_drivers_of_their_own_are_there() -> None:
    assert {name for name in OWN_DRIVERS if not (ROOT / "tests/spark" / name).exists()} == set()


def test_a_group_stays_in_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "tests/spark"
    folder.mkdir(parents=True)
    places = tmp_path / "places"
    places.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(
        "from tests.conftest import pytest_xdist_make_scheduler  # noqa: F401\n", "utf-8"
    )
    for name in ("test_reading.py", "test_routes.py", "test_cluster.py"):
        (folder / name).write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:spanwire", "-n", "2", "--dist", "loadgroup", "tests/spark"],
        cwd=tmp_path, env={**os.environ, "PLACES": str(places), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "12 passed" in done.stdout, done.stdout + done.stderr
    ran = {place.name: set(place.read_text().split()) for place in places.iterdir()}
    assert sorted(map(sorted, ran.values())) == [["test_cluster.py"], ["test_reading.py", "test_routes.py"]]
