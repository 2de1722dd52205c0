"""Primitive maps, lists and streams.

Message properties, map and stream bodies and WireFormatInfo properties are such maps, lists or streams.

    map      32-bit count (-1: null), then per entry 16-bit length, name, value
    list     32-bit count, then values
    stream   values up to the end, no count
    value    type octet, then the data; `spanwire.model.message_view` numbers the types

The layout is independent of the connection's encoding. A value is stored as ``(type, value)`` to preserve its JMS type.
Decoding raises `MessageFormatError` for malformed data, encoding for values without a form.
"""

from __future__ import annotations

from math import inf
from typing import Final

from librt.strings import read_i32_be, write_f32_be, write_f64_be

from spanwire.model.errors import MessageFormatError, ProtocolError
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
from spanwire.protocols.octets import OctetReader, OctetWriter, encode_text

BIG_STRING: Final = 13  # a type on the wire only: a string with a 32-bit length
BIG_STRING_LENGTH: Final = 8191  # characters; Java writes longer strings as big strings
MAX_PROPERTIES: Final = 4_000  # entries of a property map, including nested ones; decoding takes some 15 ms
MAX_BODY_VALUES: Final = 10_000  # entries of a map or stream body that the broker must decode, including nested ones
UNBOUNDED: Final = 1 << 31  # entries; for clients, whose own messages are bounded by the frame size
MAX_DEPTH: Final = 16  # nested maps and lists; bounds the recursion
COUNT_OCTETS: Final = 4
NULL_MAP: Final = -1
MIN_ENTRY_OCTETS: Final = 3  # octets of an empty name and a null
MAX_NAME_OCTETS: Final = 65535
FLOAT_MAX: Final = 3.4028235677973362e38  # the number just below the first double that rounds to an infinite float


class EntryReader(OctetReader):
    """Reads a map, list or stream of at most ``max_entries`` entries.

    Entries of nested maps and lists are included.

    Announced entries count before any of them is read.
    """

    def __init__(self, data: bytes, max_entries: int) -> None:
        super().__init__(data, 0, len(data))
        self._max_entries: Final[int] = max_entries
        self._unused = max_entries

    def count_entries(self, count: int) -> None:
        """Count ``count`` announced entries; raises `MessageFormatError` for too many."""
        self._unused -= count
        if self._unused < 0:
            raise too_many_entries(self._max_entries)


def too_many_entries(max_entries: int) -> MessageFormatError:
    """Return the error for a map, list or stream with more than ``max_entries`` entries."""
    return MessageFormatError(f"more than {max_entries} entries, nested maps and lists included; send fewer")


def decode_map(data: bytes, max_entries: int = MAX_PROPERTIES) -> dict[str, PropertyValue]:
    """Decode the entries of a map in wire order; a null map is empty.

    Octets after the map are ignored, as in Java.

    Raises:
        MessageFormatError: the map is malformed or has more than ``max_entries`` entries.
    """
    if not data:
        return {}
    try:
        return _read_map(EntryReader(data, max_entries), 1)
    except ProtocolError as error:
        raise MessageFormatError(f"a property map cannot be read: {error}") from None


def check_map_count(data: bytes) -> None:
    """Raise `MessageFormatError` if a property map announces too many entries; decode nothing.

    The limit is `MAX_PROPERTIES`.
    """
    if len(data) >= COUNT_OCTETS and read_i32_be(data, 0) > MAX_PROPERTIES:
        raise MessageFormatError(f"a property map cannot be read: {too_many_entries(MAX_PROPERTIES)}")


def decode_plain_map(data: bytes) -> dict[str, object]:
    """Decode a map into plain Python values."""
    return plain_map(decode_map(data))


