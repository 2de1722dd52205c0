"""Writers of Avro bodies, compiled from one schema.

The values come from an Arrow column. A writer checks each value, so that an error names the field.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from spanwire.model.errors import MessageFormatError
from spanwire.pipeline.formats import leaves
from spanwire.pipeline.formats.avro import kinds
from spanwire.pipeline.formats.avro.columns import is_nullable, member_names, shared_number
from spanwire.pipeline.formats.avro.defaults import DefaultWriter
from spanwire.pipeline.formats.avro.octets import DOUBLE_FORM, FLOAT_FORM, write_long, write_octets
from spanwire.pipeline.formats.avro.schema import AvroSchema

Write = Callable[[bytearray, object], None]
Number = Callable[[object], int]

TIMES: Final[dict[str, tuple[Number, int]]] = {
    kinds.DATE: (leaves.epoch_days, 1),
    kinds.TIMESTAMP_MILLIS: (leaves.epoch_microseconds, 1000),
    kinds.TIMESTAMP_MICROS: (leaves.epoch_microseconds, 1),
    kinds.LOCAL_MILLIS: (leaves.local_microseconds, 1000),
    kinds.LOCAL_MICROS: (leaves.local_microseconds, 1),
}


def compile_writer(schema: AvroSchema) -> Write:
    """Return a function to append the encoding of a value.

    The function raises `MessageFormatError` for an unsuitable value.
    """
    if schema.kind == kinds.RECORD:
        return _record(schema)
    if schema.kind == kinds.ARRAY:
        return _array(schema.inner[0])
    if schema.kind == kinds.MAP:
        return _map(schema.inner[0])
    if schema.kind == kinds.UNION:
        return _union(schema)
    if schema.kind == kinds.ENUM:
        return _enum(schema)
    if schema.logical:
        return _logical(schema)
    return _single(schema)


def _refusing_null(schema: AvroSchema, write: Write) -> Write:
    """Return a writer that refuses null, unless the type allows null."""
    if is_nullable(schema):
        return write

    def checked(out: bytearray, value: object) -> None:
        if value is None:
            raise MessageFormatError(f"expected {schema.label}, got null")
        write(out, value)

    return checked


def _record(schema: AvroSchema) -> Write:
    writers = {field.name: _refusing_null(field.schema, compile_writer(field.schema)) for field in schema.fields}
    defaults = {
        field.name: DefaultWriter().octets(field.schema, field.default) for field in schema.fields if field.has_default
    }

    def write(out: bytearray, value: object) -> None:
        if not isinstance(value, dict):
            raise MessageFormatError(f"expected {schema.label}, got {type(value).__name__}")
        if not value.keys() <= writers.keys():
            unknown = ", ".join(sorted(value.keys() - writers.keys()))
            raise MessageFormatError(f"{schema.label} has no field {unknown}; there are {', '.join(writers)}")
        for name, writer in writers.items():
            if name not in value and name in defaults:
                out += defaults[name]
                continue
            try:
                writer(out, value.get(name))
            except MessageFormatError as error:
                raise leaves.with_field(name, error) from None

    return write


def _array(item: AvroSchema) -> Write:
    write_item = _refusing_null(item, compile_writer(item))

    def write(out: bytearray, value: object) -> None:
        if not isinstance(value, list):
            raise MessageFormatError(f"expected array, got {type(value).__name__}")
        if value:
            write_long(out, len(value))
            for one in value:
                write_item(out, one)
        write_long(out, 0)

    return write


def _map(schema: AvroSchema) -> Write:
    write_value = _refusing_null(schema, compile_writer(schema))

    def write(out: bytearray, value: object) -> None:
        pairs = list(value.items()) if isinstance(value, dict) else value
        if not isinstance(pairs, list):
            raise MessageFormatError(f"expected map, got {type(value).__name__}")
        if pairs:
            write_long(out, len(pairs))
            for key, one in pairs:
                if not isinstance(key, str):
                    raise MessageFormatError("a key of a map is not a string")
                write_octets(out, key.encode())
                write_value(out, one)
        write_long(out, 0)

    return write


def _union(schema: AvroSchema) -> Write:
    if shared_number(schema):
        return _shared_number(schema)
    names = member_names(schema)
    writers = [compile_writer(branch) for branch in schema.inner]
    nothing = next((index for index, branch in enumerate(schema.inner) if branch.kind == kinds.NULL), None)
    single = next(index for index, branch in enumerate(schema.inner) if branch.kind != kinds.NULL)

    def write(out: bytearray, value: object) -> None:
        index: int | None = nothing
        if value is not None and any(names):
            index, value = _member(names, value)
        elif value is not None:
            index = single
        if index is None:
            raise MessageFormatError("the union does not allow null")
        write_long(out, index)
        writers[index](out, value)

    return write


def _member(names: list[str], value: object) -> tuple[int, object]:
    """Return the branch and the value of a struct's only non-null field."""
    chosen = [name for name, one in value.items() if one is not None] if isinstance(value, dict) else []
    if len(chosen) != 1 or chosen[0] not in names:
        raise MessageFormatError(f"of the fields {', '.join(name for name in names if name)} exactly one has a value")
    assert isinstance(value, dict)
    return names.index(chosen[0]), value[chosen[0]]


