"""A message like the last one is scanned in one go, and any other as if it were the first."""

from __future__ import annotations

import pytest

from spanwire.model.message_view import INT_VALUE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.message_layout import MessageScanner
from spanwire.protocols.primitive_map import encode_map

SIZE_OCTETS = 4
FIELDS = (
    "destination_start transaction_start original_destination_start message_id_start text_view id_producer_start "
    "sequence_start sequence broker_sequence group_id persistent expiration_ms priority timestamp_ms content_start "
    "properties_start tail_start carries_structure broker_path"
).split()


def octets(version: int, content: bytes | None, properties: bytes | None) -> bytes:
    producer = wire.ProducerId(connection_id="ID:c:1", session_id=1, value=1)
    message = wire.ActiveMQTextMessage()
    message.producer_id = producer
    message.destination = wire.ActiveMQQueue("Q")
    message.message_id = wire.MessageId(producer_id=producer, producer_sequence_id=300, broker_sequence_id=0)
    message.persistent = True
    message.priority = 4
    message.expiration = 1 << 40
    message.timestamp = 1 << 41
    message.content = content
    message.marshalled_properties = properties
    return FrameEncoder(WireFormat(version=version)).encode(message)[SIZE_OCTETS:]


def scanned(scanner: MessageScanner, raw: bytes) -> list[object]:
    """The offsets and fields of a message, or its error."""
    try:
        scanner.scan(raw)
    except OpenWireProtocolError as error:
        return [str(error)]
    return [getattr(scanner, field) for field in FIELDS]


@pytest.mark.parametrize("version", [1, 3, 9, 10, 12])
@pytest.mark.parametrize("properties", [None, {"number": (INT_VALUE, 7)}])
@pytest.mark.parametrize("content", [None, b"", b"\0\0\0\5hello"])
def test_a_message_that_follows_another_is_scanned_as_if_it_were_the_first(
    version: int, properties: dict[str, tuple[int, object]] | None, content: bytes | None
) -> None:
    known = octets(version, b"\0\0\0\3abc", None)
    raw = octets(version, content, None if properties is None else encode_map(properties))
    others = [raw, raw + b"\0", b"", *[raw[:end] for end in range(1, len(raw), 3)]]
    for place in range(len(raw)):
        others += [raw[:place] + bytes([raw[place] ^ change]) + raw[place + 1 :] for change in (1, 0x80, 0xFF)]
    scanner = MessageScanner(version)
    for other in others:
        scanner.scan(known)
        first = scanned(MessageScanner(version), other)
        assert scanned(scanner, other) == first
        assert scanned(scanner, other) == first


def test_a_message_with_the_front_of_the_last_has_the_same_object_as_front() -> None:
    scanner = MessageScanner(12)
    scanner.scan(octets(12, b"1", None))
    front = scanner.front
    assert b"ID:c:1" in front
    scanner.scan(octets(12, b"another", None))
    assert scanner.front is front
    other = octets(12, b"1", None).replace(b"ID:c:1", b"ID:d:1")
    scanner.scan(other)
    assert scanner.front is not front
