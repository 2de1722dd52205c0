"""Converts between header texts and JMS types.

All properties of a STOMP message are strings except for the scheduler's. Typed properties of other messages are written
as Java prints them, because STOMP clients of ActiveMQ expect this form.
"""

from __future__ import annotations

import struct
from typing import Final

from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTES_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LONG_VALUE,
    NULL_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.protocols.stomp.codec.errors import StompProtocolError

MAX_DIGITS: Final = 19  # digits of a 64-bit number
LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1
TYPES: Final[dict[str, int]] = {
    "AMQ_SCHEDULED_DELAY": LONG_VALUE,
    "AMQ_SCHEDULED_PERIOD": LONG_VALUE,
    "AMQ_SCHEDULED_REPEAT": INT_VALUE,
}
FLOAT32: Final = struct.Struct(">f")
FLOAT32_MAX: Final = 3.4028235677973362e38  # the number just below the first double that rounds to an infinite float
FLOAT32_DIGITS: Final = 9  # significant digits that distinguish all 32-bit floats


def whole_number(name: str, text: str, largest: int) -> int:
    """Return a header as an integer of Java's int or long; raises `StompProtocolError`."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_DIGITS:
        raise StompProtocolError(f"the {name} header is not a whole number: {text[:40]}")
    number = int(text)
    if not -largest - 1 <= number <= largest:
        raise StompProtocolError(f"the {name} header is out of range: {text[:40]}")
    return number


def typed_property(name: str, text: str) -> PropertyValue:
    """Return a header as a property: a string, or a number of the scheduler. Raises `StompProtocolError`."""
    kind = TYPES.get(name)
    if kind is None:
        return (STRING_VALUE, text)
    return (kind, whole_number(name, text, LONG_MAX if kind == LONG_VALUE else INT_MAX))


def property_text(value: PropertyValue) -> str | None:
    """Return a property as a header value; None for bytes, which have no text form."""
    kind, inner = value
    if kind == NULL_VALUE or inner is None:
        return "null"
    if kind == BYTES_VALUE:
        return None
    if isinstance(inner, (dict, list)):
        return collection_text(inner)
    if kind == BOOLEAN_VALUE:
        return "true" if inner else "false"
    if isinstance(inner, float):
        if kind == FLOAT_VALUE:
            return java_number(shortest_float32(inner))
        if kind == DOUBLE_VALUE:
            return java_number(repr(inner))
    return str(inner)


def collection_text(values: dict[str, PropertyValue] | list[PropertyValue]) -> str:
    """Return a map or list as Java prints it: ``{name=value}``, ``[value, value]``.

    Bytes inside have no text.
    """
    if isinstance(values, list):
        return "[" + ", ".join([property_text(value) or "" for value in values]) + "]"
    return "{" + ", ".join([name + "=" + (property_text(value) or "") for name, value in values.items()]) + "}"


def shortest_float32(number: float) -> str:
    """Return the fewest digits that identify the 32-bit float."""
    if number != number or number in (float("inf"), float("-inf")):
        return repr(number)
    packed = FLOAT32.pack(number)
    for digits in range(1, FLOAT32_DIGITS):
        rounded = float(f"{number:.{digits}g}")
        if abs(rounded) <= FLOAT32_MAX and FLOAT32.pack(rounded) == packed:
            return repr(rounded)
    return repr(float(f"{number:.{FLOAT32_DIGITS}g}"))


def java_number(text: str) -> str:
    """Convert Python's shortest text of a float to the form of Java's Double.toString."""
    if text == "nan":
        return "NaN"
    if text in ("inf", "-inf"):
        return text.replace("inf", "Infinity")
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent_text = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    exponent = int(exponent_text) if exponent_text else 0
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + exponent - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not digits:
        return sign + "0.0"
    if -2 <= point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        digits = digits.ljust(point, "0")
        return f"{sign}{digits[:point]}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
