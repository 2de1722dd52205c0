"""Properties of rows as OpenWire primitive maps, directly from Arrow's columns.

    Arrow   ends of each row's entries | names | VARIANT values and their metadata, or texts
    wire    count 4 | for each property: length 2, name | type, data

(Apache Arrow Columnar Format, Map; Parquet, Variant Binary Encoding; OpenWire, primitive map.) Numbers and ASCII texts
differ in little more than byte order and are copied without a Python object. Other values are decoded by
`spanwire.pipeline.columns.variant` and encoded again.
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
from spanwire.pipeline.columns.column_view import ColumnView, is_plain_text
from spanwire.protocols.octets import patch_int
from spanwire.protocols.primitive_map import BIG_STRING, BIG_STRING_LENGTH, encode_map

COUNT_OCTETS: Final = 4
LENGTH_OCTETS: Final = 4  # octets; length of a long text
MAX_KNOWN_NAMES: Final = 1024  # cached property names; the cache is cleared when full
MAX_KNOWN_NAME: Final = 1024  # octets; longer names are not cached
MAX_LAYOUT: Final = 64  # properties; names of longer rows are not compared with the previous row
HAS_DUPLICATES: Final = -1


class PropertyViews:
    """The property columns of some rows.

    ``rows`` has the ends of each row's properties and the null rows. Without ``metadata`` the values are texts,
    otherwise VARIANTs.
    """

    def __init__(self, rows: ColumnView, names: ColumnView, values: ColumnView, metadata: ColumnView | None) -> None:
        self.rows: Final[ColumnView] = rows
        self.names: Final[ColumnView] = names
        self.values: Final[ColumnView] = values
        self.metadata: Final[ColumnView | None] = metadata


class PropertyMapWriter:
    """Encodes one map per row, optionally with a duplicate id.

    With ``id_name`` each map gets the property ``id_name`` with the values ``prefix/0``, ``prefix/1`` and so on.
    """

    def __init__(self, id_name: str | None = None, prefix: str = "") -> None:
        self._id_name: Final[str | None] = id_name
        self._prefix: Final[str] = prefix
        self._id_octets: Final[bytes] = b"" if id_name is None else _name_octets(id_name.encode())
        self._rows = 0
        self._names: Final[dict[bytes, bytes]] = {}
        self._layout: Final[list[bytes]] = []

    def encode_views(self, columns: PropertyViews, count: int) -> list[bytes]:
        """Return the maps of the next ``count`` rows; empty for a row without properties.

        Raises:
            ConfigurationError: a value has no JMS type.
            MessageFormatError: a value cannot be a property.
        """
        maps: list[bytes] = []
        rows = columns.rows
        row: i64 = 0
        while row < count:
            if rows.is_null(row):
                maps.append(self._row(columns, 0, 0))
            else:
                maps.append(self._row(columns, rows.start_of(row), rows.start_of(row + 1)))
            row += 1
        return maps

    def encode_values(self, rows: list[dict[str, object]]) -> list[bytes]:
        """Return the maps of the next rows from properties in the client's form.

        Raises:
            MessageFormatError: a value cannot be a property.
        """
        maps: list[bytes] = []
        for properties in rows:
            entries = properties
            if self._id_name is not None:
                entries = dict(properties)
                entries[self._id_name] = self._next_id()
            maps.append(property_octets(entries, None))
        return maps

    def encode_empty(self, count: int) -> list[bytes] | None:
        """Return the maps of the next ``count`` rows without properties, or ``None`` if the rows need no maps."""
        if self._id_name is None:
            return None
        empty: dict[str, object] = {}
        return self.encode_values([empty] * count)

    def _next_id(self) -> str:
        duplicate_id = f"{self._prefix}/{self._rows}"
        self._rows += 1
        return duplicate_id

    def _row(self, columns: PropertyViews, start: i64, end: i64) -> bytes:
        own = self._id_octets
        if end == start and not own:
            return b""
        writer = BytesWriter()
        write_i32_be(writer, 0)
        count = self._write_all(writer, columns, start, end)
        if count < 0:
            writer.truncate(COUNT_OCTETS)
            count = self._write_last(writer, columns, start, end)
        if own:
            count += 1
            writer.write(own)
            octets = self._next_id().encode()
            if not _write_text(writer, octets, 0, len(octets)):
                assert self._id_name is not None
                writer.write(_encode_value(self._id_name, octets.decode()))
        patch_int(writer, 0, count)
        return writer.getvalue()

    def _write_all(self, writer: BytesWriter, columns: PropertyViews, start: i64, end: i64) -> int:
        """Write the properties without the duplicate id, which is written separately.

        Returns:
            the number of properties, or `HAS_DUPLICATES` if a name may occur twice; some properties may be written
                then.
        """
        if end - start > MAX_LAYOUT:
            return HAS_DUPLICATES
        own = self._id_octets
        count = 0
        position = 0
        index = start
        while index < end:
            name = self._name(columns.names.at(index))
            if not self._is_new_name(position, name):
                return HAS_DUPLICATES
            if not own or name != own:
                writer.write(name)
                self._write(writer, columns, index)
                count += 1
            position += 1
            index += 1
        return count

    def _write_last(self, writer: BytesWriter, columns: PropertyViews, start: i64, end: i64) -> int:
        """Write properties whose names may repeat: the last value of a name, at the position of the first."""
        last: dict[bytes, int] = {}
        index = start
        while index < end:
            last[self._name(columns.names.at(index))] = index
            index += 1
        last.pop(self._id_octets, None)
        for name, last_index in last.items():
            writer.write(name)
            self._write(writer, columns, last_index)
        return len(last)

    def _is_new_name(self, position: int, name: bytes) -> bool:
        """Return True if the name differs from earlier names of the row.

        The names of the row so far are the first entries of the layout.
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

    def _write(self, writer: BytesWriter, columns: PropertyViews, index: i64) -> None:
        values = columns.values
        if values.is_null(index):
            writer.append(NULL_VALUE)
            return
        start, end = values.start_of(index), values.start_of(index + 1)
        metadata = columns.metadata
        if metadata is None:
            if not _write_text(writer, values.octets, start, end):
                writer.write(_encode_value(_text_of(columns.names.at(index)), _decoded_text(values.at(index))))
        elif not _write_variant(writer, values.octets, start, end):
            name = _text_of(columns.names.at(index))
            entry = decode_value(values.at(index), metadata.at(index), f"the property {name!r}")
            writer.write(_encode_value(name, client_value(entry)))


