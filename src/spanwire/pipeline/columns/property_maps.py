"""The properties of rows as the wire's primitive maps, straight from Arrow's columns.

    Arrow   where the entries of each row end | names | VARIANT values and their metadata, or texts
    wire    count 4 | for each property: length 2, name | type, data

(Apache Arrow Columnar Format, Map; Parquet, Variant Binary Encoding; OpenWire, primitive map.) The layouts of numbers
and of ASCII texts differ by little more than their byte order, so no value becomes a Python object in between. What is
rare goes the long way through `spanwire.pipeline.columns.variant`.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_le,
    read_f64_le,
    read_i16_le,
    read_i32_le,
    read_i64_le,
    write_f32_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i64

from spanwire.client.messages.message_encoder import property_octets
from spanwire.client.messages.typed_values import Typed, typed_properties
from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LONG_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.pipeline.columns import variant
from spanwire.pipeline.columns.column_view import Run, is_plain_text
from spanwire.protocols.octets import patch_int
from spanwire.protocols.primitive_map import BIG_STRING, BIG_STRING_LENGTH, encode_map

COUNT_OCTETS: Final = 4
LENGTH_OCTETS: Final = 4  # of a long text
MAX_KNOWN_NAMES: Final = 1024  # names of properties whose octets are remembered; forgotten all at once
MAX_KNOWN_NAME: Final = 1024  # octets of a name that is remembered
MAX_LAYOUT: Final = 64  # properties of a row whose names are compared with those of the row before
HAS_DOUBLES: Final = -1


class PropertyRuns:
    """The properties of some rows. ``rows`` tells where those of a row end, and which rows have none at all. Without
    ``metadata`` the values are texts, else VARIANTs.
    """

    def __init__(self, rows: Run, names: Run, values: Run, metadata: Run | None) -> None:
        self.rows: Final[Run] = rows
        self.names: Final[Run] = names
        self.values: Final[Run] = values
        self.metadata: Final[Run | None] = metadata


class PropertyMapWriter:
    """Makes maps, for one row after the other; with a name for ids also ``prefix/0``, ``prefix/1`` under it."""

    def __init__(self, id_name: str | None = None, prefix: str = "") -> None:
        self._id_name: Final[str | None] = id_name
        self._prefix: Final[str] = prefix
        self._id_octets: Final[bytes] = b"" if id_name is None else _name_octets(id_name.encode())
        self._rows = 0
        self._names: Final[dict[bytes, bytes]] = {}
        self._layout: Final[list[bytes]] = []

    def of_columns(self, columns: PropertyRuns, count: int) -> list[bytes]:
        """The maps of the next ``count`` rows; no octets for none. Raises `ConfigurationError` for a value that JMS has
        no type for, and `MessageFormatError` for one that no property can have.
        """
        found: list[bytes] = []
        rows = columns.rows
        row: i64 = 0
        while row < count:
            if rows.is_null(row):
                found.append(self._row(columns, 0, 0))
            else:
                found.append(self._row(columns, rows.place(row), rows.place(row + 1)))
            row += 1
        return found

    def of_values(self, rows: list[dict[str, object]]) -> list[bytes]:
        """The same for properties as the client takes them."""
        found: list[bytes] = []
        for properties in rows:
            given = properties
            if self._id_name is not None:
                given = dict(properties)
                given[self._id_name] = self._next_id()
            found.append(property_octets(given, None))
        return found

    def of_nothing(self, count: int) -> list[bytes] | None:
        """The same for rows without any; None for no maps at all."""
        if self._id_name is None:
            return None
        empty: dict[str, object] = {}
        return self.of_values([empty] * count)

    def _next_id(self) -> str:
        found = f"{self._prefix}/{self._rows}"
        self._rows += 1
        return found

    def _row(self, columns: PropertyRuns, start: i64, end: i64) -> bytes:
        own = self._id_octets
        if end == start and not own:
            return b""
        out = BytesWriter()
        write_i32_be(out, 0)
        count = self._write_all(out, columns, start, end)
        if count < 0:
            out.truncate(COUNT_OCTETS)
            count = self._write_last(out, columns, start, end)
        if own:
            count += 1
            out.write(own)
            octets = self._next_id().encode()
            if not _wrote_text(out, octets, 0, len(octets)):
                assert self._id_name is not None
                out.write(_long_way(self._id_name, octets.decode()))
        patch_int(out, 0, count)
        return out.getvalue()

    def _write_all(self, out: BytesWriter, columns: PropertyRuns, start: i64, end: i64) -> int:
        """How many there are, without that of the id, which takes its place; `HAS_DOUBLES` when a name may be there
        twice, and some may have been written then.
        """
        if end - start > MAX_LAYOUT:
            return HAS_DOUBLES
        own = self._id_octets
        count = 0
        position = 0
        index = start
        while index < end:
            name = self._name(columns.names.at(index))
            if not self._is_new_name(position, name):
                return HAS_DOUBLES
            if not own or name != own:
                out.write(name)
                self._write(out, columns, index)
                count += 1
            position += 1
            index += 1
        return count

    def _write_last(self, out: BytesWriter, columns: PropertyRuns, start: i64, end: i64) -> int:
        """The same where a name may be there twice: its last value counts, in the place of the first."""
        last: dict[bytes, int] = {}
        index = start
        while index < end:
            last[self._name(columns.names.at(index))] = index
            index += 1
        last.pop(self._id_octets, None)
        for name, place in last.items():
            out.write(name)
            self._write(out, columns, place)
        return len(last)

    def _is_new_name(self, position: int, name: bytes) -> bool:
        """Whether the name is not that of an earlier property of this row. The names of a row are in the layout as far
        as they have come.
        """
        layout = self._layout
        if position < len(layout):
            if layout[position] == name:
                return True
            del layout[position:]
        if name in layout:
            return False
        layout.append(name)
        return True

    def _name(self, name: bytes) -> bytes:
        known = self._names.get(name)
        if known is None:
            known = _name_octets(name)
            if len(name) > MAX_KNOWN_NAME:
                return known
            if len(self._names) >= MAX_KNOWN_NAMES:
                self._names.clear()
            self._names[name] = known
        return known

    def _write(self, out: BytesWriter, columns: PropertyRuns, index: i64) -> None:
        values = columns.values
        if values.is_null(index):
            out.append(NULL_VALUE)
            return
        start, end = values.place(index), values.place(index + 1)
        metadata = columns.metadata
        if metadata is None:
            if not _wrote_text(out, values.octets, start, end):
                out.write(_long_way(_told(columns.names.at(index)), _decoded_text(values.at(index))))
        elif not _wrote_variant(out, values.octets, start, end):
            name = _told(columns.names.at(index))
            entry = decoded(values.at(index), metadata.at(index), f"the property {name!r}")
            out.write(_long_way(name, client_value(entry)))


def _wrote_variant(out: BytesWriter, octets: bytes, start: i64, end: i64) -> bool:
    """False for what has to go the long way, and nothing was written."""
    if start >= end:
        return False
    header: int = octets[start]
    if header & 3 == variant.SHORT_STRING:
        return end - start == 1 + (header >> 2) and _wrote_text(out, octets, start + 1, end)
    if header & 3 != variant.PRIMITIVE:
        return False
    kind = header >> 2
    if kind == variant.STRING:
        text = start + 1 + LENGTH_OCTETS
        if text > end:
            return False
        size: int = read_i32_le(octets, start + 1)
        return size == end - text and _wrote_text(out, octets, text, end)
    return _wrote_number(out, kind, octets, start + 1, end - start - 1)


def _wrote_number(out: BytesWriter, kind: int, octets: bytes, place: i64, size: i64) -> bool:
    """A number of so many octets, or one of those values that have none."""
    if kind == variant.INT32 and size == 4:
        out.append(INT_VALUE)
        write_i32_be(out, read_i32_le(octets, place))
    elif kind == variant.INT64 and size == 8:
        out.append(LONG_VALUE)
        write_i64_be(out, read_i64_le(octets, place))
    elif kind == variant.DOUBLE and size == 8:
        out.append(DOUBLE_VALUE)
        write_f64_be(out, read_f64_le(octets, place))
    elif (kind == variant.TRUE or kind == variant.FALSE) and size == 0:
        out.append(BOOLEAN_VALUE)
        out.append(1 if kind == variant.TRUE else 0)
    else:
        return _wrote_small(out, kind, octets, place, size)
    return True


def _wrote_small(out: BytesWriter, kind: int, octets: bytes, place: i64, size: i64) -> bool:
    if kind == variant.INT8 and size == 1:
        out.append(BYTE_VALUE)
        out.append(octets[place])
    elif kind == variant.INT16 and size == 2:
        out.append(SHORT_VALUE)
        write_i16_be(out, read_i16_le(octets, place))
    elif kind == variant.FLOAT and size == 4:
        out.append(FLOAT_VALUE)
        write_f32_be(out, read_f32_le(octets, place))
    elif kind == variant.NULL and size == 0:
        out.append(NULL_VALUE)
    else:
        return False
    return True


def _wrote_text(out: BytesWriter, octets: bytes, start: i64, end: i64) -> bool:
    """An ASCII text; False for another."""
    text = octets[start:end]
    if not is_plain_text(text):
        return False
    size = len(text)
    if size >= BIG_STRING_LENGTH:
        out.append(BIG_STRING)
        write_i32_be(out, size)
    else:
        out.append(STRING_VALUE)
        write_i16_be(out, size)
    out.write(text)
    return True


def decoded(value: bytes, metadata: bytes, where: str) -> PropertyValue:
    """The value of a VARIANT. Raises `ConfigurationError` for one that JMS has no type for."""
    try:
        return variant.decode_variant(value, metadata)
    except MessageFormatError as error:
        raise ConfigurationError(f"spanwire: {where}: {error}") from None


def client_value(entry: PropertyValue) -> object:
    """A typed value as the client takes it."""
    kind, value = entry
    if isinstance(value, dict):
        return {name: client_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [client_value(inner) for inner in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Typed(kind, value)
    return value


def _long_way(name: str, value: object) -> bytes:
    """The type and the data of a property. Raises `MessageFormatError` for what none can have."""
    whole = encode_map(typed_properties({name: value}))
    return whole[COUNT_OCTETS + len(_name_octets(name.encode())) :]


def _name_octets(name: bytes) -> bytes:
    """The length of a name and the name. Raises `MessageFormatError` for one that no property can have."""
    nothing: PropertyValue = (NULL_VALUE, None)
    text = _told(name)
    if not text:
        raise MessageFormatError("a property has no name")
    whole = encode_map({text: nothing})
    return whole[COUNT_OCTETS : len(whole) - 1]


def _told(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _decoded_text(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError("spanwire: the text of a property is not UTF-8") from None
