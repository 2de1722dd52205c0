"""Conversion between Python values and typed values of JMS (JMS 1.1 §3.5.4, §3.11.3).

Applies to properties, and to map and stream bodies.

| Python              | JMS type                                                                        |
|---------------------|---------------------------------------------------------------------------------|
| bool                | boolean                                                                         |
| int                 | int, or long when it does not fit into 32 bits                                  |
| float               | double                                                                          |
| str                 | String                                                                          |
| bytes               | byte[] (bodies only)                                                            |
| Byte, Short … Double| that type exactly                                                               |
| None                | null                                                                            |
| dict, list          | map, list inside a map or list body, as ActiveMQ allows                         |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

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

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
PROPERTY_NAME: Final = re.compile(r"(?:[^\W\d]|\$)[\w$\-]*")
SELECTOR_WORDS: Final = frozenset(
    {"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"}
)
MAX_KNOWN_NAMES: Final = 1_024  # cached checks of property names; a program has few names
MAX_DEPTH: Final = 16  # nested maps and lists, the limit of the wire format

TYPE_WORDS: Final[dict[int, str]] = {
    NULL_VALUE: "null",
    BOOLEAN_VALUE: "boolean",
    BYTE_VALUE: "byte",
    CHAR_VALUE: "char",
    SHORT_VALUE: "short",
    INT_VALUE: "int",
    LONG_VALUE: "long",
    DOUBLE_VALUE: "double",
    FLOAT_VALUE: "float",
    STRING_VALUE: "string",
    BYTES_VALUE: "bytes",
    MAP_VALUE: "map",
    LIST_VALUE: "list",
}


class Typed:
    """A number with its JMS type, made by `Byte`, `Short`, `Int`, `Long`, `Float` or `Double`."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: int, value: int | float) -> None:
        self.kind: Final[int] = kind
        self.value: Final[int | float] = value

    def __repr__(self) -> str:
        return f"{TYPE_WORDS[self.kind].capitalize()}({self.value})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Typed) and self.kind == other.kind and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.kind, self.value))


class Byte(Typed):
    """A JMS byte, 8 bits with a sign."""

    def __init__(self, value: int) -> None:
        super().__init__(BYTE_VALUE, value)


class Short(Typed):
    """A JMS short, 16 bits with a sign."""

    def __init__(self, value: int) -> None:
        super().__init__(SHORT_VALUE, value)


class Int(Typed):
    """A JMS int, 32 bits with a sign."""

    def __init__(self, value: int) -> None:
        super().__init__(INT_VALUE, value)


class Long(Typed):
    """A JMS long, 64 bits with a sign."""

    def __init__(self, value: int) -> None:
        super().__init__(LONG_VALUE, value)


class Float(Typed):
    """A JMS float, IEEE 754 single."""

    def __init__(self, value: float) -> None:
        super().__init__(FLOAT_VALUE, value)


class Double(Typed):
    """A JMS double, IEEE 754 double."""

    def __init__(self, value: float) -> None:
        super().__init__(DOUBLE_VALUE, value)


class Serialized:
    """Body of an ObjectMessage: a Java serialization stream, never decoded by the client.

    A stream has at least four octets; without octets the message has no object.
    """

    __slots__ = ("octets",)

    def __init__(self, octets: bytes) -> None:
        self.octets: Final[bytes] = octets


class EncodedText:
    """Body of a TextMessage in Java's modified UTF-8, equal to ASCII for ASCII texts.

    The content is not checked.

    None is the null text; Java distinguishes the null text from an empty text.
    """

    __slots__ = ("octets",)

    def __init__(self, octets: bytes | None) -> None:
        self.octets: Final[bytes | None] = octets


def typed_properties(properties: Mapping[str, object]) -> dict[str, PropertyValue]:
    """Return properties with JMS types.

    Raises `MessageFormatError` for an invalid name or value.
    """
    typed: dict[str, PropertyValue] = {}
    for name, value in properties.items():
        if not isinstance(name, str) or not name:
            raise MessageFormatError("a property has no name")
        typed_value = simple_value(value)
        if typed_value is None:
            raise MessageFormatError(
                f"the property {name[:40]!r} is a value of the type {type(value).__name__}, which no property can be"
            )
        typed[name] = typed_value
    return typed


@lru_cache(MAX_KNOWN_NAMES)
def is_property_name(name: str) -> bool:
    """Return True for a property name of JMS 1.1 §3.8.1.1: a Java identifier, but no word of selectors.

    Hyphens are allowed, too, because headers of STOMP clients contain hyphens, and selectors of some brokers can use
    such names.
    """
    return PROPERTY_NAME.fullmatch(name) is not None and name.upper() not in SELECTOR_WORDS


def check_property_names(names: Iterable[str]) -> None:
    """Raise `MessageFormatError` for an invalid property name."""
    for name in names:
        if isinstance(name, str) and name and not is_property_name(name):
            raise MessageFormatError(
                f"a property cannot be called {name[:40]!r}: write letters, digits, _, $ and - alone, no digit first, "
                "and no word of selectors such as AND"
            )


def simple_value(value: object) -> PropertyValue | None:
    """Return a property value with the wire type, or None for an unsupported value."""
    if isinstance(value, str):
        return (STRING_VALUE, value)
    if isinstance(value, bool):
        return (BOOLEAN_VALUE, value)
    if isinstance(value, int):
        return (INT_VALUE if INT_MIN <= value <= INT_MAX else LONG_VALUE, value)
    if isinstance(value, float):
        return (DOUBLE_VALUE, value)
    if isinstance(value, Typed):
        return (value.kind, value.value)
    return (NULL_VALUE, None) if value is None else None


def body_map(body: Mapping[str, object], depth: int = 1) -> dict[str, PropertyValue]:
    """Return a map body. Raises `MessageFormatError`."""
    typed: dict[str, PropertyValue] = {}
    for name, value in body.items():
        if not isinstance(name, str) or not name:
            raise MessageFormatError("an entry of a map body has no name")
        typed[name] = body_value(value, depth)
    return typed


def body_list(body: Sequence[object], depth: int = 1) -> list[PropertyValue]:
    """Return a stream body, or a list inside of a body. Raises `MessageFormatError`."""
    return [body_value(value, depth) for value in body]


def body_value(value: object, depth: int) -> PropertyValue:
    """Return a value of a map or stream body. Raises `MessageFormatError` for other values."""
    simple = simple_value(value)
    if simple is not None:
        return simple
    if isinstance(value, (bytes, bytearray, memoryview)):
        return (BYTES_VALUE, bytes(value))
    if depth >= MAX_DEPTH:
        raise MessageFormatError(
            f"maps and lists are nested more than {MAX_DEPTH} deep, or at all with jms.nestedMapAndListEnabled=false"
        )
    if isinstance(value, (dict, Mapping)):
        return (MAP_VALUE, body_map(value, depth + 1))
    if isinstance(value, (list, tuple, Sequence)):
        return (LIST_VALUE, body_list(value, depth + 1))
    raise MessageFormatError(f"a value of the type {type(value).__name__} is no value of a message body")
