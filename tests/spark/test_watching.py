"""A pipeline that runs is shown, measured and stopped through its broker."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spanwire.cli.main import main
from spanwire.pipeline.routes.route_runner import run_routes
from spanwire.pipeline.routes.route_watching import watching
from spanwire.pipeline.watch.listener import PipelineListener
from spanwire.pipeline.watch.status import RUNNING, STOPPED
from spanwire.routes.readers.parsing import read_routes
from spanwire.routes.readers.placeholders import Placeholders
from tests.support.broker_process import BrokerProcess
from tests.support.queues import numbered, send

END_S = 120.0
ROUTE = """
- brokers: {shop: {url: "{{url}}"}}
- route:
    id: watched
    from:
      uri: "shop:queue:WATCHED"
      parameters: {cursor: watcher, maxRowsPerBatch: 10}
      steps: [{to: "shop:queue:WATCHED.OUT"}]
"""


def test_a_route_is_shown_with_its_batches_and_stopped_through_the_broker(
    spark: SparkSession, spanwire: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = spanwire.openwire_uri()
    send(url, "WATCHED", numbered(25))
    file = read_routes(ROUTE.encode(), "watched.yaml", Placeholders({"url": url}, {}))
    stop = threading.Event()
    listener = PipelineListener("program", {"url": url})
    spark.streams.addListener(listener)
    statuses: list[int] = []

    def operate() -> None:
        end = time.monotonic() + END_S
        while not any(route.rows == 25 for route in listener.status().routes) and time.monotonic() < end:
            time.sleep(0.1)
        statuses.append(main(["pipeline", "stop", "watched.yaml", "--url", url]))

    operator = threading.Thread(target=operate)
    operator.start()
    try:
        with watching(file, stop) as watch_of:
            assert run_routes(spark, file, tmp_path, "200 milliseconds", {}, lambda _: None, stop, watch_of)
    finally:
        stop.set()
        operator.join(END_S)
        spark.streams.removeListener(listener)
        listener.close()
    assert statuses == [0]
    capsys.readouterr()
    assert main(["pipeline", "status", "--url", url, "--json"]) == 0
    shown = {row["pipeline"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    (route,) = shown["watched.yaml"]["routes"]
    assert (route["state"], route["rows"], route["source"]) == (STOPPED, 25, "queue://WATCHED")
    assert route["batch"] == route["batches"] - 1 >= 2
    assert (route["cursor"], route["lag_messages"], route["last_error"]) == ("watcher", 0, "")
    (query,) = shown["program"]["routes"]
    assert (query["route"], query["rows"], query["batches"]) == ("watched", 25, route["batches"])
    assert query["state"] != RUNNING
    assert 'spanwire_pipeline_rows_total{pipeline="program"' in listener.metrics()
