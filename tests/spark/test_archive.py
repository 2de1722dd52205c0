"""Messages into an archive and out of it again."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spanwire.client.messages.typed_values import Byte, Float
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.archive_query import ArchiveQuery
from spanwire.pipeline.archive.commands import exact_options
from spanwire.pipeline.archive.replay_portions import open_note
from spanwire.pipeline.archive.replay_undo import UndoResult, undo_replay
from spanwire.pipeline.archive.selection import Selection, samples, totals
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.supervisor import SupervisedRoute, run_all
from spanwire.pipeline.sink.exactly_once import batch_sink
from spanwire.routes.model import Patience
from tests.support.broker_process import BrokerProcess
from tests.support.queues import Sent, send, take_all
from tests.support.replays import replayed


@pytest.mark.long
def test_what_is_archived_can_be_chosen_and_sent_again_from_where_it_stopped(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path
) -> None:
    url, archive = spanwire.openwire_uri(), tmp_path / "archive"
    send(url, "ARCHIVE.A", [Sent(f"a {n}", {"n": n, "b": Byte(1), "f": Float(0.5)}) for n in range(20)])
    send(url, "ARCHIVE.B", [Sent(b"b", {"n": 20})])
    query = ArchiveQuery(spark, {"url": url, "destination": "queue://ARCHIVE.>"}, archive, AVAILABLE_NOW)
    assert run_all([SupervisedRoute("a", query, Patience(), lambda news: None)], threading.Event(), time.monotonic)
    now = datetime.now(UTC)
    assert [(one.destination, one.count) for one in totals(spark, Selection(str(archive)))] == [
        ("queue://ARCHIVE.A", 20), ("queue://ARCHIVE.B", 1),
    ]  # fmt: skip
    assert totals(spark, Selection(str(archive), until=now - timedelta(days=1))) == []
    choice = Selection(str(archive), since=now - timedelta(days=1), selector="n BETWEEN 5 AND 14")
    stops = iter([True, *[False] * 9])  # after the first batch
    sent = [replayed(spark, choice, url, tmp_path / "state", lambda seconds: next(stops)) for _ in range(3)]
    assert sent == [6, 4, 0]
    found = take_all(url, "ARCHIVE.A")
    assert [message.body for message in found] == [f"a {n}" for n in range(5, 15)]
    assert found[0].typed_properties["b"] == ("byte", 1) and found[0].typed_properties["f"] == ("float", 0.5)
    assert len({message.properties["_AMQ_DUPL_ID"] for message in found}) == 10
    assert take_all(url, "ARCHIVE.B") == []
    with pytest.raises(ConfigurationError, match="belongs to another replay"):
        open_note(spark, Selection(str(archive)), "", tmp_path / "state")
    assert samples(spark, Selection(str(archive)))["queue://ARCHIVE.B"] != []
    options = exact_options({"url": url})
    sink = batch_sink(options)
    assert undo_replay(options, sink, tmp_path / "state") == UndoResult(0, 10, 0)
    sink.close()
    with pytest.raises(ConfigurationError, match="was undone; delete"):
        open_note(spark, choice, "", tmp_path / "state")


def test_what_is_no_archive_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no archive"):
        totals(spark, Selection(str(tmp_path)))
