"""Messages of AMQP 0-9-1 as messages of a bridge, and back, through the library's encoding."""

from __future__ import annotations

import datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from pamqp.commands import Basic

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.amqp091.messages import (
    HEADER_ROOM,
    bridge_message,
    dead_letter_properties,
    outgoing_message,
)
from spanwire.bridges.providers.amqp091.provider import Amqp091Provider
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTES_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    TEXT,
    PropertyValue,
)
from tests.support.bridge_dialogue import Content

NOW_MS = 1_700_000_000_000
MAX_FRAME = 131_072


def received(properties: Basic.Properties, body: bytes = b"body") -> BridgeMessage:
    """What the library hands over."""
    message: Any = SimpleNamespace(header=SimpleNamespace(properties=properties), body=body, redelivered=False)
    return bridge_message(message, NOW_MS)


def crossed(message: BridgeMessage) -> BridgeMessage:
    """A message as RabbitMQ returns it, with its properties encoded and decoded."""
    body, properties = outgoing_message(message, NOW_MS, MAX_FRAME)
    octets = properties.marshal()
    again = Basic.Properties()
    again.unmarshal(properties_flags(octets), octets[2:])
    return received(again, body)


def properties_flags(octets: bytes) -> int:
    return int.from_bytes(octets[:2], "big")


def outgoing(properties: dict[str, PropertyValue] | None = None) -> BridgeMessage:
    return BridgeMessage("ID:1", TEXT, Content("text", properties), 4)


def test_properties_keep_their_types_as_far_as_amqp_has_them() -> None:
    back = crossed(
        outgoing(
            {
                "yes": (BOOLEAN_VALUE, True),
                "short": (SHORT_VALUE, 7),
                "long": (LONG_VALUE, 2**40),
                "negative": (INT_VALUE, -(2**31)),
                "float": (FLOAT_VALUE, 0.5),
                "double": (DOUBLE_VALUE, 0.1),
                "text": (STRING_VALUE, "é"),
                "octets": (BYTES_VALUE, b"\0\xff"),
                "null": (NULL_VALUE, None),
                "map": (MAP_VALUE, {"n": (INT_VALUE, 1)}),
                "list": (LIST_VALUE, [(INT_VALUE, 1), (STRING_VALUE, "a")]),
            }
        )
    )
    assert back.property_values() == {
        "yes": (BOOLEAN_VALUE, True),
        "short": (INT_VALUE, 7),
        "long": (LONG_VALUE, 2**40),
        "negative": (INT_VALUE, -(2**31)),
        "float": (DOUBLE_VALUE, 0.5),
        "double": (STRING_VALUE, "0.1"),
        "text": (STRING_VALUE, "é"),
        "octets": (BYTES_VALUE, b"\0\xff"),
        "null": (NULL_VALUE, None),
        "map": (MAP_VALUE, {"n": (INT_VALUE, 1)}),
        "list": (LIST_VALUE, [(INT_VALUE, 1), (STRING_VALUE, "a")]),
    }


def test_jms_headers_are_properties_of_amqp() -> None:
    message = outgoing()
    message.correlation_id, message.message_type, message.priority = "c", "t", 7
    message.timestamp_ms, message.expiration_ms = NOW_MS, NOW_MS + 5_000
    message.reply_to = Destination(QUEUE, "REPLIES")
    _, own = outgoing_message(message, NOW_MS, MAX_FRAME)
    assert (own.correlation_id, own.message_type, own.priority, own.expiration) == ("c", "t", 7, "5000")
    assert (own.message_id, own.reply_to, own.delivery_mode) == ("ID:1", "REPLIES", 2)
    assert own.timestamp == datetime.datetime.fromtimestamp(NOW_MS / 1_000, datetime.UTC)
    back = received(own)
    assert (back.timestamp_ms, back.expiration_ms, back.reply_to) == (NOW_MS, NOW_MS + 5_000, message.reply_to)


def test_a_topic_for_replies_crosses_as_a_header_and_a_queue_of_one_connection_not_at_all() -> None:
    message = outgoing()
    message.reply_to = Destination(TOPIC, "REPLIES")
    assert crossed(message).reply_to == message.reply_to
    for queue in ("amq.gen-1", "amq.rabbitmq.reply-to.1"):
        assert received(Basic.Properties(reply_to=queue)).reply_to is None


