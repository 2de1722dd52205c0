"""The body of a MapMessage in neutral form (``MessageView.body``) as typed entries, and back.

    map      32-bit count, then per entry 16-bit length, name, type octet, data
    list     32-bit count, then type octet and data each
    text     16-bit length (type 9) or 32-bit length (type 13), then modified UTF-8

All numbers are big-endian. The types and their numbers stand in `spanwire.model.message_view`.
"""

from __future__ import annotations

import struct
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

LONG_TEXT: Final = 13  # on the wire only
LONGEST_SHORT_TEXT: Final = 8_191  # characters; three octets each still fit a 16-bit length
MAX_DEPTH: Final = 16  # maps and lists inside each other
MAX_MAP_BYTES: Final = (
    2 * 1024 * 1024
)  # of a map that is turned into text: the loop does it; any that came as text fits
NUMBERS: Final[dict[int, struct.Struct]] = {
    BYTE_VALUE: struct.Struct(">b"),
    SHORT_VALUE: struct.Struct(">h"),
    INT_VALUE: struct.Struct(">i"),
    LONG_VALUE: struct.Struct(">q"),
    FLOAT_VALUE: struct.Struct(">f"),
    DOUBLE_VALUE: struct.Struct(">d"),
}
COUNT: Final = struct.Struct(">i")
LENGTH: Final = struct.Struct(">H")


def read_map(body: bytes) -> dict[str, PropertyValue]:
    """All entries in their order; raises `MessageFormatError` for octets that are no map, or too many."""
    if not body:
        return {}
    if len(body) > MAX_MAP_BYTES:
        raise MessageFormatError(f"a map of {len(body)} bytes is not turned into text; {MAX_MAP_BYTES} are allowed")
    reader = _Reader(body)
    try:
        return reader.map(1)
    except (struct.error, IndexError, UnicodeError, ValueError) as error:
        raise MessageFormatError(f"a map body cannot be read: {error}") from None


def write_map(entries: dict[str, PropertyValue]) -> bytes:
    """The body for these entries; raises `MessageFormatError` for what does not fit."""
    chunks: list[bytes] = []
    try:
        _write_map(chunks, entries, 1)
    except (struct.error, UnicodeError, ValueError) as error:
        raise MessageFormatError(f"a map body cannot be written: {error}") from None
    return b"".join(chunks)


class _Reader:
    """An offset into a body. Every read past the end raises."""

    def __init__(self, body: bytes) -> None:
        self._body: Final[bytes] = body
        self._at = 0

    def map(self, depth: int) -> dict[str, PropertyValue]:
        entries: dict[str, PropertyValue] = {}
        for _ in range(self._count(depth)):
            name = self._text(self._length())
            entries[name] = self._value(depth)
        return entries

    def _value(self, depth: int) -> PropertyValue:
        at = self._at
        kind = self._body[at]
        self._at = at + 1
        number = NUMBERS.get(kind)
        if number is not None:
            self._at = at + 1 + number.size
            return (kind, number.unpack_from(self._body, at + 1)[0])
        if kind == STRING_VALUE:
            return (STRING_VALUE, self._text(self._length()))
        if kind == LONG_TEXT:
            return (STRING_VALUE, self._text(COUNT.unpack(self._octets(4))[0]))
        if kind == BOOLEAN_VALUE:
            return (BOOLEAN_VALUE, self._octets(1) != b"\0")
        if kind == CHAR_VALUE:
            return (CHAR_VALUE, chr(self._length()))
        if kind == BYTES_VALUE:
            return (BYTES_VALUE, self._octets(COUNT.unpack(self._octets(4))[0]))
        if kind == MAP_VALUE:
            return (MAP_VALUE, self.map(depth + 1))
        if kind == LIST_VALUE:
            return (LIST_VALUE, [self._value(depth + 1) for _ in range(self._count(depth + 1))])
        if kind == NULL_VALUE:
            return (NULL_VALUE, None)
        raise ValueError(f"type {kind} is unknown")

    def _count(self, depth: int) -> int:
        count: int = COUNT.unpack(self._octets(4))[0]
        if depth > MAX_DEPTH:
            raise ValueError("it is too deep")
        if count > len(self._body) - self._at:
            raise ValueError(f"{count} entries are announced")
        return max(count, 0)

    def _length(self) -> int:
        at = self._at
        self._at = at + 2
        return self._body[at] << 8 | self._body[at + 1]

    def _octets(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._body):
            raise ValueError("it ends too early")
        found = self._body[self._at : end]
        self._at = end
        return found

    def _text(self, count: int) -> str:
        octets = self._octets(count)
        if octets.isascii():
            return octets.decode("ascii")
        octets = octets.replace(b"\xc0\x80", b"\0")
        halves = octets.decode("utf-8", "surrogatepass")
        return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


def _write_map(chunks: list[bytes], entries: dict[str, PropertyValue], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError("it is too deep")
    chunks.append(COUNT.pack(len(entries)))
    for name, value in entries.items():
        octets = _modified(name)
        chunks.append(LENGTH.pack(len(octets)))
        chunks.append(octets)
        _write_value(chunks, value, depth)


def _write_value(chunks: list[bytes], value: PropertyValue, depth: int) -> None:
    kind, inner = value
    number = NUMBERS.get(kind)
    if isinstance(inner, str):
        _write_text(chunks, kind, inner)
    elif isinstance(inner, bytes):
        chunks.append(bytes([BYTES_VALUE]) + COUNT.pack(len(inner)) + inner)
    elif isinstance(inner, dict):
        chunks.append(bytes([MAP_VALUE]))
        _write_map(chunks, inner, depth + 1)
    elif isinstance(inner, list):
        chunks.append(bytes([LIST_VALUE]) + COUNT.pack(len(inner)))
        for item in inner:
            _write_value(chunks, item, depth + 1)
    elif number is not None:
        chunks.append(bytes([kind]) + number.pack(inner))
    elif kind == BOOLEAN_VALUE:
        chunks.append(bytes([BOOLEAN_VALUE, 1 if inner else 0]))
    else:
        chunks.append(bytes([NULL_VALUE]))


def _write_text(chunks: list[bytes], kind: int, text: str) -> None:
    if kind == CHAR_VALUE:
        chunks.append(bytes([CHAR_VALUE]) + LENGTH.pack(ord(text[:1] or "\0")))
        return
    octets = _modified(text)
    if len(text) > LONGEST_SHORT_TEXT:
        chunks.append(bytes([LONG_TEXT]) + COUNT.pack(len(octets)))
    else:
        chunks.append(bytes([STRING_VALUE]) + LENGTH.pack(len(octets)))
    chunks.append(octets)


def _modified(text: str) -> bytes:
    """Java's UTF-8: two surrogates for a character beyond U+FFFF, two octets for the null."""
    if text.isascii() and "\0" not in text:
        return text.encode()
    pairs = text.encode("utf-16-be", "surrogatepass")
    halves = "".join([chr(pairs[place] << 8 | pairs[place + 1]) for place in range(0, len(pairs), 2)])
    return halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
