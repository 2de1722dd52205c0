"""Batches of a stream in a table of a database, each once and only once.

    query = rows.writeStream.foreachBatch(lambda batch, number: write_once(batch, number, options)).start()

Spark's JDBC writer inserts each partition in a transaction of its own, and a repeated batch again. `write_once` lets
the writer fill a staging table, ``<dbtable>_staging``. Then one transaction of the driver moves the rows into the table
and notes the number of the batch in the ledger, the table ``spanwire_ledger``:

| killed                                 | the table has | when the batch is repeated                           |
|----------------------------------------|---------------|------------------------------------------------------|
| before the transaction's commit        | nothing of it | it is staged again; older staged rows are deleted    |
| after it, and Spark has not noted that | the batch     | the ledger has its number, and nothing is written    |

Each attempt stages under a run of its own. A process that outlives its driver may stage, but its rows are never moved,
or its run commits the batch first. All statements are plain SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.session import java_of

QUERY: Final = "sql.streaming.queryId"  # Spark's property with the query of a batch
LEDGER: Final = "spanwire_ledger"
MAX_NAME: Final = 200  # characters of a name in the ledger
NO_BATCH: Final = -1
ENDINGS: Final = ("WITH NO DATA", "WHERE 1 = 0")  # of CREATE TABLE … AS; each database knows one of them


def write_once(batch: DataFrame, number: int, options: Mapping[str, str], name: str = "") -> bool:
    """Append the rows of a batch to a table, unless the table has the batch.

    Call the function in ``foreachBatch``. A query that begins anew with another checkpoint counts its batches from 0,
    so its name in the ledger must be another one, too.

    Args:
        batch: the rows; each column has a column of the same name in the table. A table that does not exist is made.
        number: the number of the batch.
        options: the options of Spark's format ``jdbc``: ``url``, ``dbtable``, and what the driver needs.
        name: the name in the ledger; by default the id of the query, which belongs to its checkpoint.

    Returns:
        False if the table has the batch already.

    Raises:
        ConfigurationError: the session is one of Spark Connect, an option or a column is missing, or rows of a
            partition were staged twice.
    """
    java_of(batch.sparkSession, "write_once")
    ledger = name or batch.sparkSession.sparkContext.getLocalProperty(QUERY) or ""
    if not 0 < len(ledger) <= MAX_NAME:
        raise ConfigurationError(
            f"a ledger's name has 1 to {MAX_NAME} characters: call write_once in foreachBatch, or give it a name"
        )
    for option in ("url", "dbtable"):
        if option not in options:
            raise ConfigurationError(f"write_once needs the option {option} of Spark's format jdbc")
    connection = connect(batch.sparkSession, options)
    try:
        connection.setAutoCommit(False)
        return TableLedger(connection, options["dbtable"], ledger).write(batch, number, options)
    finally:
        connection.rollback()
        connection.close()


def connect(spark: SparkSession, options: Mapping[str, str]) -> Any:
    """Return a ``java.sql.Connection`` as Spark's writer makes it, also with drivers from ``--jars``."""
    jvm = java_of(spark, "write_once")
    given = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(options))
    )
    dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
    return dialect.createConnectionFactory(given).apply(-1)


