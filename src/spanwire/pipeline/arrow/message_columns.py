"""Bodies and properties of messages as columns of one's own, and back.

    trades.select(property_as("price", "double"), text_as("symbol STRING, price DOUBLE").alias("trade"))
    totals.select(json_text("symbol", "total"), properties_of(total=jms_value("total", "long")))

Reading gives null for what is not there or does not fit. Writing keeps the types that `jms_value` names; other values
get the smallest integer that holds them, as Spark makes a VARIANT. Everything needs a running session.
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
    """The property as a Spark type, under its own name."""
    return F.try_variant_get(F.col("properties")[name], "$", kind).alias(name)


def text_as(schema: str) -> Column:
    """The JSON of a text body as a struct or array, by Spark's DDL."""
    return F.from_json("text", schema)


def body_as(schema: str) -> Column:
    """A map body as a struct (``struct<a: int>``) or map, a stream body as an array (``array<variant>``)."""
    return F.try_variant_get("body", "$", schema)


def json_text(*columns: str | Column) -> Column:
    """A text body of JSON with these columns."""
    return F.to_json(F.struct(*columns)).alias("text")


def map_body(*columns: str | Column) -> Column:
    """A map body with these columns."""
    return F.to_variant_object(F.struct(*columns)).alias("body")


def stream_body(*columns: str | Column) -> Column:
    """A stream body with the values of these columns, in order."""
    values = [F.col(column) if isinstance(column, str) else column for column in columns]
    return F.to_variant_object(F.array(*[value.cast("variant") for value in values])).alias("body")


def properties_of(**columns: str | Column) -> Column:
    """Properties by name, of columns."""
    parts: list[Column] = []
    for name, column in columns.items():
        value = F.col(column) if isinstance(column, str) else column
        parts += [F.lit(name), value.cast("variant")]
    return F.create_map(*parts).alias("properties")


def jms_value(column: str | Column, kind: str) -> Column:
    """A value with exactly that JMS type: boolean, byte, short, int, long, float, double or string.

    Raises `ConfigurationError` for another word.
    """
    if kind not in JMS_TYPES:
        raise ConfigurationError(f"spanwire: {kind[:60]!r} is no type of JMS; there are {', '.join(JMS_TYPES)}")
    number, spark_type = JMS_TYPES[kind]
    value = F.col(column) if isinstance(column, str) else column

    def encode_array(values: pa.Array) -> pa.Array:
        return encode_values(values.to_pylist(), number)

    return F.arrow_udf(encode_array, "variant")(value.cast(spark_type))


def encode_values(values: Sequence[object], kind: int) -> pa.Array:
    """Values of one JMS type as an Arrow array of VARIANTs; null stays null."""
    octets = [b"" if value is None else encode_scalar((kind, value)) for value in values]
    arrays = [pa.array(octets, pa.binary()), pa.array([NO_NAMES] * len(octets), pa.binary())]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(VARIANT), mask=mask)
