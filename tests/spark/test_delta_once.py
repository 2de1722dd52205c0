"""Batches in a Delta table without a route: each once, wherever the driver is killed.

The first tests need no Delta: a data source of the same name notes applications as Delta documents it. The last ones
have Delta's jars (`jars` says where they come from) and are run by `make soak-spark`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.delta import write_once
from tests.spark.test_example_processes import EXAMPLES, PROGRAMS, environment_of, run
from tests.spark.test_route_jars import DELTA_SETTINGS, delta_jars, rows_of
from tests.support.broker_process import BrokerProcess, spanwire_command
from tests.support.queues import numbered, send
from tests.support.streams import run_to_the_end

END_S = 600.0
COUNT = 70
ROWS = 25  # of a batch, as in the example


class Rows(WriterCommitMessage):  # type: ignore[misc]
    def __init__(self, texts: list[str]) -> None:
        self.texts = texts


class NotingWriter(DataSourceWriter):  # type: ignore[misc]
    """Commits a batch with its application, in one file, and skips one that the table has."""

    def __init__(self, options: dict[str, str]) -> None:
        self._table = Path(options["path"])
        self._application = options.get("txnappid", "")
        self._version = int(options.get("txnversion", "-1"))

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return Rows([row["text"] for row in iterator])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        known = json.loads(self._table.read_text()) if self._table.exists() else {"last": {}, "texts": []}
        if self._application and known["last"].get(self._application, -1) >= self._version:
            return
        known["last"][self._application] = self._version
        known["texts"] += [text for message in messages if isinstance(message, Rows) for text in message.texts]
        self._table.write_text(json.dumps(known))


class NotingTable(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "delta"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        assert not overwrite
        return NotingWriter(dict(self.options))


def texts_of(table: Path) -> list[str]:
    found: list[str] = json.loads(table.read_text())["texts"]
    return found


def test_a_repeated_batch_is_in_each_table_once_for_each_name(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.dataSource.register(NotingTable)
    url, queue = spanwire.openwire_uri(), f"DELTA.{tmp_path.name}"
    send(url, queue, numbered(COUNT))
    calls = [(tmp_path / "one", ""), (tmp_path / "two", "a"), (tmp_path / "two", "b")]
    failures = {1: 1, 2: 3}  # of these batches so many calls end and the next does not begin

    def write(batch: DataFrame, number: int) -> None:
        for done, (table, name) in enumerate(calls):
            if failures.get(number) == done:
                del failures[number]
                raise OSError("as if the driver had been killed")
            write_once(batch, number, {"path": str(table)}, name)
        if failures.pop(number, None):
            raise OSError("as if the driver had been killed")

    stream = session.readStream.format("spanwire").options(
        url=url, destination=queue, cursor=queue, maxRowsPerBatch=str(ROWS)
    )
    writer = stream.load().writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):
        with pytest.raises(Exception, match="as if the driver"):
            run_to_the_end(writer)
    run_to_the_end(writer)
    assert failures == {}
    texts = sorted(f"text {number}" for number in range(COUNT))
    assert sorted(texts_of(tmp_path / "one")) == texts
    assert sorted(texts_of(tmp_path / "two")) == sorted([*texts, *texts]), "each of its two names has its rows"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs the path of the table, or its name as the option table"),
        ({"path": "/t", "table": "t"}, "needs the path of the table, or its name"),
        ({"path": "/t", "txnVersion": "3"}, "write_once sets txnVersion itself"),
        ({"path": "/t"}, "has no format delta; give it "),
    ],
)
def test_what_is_missing_is_one_line(spark: SparkSession, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        write_once(spark.sql("SELECT 1 AS id"), 0, options, "q")
    assert "\n" not in str(caught.value)


def test_a_batch_of_no_query_needs_a_name(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="call it in foreachBatch of a classic session, or give it a name"):
        write_once(spark.sql("SELECT 1 AS id"), 0, {"path": "/t"})


class Killer:
    """Starts a program of Spark again and again, each time killed behind another commit of a table."""

    def __init__(self, broker: BrokerProcess, folder: Path, command: list[str | Path]) -> None:
        self._broker = broker
        self._folder = folder
        self._command = [str(word) for word in command]

    def kill_behind(self, table: Path, version: int, checkpoint: Path) -> bool:
        """Kill it when the table has that version. Return True if Spark had not noted the batch."""
        with (self._folder / "log").open("a") as log:
            started = subprocess.Popen(
                self._command, cwd=self._folder, env=environment_of(self._broker), start_new_session=True,
                stdout=log, stderr=log,
            )  # fmt: skip
        commit = table / "_delta_log" / f"{version:020}.json"
        deadline = time.monotonic() + END_S
        try:
            while started.poll() is None and not commit.exists():
                assert time.monotonic() < deadline, (self._folder / "log").read_text()[-3000:]
                time.sleep(0.002)
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
        return not (checkpoint / "commits" / str(version)).exists()


def submit(folder: Path, *words: str | Path) -> list[str | Path]:
    given = ",".join(map(str, sorted(folder.glob("*.jar"))))
    return [PROGRAMS / "spark-submit", "--master", "local[2]", "--jars", given, *DELTA_SETTINGS.split(), *words]


def orders_in(table: Path) -> list[str]:
    return sorted(rows_of(table))


@pytest.mark.long
@pytest.mark.timeout(4 * END_S)
def test_two_delta_tables_get_each_order_once_though_the_driver_is_killed_behind_each_commit(tmp_path: Path) -> None:
    spark_jars = delta_jars()
    data = tmp_path / "data"
    command = submit(spark_jars, EXAMPLES / "orders_delta.py", data)
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        run(broker, tmp_path, sys.executable, EXAMPLES / "orders.py", str(COUNT))
        killer = Killer(broker, tmp_path, command)
        inside = [killer.kill_behind(data / ("orders", "north")[n % 2], n, data / "_checkpoint") for n in range(3)]
        shown = run(broker, tmp_path, *command)
    north = len([number for number in range(COUNT) if number % 3 == 0])
    assert f"{COUNT} orders, {COUNT} different ones, {north} of the north" in shown
    assert orders_in(data / "orders") == sorted(f"order {number}" for number in range(COUNT))
    assert any(inside), "no kill was between the commit of a table and Spark's note of it"


WITHOUT_A_HELPER = """
import sys
from pyspark.sql import SparkSession
with SparkSession.builder.getOrCreate() as spark:
    orders = spark.readStream.format("spanwire").options(
        url=sys.argv[1], destination="queue://ORDERS", cursor="delta", maxRowsPerBatch="25").load()
    query = orders.select("text").writeStream.format("delta").option("checkpointLocation", sys.argv[2] + "/_checkpoint")
    query.trigger(availableNow=True).start(sys.argv[2] + "/orders").awaitTermination()
"""


@pytest.mark.long
@pytest.mark.timeout(4 * END_S)
def test_a_stream_of_deltas_own_writer_has_each_order_once_though_it_is_killed_behind_each_commit(
    tmp_path: Path,
) -> None:
    spark_jars = delta_jars()
    data, program = tmp_path / "data", tmp_path / "program.py"
    program.write_text(WITHOUT_A_HELPER)
    with BrokerProcess(spanwire_command(), tmp_path / "broker") as broker:
        command = submit(spark_jars, program, broker.openwire_uri(), data)
        run(broker, tmp_path, sys.executable, EXAMPLES / "orders.py", str(COUNT))
        killer = Killer(broker, tmp_path, command)
        inside = [killer.kill_behind(data / "orders", version, data / "_checkpoint") for version in range(2)]
        run(broker, tmp_path, *command)
    assert orders_in(data / "orders") == sorted(f"order {number}" for number in range(COUNT))
    assert any(inside), "no kill was between the commit of a table and Spark's note of it"
