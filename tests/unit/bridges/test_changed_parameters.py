"""Parameters of a bridge, read and changed while it exists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spanwire.bridges.files.bridge_file import read_bridges
from spanwire.bridges.files.changed_parameters import CHANGEABLE, HIDDEN, parameters_of, with_parameters
from spanwire.bridges.model.definition import BridgeDefinition
from spanwire.bridges.model.steps import AddDuplicateId, AppendMessageId, ClearReplyTo, Convert, DropTemporaryReplyTo
from spanwire.management.beans.operations import BRIDGE_PARAMETERS
from spanwire.model.errors import ConfigurationError
from spanwire.routes.readers.placeholders import Placeholders

FILE = """
[bridges.b]
sourceConnectionFactory = "tcp://berlin:61616"
sourceDestination = "queue://ORDERS"
sourceUsername = "anna"
sourcePassword = "canary"
targetConnectionFactory = "tcp://paris:61616"
targetDestination = "queue://orders"
"""
ALL = """selector = "a = 1"
failureRetryInterval = 2000
maxRetries = 7
qualityOfServiceMode = "DUPLICATES_OK"
maxBatchSize = 10
maxBatchTime = 50
subscriptionName = "s"
clientID = "c"
addMessageIDInHeader = true
messageIDHeader = "IDS"
failoverTimeout = 60000
duplicateDetection = true
"""


def bridge(more: str = "") -> BridgeDefinition:
    (definition,) = read_bridges((FILE + more).encode(), "bridges.toml", Placeholders({}, {}))
    assert isinstance(definition, BridgeDefinition)
    return definition


def test_each_parameter_of_a_definition_is_shown_but_the_password() -> None:
    assert parameters_of(bridge(ALL)) == {
        "sourceConnectionFactory": "tcp://berlin:61616",
        "sourceDestination": "queue://ORDERS",
        "targetConnectionFactory": "tcp://paris:61616",
        "targetDestination": "queue://orders",
        "sourceUsername": "anna",
        "sourcePassword": HIDDEN,
        "targetUsername": None,
        "targetPassword": None,
        "selector": "a = 1",
        "failureRetryInterval": 2000,
        "maxRetries": 7,
        "qualityOfServiceMode": "DUPLICATES_OK",
        "maxBatchSize": 10,
        "maxBatchTime": 50,
        "subscriptionName": "s",
        "clientID": "c",
        "addMessageIDInHeader": True,
        "messageIDHeader": "IDS",
        "failoverTimeout": 60000,
        "duplicateDetection": True,
    }


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("sourceUsername", "otto"), ("sourcePassword", "x"), ("targetUsername", "u"), ("targetPassword", "y"),
        ("selector", "b = 2"), ("failureRetryInterval", 5), ("maxRetries", 3),
        ("qualityOfServiceMode", "AT_MOST_ONCE"), ("maxBatchSize", 4), ("maxBatchTime", -1),
        ("subscriptionName", "s"), ("clientID", "c"), ("addMessageIDInHeader", True), ("failoverTimeout", 9),
        ("duplicateDetection", True),
    ],
)  # fmt: skip
def test_a_changed_parameter_is_the_one_of_a_file_with_it(word: str, value: str | int | bool) -> None:
    written = f'"{value}"' if isinstance(value, str) else str(value).lower()
    lines = [line for line in FILE.splitlines() if not line.startswith(f"{word} ")]
    (expected,) = read_bridges("\n".join([*lines, f"{word} = {written}"]).encode(), "f", Placeholders({}, {}))
    assert with_parameters(bridge(), {word: value}) == expected
    assert with_parameters(bridge(), {word: str(value)}) == expected  # as beans and the command line write it


def test_all_parameters_of_a_definition_survive_a_change_of_one() -> None:
    expected = bridge(ALL.replace("maxBatchSize = 10", "maxBatchSize = 11"))
    assert with_parameters(bridge(ALL), {"maxBatchSize": 11}) == expected


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_parameter_without_a_value_is_taken_away(nothing: str | None) -> None:
    changes = dict.fromkeys(("selector", "subscriptionName", "clientID", "sourcePassword", "maxBatchTime"), nothing)
    found = parameters_of(with_parameters(bridge(ALL), changes))
    assert all(found[word] is None for word in changes)
    assert found["sourceUsername"] == "anna"


def test_the_header_of_ids_goes_with_the_list_of_ids() -> None:
    found = with_parameters(bridge(ALL), {"addMessageIDInHeader": "false"})
    assert not any(isinstance(step, AppendMessageId) for step in found.steps)


def test_steps_of_a_native_bridge_stay_in_their_order() -> None:
    native = replace(bridge(), steps=(ClearReplyTo(), Convert("mine")))
    found = with_parameters(native, {"duplicateDetection": True, "addMessageIDInHeader": True})
    assert found.steps == (AppendMessageId(), AddDuplicateId("b"), ClearReplyTo(), Convert("mine"))


def test_a_bridge_that_leaves_its_broker_drops_temporary_reply_addresses() -> None:
    inside = bridge().source.factory
    local = replace(bridge(), target=replace(bridge().target, factory=inside), steps=())
    assert with_parameters(local, {"maxRetries": 1}).steps == ()
    assert with_parameters(local, {"targetUsername": "otto"}).steps == (DropTemporaryReplyTo(),)


def test_pauses_that_a_reconnection_policy_lets_grow_stay() -> None:
    growing = replace(bridge(), retry=replace(bridge().retry, multiplier=2.0, longest_ms=9_000))
    retry = with_parameters(growing, {"maxRetries": 5}).retry
    assert (retry.multiplier, retry.longest_ms, retry.max_retries) == (2.0, 9_000, 5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"maxBatchSize": 0}, "bridge b: maxBatchSize is 0; it must lie between 1 and 100000"),
        ({"maxRetries": "many"}, "bridge b: maxRetries is 'many', not a whole number"),
        ({"maxBatchSise": 1}, "bridge b: there is no parameter 'maxBatchSise'; did you mean maxBatchSize?"),
        ({"sourceDestination": "queue://X"}, "cannot be changed while the bridge exists; write it into the bridge's"),
        ({"qualityOfServiceMode": "TWICE"}, "there is no qualityOfServiceMode 'TWICE'"),
        ({"duplicateDetection": True, "qualityOfServiceMode": "AT_MOST_ONCE"}, "duplicateDetection is for DUPLICATES"),
        ({"selector": ["a"]}, "bridge b: selector must be a text, a number, true, false or null"),
        ({"selector": "a ="}, "selector: expected a value but found end of text at column 4"),
        ({"messageIDHeader": "IDS"}, "messageIDHeader is for addMessageIDInHeader = true"),
    ],
)
def test_a_wrong_change_is_refused_with_the_reason(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        with_parameters(bridge(), changes)
    assert reason in str(caught.value)
    assert ":1:" not in str(caught.value)


def test_beans_write_exactly_the_changeable_parameters() -> None:
    assert set(BRIDGE_PARAMETERS) == set(CHANGEABLE)


@pytest.mark.parametrize("changes", [{"sourcePassword": None}, {"sourceUsername": None, "sourcePassword": ""}])
def test_s38_a_key_for_sqs_cannot_be_removed_so_that_the_rights_of_the_machine_would_count(
    changes: dict[str, object],
) -> None:
    one = bridge()
    factory = replace(one.source.factory, provider="sqs", url="sqs://host?region=eu-central-1")
    with pytest.raises(ConfigurationError, match="bridge b: sourcePassword cannot be removed at SQS"):
        with_parameters(replace(one, source=replace(one.source, factory=factory)), changes)
