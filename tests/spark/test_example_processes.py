"""The examples for `spark-submit` and `spark-pipelines`, started as their README says. Half a minute each and more:
`make soak-spark` runs them.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from spanwire.pipeline.spark.java import bundled_java, java_home
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.queues import take_all

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/spark"
PROGRAMS = Path(pyspark.__file__).parent / "bin"
TIMEOUT_S = 600.0
# what `spark-pipelines` imports beside PySpark's own requirements; no peer that every machine with tests must have
PIPELINE_PACKAGES = ("grpc", "grpc_status", "yaml", "zstandard")
CATALOG = "spark.sql.catalogImplementation=hive"
COUNT = 70
LARGE = 8.0  # as in the example
KILLS = 3
STEP_S = 1.0  # a batch into the table takes two seconds
ORDERS = Counter(("north", "south", "west")[number % 3] for number in range(COUNT))


def environment_of(broker: BrokerProcess) -> dict[str, str]:
    return {
        **os.environ,
        "SPANWIRE_URL": broker.openwire_uri(),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home(os.environ, bundled_java())),
    }


def run(broker: BrokerProcess, folder: Path, *command: str | Path, **more: str) -> str:
    """What the command prints. It is given the environment that its README asks for."""
    environment = environment_of(broker) | more
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


@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_table_gets_each_order_once_though_the_driver_is_killed_in_each_batch(tmp_path: Path) -> None:
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        table = tmp_path / "table"
        submit: list[str | Path] = [
            PROGRAMS / "spark-submit",
            "--master",
            "local[2]",
            EXAMPLES / "orders_table.py",
            table,
        ]
        run(broker, tmp_path, sys.executable, EXAMPLES / "orders.py", str(COUNT))
        for number in range(KILLS):  # later and later in the batch, whose rows are staged soon after its offsets
            offsets, commits = (table / "_checkpoint" / name / str(number) for name in ("offsets", "commits"))
            killed = subprocess.Popen(
                [str(word) for word in submit],
                cwd=tmp_path, env=environment_of(broker), start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            while killed.poll() is None and not offsets.exists():
                time.sleep(0.01)
            time.sleep(number * STEP_S)
            if killed.poll() is None:
                os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
            shown = run(broker, tmp_path, *submit)
            assert commits.exists()
            count = (number + 1) * COUNT
            assert f"{count} orders, {count} different ones" in shown
            run(broker, tmp_path, sys.executable, EXAMPLES / "orders.py", str(COUNT))


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
        for _ in range(2):
            run(broker, tmp_path, sys.executable, EXAMPLES / "orders.py", str(COUNT))
            command: list[str | Path] = [PROGRAMS / "spark-pipelines", "run", "--conf", CATALOG]
            run(broker, project, *command, ORDERS_STAGING=str(tmp_path / "staging"))
        sent = [message.correlation_id for message in take_all(broker.openwire_uri(), "ORDERS.LARGE")]
    orders = pq.read_table(project / "spark-warehouse/orders").to_pylist()
    assert len({order["id"] for order in orders}) == len(orders) == 2 * COUNT
    assert Counter(sent) == Counter(order["id"] for order in orders if order["amount"] >= LARGE)
    assert len(sent) == 2 * len([number for number in range(COUNT) if 1.5 * (number % 7) >= LARGE]) > 0
    totals = pq.read_table(project / "spark-warehouse/totals").to_pylist()
    assert {total["region"]: total["orders"] for total in totals} == {
        region: 2 * count for region, count in ORDERS.items()
    }
    assert sum(total["total"] for total in totals) == pytest.approx(2 * sum(1.5 * (n % 7) for n in range(COUNT)))
