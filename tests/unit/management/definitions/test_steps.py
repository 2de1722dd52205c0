"""Differences become steps; what could lose messages or cannot be done at run time has an obstacle."""

from __future__ import annotations

import pytest

from spanwire.management.definitions.differences import compared, differences
from spanwire.management.definitions.document import Document, from_rows
from spanwire.management.definitions.steps import Step, steps
from spanwire.management.definitions.xml_document import to_xml

Row = dict[str, object]


def document(*rows: Row) -> Document:
    return from_rows("b", rows)


def planned(before: list[Row], after: list[Row], replaces: bool = False) -> list[Step]:
    return steps(differences(document(*before), document(*after)), {"user": "u"}, replaces=replaces)


QUEUE: Row = {"kind": "queue", "name": "A"}
TOPIC: Row = {"kind": "topic", "name": "T"}
DURABLE: Row = {"kind": "subscription", "client_id": "c", "name": "s", "topic": "topic://T", "selector": "x > 1"}
CONNECTOR: Row = {"kind": "connector", "name": "o", "uri": "tcp://127.0.0.1:0", "settings": {"autoStart": "false"}}
LINK: Row = {
    "kind": "network_connector",
    "name": "nc",
    "uri": "static:(tcp://b:61616)",
    "settings": {"duplex": "true"},
    "excludedDestinations": ["queue://X"],
}
NAMED = {"destinations": ["queue://A"]}


@pytest.mark.parametrize(
    ("before", "after", "text", "requests"),
    [
        ([], [QUEUE], "add queue A", [("create", NAMED)]),
        ([], [TOPIC], "add topic T", [("create", {"destinations": ["topic://T"]})]),
        ([QUEUE], [{**QUEUE, "paused": True}], "change queue A: paused", [("pause", NAMED)]),
        ([{**QUEUE, "paused": True}], [QUEUE], "change queue A: paused", [("resume", NAMED)]),
        (
            [QUEUE],
            [{**QUEUE, "memory_limit_bytes": 9, "statistics_enabled": True}],
            "change queue A: memory_limit_bytes, statistics_enabled",
            [("settings", {**NAMED, "memory_limit_bytes": 9}), ("statistics", {**NAMED, "enabled": True})],
        ),
        (
            [TOPIC],
            [{**TOPIC, "audits_copies": False}],
            "change topic T: audits_copies",
            [("settings", {"destinations": ["topic://T"], "audits_copies": False})],
        ),
        (
            [],
            [DURABLE],
            "add subscription c s",
            [
                (
                    "create-subscription",
                    {"client_id": "c", "name": "s", "topic": "topic://T", "selector": "x > 1", "user": "u"},
                )
            ],
        ),
        (
            [{"kind": "limits", "memory_limit_bytes": 1, "store_limit_bytes": 2}],
            [{"kind": "limits", "memory_limit_bytes": 5}],
            "change limits: memory_limit_bytes",
            [("limits", {"memory_limit_bytes": 5})],
        ),
        (
            [],
            [CONNECTOR],
            "add connector o",
            [("connector-add", {"uri": "tcp://127.0.0.1:0", "name": "o", "settings": {"autoStart": "false"}})],
        ),
        (
            [CONNECTOR],
            [{**CONNECTOR, "started": False}],
            "change connector o: started",
            [("connector-stop", {"connectors": ["o"]})],
        ),
        (
            [{**LINK, "started": False}],
            [LINK],
            "change network connector nc: started",
            [("network-start", {"connectors": ["nc"]})],
        ),
        (
            [],
            [{**LINK, "started": False}],
            "add network connector nc",
            [
                (
                    "network-add",
                    {
                        "uri": "static:(tcp://b:61616)",
                        "name": "nc",
                        "settings": {"duplex": "true", "excludedDestinations": ["queue://X"]},
                    },
                ),
                ("network-stop", {"connectors": ["nc"]}),
            ],
        ),
        (
            [{"kind": "bridge", "name": "x"}],
            [{"kind": "bridge", "name": "x", "paused": True}],
            "change bridge x: paused",
            [("bridge-pause", {"bridges": ["x"]})],
        ),
        (
            [{"kind": "strategy", "name": "queue://>", "max_slow_count": 3}],
            [{"kind": "strategy", "name": "queue://>", "max_slow_count": 4}],
            "change strategy queue://>: max_slow_count",
            [("strategy-change", {"name": "queue://>", "max_slow_count": 4})],
        ),
        (
            [],
            [{"kind": "logger", "name": "spanwire.network", "level": "debug"}],
            "add logger spanwire.network",
            [("log-level", {"logger": "spanwire.network", "level": "debug"})],
        ),
    ],
)
def test_a_difference_becomes_requests(before: list[Row], after: list[Row], text: str, requests: object) -> None:
    assert planned(before, after) == [Step(text, tuple(requests))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ([DURABLE], [{**DURABLE, "selector": ""}], "spanwire subscription remove s --client-id c"),
        ([], [{**DURABLE, "no_local": True}], "only its own client can ask for"),
        ([CONNECTOR], [{**CONNECTOR, "uri": "tcp://127.0.0.1:1"}], "--replace"),
        ([LINK], [{**LINK, "settings": {}}], "--replace"),
        ([], [{**LINK, "left_out": ["password"]}], "password left out of the document"),
        ([], [{**LINK, "left_out": ["sslContext"]}], "only a configuration can say it"),
        ([], [{"kind": "bridge", "name": "x"}], "create it with spanwire bridge create"),
        ([], [{"kind": "strategy", "name": "queue://>"}], "policy entry"),
    ],
)
def test_what_cannot_be_done_has_an_obstacle_and_no_request(before: list[Row], after: list[Row], part: str) -> None:
    (step,) = planned(before, after)
    assert part in step.obstacle and step.requests == ()


