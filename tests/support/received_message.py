"""Messages as the client has received them, made in memory."""

from __future__ import annotations

from spanwire.client.messages.message import Message
from spanwire.model.message import FORMAT_OPENWIRE_10
from spanwire.model.message_view import PropertyValue
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.message_format import OpenWireMessageFormat
from spanwire.protocols.openwire.messages.message_layout import MessageScanner
from spanwire.protocols.primitive_map import encode_map


def received(
    structure: wire.Message, properties: dict[str, PropertyValue] | None = None, text_view: str | None = None
) -> Message:
    """The message of a queue with some properties, after its way over the wire."""
    structure.destination = wire.ActiveMQQueue("FOO.BAR")
    structure.message_id = wire.MessageId(
        text_view=text_view,
        producer_id=wire.ProducerId(connection_id="ID:p", session_id=1, value=1),
        producer_sequence_id=1,
    )
    structure.priority = 4
    if properties:
        structure.marshalled_properties = encode_map(properties)
    raw = OpenWireMessageFormat(FORMAT_OPENWIRE_10).octets_of(structure)
    scanner = MessageScanner(12)
    scanner.scan(raw)
    return Message(raw, 12, scanner, b"", 0)


def text(body: str, properties: dict[str, PropertyValue] | None = None) -> Message:
    """A text message."""
    structure = wire.ActiveMQTextMessage()
    octets = body.encode()
    structure.content = len(octets).to_bytes(4, "big") + octets
    return received(structure, properties)
