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
from spanwire.protocols.stomp.codec.encoding import encode_headers, encode_lines
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
"""Headers of a SEND that are read and do not become properties."""

PASSED_ON: Final = 0  # a property that nobody reads
READ: Final = 1
READ_AND_PASSED_ON: Final = 2
KINDS: Final[dict[str, int]] = {
    **dict.fromkeys(NOT_PASSED_ON, READ),
    **dict.fromkeys(TYPES, READ_AND_PASSED_ON),
    "amq-msg-type": READ_AND_PASSED_ON,
    TRANSFORMATION: READ_AND_PASSED_ON,
}
MAX_GATHERED: Final = 32 * 1024  # octets of a message that is gathered; the memory stays with the connection
DIGITS: Final = [b"%02d" % number for number in range(100)]
PERSISTENT_MODES: Final = ("2", "PERSISTENT")  # values of a JMSDeliveryMode header


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


class JmsHeaders:
    """The headers of a SEND that set fields of the message.

    ``lines`` are the lines of the MESSAGE from `expires` on.
    """

    def __init__(self, headers: dict[str, str]) -> None:
        """Raises `StompProtocolError` for an invalid number."""
        self.transaction: Final[str | None] = headers.get("transaction")
        self.persistent: Final[bool] = read_persistent(headers)
        self.priority: Final[int] = min(
            max(read_number(headers, "priority", "JMSPriority", INT_MAX, DEFAULT_PRIORITY), 0), 9
        )
        self.expiration_ms: Final[int] = max(read_number(headers, "expires", "JMSExpiration", LONG_MAX, 0), 0)
        self.timestamp_ms: Final[int] = max(read_number(headers, "timestamp", "JMSTimestamp", LONG_MAX, -1), -1)
        self.group_id: Final[str | None] = headers.get("JMSXGroupID")
        lines = [("expires", str(self.expiration_ms)), ("priority", str(self.priority))]
        if self.persistent:
            lines.append(("persistent", "true"))
        correlation_id = headers.get("JMSCorrelationID", headers.get("correlation-id"))
        if correlation_id is not None:
            lines.append(("correlation-id", correlation_id))
        message_type = headers.get("JMSType", headers.get("type"))
        if message_type is not None:
            lines.append(("type", message_type))
        self.lines: Final[bytes] = encode_headers(lines, V1_2)
        tail: list[tuple[str, str]] = []
        if self.group_id is not None:
            tail.append(("JMSXGroupID", self.group_id))
            sequence = read_number(headers, "JMSXGroupSeq", "JMSXGroupSeq", INT_MAX, 0)
            if sequence:
                tail.append(("JMSXGroupSeq", str(sequence)))
        self.tail: Final[bytes] = encode_headers(tail, V1_2)


DEFAULTS: Final = JmsHeaders({})


class SendHeaders(Prepared):
    """The parsed headers of a SEND.

    ``lines`` are the lines of the MESSAGE after message-id, timestamp and content-length, with the blank line.
    ``timestamp_ms`` is -1 if the broker sets the timestamp.

    Clients often give each message a header of its own, so this is made for each message. A header for the receiver
    alone takes one look-up and a place in ``lines``.
    """

    def __init__(self, block: HeaderBlock, names: DestinationNames) -> None:
        """Raises `StompRequestError`, `StompProtocolError` (an invalid number) and `InvalidDestinationError`."""
        headers = block.headers
        text = headers.get("destination")
        if text is None:
            raise StompRequestError("SEND received without a Destination specified!")
        passed_on: dict[str, str] = {}
        read_count = 0
        is_special = False
        for name, value in headers.items():
            kind = KINDS.get(name, PASSED_ON)
            if kind == READ:
                read_count += 1
            else:
                passed_on[name] = value
                if kind == READ_AND_PASSED_ON:
                    is_special = True
        self.needs_length: Final[bool] = is_special and needs_length(headers)
        self.destination: Final[Destination] = names.resolve(text)
        if is_special:
            check_properties(passed_on)
        temporary = self.destination.is_temporary
        jms = DEFAULTS
        if read_count > 1:  # others than the destination
            jms = JmsHeaders(headers)
            reply_to, reply_text = read_reply_to(headers, names)
            if reply_text is not None:
                passed_on = {"reply-to": reply_text, **passed_on}
            temporary = temporary or (reply_to is not None and reply_to.is_temporary)
        self.transaction: Final[str | None] = jms.transaction
        self.persistent: Final[bool] = jms.persistent
        self.priority: Final[int] = jms.priority
        self.expiration_ms: Final[int] = jms.expiration_ms
        self.timestamp_ms: Final[int] = jms.timestamp_ms
        self.group_id: Final[str | None] = jms.group_id
        self.tail: Final[bytes] = jms.tail
        lines = names.line(self.destination) + jms.lines
        if passed_on:
            lines += encode_lines(passed_on, V1_2)
        self.flags: Final[int] = line_flags(lines, temporary)
        self.lines: Final[bytes] = lines + b"\n"


def needs_length(headers: dict[str, str]) -> bool:
    """Return True if the MESSAGE must have a content-length.

    Raises:
        StompRequestError: the type of the message or its transformation is not supported.
    """
    kind = headers.get("amq-msg-type")
    if kind is not None and kind.lower() not in ("text", "bytes"):
        raise StompRequestError(f"Unsupported message type '{kind}'")
    transformation = headers.get(TRANSFORMATION)
    if transformation in OBJECT_TRANSFORMATIONS:
        raise StompRequestError(f"the transformation {transformation} is refused: {NO_OBJECTS}")
    return kind is not None and kind.lower() == "bytes"


def check_properties(properties: dict[str, str]) -> None:
    """Check typed properties, and add the error of an unknown transformation; raises `StompProtocolError`."""
    for name, value in properties.items():
        if name in TYPES:
            typed_property(name, value)
    unknown = properties.get(TRANSFORMATION)
    if unknown is not None and unknown not in MAP_TRANSFORMATIONS and unknown != BYTE:
        properties.setdefault(TRANSFORMATION_ERROR, f"Unknown transformation: {unknown[:MAX_SHOWN]}")


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
        self._timestamp = -1  # of the last message, with its line; messages of one read mostly have the same
        self._timestamp_line = b""
        self._length = -1
        self._length_line = b""
        self._middle = b""  # both lines

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
        if timestamp != self._timestamp or length != self._length:
            self._change_middle(timestamp, length)
        middle = self._middle
        first_end: i64 = len(self._first) + len(last)
        content_start: i64 = first_end + len(middle) + len(headers.lines)
        properties_start: i64 = content_start + size
        if chunks is not None:
            raw = b"".join([self._first, last, middle, headers.lines, *chunks, b"\0", tail])
        elif properties_start > MAX_GATHERED:
            raw = b"".join([self._first, last, middle, headers.lines, body, b"\0", tail])
        else:
            out = self._out
            out.write(self._first)
            out.write(last)
            out.write(middle)
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

    def _change_middle(self, timestamp: int, length: int) -> None:
        """Write the lines between the id and the headers of the client."""
        if timestamp != self._timestamp:
            self._timestamp = timestamp
            self._timestamp_line = b"\ntimestamp:%d\n" % timestamp
        if length != self._length:
            self._length = length
            self._length_line = b"content-length:%d\n" % length if length >= 0 else b""
        self._middle = self._timestamp_line + self._length_line
