"""Entries of a stream of Redis as messages of a bridge, and back.

JMS headers and properties are fields of the entry, as texts; the body is the field `BODY`. An entry of somebody else
without that field is a map of its fields.
"""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.bodies import KIND, foreign_type, incoming_body, outgoing_body
from spanwire.bridges.providers.text_headers import (
    MESSAGE_ID,
    apply_texts,
    content_type_of,
    incoming_properties,
    number,
    outgoing_texts,
)
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import BYTES_VALUE, MAP, STRING_VALUE, PropertyValue
from spanwire.protocols.primitive_map import encode_map

BODY: Final = "body"
CONTENT_TYPE_FIELD: Final = "content-type"
MAX_BODY: Final = 128 * 1024 * 1024  # bytes of a body; a string of Redis has up to 512 MiB

Fields = dict[bytes, bytes]


class RedisContent:
    """Body and fields of an entry; the kind is known when it arrives."""

    __slots__ = ("body", "texts")

    def __init__(self, body: bytes | None, texts: dict[str, str]) -> None:
        self.body: Final[bytes | None] = body
        self.texts: Final[dict[str, str]] = texts

    def neutral_body(self) -> bytes | None:
        """Return the body in its neutral encoding."""
        return self.body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the fields that are neither body nor JMS headers, as strings."""
        texts = {name: text for name, text in self.texts.items() if name != CONTENT_TYPE_FIELD}
        return incoming_properties(texts, foreign_type(self.texts.get(CONTENT_TYPE_FIELD)))


class FieldsContent:
    """The fields of an entry of somebody else."""

    __slots__ = ("fields",)

    def __init__(self, fields: Fields) -> None:
        self.fields: Final[Fields] = fields

    def neutral_body(self) -> bytes | None:
        """Return a map of the fields: strings, or octets that are no text. Raises `MessageFormatError`."""
        return encode_map({_text(name): _value(value) for name, value in self.fields.items()})

    def property_values(self) -> dict[str, PropertyValue]:
        """Return no properties."""
        return {}


def bridge_message(stream: str, entry: str, fields: Fields, is_redelivered: bool) -> BridgeMessage:
    """Return an entry as a message; without an id it has one of stream and entry.

    A field other than text arrives with replacement characters.
    """
    texts = {_text(name): _text(value) for name, value in fields.items() if name != BODY.encode()}
    value = fields.get(BODY.encode())
    if value is None:
        message = BridgeMessage(f"{stream}-{entry}", MAP, FieldsContent(fields), size_of(fields))
    else:
        kind, body = incoming_body(value, texts.get(CONTENT_TYPE_FIELD), texts.get(KIND))
        message_id = texts.get(MESSAGE_ID) or f"{stream}-{entry}"
        message = BridgeMessage(message_id, kind, RedisContent(body, texts), size_of(fields))
    message.timestamp_ms = number(entry.partition("-")[0], 0)
    if value is not None:
        apply_texts(message, texts)
    message.is_redelivered = is_redelivered
    return message


def size_of(fields: Fields) -> int:
    """Return the bytes of an entry."""
    return sum(len(name) + len(value) for name, value in fields.items())


def outgoing_fields(message: BridgeMessage) -> list[bytes]:
    """Return names and values of the fields of an entry, in turn.

    Raises:
        MessageFormatError: body or properties have no form in Redis.
    """
    body, own_type, kind = outgoing_body(message.kind, message.content.neutral_body())
    if len(body) > MAX_BODY:
        raise MessageFormatError(f"the body has {len(body)} bytes, and a bridge to Redis takes {MAX_BODY}")
    texts = outgoing_texts(message, kind)
    for name in (BODY, CONTENT_TYPE_FIELD):
        if name in texts:
            raise MessageFormatError(f"the property {name} has no place in an entry, whose field {name} is another one")
    content_type = content_type_of(message, own_type)
    if content_type is not None:
        texts[CONTENT_TYPE_FIELD] = content_type
    fields = [BODY.encode(), body]
    for name, text in texts.items():
        fields += [name.encode(), text.encode()]
    return fields


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")


def _value(octets: bytes) -> PropertyValue:
    try:
        return STRING_VALUE, octets.decode("utf-8")
    except UnicodeDecodeError:
        return BYTES_VALUE, octets
