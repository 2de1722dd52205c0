"""A pipeline that runs is shown, measured and stopped through its broker."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spanwire.cli.main import main
from spanwire.management.control_client import ControlClient
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
    spark: SparkSession, own_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = own_broker.openwire_uri()
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


ONCE = """{to: {uri: "shop:queue:TRACED.OUT", parameters: {qualityOfServiceMode: ONCE_AND_ONLY_ONCE}}}"""


@pytest.mark.long
def test_a_trace_shows_which_batch_of_which_route_has_read_a_message_and_which_has_written_one(
    spark: SparkSession, own_broker: BrokerProcess, tmp_path: Path
) -> None:
    url, stop = own_broker.openwire_uri(), threading.Event()
    text = ROUTE.replace("WATCHED", "TRACED").replace("watched", "traced").replace("cursor: watcher", "cursor: tracer")
    text = text.replace('{to: "shop:queue:TRACED.OUT"}', ONCE)
    file = read_routes(text.encode(), "traced.yaml", Placeholders({"url": url}, {}))
    control = ControlClient(own_broker.directory / "data", END_S)
    traces = [control.ask("trace", destination=f"queue://TRACED{end}", seconds=300) for end in ("", ".OUT")]
    send(url, "TRACED", numbered(25))
    found: list[list[dict[str, object]]] = []

    def read(trace: object) -> list[dict[str, object]]:
        assert isinstance(trace, dict)
        answer = control.ask("observations", trace=trace["trace"])
        assert isinstance(answer, dict)
        rows: list[dict[str, object]] = answer["observations"]
        return rows

    def operate() -> None:
        end = time.monotonic() + END_S
        while time.monotonic() < end and sum(row["step"] == "processed" for row in read(traces[0])) < 25:
            time.sleep(0.5)
        found.extend(read(trace) for trace in traces)
        stop.set()

    operator = threading.Thread(target=operate)
    operator.start()
    try:
        with watching(file, stop) as watch_of:
            assert run_routes(spark, file, tmp_path, "200 milliseconds", {}, lambda _: None, stop, watch_of)
    finally:
        stop.set()
        operator.join(END_S)
    came, went = found
    steps = {step: [row for row in came if row["step"] == step] for step in ("reserved", "read", "processed")}
    assert {step: len({row["message_id"] for row in rows}) for step, rows in steps.items()} == dict.fromkeys(steps, 25)
    assert {row["location"] for row in steps["processed"]} == {"route traced of pipeline traced.yaml"}
    read_in = {str(row["detail"]).split(",")[0] for row in steps["processed"]}
    written = [row for row in went if row["step"] == "written"]
    assert {str(row["detail"]) for row in written} == read_in
    assert len(written) == 25
