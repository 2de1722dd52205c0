"""The names of Spark's types for types of Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from spanwire.pipeline.formats.leaves import LOCAL_TIMESTAMP, UTC_TIMESTAMP

SIMPLE: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.duration("us"): "INTERVAL DAY TO SECOND",
    UTC_TIMESTAMP: "TIMESTAMP",
    LOCAL_TIMESTAMP: "TIMESTAMP_NTZ",
}


def spark_type(arrow: pa.DataType) -> str:
    """Return the type in Spark's DDL."""
    if pa.types.is_struct(arrow):
        fields = [f"{quoted(field.name)}: {spark_type(field.type)}" for field in arrow]
        return f"STRUCT<{', '.join(fields)}>"
    if pa.types.is_list(arrow):
        return f"ARRAY<{spark_type(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"MAP<{spark_type(arrow.key_type)}, {spark_type(arrow.item_type)}>"
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision}, {arrow.scale})"
    return SIMPLE[arrow]


def quoted(name: str) -> str:
    """Return a name of a column in backticks."""
    return "`" + name.replace("`", "``") + "`"
