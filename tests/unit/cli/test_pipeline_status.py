"""``spanwire pipeline status`` and ``stop`` against a running broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from spanwire.cli.main import main
from spanwire.cli.pipeline.pipeline_status import FRESH_MS, find_running
from spanwire.client import blocking
from spanwire.pipeline.link.control_answers import PublishedView
from spanwire.pipeline.link.control_client import Control
from spanwire.pipeline.watch.status import FAILED, RUNNING, STOPPED, PipelineStatus, RouteStatus, encode
from spanwire.testing.broker import Broker

ORDERS = RouteStatus(
    "orders", RUNNING, "queue://ORDERS", "parquet", "nightly", batch=17, rows=340_000, rows_per_s=20_000.4,
    lag_messages=180_000, failures=1, last_error="the broker is away", failed_at_ms=1000,
)  # fmt: skip


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(directory=tmp_path / "data") as running:
        yield running


@pytest.fixture
def control(broker: Broker) -> Iterator[Control]:
    with blocking.connect(broker.url) as connection:
        yield Control(connection)


def publish(control: Control, *routes: RouteStatus, run: str = "run-1") -> None:
    _ = must_stop(control, *routes, run=run)


def must_stop(control: Control, *routes: RouteStatus, run: str = "run-1") -> bool:
    status = PipelineStatus("routes.yaml", run, "host-1", 0, 61_000, routes)
    return control.publish("routes.yaml", run, encode(status), has_ended=status.has_ended)


def test_a_pipeline_is_shown_with_its_routes_cursors_and_sinks(
    broker: Broker, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "status", "--url", broker.url]) == 0
    assert capsys.readouterr().out == "status: no pipeline publishes here\n"
    publish(control, ORDERS)
    control.open_cursor("nightly", "ORDERS", "r1")
    control.begin("9a0c", "r1")
    assert main(["pipeline", "status", "--url", broker.url]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("routes.yaml on host-1, run run-1 of anonymous, ") and first.endswith(" s ago")
    assert lines == [
        "  orders: running; queue://ORDERS -> parquet, cursor nightly; batch 17, 340000 rows, 20000 rows/s; "
        "lag 180000 messages",
        "    last error 60 s before: the broker is away",
        "cursor nightly: queue://ORDERS, epoch 1, holds none, run r1 of anonymous",
        "sink 9a0c: epoch 1, no batch is committed, run r1 of anonymous",
    ]
    assert main(["pipeline", "status", "--url", broker.url, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["routes"][0]["lag_messages"], shown["problems"]) == (180_000, [])
    assert main(["pipeline", "status", "--url", broker.url, "--metrics"]) == 0
    assert 'spanwire_pipeline_lag_messages{pipeline="routes.yaml",run="run-1",route="orders"} 180000\n' in (
        capsys.readouterr().out
    )


def test_a_problem_is_a_line_and_the_exit_status(
    broker: Broker, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(control, ORDERS, RouteStatus("bills", FAILED, last_error="no column"))
    assert main(["pipeline", "status", "--url", broker.url, "--max-lag-messages", "1000"]) == 3
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("PROBLEM")] == [
        "PROBLEM: routes.yaml, route bills failed: no column",
        "PROBLEM: routes.yaml, route orders lags by 180000 messages, more than 1000",
    ]


def test_a_status_that_cannot_be_read_is_left_out_with_a_line(
    broker: Broker, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    _ = control.publish("later", "r9", '{"version": 9}')
    publish(control, ORDERS)
    assert main(["pipeline", "status", "--url", broker.url]) == 0
    told = capsys.readouterr()
    assert told.err == "spanwire pipeline status: later: the status is of another version\n"
    assert "orders: running" in told.out


def test_a_pipeline_is_stopped_after_its_batch(
    broker: Broker, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(control, ORDERS)
    statuses: list[int] = []
    operator = threading.Thread(
        target=lambda: statuses.append(main(["pipeline", "stop", "routes.yaml", "--url", broker.url]))
    )
    operator.start()
    while not must_stop(control, ORDERS):
        pass
    publish(control, RouteStatus("orders", STOPPED))
    operator.join(30.0)
    assert statuses == [0]
    assert capsys.readouterr().out == "stop: routes.yaml has ended\n"


def test_a_pipeline_that_does_not_end_in_time_is_reported(
    broker: Broker, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(control, ORDERS)
    assert main(["pipeline", "stop", "run-1", "--url", broker.url, "--wait", "0"]) == 1
    assert "routes.yaml has not ended within 0 s" in capsys.readouterr().err.replace("run-1", "routes.yaml")


def test_a_stop_needs_one_running_pipeline_of_that_name(
    broker: Broker, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "stop", "weekly", "--url", broker.url]) == 1
    assert "there is no pipeline 'weekly'; spanwire pipeline status lists them" in capsys.readouterr().err
    publish(control, ORDERS)
    publish(control, ORDERS, run="run-2")
    assert main(["pipeline", "stop", "routes.yaml", "--url", broker.url]) == 1
    assert "several pipelines are named 'routes.yaml'; name the run: run-1, run-2" in capsys.readouterr().err


def test_the_successor_of_a_killed_run_is_found() -> None:
    killed, successor, ended = (
        PublishedView("routes.yaml", run, "u", age_ms, run == "ended", False, "")
        for run, age_ms in (("killed", FRESH_MS + 1), ("successor", 0), ("ended", 0))
    )
    assert find_running([killed, successor, ended], "routes.yaml") == successor
    assert find_running([killed, ended], "routes.yaml") == killed
    assert find_running([ended], "routes.yaml") == ended
