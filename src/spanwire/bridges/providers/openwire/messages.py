"""Messages of the client as messages of a bridge, and back."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import Serialized, Typed
from spanwire.model.destination import Destination
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BYTE_VALUE,
    BYTES,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP,
    MAP_VALUE,
    OBJECT,
    SHORT_VALUE,
    STREAM,
    TEXT,
)
from spanwire.protocols.openwire.messages.message_body import KINDS
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, decode_stream, encode_map

NUMBERS: Final = (BYTE_VALUE, SHORT_VALUE, INT_VALUE, LONG_VALUE, FLOAT_VALUE, DOUBLE_VALUE)


def bridge_messages(messages: list[Message]) -> list[BridgeMessage]:
    """Return received messages as messages of a bridge."""
    return [bridge_message(message) for message in messages]


def bridge_message(message: Message) -> BridgeMessage:
    """Return a received message as a message of a bridge. Id, body and properties stay encoded."""
    bridged = BridgeMessage(message, KINDS[message.raw[0]], message, len(message.raw))
    bridged.persistent = message.persistent
    bridged.priority = message.priority
    bridged.expiration_ms = message.expiration
    bridged.timestamp_ms = message.timestamp
    bridged.correlation_id = message.correlation_id
    bridged.message_type = message.message_type
    bridged.reply_to = message.reply_to
    bridged.group_id = message.group_id
    bridged.group_sequence = message.group_sequence
    bridged.is_redelivered = message.redelivered
    return bridged


def outgoing_message(message: BridgeMessage, destination: Destination | None = None) -> Outgoing:
    """Return the arguments of a send, to ``destination`` for a producer without one.

    The encoded body of an OpenWire message is forwarded unchanged.

    Raises `MessageFormatError` for a body that cannot be converted.
    """
    content = message.content
    is_own = isinstance(content, Message)
    properties: bytes | None = None
    if message.properties is not None or not is_own:
        values = message.property_values()
        properties = encode_map(values) if values else b""
    return Outgoing(
        content if is_own else _body(message.kind, content.neutral_body()),
        properties,
        destination,
        message.message_type,
        message.correlation_id,
        message.reply_to,
        message.persistent,
        message.priority,
        None,
        message.group_id,
        message.group_sequence,
        message.expiration_ms or None,
    )


def _body(kind: int, octets: bytes | None) -> object:
    """Return a neutral body in the form for the client's encoder."""
    if kind == TEXT:
        return "" if octets is None else _text(octets)
    if kind == BYTES:
        return octets or b""
    if kind == MAP:
        return {name: _typed(value) for name, value in decode_map(octets or b"", UNBOUNDED).items()}
    if kind == STREAM:
        return [_typed(value) for value in decode_stream(octets or b"", UNBOUNDED)]
    return Serialized(octets or b"") if kind == OBJECT else None


def _text(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise MessageFormatError("the text of a message is not UTF-8") from None


def _typed(typed: tuple[int, object]) -> object:
    """Return a value with the JMS type, in the form for the client's encoder."""
    kind, value = typed
    if kind in NUMBERS and isinstance(value, (int, float)):
        return Typed(kind, value)
    if kind == MAP_VALUE and isinstance(value, dict):
        return {name: _typed(inner) for name, inner in value.items()}
    if kind == LIST_VALUE and isinstance(value, list):
        return [_typed(inner) for inner in value]
    return value
