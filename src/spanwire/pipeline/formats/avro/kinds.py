"""The names of the types and logical types of Avro, for `AvroSchema.kind` and `AvroSchema.logical`."""

from __future__ import annotations

from typing import Final

NULL: Final = "null"
BOOLEAN: Final = "boolean"
INT: Final = "int"
LONG: Final = "long"
FLOAT: Final = "float"
DOUBLE: Final = "double"
BYTES: Final = "bytes"
STRING: Final = "string"
RECORD: Final = "record"
ENUM: Final = "enum"
FIXED: Final = "fixed"
ARRAY: Final = "array"
MAP: Final = "map"
UNION: Final = "union"

# Logical types with a Spark type.
DECIMAL: Final = "decimal"
DATE: Final = "date"
UUID: Final = "uuid"
TIMESTAMP_MILLIS: Final = "timestamp-millis"
TIMESTAMP_MICROS: Final = "timestamp-micros"
LOCAL_MILLIS: Final = "local-timestamp-millis"
LOCAL_MICROS: Final = "local-timestamp-micros"
