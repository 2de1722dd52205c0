"""The columns of a message: JMS headers by their names, the properties with their types, one column for each kind of
body.

`DDL` is what Spark is told, `arrow_schema` the same for Arrow; a test asks Spark whether they agree.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

DDL: Final = (
    "JMSMessageID STRING, JMSDestination STRING, JMSTimestamp TIMESTAMP, JMSExpiration TIMESTAMP, "
    "JMSPriority TINYINT, JMSDeliveryMode STRING, JMSCorrelationID STRING, JMSReplyTo STRING, JMSType STRING, "
    "JMSRedelivered BOOLEAN, JMSXGroupID STRING, JMSXGroupSeq INT, JMSXDeliveryCount INT, "
    "properties MAP<STRING, VARIANT>, body_type STRING, text STRING, bytes BINARY, body VARIANT, sequence BIGINT"
)

PERSISTENT: Final = "PERSISTENT"
NON_PERSISTENT: Final = "NON_PERSISTENT"

# Words of the column body_type.
TEXT: Final = "text"
BYTES: Final = "bytes"
MAP: Final = "map"
STREAM: Final = "stream"
OBJECT: Final = "object"
MESSAGE: Final = "message"
UNREADABLE: Final = "unreadable"
BODY: Final = "body"  # the column for maps and streams

VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
PROPERTIES: Final = pa.map_(pa.string(), VARIANT)
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def arrow_schema() -> pa.Schema:
    """The columns in order, as Arrow types."""
    return pa.schema(
        [
            ("JMSMessageID", pa.string()),
            ("JMSDestination", pa.string()),
            ("JMSTimestamp", TIMESTAMP),
            ("JMSExpiration", TIMESTAMP),
            ("JMSPriority", pa.int8()),
            ("JMSDeliveryMode", pa.string()),
            ("JMSCorrelationID", pa.string()),
            ("JMSReplyTo", pa.string()),
            ("JMSType", pa.string()),
            ("JMSRedelivered", pa.bool_()),
            ("JMSXGroupID", pa.string()),
            ("JMSXGroupSeq", pa.int32()),
            ("JMSXDeliveryCount", pa.int32()),
            ("properties", PROPERTIES),
            ("body_type", pa.string()),
            ("text", pa.string()),
            ("bytes", pa.binary()),
            ("body", VARIANT),
            ("sequence", pa.int64()),
        ]
    )
