"""The JSON form of messages, in both directions."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.client import connect
from spanwire.client.messages.message import Message
from spanwire.client.messages.typed_values import Byte, Double, Float, Int, Long, Short
from spanwire.web.messages.handlers import answer
from spanwire.web.messages.message_json import MAX_FLOAT, message_json, plain_json, read_message
from spanwire.web.problems import ProblemError
from spanwire.web.rest.requests import BadRequestError


def sent(content: dict[str, Any]) -> Message:
    """The message that a consumer receives after a message in JSON has been sent."""
    new = read_message(content)
    with connect("vm://json?broker.persistent=false") as connection, connection.session() as session:
        session.create_producer("queue://A").send(
            new.body,
            new.properties,
            message_type=new.message_type,
            correlation_id=new.correlation_id,
            reply_to=new.reply_to,
            persistent=False,
            priority=new.priority,
            group_id=new.group,
        )
        message = session.create_consumer("queue://A").receive(30)
        assert message is not None
        return message


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"body": "text"}, "text"),
        ({"body": "", "kind": "text"}, "text"),
        ({"body": base64.b64encode(b"\xff\x00").decode(), "kind": "bytes"}, "bytes"),
        ({"body": {"a": 1, "b": [True, None, "x"], "c": {"d": 2.5}}}, "map"),
        ({"body": [1, "two", 3.5, False]}, "stream"),
        ({}, "message"),
    ],
)
def test_a_body_comes_back_as_it_was_sent(content: dict[str, Any], kind: str) -> None:
    answer = message_json(sent(content))
    assert (answer["kind"], answer["body"]) == (kind, content.get("body"))


PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def whole(kind: str, bits: int) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({"type": st.just(kind), "value": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)})


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
TYPED = st.one_of(
    whole("byte", 8),
    whole("short", 16),
    whole("long", 32),
    st.fixed_dictionaries(
        {"type": st.just("float"), "value": st.floats(width=32, allow_nan=False, allow_infinity=False)}
    ),
    st.fixed_dictionaries({"type": st.just("double"), "value": st.sampled_from(["NaN", "Infinity", "-Infinity"])}),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(st.from_regex(r"p[a-z]{0,5}", fullmatch=True), PLAIN | TEXTS | TYPED, max_size=5))
def test_properties_come_back_with_value_and_type(properties: dict[str, Any]) -> None:
    got = json.loads(bytes(answer(message_json(sent({"body": "", "properties": properties}))).body))
    assert got["properties"] == properties


def test_headers_come_back() -> None:
    headers = {"correlation_id": "c-1", "reply_to": "topic://R", "type": "order", "group": "g", "priority": 9}
    got = message_json(sent({"body": "x", **headers}))
    assert {name: got[name] for name in headers} == headers
    assert (got["persistent"], got["redelivery_count"], got["group_sequence"]) == (False, 0, 0)
    assert "expiration" not in got


def test_types_of_properties_are_those_of_jms() -> None:
    kinds = {"a": "byte", "b": "short", "c": "int", "d": "long", "e": "float", "f": "double"}
    message = read_message({"properties": {name: {"type": kind, "value": 1} for name, kind in kinds.items()}})
    assert list(message.properties.values()) == [Byte(1), Short(1), Int(1), Long(1), Float(1), Double(1)]
    plain = {"n": 2**40, "s": "x", "t": True, "z": None}
    assert read_message({"properties": plain}).properties == plain


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (["body"], "JSON object"),
        ({"body": 1}, "does not fit"),
        ({"body": "x", "kind": "map"}, "does not fit"),
        ({"body": "x", "kind": "message"}, "does not fit"),
        ({"body": "é", "kind": "bytes"}, "base64"),
        ({"properties": {"a": {"type": "byte", "value": 128}}}, "8 bits"),
        ({"properties": {"a": 2**63}}, "64 bits"),
        ({"properties": {"a": {"type": "float", "value": MAX_FLOAT}}}, "float"),
        ({"properties": {"a": {"type": "double", "value": 10**400}}}, "double"),
        ({"properties": {"a": {"type": "int", "value": True}}}, "another value"),
        ({"properties": {"a": {"type": "char", "value": "x"}}}, "types are"),
        ({"properties": {"a": {"type": ["int"], "value": 1}}}, "types are"),
        ({"properties": {"a": {"value": 1}}}, "type and value"),
        ({"properties": {"a": [1]}}, "type and value"),
        ({"reply_to": "x://y\n"}, "reply_to"),
    ],
)
def test_a_message_that_cannot_be_sent_is_refused(content: Any, words: str) -> None:
    with pytest.raises(BadRequestError, match=words):
        read_message(content)


@pytest.mark.parametrize(
    "content",
    [
        {"bdy": "x"},
        {"priority": "9"},
        {"priority": -1},
        {"priority": 10},
        {"priority": 1.5},
        {"persistent": 1},
        {"properties": []},
        {"type": 1},
        {"body": "x", "kind": "object"},
    ],
)
def test_an_unknown_field_or_another_value_is_refused(content: Any) -> None:
    with pytest.raises(ProblemError):
        read_message(content)


def test_the_largest_float_is_sent_and_half_a_surrogate_pair_is_answered() -> None:
    largest = {"type": "float", "value": 3.4028234663852886e38}
    assert message_json(sent({"properties": {"a": largest}}))["properties"] == {"a": largest}
    assert answer({"a": "\ud800"}).body == b'{"a":"\\ud800"}'


def test_values_without_a_form_in_json_become_texts() -> None:
    values = {"a": b"\x00", "b": [math.nan, math.inf, -math.inf]}
    assert plain_json(values) == {"a": "AA==", "b": ["NaN", "Infinity", "-Infinity"]}


def test_a_whole_number_may_be_written_with_a_fraction_of_zero() -> None:
    message = read_message({"priority": 7.0, "group": "g", "group_sequence": 3.0, "properties": {"n": 2.0}})
    assert (message.priority, message.group_sequence, message.properties) == (7, 3, {"n": 2.0})
    assert [type(value) for value in (message.priority, message.group_sequence, message.properties["n"])] == [
        int,
        int,
        float,
    ]