def test_properties_that_only_amqp_has_are_properties_and_return() -> None:
    own = Basic.Properties(
        content_type="application/x-protobuf",
        content_encoding="gzip",
        app_id="shop",
        headers={"when": datetime.datetime.fromtimestamp(5, datetime.UTC), "price": Decimal("1.5")},
    )
    message = received(own, b"\0")
    assert message.property_values() == {
        "when": (LONG_VALUE, 5_000),
        "price": (STRING_VALUE, "1.5"),
        "content_type": (STRING_VALUE, "application/x-protobuf"),
        "content_encoding": (STRING_VALUE, "gzip"),
        "app_id": (STRING_VALUE, "shop"),
    }
    _, again = outgoing_message(message, NOW_MS, MAX_FRAME)
    assert (again.content_type, again.content_encoding, again.app_id) == ("application/x-protobuf", "gzip", "shop")


@pytest.mark.parametrize(
    "own",
    [
        Basic.Properties(expiration="soon", priority=255),
        Basic.Properties(headers={"JMSXGroupID": 5, "JMSXGroupSeq": "x", "JMSReplyTo": "queue://", "JMSKind": 7}),
        Basic.Properties(),
    ],
)
def test_unusual_properties_of_others_never_stop_a_message(own: Basic.Properties) -> None:
    message = received(own)
    assert 0 <= message.priority <= 9
    assert (message.group_id, message.group_sequence, message.reply_to, message.expiration_ms) == (None, 0, None, 0)


def test_tables_that_are_too_deep_are_refused() -> None:
    table: dict[str, Any] = {}
    for _ in range(20):
        table = {"inner": table}
    with pytest.raises(MessageFormatError, match="inside each other"):
        received(Basic.Properties(headers=table)).property_values()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"correlation_id": "é" * 200}, "the correlation id has more than 255 bytes"),
        ({"properties": {"x" * 200: (INT_VALUE, 1)}}, "the name of a property has no form"),
        ({"properties": {"big": (STRING_VALUE, "x" * MAX_FRAME)}}, "the properties have"),
        ({"properties": {"lone": (STRING_VALUE, "\ud800")}}, "has no form in AMQP"),
    ],
)
def test_what_has_no_form_in_amqp_is_refused(change: dict[str, Any], error: str) -> None:
    message = outgoing()
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(MessageFormatError, match=error):
        outgoing_message(message, NOW_MS, MAX_FRAME)


def test_a_dead_letter_keeps_headers_that_the_library_cannot_write_as_texts() -> None:
    headers = {"huge": 1e300, "double": 0.1, "float": 0.5, "wide": 2**64 - 1, "table": {"inner": [1e300]}}
    own, left_out = dead_letter_properties(Basic.Properties(headers=headers), {"cause": "no"}, MAX_FRAME)
    assert left_out == [] and own.marshal()
    assert own.headers == {
        "huge": "1e+300",
        "double": "0.1",
        "float": 0.5,
        "wide": "18446744073709551615",
        "table": {"inner": ["1e+300"]},
        "cause": "no",
    }


def test_a_dead_letter_fits_into_a_frame_without_its_cause() -> None:
    headers = {"text": "x" * (MAX_FRAME - 200)}
    own, left_out = dead_letter_properties(Basic.Properties(headers=headers), {"cause": "c" * 1_000}, MAX_FRAME)
    assert (left_out, own.headers) == (["cause"], headers)
    assert len(own.marshal()) <= MAX_FRAME - HEADER_ROOM
    unlimited, _ = dead_letter_properties(Basic.Properties(headers=headers), {"cause": "c" * 1_000}, 0)
    assert set(unlimited.headers) == {"text", "cause"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"subscription": "s"}, "is a queue; remove subscriptionName"),
        ({"client_id": "c"}, "has no client ids"),
        ({"destination": Destination(QUEUE, "aufträge")}, "'aufträge' has others; use the provider amqp"),
        ({"factory": ConnectionFactory("amqp://host?exchange=50%25", provider="amqp091")}, "'50%' has others"),
        ({"factory": ConnectionFactory("amqp://host?exchange=", provider="amqp091")}, "exchange is empty"),
        ({"factory": ConnectionFactory("tcp://host", provider="amqp091")}, "write amqp://host:port"),
    ],
)
def test_a_source_that_can_never_be_opened_is_refused(change: dict[str, Any], error: str) -> None:
    parts: dict[str, Any] = {"factory": ConnectionFactory("amqp://host"), "destination": Destination(QUEUE, "Q")}
    with pytest.raises(ConfigurationError, match=error):
        Amqp091Provider().check_source(Source(**{**parts, **change}))
