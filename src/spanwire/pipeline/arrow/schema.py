"""The columns of a message: JMS headers by name, typed properties, and a column per kind of body.

`COLUMNS` and `DDL` describe the schema to Spark, `arrow_schema` to Arrow; a test compares the two in Spark.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

COLUMNS: Final = (
    ("JMSMessageID", "string"),
    ("JMSDestination", "string"),
    ("JMSTimestamp", "timestamp"),
    ("JMSExpiration", "timestamp"),
    ("JMSPriority", "tinyint"),
    ("JMSDeliveryMode", "string"),
    ("JMSCorrelationID", "string"),
    ("JMSReplyTo", "string"),
    ("JMSType", "string"),
    ("JMSRedelivered", "boolean"),
    ("JMSXGroupID", "string"),
    ("JMSXGroupSeq", "int"),
    ("JMSXDeliveryCount", "int"),
    ("properties", "map<string,variant>"),
    ("body_type", "string"),
    ("text", "string"),
    ("bytes", "binary"),
    ("body", "variant"),
    ("sequence", "bigint"),
    ("JMSActiveMQBrokerPath", "array<string>"),
    ("JMSActiveMQBrokerInTime", "timestamp"),
    ("JMSActiveMQBrokerOutTime", "timestamp"),
)
DDL: Final = ", ".join([f"{name} {kind}" for name, kind in COLUMNS])

PERSISTENT: Final = "PERSISTENT"
NON_PERSISTENT: Final = "NON_PERSISTENT"

VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
PROPERTIES: Final = pa.map_(pa.string(), VARIANT)
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
BROKERS: Final = pa.list_(pa.field("element", pa.string()))


ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "timestamp": TIMESTAMP,
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "variant": VARIANT,
    "map<string,variant>": PROPERTIES,
    "array<string>": BROKERS,
}


def arrow_schema() -> pa.Schema:
    """Return the columns in order, as Arrow types."""
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in COLUMNS])
