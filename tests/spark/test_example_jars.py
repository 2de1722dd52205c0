"""The example for Kafka, killed in a batch and repeated. `jars` says where the jars come from.

`make soak-spark` runs them; the test of headers without a Kafka is in `test_kafka_headers.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.test_example_processes import EXAMPLES, PROGRAMS, environment_of, run
from tests.spark.test_route_jars import END_S, jars
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.kafka import KafkaProcess

pytestmark = pytest.mark.long

COUNT = 70


def submit(folder: Path, *words: str | Path) -> list[str | Path]:
    given = ",".join(map(str, sorted(folder.glob("*.jar"))))
    return [PROGRAMS / "spark-submit", "--master", "local[2]", "--jars", given, *words]


def kill_when(broker: BrokerProcess, folder: Path, command: list[str | Path], is_so: Callable[[], bool]) -> None:
    """Start a command and kill it, with all its processes, as soon as something is so."""
    words = [str(word) for word in command]
    with (folder / "log").open("a") as log:
        started = subprocess.Popen(
            words, cwd=folder, env=environment_of(broker), start_new_session=True, stdout=log, stderr=log
        )
    deadline = time.monotonic() + END_S
    try:
        while not is_so():
            assert started.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()[-3000:]
            time.sleep(0.01)
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@pytest.mark.timeout(5 * END_S)
def test_a_topic_of_kafka_has_headers_by_which_a_reader_drops_what_a_kill_has_doubled(tmp_path: Path) -> None:
    spark_jars, server_jars = jars("kafka", "kafka-server")
    with (
        BrokerProcess(spanwire_command(), tmp_path / "broker") as broker,
        KafkaProcess(server_jars, tmp_path / "kafka") as kafka,
    ):
        run(broker, tmp_path, sys.executable, EXAMPLES / "orders.py", str(COUNT))
        program = EXAMPLES / "orders_kafka.py"
        send = submit(spark_jars, program, "send", kafka.servers, tmp_path / "data")
        kill_when(broker, tmp_path, send, lambda: kafka.octets("orders") > 0)
        run(broker, tmp_path, *send)
        shown = run(broker, tmp_path, *submit(spark_jars, program, "read", kafka.servers, tmp_path / "data"))
    orders = pq.read_table(tmp_path / "data/orders").to_pylist()
    assert sorted(order["text"] for order in orders) == sorted(f"order {number}" for number in range(COUNT))
    assert len({order["id"] for order in orders}) == COUNT and len({order["batch"] for order in orders}) == 1
    records = int(shown.split(" records, ")[0].split()[-1])
    assert COUNT < records <= 2 * COUNT, "the kill has doubled some"
