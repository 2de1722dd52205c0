from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.admin.published_statuses import MAX_STATUS_BYTES
from spanwire.pipeline.watch.metrics import prometheus_text
from spanwire.pipeline.watch.problems import STALE_MS, LagLimits, problems_of
from spanwire.pipeline.watch.status import (
    ENDED,
    FAILED,
    MAX_ERROR,
    MAX_RANGES,
    MAX_TEXT_BYTES,
    ORDER,
    RETRYING,
    RUNNING,
    PipelineStatus,
    RouteStatus,
    StatusError,
    decode,
    encode,
)

NUMBERS = st.integers(0, 2**53)
ROUTES = st.builds(
    RouteStatus,
    route=st.text(max_size=20),
    state=st.sampled_from(ORDER),
    source=st.text(max_size=20),
    batch=st.integers(-1, 99),
    rows=NUMBERS,
    rows_per_s=NUMBERS.map(float),
    lag_messages=st.none() | NUMBERS,
    lag_ms=st.none() | NUMBERS,
    last_error=st.text(max_size=20),
    ranges=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=MAX_RANGES).map(tuple),
)


def status(*routes: RouteStatus) -> PipelineStatus:
    return PipelineStatus("routes.yaml", "r1", "host", 1000, 2000, routes)


@given(st.lists(ROUTES, max_size=5))
def test_a_text_says_what_the_status_says(routes: list[RouteStatus]) -> None:
    read = decode(encode(status(*routes)))
    assert sorted(map(repr, read.routes)) == sorted(map(repr, routes))
    assert (read.pipeline, read.run, read.host, read.started_at_ms, read.at_ms) == (
        "routes.yaml",
        "r1",
        "host",
        1000,
        2000,
    )


def test_a_text_of_many_routes_keeps_those_with_problems_and_its_limit() -> None:
    many = [RouteStatus(f"route {number} " + "ä" * 200, RUNNING, last_error="x" * 1000) for number in range(1000)]
    text = encode(status(*many, RouteStatus("bad", FAILED), RouteStatus("worse", RETRYING)))
    assert len(text.encode()) <= MAX_TEXT_BYTES <= MAX_STATUS_BYTES
    read = decode(text)
    assert [route.route for route in read.routes[:2]] == ["bad", "worse"]
    assert len(read.routes) > 5 and read.omitted == 1002 - len(read.routes)
    assert len(read.routes[2].last_error) == MAX_ERROR


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"version": 2, "routes": []}', '{"version": 1}', "[" * 100_000,
     '{"version": 1, "routes": [{"state": "dancing"}]}'],
)  # fmt: skip
def test_what_is_no_status_is_refused(text: str) -> None:
    with pytest.raises(StatusError):
        decode(text)


def test_fields_of_a_wrong_type_are_read_as_absent() -> None:
    row = {"route": 7, "rows": "many", "rows_per_s": float("inf"), "lag_ms": None, "batch": True}
    assert decode(json.dumps({"version": 1, "pipeline": 3, "routes": [row, 5]})).routes == (RouteStatus("", lag_ms=0),)


def test_a_text_that_is_too_long_loses_the_ranges_of_batches_before_it_loses_routes() -> None:
    ranges = tuple((number, 2**40, 2**40, 2**40) for number in range(MAX_RANGES))
    routes = tuple(RouteStatus(f"r{number}", ranges=ranges) for number in range(50))
    found = decode(encode(PipelineStatus("p", "r", "h", 1, 2, routes)))
    assert (len(found.routes), found.omitted, {route.ranges for route in found.routes}) == (50, 0, {()})
    assert decode(encode(PipelineStatus("p", "r", "h", 1, 2, routes[:5]))).routes[0].ranges == ranges


@pytest.mark.parametrize("ranges", ["5", "[5]", "[[1, 2, 3]]", '[[1, 2, 3, "4"]]', "[[1, 2, 3, true]]"])
def test_ranges_of_another_form_are_read_as_absent(ranges: str) -> None:
    assert decode(f'{{"version": 1, "routes": [{{"route": "r", "ranges": {ranges}}}]}}').routes[0].ranges == ()


def test_a_pipeline_has_ended_when_all_routes_have() -> None:
    assert not status().has_ended
    assert not status(RouteStatus("a", ENDED), RouteStatus("b", RETRYING)).has_ended
    assert status(RouteStatus("a", ENDED), RouteStatus("b", FAILED)).has_ended


def test_a_failed_late_or_silent_pipeline_is_a_problem() -> None:
    late = status(RouteStatus("a", RUNNING, lag_messages=11), RouteStatus("b", RUNNING, lag_ms=61_000))
    assert problems_of(late, STALE_MS, LagLimits()) == []
    assert [problem.text for problem in problems_of(late, 0, LagLimits(10, 60))] == [
        "lags by 11 messages, more than 10",
        "lags by 61 s, more than 60 s",
    ]
    assert problems_of(late, 0, LagLimits(11, 61)) == []
    (silent,) = problems_of(late, STALE_MS + 1, LagLimits())
    assert (silent.route, silent.text) == ("", "has not published its status for 30 s")
    bad = status(RouteStatus("a", FAILED, last_error="no column"), RouteStatus("b", ENDED, lag_messages=99))
    assert [problem.text for problem in problems_of(bad, STALE_MS + 1, LagLimits(1))] == ["failed: no column"]


def test_metrics_have_the_figures_of_the_status() -> None:
    text = prometheus_text([(status(RouteStatus('a"\n', RUNNING, batch=3, rows=12, lag_ms=1500)), 2500)])
    labels = 'pipeline="routes.yaml",run="r1",route="a\\"\\n"'
    assert 'spanwire_pipeline_age_seconds{pipeline="routes.yaml",run="r1"} 2.5\n' in text
    assert f"spanwire_pipeline_rows_total{{{labels}}} 12\n" in text
    assert f"spanwire_pipeline_lag_seconds{{{labels}}} 1.5\n" in text
    assert f'spanwire_pipeline_route_state{{{labels},state="running"}} 1\n' in text
    assert f'spanwire_pipeline_route_state{{{labels},state="failed"}} 0\n' in text
    assert "lag_messages{" not in text  # unknown
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) > 8