def _shared_number(schema: AvroSchema) -> Write:
    """Write an integer in the shorter of int and long, and a floating-point number as a double."""
    branches = {branch.kind: index for index, branch in enumerate(schema.inner)}
    writers = {branch.kind: compile_writer(branch) for branch in schema.inner}
    wide = kinds.DOUBLE if kinds.DOUBLE in branches else kinds.LONG

    def write(out: bytearray, value: object) -> None:
        kind = kinds.NULL if value is None else wide
        if kind == kinds.LONG and isinstance(value, int) and -(2**31) <= value < 2**31:
            kind = kinds.INT
        if kind not in branches:
            raise MessageFormatError("the union does not allow null")
        write_long(out, branches[kind])
        writers[kind](out, value)

    return write


def _enum(schema: AvroSchema) -> Write:
    places = {symbol: place for place, symbol in enumerate(schema.symbols)}

    def write(out: bytearray, value: object) -> None:
        place = places.get(value) if isinstance(value, str) else None
        if place is None:
            raise MessageFormatError(f"{schema.label} has no such symbol; there are {', '.join(schema.symbols)}"[:300])
        write_long(out, place)

    return write


def _logical(schema: AvroSchema) -> Write:
    if schema.logical == kinds.DECIMAL:
        return _decimal(schema)
    if schema.logical == kinds.UUID:
        return _uuid(schema)
    convert, unit = TIMES[schema.logical]

    def write(out: bytearray, value: object) -> None:
        write_long(out, convert(value) // unit)

    return write


def _decimal(schema: AvroSchema) -> Write:
    def write(out: bytearray, value: object) -> None:
        unscaled = leaves.unscaled_decimal(value, schema.precision, schema.scale)
        if schema.kind == kinds.BYTES:
            write_octets(out, unscaled.to_bytes((unscaled.bit_length() // 8) + 1, "big", signed=True))
            return
        try:
            out += unscaled.to_bytes(schema.size, "big", signed=True)
        except OverflowError:
            raise MessageFormatError(f"a number does not fit {schema.size} octets") from None

    return write


def _uuid(schema: AvroSchema) -> Write:
    def write(out: bytearray, value: object) -> None:
        try:
            number = uuid.UUID(value if isinstance(value, str) else "")
        except ValueError:
            raise MessageFormatError("a value is not a UUID") from None
        if schema.kind == kinds.STRING:
            write_octets(out, str(number).encode())
        else:
            out += number.bytes

    return write


def _single(schema: AvroSchema) -> Write:
    return {
        kinds.NULL: _write_null,
        kinds.BOOLEAN: _write_boolean,
        kinds.INT: _write_whole(leaves.INT),
        kinds.LONG: _write_whole(leaves.LONG),
        kinds.FLOAT: _write_float,
        kinds.DOUBLE: _write_double,
        kinds.BYTES: _write_bytes,
        kinds.STRING: _write_string,
        kinds.FIXED: _write_fixed(schema.size),
    }[schema.kind]


def _write_null(out: bytearray, value: object) -> None:
    if value is not None:
        raise MessageFormatError(f"expected null, got {type(value).__name__}")


def _write_boolean(out: bytearray, value: object) -> None:
    out.append(1 if leaves.BOOLEAN.write(value) else 0)


def _write_whole(leaf: leaves.ValueType) -> Write:
    def write(out: bytearray, value: object) -> None:
        number = leaf.write(value)
        assert isinstance(number, int)
        write_long(out, number)

    return write


def _write_float(out: bytearray, value: object) -> None:
    out += FLOAT_FORM.pack(leaves.single_floating(value))


def _write_double(out: bytearray, value: object) -> None:
    out += DOUBLE_FORM.pack(leaves.floating(value))


def _write_bytes(out: bytearray, value: object) -> None:
    octets = leaves.BYTES.write(value)
    assert isinstance(octets, bytes)
    write_octets(out, octets)


def _write_string(out: bytearray, value: object) -> None:
    text = leaves.STRING.write(value)
    assert isinstance(text, str)
    write_octets(out, text.encode())


def _write_fixed(size: int) -> Write:
    def write(out: bytearray, value: object) -> None:
        octets = leaves.BYTES.write(value)
        assert isinstance(octets, bytes)
        if len(octets) != size:
            raise MessageFormatError(f"expected {size} octets, got {len(octets)}")
        out += octets

    return write
