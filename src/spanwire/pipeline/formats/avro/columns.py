"""The types of columns for Avro's types.

A union of null and one type is a nullable column. A union of int and long is a long, a union of float and double a
double. Any other union is a struct with one field per branch, ``member0``, ``member1`` and so on, as in Spark's reader.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from spanwire.pipeline.formats.avro import kinds
from spanwire.pipeline.formats.avro.schema import AvroSchema, fault
from spanwire.pipeline.formats.leaves import LOCAL_TIMESTAMP, UTC_TIMESTAMP

SIMPLE: Final[dict[str, pa.DataType]] = {
    kinds.BOOLEAN: pa.bool_(),
    kinds.INT: pa.int32(),
    kinds.LONG: pa.int64(),
    kinds.FLOAT: pa.float32(),
    kinds.DOUBLE: pa.float64(),
    kinds.BYTES: pa.binary(),
    kinds.FIXED: pa.binary(),
    kinds.STRING: pa.string(),
    kinds.ENUM: pa.string(),
}
LOGICAL_COLUMNS: Final[dict[str, pa.DataType]] = {
    kinds.DATE: pa.date32(),
    kinds.UUID: pa.string(),
    kinds.TIMESTAMP_MILLIS: UTC_TIMESTAMP,
    kinds.TIMESTAMP_MICROS: UTC_TIMESTAMP,
    kinds.LOCAL_MILLIS: LOCAL_TIMESTAMP,
    kinds.LOCAL_MICROS: LOCAL_TIMESTAMP,
}
WIDER: Final = ((kinds.INT, kinds.LONG), (kinds.FLOAT, kinds.DOUBLE))  # numbers that share a column


def column_type(schema: AvroSchema) -> pa.DataType:
    """Return the type of the column.

    Raises:
        ConfigurationError: Spark has no such type.
    """
    if schema.kind == kinds.RECORD:
        return pa.struct([(field.name, column_type(field.schema)) for field in schema.fields])
    if schema.kind == kinds.ARRAY:
        return pa.list_(column_type(schema.inner[0]))
    if schema.kind == kinds.MAP:
        return pa.map_(pa.string(), column_type(schema.inner[0]))
    if schema.kind == kinds.UNION:
        return _union_type(schema)
    if schema.kind == kinds.NULL:
        raise fault("a type is null alone, and a column has no such type")
    if schema.logical == kinds.DECIMAL:
        return pa.decimal128(schema.precision, schema.scale)
    return LOGICAL_COLUMNS[schema.logical] if schema.logical else SIMPLE[schema.kind]


def member_names(union: AvroSchema) -> list[str]:
    """Return the field of the struct for each branch; empty strings if the union is not a struct."""
    branches = [index for index, branch in enumerate(union.inner) if branch.kind != kinds.NULL]
    if len(branches) == 1 or shared_number(union):
        return [""] * len(union.inner)
    names = {index: f"member{place}" for place, index in enumerate(branches)}
    return [names.get(index, "") for index in range(len(union.inner))]


def shared_number(union: AvroSchema) -> str:
    """Return the common type of two numeric branches, or an empty string."""
    branches = [branch for branch in union.inner if branch.kind != kinds.NULL]
    if len(branches) != 2 or any(branch.logical for branch in branches):
        return ""
    pair = {branch.kind for branch in branches}
    return next((wide for narrow, wide in WIDER if pair == {narrow, wide}), "")


def is_nullable(schema: AvroSchema) -> bool:
    """Return True if a value may be null."""
    return schema.kind == kinds.NULL or (
        schema.kind == kinds.UNION and any(branch.kind == kinds.NULL for branch in schema.inner)
    )


def _union_type(union: AvroSchema) -> pa.DataType:
    wide = shared_number(union)
    if wide:
        return SIMPLE[wide]
    names = member_names(union)
    branches = [(name, branch) for name, branch in zip(names, union.inner, strict=True) if branch.kind != kinds.NULL]
    if not branches:
        raise fault("a union has no branch but null, and a column has no such type")
    if len(branches) == 1:
        return column_type(branches[0][1])
    return pa.struct([(name, column_type(branch)) for name, branch in branches])
