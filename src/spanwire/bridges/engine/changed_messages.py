"""Copies of messages with another body, other headers or other properties."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTES,
    BYTES_VALUE,
    DOUBLE_VALUE,
    INT_VALUE,
    LONG_VALUE,
    PLAIN,
    STRING_VALUE,
    TEXT,
    PropertyValue,
)

INT_RANGE: Final = range(-(2**31), 2**31)


class NeutralContent:
    """A body in the neutral encoding of `spanwire.model.message_view`, with properties."""

    __slots__ = ("_body", "_properties")

    def __init__(self, body: bytes | None, properties: dict[str, PropertyValue]) -> None:
        self._body: Final = body
        self._properties: Final = properties

    def neutral_body(self) -> bytes | None:
        """Return the body."""
        return self._body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the properties."""
        return self._properties


def copy_of(message: BridgeMessage) -> BridgeMessage:
    """Return a copy that shares the content."""
    return _with_headers(message, BridgeMessage(message.message_id, message.kind, message.content, message.size))


def with_id(message: BridgeMessage, suffix: str) -> BridgeMessage:
    """Return a copy with a suffix at the id, for targets with knowledge of ids; an empty id stays empty."""
    message_id = f"{message.message_id}-{suffix}" if message.message_id else ""
    return _with_headers(message, BridgeMessage(message_id, message.kind, message.content, message.size))


def with_text(message: BridgeMessage, text: str | None) -> BridgeMessage:
    """Return a copy with a text body. Raises `MessageFormatError` for undecodable properties."""
    body = None if text is None else text.encode("utf-8", "replace")
    content = NeutralContent(body, message.property_values())
    size = message.size if body is None else max(len(body), 1)
    return _with_headers(message, BridgeMessage(message.message_id, TEXT, content, size))


def _with_headers(message: BridgeMessage, copy: BridgeMessage) -> BridgeMessage:
    copy.properties = message.properties
    copy.persistent = message.persistent
    copy.priority = message.priority
    copy.expiration_ms = message.expiration_ms
    copy.timestamp_ms = message.timestamp_ms
    copy.correlation_id = message.correlation_id
    copy.message_type = message.message_type
    copy.reply_to = message.reply_to
    copy.group_id = message.group_id
    copy.group_sequence = message.group_sequence
    copy.is_redelivered = message.is_redelivered
    return copy


def text_of(message: BridgeMessage) -> str | None:
    """Return the body as a text; None without a body.

    Raises:
        MessageFormatError: the body is neither a text nor octets in UTF-8.
    """
    if message.kind not in (TEXT, BYTES, PLAIN):
        raise MessageFormatError("the body is no text")
    body = message.content.neutral_body()
    try:
        return None if body is None else body.decode("utf-8")
    except UnicodeDecodeError:
        raise MessageFormatError("the body is not in UTF-8") from None


def storable(text: str) -> str:
    """Return a text with a question mark in place of each half of a surrogate pair.

    UTF-8 has no form for such a half.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def typed(value: object) -> PropertyValue:
    """Return a value with the type of a property."""
    if isinstance(value, bool):
        return BOOLEAN_VALUE, value
    if isinstance(value, int):
        return INT_VALUE if value in INT_RANGE else LONG_VALUE, value
    if isinstance(value, float):
        return DOUBLE_VALUE, value
    return (BYTES_VALUE, value) if isinstance(value, bytes) else (STRING_VALUE, str(value))


def with_property(message: BridgeMessage, name: str, value: PropertyValue | None) -> None:
    """Set or remove a property of a message. Raises `MessageFormatError`."""
    properties = dict(message.property_values())
    if value is None:
        properties.pop(name, None)
    else:
        properties[name] = value
    message.properties = properties