def test_what_the_broker_has_beyond_the_document_stays() -> None:
    assert planned([QUEUE, TOPIC, DURABLE, CONNECTOR], []) == []


def test_a_connector_with_another_address_is_replaced_where_that_is_asked_for() -> None:
    (step,) = planned([CONNECTOR], [{**CONNECTOR, "uri": "tcp://127.0.0.1:1", "settings": {}}], replaces=True)
    assert [command for command, _ in step.requests] == ["connector-remove", "connector-add"]


def test_a_replaced_connector_can_be_put_back_as_it_was_with_the_secrets_of_the_document() -> None:
    secret: Row = {**LINK, "left_out": ["password"], "started": False}
    filled: Row = {**LINK, "uri": "static:(tcp://c:1)", "settings": {"password": "s3cret"}, "left_out": ["password"]}
    (step,) = planned([secret], [filled], replaces=True)
    settings = {"duplex": "true", "password": "s3cret", "excludedDestinations": ["queue://X"]}
    assert step.undo == (
        ("network-add", {"uri": LINK["uri"], "name": "nc", "settings": settings}),
        ("network-stop", {"connectors": ["nc"]}),
    )
    assert planned([], [filled])[0].undo == ()


def test_a_connector_whose_secrets_nobody_knows_is_not_replaced() -> None:
    new: Row = {**LINK, "uri": "static:(tcp://c:1)"}
    (step,) = planned([{**LINK, "left_out": ["password"]}], [new], replaces=True)
    assert "password of the present one is not in the document, so it could not be put back" in step.obstacle
    assert step.requests == ()


def test_a_secret_that_somebody_filled_in_is_used_and_never_compared() -> None:
    filled = {**LINK, "settings": {"duplex": "true", "password": "s3cret"}, "left_out": ["password"]}
    (step,) = planned([], [filled])
    assert step.requests[0][1]["settings"] == {
        "duplex": "true", "password": "s3cret", "excludedDestinations": ["queue://X"],
    }  # fmt: skip
    assert not differences(document({**LINK, "left_out": ["password"]}), document(filled))


def test_loggers_of_a_broker_are_named_and_no_difference_from_a_configuration() -> None:
    usual: dict[str, object] = {"kind": "logger", "name": "root"}
    loggers = document(QUEUE, usual, {"kind": "logger", "name": "spanwire.network", "level": "debug"})
    assert compared(document(QUEUE), loggers) == ([], ["logger spanwire.network: debug"])
    found, not_compared = compared(document(QUEUE, usual), loggers)
    assert (len(found), not_compared) == (1, [])


def test_lines_of_a_comparison_show_both_values() -> None:
    before, after = document(QUEUE, TOPIC), document({**QUEUE, "paused": True}, DURABLE)
    lines = [line for difference in differences(before, after) for line in difference.lines()]
    assert lines == ["~ queue A: paused: False -> True", "- topic T", "+ subscription c s"]


def test_things_are_made_before_what_needs_them() -> None:
    texts = [step.text for step in planned([], [LINK, CONNECTOR, DURABLE, TOPIC, QUEUE])]
    assert texts == [
        "add queue A",
        "add topic T",
        "add subscription c s",
        "add connector o",
        "add network connector nc",
    ]


def test_xml_names_what_it_cannot_say() -> None:
    text, unsaid = to_xml(
        document({**QUEUE, "paused": True}, DURABLE, CONNECTOR, {**LINK, "left_out": ["password"]}, TOPIC)
    )
    assert '<queue physicalName="A"/>' in text and "<excludedDestinations>" in text
    assert unsaid == [
        "1 subscription", "queue A: paused", "connector o: started", "network connector nc: password",
    ]  # fmt: skip