def decode_stream(data: bytes, max_entries: int = MAX_BODY_VALUES) -> list[PropertyValue]:
    """Decode all values up to the end.

    Raises `MessageFormatError` for bad or more than ``max_entries`` values.
    """
    values: list[PropertyValue] = []
    reader = EntryReader(data, max_entries)
    try:
        while reader.position < reader.end:
            reader.count_entries(1)
            values.append(_read_value(reader, 1))
    except ProtocolError as error:
        raise MessageFormatError(f"a stream body cannot be read: {error}") from None
    return values


def encode_map(entries: dict[str, PropertyValue]) -> bytes:
    """Encode a map with its count, in the order of ``entries``."""
    writer = OctetWriter()
    try:
        _write_map(writer, entries, 1)
    except ProtocolError as error:
        raise MessageFormatError(f"a property map cannot be written: {error}") from None
    return writer.out.getvalue()


def encode_stream(values: list[PropertyValue]) -> bytes:
    """Encode a sequence of values without a count."""
    writer = OctetWriter()
    try:
        for value in values:
            _write_value(writer, value, 1)
    except ProtocolError as error:
        raise MessageFormatError(f"a stream body cannot be written: {error}") from None
    return writer.out.getvalue()


def plain_map(entries: dict[str, PropertyValue]) -> dict[str, object]:
    """Return the values of a map without their types."""
    return {name: plain_value(entry) for name, entry in entries.items()}


def plain_value(entry: PropertyValue) -> object:
    """Return a value without its type; nested maps and lists become plain as well."""
    value = entry[1]
    if isinstance(value, dict):
        return {name: plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain_value(inner) for inner in value]
    return value


def _read_count(reader: EntryReader, octets_each: int) -> int:
    count = reader.read_int()
    if count < 0:
        raise MessageFormatError(f"a map or list announces {count} entries")
    if count * octets_each > reader.remaining():
        raise MessageFormatError(f"a map or list announces {count} entries where {reader.remaining()} bytes are left")
    reader.count_entries(count)
    return count


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise MessageFormatError(f"maps and lists are nested more than {MAX_DEPTH} deep")


def _read_map(reader: EntryReader, depth: int) -> dict[str, PropertyValue]:
    _check_depth(depth)
    entries: dict[str, PropertyValue] = {}
    start = reader.position
    if reader.read_int() == NULL_MAP:
        return entries
    reader.position = start
    for _ in range(_read_count(reader, MIN_ENTRY_OCTETS)):
        name = reader.read_text(reader.read_unsigned_short())
        entries[name] = _read_value(reader, depth)
    return entries


def _read_list(reader: EntryReader, depth: int) -> list[PropertyValue]:
    _check_depth(depth)
    return [_read_value(reader, depth) for _ in range(_read_count(reader, 1))]


def _read_value(reader: EntryReader, depth: int) -> PropertyValue:
    kind = reader.read_unsigned_byte()
    if kind == STRING_VALUE:
        return (STRING_VALUE, reader.read_text(reader.read_unsigned_short()))
    if kind == INT_VALUE:
        return (INT_VALUE, reader.read_int())
    if kind == LONG_VALUE:
        return (LONG_VALUE, reader.read_full_long())
    if kind == BOOLEAN_VALUE:
        return (BOOLEAN_VALUE, reader.read_unsigned_byte() != 0)
    if kind == DOUBLE_VALUE:
        return (DOUBLE_VALUE, reader.read_double())
    if kind == NULL_VALUE:
        return (NULL_VALUE, None)
    return _read_rare_value(reader, kind, depth)


def _read_rare_value(reader: EntryReader, kind: int, depth: int) -> PropertyValue:
    if kind == BYTE_VALUE:
        return (BYTE_VALUE, reader.read_byte())
    if kind == SHORT_VALUE:
        return (SHORT_VALUE, reader.read_short())
    if kind == CHAR_VALUE:
        return (CHAR_VALUE, chr(reader.read_unsigned_short()))
    if kind == FLOAT_VALUE:
        return (FLOAT_VALUE, reader.read_float())
    if kind == BYTES_VALUE:
        return (BYTES_VALUE, reader.read_octets(reader.read_int()))
    if kind == BIG_STRING:
        return (STRING_VALUE, reader.read_text(reader.read_int()))
    if kind == MAP_VALUE:
        return (MAP_VALUE, _read_map(reader, depth + 1))
    if kind == LIST_VALUE:
        return (LIST_VALUE, _read_list(reader, depth + 1))
    raise MessageFormatError(f"unknown value type {kind}")


