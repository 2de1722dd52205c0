"""Readers of Avro bodies, compiled from the writer's and the reader's schema.

The result has the form of Arrow's values: timestamps are microseconds, dates are days, maps are lists of pairs. Schema
resolution follows the specification: fields match by name or alias, missing fields have their default, numbers are
promoted, enums match by symbol. Two incompatible schemas make a reader that raises the reason: in a union, bodies may
never use the incompatible branch.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats.avro import kinds
from spanwire.pipeline.formats.avro.columns import member_names, shared_number
from spanwire.pipeline.formats.avro.defaults import DefaultWriter
from spanwire.pipeline.formats.avro.octets import OctetReader
from spanwire.pipeline.formats.avro.schema import AvroSchema, fault

Read = Callable[[OctetReader], object]

PRIMITIVE: Final[dict[str, Read]] = {
    kinds.BOOLEAN: OctetReader.boolean,
    kinds.INT: OctetReader.int32,
    kinds.LONG: OctetReader.int64,
    kinds.FLOAT: OctetReader.float32,
    kinds.DOUBLE: OctetReader.float64,
    kinds.BYTES: OctetReader.octets,
    kinds.STRING: OctetReader.text,
}
PROMOTED: Final[dict[str, tuple[str, ...]]] = {
    kinds.INT: (kinds.LONG, kinds.FLOAT, kinds.DOUBLE),
    kinds.LONG: (kinds.FLOAT, kinds.DOUBLE),
    kinds.FLOAT: (kinds.DOUBLE,),
    kinds.STRING: (kinds.BYTES,),
    kinds.BYTES: (kinds.STRING,),
}
# Logical types of the same family can be converted to each other. Between families a value would change its meaning.
FAMILY: Final[dict[str, str]] = {
    kinds.TIMESTAMP_MILLIS: "timestamp",
    kinds.TIMESTAMP_MICROS: "timestamp",
    kinds.LOCAL_MILLIS: "local timestamp",
    kinds.LOCAL_MICROS: "local timestamp",
}
MILLIS: Final = (kinds.TIMESTAMP_MILLIS, kinds.LOCAL_MILLIS)


def compile_reader(writer: AvroSchema, reader: AvroSchema) -> Read:
    """Return a function that reads values of the writer's schema as values of the reader's schema."""
    if writer.kind == kinds.UNION:
        return _from_union(writer, reader)
    if reader.kind == kinds.UNION:
        return _into_union(writer, reader)
    if not matches(writer, reader):
        return _failing(f"the writer's {writer.label} cannot be read as {reader.label}")
    if writer.kind == kinds.RECORD:
        return _record(writer, reader)
    if writer.kind == kinds.ARRAY:
        return _array(writer.inner[0], compile_reader(writer.inner[0], reader.inner[0]))
    if writer.kind == kinds.MAP:
        return _map(writer.inner[0], compile_reader(writer.inner[0], reader.inner[0]))
    if writer.kind == kinds.ENUM:
        return _enum(writer, reader)
    return _value(writer, reader)


def matches(writer: AvroSchema, reader: AvroSchema) -> bool:
    """Return True if a value of one type can be read as another; neither type is a union."""
    if writer.kind != reader.kind:
        return reader.kind in PROMOTED.get(writer.kind, ())
    if writer.kind == kinds.FIXED and writer.size != reader.size:
        return False
    if not writer.name:
        return True
    names = [reader.name, *reader.aliases]
    return simple_name(writer.name) in [simple_name(name) for name in names]


def simple_name(full: str) -> str:
    """Return a name without the namespace, because resolution ignores namespaces."""
    return full.rpartition(".")[2]


def _failing(reason: str) -> Read:
    def fail(octets: OctetReader) -> object:
        raise MessageFormatError(reason)

    return fail


def _null(octets: OctetReader) -> object:
    return None


def _from_union(writer: AvroSchema, reader: AvroSchema) -> Read:
    branches = [compile_reader(branch, reader) for branch in writer.inner]

    def read(octets: OctetReader) -> object:
        index = octets.int64()
        if not 0 <= index < len(branches):
            raise MessageFormatError(f"a union has no branch {index}")
        return branches[index](octets)

    return read


def _into_union(writer: AvroSchema, reader: AvroSchema) -> Read:
    candidates = [index for index, branch in enumerate(reader.inner) if matches(writer, branch)]
    if not candidates:
        return _failing(f"the reader's union has no branch for the writer's {writer.label}")
    exact = [index for index in candidates if is_same_type(writer, reader.inner[index])]
    index = (exact or candidates)[0]
    if writer.kind == kinds.NULL:
        return _null
    wide, member = shared_number(reader), member_names(reader)[index]
    if wide:
        return compile_reader(writer, AvroSchema(wide, 1))
    inner = compile_reader(writer, reader.inner[index])
    if not member:
        return inner
    return lambda octets: {member: inner(octets)}


def is_same_type(writer: AvroSchema, reader: AvroSchema) -> bool:
    """Return True if a branch of a union is the writer's own type."""
    return (writer.kind, writer.name, writer.logical) == (reader.kind, reader.name, reader.logical)


