"""The STOMP message format: converts between stored bytes, messages and the neutral form.

``layout.py`` describes the bytes, ``send_headers.py`` the meaning of a SEND frame's headers. The mapping of lines to
JMS headers was observed on ActiveMQ.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import MessageFormat
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, MessageFormatError, RemoteProtocolError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import DEFAULT_PRIORITY, FORMAT_STOMP, Message
from spanwire.model.message_view import BYTES, MAP, STRING_VALUE, TEXT, MessageView, PropertyValue
from spanwire.protocols.primitive_map import encode_map
from spanwire.protocols.stomp.bodies.advisories import ADVISORY_JSON, ADVISORY_TRANSFORMATIONS, advisory_text
from spanwire.protocols.stomp.bodies.map_body import read_map
from spanwire.protocols.stomp.bodies.properties import property_text, typed_property
from spanwire.protocols.stomp.bodies.transformation import (
    MAP_TRANSFORMATIONS,
    TRANSFORMATION,
    TRANSFORMATION_ERROR,
    map_text,
    read_map_text,
)
from spanwire.protocols.stomp.codec.encoding import encode_headers, encode_writable
from spanwire.protocols.stomp.codec.errors import StompProtocolError
from spanwire.protocols.stomp.codec.frames import V1_2
from spanwire.protocols.stomp.destinations import destination_text, has_prefix, read_destination
from spanwire.protocols.stomp.layout import (
    FLAG_BITS,
    FLAGS,
    head_of,
    is_bytes,
    line_flags,
    number_in,
    parse_message_id,
    read_lines,
    reply_to_of,
    tail_of,
)

STANDARD_HEADERS: Final = frozenset(
    {
        "message-id",
        "timestamp",
        "destination",
        "expires",
        "priority",
        "persistent",
        "correlation-id",
        "type",
        "reply-to",
        "content-length",
        "JMSXUserID",
        "original-destination",
    }
)
FIRST_FOR_CONSUMER: Final = "JMSXGroupFirstForConsumer"
OWN_HEADERS: Final = frozenset({"subscription", "message-id", "ack", "redelivered", "content-length"})
"""Headers that no property may take the place of: they are the broker's word or frame the body."""