def _write_variant(writer: BytesWriter, octets: bytes, start: i64, end: i64) -> bool:
    """Write a VARIANT; return False, with nothing written, if the value must be decoded first."""
    if start >= end:
        return False
    header: int = octets[start]
    if header & 3 == variant.SHORT_STRING:
        return end - start == 1 + (header >> 2) and _write_text(writer, octets, start + 1, end)
    if header & 3 != variant.PRIMITIVE:
        return False
    kind = header >> 2
    if kind == variant.STRING:
        text = start + 1 + LENGTH_OCTETS
        if text > end:
            return False
        size: int = read_i32_le(octets, start + 1)
        return size == end - text and _write_text(writer, octets, text, end)
    return _write_number(writer, kind, octets, start + 1, end - start - 1)


def _write_number(writer: BytesWriter, kind: int, octets: bytes, offset: i64, size: i64) -> bool:
    """Write a number of ``size`` octets, or a boolean or null."""
    if kind == variant.INT32 and size == 4:
        writer.append(INT_VALUE)
        write_i32_be(writer, read_i32_le(octets, offset))
    elif kind == variant.INT64 and size == 8:
        writer.append(LONG_VALUE)
        write_i64_be(writer, read_i64_le(octets, offset))
    elif kind == variant.DOUBLE and size == 8:
        writer.append(DOUBLE_VALUE)
        write_f64_be(writer, read_f64_le(octets, offset))
    elif (kind == variant.TRUE or kind == variant.FALSE) and size == 0:
        writer.append(BOOLEAN_VALUE)
        writer.append(1 if kind == variant.TRUE else 0)
    else:
        return _write_small(writer, kind, octets, offset, size)
    return True


def _write_small(writer: BytesWriter, kind: int, octets: bytes, offset: i64, size: i64) -> bool:
    if kind == variant.INT8 and size == 1:
        writer.append(BYTE_VALUE)
        writer.append(octets[offset])
    elif kind == variant.INT16 and size == 2:
        writer.append(SHORT_VALUE)
        write_i16_be(writer, read_i16_le(octets, offset))
    elif kind == variant.FLOAT and size == 4:
        writer.append(FLOAT_VALUE)
        write_f32_be(writer, read_f32_le(octets, offset))
    elif kind == variant.NULL and size == 0:
        writer.append(NULL_VALUE)
    else:
        return False
    return True


def _write_text(writer: BytesWriter, octets: bytes, start: i64, end: i64) -> bool:
    """Write an ASCII text; return False for any other text."""
    text = octets[start:end]
    if not is_plain_text(text):
        return False
    size = len(text)
    if size >= BIG_STRING_LENGTH:
        writer.append(BIG_STRING)
        write_i32_be(writer, size)
    else:
        writer.append(STRING_VALUE)
        write_i16_be(writer, size)
    writer.write(text)
    return True


def decode_value(value: bytes, metadata: bytes, where: str) -> PropertyValue:
    """Return the typed value of a VARIANT.

    Raises:
        ConfigurationError: JMS has no such type; ``where`` names the column in the error.
    """
    try:
        return variant.decode_variant(value, metadata)
    except MessageFormatError as error:
        raise ConfigurationError(f"spanwire: {where}: {error}") from None


def client_value(entry: PropertyValue) -> object:
    """Return a typed value in the client's form."""
    kind, value = entry
    if isinstance(value, dict):
        return {name: client_value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [client_value(inner) for inner in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Typed(kind, value)
    return value


def _encode_value(name: str, value: object) -> bytes:
    """Return type and data of a property.

    Raises:
        MessageFormatError: the value cannot be a property.
    """
    whole = encode_map(typed_properties({name: value}))
    return whole[COUNT_OCTETS + len(_name_octets(name.encode())) :]


def _name_octets(name: bytes) -> bytes:
    """Return the length of a name and the name.

    Raises:
        MessageFormatError: the name is empty or cannot be encoded.
    """
    nothing: PropertyValue = (NULL_VALUE, None)
    text = _text_of(name)
    if not text:
        raise MessageFormatError("a property has no name")
    whole = encode_map({text: nothing})
    return whole[COUNT_OCTETS : len(whole) - 1]


def _text_of(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _decoded_text(octets: bytes) -> str:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError("spanwire: the text of a property is not UTF-8") from None
