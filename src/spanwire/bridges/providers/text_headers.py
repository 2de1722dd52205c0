"""JMS headers and properties as texts by name, for systems whose headers have no types."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.bodies import CONTENT_TYPE, KIND
from spanwire.model.destination import TOPIC, Destination, parse_destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.model.message_view import STRING_VALUE, PropertyValue
from spanwire.protocols.stomp.bodies.properties import property_text

CORRELATION_ID: Final = "JMSCorrelationID"
MESSAGE_TYPE: Final = "JMSType"
REPLY_TO: Final = "JMSReplyTo"
PRIORITY: Final = "JMSPriority"
MESSAGE_ID: Final = "JMSMessageID"
TIMESTAMP: Final = "JMSTimestamp"
EXPIRATION: Final = "JMSExpiration"
GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
OWN: Final = frozenset(
    {
        CORRELATION_ID,
        MESSAGE_TYPE,
        REPLY_TO,
        PRIORITY,
        MESSAGE_ID,
        TIMESTAMP,
        EXPIRATION,
        GROUP_ID,
        GROUP_SEQUENCE,
        KIND,
    }
)
NORMAL_PRIORITY: Final = 4
MAX_DIGITS: Final = 18
INT_MAX: Final = 2**31 - 1


def outgoing_texts(message: BridgeMessage, kind: str | None) -> dict[str, str]:
    """Return headers and properties as texts.

    Headers without a value, and properties of bytes, are left out.

    Raises:
        MessageFormatError: the properties cannot be decoded, or a text is not valid Unicode.
    """
    texts: dict[str, str] = {}
    for name, value in message.property_values().items():
        text = property_text(value)
        if text is not None and name not in OWN and name != CONTENT_TYPE:
            texts[name] = text
    reply_to = message.reply_to
    for name, header in (
        (KIND, kind),
        (CORRELATION_ID, message.correlation_id),
        (MESSAGE_TYPE, message.message_type),
        (REPLY_TO, None if reply_to is None else str(reply_to)),
        (PRIORITY, None if message.priority == NORMAL_PRIORITY else str(message.priority)),
        (MESSAGE_ID, message.message_id or None),
        (TIMESTAMP, str(message.timestamp_ms) if message.timestamp_ms else None),
        (EXPIRATION, str(message.expiration_ms) if message.expiration_ms else None),
        (GROUP_ID, message.group_id),
        (GROUP_SEQUENCE, str(message.group_sequence) if message.group_sequence else None),
    ):
        if header is not None:
            texts[name] = header
    for name, text in texts.items():
        try:
            (name + text).encode()
        except UnicodeEncodeError:
            raise MessageFormatError(f"the property {name[:60]!r} is not valid Unicode") from None
    return texts


def content_type_of(message: BridgeMessage, own: str | None) -> str | None:
    """Return the content type in the property `CONTENT_TYPE`, or else our own."""
    value = message.property_values().get(CONTENT_TYPE)
    return value[1] if value is not None and isinstance(value[1], str) else own


def apply_texts(message: BridgeMessage, texts: dict[str, str]) -> None:
    """Set the JMS headers of a received message from texts."""
    message.correlation_id = texts.get(CORRELATION_ID)
    message.message_type = texts.get(MESSAGE_TYPE)
    message.priority = min(number(texts.get(PRIORITY), NORMAL_PRIORITY), 9)
    message.timestamp_ms = number(texts.get(TIMESTAMP), message.timestamp_ms)
    message.expiration_ms = number(texts.get(EXPIRATION), message.expiration_ms)
    message.group_id = texts.get(GROUP_ID, message.group_id)
    message.group_sequence = sequence_of(number(texts.get(GROUP_SEQUENCE), 0))
    message.reply_to = destination_of(texts.get(REPLY_TO)) or message.reply_to


def incoming_properties(texts: dict[str, str], content_type: str | None) -> dict[str, PropertyValue]:
    """Return the texts other than JMS headers as properties, and a content type unknown to all kinds."""
    values: dict[str, PropertyValue] = {name: (STRING_VALUE, text) for name, text in texts.items() if name not in OWN}
    if content_type is not None:
        values[CONTENT_TYPE] = (STRING_VALUE, content_type)
    return values


def destination_of(text: str | None) -> Destination | None:
    """Return the destination of a JMSReplyTo, a topic without a scheme; None for a wrong name."""
    try:
        return parse_destination(text, TOPIC) if text else None
    except InvalidDestinationError:
        return None


def sequence_of(value: object) -> int:
    """Return a JMSXGroupSeq, 0 for a value that is none; foreign systems have larger numbers."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT_MAX else 0


def number(text: str | None, default: int) -> int:
    """Return a whole number, or the default for another text."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else default
