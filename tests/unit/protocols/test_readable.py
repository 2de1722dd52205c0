"""Messages as plain values: every kind of body, and what JSON has no form for."""

from __future__ import annotations

import json

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message_view import (
    BYTES,
    BYTES_VALUE,
    DOUBLE_VALUE,
    INT_VALUE,
    MAP,
    OBJECT,
    PLAIN,
    STREAM,
    STRING_VALUE,
    TEXT,
    MessageView,
)
from spanwire.protocols.primitive_map import encode_map, encode_stream
from spanwire.protocols.readable import readable_message, readable_or_fault


def view_of(kind: int, body: bytes | None) -> MessageView:
    view = MessageView(kind, Destination(QUEUE, "Q"), MessageId(ProducerId("ID:p", 1, 1), 7))
    view.body = body
    return view


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (TEXT, "grün".encode(), "grün"),
        (BYTES, b"text of STOMP", "text of STOMP"),
        (BYTES, b"\xff\x00", {"base64": "/wA="}),
        (BYTES, b"a\0b", {"base64": "YQBi"}),
        (OBJECT, b"java", {"base64": "amF2YQ=="}),
        (MAP, encode_map({"a": (INT_VALUE, 1), "b": (BYTES_VALUE, b"\x01")}), {"a": 1, "b": {"base64": "AQ=="}}),
        (STREAM, encode_stream([(STRING_VALUE, "x"), (INT_VALUE, 2)]), ["x", 2]),
    ],
)
def test_a_body_is_readable_by_its_kind(kind: int, body: bytes, expected: object) -> None:
    assert readable_message(view_of(kind, body))["body"] == expected


def test_what_has_no_value_is_left_out() -> None:
    found = readable_message(view_of(PLAIN, None))
    assert list(found) == [
        "message_id", "kind", "destination", "persistent", "priority", "timestamp_ms", "redelivery_count", "properties",
    ]  # fmt: skip
    assert (found["message_id"], found["kind"]) == ("ID:p:1:1:7", "Message")


def test_numbers_without_a_form_in_json_are_texts() -> None:
    view = view_of(PLAIN, None)
    view.properties = {"inf": (DOUBLE_VALUE, float("inf")), "nan": (DOUBLE_VALUE, float("nan"))}
    assert json.loads(json.dumps(readable_message(view), allow_nan=False))["properties"] == {"inf": "inf", "nan": "nan"}


def test_a_broken_body_leaves_the_headers_and_what_is_wrong() -> None:
    found = readable_or_fault(view_of(MAP, b"\x00\x00\x00\x05"))
    assert found["message_id"] == "ID:p:1:1:7"
    assert "entries" in str(found["fault"])
