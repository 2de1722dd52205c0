"""Messages of AMQP 0-9-1 as messages of a bridge, and back.

JMS headers are properties of AMQP where there are any, else headers of the same name. Properties are headers with their
types; the types of numbers follow the value, because AMQP has others than JMS.
"""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any, Final

from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from pamqp.encode import encode_table_value, field_table

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.amqp091.frame_reader import UnreadableHeader
from spanwire.bridges.providers.bodies import (
    CONTENT_TYPE,
    KIND,
    BrokenContent,
    foreign_type,
    incoming_body,
    outgoing_body,
    typed,
)
from spanwire.bridges.providers.text_headers import sequence_of
from spanwire.model.destination import QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.model.message_view import BYTES, BYTES_VALUE, DOUBLE_VALUE, LONG_VALUE, STRING_VALUE, PropertyValue
from spanwire.protocols.stomp.bodies.properties import property_text

UTF_8: Final = (None, "", "utf-8", "UTF-8", "utf8")
ENCODING: Final = "content_encoding"
APPLICATION: Final = "app_id"
REPLY_TO: Final = "JMSReplyTo"  # header with a topic; a queue is the property reply_to
GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
OWN_HEADERS: Final = frozenset({KIND, REPLY_TO, GROUP_ID, GROUP_SEQUENCE})
OWN_PROPERTIES: Final = frozenset({CONTENT_TYPE, ENCODING, APPLICATION})
CONNECTION_QUEUES: Final = ("amq.gen", "amq.rabbitmq.reply-to")  # queues that no other broker can reach
MAX_BODY: Final = 128 * 1024 * 1024  # bytes; RabbitMQ's max_message_size
PERSISTENT: Final = 2  # delivery mode
TRANSIENT: Final = 1
MAX_LIFE_DIGITS: Final = 12  # digits of an expiration in milliseconds; more are over 30 years
MAX_MOMENT_MS: Final = 253_402_300_800_000  # milliseconds; the year 10,000, beyond which Python has no dates
MAX_NAME: Final = 128  # bytes of the name of a header
MAX_SHORT: Final = 255  # bytes of a short string
HEADER_ROOM: Final = 64  # bytes of the frame with the properties around them
TABLE_LENGTH: Final = 4  # bytes of a table before its entries
MAX_DEPTH: Final = 16  # tables and lists inside each other
UNENCODABLE: Final = (TypeError, ValueError, struct.error, OverflowError)  # of the library, for a value without a form
FRAME_ROOM: Final = 4_096  # bytes of a frame for everything but headers


class AmqpContent:
    """Body and headers of a message; the kind is known when it arrives."""

    __slots__ = ("body", "message")

    def __init__(self, message: DeliveredMessage, body: bytes | None) -> None:
        self.message: Final = message
        self.body: Final[bytes | None] = body

    def neutral_body(self) -> bytes | None:
        """Return the body in its neutral encoding."""
        return self.body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the headers, and the properties of AMQP without a counterpart in JMS."""
        own = self.message.header.properties
        values = {
            name: _typed(value, MAX_DEPTH) for name, value in (own.headers or {}).items() if name not in OWN_HEADERS
        }
        for name, text in (
            (CONTENT_TYPE, foreign_type(own.content_type)),
            (ENCODING, None if own.content_encoding in UTF_8 else own.content_encoding),
            (APPLICATION, own.app_id),
        ):
            if text:
                values[name] = (STRING_VALUE, text)
        return values


def bridge_message(message: DeliveredMessage, now_ms: int) -> BridgeMessage:
    """Return a received message. ``now_ms`` is for AMQP's relative expiration."""
    if isinstance(message.header, UnreadableHeader):
        return BridgeMessage("", BYTES, BrokenContent(message.header.reason), len(message.body))
    own = message.header.properties
    headers = own.headers or {}
    content_type = own.content_type if own.content_encoding in UTF_8 else None
    kind, body = incoming_body(message.body, content_type, _text(headers.get(KIND)))
    bridged = BridgeMessage(own.message_id or "", kind, AmqpContent(message, body), len(message.body))
    bridged.persistent = own.delivery_mode == PERSISTENT
    bridged.priority = 4 if own.priority is None else min(own.priority, 9)
    if own.timestamp is not None:
        bridged.timestamp_ms = int(own.timestamp.timestamp() * 1_000)
    life_ms = own.expiration
    if life_ms and life_ms.isdigit() and len(life_ms) <= MAX_LIFE_DIGITS:
        bridged.expiration_ms = now_ms + int(life_ms)
    bridged.correlation_id = own.correlation_id
    bridged.message_type = own.message_type
    bridged.reply_to = _reply_to(own.reply_to, _text(headers.get(REPLY_TO)))
    bridged.group_id = _text(headers.get(GROUP_ID))
    bridged.group_sequence = sequence_of(headers.get(GROUP_SEQUENCE))
    bridged.is_redelivered = bool(message.redelivered)
    return bridged


