"""The examples for `spark-submit` and `spark-pipelines`, started as their README says. Half a minute each and more:
`make soak-spark` runs them.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from spanwire.pipeline.spark.java import bundled_java, java_home
from tests.support.broker_process import BrokerProcess, spanwire_command

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/spark"
PROGRAMS = Path(pyspark.__file__).parent / "bin"
TIMEOUT_S = 600.0
# what `spark-pipelines` imports beside PySpark's own requirements; no peer that every machine with tests must have
PIPELINE_PACKAGES = ("grpc", "grpc_status", "yaml", "zstandard")
COUNT = 70
ORDERS = Counter(("north", "south", "west")[number % 3] for number in range(COUNT))


def run(broker: BrokerProcess, folder: Path, *command: str | Path, **more: str) -> str:
    """What the command prints. It is given the environment that its README asks for."""
    environment = {
        **os.environ,
        "SPANWIRE_URL": broker.openwire_uri(),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home(os.environ, bundled_java())),
        **more,
    }
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_script_is_submitted_twice_and_takes_each_order_once(tmp_path: Path) -> None:
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        shown = ""
        for _ in range(2):
            run(broker, tmp_path, sys.executable, EXAMPLES / "orders.py", str(COUNT))
            submit: list[str | Path] = [PROGRAMS / "spark-submit", "--master", "local[2]", EXAMPLES / "daily_orders.py"]
            shown = run(broker, tmp_path, *submit, tmp_path / "orders")
        for region, count in ORDERS.items():
            assert any(region in line and str(2 * count) in line for line in shown.splitlines()), shown


def test_the_project_of_declarative_pipelines_fills_its_tables(tmp_path: Path) -> None:
    if absent := [name for name in PIPELINE_PACKAGES if importlib.util.find_spec(name) is None]:
        pytest.skip(f"this Python has no package {', '.join(absent)} (requirements/pipelines.txt)")
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "pipeline", project)
    settings = project / "spark-pipeline.yml"
    written = settings.read_text("utf-8")
    assert "file:///tmp/spanwire-example-pipeline" in written
    settings.write_text(written.replace("/tmp/spanwire-example-pipeline", str(tmp_path / "storage")), "utf-8")
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        run(broker, tmp_path, sys.executable, EXAMPLES / "orders.py", str(COUNT))
        run(broker, project, PROGRAMS / "spark-pipelines", "run", ORDERS_STAGING=str(tmp_path / "staging"))
    orders = pq.read_table(project / "spark-warehouse/orders").to_pylist()
    assert len({order["id"] for order in orders}) == len(orders) == COUNT
    totals = pq.read_table(project / "spark-warehouse/totals").to_pylist()
    assert {total["region"]: total["orders"] for total in totals} == dict(ORDERS)
    assert sum(total["total"] for total in totals) == pytest.approx(sum(1.5 * (n % 7) for n in range(COUNT)))
