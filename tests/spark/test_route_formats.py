"""Routes on Spark into windows of time, tables of a database, and every format that Spark has."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.test_routes import routes, run
from tests.support.broker_process import BrokerProcess
from tests.support.queues import Sent, send, take_all

DERBY = "org.apache.derby.jdbc.EmbeddedDriver"  # a database inside the JVM, which Spark brings along

WINDOWS = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: windows
    from:
      uri: "shop:queue:TICKS"
      steps:
        - transform: {columns: {JMSTimestamp: "timestamp_seconds(properties['second']::int)"}}
        - aggregate:
            window: "1 minute"
            watermark: "30 seconds"
            by: {symbol: "properties['symbol']::string"}
            columns: {ticks: "count(*)", highest: "max(properties['price']::double)"}
        - transform: {select: {text: "to_json(struct(unix_seconds(window_start) AS start, symbol, ticks, highest))"}}
        - to: "shop:queue:WINDOWS"
"""


def tick(second: int, symbol: str, price: float) -> Sent:
    return Sent(None, {"second": second, "symbol": symbol, "price": price})


@pytest.mark.long
def test_windows_that_are_over_come_once_over_restarts_and_late_rows_in_none(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    file = routes(WINDOWS, url=url)

    def windows_after(*ticks: Sent) -> list[tuple[object, ...]]:
        send(url, "TICKS", ticks)
        run(spark, file, tmp_path / "state")
        return sorted(tuple(json.loads(str(one.body)).values()) for one in take_all(url, "WINDOWS"))

    first = [
        tick(0, "IBM", 1.5),
        tick(10, "IBM", 2.5),
        tick(20, "MSFT", 9.0),
        tick(70, "IBM", 3.0),
        tick(130, "IBM", 4.0),
    ]
    assert windows_after(*first) == [(0, "IBM", 2, 2.5), (0, "MSFT", 1, 9.0)]
    assert windows_after(tick(5, "IBM", 99.0), tick(115, "IBM", 7.0), tick(200, "IBM", 5.0)) == [(60, "IBM", 2, 7.0)]


TABLES = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: fill
    from:
      uri: "shop:queue:NAMES"
      steps:
        - transform: {select: {symbol: "properties['symbol']::string", name: "text"}}
        - to:
            uri: "{{database}}"
            parameters:
              dbtable: names
              driver: "{{driver}}"
              createTableColumnTypes: "symbol VARCHAR(9), name VARCHAR(99)"
"""
LOOKUP = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: lookup
    from:
      uri: "shop:queue:PRICES"
      steps:
        - join:
            table: {uri: "{{database}}", parameters: {dbtable: names, driver: "{{driver}}"}}
            "on": "message.properties['symbol']::string = table.symbol"
            type: left
            columns: {company: "table.name"}
        - setHeader: {name: company, sql: "coalesce(company, 'nobody')"}
        - to: "shop:queue:NAMED"
"""


@pytest.mark.long
def test_a_table_of_a_database_is_filled_and_joined(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    words = {"url": url, "database": f"jdbc:derby:{tmp_path}/base;create=true", "driver": DERBY}
    send(url, "NAMES", [Sent("Machines", {"symbol": "IBM"}), Sent("Windows", {"symbol": "MSFT"})])
    run(spark, routes(TABLES, **words), tmp_path / "state")
    send(url, "PRICES", [Sent("1", {"symbol": "IBM"}), Sent("2", {"symbol": "XYZ"}), Sent("3", {"symbol": "MSFT"})])
    run(spark, routes(LOOKUP, **words), tmp_path / "state")
    named = {str(one.body): one.properties["company"] for one in take_all(url, "NAMED")}
    assert named == {"1": "Machines", "2": "nobody", "3": "Windows"}


FORMATS = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: everywhere
    from:
      uri: "shop:queue:EVERYWHERE"
      steps:
        - wireTap: "parquet:{{files}}/parquet"
        - transform: {select: {n: "properties['n']::int", text: "text"}}
        - multicast:
            steps:
              - to: "orc:{{files}}/orc"
              - to: "csv:{{files}}/csv?header=true"
              - to: {uri: "shop:queue:ONCE", parameters: {qualityOfServiceMode: ONCE_AND_ONLY_ONCE}}
              - to: {uri: "format:xml", parameters: {path: "{{files}}/xml", rowTag: message}}
              - pipeline:
                  steps:
                    - filter: {sql: "n % 2 = 0"}
                    - transform: {select: {value: "text"}}
                    - to: "text:{{files}}/text"
- route:
    id: back
    from:
      uri: "orc:{{files}}/before"
      steps:
        - transform: {select: {text: "text", properties: "map('n', n)"}}
        - to: "shop:queue:BACK"
"""


def test_every_format_of_spark_can_be_written_and_files_be_read_into_a_queue(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url = spanwire.openwire_uri()
    spark.createDataFrame([(n, f"row {n}") for n in range(4)], "n int, text string").write.orc(f"{tmp_path}/before")
    send(url, "EVERYWHERE", [Sent(f"row {n}", {"n": n}) for n in range(6)])
    run(spark, routes(FORMATS, url=url, files=str(tmp_path)), tmp_path / "state")
    expected = [(n, f"row {n}") for n in range(6)]
    assert sorted(map(tuple, spark.read.orc(f"{tmp_path}/orc").select("n", "text").collect())) == expected
    table = spark.read.option("header", "true").csv(f"{tmp_path}/csv").selectExpr("int(n)", "text")
    assert sorted(map(tuple, table.collect())) == expected
    found = spark.read.format("xml").option("rowTag", "message").schema("n int, text string").load(f"{tmp_path}/xml")
    assert sorted(map(tuple, found.collect())) == expected
    assert sorted(row["value"] for row in spark.read.text(f"{tmp_path}/text").collect()) == ["row 0", "row 2", "row 4"]
    assert sorted((one.properties["n"], one.body) for one in take_all(url, "BACK")) == expected[:4]
    assert sorted(str(one.body) for one in take_all(url, "ONCE")) == [text for _, text in expected]
    encodings: dict[str, set[str]] = {}
    with_statistics: set[str] = set()
    for path in (tmp_path / "parquet").rglob("*.parquet"):
        group = pq.ParquetFile(path).metadata.row_group(0)
        for index in range(group.num_columns):
            column = group.column(index)
            encodings.setdefault(column.path_in_schema, set()).update(column.encodings)
            if column.is_stats_set and column.statistics.has_min_max:
                with_statistics.add(column.path_in_schema)
    assert "PLAIN_DICTIONARY" in encodings["JMSDestination"]
    assert "PLAIN_DICTIONARY" not in encodings["text"] | encodings["JMSMessageID"]
    assert "JMSMessageID" in with_statistics
    assert "text" not in with_statistics