def outgoing_message(message: BridgeMessage, now_ms: int, max_frame: int) -> tuple[bytes, Basic.Properties]:
    """Return the body and the properties to publish.

    ``max_frame`` is the largest frame of the connection in bytes.

    Raises:
        MessageFormatError: body, headers or properties have no form in AMQP 0-9-1.
    """
    values = message.property_values()
    body, content_type, kind = outgoing_body(message.kind, message.content.neutral_body())
    if len(body) > MAX_BODY:
        raise MessageFormatError(f"the body has {len(body)} bytes, and RabbitMQ takes {MAX_BODY}")
    reply_to = message.reply_to
    properties = Basic.Properties(
        content_type=_own_text(values, CONTENT_TYPE) or content_type,
        content_encoding=_own_text(values, ENCODING),
        headers=_headers(message, values, kind),
        delivery_mode=PERSISTENT if message.persistent else TRANSIENT,
        priority=message.priority,
        correlation_id=_short("the correlation id", message.correlation_id),
        reply_to=_short("JMSReplyTo", reply_to.name) if reply_to is not None and reply_to.is_queue else None,
        expiration=str(max(1, message.expiration_ms - now_ms)) if message.expiration_ms else None,
        message_id=_short("the message id", message.message_id) or None,
        timestamp=_moment(message.timestamp_ms),
        message_type=_short("JMSType", message.message_type),
        app_id=_own_text(values, APPLICATION),
    )
    try:
        size = len(properties.marshal())
    except UNENCODABLE as error:
        raise MessageFormatError(f"a property has no form in AMQP: {error}") from None
    if size > max_frame - FRAME_ROOM:
        raise MessageFormatError(f"the properties have {size} bytes, and the broker takes {max_frame - FRAME_ROOM}")
    return body, properties


def dead_letter_properties(
    own: Basic.Properties, notes: dict[str, str], max_frame: int
) -> tuple[Basic.Properties, list[str]]:
    """Return a received message's properties with the notes of a dead letter, and headers without room.

    Notes are left out before headers of the message, which are left out from the largest on. ``max_frame`` is the
    largest frame of the connection in bytes, 0 for no limit.
    """
    headers = {name: _again(value) for name, value in (own.headers or {}).items()} | notes
    properties = Basic.Properties(
        content_type=own.content_type,
        content_encoding=own.content_encoding,
        headers=headers,
        delivery_mode=PERSISTENT,
        priority=own.priority,
        correlation_id=own.correlation_id,
        reply_to=own.reply_to,
        message_id=own.message_id,
        timestamp=own.timestamp,
        message_type=own.message_type,
        app_id=own.app_id,
    )
    sizes = {name: len(field_table({name: value})) for name, value in headers.items()}
    order = sorted(headers, key=lambda name: (name in notes, sizes[name]))
    excess = len(properties.marshal()) - (max_frame - HEADER_ROOM) if max_frame else 0
    left_out: list[str] = []
    while excess > 0 and order:
        name = order.pop()
        excess -= sizes[name] - TABLE_LENGTH
        del headers[name]
        left_out.append(name)
    return properties, left_out


def _again(value: object) -> object:
    """Return a received header in a form for the library; a text for an unwritable number."""
    if isinstance(value, dict):
        return {name: _again(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_again(inner) for inner in value]
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, float):  # the library writes 32 bits
        try:
            is_whole = struct.unpack("<f", struct.pack("<f", value))[0] == value
        except OverflowError:
            is_whole = False
        return value if is_whole else repr(value)
    try:
        encode_table_value(value)
    except UNENCODABLE:
        return str(value)
    return value


def _headers(message: BridgeMessage, values: dict[str, PropertyValue], kind: str | None) -> dict[str, Any]:
    headers = {name: _header(name, value) for name, value in values.items() if name not in OWN_PROPERTIES}
    if kind is not None:
        headers[KIND] = kind
    if message.group_id is not None:
        headers[GROUP_ID] = message.group_id
    if message.group_sequence:
        headers[GROUP_SEQUENCE] = message.group_sequence
    if message.reply_to is not None and not message.reply_to.is_queue:
        headers[REPLY_TO] = str(message.reply_to)
    return headers


def _header(name: str, value: PropertyValue) -> object:
    if not name or len(name.encode("utf-8", "replace")) > MAX_NAME:
        raise MessageFormatError(f"the name of a property has no form in AMQP: {name[:60]!r}")
    return _plain(value)


def _plain(entry: PropertyValue) -> object:
    """Return a property in the form for the library.

    A double becomes a text, because the library writes floating-point numbers in 32 bits.
    """
    kind, value = entry
    if kind == DOUBLE_VALUE:
        return property_text(entry)
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, dict):
        return {name: _header(name, inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _typed(value: object, depth: int) -> PropertyValue:
    if depth == 0:
        raise MessageFormatError(f"more than {MAX_DEPTH} tables of headers stand inside each other")
    if isinstance(value, (bytes, bytearray)):
        return (BYTES_VALUE, bytes(value))
    if isinstance(value, datetime.datetime):
        return (LONG_VALUE, int(value.timestamp() * 1_000))
    if isinstance(value, Decimal):
        return (STRING_VALUE, str(value))
    if isinstance(value, dict):
        return (typed({})[0], {str(name): _typed(inner, depth - 1) for name, inner in value.items()})
    if isinstance(value, list):
        return (typed([])[0], [_typed(inner, depth - 1) for inner in value])
    return typed(value)


def _own_text(values: dict[str, PropertyValue], name: str) -> str | None:
    value = values.get(name)
    return _short(name, value[1]) if value is not None and isinstance(value[1], str) else None


def _short(name: str, text: str | None) -> str | None:
    if text is not None and len(text.encode("utf-8", "replace")) > MAX_SHORT:
        raise MessageFormatError(f"{name} has more than {MAX_SHORT} bytes, which AMQP does not take")
    return text


def _reply_to(queue: str | None, other: object) -> Destination | None:
    if queue and not queue.startswith(CONNECTION_QUEUES):
        try:
            return parse_destination(queue, QUEUE)
        except InvalidDestinationError:
            return None
    if isinstance(other, str):
        try:
            return parse_destination(other, TOPIC)
        except InvalidDestinationError:
            return None
    return None


def _moment(timestamp_ms: int) -> datetime.datetime | None:
    """Return a timestamp of AMQP, which has seconds."""
    if not 0 < timestamp_ms < MAX_MOMENT_MS:
        return None
    return datetime.datetime.fromtimestamp(timestamp_ms // 1_000, datetime.UTC)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