def _write_map(writer: OctetWriter, entries: dict[str, PropertyValue], depth: int) -> None:
    _check_depth(depth)
    writer.write_int(len(entries))
    for name, entry in entries.items():
        octets = encode_text(name)
        if len(octets) > MAX_NAME_OCTETS:
            raise MessageFormatError(f"the property name {name[:40]!r}… is longer than {MAX_NAME_OCTETS} bytes")
        writer.write_short(len(octets))
        writer.write_octets(octets)
        _write_value(writer, entry, depth)


def _write_value(writer: OctetWriter, entry: PropertyValue, depth: int) -> None:
    kind, value = entry
    if isinstance(value, str):
        _write_text(writer, kind, value)
    elif isinstance(value, int):
        _write_integer(writer, kind, value)
    elif isinstance(value, float) and kind == DOUBLE_VALUE:
        writer.write_byte(kind)
        write_f64_be(writer.out, value)
    elif isinstance(value, float) and kind == FLOAT_VALUE:
        writer.write_byte(kind)
        _write_float(writer, value)
    else:
        _write_rare_value(writer, kind, value, depth)


def _write_rare_value(writer: OctetWriter, kind: int, value: object, depth: int) -> None:
    writer.write_byte(kind)
    if isinstance(value, bytes) and kind == BYTES_VALUE:
        writer.write_int(len(value))
        writer.write_octets(value)
    elif isinstance(value, dict) and kind == MAP_VALUE:
        _write_map(writer, value, depth + 1)
    elif isinstance(value, list) and kind == LIST_VALUE:
        _check_depth(depth + 1)
        writer.write_int(len(value))
        for inner in value:
            _write_value(writer, inner, depth + 1)
    elif value is not None or kind != NULL_VALUE:
        raise MessageFormatError(f"a {type(value).__name__} is no value of type {kind}")


def _write_float(writer: OctetWriter, value: float) -> None:
    if FLOAT_MAX < abs(value) < inf:
        raise MessageFormatError(f"{value} does not fit into a float")
    write_f32_be(writer.out, value)


def _write_text(writer: OctetWriter, kind: int, value: str) -> None:
    if kind == CHAR_VALUE and len(value) == 1 and value <= "\uffff":
        writer.write_byte(kind)
        writer.write_short(ord(value))
        return
    if kind != STRING_VALUE:
        raise MessageFormatError(f"a string is no value of type {kind}")
    octets = encode_text(value)
    if len(value) >= BIG_STRING_LENGTH:
        writer.write_byte(BIG_STRING)
        writer.write_int(len(octets))
    else:
        writer.write_byte(kind)
        writer.write_short(len(octets))
    writer.write_octets(octets)


def _write_integer(writer: OctetWriter, kind: int, value: int) -> None:
    writer.write_byte(kind)
    if kind == INT_VALUE:
        writer.write_int(value)
    elif kind == LONG_VALUE:
        writer.write_full_long(value)
    elif kind == BOOLEAN_VALUE:
        writer.write_byte(1 if value else 0)
    elif kind == BYTE_VALUE and -128 <= value <= 127:
        writer.write_byte(value)
    elif kind == SHORT_VALUE and -32768 <= value <= 32767:
        writer.write_short(value)
    elif kind == DOUBLE_VALUE:
        write_f64_be(writer.out, float(value))
    elif kind == FLOAT_VALUE:
        _write_float(writer, float(value))
    else:
        raise MessageFormatError(f"{value} is no value of type {kind}")
