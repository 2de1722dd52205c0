"""Bodies of messages in systems without JMS kinds: octets with a content type.

| kind | content type | octets |
|---|---|---|
| text | ``text/plain`` | UTF-8 |
| bytes | ``application/octet-stream`` | unchanged |
| map, stream | ``application/json`` | a JSON object or array; octets inside are Base64 |
| Java object | ``application/x-java-serialized-object`` | unchanged |
| without body | none | none |

Map, stream and a message without body need the property `KIND` in addition to return unchanged.
"""

from __future__ import annotations

import base64
import json
from typing import Final

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTES,
    DOUBLE_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP,
    MAP_VALUE,
    NULL_VALUE,
    OBJECT,
    PLAIN,
    STREAM,
    STRING_VALUE,
    TEXT,
    PropertyValue,
)
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, decode_stream, encode_map, encode_stream

KIND: Final = "JMSKind"  # property with a name of `KINDS`
CONTENT_TYPE: Final = "content_type"  # property with a content type that is none of ours
KINDS: Final = {MAP: "map", STREAM: "stream", PLAIN: "plain"}
TEXT_TYPE: Final = "text/plain"
BYTES_TYPE: Final = "application/octet-stream"
JSON_TYPE: Final = "application/json"
OBJECT_TYPE: Final = "application/x-java-serialized-object"
TYPES: Final = {TEXT: TEXT_TYPE, BYTES: BYTES_TYPE, MAP: JSON_TYPE, STREAM: JSON_TYPE, OBJECT: OBJECT_TYPE}
TEXTUAL: Final = ("text/", "application/json", "application/xml")
MAX_JSON_BYTES: Final = 1024 * 1024  # bytes of a map or stream as JSON; the event loop converts it
INT_MAX: Final = 2**31
LONG_MAX: Final = 2**63


class BrokenContent:
    """The content of a message that nobody can read: the bridge makes it a dead letter."""

    def __init__(self, reason: str) -> None:
        self._reason: Final = reason

    def neutral_body(self) -> bytes | None:
        """Raise `MessageFormatError`."""
        raise MessageFormatError(self._reason)

    def property_values(self) -> dict[str, PropertyValue]:
        """Raise `MessageFormatError`."""
        raise MessageFormatError(self._reason)


def outgoing_body(kind: int, body: bytes | None) -> tuple[bytes, str | None, str | None]:
    """Return the octets, the content type, and the value of `KIND` for a neutral body.

    Raises:
        MessageFormatError: a text is not UTF-8, or a map or stream is too large.
    """
    octets = body or b""
    if kind == MAP:
        octets = _json({name: _plain(value) for name, value in decode_map(octets, UNBOUNDED).items()})
    elif kind == STREAM:
        octets = _json([_plain(value) for value in decode_stream(octets, UNBOUNDED)])
    elif kind == TEXT:
        check_text(octets)
    return octets, TYPES.get(kind), KINDS.get(kind, None if kind in TYPES else KINDS[PLAIN])


def incoming_body(octets: bytes, content_type: str | None, kind: str | None) -> tuple[int, bytes | None]:
    """Return the kind and the neutral body of a message.

    Octets in UTF-8 with a textual content type are a text, even with a false claim to be a map or stream.
    """
    if kind == KINDS[PLAIN] and not octets:
        return PLAIN, None
    if kind in (KINDS[MAP], KINDS[STREAM]) and len(octets) <= MAX_JSON_BYTES:
        decoded = _read_json(octets, kind)
        if decoded is not None:
            return decoded
    if content_type == OBJECT_TYPE:
        return OBJECT, octets
    if content_type is not None and content_type.lower().startswith(TEXTUAL):
        try:
            octets.decode("utf-8")
            return TEXT, octets
        except UnicodeDecodeError:
            return BYTES, octets
    return BYTES, octets


def foreign_type(content_type: str | None) -> str | None:
    """Return a content type not implied by the kind of a message."""
    return None if content_type in (None, TEXT_TYPE, BYTES_TYPE, OBJECT_TYPE) else content_type


def check_text(octets: bytes) -> None:
    """Raise `MessageFormatError` for a text that is not UTF-8."""
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError:
        raise MessageFormatError("the text of a message is not UTF-8") from None


def typed(value: object) -> PropertyValue:
    """Return a value of Python with a fitting JMS type. Raises `MessageFormatError`."""
    if value is None:
        return (NULL_VALUE, None)
    if isinstance(value, bool):
        return (BOOLEAN_VALUE, value)
    if isinstance(value, int):
        if not -LONG_MAX <= value < LONG_MAX:
            raise MessageFormatError(f"the number {value} exceeds a long")
        return (INT_VALUE if -INT_MAX <= value < INT_MAX else LONG_VALUE, value)
    if isinstance(value, float):
        return (DOUBLE_VALUE, value)
    if isinstance(value, str):
        return (STRING_VALUE, value)
    if isinstance(value, dict):
        return (MAP_VALUE, {str(name): typed(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return (LIST_VALUE, [typed(inner) for inner in value])
    raise MessageFormatError(f"a {type(value).__name__} has no JMS type")


def _read_json(octets: bytes, kind: str | None) -> tuple[int, bytes] | None:
    try:
        value = json.loads(octets)
        if kind == KINDS[MAP] and isinstance(value, dict):
            return MAP, encode_map({name: typed(inner) for name, inner in value.items()})
        if kind == KINDS[STREAM] and isinstance(value, list):
            return STREAM, encode_stream([typed(inner) for inner in value])
    except (ValueError, RecursionError, MessageFormatError):
        return None
    return None


def _json(value: object) -> bytes:
    try:
        octets = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise MessageFormatError("a text inside the body is not valid Unicode") from None
    if len(octets) > MAX_JSON_BYTES:
        raise MessageFormatError(f"a map or stream of {len(octets)} bytes as JSON exceeds {MAX_JSON_BYTES}")
    return octets


def _plain(entry: PropertyValue) -> object:
    value = entry[1]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