class StompMessageFormat(MessageFormat):
    """STOMP's layout of messages; stateless. `SendHeaders` parses the headers of SEND frames."""

    def index(self, raw: bytes) -> Message:
        """Create a message from stored bytes; raises `RemoteProtocolError` for malformed bytes."""
        end = raw.find(b"\n\n")
        if end < 0 or not raw.startswith(b"message-id:"):
            raise RemoteProtocolError("a stored STOMP message has no header block")
        first_end = raw.find(b"\n")
        content_start = end + 2
        head = read_lines(raw[: end + 1])
        length = number_in(head, "content-length", -1)
        stop = content_start + length if "content-length" in head else raw.find(b"\0", content_start)
        if stop < content_start or stop >= len(raw) or raw[stop] != 0:
            raise RemoteProtocolError("a stored STOMP message has no end")
        tail = read_lines(raw[stop + 1 :])
        message_id = parse_message_id(head["message-id"])
        if message_id is None:
            message_id = MessageId(ProducerId("", 0, 0), 0, head["message-id"])
        try:
            destination = read_destination(tail.get("destination", head.get("destination", "")))
        except JmsError as error:
            raise RemoteProtocolError(f"a stored STOMP message has a bad destination: {error}") from error
        reply_to = reply_to_of(head)
        temporary = destination.is_temporary or (reply_to is not None and reply_to.is_temporary)
        return Message(
            FORMAT_STOMP,
            raw,
            content_start,
            stop,
            stop + 1,
            destination,
            message_id.producer_id,
            message_id.sequence,
            head.get("persistent") == "true",
            min(max(number_in(head, "priority", DEFAULT_PRIORITY), 0), 9),
            number_in(head, "expires", 0),
            number_in(head, "timestamp", 0),
            tail.get("JMSXGroupID"),
            first_end << FLAG_BITS | line_flags(raw[first_end:end], temporary),
            message_id.text_view,
        )

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        """Return all headers that are not JMS headers."""
        return self._typed(head_of(message), tail_of(message))

    def header(self, message: Message, name: str) -> object:
        """Return a JMS header by its JMS name."""
        head = head_of(message)
        if name == "JMSCorrelationID":
            return head.get("correlation-id")
        if name == "JMSType":
            return head.get("type")
        if name == "JMSReplyTo":
            reply_to = reply_to_of(head)
            return str(reply_to) if reply_to is not None else None
        if name == "JMSXUserID":
            return head.get("JMSXUserID")
        if name == "JMSXGroupSeq":
            return number_in(tail_of(message), "JMSXGroupSeq", 0)
        return None

    def view(self, message: Message) -> MessageView:
        """Return the message in neutral form: a text message, a bytes message or a transformed map."""
        head = head_of(message)
        tail = tail_of(message)
        view = MessageView(BYTES if is_bytes(head, tail) else TEXT, message.destination, message.message_id)
        original = tail.get("original-destination")
        if original is not None:
            view.original_destination = read_destination(original)
        view.correlation_id = head.get("correlation-id")
        view.reply_to = reply_to_of(head)
        view.type = head.get("type")
        view.persistent = message.persistent
        view.priority = message.priority
        view.expiration_ms = message.expiration_ms
        view.timestamp_ms = message.timestamp_ms
        view.group_id = message.group_id
        view.group_sequence = number_in(tail, "JMSXGroupSeq", 0)
        view.first_for_consumer = FIRST_FOR_CONSUMER in tail
        view.user_id = head.get("JMSXUserID")
        view.properties = self._typed(head, tail)
        view.body = message.raw[message.content_start : message.properties_start]
        transformation = head.get(TRANSFORMATION)
        if transformation in MAP_TRANSFORMATIONS and ("content-length" not in head or "framing" in tail):
            self._transform(view, view.body, transformation)
        return view

    def _transform(self, view: MessageView, body: bytes, transformation: str) -> None:
        """Convert a text to a map by its `transformation`.

        A malformed text stays, and a property has the error.
        """
        if MAP_TRANSFORMATIONS[transformation] != transformation:
            view.properties[TRANSFORMATION_ERROR] = (STRING_VALUE, f"Unknown transformation: {transformation}")
            return
        try:
            view.body = encode_map(read_map_text(body, transformation))
            view.kind = MAP
        except MessageFormatError as error:
            view.properties[TRANSFORMATION_ERROR] = (STRING_VALUE, str(error))

    def encode_from_view(self, view: MessageView) -> Message:
        """Create the MESSAGE of a message from another protocol.

        Text and bytes keep their body. A map is written as text if its property `transformation` names a form. An
        advisory has its command as text, JSON unless the property says XML. A stream or an object has no body. A
        property without a form in STOMP (bytes, a text with a NUL) is left out.
        """
        body = view.body if view.body is not None and view.kind in (TEXT, BYTES) else b""
        if view.kind == MAP and view.body is not None:
            body = self._map_text(view, view.body)
        properties = sendable_properties(view)
        if view.command is not None:
            form = ADVISORY_TRANSFORMATIONS.get(properties.get(TRANSFORMATION, ADVISORY_JSON), ADVISORY_JSON)
            properties[TRANSFORMATION] = form
            body = advisory_text(view.command, form)
        headers: list[tuple[str, str]] = [
            ("message-id", str(view.message_id)),
            ("timestamp", properties.pop("timestamp", str(view.timestamp_ms))),
        ]
        if view.kind == BYTES or b"\0" in body:
            headers.append(("content-length", str(len(body))))
        for name, text in standard_headers(view):
            headers.append((name, properties.pop(name, text)))
        headers.extend(properties.items())
        head = encode_writable(headers, V1_2)
        if not head.startswith(b"message-id:") or b"\ndestination:" not in head:
            raise MessageFormatError("the message id or destination cannot be written in a STOMP frame")
        raw = b"".join([head, b"\n", body, b"\0", encode_writable(remembered_headers(view, body), V1_2)])
        first_end = head.find(b"\n")
        content_start = len(head) + 1
        return Message(
            FORMAT_STOMP,
            raw,
            content_start,
            content_start + len(body),
            content_start + len(body) + 1,
            view.destination,
            view.message_id.producer_id,
            view.message_id.sequence,
            view.persistent,
            view.priority,
            view.expiration_ms,
            view.timestamp_ms,
            view.group_id,
            first_end << FLAG_BITS | line_flags(head[first_end:], self._is_temporary(view)),
            view.message_id.text_view,
        )

    def _map_text(self, view: MessageView, body: bytes) -> bytes:
        """Return a map as text by its property `transformation`; empty without the property."""
        transformation = view.properties.get(TRANSFORMATION)
        form = MAP_TRANSFORMATIONS.get(str(transformation[1])) if transformation is not None else None
        return b"" if form is None else map_text(read_map(body), form)

    def readdressed(self, message: Message, destination: Destination, names_original: bool = True) -> Message:
        """Return a copy for ``destination`` that shares the bytes of the body."""
        head = head_of(message)
        tail = tail_of(message)
        if names_original and "original-destination" not in tail:
            tail["original-destination"] = destination_text(message.destination)
        if "original-destination" in tail:
            head["original-destination"] = tail["original-destination"]
        if "destination" in tail:
            tail["destination"] = destination_text(destination)
        else:
            head["destination"] = destination_text(destination)
        new_head = encode_headers(list(head.items()), V1_2)
        first_end = new_head.find(b"\n")
        reply_to = reply_to_of(head)
        temporary = destination.is_temporary or (reply_to is not None and reply_to.is_temporary)
        copy = message.variant(
            destination,
            message.persistent,
            message.expiration_ms,
            message.timestamp_ms,
            first_end << FLAG_BITS | line_flags(new_head[first_end:], temporary),
        )
        copy.head = new_head + b"\n"
        copy.tail = encode_headers(list(tail.items()), V1_2)
        return copy

    def first_for_consumer(self, message: Message) -> Message:
        """Return a copy with JMSXGroupFirstForConsumer, not shown in STOMP frames, as in ActiveMQ."""
        tail = tail_of(message)
        tail[FIRST_FOR_CONSUMER] = "true"
        copy = message.twin()
        copy.tail = encode_headers(list(tail.items()), V1_2)
        return copy

    def restamped(
        self, message: Message, timestamp_ms: int, expiration_ms: int, persistent: bool, user_id: str | None = None
    ) -> Message:
        """Return a copy with other timestamp, expiration, delivery mode and user.

        The bytes of the body are shared.

        A header that is a property of the user stays unchanged.
        """
        head = head_of(message)
        if head.get("timestamp") == str(message.timestamp_ms):
            head["timestamp"] = str(timestamp_ms)
        if head.get("expires", str(message.expiration_ms)) == str(message.expiration_ms):
            head["expires"] = str(expiration_ms)
        if persistent:
            head["persistent"] = "true"
        else:
            head.pop("persistent", None)
        if user_id:
            head["JMSXUserID"] = user_id
        elif user_id is not None:
            head.pop("JMSXUserID", None)
        new_head = encode_headers(list(head.items()), V1_2)
        first_end = new_head.find(b"\n")
        copy = message.variant(
            message.destination,
            persistent,
            expiration_ms,
            timestamp_ms,
            first_end << FLAG_BITS | message.format_index & FLAGS,
        )
        copy.head = new_head + b"\n"
        return copy

    def _is_temporary(self, view: MessageView) -> bool:
        reply_to = view.reply_to
        return view.destination.is_temporary or (reply_to is not None and reply_to.is_temporary)

    def _typed(self, head: dict[str, str], tail: dict[str, str]) -> dict[str, PropertyValue]:
        """Return the properties among the headers by name."""
        properties: dict[str, PropertyValue] = {}
        for name, text in head.items():
            if name in STANDARD_HEADERS and not is_property(name, text, head, tail):
                continue
            try:
                properties[name] = typed_property(name, text)
            except StompProtocolError:
                continue
        return properties


