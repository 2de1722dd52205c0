"""A program with Spark Connect, at a server in a process of its own: reads, writes once, state, errors."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark
import pytest

from spanwire.client.messages.message import Message
from spanwire.pipeline.spark.java import bundled_java, java_home
from tests.support.broker_process import BrokerProcess
from tests.support.patience import SPARK_S
from tests.support.ports import free_port
from tests.support.queues import numbered, send, take, take_all
from tests.support.spark_classes import QUICK_JAVA

ROOT: Final = Path(__file__).resolve().parents[2]
HOME: Final = Path(pyspark.__file__).parent
# What Spark Connect imports beside PySpark's own requirements; no peer that every machine with tests must have.
PACKAGES: Final = ("google.rpc", "grpc", "grpc_status", "zstandard")
COUNT: Final = 20

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * SPARK_S)]


def is_absent(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is None
    except ModuleNotFoundError:
        return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server. Only its own processes know Java and the Python with Spanwire."""
    if absent := [name for name in PACKAGES if is_absent(name)]:
        pytest.skip(f"this Python has no package {', '.join(absent)} (requirements/pipelines.txt)")
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home(os.environ, bundled_java())),
    }
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [str(HOME / "bin/spark-submit"), "--master", "local[2]", *words]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + SPARK_S
        while not listens(port):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text("utf-8")[-3000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


PROGRAM: Final = """
import sys
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from examples.spark import pair_requests
from spanwire.pipeline.selector_column import selector_column

server, url, folder = sys.argv[1:]
spark = SparkSession.builder.remote(server).getOrCreate()
assert "connect" in type(spark).__module__
rows = spark.readStream.format("spanwire").options(url=url, destination="queue://C.IN", stagingDirectory=folder + "/in")
once = {"qualityOfServiceMode": "ONCE_AND_ONLY_ONCE", "checkpointLocation": folder + "/checkpoint"}
for _ in range(2):
    writer = rows.load().selectExpr("upper(text) AS text", "properties").writeStream.format("spanwire")
    writer = writer.options(url=url, destination="queue://C.OUT", **once).trigger(availableNow=True)
    assert writer.start().awaitTermination(200)
browsed = spark.read.format("spanwire").options(url=url, destination="queue://C.OUT").load()
print("browsed", browsed.where(selector_column("n >= 5")).count())
browsed.limit(3).selectExpr("text").write.format("spanwire").mode("append").options(
    url=url, destination="queue://C.BATCH"
).save()
try:
    spark.read.format("spanwire").options(url=url).load().count()
except Exception as error:
    print([line for line in str(error).splitlines() if "ConfigurationError: " in line][0])
cloudpickle.register_pickle_by_value(pair_requests)
spark.conf.set(*next(iter(pair_requests.SETTINGS.items())))
query = pair_requests.start(spark, url, __import__("pathlib").Path(folder) / "pairs", 1000)
sys.stdin.read()
query.stop()
"""


def test_a_program_without_java_reads_writes_once_and_keeps_state(
    server: str, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    send(url, "C.IN", numbered(COUNT))
    send(url, "REQUESTS", numbered(2))
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server, url, str(tmp_path)],
        cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        letters: list[Message] = []
        while len(letters) < 2 and process.poll() is None:
            letters += take(url, "REQUESTS.UNPAIRED", 2 - len(letters))
        shown, _ = process.communicate("", timeout=SPARK_S)
    finally:
        process.kill()
    assert process.returncode == 0, shown
    assert sorted(str(letter.body) for letter in letters) == ["text 0", "text 1"], shown
    assert f"browsed {COUNT - 5}\n" in shown
    assert 'ConfigurationError: spanwire: a reader needs .option("destination", "queue://NAME")' in shown
    sent = take_all(url, "C.OUT")
    assert sorted(int(str(message.properties["n"])) for message in sent) == list(range(COUNT))
    assert {str(message.body)[:4] for message in sent} == {"TEXT"}
    assert len(take_all(url, "C.BATCH")) == 3
