"""Routes into formats whose jars the user adds, Kafka and Delta, and out of them, killed on the way: nothing is lost,
a Delta table holds everything once, and what a topic holds twice is of the batch at hand.

SPANWIRE_SPARK_JARS names a folder with the folders ``kafka`` and ``delta``, the jars that Spark gets, and
``kafka-server``, all jars of a Kafka.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from spanwire.client.messages.message import Message
from tests.support.broker_process import COMMAND, BrokerProcess, spanwire_command
from tests.support.kafka import KafkaProcess
from tests.support.queues import numbered, send, take_all

JARS = "SPANWIRE_SPARK_JARS"
END_S = 600.0  # of one run of a route, which takes a minute on an idle machine: 240 ended it on a loaded one
COUNT = 2_000
BATCH = 500
DELTA_SETTINGS = (
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog "
    "--conf spark.databricks.delta.snapshotPartitions=1"  # 50 tasks for each batch else
)
AVAILABLE = "--trigger=available-now"

TO_TOPIC = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: out
    from:
      uri: "shop:queue:OUT"
      parameters: {maxRowsPerBatch: "{{rows}}", numPartitions: 1}
      steps:
        - transform: {select: {topic: "'orders'", key: "properties['n']::string", value: "text"}}
        - to: {uri: "format:kafka", parameters: {kafka.bootstrap.servers: "{{servers}}"}}
"""
FROM_TOPIC = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: back
    from:
      uri: "format:kafka"
      parameters:
        kafka.bootstrap.servers: "{{servers}}"
        subscribe: orders
        startingOffsets: earliest
        maxOffsetsPerTrigger: "{{rows}}"
      steps:
        - transform: {select: {text: "value::string", properties: "map('n', key::string::int)"}}
        - to: "shop:queue:BACK"
"""
TO_TABLE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: out
    from:
      uri: "shop:queue:OUT"
      parameters: {maxRowsPerBatch: "{{rows}}", numPartitions: 1}
      steps:
        - to: {uri: "format:delta", parameters: {path: "{{table}}"}}
"""
FROM_TABLE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: back
    from:
      uri: "format:delta"
      parameters: {path: "{{table}}", maxFilesPerTrigger: 1}
      steps:
        - to: "shop:queue:BACK"
"""
DICE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: out
    from:
      uri: "shop:queue:OUT"
      parameters: {maxRowsPerBatch: "{{rows}}", numPartitions: 1}
      steps:
        - choice:
            when:
              - sql: "rand() < 0.5"
                steps: [{to: {uri: "format:delta", parameters: {path: "{{table}}"}}}]
            otherwise:
              steps: [{to: "parquet:{{files}}"}]
"""


def jars(*names: str) -> list[Path]:
    """The folders with jars of these names; the test is skipped where they are not."""
    home = os.environ.get(JARS, "")
    if not home:
        pytest.skip(f"{JARS} does not name a folder with jars (docs/guides/routes/kafka-delta-iceberg.md)")
    folders = [Path(home) / name for name in names]
    missing = [str(folder) for folder in folders if not list(folder.glob("*.jar"))]
    if missing:
        pytest.skip(f"no jars in {', '.join(missing)}")
    return folders


def delta_jars() -> Path:
    (folder,) = jars("delta")
    if tuple(map(int, pyspark.__version__.split(".")[:2])) > (4, 2):
        pytest.skip(f"there is no Delta for Spark {pyspark.__version__}; the one for 4.1 works with 4.2")
    return folder


