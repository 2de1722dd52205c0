"""Records of Kafka as messages of a bridge, and back.

JMS headers and properties are headers of the record, as texts.

The key of a record is JMSXGroupID, so that messages of a group stay in order in one partition.
"""

from __future__ import annotations

from typing import Final

from aiokafka import ConsumerRecord

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.bodies import KIND, foreign_type, incoming_body, outgoing_body
from spanwire.bridges.providers.text_headers import (
    GROUP_ID,
    MESSAGE_ID,
    apply_texts,
    content_type_of,
    incoming_properties,
    outgoing_texts,
)
from spanwire.model.message_view import PropertyValue

CONTENT_TYPE_HEADER: Final = "content-type"

Headers = list[tuple[str, bytes]]


class KafkaContent:
    """Body and headers of a record; the kind is known when it arrives."""

    __slots__ = ("body", "record", "texts")

    def __init__(self, record: ConsumerRecord, body: bytes | None, texts: dict[str, str]) -> None:
        self.record: Final = record
        self.body: Final[bytes | None] = body
        self.texts: Final[dict[str, str]] = texts

    def neutral_body(self) -> bytes | None:
        """Return the body in its neutral encoding."""
        return self.body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the headers that are no JMS headers, as strings."""
        texts = {name: text for name, text in self.texts.items() if name != CONTENT_TYPE_HEADER}
        return incoming_properties(texts, foreign_type(self.texts.get(CONTENT_TYPE_HEADER)))


def bridge_message(record: ConsumerRecord) -> BridgeMessage:
    """Return a record as a message of a bridge.

    A header other than text arrives with replacement characters.
    """
    texts: dict[str, str] = {}
    for name, octets in record.headers:
        texts.setdefault(name, (octets or b"").decode("utf-8", "replace"))
    value = record.value or b""
    kind, body = incoming_body(value, texts.get(CONTENT_TYPE_HEADER), texts.get(KIND))
    message_id = texts.get(MESSAGE_ID) or f"{record.topic}-{record.partition}-{record.offset}"
    message = BridgeMessage(message_id, kind, KafkaContent(record, body, texts), len(value))
    message.timestamp_ms = max(0, record.timestamp)
    if record.key is not None:
        message.group_id = record.key.decode("utf-8", "replace")
    apply_texts(message, texts)
    return message


def outgoing_record(message: BridgeMessage) -> tuple[bytes, bytes | None, Headers]:
    """Return value, key and headers of a record. Raises `MessageFormatError`."""
    body, own_type, kind = outgoing_body(message.kind, message.content.neutral_body())
    texts = outgoing_texts(message, kind)
    group = texts.pop(GROUP_ID, None)
    content_type = content_type_of(message, own_type)
    if content_type is not None:
        texts[CONTENT_TYPE_HEADER] = content_type
    return body, None if group is None else group.encode(), [(name, text.encode()) for name, text in texts.items()]
