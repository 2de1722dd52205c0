"""Messages as HTTP responses: body, type, and properties as headers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.message_view import STRING_VALUE, PropertyValue
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.primitive_map import encode_map
from spanwire.web.rest.answers import MAX_HEADERS_BYTES, OMITTED, answer_of
from tests.support.received_message import received, text

INT = 5


def strings(**values: str) -> dict[str, PropertyValue]:
    return {name: (STRING_VALUE, value) for name, value in values.items()}


def test_a_text_is_plain_text_in_utf_8() -> None:
    answer = answer_of(text("grün", strings(n="7")))
    assert (answer.body.decode(), answer.content_type) == ("grün", "text/plain; charset=utf-8")
    assert answer.headers == {"destination": "queue://FOO.BAR", "id": "ID:p:1:1:1", "n": "7"}


def test_a_text_that_begins_like_xml_is_xml_without_its_declaration() -> None:
    answer = answer_of(text('<a b="c"/>'))
    assert (answer.body, answer.content_type) == (b'<a b="c"/>', "application/xml; charset=utf-8")
    answer = answer_of(text('<?xml version="1.0" encoding="x"?>\n<a/>'))
    assert (answer.body, answer.content_type) == (b"\n<a/>", "application/xml; charset=utf-8")


def test_a_caller_may_ask_for_json_or_xml() -> None:
    assert answer_of(text('{"a": 1}'), as_json=True).content_type == "application/json"
    assert answer_of(text("plain"), as_xml=True).content_type == "application/xml; charset=utf-8"


def test_octets_stay_octets() -> None:
    structure = wire.ActiveMQBytesMessage()
    structure.content = b"\xff\x00\x01"
    answer = answer_of(received(structure))
    assert (answer.body, answer.content_type) == (b"\xff\x00\x01", "application/octet-stream")


def test_a_map_is_json() -> None:
    structure = wire.ActiveMQMapMessage()
    structure.content = encode_map({"n": (INT, 7), "s": (STRING_VALUE, "x")})
    answer = answer_of(received(structure))
    assert (json.loads(answer.body), answer.content_type) == ({"n": 7, "s": "x"}, "application/json")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Set-Cookie", "a=b"),
        ("Content-Security-Policy", "default-src *"),
        ("Location", "https://evil.example"),
        ("refresh", "0;url=https://evil.example"),
        ("Link", "<https://evil.example>;rel=preload"),
        ("id", "ID:other"),
        ("destination", "queue://OTHER"),
        ("a b", "x"),
        ("a:b", "x"),
        ("ü", "x"),
        ("n\r\nSet-Cookie", "x"),
        ("n", "x\r\nSet-Cookie: a=b"),
        ("n", "x\0"),
        ("n", "€"),
        ("n", "x" * (MAX_HEADERS_BYTES + 1)),
        ("x" * 200, "x"),
    ],
)
def test_s18_a_property_that_would_break_a_header_is_left_out_and_named(name: str, value: str) -> None:
    headers = answer_of(text("x", {name: (STRING_VALUE, value), "good": (STRING_VALUE, "yes")})).headers
    assert set(headers) - {OMITTED} <= {"destination", "id", "good"}
    assert headers[OMITTED]
    assert headers["destination"] == "queue://FOO.BAR"
    assert headers["id"] == "ID:p:1:1:1"


@pytest.mark.parametrize("foreign", ["ID:\r\nSet-Cookie: a=b", "ID:€", " ID"])
def test_s18_an_id_of_a_foreign_client_sets_no_header(foreign: str) -> None:
    structure = wire.ActiveMQTextMessage()
    message = received(structure, text_view=foreign)
    assert set(answer_of(message).headers["id"]) <= set("ID:%0123456789ABCDEFSetCookieab-")


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=40), max_size=20))
def test_s16_whatever_the_properties_are_the_headers_can_be_written(properties: dict[str, str]) -> None:
    octets = [
        (name.encode("ascii"), value.encode("latin-1"))
        for name, value in answer_of(text("x", strings(**properties))).headers.items()
    ]
    assert not [pair for pair in octets if set(b"\r\n\0") & set(pair[0] + pair[1])]
    assert len({name.lower() for name, _ in octets}) == len(octets)


def test_s15_many_properties_make_a_head_of_bounded_size() -> None:
    headers = answer_of(text("x", strings(**{f"p{number}": "v" * 100 for number in range(1_000)}))).headers
    assert sum(len(name) + len(value) for name, value in headers.items()) < 2 * MAX_HEADERS_BYTES
    assert headers[OMITTED].endswith("properties")