def _record(writer: AvroSchema, reader: AvroSchema) -> Read:
    targets = {name: field for field in reader.fields for name in (field.name, *field.aliases)}
    steps: list[tuple[str | None, Read]] = []
    found: set[str] = set()
    for field in writer.fields:
        target = targets.get(field.name)
        if target is None or target.name in found:
            steps.append((None, compile_reader(field.schema, field.schema)))
        else:
            found.add(target.name)
            steps.append((target.name, compile_reader(field.schema, target.schema)))
    defaults: dict[str, object] = {}
    for field in reader.fields:
        if field.name in found:
            continue
        if not field.has_default:
            return _failing(f"the writer's {writer.label} has no field {field.name}, and there is no default")
        octets = OctetReader(DefaultWriter().octets(field.schema, field.default), 0)
        defaults[field.name] = compile_reader(field.schema, field.schema)(octets)

    def read(octets: OctetReader) -> object:
        values = dict(defaults)
        for name, step in steps:
            value = step(octets)
            if name is not None:
                values[name] = value
        return values

    return read


def _array(item: AvroSchema, read_item: Read) -> Read:
    def read(octets: OctetReader) -> object:
        items: list[object] = []
        while count := octets.block(item.least):
            for _ in range(count):
                items.append(read_item(octets))
        return items

    return read


def _map(value: AvroSchema, read_value: Read) -> Read:
    def read(octets: OctetReader) -> object:
        entries: dict[str, object] = {}
        while count := octets.block(1 + value.least):
            for _ in range(count):
                key = octets.text()
                entries[key] = read_value(octets)
        return list(entries.items())

    return read


def _enum(writer: AvroSchema, reader: AvroSchema) -> Read:
    known = set(reader.symbols)
    symbols = [symbol if symbol in known else reader.default_symbol for symbol in writer.symbols]

    def read(octets: OctetReader) -> object:
        index = octets.int64()
        if not 0 <= index < len(symbols):
            raise MessageFormatError(f"an enum has no symbol {index}")
        symbol = symbols[index]
        if symbol is None:
            raise MessageFormatError(f"{reader.label} has no symbol {writer.symbols[index]}")
        return symbol

    return read


def _value(writer: AvroSchema, reader: AvroSchema) -> Read:
    """Return the reader of a primitive or fixed value, with the logical type applied."""
    read = _plain(writer, reader)
    if reader.logical:
        return _logical(writer, reader, read)
    if reader.kind in (kinds.FLOAT, kinds.DOUBLE) and writer.kind in (kinds.INT, kinds.LONG):
        return lambda octets: float(number(read(octets)))
    return read


def _plain(writer: AvroSchema, reader: AvroSchema) -> Read:
    if writer.kind == kinds.FIXED:
        return lambda octets: octets.take(writer.size)
    return PRIMITIVE.get(reader.kind if reader.kind in (kinds.BYTES, kinds.STRING) else writer.kind, _null)


def _logical(writer: AvroSchema, reader: AvroSchema, read: Read) -> Read:
    """Return the reader of a logical type.

    Without a logical type in the writer's schema, the values are those of the reader's logical type.
    """
    written = writer.logical or reader.logical
    if written != reader.logical and FAMILY.get(written, written) != FAMILY.get(reader.logical, reader.logical):
        return _failing(f"the writer's {written} cannot be read as {reader.logical}")
    if reader.logical == kinds.DECIMAL:
        return _decimal(writer if writer.logical else reader, reader, read)
    if reader.logical == kinds.UUID:
        return read if writer.kind == kinds.STRING else lambda octets: str(uuid.UUID(bytes=octets.take(writer.size)))
    if written in MILLIS:
        return lambda octets: number(read(octets)) * 1000
    assert reader.logical in (kinds.DATE, *FAMILY)
    return read


def _decimal(written: AvroSchema, reader: AvroSchema, read: Read) -> Read:
    if (written.scale, written.precision) != (reader.scale, reader.precision) and (
        written.scale > reader.scale or written.precision - written.scale > reader.precision - reader.scale
    ):
        return _failing("the writer's decimal has more digits than the reader's")

    def read_decimal(octets: OctetReader) -> object:
        value = read(octets)
        assert isinstance(value, bytes)
        unscaled = int.from_bytes(value, "big", signed=True)
        if abs(unscaled) >= 10**written.precision:
            raise MessageFormatError(f"a decimal has more than {written.precision} digits")
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -written.scale))

    return read_decimal


def number(value: object) -> int:
    """Narrow the result of a numeric reader to an integer."""
    assert isinstance(value, int)
    return value


def check_defaults(schema: AvroSchema, writer: DefaultWriter | None = None) -> None:
    """Check the defaults of all fields, with one ``writer`` for the whole schema.

    Raises:
        ConfigurationError: a default does not fit the type of the field.
    """
    writer = DefaultWriter() if writer is None else writer
    for field in schema.fields:
        if field.has_default:
            try:
                octets = OctetReader(writer.octets(field.schema, field.default), 0)
                compile_reader(field.schema, field.schema)(octets)
            except (MessageFormatError, ConfigurationError) as error:
                raise fault(f"the default of the field {field.name} does not fit: {error}") from None
        check_defaults(field.schema, writer)
    for inner in schema.inner:
        check_defaults(inner, writer)
