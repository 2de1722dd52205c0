"""Packets of MQTT 5 as messages of a bridge, and back.

Properties are user properties. JMS headers are properties of MQTT where there are any, else user properties.
"""

from __future__ import annotations

from typing import Final

from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.bodies import KIND, BrokenContent, foreign_type, incoming_body, outgoing_body
from spanwire.bridges.providers.mqtt.incoming import properties_of
from spanwire.bridges.providers.text_headers import (
    CORRELATION_ID,
    EXPIRATION,
    MESSAGE_ID,
    REPLY_TO,
    apply_texts,
    content_type_of,
    destination_of,
    incoming_properties,
    outgoing_texts,
)
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import BYTES, TEXT, PropertyValue

MAX_STRING: Final = 65_535  # bytes of a string
MAX_LIFE_S: Final = 0xFFFFFFFF  # seconds
PACKET_ROOM: Final = 64  # bytes of a packet beside topic, properties and body


class MqttContent:
    """Body and user properties of a packet; the kind is known when it arrives."""

    __slots__ = ("body", "content_type", "texts")

    def __init__(self, body: bytes | None, content_type: str | None, texts: dict[str, str]) -> None:
        self.body: Final[bytes | None] = body
        self.content_type: Final[str | None] = content_type
        self.texts: Final[dict[str, str]] = texts

    def neutral_body(self) -> bytes | None:
        """Return the body in its neutral encoding."""
        return self.body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the user properties that are no JMS headers, as strings."""
        return incoming_properties(self.texts, foreign_type(self.content_type))


def bridge_message(packet: MQTTMessage, now_ms: int) -> BridgeMessage:
    """Return a received packet. ``now_ms`` is for MQTT's relative expiration."""
    own = properties_of(packet)
    if own.fault:
        return BridgeMessage("", BYTES, BrokenContent(own.fault), len(packet.payload))
    texts: dict[str, str] = {}
    for name, text in own.UserProperty:
        texts.setdefault(name, text)
    content_type = own.ContentType
    if content_type is None and own.PayloadFormatIndicator == 1:
        content_type = "text/plain"
    kind, body = incoming_body(packet.payload, content_type, texts.get(KIND))
    message = BridgeMessage(
        texts.get(MESSAGE_ID, ""), kind, MqttContent(body, content_type, texts), len(packet.payload)
    )
    message.persistent = packet.qos > 0
    message.is_redelivered = packet.dup
    message.reply_to = destination_of(own.ResponseTopic)
    apply_texts(message, texts)
    life_s = own.MessageExpiryInterval
    if life_s is not None:
        message.expiration_ms = now_ms + life_s * 1_000
    correlation = own.CorrelationData
    if correlation is not None:
        try:
            message.correlation_id = correlation.decode("utf-8")
        except UnicodeDecodeError:
            message.correlation_id = correlation.hex()
    return message


def outgoing_packet(message: BridgeMessage, topic: str, now_ms: int, max_packet: float) -> tuple[bytes, Properties]:
    """Return body and properties to publish. ``max_packet`` is the largest packet of the broker in bytes.

    Raises:
        MessageFormatError: a text exceeds 65,535 bytes or has a NUL character, or the packet is too large.
    """
    body, own_type, kind = outgoing_body(message.kind, message.content.neutral_body())
    texts = outgoing_texts(message, kind)
    texts.pop(EXPIRATION, None)
    own = Properties(PacketTypes.PUBLISH)
    correlation_id = texts.pop(CORRELATION_ID, None)
    if correlation_id is not None:
        own.CorrelationData = _checked(CORRELATION_ID, correlation_id).encode()
    if message.reply_to is not None and not message.reply_to.is_queue:
        own.ResponseTopic = _checked(REPLY_TO, message.reply_to.name)
        texts.pop(REPLY_TO, None)
    content_type = content_type_of(message, own_type)
    if content_type is not None:
        own.ContentType = _checked("content_type", content_type)
    if message.kind == TEXT:
        own.PayloadFormatIndicator = 1
    if message.expiration_ms:
        own.MessageExpiryInterval = min(max(1, -(-(message.expiration_ms - now_ms) // 1_000)), MAX_LIFE_S)
    if texts:
        own.UserProperty = [(_checked(name, name), _checked(name, text)) for name, text in texts.items()]
    size = len(body) + len(topic.encode()) + len(own.pack()) + PACKET_ROOM
    if size > max_packet:
        raise MessageFormatError(f"the packet has {size} bytes, and the broker takes {max_packet:.0f}")
    return body, own


def _checked(name: str, text: str) -> str:
    """Return a text within MQTT's limits."""
    if "\0" in text:
        raise MessageFormatError(f"{name[:60]} has a NUL character, which MQTT does not take")
    if len(text.encode()) > MAX_STRING:
        raise MessageFormatError(f"{name[:60]} has more than {MAX_STRING} bytes, which MQTT does not take")
    return text
