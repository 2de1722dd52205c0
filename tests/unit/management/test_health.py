"""The checks of a broker's health."""

from __future__ import annotations

import pytest

from spanwire.management.health import (
    DAY_S,
    Level,
    Thresholds,
    age_check,
    broker_checks,
    dead_letter_check,
    queue_check,
    worst,
)
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


@pytest.mark.parametrize(
    ("days", "level", "text"),
    [
        (31, Level.OK, "31 days left at tls"),
        (29, Level.WARNING, "29 days left at tls"),
        (0, Level.WARNING, "0 days left at tls"),
        (-1, Level.CRITICAL, "expired: tls"),
    ],
)
def test_a_certificate_near_its_end_is_a_fault(days: int, level: Level, text: str) -> None:
    now_s = 1_800_000_000
    connectors = [
        {"name": "plain", "certificate_expires_s": None},
        {"name": "later", "certificate_expires_s": now_s + 90 * DAY_S},
        {"name": "tls", "certificate_expires_s": now_s + days * DAY_S + 5},
    ]
    status = {**SUMMARY, "connectors": connectors, "time_ms": now_s * 1000}
    assert [(one.level, one.text) for one in broker_checks(status) if one.name == "certificates"] == [(level, text)]
    assert "certificates" not in levels(SUMMARY)


def test_thresholds_replace_those_that_are_built_in() -> None:
    status = changed("usage", memory_percent=50, store_percent=50)
    assert worst(broker_checks(status, Thresholds(memory=51, store=51))) is Level.OK
    strict = {check.name for check in broker_checks(status, Thresholds(memory=50, store=50)) if check.level}
    assert strict == {"memory", "store"}


def test_the_oldest_message_is_named_first() -> None:
    ages = [{"destination": f"queue://{name}", "oldest_ms": time} for name, time in (("A", 9_000), ("B", 1_000))]
    assert age_check(ages, 11_000, 10).level is Level.OK
    check = age_check(ages, 11_001, 2)
    assert (check.level, check.text) == (
        Level.WARNING,
        "2 queues have older messages than 2 s: queue://B since 10 s, queue://A since 2 s",
    )


def test_dead_letters_are_added_up_over_their_queues() -> None:
    rows = [
        {**destination("queue://DLQ.A", 2), "dead_letters": True},
        {**destination("queue://DLQ.B", 3), "dead_letters": True},
        destination("queue://A", 9),
    ]
    assert dead_letter_check(rows, 5).level is Level.OK
    check = dead_letter_check(rows, 4)
    assert (check.level, check.text) == (Level.WARNING, "5 dead letters, queue://DLQ.B has 3, queue://DLQ.A has 2")


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
