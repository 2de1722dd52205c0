"""STOMP frames as messages of a bridge, and back, at ActiveMQ and at RabbitMQ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.stomp.messages import bridge_message, dead_letter_frame, send_frame
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTES,
    BYTES_VALUE,
    DOUBLE_VALUE,
    INT_VALUE,
    LONG_VALUE,
    MAP,
    OBJECT,
    STREAM,
    STRING_VALUE,
    TEXT,
    PropertyValue,
)
from spanwire.protocols.primitive_map import decode_map, encode_map
from spanwire.protocols.stomp.codec.codec import FrameDecoder
from spanwire.protocols.stomp.codec.frames import V1_2, Frame

NOW_MS = 1_700_000_000_000
TARGET = Destination(QUEUE, "T")


class Body:
    def __init__(self, body: bytes, properties: dict[str, PropertyValue] | None = None) -> None:
        self._body = body
        self._properties = properties or {}

    def neutral_body(self) -> bytes | None:
        return self._body

    def property_values(self) -> dict[str, PropertyValue]:
        return self._properties


def message(kind: int, body: bytes, properties: dict[str, PropertyValue] | None = None) -> BridgeMessage:
    return BridgeMessage("ID:1", kind, Body(body, properties), len(body))


def decoded(octets: bytes) -> Frame:
    decoder = FrameDecoder()
    decoder.accept(V1_2)
    (frame,) = decoder.feed(octets)
    return frame


def sent(outgoing: BridgeMessage, is_rabbit: bool = False) -> Frame:
    return decoded(send_frame(outgoing, TARGET, is_rabbit, NOW_MS, []))


@given(body=st.text(), is_rabbit=st.booleans())
def test_any_text_crosses_as_text(body: str, is_rabbit: bool) -> None:
    frame = sent(message(TEXT, body.encode()), is_rabbit)
    if not is_rabbit and "\0" in body:
        assert frame.headers["amq-msg-type"] == "text"  # with it a text may have a content-length
        return
    back = bridge_message(frame, is_rabbit, NOW_MS)
    assert (back.kind, back.content.neutral_body()) == (TEXT, body.encode())


@given(body=st.binary(), is_rabbit=st.booleans())
def test_any_bytes_cross_as_bytes(body: bytes, is_rabbit: bool) -> None:
    back = bridge_message(sent(message(BYTES, body), is_rabbit), is_rabbit, NOW_MS)
    assert (back.kind, back.content.neutral_body()) == (BYTES, body)


def test_a_map_crosses_as_json_with_its_types() -> None:
    entries: dict[str, PropertyValue] = {"n": (INT_VALUE, 1), "text": (STRING_VALUE, "é"), "d": (DOUBLE_VALUE, 0.5)}
    frame = sent(message(MAP, encode_map(entries)))
    assert frame.headers["transformation"] == "jms-map-json"
    back = bridge_message(frame, False, NOW_MS)
    assert back.kind == MAP
    assert decode_map(back.content.neutral_body() or b"") == entries


def test_a_text_that_only_claims_to_be_a_map_stays_a_text() -> None:
    frame = decoded(b"MESSAGE\nmessage-id:1\ntransformation:jms-map-json\n\nno json\0")
    back = bridge_message(frame, False, NOW_MS)
    assert (back.kind, back.content.neutral_body()) == (TEXT, b"no json")


@pytest.mark.parametrize(("kind", "word"), [(STREAM, "stream"), (OBJECT, "Java object")])
def test_streams_and_objects_are_refused_by_name(kind: int, word: str) -> None:
    with pytest.raises(MessageFormatError, match=word):
        sent(message(kind, b"\xac\xed\x00\x05"))


def test_properties_become_strings_and_never_headers_of_stomp() -> None:
    properties: dict[str, PropertyValue] = {
        "n": (INT_VALUE, 7),
        "yes": (BOOLEAN_VALUE, True),
        "octets": (BYTES_VALUE, b"\0"),
        "colon:line\n": (STRING_VALUE, "a:b\nc"),
        "destination": (STRING_VALUE, "/queue/ELSEWHERE"),
        "receipt": (STRING_VALUE, "r"),
        "content-length": (STRING_VALUE, "1"),
        "AMQ_SCHEDULED_DELAY": (LONG_VALUE, 5),
    }
    frame = sent(message(TEXT, b"body", properties))
    assert (frame.headers["destination"], frame.receipt, frame.content_length) == ("/queue/T", None, -1)
    assert bridge_message(frame, False, NOW_MS).property_values() == {
        "n": (STRING_VALUE, "7"),
        "yes": (STRING_VALUE, "true"),
        "colon:line\n": (STRING_VALUE, "a:b\nc"),
        "AMQ_SCHEDULED_DELAY": (LONG_VALUE, 5),
    }


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"big": (STRING_VALUE, "x" * 20_000)}, "the header big has 20005 bytes"),
        ({f"p{number}": (INT_VALUE, 1) for number in range(1_001)}, "headers, and STOMP brokers take 1000"),
        ({"nul": (STRING_VALUE, "\0")}, "NUL"),
    ],
)
def test_headers_beyond_the_limits_of_brokers_are_refused(properties: dict[str, PropertyValue], error: str) -> None:
    with pytest.raises(MessageFormatError, match=error):
        sent(message(TEXT, b"", properties))


def test_the_time_to_live_is_relative_at_rabbitmq_and_absolute_elsewhere() -> None:
    outgoing = message(TEXT, b"")
    outgoing.expiration_ms = NOW_MS + 5_000
    assert sent(outgoing).headers["expires"] == str(NOW_MS + 5_000)
    frame = sent(outgoing, is_rabbit=True)
    assert frame.headers["expiration"] == "5000"
    assert bridge_message(frame, True, NOW_MS).expiration_ms == NOW_MS + 5_000


def test_a_dead_letter_has_body_headers_and_cause() -> None:
    frame = decoded(b"MESSAGE\nmessage-id:1\nack:2\ndestination:/queue/S\nn:1\ncontent-length:3\n\na\0b\0")
    copy = decoded(dead_letter_frame(frame, TARGET, [("cause", "why")]))
    assert copy.headers == {"destination": "/queue/T", "cause": "why", "n": "1"}
    assert copy.body == b"a\0b"
