"""Values of the column ``body_type`` by the type number of the OpenWire message."""

from __future__ import annotations

from typing import Final

from spanwire.protocols.openwire.codec._marshallers import (
    ACTIVE_MQ_BYTES_MESSAGE,
    ACTIVE_MQ_MAP_MESSAGE,
    ACTIVE_MQ_OBJECT_MESSAGE,
    ACTIVE_MQ_STREAM_MESSAGE,
    ACTIVE_MQ_TEXT_MESSAGE,
)

TEXT_BODY: Final = "text"
BYTES_BODY: Final = "bytes"
MAP_BODY: Final = "map"
STREAM_BODY: Final = "stream"
OBJECT_BODY: Final = "object"
MESSAGE_BODY: Final = "message"  # a message without a body
UNREADABLE: Final = "unreadable"

BODY_TYPES: Final[dict[int, str]] = {
    ACTIVE_MQ_TEXT_MESSAGE: TEXT_BODY,
    ACTIVE_MQ_BYTES_MESSAGE: BYTES_BODY,
    ACTIVE_MQ_MAP_MESSAGE: MAP_BODY,
    ACTIVE_MQ_STREAM_MESSAGE: STREAM_BODY,
    ACTIVE_MQ_OBJECT_MESSAGE: OBJECT_BODY,
}
BODY_KINDS: Final = (TEXT_BODY, BYTES_BODY, MAP_BODY, STREAM_BODY, OBJECT_BODY)
