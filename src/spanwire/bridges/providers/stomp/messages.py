"""STOMP frames as messages of a bridge, and back.

A text has no content-length, bytes have one, as in ActiveMQ. RabbitMQ sends a content-length with every message and
ignores that of a SEND, so there a text is what has the content-type ``text/…``. A map is JSON with the header
``transformation``.
"""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.text_headers import sequence_of
from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError, LocalProtocolError, MessageFormatError
from spanwire.model.message_view import BYTES, MAP, OBJECT, STREAM, STRING_VALUE, TEXT, PropertyValue
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, encode_map
from spanwire.protocols.stomp.bodies.properties import property_text, typed_property
from spanwire.protocols.stomp.bodies.transformation import JSON, TRANSFORMATION, map_text, read_map_text
from spanwire.protocols.stomp.codec.codec import MAX_BODY, MAX_HEADER_LENGTH, MAX_HEADERS
from spanwire.protocols.stomp.codec.encoding import encode_frame, encode_headers
from spanwire.protocols.stomp.codec.errors import StompProtocolError
from spanwire.protocols.stomp.codec.frames import SEND, V1_2, Frame
from spanwire.protocols.stomp.destinations import destination_text, has_prefix, read_destination

GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
TEXT_TYPE: Final = "text/plain;charset=utf-8"
MAX_MOMENT_MS: Final = 2**63 - 1  # milliseconds; the longest number of a JMS header
# Headers of a MESSAGE or SEND that are no properties.
STANDARD: Final = frozenset(
    {
        "ack",
        "correlation-id",
        "destination",
        "expires",
        "id",
        "message-id",
        "persistent",
        "priority",
        "receipt",
        "redelivered",
        "selector",
        "subscription",
        "timestamp",
        "transaction",
        "type",
        TRANSFORMATION,
        GROUP_ID,
        GROUP_SEQUENCE,
    }
)
OF_RABBITMQ: Final = frozenset({"content-type", "expiration"})  # properties at ActiveMQ
NEVER_PROPERTIES: Final = STANDARD | OF_RABBITMQ | {"content-length", "reply-to", "amq-msg-type"}


class StompContent:
    """Body and headers of a MESSAGE."""

    __slots__ = ("frame", "is_rabbit", "map_body")

    def __init__(self, frame: Frame, is_rabbit: bool, map_body: bytes | None) -> None:
        self.frame: Final[Frame] = frame
        self.is_rabbit: Final[bool] = is_rabbit
        self.map_body: Final[bytes | None] = map_body

    def neutral_body(self) -> bytes | None:
        """Return the body; a map in the neutral encoding."""
        return self.frame.body if self.map_body is None else self.map_body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return all headers except JMS headers: strings, but for headers of the scheduler."""
        values: dict[str, PropertyValue] = {}
        for name, text in self.frame.headers.items():
            if name in STANDARD or (self.is_rabbit and name in OF_RABBITMQ):
                continue
            if name == "reply-to" and reply_to_of(text) is not None:
                continue
            try:
                values[name] = typed_property(name, text)
            except StompProtocolError:
                values[name] = (STRING_VALUE, text)
        return values


def bridge_message(frame: Frame, is_rabbit: bool, now_ms: int) -> BridgeMessage:
    """Return a MESSAGE as a message of a bridge. ``now_ms`` is for RabbitMQ's relative expiration."""
    headers = frame.headers
    map_body = _map_body(frame)
    kind = MAP if map_body is not None else _kind(frame, is_rabbit)
    size = len(frame.body) + sum(len(name) + len(text) for name, text in headers.items())
    message = BridgeMessage(headers.get("message-id", ""), kind, StompContent(frame, is_rabbit, map_body), size)
    message.persistent = headers.get("persistent") == "true"
    message.priority = min(max(_number(headers.get("priority"), 4), 0), 9)
    message.timestamp_ms = min(_number(headers.get("timestamp"), 0) * (1_000 if is_rabbit else 1), MAX_MOMENT_MS)
    life_ms = _number(headers.get("expiration"), 0) if is_rabbit else 0
    message.expiration_ms = now_ms + life_ms if life_ms else _number(headers.get("expires"), 0)
    message.correlation_id = headers.get("correlation-id")
    message.message_type = headers.get("type")
    message.reply_to = reply_to_of(headers.get("reply-to", ""))
    message.group_id = headers.get(GROUP_ID)
    message.group_sequence = sequence_of(_number(headers.get(GROUP_SEQUENCE), 0))
    message.is_redelivered = headers.get("redelivered") == "true"
    return message


