from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from spanwire.pipeline.report.clients import Consumer, network_only, pattern_of
from spanwire.pipeline.report.traffic import MAX_STEPS, span_text, step_of

BEGIN = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("queue://A.B", "queue://A.B", True),
        ("queue://A.B", "queue://AxB", False),
        ("queue://A.*", "queue://A.B", True),
        ("queue://A.*", "queue://A.B.C", False),
        ("queue://A.>", "queue://A.B.C", True),
        ("queue://A.>", "queue://A", True),
        ("queue://A.>", "queue://AB", False),
        ("queue://>", "queue://A.B", True),
        ("queue://>", "topic://A.B", False),
        ("queue://A,B.>", "queue://B.C", True),
        ("queue://A,topic://B", "topic://B", True),
        ("queue://A(", "queue://A(", True),
    ],
)
def test_a_consumer_of_a_pattern_takes_what_fits(pattern: str, name: str, fits: bool) -> None:
    assert (pattern_of(pattern).fullmatch(name) is not None) == fits


def test_only_other_brokers_consume_where_no_client_does() -> None:
    consumers = {
        "1": Consumer("A", "queue://ORDERS", "bridge", True),
        "2": Consumer("A", "queue://BOTH", "bridge", True),
        "3": Consumer("A", "queue://B*TH,queue://BOTH", "client", False),
        "4": Consumer("B", "queue://ORDERS", "client", False),
    }
    places = [("A", "queue://ORDERS"), ("A", "queue://BOTH"), ("B", "queue://ORDERS"), ("A", "queue://NOBODY")]
    assert network_only(consumers, places) == {("A", "queue://ORDERS")}


@pytest.mark.parametrize(
    ("seconds", "step_s"), [(0, 1), (119, 1), (121, 2), (3600, 30), (86_400, 1800), (10**9, 31_536_000)]
)
def test_a_chart_has_no_more_steps_than_can_be_seen(seconds: int, step_s: int) -> None:
    assert step_of(BEGIN, BEGIN + timedelta(seconds=seconds)) == step_s
    assert seconds / step_s <= MAX_STEPS


@pytest.mark.parametrize(("seconds", "text"), [(1, "1 s"), (60, "1 min"), (90, "90 s"), (3600, "1 h"), (86_400, "1 d")])
def test_lengths_of_time(seconds: int, text: str) -> None:
    assert span_text(seconds) == text