class Runner:
    """Runs ``spanwire pipeline run`` with jars, each time with all its processes in a group of its own."""

    def __init__(self, folder: Path, spark_jars: Path, settings: str = "", **definitions: str) -> None:
        self.folder = folder
        self._words = [f"-D{name}={value}" for name, value in definitions.items()]
        given = ",".join(map(str, sorted(spark_jars.glob("*.jar"))))
        self._environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--jars {given} {settings} pyspark-shell"}

    def start(self, route: str, *words: str) -> subprocess.Popen[str]:
        (self.folder / "route.yaml").write_text(route)
        given = [*self._words, f"--state={self.folder}/state", f"-Drows={BATCH}", "--master=local[2]", "--json", *words]
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                [*COMMAND, "pipeline", "run", str(self.folder / "route.yaml"), *given],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                start_new_session=True,
            )

    def kill_when(self, process: subprocess.Popen[str], is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + END_S
        try:
            while not is_so():
                assert process.poll() is None and time.monotonic() < deadline, self.log()
                time.sleep(0.02)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def kill_in_batch(self, route: str, nth: int) -> None:
        """While Spark works on that batch, which it has planned and not committed."""
        offsets, commits = (
            self.folder / f"state/{route_id(route)}/checkpoint" / name for name in ("offsets", "commits")
        )
        self.kill_when(self.start(route), lambda: (offsets / str(nth)).exists() and not (commits / str(nth)).exists())

    def finish(self, route: str) -> None:
        process = self.start(route, AVAILABLE)
        process.communicate(timeout=END_S)
        assert process.returncode == 0, self.log()

    def log(self) -> str:
        return (self.folder / "log").read_text()[-3000:]


def route_id(route: str) -> str:
    return route.split("id: ")[1].split()[0]


def numbers(messages: list[Message]) -> Counter[int]:
    for message in messages:
        assert message.body == f"text {message.properties['n']}"
    return Counter(int(str(message.properties["n"])) for message in messages)


def rows_of(table: Path) -> list[str]:
    """The texts that a Delta table holds, by its log."""
    files: set[str] = set()
    for entry in sorted(table.glob("_delta_log/*.json")):
        for action in map(json.loads, entry.read_text().splitlines()):
            files |= {action["add"]["path"]} if "add" in action else set()
            files -= {action["remove"]["path"]} if "remove" in action else set()
    return [text for name in files for text in texts(table / name)]


def texts(file: Path) -> list[str]:
    found: list[str] = pq.read_table(file, columns=["text"])["text"].to_pylist()
    return found


@pytest.mark.timeout(5 * END_S)
def test_a_topic_of_kafka_gets_and_gives_every_message_though_the_routes_are_killed(tmp_path: Path) -> None:
    spark_jars, server_jars = jars("kafka", "kafka-server")
    with (
        BrokerProcess(spanwire_command(), tmp_path / "broker") as broker,
        KafkaProcess(server_jars, tmp_path / "kafka") as kafka,
    ):
        url = broker.openwire_uri()
        runner = Runner(tmp_path, spark_jars, url=url, servers=kafka.servers)
        send(url, "OUT", numbered(COUNT))
        runner.kill_when(runner.start(TO_TOPIC), lambda: kafka.octets("orders") > 0)
        runner.finish(TO_TOPIC)
        runner.kill_in_batch(FROM_TOPIC, 1)
        runner.finish(FROM_TOPIC)
        by_id: dict[object, Message] = {}
        for message in take_all(url, "BACK"):
            known = by_id.setdefault(message.properties["_AMQ_DUPL_ID"], message)
            assert known.body == message.body
    found = numbers(list(by_id.values()))
    assert sorted(found) == list(range(COUNT))
    assert found.total() - COUNT in range(BATCH + 1)  # what the kill has doubled in the topic


@pytest.mark.timeout(5 * END_S)
@pytest.mark.parametrize("nth", [0, 2])
def test_a_delta_table_gets_every_message_once_with_all_columns_and_gives_it(nth: int, tmp_path: Path) -> None:
    spark_jars = delta_jars()
    table = tmp_path / "table"
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        url = broker.openwire_uri()
        runner = Runner(tmp_path, spark_jars, DELTA_SETTINGS, url=url, table=str(table))
        send(url, "OUT", numbered(COUNT))
        version = table / "_delta_log" / f"{nth:020}.json"
        runner.kill_when(runner.start(TO_TABLE), version.exists)  # the table has the batch and Spark does not know
        runner.finish(TO_TABLE)
        assert sorted(rows_of(table)) == sorted(f"text {n}" for n in range(COUNT))
        runner.kill_in_batch(FROM_TABLE, 1)
        runner.finish(FROM_TABLE)
        by_id = {message.properties["_AMQ_DUPL_ID"]: message for message in take_all(url, "BACK")}
    assert numbers(list(by_id.values())) == Counter(range(COUNT))


@pytest.mark.timeout(5 * END_S)
def test_a_delta_table_beside_another_endpoint_agrees_with_it_though_steps_throw_dice(tmp_path: Path) -> None:
    spark_jars = delta_jars()
    table, files = tmp_path / "table", tmp_path / "files"
    files.write_text("a file where a directory is to be: the batch cannot end before the kill")
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        url = broker.openwire_uri()
        runner = Runner(tmp_path, spark_jars, DELTA_SETTINGS, url=url, table=str(table), files=str(files))
        send(url, "OUT", numbered(COUNT))
        runner.kill_when(runner.start(DICE), (table / "_delta_log" / f"{0:020}.json").exists)
        assert not (tmp_path / "state/out/checkpoint/commits/0").exists()  # so the batch is repeated
        files.unlink()
        runner.finish(DICE)
    heads, tails = rows_of(table), [text for file in files.rglob("*.parquet") for text in texts(file)]
    assert heads and tails and sorted(heads + tails) == sorted(f"text {n}" for n in range(COUNT))