def send_frame(
    message: BridgeMessage, destination: Destination, is_rabbit: bool, now_ms: int, extra: list[tuple[str, str]]
) -> bytes:
    """Return the SEND of a message, with ``extra`` headers such as receipt or transaction.

    Raises:
        MessageFormatError: body or headers have no form in STOMP, or exceed the limits of ActiveMQ.
    """
    body, body_headers = _body(message, is_rabbit)
    headers = [("destination", destination_text(destination)), *extra, *body_headers]
    headers += _jms_headers(message, is_rabbit, now_ms)
    for name, value in message.property_values().items():
        text = property_text(value)
        if name not in NEVER_PROPERTIES and text is not None:
            headers.append((name, text))
    if len(headers) > MAX_HEADERS:
        raise MessageFormatError(f"the message has {len(headers)} headers, and STOMP brokers take {MAX_HEADERS}")
    try:
        for header in headers:
            if len(header[0]) + len(header[1]) > MAX_HEADER_LENGTH // 4:
                _check_line(header)
        return encode_frame(SEND, headers, body, V1_2)
    except LocalProtocolError as error:
        raise MessageFormatError(str(error)) from None


def dead_letter_frame(frame: Frame, destination: Destination, extra: list[tuple[str, str]]) -> bytes:
    """Return the SEND for a copy of a received message, with ``extra`` headers in front."""
    kept = [
        (name, text)
        for name, text in frame.headers.items()
        if name not in ("destination", "message-id", "subscription", "ack", "redelivered", "timestamp", "receipt")
    ]
    length = [("content-length", str(len(frame.body)))] if frame.content_length >= 0 else []
    headers = [("destination", destination_text(destination)), *extra, *length, *kept]
    return encode_frame(SEND, headers, frame.body, V1_2)


def reply_to_of(text: str) -> Destination | None:
    """Return the destination of a `reply-to`; None for a text in another form."""
    if not has_prefix(text):
        return None
    try:
        return read_destination(text)
    except InvalidDestinationError:
        return None


def _kind(frame: Frame, is_rabbit: bool) -> int:
    if is_rabbit:
        return TEXT if frame.headers.get("content-type", "").startswith("text/") else BYTES
    return TEXT if frame.content_length < 0 else BYTES


def _map_body(frame: Frame) -> bytes | None:
    """Return a map written by the broker as JSON; None for any other body."""
    if frame.headers.get(TRANSFORMATION) != JSON:
        return None
    try:
        return encode_map(read_map_text(frame.body, JSON))
    except MessageFormatError:
        return None


def _body(message: BridgeMessage, is_rabbit: bool) -> tuple[bytes, list[tuple[str, str]]]:
    """Return a body with the headers for the kind."""
    kind = message.kind
    if kind in (STREAM, OBJECT):
        name = "stream" if kind == STREAM else "Java object"
        raise MessageFormatError(f"the body is a {name}, which has no form in STOMP")
    body = message.content.neutral_body() or b""
    headers: list[tuple[str, str]] = []
    if kind == MAP:
        body = map_text(decode_map(body, UNBOUNDED), JSON)
        headers.append((TRANSFORMATION, JSON))
    elif kind == TEXT:
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            raise MessageFormatError("the text of a message is not UTF-8") from None
    if len(body) > MAX_BODY:
        raise MessageFormatError(f"the body has {len(body)} bytes, and STOMP brokers take {MAX_BODY}")
    if kind == BYTES or is_rabbit or b"\0" in body:
        headers.append(("content-length", str(len(body))))
    if kind != BYTES and is_rabbit:
        headers.append(("content-type", TEXT_TYPE))
    elif kind != BYTES and b"\0" in body:
        headers.append(("amq-msg-type", "text"))
    return body, headers


def _jms_headers(message: BridgeMessage, is_rabbit: bool, now_ms: int) -> list[tuple[str, str]]:
    headers = [("priority", str(message.priority))]
    if message.persistent:
        headers.append(("persistent", "true"))
    if message.expiration_ms and is_rabbit:
        headers.append(("expiration", str(max(1, message.expiration_ms - now_ms))))
    elif message.expiration_ms:
        headers.append(("expires", str(message.expiration_ms)))
    if message.reply_to is not None:
        headers.append(("reply-to", destination_text(message.reply_to)))
    if message.group_sequence:
        headers.append((GROUP_SEQUENCE, str(message.group_sequence)))
    for name, text in (
        ("correlation-id", message.correlation_id),
        ("type", message.message_type),
        (GROUP_ID, message.group_id),
    ):
        if text is not None:
            headers.append((name, text))
    return headers


def _check_line(header: tuple[str, str]) -> None:
    octets = len(encode_headers([header], V1_2))
    if octets > MAX_HEADER_LENGTH:
        raise MessageFormatError(
            f"the header {header[0][:60]} has {octets} bytes, and STOMP brokers take {MAX_HEADER_LENGTH}"
        )


def _number(text: str | None, default: int) -> int:
    """Return a whole number of a header, or the default for another text."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else default
