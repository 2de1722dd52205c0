"""A message as a message convertor sees and changes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.client.messages.typed_values import (
    Serialized,
    body_list,
    body_map,
    check_property_names,
    typed_properties,
)
from spanwire.model.destination import Destination
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import BYTES, MAP, OBJECT, PLAIN, STREAM, TEXT, PropertyValue
from spanwire.protocols.primitive_map import (
    UNBOUNDED,
    decode_map,
    decode_stream,
    encode_map,
    encode_stream,
    plain_map,
    plain_value,
)

KIND_WORDS: Final = {TEXT: "text", BYTES: "bytes", MAP: "map", STREAM: "stream", OBJECT: "object"}
MAX_PRIORITY: Final = 9


class Convertible:
    """A received message. A convertor sets attributes and changes ``properties``.

    ``body`` is a str, bytes, dict, list or None, by the type of the message; the object of an ObjectMessage is a Java
    serialization stream, which stays as it is. A new ``body`` decides the type of the message. ``reply_to`` is the
    destination that the receiver will see: a temporary queue whose messages return to the original, unless the bridge
    has ``doHandleReplyTo="false"``. ``message_id``, ``timestamp`` and ``kind`` can only be read.
    """

    def __init__(self, message: BridgeMessage) -> None:
        """Decode the properties. Raises `MessageFormatError`."""
        self._message: Final = message
        self._typed: Final = message.property_values()
        self.message_id: Final[str] = message.message_id
        self.timestamp: Final[int] = message.timestamp_ms  # milliseconds since 1970
        self.kind: Final[str] = KIND_WORDS.get(message.kind, "message")
        self.correlation_id: str | None = message.correlation_id
        self.message_type: str | None = message.message_type
        self.reply_to: Destination | None = message.reply_to
        self.persistent: bool = message.persistent
        self.priority: int = message.priority
        self.expiration: int = message.expiration_ms  # milliseconds since 1970, 0 for never
        self.group_id: str | None = message.group_id
        self.group_sequence: int = message.group_sequence
        self.properties: dict[str, Any] = plain_map(self._typed)
        self._before: Final = plain_map(self._typed)
        self._body: object = None
        self._is_decoded = False
        self._has_new_body = False

    @property
    def body(self) -> Any:
        """Return the body. Raises `MessageFormatError` for a body that cannot be decoded."""
        if not self._is_decoded:
            self._body = _plain_body(self._message.kind, self._message.content.neutral_body())
            self._is_decoded = True
        return self._body

    @body.setter
    def body(self, value: Any) -> None:
        self._body = value
        self._is_decoded = self._has_new_body = True

    def converted(self) -> BridgeMessage:
        """Return the message after the convertor.

        Raises:
            MessageFormatError: an attribute, a property or the body cannot be sent.
        """
        former = self._message
        content: ConvertedContent | None = None
        kind = former.kind
        if self._has_new_body or self._has_changed_inside():
            kind, octets = _encoded_body(self._body)
            content = ConvertedContent(octets)
        message = BridgeMessage(former.message_id, kind, former.content if content is None else content, former.size)
        message.properties = self._typed_properties()
        message.correlation_id = _text_or_none("correlation_id", self.correlation_id)
        message.message_type = _text_or_none("message_type", self.message_type)
        message.group_id = _text_or_none("group_id", self.group_id)
        message.group_sequence = _number("group_sequence", self.group_sequence, (1 << 31) - 1)
        message.priority = _number("priority", self.priority, MAX_PRIORITY)
        message.expiration_ms = _number("expiration", self.expiration, (1 << 63) - 1)
        message.persistent = bool(self.persistent)
        if self.reply_to is not None and not isinstance(self.reply_to, Destination):
            raise MessageFormatError("reply_to is no destination; set None or leave it")
        message.reply_to = self.reply_to
        message.timestamp_ms = former.timestamp_ms
        message.is_redelivered = former.is_redelivered
        return message

    def _has_changed_inside(self) -> bool:
        """Return True for a changed map or list; an unchanged value keeps the types inside."""
        if not isinstance(self._body, (dict, list)):
            return False
        return repr(self._body) != repr(_plain_body(self._message.kind, self._message.content.neutral_body()))

    def _typed_properties(self) -> dict[str, PropertyValue]:
        """Return all properties; an unchanged one keeps its type."""
        if not isinstance(self.properties, Mapping):
            raise MessageFormatError("properties is no dict")
        changed = {
            name: value
            for name, value in self.properties.items()
            if name not in self._before or type(value) is not type(self._before[name]) or value != self._before[name]
        }
        check_property_names(changed)
        new = typed_properties(changed)
        return {name: new[name] if name in new else self._typed[name] for name in self.properties}


class ConvertedContent:
    """The body that a convertor has made."""

    def __init__(self, octets: bytes | None) -> None:
        self._octets: Final = octets

    def neutral_body(self) -> bytes | None:
        """Return the body."""
        return self._octets

    def property_values(self) -> dict[str, PropertyValue]:
        """Return no properties: the message has its own."""
        return {}


def _plain_body(kind: int, octets: bytes | None) -> object:
    if kind == TEXT:
        return None if octets is None else _text(octets)
    if kind == BYTES:
        return octets or b""
    if kind == MAP:
        return plain_map(decode_map(octets or b"", UNBOUNDED))
    if kind == STREAM:
        return [plain_value(value) for value in decode_stream(octets or b"", UNBOUNDED)]
    return Serialized(octets or b"") if kind == OBJECT else None


def _encoded_body(body: object) -> tuple[int, bytes | None]:
    """Return kind and neutral body of a Python value."""
    if body is None:
        return PLAIN, None
    if isinstance(body, str):
        return TEXT, body.encode("utf-8")
    if isinstance(body, (bytes, bytearray, memoryview)):
        return BYTES, bytes(body)
    if isinstance(body, Mapping):
        return MAP, encode_map(body_map(body))
    if isinstance(body, (list, tuple)):
        return STREAM, encode_stream(body_list(body))
    if isinstance(body, Serialized):
        return OBJECT, body.octets
    raise MessageFormatError(f"body is a {type(body).__name__}; set a str, bytes, dict, list or None")


def _text(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise MessageFormatError("the text of the message is not UTF-8") from None


def _text_or_none(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise MessageFormatError(f"{name} is a {type(value).__name__}, neither a str nor None")


def _number(name: str, value: object, largest: int) -> int:
    if isinstance(value, int) and 0 <= value <= largest:
        return int(value)
    raise MessageFormatError(f"{name} is {str(value)[:60]!r}; it must be a whole number from 0 to {largest}")
