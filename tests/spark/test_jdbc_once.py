"""Batches in a table of Derby and of PostgreSQL: each once, wherever the driver is cut off, and whoever else writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.jdbc import TableLedger, connect, staging_table, write_once
from spanwire.pipeline.routes.batch_writer import BatchWriter, is_committed_once
from spanwire.routes.model import To
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.broker_process import BrokerProcess
from tests.support.postgres import PostgresProcess, require_postgres
from tests.support.queues import numbered, send

ROWS = 3  # of a batch
MOST = 40  # calls to the database in one batch


class CutOff(Exception):
    """The driver is gone."""


class Watched:
    """A connection, or a statement of one, that tells ``before`` of each call with the text of its statement."""

    def __init__(self, wrapped: Any, before: Callable[[str], None], text: str = "") -> None:
        self._wrapped = wrapped
        self._before = before
        self._text = text

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if name == "prepareStatement":
            return lambda text: Watched(found(text), self._before, text)
        if name in ("execute", "executeUpdate", "executeQuery", "commit"):
            self._before(self._text or name)
        return found


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresProcess]:
    require_postgres()
    with PostgresProcess(tmp_path_factory.mktemp("postgres") / "log") as database:
        yield database


@pytest.fixture(params=["derby", pytest.param("postgresql", marks=pytest.mark.long)])
def options(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> dict[str, str]:
    """A database with a table whose columns have other letters than those of the rows."""
    given = {"url": f"jdbc:derby:{tmp_path}/base;create=true", "dbtable": "orders"}
    if request.param == "postgresql":
        database: PostgresProcess = request.getfixturevalue("postgres")
        database.answer("DROP TABLE IF EXISTS orders, orders_staging, fresh, fresh_staging, spanwire_ledger")
        given |= {"url": database.url, "driver": "org.postgresql.Driver"}
    connection = connect(spark, given)
    connection.prepareStatement("CREATE TABLE orders (id INT NOT NULL, Text VARCHAR(20), extra INT)").execute()
    connection.close()
    return given


def batch_of(spark: SparkSession, number: int) -> DataFrame:
    return spark.range(number * ROWS, (number + 1) * ROWS, numPartitions=2).selectExpr(
        "CAST(id AS INT) AS id", "'text ' || id AS text"
    )


def ids(spark: SparkSession, options: dict[str, str]) -> list[int]:
    table = spark.read.format("jdbc").options(**options).load()
    rows = table.toDF(*[name.lower() for name in table.columns]).collect()
    assert all(row["text"] == f"text {row['id']}" for row in rows)
    return sorted(row["id"] for row in rows)


def write(
    spark: SparkSession, options: dict[str, str], number: int, before: Callable[[str], None] = lambda text: None
) -> bool:
    """Write a batch over a connection that is lost at an error, as with its driver."""
    connection = connect(spark, options)
    connection.setAutoCommit(False)
    try:
        return TableLedger(Watched(connection, before), "orders", "q").write(batch_of(spark, number), number, options)
    finally:
        connection.rollback()
        connection.close()


def test_a_driver_that_is_cut_off_before_any_call_leaves_each_batch_once(
    spark: SparkSession, options: dict[str, str]
) -> None:
    repeated = set()
    for number in range(MOST):
        calls: list[str] = []

        def cut(text: str, calls: list[str] = calls, last: int = number) -> None:
            calls.append(text)
            if len(calls) > last + 1:
                raise CutOff

        try:
            _ = write(spark, options, number, cut)  # until it is cut off
        except CutOff:
            repeated.add(write(spark, options, number))
            assert ids(spark, options) == list(range((number + 1) * ROWS))
        else:
            break
    assert 8 < number < MOST and calls[-1] == "commit"
    assert repeated == {True}, "the last call is the decision: whoever is cut off before it has changed nothing"
    assert write(spark, options, number) is False, "cut off behind the decision, and Spark repeats the batch"
    assert ids(spark, options) == list(range((number + 1) * ROWS))
    staged = spark.read.format("jdbc").options(**{**options, "dbtable": staging_table("orders")}).load()
    assert staged.count() == 0


def test_of_two_drivers_with_the_same_batch_one_writes_it(spark: SparkSession, options: dict[str, str]) -> None:
    others: list[bool] = []

    def other(text: str) -> None:
        if text.startswith("UPDATE") and not others:
            others.append(write(spark, options, 0))

    assert write(spark, options, 0, other) is False
    assert (others, ids(spark, options)) == ([True], list(range(ROWS)))


def test_rows_that_two_attempts_of_a_task_have_staged_are_refused(spark: SparkSession, options: dict[str, str]) -> None:
    connection = connect(spark, options)

    def double(text: str) -> None:
        if text.startswith("UPDATE"):
            connection.prepareStatement("INSERT INTO orders_staging SELECT * FROM orders_staging").execute()

    with pytest.raises(ConfigurationError, match=r"staged twice for the table orders.*start the query again"):
        write(spark, options, 0, double)
    connection.close()
    assert ids(spark, options) == []
    assert write(spark, options, 0) is True
    assert ids(spark, options) == list(range(ROWS))


def test_a_stream_fills_a_table_that_does_not_exist_yet(
    spark: SparkSession, spanwire: BrokerProcess, options: dict[str, str], tmp_path: Path
) -> None:
    given = {**options, "dbtable": "fresh"}
    url = spanwire.openwire_uri()
    send(url, "TABLE.ONCE", numbered(50))
    rows = (
        spark.readStream.format("spanwire")
        .options(url=url, destination="queue://TABLE.ONCE", stagingDirectory=str(tmp_path / "staging"))
        .option("maxRowsPerBatch", 20)
        .load()
        .selectExpr("properties['n']::int AS n", "text")
    )

    def fill(batch: DataFrame, number: int) -> None:
        _ = write_once(batch, number, given)  # the second run begins behind the last batch

    for _ in range(2):
        query = (
            rows.writeStream.foreachBatch(fill)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    found = spark.read.format("jdbc").options(**given).load().collect()
    assert sorted(row["n"] for row in found) == list(range(50))


def test_an_endpoint_of_a_route_writes_each_batch_once(spark: SparkSession, options: dict[str, str]) -> None:
    more = "".join(f", {name}: {options[name]}" for name in ("driver",) if name in options)
    parameters = f"{{dbtable: orders, qualityOfServiceMode: ONCE_AND_ONLY_ONCE{more}}}"
    steps = f'{{to: {{uri: "{options["url"]}", parameters: {parameters}}}}}'
    text = f'- from: {{uri: "jms:A", id: r, steps: [{steps}, {steps}]}}'
    (route,) = read_routes(text.encode(), "r.yaml", Placeholders({}, {})).routes
    first, second = [step.endpoint for step in route.steps if isinstance(step, To)]
    assert is_committed_once(first)
    for number in (0, 1, 1):
        writer = BatchWriter("run", number, lambda ledger, batch: batch)
        writer.write(batch_of(spark, number), first)
    assert ids(spark, options) == list(range(2 * ROWS))
    writer.write(batch_of(spark, 5), second)  # another way to the table has a ledger of its own
    assert ids(spark, options) == [*range(2 * ROWS), *range(5 * ROWS, 6 * ROWS)]


def test_what_is_missing_is_one_line(spark: SparkSession, options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"(?i)table orders has no column colour; it has id, text, extra"):
        write_once(spark.sql("SELECT 1 AS id, 2 AS colour"), 0, options, "q")
    with pytest.raises(ConfigurationError, match="needs the option dbtable"):
        write_once(batch_of(spark, 0), 0, {"url": options["url"]}, "q")
    with pytest.raises(ConfigurationError, match="call write_once in foreachBatch, or give it a name"):
        write_once(batch_of(spark, 0), 0, options)
