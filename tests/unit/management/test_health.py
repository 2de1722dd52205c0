"""The checks of a broker's health."""

from __future__ import annotations

import pytest

from spanwire.management.health import Level, broker_checks, queue_check, worst
from tests.support.fake_broker_link import LINK, SUMMARY, destination


def changed(part: str, **values: object) -> dict[str, object]:
    before = SUMMARY[part]
    assert isinstance(before, dict)
    return {**SUMMARY, part: {**before, **values}}


def levels(status: dict[str, object]) -> dict[str, Level]:
    return {check.name: check.level for check in broker_checks(status)}


def test_a_broker_with_room_and_links_is_well() -> None:
    assert worst(broker_checks(SUMMARY)) is Level.OK


@pytest.mark.parametrize(
    ("part", "values", "check", "level"),
    [
        ("usage", {"memory_percent": 69}, "memory", Level.OK),
        ("usage", {"memory_percent": 70}, "memory", Level.WARNING),
        ("usage", {"memory_percent": 95}, "memory", Level.CRITICAL),
        ("usage", {"store_percent": 80}, "store", Level.WARNING),
        ("usage", {"store_percent": 95}, "store", Level.CRITICAL),
        ("usage", {"disk_full": True}, "disk", Level.CRITICAL),
        ("statistics", {"parked_sends": 1}, "sends", Level.WARNING),
    ],
)
def test_a_figure_beyond_its_threshold_is_a_fault(
    part: str, values: dict[str, object], check: str, level: Level
) -> None:
    checks = levels(changed(part, **values))
    assert checks[check] is level
    assert all(other is Level.OK for name, other in checks.items() if name != check)


@pytest.mark.parametrize(("state", "level"), [("waiting", Level.WARNING), ("stopped", Level.OK)])
def test_a_link_that_is_down_is_a_fault_unless_an_operator_stopped_it(state: str, level: Level) -> None:
    link = LINK
    assert levels({**SUMMARY, "network_connectors": [{**link, "state": state}]})["links"] is level


def test_a_broker_without_connectors_is_a_fault() -> None:
    assert levels({**SUMMARY, "connectors": []})["connectors"] is Level.WARNING


def test_the_deepest_queue_is_named_first() -> None:
    rows = [destination("queue://A", 11), destination("queue://B", 12), destination("queue://C", 10)]
    check = queue_check(rows, 10)
    assert (check.level, check.text) == (
        Level.WARNING,
        "2 queues have more than 10 messages: queue://B has 12, queue://A has 11",
    )
    assert queue_check(rows, 12).level is Level.OK


@pytest.mark.parametrize(
    ("states", "level", "words"),
    [
        (["running", "paused"], Level.OK, "2 at work or paused"),
        (["running", "retrying"], Level.WARNING, "1 of 2 forward nothing: b1 is retrying"),
        (["failed", "retrying"], Level.CRITICAL, "1 of 2 have used up all retries: b0"),
    ],
)
def test_bridges_that_forward_nothing_are_told(states: list[str], level: Level, words: str) -> None:
    rows = [{"name": f"b{n}", "state": state, "gave_up": state == "failed"} for n, state in enumerate(states)]
    (check,) = [check for check in broker_checks({"bridges": rows}) if check.name == "bridges"]
    assert (check.level, check.text) == (level, words)
    assert not [check for check in broker_checks({"bridges": []}) if check.name == "bridges"]
