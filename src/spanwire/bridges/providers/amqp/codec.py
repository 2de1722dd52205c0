"""Values of AMQP 1.0 (OASIS AMQP 1.0, part 1, section 1.6), as far as used in sections of messages.

A value is a pair of a type, by a code below, and a Python value. A list has a list of values, a map a list of pairs of
values, a described value a pair of descriptor and value. Decimals are octets.
"""

from __future__ import annotations

import struct
import uuid
from typing import Final

from spanwire.model.errors import MessageFormatError

DESCRIBED: Final = 0x00
NULL: Final = 0x40
BOOLEAN: Final = 0x56
UBYTE: Final = 0x50
USHORT: Final = 0x60
UINT: Final = 0x70
ULONG: Final = 0x80
BYTE: Final = 0x51
SHORT: Final = 0x61
INT: Final = 0x71
LONG: Final = 0x81
FLOAT: Final = 0x72
DOUBLE: Final = 0x82
CHAR: Final = 0x73
TIMESTAMP: Final = 0x83
UUID: Final = 0x98
DECIMAL32: Final = 0x74
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
BINARY: Final = 0xB0
STRING: Final = 0xB1
SYMBOL: Final = 0xB3
LIST: Final = 0xD0
MAP: Final = 0xD1
ARRAY: Final = 0xF0

MAX_DEPTH: Final = 16  # values inside each other
MAX_VALUES: Final = 100_000  # values of one message; an empty list takes one octet, and a Python object a hundred
MAX_EMPTY: Final = 16  # members of an array that take no octets, so that few octets do not become many objects
SMALL: Final = 0xFF  # largest length and count of the short forms
TOO_DEEP: Final = f"more than {MAX_DEPTH} values of AMQP stand inside each other"

Value = tuple[int, object]

_FIXED: Final[dict[int, tuple[int, str]]] = {
    UBYTE: (UBYTE, ">B"), USHORT: (USHORT, ">H"), UINT: (UINT, ">I"), ULONG: (ULONG, ">Q"), BYTE: (BYTE, ">b"),
    SHORT: (SHORT, ">h"), INT: (INT, ">i"), LONG: (LONG, ">q"), FLOAT: (FLOAT, ">f"), DOUBLE: (DOUBLE, ">d"),
    TIMESTAMP: (TIMESTAMP, ">q"), 0x52: (UINT, ">B"), 0x53: (ULONG, ">B"), 0x54: (INT, ">b"), 0x55: (LONG, ">b"),
}  # fmt: skip
_EMPTY: Final[dict[int, Value]] = {
    NULL: (NULL, None), 0x41: (BOOLEAN, True), 0x42: (BOOLEAN, False), 0x43: (UINT, 0),
    0x44: (ULONG, 0), 0x45: (LIST, []),
}  # fmt: skip
_WIDTHS: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}  # octets by the upper half of a code
_LENGTHS: Final = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}  # octets of the length
_FULL: Final = {0xA0: BINARY, 0xA1: STRING, 0xA3: SYMBOL, 0xC0: LIST, 0xC1: MAP, 0xE0: ARRAY}


class Room:
    """Number of values left to read."""

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_VALUES) -> None:
        """Allow ``left`` values."""
        self.left = left


def type_at(octets: bytes, offset: int) -> int:
    """Return the type of a value without decoding. Raises `MessageFormatError`."""
    code = _octet(octets, offset)
    kind = _EMPTY[code][0] if code in _EMPTY else _FIXED[code][0] if code in _FIXED else _FULL.get(code, code)
    value_end(octets, offset)
    return kind


def value_end(octets: bytes, offset: int, depth: int = MAX_DEPTH) -> int:
    """Return the offset behind a value, without decoding. Raises `MessageFormatError`."""
    while (code := _octet(octets, offset)) == DESCRIBED:
        if depth <= 0:
            raise MessageFormatError(TOO_DEEP)
        depth -= 1
        offset = value_end(octets, offset + 1, depth)
    return _content_end(octets, offset + 1, code)


def read(octets: bytes, offset: int = 0, room: Room | None = None) -> tuple[Value, int]:
    """Return a value and the offset behind the value. Raises `MessageFormatError`.

    Several calls can share one room.
    """
    return _Reader(octets, room or Room()).value(offset, MAX_DEPTH)


def write(value: Value) -> bytes:
    """Return the encoding of a value.

    Raises:
        MessageFormatError: the value does not fit its type.
    """
    code, content = value
    try:
        return _write(code, content)
    except (struct.error, OverflowError, UnicodeEncodeError, AttributeError, TypeError, ValueError):
        raise MessageFormatError(f"{str(content)[:60]!r} has no form in AMQP") from None


def described(code: int, octets: bytes) -> bytes:
    """Return an encoded value with a numeric descriptor, as a section of a message has it."""
    return bytes((DESCRIBED, 0x53, code)) + octets


