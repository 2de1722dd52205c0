"""A standalone cluster whose workers have other working directories, and another PATH, than the driver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spanwire.pipeline.archive.archive_query import STATE
from tests.support.broker_process import COMMAND, BrokerProcess
from tests.support.queues import numbered, send, take_all
from tests.support.spark_cluster import SparkCluster

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300.0
COUNT = 1500  # rows: more than one partition


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def run(
    cluster: SparkCluster, folder: Path, *command: str, settings: Mapping[str, str] | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """A driver that works in ``folder``."""
    return subprocess.run(
        command, cwd=folder, env=cluster.driver_environment(settings, PYTHONPATH=str(ROOT), **more),
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


def rows(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet") if STATE not in path.parts)


def script(path: Path, *lines: str) -> str:
    """An interpreter of its own."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


@pytest.mark.long
def test_relative_paths_are_those_of_the_driver_and_tasks_run_the_python_of_the_executors(
    cluster: SparkCluster, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    for queue in ("OWN", "ARCHIVED", "ROUTED"):
        send(url, queue, numbered(COUNT))
    # With this variable an executor cannot run the Python of the driver.
    program = script(tmp_path / "python", "unset PYTHONHOME", f'exec {sys.executable} "$@"')
    done = run(
        cluster, tmp_path, sys.executable, "-m", "tests.support.spark_cluster_program", cluster.url, url,
        settings={"spark.executorEnv.PYTHONHOME": "/nowhere"}, PYSPARK_PYTHON=program,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(take_all(url, "OWN.OUT")) == COUNT
    assert rows(tmp_path / "archive") == COUNT
    assert sum(len(path.read_text().splitlines()) for path in (tmp_path / "routed").glob("*.json")) == COUNT


def test_executors_without_spanwire_are_found_before_a_message_is_taken(
    cluster: SparkCluster, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "STAYS", numbered(3))
    without = f'case $PWD in */app-*/*) exec {sys.executable} -S "$@";; esac'  # where executors run
    bare = script(tmp_path / "bare-python", without, f'exec {sys.executable} "$@"')
    command = [*COMMAND, "pipeline", "archive", "queue://STAYS", "archive", "--url", url, "--master", cluster.url]
    done = run(cluster, tmp_path, *command, PYSPARK_PYTHON=bare)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if "Using incubator modules" not in line]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("spanwire pipeline: the executors on ")
    packages = "no spanwire and no librt and no mypy_extensions and no pyarrow"
    assert f" run {sys.executable}, which has {packages}; set PYSPARK_PYTHON to an interpreter that " in lines[0]
    assert len(take_all(url, "STAYS")) == 3


ROUTES = """
- route:
    id: sorted
    deadLetter: activemq:queue:SORTED.DEAD
    from:
      uri: activemq:queue:SORTED
      steps:
        - transform: {function: words.loud}
        - choice:
            when:
              - sql: "properties['n']::int % 2 = 0"
                steps: [{to: "activemq:queue:SORTED.EVEN?qualityOfServiceMode=ONCE_AND_ONLY_ONCE"}]
            otherwise: {steps: [{to: "json:odd"}]}
"""
WORDS = """
def loud(text, properties):
    if properties["n"] % 100 == 7:
        raise ValueError("no sevens")
    return text.upper()
"""


@pytest.mark.long
def test_rows_of_functions_part_on_the_executors_and_dead_letters_are_driven_back(
    cluster: SparkCluster, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "SORTED", numbered(COUNT))
    (tmp_path / "routes.yaml").write_text(ROUTES)
    (tmp_path / "words.py").write_text(WORDS)
    command = [*COMMAND, "pipeline", "run", "routes.yaml", "--trigger", "available-now", "--functions", "."]
    done = run(cluster, tmp_path, *command, "--broker", f"activemq={url}", "--master", cluster.url)
    assert done.returncode == 0, done.stdout + done.stderr
    sevens = [n for n in range(COUNT) if n % 100 == 7]
    even = sorted(take_all(url, "SORTED.EVEN"), key=lambda message: int(str(message.properties["n"])))
    assert [message.body for message in even] == [f"TEXT {n}" for n in range(0, COUNT, 2)]
    odd = [line for path in (tmp_path / "odd").rglob("*.json") for line in path.read_text().splitlines()]
    assert len(odd) == COUNT // 2 - len(sevens)
    done = run(
        cluster, tmp_path, *COMMAND, "pipeline", "redrive", "SORTED.DEAD", "--to", "queue://SORTED.AGAIN", "--url", url
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(int(str(message.properties["n"])) for message in take_all(url, "SORTED.AGAIN")) == sevens
