"""Advisories about messages carry them, as other brokers and Java clients read them (ActiveMQ, "Advisory Message")."""

from __future__ import annotations

import zlib

import pytest

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.ports import AdvisedMessage, LongNumber
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import FORMAT_STOMP, Message
from spanwire.model.message_view import INT_VALUE, LONG_VALUE, MAP, STREAM, STRING_VALUE, TEXT, MessageView
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.messages.advisory_format import OpenWireAdvisoryFormat
from spanwire.protocols.openwire.messages.message_format import (
    CANONICAL_VERSIONS,
    OpenWireMessageFormat,
    openwire_formats,
)
from spanwire.protocols.primitive_map import decode_map, encode_map
from spanwire.protocols.stomp.message_format import StompMessageFormat

ABOUT = Destination(TOPIC, "ActiveMQ.Advisory.MessageDelivered.Queue.Q")
UNREADABLE = zlib.compress(b"x" * 100)[:20]


def formats() -> MessageFormats:
    return MessageFormats({**openwire_formats(), FORMAT_STOMP: StompMessageFormat()})


def view(kind: int = TEXT, body: bytes | None = b"hello") -> MessageView:
    found = MessageView(kind, Destination(QUEUE, "Q"), MessageId(ProducerId("ID:c:1", 1, 2), 3))
    found.correlation_id = "c"
    found.priority = 7
    found.persistent = True
    found.properties = {"n": (INT_VALUE, 1)}
    found.body = body
    return found


def advisory(subject: object, properties: dict[str, object] | None = None) -> wire.Message:
    """The advisory as its listener decodes it."""
    advisories = OpenWireAdvisoryFormat("ID:b", "b", "tcp://b:61616", "ID:advisory", formats())
    message = advisories.advisory(ABOUT, subject, properties or {}, 1, 1_000)
    return decode_message(message.raw, 12)


def carried(message: Message, whole: bool) -> wire.Message | None:
    found = advisory(AdvisedMessage(message, whole)).data_structure
    assert found is None or isinstance(found, wire.Message)
    return found


@pytest.mark.parametrize("format_id", [*CANONICAL_VERSIONS, FORMAT_STOMP])
@pytest.mark.parametrize("whole", [False, True])
def test_a_message_is_carried_with_its_headers_and_its_body_if_it_is_to_be_whole(format_id: int, whole: bool) -> None:
    message = formats().format(format_id).encode_from_view(view())
    found = carried(message, whole)
    assert isinstance(found, wire.ActiveMQTextMessage)
    assert found.destination is not None
    assert found.destination.physical_name == "Q"
    assert (found.correlation_id, found.priority, found.persistent) == ("c", 7, True)
    assert found.message_id is not None
    assert (found.message_id.producer_sequence_id, found.compressed) == (3, False)
    assert decode_map(found.marshalled_properties or b"")["n"][1] in (1, "1")
    assert found.content == (b"\x00\x00\x00\x05hello" if whole else None)


@pytest.mark.parametrize("kind", [MAP, STREAM])
def test_every_kind_of_message_stays_of_its_kind(kind: int) -> None:
    body = encode_map({"a": (STRING_VALUE, "b")}) if kind == MAP else b"\x05\x00\x00\x00\x01"
    found = carried(formats().format(4).encode_from_view(view(kind, body)), False)
    assert isinstance(found, wire.ActiveMQMapMessage if kind == MAP else wire.ActiveMQStreamMessage)
    assert found.content is None


def test_a_body_that_cannot_be_inflated_is_not_looked_at() -> None:
    structure = decode_message(OpenWireMessageFormat(4).encode_from_view(view()).raw, 12)
    structure.compressed = True
    structure.content = UNREADABLE
    message = OpenWireMessageFormat(4).index(OpenWireMessageFormat(4).octets_of(structure))
    bare, whole = carried(message, False), carried(message, True)
    assert bare is not None
    assert (bare.content, bare.compressed) == (None, False)
    assert whole is not None
    assert (whole.content, whole.compressed) == (UNREADABLE, True)


def test_a_changed_destination_is_told_as_it_is_now() -> None:
    message = OpenWireMessageFormat(4).encode_from_view(view())
    found = carried(OpenWireMessageFormat(4).readdressed(message, Destination(QUEUE, "OTHER")), False)
    assert found is not None
    assert found.destination is not None
    assert found.destination.physical_name == "OTHER"


def test_an_advisory_about_a_message_that_cannot_be_decoded_carries_none() -> None:
    whole = OpenWireMessageFormat(4).encode_from_view(view())
    broken = Message(4, whole.raw[:40], 20, 30, 40, whole.destination, whole.producer_id, whole.sequence, True, 4, 0, 0)
    assert advisory(AdvisedMessage(broken, False)).data_structure is None


def test_numbers_are_told_in_the_type_that_is_asked_for() -> None:
    found = advisory(None, {"count": 1, "bytes": LongNumber(2), "large": 2**40})
    told = decode_map(found.marshalled_properties or b"")
    assert [told[name] for name in ("count", "bytes", "large")] == [
        (INT_VALUE, 1), (LONG_VALUE, 2), (LONG_VALUE, 2**40),
    ]  # fmt: skip
    assert found.data_structure is None
