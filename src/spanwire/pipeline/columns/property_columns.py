"""Properties of messages as columns of names and VARIANT values, directly from the octets of the wire.

Numbers and ASCII texts are copied between the two encodings without a Python value. A map with any other value (a text
beyond ASCII, a character, octets, a map or list, a repeated name) is decoded by `spanwire.protocols.primitive_map` and
encoded by `spanwire.pipeline.columns.variant`, with the same result.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i32, i64

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
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
from spanwire.pipeline.columns import variant
from spanwire.pipeline.columns.column_builder import end_of
from spanwire.pipeline.columns.variant import NO_NAMES, encode_scalar, encode_variant
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map

MAX_LAYOUT: Final = 64  # properties; names of longer rows are not compared with the previous row
COUNT_OCTETS: Final = 4
LENGTH_OCTETS: Final = 2
NULL_MAP: Final = -1
NO_OFFSET: Final[i64] = -1

NULL: Final = variant.NULL << 2
TRUE: Final = variant.TRUE << 2
FALSE: Final = variant.FALSE << 2
INT8: Final = variant.INT8 << 2
INT16: Final = variant.INT16 << 2
INT32: Final = variant.INT32 << 2
INT64: Final = variant.INT64 << 2
FLOAT: Final = variant.FLOAT << 2
DOUBLE: Final = variant.DOUBLE << 2
STRING: Final = variant.STRING << 2


class PropertyColumns:
    """The properties of consecutive rows."""

    def __init__(self) -> None:
        self.count: i32 = 0  # properties of all rows
        self.metadata: Final[dict[int, bytes]] = {}  # by property index; `NO_NAMES` for all other properties
        self._rows: Final = BytesWriter()
        self._names: Final = BytesWriter()
        self._name_ends: Final = BytesWriter()
        self._values: Final = BytesWriter()
        self._value_ends: Final = BytesWriter()
        self._layout: Final[list[bytes]] = []
        write_i32_le(self._rows, 0)
        write_i32_le(self._name_ends, 0)
        write_i32_le(self._value_ends, 0)

    def add(self, data: bytes, start: i64, end: i64) -> bool:
        """Add a row whose properties are the map between two offsets.

        Returns:
            False if the map cannot be decoded; then neither properties nor a row are added.
        """
        count = self.count
        names, name_ends = len(self._names), len(self._name_ends)
        values, value_ends = len(self._values), len(self._value_ends)
        if not self._add_plain(data, start, end):
            self.count = count
            self._names.truncate(names)
            self._name_ends.truncate(name_ends)
            self._values.truncate(values)
            self._value_ends.truncate(value_ends)
            try:
                entries = decode_map(data[start:end], UNBOUNDED)
            except MessageFormatError:
                return False
            self._add_entries(entries)
        write_i32_le(self._rows, self.count)
        return True

    def add_none(self) -> None:
        """Add a row without properties."""
        write_i32_le(self._rows, self.count)

    def row_ends(self) -> bytes:
        """Return 32-bit numbers: 0, then the end of each row's properties among all properties."""
        return self._rows.getvalue()

    def names(self) -> tuple[bytes, bytes]:
        """Return the ends of the property names, and the names end to end."""
        return self._name_ends.getvalue(), self._names.getvalue()

    def values(self) -> tuple[bytes, bytes]:
        """Return the ends of the VARIANT values, and the values end to end."""
        return self._value_ends.getvalue(), self._values.getvalue()

    def _add_plain(self, data: bytes, start: i64, end: i64) -> bool:
        """Add a map of numbers and ASCII texts; return False, possibly with a part added, for any other map."""
        if start == end:
            return True
        offset: i64 = start + COUNT_OCTETS
        if offset > end:
            return False
        count: i32 = read_i32_be(data, start)
        if count < 0 or count > MAX_LAYOUT:
            return count == NULL_MAP
        index: i32 = 0
        while index < count:
            name_start: i64 = offset + LENGTH_OCTETS
            if name_start > end:
                return False
            length = i64(read_i16_be(data, offset))
            offset = name_start + length
            if length < 0 or offset >= end:
                return False
            name = data[name_start:offset]
            if not self._is_new_name(index, name):
                return False
            self._names.write(name)
            write_i32_le(self._name_ends, i32(end_of(len(self._names))))
            offset = self._add_value(data, offset, end)
            if offset < 0:
                return False
            index += 1
        self.count += count
        return True

    def _is_new_name(self, index: i32, name: bytes) -> bool:
        """Return True if the name is ASCII and differs from earlier names of the row.

        The names of the row so far are the first entries of the layout.
        """
        layout = self._layout
        if index < len(layout):
            if layout[index] == name:
                return True
            del layout[index:]
        if not name.isascii() or name in layout:
            return False
        layout.append(name)
        return True

    def _add_value(self, data: bytes, offset: i64, end: i64) -> i64:
        """Return the offset behind the value, or `NO_OFFSET` for a value that cannot be copied."""
        kind: int = data[offset]
        offset += 1
        if kind == STRING_VALUE:
            offset = self._add_text(data, offset, end)
        elif kind == INT_VALUE:
            offset = self._add_four(INT32, data, offset, end)
        elif kind == LONG_VALUE:
            offset = self._add_eight(INT64, data, offset, end)
        elif kind == DOUBLE_VALUE:
            offset = self._add_eight(DOUBLE, data, offset, end)
        elif kind == FLOAT_VALUE:
            offset = self._add_four(FLOAT, data, offset, end)
        elif kind == NULL_VALUE:
            self._values.append(NULL)
        else:
            offset = self._add_small(kind, data, offset, end)
        write_i32_le(self._value_ends, i32(end_of(len(self._values))))
        return offset

    def _add_text(self, data: bytes, offset: i64, end: i64) -> i64:
        start: i64 = offset + LENGTH_OCTETS
        if start > end:
            return NO_OFFSET
        length = i64(read_i16_be(data, offset))
        if length < 0 or start + length > end:
            return NO_OFFSET
        text = data[start : start + length]
        if not text.isascii():
            return NO_OFFSET
        if length <= variant.MAX_SHORT_STRING:
            self._values.append(length << 2 | variant.SHORT_STRING)
        else:
            self._values.append(STRING)
            write_i32_le(self._values, i32(length))
        self._values.write(text)
        return start + length

    def _add_four(self, header: int, data: bytes, offset: i64, end: i64) -> i64:
        if offset + 4 > end:
            return NO_OFFSET
        self._values.append(header)
        write_i32_le(self._values, read_i32_be(data, offset))
        return offset + 4

    def _add_eight(self, header: int, data: bytes, offset: i64, end: i64) -> i64:
        if offset + 8 > end:
            return NO_OFFSET
        self._values.append(header)
        write_i64_le(self._values, read_i64_be(data, offset))
        return offset + 8

    def _add_small(self, kind: int, data: bytes, offset: i64, end: i64) -> i64:
        """Add a value of at most two octets."""
        if kind == BOOLEAN_VALUE and offset < end:
            self._values.append(TRUE if data[offset] else FALSE)
            return offset + 1
        if kind == BYTE_VALUE and offset < end:
            self._values.append(INT8)
            self._values.append(data[offset])
            return offset + 1
        if kind == SHORT_VALUE and offset + 2 <= end:
            self._values.append(INT16)
            write_i16_le(self._values, read_i16_be(data, offset))
            return offset + 2
        return NO_OFFSET

    def _add_entries(self, entries: dict[str, PropertyValue]) -> None:
        for name, entry in entries.items():
            if entry[0] == MAP_VALUE or entry[0] == LIST_VALUE:
                value, metadata = encode_variant(entry)
                if metadata != NO_NAMES:
                    self.metadata[self.count] = metadata
            else:
                value = encode_scalar(entry)
            self._names.write(name.encode("utf-8", "replace"))
            write_i32_le(self._name_ends, i32(end_of(len(self._names))))
            self._values.write(value)
            write_i32_le(self._value_ends, i32(end_of(len(self._values))))
            self.count += 1
