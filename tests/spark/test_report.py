"""A report of a network with planted faults names exactly these; advisories of real brokers are understood."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spanwire.client import blocking
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import ArchiveQuery
from spanwire.pipeline.report.commands import write
from spanwire.pipeline.report.model import Report, Value
from spanwire.pipeline.report.report_builder import BuiltReport, build
from spanwire.pipeline.report.sources import Inputs, events
from tests.support import report_brokers as brokers
from tests.support import report_network as network
from tests.support.report_archives import message_id

pytestmark = pytest.mark.long  # `test_report_examples.py` builds a report in each run

LIMIT_S = 120.0
STUCK_AFTER_S = 300
FOR_LARGE_DATA = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")  # they cost more than they save here
PAUSE_S = 0.2


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltReport]:
    before = {name: spark.conf.get(name) for name in FOR_LARGE_DATA}
    for name in FOR_LARGE_DATA:
        spark.conf.set(name, "false")
    try:
        planted = network.planted(tmp_path_factory.mktemp("network"))
        told = brokers.told_by_brokers(tmp_path_factory.mktemp("brokers"))
        yield build(spark, replace(planted, advisories=(*planted.advisories, *told)), STUCK_AFTER_S)
    finally:
        spark.catalog.clearCache()
        for name, value in before.items():
            spark.conf.set(name, value)


@pytest.fixture(scope="module")
def report(built: BuiltReport) -> Report:
    return built.report


def rows(report: Report, key: str, *names: str) -> list[tuple[Value, ...]]:
    """These columns of a table."""
    table = report.table(key)
    places = [[column.name for column in table.columns].index(name) for name in names]
    return [tuple(row[place] for place in places) for row in table.rows]


def test_the_ids_that_break_the_ledger_are_named_and_no_others(report: Report) -> None:
    assert rows(report, "ids", "is", "message id", "queue", "what is known") == [
        ("lost", message_id(network.LOST), "queue://ORDERS", "A gave it to another broker, where it did not arrive"),
        ("lost", message_id(403), "queue://PAPER.SENT", "sent, and seen nowhere"),
        ("doubled", message_id(network.DOUBLED), "queue://ORDERS", "delivered at B 2 times; in archives: 2"),
        ("doubled", message_id(405), "queue://PAPER", "in archives: 2"),
        ("unannounced", message_id(network.UNANNOUNCED), "queue://ORDERS", "in archives: 1"),
        ("stuck", message_id(network.STUCK), "queue://ORDERS", "pending at B"),
    ]
    assert report.is_broken


def test_the_ledger_counts_each_message_once_over_all_brokers(report: Report) -> None:
    ends = ("sent", "delivered", "dead", "expired", "pending", "stuck", "lost", "doubled", "unannounced", "the ledger")
    assert rows(report, "ledger", "queue", *ends) == [
        ("queue://FAR", 4, 4, 0, 0, 0, 0, 0, 0, 0, "holds"),
        ("queue://LATE", 1, 0, 0, 0, 1, 0, 0, 0, 0, "holds"),
        ("queue://ORDERS", 40, 37, 1, 1, 2, 1, 1, 1, 1, "is broken"),
        ("queue://PAPER", 4, 5, 0, 0, 0, 0, 0, 1, 0, "is broken"),
        ("queue://PAPER.SENT", 2, 0, 1, 0, 0, 0, 1, 0, 0, "is broken"),
        (f"queue://{brokers.QUEUE}", 12, 10, 0, 0, 2, 0, 0, 0, 0, "holds"),
    ]


def test_what_cannot_be_known_is_said(report: Report) -> None:
    notes = "\n".join(report.notes)
    assert f"No record of what was sent to queue://{network.HOSTILE}, queue://OTHER, so there is no ledger" in notes
    assert "Nothing has left queue://LATE:" in notes


def test_hops_and_ways_have_their_times(report: Report) -> None:
    found = rows(report, "hops", "from", "to", "messages", "least", "median", "most")
    real = {row[:3] for row in found if "real" in str(row[1])}
    assert real == {("(sender)", "real-a", 12), ("real-a", "real-b", 12)}
    assert [row for row in found if "real" not in str(row[1])] == [
        ("(sender)", "A", 43, 10.0, 10.0, 10.0),
        ("A", "B", 42, 30.0, 30.0, 100.0),
        ("B", "C", 4, 100.0, 100.0, 100.0),
        ("(sender)", "B", 1, 0.0, 0.0, 0.0),
    ]
    ways = {row[:2]: row[2:] for row in rows(report, "routes", "route", "destination", "messages", "most")}
    assert ways["A → archive received", "queue://ORDERS"] == (37, None)
    assert ways["A → B → archive received", "queue://FAR"] == (4, None)
    assert ways["archive received", "queue://OTHER"] == (3, 25.0)


def test_clients_are_named_by_their_client_ids(report: Report) -> None:
    sending = {row[:3]: row[3] for row in rows(report, "senders", "client", "broker", "destination", "messages")}
    assert sending["shop", "A", "queue://ORDERS"] == 39
    assert sending["shop", "A", "queue://FAR"] == 4
    assert sending["real-sender", "real-a", f"queue://{brokers.QUEUE}"] == 12
    receiving = {
        row[:3]: row[3:] for row in rows(report, "receivers", "destination", "client", "broker", "is", "given")
    }
    assert receiving["queue://ORDERS", "warehouse", "B"] == ("consumer", 35)
    assert receiving["queue://ORDERS", "NC_A_B", "A"] == ("another broker", None)
    real = {row[:2]: row[2:4] for row in rows(report, "receivers", "broker", "is", "destination", "given")}
    assert real["real-a", "another broker"] == (f"queue://{brokers.QUEUE}", 12)
    assert real["real-b", "consumer"] == (f"queue://{brokers.QUEUE}", 12)


def test_rates_and_sizes_stand_by_destination(report: Report) -> None:
    found = {row[0]: row[1:] for row in rows(report, "destinations", "destination", "known from", "messages", "bytes")}
    assert found["queue://ORDERS"] == ("archive", 37, 37 * len("text"))
    assert found["queue://LATE"] == ("advisories", 1, 0)
    (other,) = [row for row in rows(report, "destinations", "destination", "per second") if row[0] == "queue://OTHER"]
    assert other[1] == 1.5


def test_counters_are_added_up_between_starts_of_a_broker(report: Report) -> None:
    names = ("broker", "destination", "enqueued", "dequeued", "growth", "unaccounted", "size", "starts seen")
    assert rows(report, "counters", *names) == [("A", "queue://ORDERS", 105, 64, 40, 1, 50, 1)]


def test_the_files_hold_all_of_it_and_no_name_is_obeyed(built: BuiltReport, tmp_path: Path) -> None:
    write(built, tmp_path)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert message_id(network.LOST) in page and "The ledger is broken" in page
    assert "<script" not in page and "&lt;script&gt;alert(1)" in page and "\x1b" not in page
    assert "http://" not in page and "https://" not in page and "src=" not in page and "url(" not in page
    read = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert read["ledgerHolds"] is False
    assert read["tables"]["ids"]["rows"][0]["message id"] == message_id(network.LOST)
    found = pq.read_table(tmp_path / "ids").to_pylist()
    assert sorted((row["state"], row["id"]) for row in found) == sorted(
        (str(row[0]), str(row[1])) for row in rows(built.report, "ids", "is", "message id")
    )
    charts = {path.stem for path in tmp_path.glob("*.png")}
    told = any("matplotlib" in note for note in built.report.notes)
    assert charts == (set() if told else {"rates", "hops", "parties", "sizes"})
    assert all(path.read_bytes().startswith(b"\x89PNG\r\n") for path in tmp_path.glob("*.png"))


def test_advisories_of_a_running_broker_are_archived_without_a_subscription(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    archive = tmp_path / "advisories"
    given = {"url": url, "destination": "topic://ActiveMQ.Advisory.>"}
    query = ArchiveQuery(spark, given, archive, "200 milliseconds").start()
    try:
        clients = told_until_understood(spark, url, archive, query)
    finally:
        query.stop()
    assert any(client is not None and client.startswith("reported-") for client in clients)


def told_until_understood(spark: SparkSession, url: str, archive: Path, query: StreamingQuery) -> set[str | None]:
    """Clients come and go until the archive has one with its producer and its consumer; gives its client id."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        assert query.exception() is None
        with blocking.connect(url, client_id=f"reported-{uuid.uuid4().hex}") as connection, connection.session() as one:
            one.create_producer("queue://REPORTED")
            one.create_consumer("queue://REPORTED")
        if not any(archive.glob("destination=*")):
            time.sleep(PAUSE_S)
            continue
        told = events(spark, Inputs((), (str(archive),))).where("connection IS NOT NULL").collect()
        about = [row for row in told if row["destination"] == "queue://REPORTED"]
        producing = {row["connection"] for row in about if row["structure"] == "ProducerInfo"}
        consuming = {row["connection"] for row in about if row["structure"] == "ConsumerInfo"}
        found = {row["client"] for row in told if row["connection"] in producing & consuming and row["client"]}
        if found:
            return found
    raise AssertionError(f"nothing was understood within {LIMIT_S} s")


def test_what_is_no_archive_or_is_named_twice_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="name an archive at least"):
        Inputs(()).check()
    with pytest.raises(ConfigurationError, match="there is no directory"):
        Inputs((str(tmp_path / "none"),)).check()
    with pytest.raises(ConfigurationError, match="is no archive"):
        Inputs((str(tmp_path),)).check()
    (tmp_path / "_archive").mkdir()
    with pytest.raises(ConfigurationError, match="is named twice"):
        Inputs((str(tmp_path),), (str(tmp_path),)).check()