def is_property(name: str, text: str, head: dict[str, str], tail: dict[str, str]) -> bool:
    """Return True if a header with a standard name is a property, as in ActiveMQ."""
    if name == "content-length":
        return "amq-msg-type" in head and "framing" not in tail
    if name == "reply-to":
        return not has_prefix(text)
    if name == "original-destination":
        return name not in tail
    return False


def standard_headers(view: MessageView) -> list[tuple[str, str]]:
    """Return the JMS headers of a MESSAGE except for message-id and timestamp."""
    headers = [("destination", destination_text(view.destination))]
    if view.correlation_id is not None:
        headers.append(("correlation-id", view.correlation_id))
    headers.append(("expires", str(view.expiration_ms)))
    headers.append(("priority", str(view.priority)))
    if view.persistent:
        headers.append(("persistent", "true"))
    if view.reply_to is not None:
        headers.append(("reply-to", destination_text(view.reply_to)))
    if view.type is not None:
        headers.append(("type", view.type))
    if view.user_id is not None:
        headers.append(("JMSXUserID", view.user_id))
    if view.original_destination is not None:
        headers.append(("original-destination", destination_text(view.original_destination)))
    return headers


def sendable_properties(view: MessageView) -> dict[str, str]:
    """Return the properties with a text form.

    Properties with the names of the broker's own headers are left out.
    """
    properties: dict[str, str] = {}
    for name, value in view.properties.items():
        text = property_text(value)
        if text is not None and name not in OWN_HEADERS:
            properties[name] = text
    return properties


def remembered_headers(view: MessageView, body: bytes) -> list[tuple[str, str]]:
    """Return the headers for the tail of a message from another protocol."""
    headers: list[tuple[str, str]] = []
    if view.kind != BYTES and b"\0" in body:
        headers.append(("framing", "added"))
    if "destination" in view.properties:
        headers.append(("destination", destination_text(view.destination)))
    if view.group_id is not None:
        headers.append(("JMSXGroupID", view.group_id))
    if view.group_sequence:
        headers.append(("JMSXGroupSeq", str(view.group_sequence)))
    if view.original_destination is not None:
        headers.append(("original-destination", destination_text(view.original_destination)))
    return headers


def stomp_formats() -> dict[int, MessageFormat]:
    """Return the formats of this protocol by number."""
    return {FORMAT_STOMP: StompMessageFormat()}
