"""The page of pipelines: routes as they were published, problems, and cursors and ledgers with their owners."""

from __future__ import annotations

from typing import Final

from starlette.testclient import TestClient

from spanwire.management.commands import pipelines
from spanwire.pipeline.watch.status import FAILED, RUNNING, PipelineStatus, RouteStatus, encode
from spanwire.web.routes import application
from tests.support.control_dialogue import Program
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.fake_broker_link import FakeBrokerLink

ROUTE: Final = RouteStatus(
    "orders", RUNNING, "queue://ORDERS", "parquet", "orders-1", 17, 18, 123_456, 1_500.0, 40, 321, 2_500
)  # fmt: skip


def text_of(*routes: RouteStatus, age_ms: int = 1_000) -> str:
    status = encode(PipelineStatus("nightly", "r1", "spark-7", 1_000, 2_000, routes))
    return shown(pipelines=[
        {"pipeline": "nightly", "run": "r1", "user": "etl", "ageMs": age_ms, "ended": False, "stopping": False,
         "status": status},
    ])  # fmt: skip


def shown(**parts: list[dict[str, object]]) -> str:
    link = FakeBrokerLink()
    link.answers["pipelines"] = {"pipelines": [], "cursors": [], "sinks": [], **parts}
    client = TestClient(application(link, is_loopback=True), base_url="http://127.0.0.1:8161")
    text: str = client.get("/admin/pipelines", auth=("vera", "v-word")).text
    return text


def test_a_route_is_shown_with_batch_speed_and_lag() -> None:
    text = text_of(ROUTE)
    assert "run r1 of etl on spark-7" in text and "published 1 s ago" in text
    for cell in ("17", "123,456", "1,500", "321", "2 s"):
        assert f'">{cell}</td>' in text
    assert '<td data-label="Cursor">orders-1</td>' in text and "notice critical" not in text


def test_a_failed_route_and_a_silent_pipeline_are_problems() -> None:
    failed = RouteStatus("orders", FAILED, last_error="table is gone", failed_at_ms=5_000, failures=3)
    assert "orders failed: table is gone" in text_of(failed)
    assert "has not published its status for 40 s" in text_of(ROUTE, age_ms=40_000)


def test_a_status_of_another_version_is_said_to_be_one() -> None:
    assert "another version" in shown(pipelines=[{"pipeline": "p", "run": "r", "user": "u", "status": "{}"}])


def test_a_broker_without_pipelines_says_how_to_run_one() -> None:
    text = shown()
    assert "spanwire pipeline run routes.yaml" in text and "No cursor holds messages" in text


def test_cursors_and_ledgers_of_a_broker_have_their_owners() -> None:
    stage = Stage()
    program = Program(stage)
    program.asks("publish", pipeline="nightly", run="r1", body="fine")
    program.peer.sends("queue://ORDERS", "a")
    program.asks("open", cursor="orders-1", queue="ORDERS", run="r1")
    program.asks("reserve", cursor="orders-1", epoch=1, messages=10)
    program.asks("open", cursor="few", queue="ORDERS", run="r1", selector="n > 1")
    program.asks("begin", query="into", run="r1", target="queue://OUT")
    parts = pipelines(stage.broker)
    assert [row["text"] if "text" in row else row["status"] for row in _rows(parts["pipelines"])] == ["fine"]
    text = shown(cursors=_rows(parts["cursors"]), sinks=_rows(parts["sinks"]))
    assert (
        '<th scope="row">orders-1</th><td data-label="Reads">queue://ORDERS</td><td data-label="Held by">anonymous</td>'
        in text
    )
    assert 'data-label="Holds">1</td>' in text
    assert '<td data-label="Reads">queue://ORDERS where n &gt; 1</td>' in text
    assert '<th scope="row">into</th><td data-label="Written by">anonymous</td>' in text and '">none</td>' in text


def _rows(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value
