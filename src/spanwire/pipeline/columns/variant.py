"""Typed values as Spark VARIANT and back (Parquet Variant Binary Encoding, version 1).

Every JMS type has a width of its own in this encoding, so byte, short, int, long, float and double remain distinct in
Spark and Parquet. Spark's own conversions would choose the smallest integer. A VARIANT is a pair of octet strings:

    metadata   version and offset width 1 | count n | n + 1 offsets | the names of all fields, one after the other
    value      header 1 | data            the two low bits of the header are the basic type
      0 primitive      header >> 2: the type, see the constants; numbers little endian; long texts and octets
                       with a 32-bit length
      1 short string   header >> 2: the length, below 64
      2 object         header >> 2: widths and size; count | name numbers, in order of the names | offsets | values
      3 array          header >> 2: widths and size; count | offsets | values

`spanwire.protocols.primitive_map` has the same values in their wire form.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_le,
    read_f64_le,
    write_f32_le,
    write_f64_le,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES_VALUE,
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

NO_NAMES: Final = b"\x01\x00\x00"  # metadata of a value without objects
PRIMITIVE: Final = 0
SHORT_STRING: Final = 1
OBJECT: Final = 2
ARRAY: Final = 3
MAX_SHORT_STRING: Final = 63
MAX_DEPTH: Final = 16  # nested objects and arrays; the limit of the wire's maps and lists
MAX_SMALL_COUNT: Final = 255
WIDE_OFFSETS: Final = 3  # encodes a width of four octets

# Types of a primitive value.
NULL: Final = 0
TRUE: Final = 1
FALSE: Final = 2
INT8: Final = 3
INT16: Final = 4
INT32: Final = 5
INT64: Final = 6
DOUBLE: Final = 7
DECIMAL4: Final = 8
DECIMAL8: Final = 9
DECIMAL16: Final = 10
FLOAT: Final = 14
BINARY: Final = 15
STRING: Final = 16

NULL_OCTETS: Final = bytes([NULL << 2])
TRUE_OCTETS: Final = bytes([TRUE << 2])
FALSE_OCTETS: Final = bytes([FALSE << 2])
INTEGER_KINDS: Final = (BYTE_VALUE, SHORT_VALUE, INT_VALUE, LONG_VALUE)
DECIMAL_OCTETS: Final[dict[int, int]] = {DECIMAL4: 4, DECIMAL8: 8, DECIMAL16: 16}
NAMES: Final[dict[int, str]] = {
    11: "a date",
    12: "a timestamp",
    13: "a timestamp",
    17: "a time",
    18: "a timestamp",
    19: "a timestamp",
    20: "a UUID",
}


def encode_scalar(entry: PropertyValue) -> bytes:
    """Return the value octets of a value that is no map or list; its metadata are `NO_NAMES`."""
    kind, value = entry
    if isinstance(value, str):
        return encode_string(value)
    if isinstance(value, bool) and kind == BOOLEAN_VALUE:
        return TRUE_OCTETS if value else FALSE_OCTETS
    if isinstance(value, int):
        return _integer(kind, value)
    if isinstance(value, float):
        return _floating(kind, value)
    if isinstance(value, bytes):
        return _long(BINARY, value)
    if value is None:
        return NULL_OCTETS
    raise MessageFormatError(f"a {type(value).__name__} of type {kind} has no VARIANT form")


def encode_string(text: str) -> bytes:
    """Return the value octets of a text."""
    octets = text.encode("utf-8", "replace")
    if len(octets) <= MAX_SHORT_STRING:
        return bytes([len(octets) << 2 | SHORT_STRING]) + octets
    return _long(STRING, octets)


def _integer(kind: int, value: int) -> bytes:
    writer = BytesWriter()
    if kind == INT_VALUE:
        writer.append(INT32 << 2)
        write_i32_le(writer, value)
    elif kind == LONG_VALUE:
        writer.append(INT64 << 2)
        write_i64_le(writer, value)
    elif kind == SHORT_VALUE:
        writer.append(INT16 << 2)
        write_i16_le(writer, value)
    elif kind == BYTE_VALUE:
        writer.append(INT8 << 2)
        writer.append(value & 255)
    else:
        raise MessageFormatError(f"{value} is no value of type {kind}")
    return writer.getvalue()


def _floating(kind: int, value: float) -> bytes:
    writer = BytesWriter()
    if kind == FLOAT_VALUE:
        writer.append(FLOAT << 2)
        write_f32_le(writer, value)
    else:
        writer.append(DOUBLE << 2)
        write_f64_le(writer, value)
    return writer.getvalue()


def _long(kind: int, octets: bytes) -> bytes:
    writer = BytesWriter()
    writer.append(kind << 2)
    write_i32_le(writer, len(octets))
    writer.write(octets)
    return writer.getvalue()


def encode_variant(entry: PropertyValue) -> tuple[bytes, bytes]:
    """Return value and metadata of any typed value.

    Raises:
        MessageFormatError: maps and lists are nested deeper than `MAX_DEPTH`.
    """
    names: dict[str, int] = {}
    value = _encode_nested(entry, names, 1)
    return value, _metadata(names) if names else NO_NAMES


def decode_variant(value: bytes, metadata: bytes) -> PropertyValue:
    """Return the typed value of a VARIANT.

    An integer keeps its encoded width; a decimal becomes a double.

    Raises:
        MessageFormatError: JMS has no such type (dates, timestamps), or the octets are no VARIANT.
    """
    try:
        return _Reader(value, metadata).read(0, 1)
    except (IndexError, UnicodeDecodeError):
        raise MessageFormatError("a VARIANT is cut or damaged") from None


def _encode_nested(entry: PropertyValue, names: dict[str, int], depth: int) -> bytes:
    kind, value = entry
    if kind != MAP_VALUE and kind != LIST_VALUE:
        return encode_scalar(entry)
    if depth > MAX_DEPTH:
        raise MessageFormatError(f"maps and lists are nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        ordered = sorted(value.items(), key=_by_octets)
        numbers = [names.setdefault(name, len(names)) for name, _ in ordered]
        return _container(OBJECT, numbers, [_encode_nested(inner, names, depth + 1) for _, inner in ordered])
    if isinstance(value, list):
        return _container(ARRAY, None, [_encode_nested(inner, names, depth + 1) for inner in value])
    raise MessageFormatError(f"a {type(value).__name__} is no map or list")


def _by_octets(item: tuple[str, PropertyValue]) -> bytes:
    return item[0].encode("utf-8", "replace")


def _container(basic_type: int, numbers: list[int] | None, values: list[bytes]) -> bytes:
    """Return an object, or an array without ``numbers`` of field names; widths are four octets."""
    is_large = len(values) > MAX_SMALL_COUNT
    header = WIDE_OFFSETS
    if numbers is None:
        header |= 4 if is_large else 0
    else:
        header |= WIDE_OFFSETS << 2 | (16 if is_large else 0)
    writer = BytesWriter()
    writer.append(header << 2 | basic_type)
    if is_large:
        write_i32_le(writer, len(values))
    else:
        writer.append(len(values))
    if numbers is not None:
        for number in numbers:
            write_i32_le(writer, number)
    _write_run(writer, values)
    return writer.getvalue()


def _metadata(names: dict[str, int]) -> bytes:
    writer = BytesWriter()
    writer.append(1 | WIDE_OFFSETS << 6)
    write_i32_le(writer, len(names))
    _write_run(writer, [name.encode("utf-8", "replace") for name in names])
    return writer.getvalue()


def _write_run(writer: BytesWriter, parts: list[bytes]) -> None:
    """Write the offsets of the parts and of their end, then the parts."""
    offset = 0
    write_i32_le(writer, offset)
    for part in parts:
        offset += len(part)
        write_i32_le(writer, offset)
    for part in parts:
        writer.write(part)


class _Reader:
    """Reads one VARIANT; offsets count from the start of its value."""

    def __init__(self, value: bytes, metadata: bytes) -> None:
        self._value: Final[bytes] = value
        self._metadata: Final[bytes] = metadata

    def read(self, offset: int, depth: int) -> PropertyValue:
        header: int = self._value[offset]
        basic_type, rest = header & 3, header >> 2
        if basic_type == SHORT_STRING:
            return (STRING_VALUE, self._take(offset + 1, rest).decode("utf-8"))
        if basic_type == PRIMITIVE:
            return self._primitive(rest, offset + 1)
        if depth > MAX_DEPTH:
            raise MessageFormatError(f"objects and arrays are nested more than {MAX_DEPTH} deep")
        if basic_type == OBJECT:
            return (MAP_VALUE, self._object(rest, offset + 1, depth))
        return (LIST_VALUE, self._array(rest, offset + 1, depth))

    def _primitive(self, kind: int, offset: int) -> PropertyValue:
        if INT8 <= kind <= INT64:
            octets: int = 1 << (kind - INT8)
            return (INTEGER_KINDS[kind - INT8], int.from_bytes(self._take(offset, octets), "little", signed=True))
        if kind == DOUBLE:
            return (DOUBLE_VALUE, read_f64_le(self._take(offset, 8), 0))
        if kind == FLOAT:
            return (FLOAT_VALUE, read_f32_le(self._take(offset, 4), 0))
        if kind == NULL:
            return (NULL_VALUE, None)
        if kind == TRUE or kind == FALSE:
            return (BOOLEAN_VALUE, kind == TRUE)
        if kind == STRING:
            return (STRING_VALUE, self._long(offset).decode("utf-8"))
        if kind == BINARY:
            return (BYTES_VALUE, self._long(offset))
        return self._decimal(kind, offset)

    def _decimal(self, kind: int, offset: int) -> PropertyValue:
        octets = DECIMAL_OCTETS.get(kind)
        if octets is None:
            name = NAMES.get(kind, "this VARIANT")
            raise MessageFormatError(f"{name} has no JMS type; cast it to a string or a number")
        unscaled = int.from_bytes(self._take(offset + 1, octets), "little", signed=True)
        scale: int = self._value[offset]
        return (DOUBLE_VALUE, float(unscaled) / 10.0**scale)

    def _object(self, header: int, offset: int, depth: int) -> dict[str, PropertyValue]:
        offset_width, number_width, is_large = (header & 3) + 1, (header >> 2 & 3) + 1, header >> 4 & 1
        count = self._unsigned(offset, 4 if is_large else 1)
        numbers = offset + (4 if is_large else 1)
        offsets = numbers + count * number_width
        values = offsets + (count + 1) * offset_width
        entries: dict[str, PropertyValue] = {}
        for index in range(count):
            name = self._name(self._unsigned(numbers + index * number_width, number_width))
            entries[name] = self.read(values + self._unsigned(offsets + index * offset_width, offset_width), depth + 1)
        return entries

    def _array(self, header: int, offset: int, depth: int) -> list[PropertyValue]:
        offset_width, is_large = (header & 3) + 1, header >> 2 & 1
        count = self._unsigned(offset, 4 if is_large else 1)
        offsets = offset + (4 if is_large else 1)
        values = offsets + (count + 1) * offset_width
        starts = [self._unsigned(offsets + index * offset_width, offset_width) for index in range(count)]
        return [self.read(values + start, depth + 1) for start in starts]

    def _name(self, number: int) -> str:
        data = self._metadata
        width = (data[0] >> 6) + 1
        count = int.from_bytes(data[1 : 1 + width], "little")
        if number >= count:
            raise MessageFormatError("a VARIANT names a field that it does not have")
        offset = 1 + width * (1 + number)
        start = int.from_bytes(data[offset : offset + width], "little")
        end = int.from_bytes(data[offset + width : offset + 2 * width], "little")
        names = 1 + width * (count + 2)
        return data[names + start : names + end].decode("utf-8")

    def _long(self, offset: int) -> bytes:
        return self._take(offset + 4, self._unsigned(offset, 4))

    def _unsigned(self, offset: int, octets: int) -> int:
        return int.from_bytes(self._take(offset, octets), "little")

    def _take(self, offset: int, octets: int) -> bytes:
        data = self._value[offset : offset + octets]
        if len(data) != octets:
            raise MessageFormatError("a VARIANT is cut or damaged")
        return data
