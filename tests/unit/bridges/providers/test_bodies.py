"""Bodies as octets with a content type, and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.providers.bodies import MAX_JSON_BYTES, incoming_body, outgoing_body, typed
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BLOB,
    BYTE_VALUE,
    BYTES,
    BYTES_VALUE,
    DOUBLE_VALUE,
    INT_VALUE,
    LONG_VALUE,
    MAP,
    OBJECT,
    PLAIN,
    STREAM,
    STRING_VALUE,
    TEXT,
)
from spanwire.protocols.primitive_map import decode_map, encode_map, encode_stream

TYPED = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (TEXT, "é".encode()),
        (TEXT, b""),
        (BYTES, b"\0\xff"),
        (OBJECT, b"\xac\xed\x00\x05"),
        (PLAIN, None),
        (STREAM, encode_stream([(INT_VALUE, 1), (STRING_VALUE, "é")])),
    ],
)
def test_a_body_returns_as_what_it_was(kind: int, body: bytes | None) -> None:
    assert incoming_body(*outgoing_body(kind, body)) == (kind, body)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), TYPED, max_size=5))
def test_a_map_of_json_types_returns_as_what_it_was(values: dict[str, object]) -> None:
    entries = {name: typed(value) for name, value in values.items()}
    kind, body = incoming_body(*outgoing_body(MAP, encode_map(entries)))
    assert kind == MAP
    assert decode_map(body or b"") == entries


def test_a_map_is_json_that_others_can_read() -> None:
    entries = {"n": (BYTE_VALUE, 1), "long": (LONG_VALUE, 2**40), "d": (DOUBLE_VALUE, 0.5), "b": (BYTES_VALUE, b"\xff")}
    octets, content_type, kind = outgoing_body(MAP, encode_map(entries))
    assert (json.loads(octets), content_type, kind) == (
        {"n": 1, "long": 2**40, "d": 0.5, "b": "/w=="},
        "application/json",
        "map",
    )


def test_the_file_of_a_blob_stays_where_it_is() -> None:
    assert outgoing_body(BLOB, None) == (b"", None, "plain")


@pytest.mark.parametrize(
    ("octets", "content_type", "kind", "expected"),
    [
        (b"text", "text/plain; charset=utf-8", None, TEXT),
        (b"{}", "application/json", None, TEXT),
        (b"\xff", "text/plain", None, BYTES),
        (b"text", None, None, BYTES),
        (b"no json", "application/json", "map", TEXT),
        (b"[1]", "application/json", "map", TEXT),
        (b'{"n": 1e400000}', "application/json", "stream", TEXT),
        (b"x", None, "plain", BYTES),
    ],
)
def test_a_foreign_body_is_what_its_octets_allow(
    octets: bytes, content_type: str | None, kind: str | None, expected: int
) -> None:
    assert incoming_body(octets, content_type, kind) == (expected, octets)


def test_a_map_beyond_the_limit_is_refused() -> None:
    with pytest.raises(MessageFormatError, match="as JSON exceeds"):
        outgoing_body(MAP, encode_map({"text": (STRING_VALUE, "x" * MAX_JSON_BYTES)}))


def test_a_number_beyond_a_long_has_no_type() -> None:
    with pytest.raises(MessageFormatError, match="exceeds a long"):
        typed(2**63)