class _Reader:
    def __init__(self, octets: bytes, room: Room) -> None:
        self._octets: Final = octets
        self._room: Final = room

    def value(self, offset: int, depth: int) -> tuple[Value, int]:
        code = _octet(self._octets, offset)
        if code == DESCRIBED:
            if depth <= 0:
                raise MessageFormatError(TOO_DEEP)
            descriptor, offset = self.value(offset + 1, depth - 1)
            inner, offset = self.value(offset, depth - 1)
            return (DESCRIBED, (descriptor, inner)), offset
        return self._of_code(code, offset + 1, depth)

    def _of_code(self, code: int, offset: int, depth: int) -> tuple[Value, int]:
        self._room.left -= 1
        if self._room.left < 0:
            raise MessageFormatError(f"a message has more than {MAX_VALUES} values")
        if code in _EMPTY:
            kind, plain = _EMPTY[code]
            return (kind, [] if kind == LIST else plain), offset
        end = _content_end(self._octets, offset, code)
        if code in _FIXED:
            kind, form = _FIXED[code]
            return (kind, struct.unpack_from(form, self._octets, offset)[0]), end
        if code >> 4 in _LENGTHS:
            return self._of_length(code, offset, end, depth), end
        return self._rest(code, self._octets[offset:end]), end

    def _rest(self, code: int, content: bytes) -> Value:
        if code == BOOLEAN and content in (b"\0", b"\1"):
            return (BOOLEAN, content == b"\1")
        if code == CHAR:
            number = int.from_bytes(content, "big")
            if number < 0x110000 and not 0xD800 <= number < 0xE000:
                return (CHAR, chr(number))
        if code == UUID:
            return (UUID, uuid.UUID(bytes=content))
        if code in (DECIMAL32, DECIMAL64, DECIMAL128):
            return (code, content)
        raise MessageFormatError(f"{content[:16].hex()} is no value of AMQP with the code {code:#04x}")

    def _of_length(self, code: int, offset: int, end: int, depth: int) -> Value:
        kind = _FULL.get(code, code)
        width = _LENGTHS[code >> 4]
        start = offset + width
        if kind == BINARY:
            return (BINARY, self._octets[start:end])
        if kind in (STRING, SYMBOL):
            try:
                return (kind, self._octets[start:end].decode("utf-8" if kind == STRING else "ascii"))
            except UnicodeDecodeError:
                raise MessageFormatError("a string or symbol of AMQP is malformed") from None
        if kind not in (LIST, MAP, ARRAY):
            raise MessageFormatError(f"there is no type of AMQP with the code {code:#04x}")
        if depth <= 0:
            raise MessageFormatError(TOO_DEEP)
        if start + width > end:
            raise MessageFormatError("a list, map or array of AMQP has no count")
        count = int.from_bytes(self._octets[start : start + width], "big")
        if count > self._room.left or (kind == MAP and count % 2):
            raise MessageFormatError(f"a list, map or array of AMQP has {count} values, which is not possible")
        values, stop = self._members(kind, start + width, count, depth - 1)
        if stop != end:
            raise MessageFormatError("a list, map or array of AMQP has another length than its values")
        if kind == MAP:
            return (MAP, list(zip(values[::2], values[1::2], strict=True)))
        return (kind, values)

    def _members(self, kind: int, offset: int, count: int, depth: int) -> tuple[list[Value], int]:
        values: list[Value] = []
        code = None
        if kind == ARRAY:
            code = _octet(self._octets, offset)
            offset += 1
            if code == DESCRIBED:
                offset = value_end(self._octets, offset)
                code = _octet(self._octets, offset)
                offset += 1
            if count > MAX_EMPTY and _WIDTHS.get(code >> 4) == 0:
                raise MessageFormatError(f"an array of AMQP has {count} members without octets, above {MAX_EMPTY}")
        for _ in range(count):
            if code is None:
                value, offset = self.value(offset, depth)
            else:
                value, offset = self._of_code(code, offset, depth)
            values.append(value)
        return values, offset


def _octet(octets: bytes, offset: int) -> int:
    if offset >= len(octets):
        raise MessageFormatError("a message of AMQP ends inside of a value")
    return octets[offset]


def _content_end(octets: bytes, offset: int, code: int) -> int:
    upper = code >> 4
    if upper in _WIDTHS:
        end = offset + _WIDTHS[upper]
    elif upper in _LENGTHS:
        width = _LENGTHS[upper]
        end = offset + width + int.from_bytes(octets[offset : offset + width], "big")
    else:
        raise MessageFormatError(f"there is no type of AMQP with the code {code:#04x}")
    if end > len(octets):
        raise MessageFormatError("a message of AMQP ends inside of a value")
    return end


def _write(code: int, content: object) -> bytes:
    if code == NULL:
        return b"\x40"
    if code == BOOLEAN:
        return b"\x41" if content else b"\x42"
    if code in _FIXED:
        return bytes((code,)) + struct.pack(_FIXED[code][1], content)
    if code == CHAR:
        assert isinstance(content, str)
        return bytes((CHAR,)) + struct.pack(">I", ord(content))
    if code == UUID:
        assert isinstance(content, uuid.UUID)
        return bytes((UUID,)) + content.bytes
    if code in (BINARY, STRING, SYMBOL):
        return _variable(code, _octets(code, content))
    if code in (LIST, MAP):
        assert isinstance(content, list)
        parts = [write(item) for pair in content for item in pair] if code == MAP else [write(item) for item in content]
        return _compound(code, parts)
    raise ValueError


def _octets(code: int, content: object) -> bytes:
    if isinstance(content, str):
        return content.encode("ascii" if code == SYMBOL else "utf-8")
    assert isinstance(content, (bytes, bytearray))
    return bytes(content)


def _variable(code: int, octets: bytes) -> bytes:
    if len(octets) <= SMALL:
        return bytes((code - 0x10, len(octets))) + octets
    return struct.pack(">BI", code, len(octets)) + octets


def _compound(code: int, parts: list[bytes]) -> bytes:
    content = b"".join(parts)
    if len(content) < SMALL and len(parts) <= SMALL:
        return bytes((code - 0x10, len(content) + 1, len(parts))) + content
    return struct.pack(">BII", code, len(content) + 4, len(parts)) + content
