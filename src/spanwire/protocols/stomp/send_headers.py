"""Parses the headers of a SEND once per header block and creates the message (observed on ActiveMQ).

Some headers set a JMS header. `transaction`, `subscription`, `message-id`, `redelivered` and similar headers are not
passed on. All other headers become properties. A client cannot set JMSXUserID, JMSRedelivered and JMSXDeliveryCount:
only the broker knows the sender and the number of deliveries.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.ids import ProducerId
from spanwire.model.message import DEFAULT_PRIORITY, FORMAT_STOMP, Message
from spanwire.protocols.stomp.bodies.properties import INT_MAX, LONG_MAX, TYPES, typed_property, whole_number
from spanwire.protocols.stomp.bodies.transformation import (
    BYTE,
    MAP_TRANSFORMATIONS,
    MAX_SHOWN,
    NO_OBJECTS,
    OBJECT_TRANSFORMATIONS,
    TRANSFORMATION,
    TRANSFORMATION_ERROR,
)
from spanwire.protocols.stomp.codec.encoding import encode_headers
from spanwire.protocols.stomp.codec.errors import StompRequestError
from spanwire.protocols.stomp.codec.frames import V1_2, Frame, HeaderBlock, Prepared
from spanwire.protocols.stomp.destinations import DestinationNames, destination_text, has_prefix
from spanwire.protocols.stomp.layout import FLAG_BITS, id_line, line_flags

NOT_PASSED_ON: Final = frozenset(
    {
        "destination",
        "transaction",
        "receipt",
        "content-length",
        "persistent",
        "priority",
        "expires",
        "timestamp",
        "correlation-id",
        "type",
        "reply-to",
        "message-id",
        "redelivered",
        "subscription",
        "ack",
        "JMSPriority",
        "JMSDeliveryMode",
        "JMSExpiration",
        "JMSTimestamp",
        "JMSCorrelationID",
        "JMSReplyTo",
        "JMSType",
        "JMSRedelivered",
        "JMSXGroupID",
        "JMSXGroupSeq",
        "JMSXUserID",
        "JMSXDeliveryCount",
    }
)
MAX_GATHERED: Final = 32 * 1024  # octets of a message that is gathered; the memory stays with the connection
DIGITS: Final = [b"%02d" % number for number in range(100)]
PERSISTENT_MODES: Final = ("2", "PERSISTENT")  # values of a JMSDeliveryMode header


class SendHeaders(Prepared):
    """The parsed headers of a SEND.

    ``lines`` are the lines of the MESSAGE after message-id, timestamp and content-length, with the blank line.
    ``timestamp_ms`` is -1 if the broker sets the timestamp.
    """

    def __init__(self, block: HeaderBlock, names: DestinationNames) -> None:
        """Raises `StompRequestError`, `StompProtocolError` (an invalid number) and `InvalidDestinationError`."""
        headers = block.headers
        text = headers.get("destination")
        if text is None:
            raise StompRequestError("SEND received without a Destination specified!")
        kind = headers.get("amq-msg-type")
        if kind is not None and kind.lower() not in ("text", "bytes"):
            raise StompRequestError(f"Unsupported message type '{kind}'")
        transformation = headers.get(TRANSFORMATION)
        if transformation in OBJECT_TRANSFORMATIONS:
            raise StompRequestError(f"the transformation {transformation} is refused: {NO_OBJECTS}")
        self.transaction: Final[str | None] = headers.get("transaction")
        self.destination: Final[Destination] = names.resolve(text)
        self.needs_length: Final[bool] = kind is not None and kind.lower() == "bytes"
        self.persistent: Final[bool] = read_persistent(headers)
        self.priority: Final[int] = min(
            max(read_number(headers, "priority", "JMSPriority", INT_MAX, DEFAULT_PRIORITY), 0), 9
        )
        self.expiration_ms: Final[int] = max(read_number(headers, "expires", "JMSExpiration", LONG_MAX, 0), 0)
        self.timestamp_ms: Final[int] = max(read_number(headers, "timestamp", "JMSTimestamp", LONG_MAX, -1), -1)
        self.group_id: Final[str | None] = headers.get("JMSXGroupID")
        reply_to, reply_text = read_reply_to(headers, names)
        lines = encode_headers(message_headers(self, headers, reply_text), V1_2)
        temporary = self.destination.is_temporary or (reply_to is not None and reply_to.is_temporary)
        self.flags: Final[int] = line_flags(lines, temporary)
        self.lines: Final[bytes] = lines + b"\n"
        tail: list[tuple[str, str]] = []
        if self.group_id is not None:
            tail.append(("JMSXGroupID", self.group_id))
            sequence = read_number(headers, "JMSXGroupSeq", "JMSXGroupSeq", INT_MAX, 0)
            if sequence:
                tail.append(("JMSXGroupSeq", str(sequence)))
        self.tail: Final[bytes] = encode_headers(tail, V1_2)
        self.middle = b""  # timestamp and content-length of the last message; messages of one read mostly have the same
        self.middle_timestamp = -1
        self.middle_length = -1


def message_headers(send: SendHeaders, headers: dict[str, str], reply_text: str | None) -> list[tuple[str, str]]:
    """Return the headers of the MESSAGE except for message-id, timestamp and content-length."""
    lines = [
        ("destination", destination_text(send.destination)),
        ("expires", str(send.expiration_ms)),
        ("priority", str(send.priority)),
    ]
    if send.persistent:
        lines.append(("persistent", "true"))
    correlation_id = headers.get("JMSCorrelationID", headers.get("correlation-id"))
    if correlation_id is not None:
        lines.append(("correlation-id", correlation_id))
    message_type = headers.get("JMSType", headers.get("type"))
    if message_type is not None:
        lines.append(("type", message_type))
    if reply_text is not None:
        lines.append(("reply-to", reply_text))
    for name, value in headers.items():
        if name not in NOT_PASSED_ON:
            if name in TYPES:
                typed_property(name, value)
            lines.append((name, value))
    unknown = headers.get(TRANSFORMATION)
    if unknown is not None and unknown not in MAP_TRANSFORMATIONS and unknown != BYTE:
        lines.append((TRANSFORMATION_ERROR, f"Unknown transformation: {unknown[:MAX_SHOWN]}"))
    return lines


def read_persistent(headers: dict[str, str]) -> bool:
    """Return True for exactly `persistent:true`; a JMSDeliveryMode header takes precedence."""
    mode = headers.get("JMSDeliveryMode")
    if mode is not None:
        return mode in PERSISTENT_MODES
    return headers.get("persistent") == "true"


def read_number(headers: dict[str, str], name: str, jms_name: str, largest: int, default: int) -> int:
    """Return a number by its STOMP or JMS name; the JMS name takes precedence.

    Raises `StompProtocolError`.
    """
    number = default
    text = headers.get(name)
    if text is not None:
        number = whole_number(name, text, largest)
    text = headers.get(jms_name)
    if text is not None:
        number = whole_number(jms_name, text, largest)
    return number


def read_reply_to(headers: dict[str, str], names: DestinationNames) -> tuple[Destination | None, str | None]:
    """Return the reply-to as a destination and as the header of the MESSAGE.

    Any other value stays a string.
    """
    text = headers.get("JMSReplyTo")
    if text is not None:
        reply_to = parse_destination(text, QUEUE)
        return reply_to, destination_text(reply_to)
    text = headers.get("reply-to")
    if text is None or not has_prefix(text):
        return None, text
    reply_to = names.resolve(text)
    return reply_to, destination_text(reply_to)


class MessageWriter:
    """Writes the messages of one producer: the SEND frames of a connection.

    The octets are gathered in one `BytesWriter`, and the first digits of the sequence are kept for the next messages.
    Joining a list of parts takes twice the instructions.
    """

    def __init__(self, producer_id: ProducerId) -> None:
        self._producer_id: Final[ProducerId] = producer_id
        self._id_line: Final[bytes] = id_line(producer_id)
        self._out = BytesWriter()
        self._sequence: i64 = 0
        self._hundreds: i64 = 0
        self._first = self._id_line  # the id line with all digits of the sequence but the last two

    def message(self, headers: SendHeaders, frame: Frame, wall_ms: int) -> Message:
        """Return the message of a SEND frame."""
        sequence = self._sequence + 1
        self._sequence = sequence
        hundreds = sequence // 100
        if hundreds != self._hundreds:
            self._hundreds = hundreds
            self._first = self._id_line + str(hundreds).encode()
        last = DIGITS[sequence - hundreds * 100] if hundreds > 0 else str(sequence).encode()
        timestamp = headers.timestamp_ms if headers.timestamp_ms >= 0 else wall_ms
        body = frame.whole
        chunks = frame.chunks
        size = len(body) if chunks is None else sum([len(chunk) for chunk in chunks])
        length = frame.content_length
        tail = headers.tail
        if headers.needs_length and length < 0:
            length = size
            tail += b"framing:added\n"
        if timestamp != headers.middle_timestamp or length != headers.middle_length:
            headers.middle_timestamp = timestamp
            headers.middle_length = length
            headers.middle = b"\ntimestamp:%d\n" % timestamp
            if length >= 0:
                headers.middle += b"content-length:%d\n" % length
        first_end: i64 = len(self._first) + len(last)
        content_start: i64 = first_end + len(headers.middle) + len(headers.lines)
        properties_start: i64 = content_start + size
        if chunks is not None:
            raw = b"".join([self._first, last, headers.middle, headers.lines, *chunks, b"\0", tail])
        elif properties_start > MAX_GATHERED:
            raw = b"".join([self._first, last, headers.middle, headers.lines, body, b"\0", tail])
        else:
            out = self._out
            out.write(self._first)
            out.write(last)
            out.write(headers.middle)
            out.write(headers.lines)
            out.write(body)
            out.append(0)
            out.write(tail)
            raw = out.getvalue()
            out.truncate(0)
        return Message(
            FORMAT_STOMP,
            raw,
            content_start,
            properties_start,
            properties_start + 1,
            headers.destination,
            self._producer_id,
            sequence,
            headers.persistent,
            headers.priority,
            headers.expiration_ms,
            timestamp,
            headers.group_id,
            first_end << FLAG_BITS | headers.flags,
        )
