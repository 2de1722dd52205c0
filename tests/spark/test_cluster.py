"""A standalone cluster whose workers have other working directories, and another PATH, than the driver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
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


def run(cluster: SparkCluster, folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A driver that works in ``folder``."""
    return subprocess.run(
        command, cwd=folder, env=cluster.driver_environment(PYTHONPATH=str(ROOT), **more),
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip


def rows(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet") if STATE not in path.parts)


def test_relative_paths_are_those_of_the_driver(cluster: SparkCluster, spanwire: BrokerProcess, tmp_path: Path) -> None:
    url = spanwire.openwire_uri()
    for queue in ("OWN", "ARCHIVED", "ROUTED"):
        send(url, queue, numbered(COUNT))
    done = run(cluster, tmp_path, sys.executable, "-m", "tests.support.spark_cluster_program", cluster.url, url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(take_all(url, "OWN.OUT")) == COUNT
    assert rows(tmp_path / "archive") == COUNT
    assert sum(len(path.read_text().splitlines()) for path in (tmp_path / "routed").glob("*.json")) == COUNT


def test_executors_without_spanwire_are_found_before_a_message_is_taken(
    cluster: SparkCluster, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "STAYS", numbered(3))
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    command = [*COMMAND, "pipeline", "archive", "queue://STAYS", "archive", "--url", url, "--master", cluster.url]
    done = run(cluster, tmp_path, *command, PYSPARK_PYTHON=str(bare))
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if "Using incubator modules" not in line]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("spanwire pipeline: the executors on ")
    assert f" run {sys.executable}, which has no spanwire and no pyarrow; set PYSPARK_PYTHON to an inter" in lines[0]
    assert len(take_all(url, "STAYS")) == 3
