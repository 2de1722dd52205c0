"""Spark columns from the bodies and properties of messages, and bodies and properties from columns.

    trades.select(property_as("price", "double"), text_as("symbol STRING, price DOUBLE").alias("trade"))
    totals.select(json_text("symbol", "total"), properties_of(total=jms_value("total", "long")))

A missing value, or a value of another type, is read as null. `jms_value` sets the JMS type of a written value; any
other integer gets the smallest type that contains it, as in every VARIANT of Spark. All functions need a running
session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spanwire.model.errors import ConfigurationError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LONG_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
)
from spanwire.pipeline.arrow.schema import VARIANT
from spanwire.pipeline.columns.variant import NO_NAMES, encode_scalar

JMS_TYPES: Final[dict[str, tuple[int, str]]] = {
    "boolean": (BOOLEAN_VALUE, "boolean"),
    "byte": (BYTE_VALUE, "tinyint"),
    "short": (SHORT_VALUE, "smallint"),
    "int": (INT_VALUE, "int"),
    "long": (LONG_VALUE, "bigint"),
    "float": (FLOAT_VALUE, "float"),
    "double": (DOUBLE_VALUE, "double"),
    "string": (STRING_VALUE, "string"),
}


def property_as(name: str, kind: str) -> Column:
    """Return a property as a column of a Spark type, under the same name.

    Args:
        name: the name of the property.
        kind: the Spark type, such as ``double``. A value of another type becomes null.
    """
    return F.try_variant_get(F.col("properties")[name], "$", kind).alias(name)


def text_as(schema: str) -> Column:
    """Return the JSON of a text body as a struct or array.

    Args:
        schema: the schema in Spark's DDL, such as ``symbol STRING, price DOUBLE``.
    """
    return F.from_json("text", schema)


def body_as(schema: str) -> Column:
    """Return a map body as a struct or map, or a stream body as an array.

    Args:
        schema: the type in Spark's DDL, such as ``struct<a: int>`` or ``array<variant>``.
    """
    return F.try_variant_get("body", "$", schema)


def json_text(*columns: str | Column) -> Column:
    """Return a text body of JSON.

    Args:
        columns: the columns of the JSON object, by name or as columns.
    """
    return F.to_json(F.struct(*columns)).alias("text")


def map_body(*columns: str | Column) -> Column:
    """Return a map body.

    Args:
        columns: the entries of the map, by name or as columns.
    """
    return F.to_variant_object(F.struct(*columns)).alias("body")


def stream_body(*columns: str | Column) -> Column:
    """Return a stream body.

    Args:
        columns: the values of the stream in order, by name or as columns.
    """
    values = [F.col(column) if isinstance(column, str) else column for column in columns]
    return F.to_variant_object(F.array(*[value.cast("variant") for value in values])).alias("body")


def properties_of(**columns: str | Column) -> Column:
    """Return the column ``properties``.

    Args:
        columns: the value of each property, by name or as a column.
    """
    parts: list[Column] = []
    for name, column in columns.items():
        value = F.col(column) if isinstance(column, str) else column
        parts += [F.lit(name), value.cast("variant")]
    return F.create_map(*parts).alias("properties")


def jms_value(column: str | Column, kind: str) -> Column:
    """Return a value with one JMS type, for a property or a body.

    Args:
        column: the value, by name or as a column.
        kind: boolean, byte, short, int, long, float, double or string.

    Raises:
        ConfigurationError: ``kind`` is another word.
    """
    if kind not in JMS_TYPES:
        raise ConfigurationError(f"spanwire: {kind[:60]!r} is no type of JMS; there are {', '.join(JMS_TYPES)}")
    number, spark_type = JMS_TYPES[kind]
    value = F.col(column) if isinstance(column, str) else column

    def encode_array(values: pa.Array) -> pa.Array:
        return encode_values(values.to_pylist(), number)

    return F.arrow_udf(encode_array, "variant")(value.cast(spark_type))


def encode_values(values: Sequence[object], kind: int) -> pa.Array:
    """Return values of one JMS type as an Arrow array of VARIANTs; ``None`` becomes null."""
    octets = [b"" if value is None else encode_scalar((kind, value)) for value in values]
    arrays = [pa.array(octets, pa.binary()), pa.array([NO_NAMES] * len(octets), pa.binary())]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(VARIANT), mask=mask)