class TableLedger:
    """The ledger and the staging table behind one table, over a connection without automatic commits."""

    def __init__(self, connection: Any, table: str, name: str) -> None:
        self._connection: Final = connection
        self._quote: Final[str] = connection.getMetaData().getIdentifierQuoteString().strip()
        self._table: Final = table
        self._staging: Final = staging_table(table)
        self._name: Final = name

    def write(self, batch: DataFrame, number: int, options: Mapping[str, str]) -> bool:
        """Stage and move a batch; see `write_once`."""
        if not self._succeeds(f"SELECT 1 FROM {self._table} WHERE 1 = 0"):
            batch.limit(0).write.format("jdbc").mode("append").options(**options).save()  # makes the table
        self._begin()
        if self._last_batch() >= number:
            return False
        columns = self._columns_of(batch)
        self._make_staging(columns)
        run = uuid4().hex
        staged = (
            batch.withColumn("spanwire_name", sf.lit(self._name))
            .withColumn("spanwire_run", sf.lit(run))
            .withColumn("spanwire_row", sf.monotonically_increasing_id())
        )
        staged.write.format("jdbc").mode("append").options(**{**options, "dbtable": self._staging}).save()
        return self._move(columns, run, number)

    def _begin(self) -> None:
        """Make the ledger and its row, unless they are there."""
        if not self._succeeds(f"SELECT batch FROM {LEDGER} WHERE 1 = 0"):
            self._succeeds(
                f"CREATE TABLE {LEDGER} (name VARCHAR({MAX_NAME}) NOT NULL PRIMARY KEY, batch BIGINT NOT NULL)"
            )
        if not self._numbers(f"SELECT COUNT(*) FROM {LEDGER} WHERE name = ?", self._name)[0]:
            self._succeeds(f"INSERT INTO {LEDGER} (batch, name) VALUES ({NO_BATCH}, ?)", self._name)

    def _last_batch(self) -> int:
        return self._numbers(f"SELECT MAX(batch) FROM {LEDGER} WHERE name = ?", self._name)[0]

    def _columns_of(self, batch: DataFrame) -> list[str]:
        """Return the columns of the batch under their names in the table, quoted."""
        by_name = {name.lower(): name for name in self._columns()}
        missing = [name for name in batch.columns if name.lower() not in by_name]
        if missing:
            raise ConfigurationError(
                f"the table {self._table} has no column {missing[0]}; it has {', '.join(by_name.values())}"
            )
        return [f"{self._quote}{by_name[name.lower()]}{self._quote}" for name in batch.columns]

    def _columns(self) -> list[str]:
        statement = self._connection.prepareStatement(f"SELECT * FROM {self._table} WHERE 1 = 0")
        shape = statement.executeQuery().getMetaData()
        names = [str(shape.getColumnName(index + 1)) for index in range(shape.getColumnCount())]
        statement.close()
        return names

    def _make_staging(self, columns: list[str]) -> None:
        """Make the staging table with the table's types, unless there is one."""
        if self._succeeds(f"SELECT spanwire_run FROM {self._staging} WHERE 1 = 0"):
            return
        own = (
            f"CAST('' AS VARCHAR({MAX_NAME})) AS spanwire_name, CAST('' AS VARCHAR(32)) AS spanwire_run, "
            "CAST(0 AS BIGINT) AS spanwire_row"
        )
        made = f"CREATE TABLE {self._staging} AS SELECT {', '.join(columns)}, {own} FROM {self._table}"
        if not any(self._succeeds(f"{made} {ending}") for ending in ENDINGS):
            self._succeeds(f"SELECT spanwire_run FROM {self._staging} WHERE 1 = 0", is_needed=True)

    def _move(self, columns: list[str], run: str, number: int) -> bool:
        """Move a run's rows into the table, note the batch, and drop other staged rows, in one transaction."""
        if not self._changes(f"UPDATE {LEDGER} SET batch = {number} WHERE name = ? AND batch < {number}", self._name):
            self._connection.rollback()
            return False
        rows, distinct = self._numbers(
            f"SELECT COUNT(*), COUNT(DISTINCT spanwire_row) FROM {self._staging} WHERE spanwire_run = ?", run
        )
        if rows != distinct:
            self._connection.rollback()
            raise ConfigurationError(
                f"rows of batch {number} were staged twice for the table {self._table}, by two attempts of a task: "
                f"start the query again, which repeats the batch"
            )
        names = ", ".join(columns)
        self._changes(
            f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {self._staging} WHERE spanwire_run = ?", run
        )
        self._changes(f"DELETE FROM {self._staging} WHERE spanwire_name = ?", self._name)
        self._connection.commit()
        return True

    def _succeeds(self, statement: str, *texts: str, is_needed: bool = False) -> bool:
        """Execute a statement in a transaction of its own, and return False if the database refuses it."""
        try:
            self._prepared(statement, texts).execute()
        except Py4JJavaError:
            self._connection.rollback()
            if is_needed:
                raise
            return False
        self._connection.commit()
        return True

    def _changes(self, statement: str, *texts: str) -> int:
        prepared = self._prepared(statement, texts)
        count: int = prepared.executeUpdate()
        prepared.close()
        return count

    def _numbers(self, statement: str, *texts: str) -> list[int]:
        """Return the first row of a query."""
        prepared = self._prepared(statement, texts)
        found = prepared.executeQuery()
        found.next()
        row = [int(found.getLong(index + 1)) for index in range(found.getMetaData().getColumnCount())]
        prepared.close()
        return row

    def _prepared(self, statement: str, texts: tuple[str, ...]) -> Any:
        prepared = self._connection.prepareStatement(statement)
        for index, text in enumerate(texts):
            prepared.setString(index + 1, text)
        return prepared


def staging_table(table: str) -> str:
    """Return the name of the staging table of ``table``, within the same schema and quotes."""
    quote = table[-1]
    return f"{table[:-1]}_staging{quote}" if quote in '"`]' else f"{table}_staging"
