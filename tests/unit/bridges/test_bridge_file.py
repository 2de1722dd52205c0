"""Files of bridges: parameters, refusals and diagrams."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spanwire.bridges.files.bridge_file import MAX_BRIDGES, read_bridges
from spanwire.bridges.files.definition_json import definition_of, plain_definition
from spanwire.bridges.files.parameters import REFUSED, WORDS
from spanwire.bridges.files.toml_file import MAX_FILE_BYTES
from spanwire.bridges.model.definition import BatchLimits, BridgeDefinition, Quality, RetryPolicy
from spanwire.bridges.model.diagram import diagram
from spanwire.bridges.model.steps import AddDuplicateId, AppendMessageId, DropTemporaryReplyTo
from spanwire.bridges.running.process import check_bridge
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.routes.readers.placeholders import Placeholders

NEAR = '[connectionFactories.near]\nurl = "tcp://near:61616"\n'
SIDES = {
    "sourceConnectionFactory": '"near"',
    "sourceDestination": '"queue://A"',
    "targetConnectionFactory": '"tcp://far:61616"',
    "targetDestination": '"queue://B"',
}


def bridge_text(head: str = NEAR, **words: str) -> str:
    lines = [f"{name} = {value}" for name, value in {**SIDES, **words}.items() if value]
    return "\n".join([head, "[bridges.orders]", *lines, ""])


def read(text: str, environment: dict[str, str] | None = None) -> list[BridgeDefinition]:
    return read_bridges(text.encode(), "b.toml", Placeholders({}, environment or {}))


def one(text: str) -> BridgeDefinition:
    (definition,) = read(text)
    check_bridge(definition)
    return definition


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        one(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_parameters_of_the_jms_bridge_make_a_definition() -> None:
    definition = one(
        bridge_text(
            sourceDestination='"topic://PRICES"',
            sourceUsername='"in"',
            sourcePassword='"secret"',
            selector="\"region = 'us'\"",
            failureRetryInterval="2000",
            maxRetries="3",
            qualityOfServiceMode='"AT_MOST_ONCE"',
            maxBatchSize="50",
            maxBatchTime="5000",
            subscriptionName='"bridge"',
            clientID='"paris"',
            addMessageIDInHeader="true",
        )
    )
    source = definition.source
    assert (source.factory.url, source.factory.user_name) == ("tcp://near:61616", "in")
    assert source.factory.password == Secret("secret")
    assert str(source.destination) == "topic://PRICES"
    assert (source.selector, source.subscription, source.client_id) == ("region = 'us'", "bridge", "paris")
    assert (definition.target.factory.url, str(definition.target.destination)) == ("tcp://far:61616", "queue://B")
    assert definition.quality is Quality.AT_MOST_ONCE
    assert definition.batch == BatchLimits(50, 5000)
    assert definition.retry == RetryPolicy(3, 2000)
    assert definition.steps == (AppendMessageId(), DropTemporaryReplyTo())


def test_a_bridge_without_more_words_has_the_defaults() -> None:
    definition = one(bridge_text())
    assert definition.quality is Quality.DUPLICATES_OK
    assert definition.batch == BatchLimits(500, None)
    assert definition.retry == RetryPolicy(-1, 1000)
    assert definition.steps == (DropTemporaryReplyTo(),)


def test_a_target_may_detect_duplicates_of_a_bridge_that_may_send_them() -> None:
    definition = one(bridge_text(duplicateDetection="true"))
    assert definition.steps == (AddDuplicateId(definition.name), DropTemporaryReplyTo())
    assert "add _AMQ_DUPL_ID" in diagram(definition)
    assert definition_of(plain_definition(definition)) == definition
    assert one(bridge_text(duplicateDetection="false")).steps == (DropTemporaryReplyTo(),)
    for words, fault in (
        ({"duplicateDetection": '"maybe"'}, "neither true nor false"),
        (
            {"duplicateDetection": "true", "qualityOfServiceMode": '"AT_MOST_ONCE"'},
            "duplicateDetection is for DUPLICATES_OK",
        ),
    ):
        with pytest.raises(ConfigurationError, match=fault):
            one(bridge_text(**words))


def test_a_bridge_within_one_broker_keeps_temporary_reply_destinations() -> None:
    definition = one(bridge_text(targetConnectionFactory='"near"', qualityOfServiceMode='"ONCE_AND_ONLY_ONCE"'))
    assert definition.steps == ()


def test_a_password_comes_from_the_environment_and_is_never_shown() -> None:
    head = NEAR + 'userName = "u"\npassword = "{{env:NEAR_PASSWORD}}"\n'
    (definition,) = read(bridge_text(head), {"NEAR_PASSWORD": "hunter2"})
    assert definition.source.factory.password == Secret("hunter2")
    assert "hunter2" not in repr(definition) + diagram(definition)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"qualityOfServiceMode": '"EXACTLY_ONCE"'}, "there is no qualityOfServiceMode 'EXACTLY_ONCE'"),
        ({"maxBatchSize": "0"}, "maxBatchSize is 0; it must lie between 1 and 100000"),
        ({"maxBatchSize": '"many"'}, "maxBatchSize is 'many', not a whole number"),
        ({"maxBatchTime": "0"}, "maxBatchTime is 0; it must be -1 or at least 1"),
        (
            {"failureRetryInterval": "0"},
            "failureRetryInterval is 0; it must be at least 1, or -1 with maxRetries -1 or 0 for pauses that",
        ),
        ({"maxRetries": "-2"}, "maxRetries is -2; it must lie between -1 and 1000000"),
        ({"addMessageIDInHeader": '"yes"'}, "addMessageIDInHeader is 'yes', neither true nor false"),
        ({"sourceConnectionFactory": '"nera"'}, "there is no connection factory 'nera'; did you mean near?"),
        ({"sourceDestination": '"/queue/A"'}, "sourceDestination: "),
        ({"sourceDestination": ""}, "the bridge orders needs sourceDestination"),
        ({"targetDestination": '"temp-queue://X"'}, "temp-queue://X is a temporary destination"),
        ({"selector": '"a = = 3"'}, "selector: expected a value but found '=' at column 5 of the selector \"a = = 3\""),
        ({"maxbatchsize": "5"}, "there is no parameter of a bridge 'maxbatchsize'; did you mean maxBatchSize?"),
        ({"targetConnectionFactory": '"vm://local"'}, "vm: is a broker inside another process; write the address"),
    ],
)
def test_a_wrong_parameter_is_refused_with_its_line(words: dict[str, str], expected: str) -> None:
    assert re.match(r"b\.toml:\d+: ", refusal(bridge_text(**words)))
    assert expected in refusal(bridge_text(**words))


@pytest.mark.parametrize(("word", "value"), [("maxBatchSize", "0"), ("selector", '"a ="')])
def test_an_error_has_the_line_of_the_parameter(word: str, value: str) -> None:
    text = bridge_text(**{word: value})
    line = text.splitlines().index(f"{word} = {value}") + 1
    assert refusal(text).startswith(f"b.toml:{line}: ")


@pytest.mark.parametrize(
    "selector",
    [
        "XPATH '/order'",
        "a = 1 AND xpath '//x'",
        "INLIST(SPLIT('a,b', ','), c)",
        "a <> NULL",
        " OR ".join(f"a = {number}" for number in range(600)),
        "hyphenated_props:a-b = 1",
    ],
)
def test_a_selector_in_the_language_of_another_broker_is_left_to_that_broker(selector: str) -> None:
    assert one(bridge_text(selector=f'"{selector}"')).source.selector == selector


@pytest.mark.parametrize("word", REFUSED)
def test_a_parameter_of_java_servers_is_refused_with_advice(word: str) -> None:
    assert f"{word} is not supported: {REFUSED[word]}" in refusal(bridge_text(**{word: '"x"'}))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            {
                "qualityOfServiceMode": '"ONCE_AND_ONLY_ONCE"',
                "targetConnectionFactory": '"near"',
                "sourceDestination": '"topic://T"',
            },
            "bridge orders: ONCE_AND_ONLY_ONCE from topic://T needs a durable subscription",
        ),
        ({"subscriptionName": '"s"', "clientID": '"c"'}, "bridge orders: subscriptionName is for topics"),
        ({"subscriptionName": '"s"', "sourceDestination": '"topic://T"'}, "set clientID beside subscriptionName"),
        ({"targetDestination": '"queue://A.>"'}, "queue://A.> is a pattern, and a target is one queue or topic"),
    ],
)
def test_a_bridge_that_cannot_work_is_refused_by_name(words: dict[str, str], expected: str) -> None:
    assert expected in refusal(bridge_text(**words))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "b.toml:1: there is no bridge; write a table [bridges.NAME]"),
        ("[brigdes.a]\n", "b.toml:1: there is no table 'brigdes'; did you mean bridges?"),
        ("[bridges.'a b']\n", "b.toml:1: the name 'a b' may hold letters"),
        ("[bridges.a\n", "b.toml:1: the TOML is broken"),
        ("[connectionFactories.near]\n", "the connection factory near needs url"),
        ('[connectionFactories.near]\nurl = "tcp://h:1"\nprovider = "kafak"\n', "there is no provider 'kafak'"),
        (
            '[connectionFactories.near]\nurl = "ssl://h:1"\nkeyStorePassword = "x"\n',
            "b.toml:3: keyStorePassword needs keyStore",
        ),
    ],
)
def test_a_file_without_bridges_is_refused(text: str, expected: str) -> None:
    assert expected in refusal(text)


def test_a_file_of_too_many_bridges_is_refused() -> None:
    words = "".join(f"{name} = {value}\n" for name, value in SIDES.items())
    text = NEAR + "".join(f"[bridges.b{number}]\n{words}" for number in range(MAX_BRIDGES + 1))
    assert refusal(text).endswith("there are more than 1000 bridges; use several files")


def test_a_file_that_is_too_large_is_refused() -> None:
    assert refusal("#" * (MAX_FILE_BYTES + 1)).startswith("b.toml: is larger than 1048576 bytes")


def test_a_file_that_is_nested_too_deep_is_refused() -> None:
    assert "more than 8 tables stand inside each other" in refusal(f"[{'.'.join('bridges' for _ in range(10))}]\n")


def test_stores_without_tls_are_refused() -> None:
    head = NEAR + 'trustStore = "ca.pem"\n'
    assert refusal(bridge_text(head)) == (
        "b.toml:5: bridge orders: tcp://near:61616 has no TLS, so it needs no store; write ssl://host:port"
    )


def test_the_diagram_shows_source_steps_target_and_order() -> None:
    definition = one(bridge_text(selector='"n > 1"', addMessageIDInHeader="true", maxBatchTime="50", maxRetries="0"))
    assert diagram(definition) == (
        "bridge orders\n"
        "  queue://A at tcp://near:61616\n"
        "    |  only n > 1\n"
        "    |  append JMSMessageID to ACTIVEMQ_BRIDGE_MSG_ID_LIST\n"
        "    |  remove a temporary JMSReplyTo\n"
        "    v\n"
        "  queue://B at tcp://far:61616\n"
        "  DUPLICATES_OK: send to the target, then acknowledge at the source\n"
        "  batch: 500 messages, or fewer after 50 ms without a new one\n"
        "  after a failure: no retry\n"
    )


def test_the_reference_names_every_parameter_and_refusal() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/bridge-parameters.md").read_text("utf-8")
    for word in (*WORDS, *REFUSED):
        assert f"`{word}`" in page, word


def test_the_failover_timeout_and_the_property_of_the_ids_are_parameters() -> None:
    definition = one(bridge_text(failoverTimeout="60000", addMessageIDInHeader="true", messageIDHeader='"passed"'))
    assert definition.retry.failover_ms == 60_000
    assert definition.steps[0] == AppendMessageId("passed")
    assert "append JMSMessageID to passed" in diagram(definition)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"failoverTimeout": "-1"}, "failoverTimeout is -1; it must lie between 0 and 3600000"),
        ({"messageIDHeader": '"passed"'}, "messageIDHeader is for addMessageIDInHeader = true"),
        ({"addMessageIDInHeader": "true", "messageIDHeader": '"JMSX"'}, "messageIDHeader is 'JMSX'"),
        ({"addMessageIDInHeader": "true", "messageIDHeader": '"a\'b"'}, "messageIDHeader is"),
    ],
)
def test_a_wrong_failover_timeout_or_property_is_refused(words: dict[str, str], told: str) -> None:
    assert told in refusal(bridge_text(**words))
