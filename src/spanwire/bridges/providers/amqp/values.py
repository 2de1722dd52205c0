"""Values of AMQP 1.0 as JMS values, and back."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Final

from spanwire.bridges.providers.amqp.codec import (
    ARRAY,
    BINARY,
    BOOLEAN,
    BYTE,
    CHAR,
    DECIMAL32,
    DECIMAL64,
    DECIMAL128,
    DESCRIBED,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    MAP,
    NULL,
    SHORT,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    UUID,
    Value,
)
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES_VALUE,
    CHAR_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    PropertyValue,
)

TO_JMS: Final = {
    NULL: NULL_VALUE,
    BOOLEAN: BOOLEAN_VALUE,
    BYTE: BYTE_VALUE,
    SHORT: SHORT_VALUE,
    INT: INT_VALUE,
    LONG: LONG_VALUE,
    UBYTE: SHORT_VALUE,  # an unsigned number takes the next larger type
    USHORT: INT_VALUE,
    UINT: LONG_VALUE,
    TIMESTAMP: LONG_VALUE,
    FLOAT: FLOAT_VALUE,
    DOUBLE: DOUBLE_VALUE,
    STRING: STRING_VALUE,
    SYMBOL: STRING_VALUE,
    BINARY: BYTES_VALUE,
    DECIMAL32: BYTES_VALUE,  # JMS has no decimals, so these are octets
    DECIMAL64: BYTES_VALUE,
    DECIMAL128: BYTES_VALUE,
}
FROM_JMS: Final = {
    NULL_VALUE: NULL,
    BOOLEAN_VALUE: BOOLEAN,
    BYTE_VALUE: BYTE,
    CHAR_VALUE: CHAR,
    SHORT_VALUE: SHORT,
    INT_VALUE: INT,
    LONG_VALUE: LONG,
    FLOAT_VALUE: FLOAT,
    DOUBLE_VALUE: DOUBLE,
    STRING_VALUE: STRING,
    BYTES_VALUE: BINARY,
}
LONG_MAX: Final = 2**63
LAST_OF_PLANE: Final = "\uffff"  # the largest character of Java's type char
# Ids that are no strings, as the AMQP JMS Mapping Version 1.0 of OASIS writes them.
UUID_ID: Final = "ID:AMQP_UUID:"
ULONG_ID: Final = "ID:AMQP_ULONG:"
BINARY_ID: Final = "ID:AMQP_BINARY:"


def jms_value(value: Value) -> PropertyValue:
    """Return a value of AMQP with a fitting JMS type."""
    code, content = value
    if code in TO_JMS:
        return (TO_JMS[code], content)
    if code == ULONG:
        assert isinstance(content, int)
        return (LONG_VALUE, content) if content < LONG_MAX else (STRING_VALUE, str(content))
    if code == CHAR:
        assert isinstance(content, str)
        return (CHAR_VALUE if content <= LAST_OF_PLANE else STRING_VALUE, content)
    if code == UUID:
        return (STRING_VALUE, str(content))
    if code == DESCRIBED:
        assert isinstance(content, tuple)
        return jms_value(content[1])
    assert isinstance(content, list)
    if code == MAP:
        return (MAP_VALUE, jms_map(content))
    assert code in (LIST, ARRAY)
    return (LIST_VALUE, [jms_value(item) for item in content])


def jms_map(entries: list[tuple[Value, Value]]) -> dict[str, PropertyValue]:
    """Return the entries of a map of AMQP by name; a name of another type than string becomes one."""
    return {str(jms_value(name)[1]): jms_value(value) for name, value in entries}


def amqp_value(entry: PropertyValue) -> Value:
    """Return a JMS value with its type of AMQP."""
    kind, content = entry
    if kind in FROM_JMS:
        return (FROM_JMS[kind], content)
    if kind == MAP_VALUE and isinstance(content, dict):
        return (MAP, amqp_map(content))
    if kind == LIST_VALUE and isinstance(content, list):
        return (LIST, [amqp_value(item) for item in content])
    raise MessageFormatError(f"a value of the kind {kind} has no type of AMQP")


def amqp_map(values: dict[str, PropertyValue]) -> list[tuple[Value, Value]]:
    """Return entries of a map of AMQP."""
    return [((STRING, name), amqp_value(value)) for name, value in values.items()]


def property_value(entry: PropertyValue) -> Value:
    """Return an application property; maps and lists become JSON, with octets in Base64.

    AMQP allows no map or list there.
    """
    if entry[0] in (MAP_VALUE, LIST_VALUE):
        return (STRING, json.dumps(_plain(entry), ensure_ascii=False, separators=(",", ":")))
    return amqp_value(entry)


def id_text(value: Value) -> str | None:
    """Return a message id or correlation id as text, or None without an id."""
    code, content = value
    if code == STRING:
        return str(content)
    if code == UUID:
        return UUID_ID + str(content)
    if code == ULONG:
        return ULONG_ID + str(content)
    if code == BINARY and isinstance(content, bytes):
        return BINARY_ID + content.hex().upper()
    return None


def id_value(text: str | None) -> Value:
    """Return the id that `id_text` has made a text of; any other text is a string."""
    if not text:
        return (NULL, None)
    try:
        if text.startswith(UUID_ID):
            return (UUID, uuid.UUID(text.removeprefix(UUID_ID)))
        if text.startswith(ULONG_ID):
            number = int(text.removeprefix(ULONG_ID))
            return (ULONG, number) if 0 <= number < 2 * LONG_MAX else (STRING, text)
        if text.startswith(BINARY_ID):
            return (BINARY, bytes.fromhex(text.removeprefix(BINARY_ID)))
    except ValueError:
        pass
    return (STRING, text)


def _plain(entry: PropertyValue) -> object:
    content = entry[1]
    if isinstance(content, (bytes, bytearray)):
        return base64.b64encode(content).decode()
    if isinstance(content, dict):
        return {name: _plain(inner) for name, inner in content.items()}
    return [_plain(inner) for inner in content] if isinstance(content, list) else content
