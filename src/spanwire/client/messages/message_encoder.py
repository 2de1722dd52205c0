"""Encoding of messages to send.

    size 4 | type | command id 4 | response required 1 | producer | destination | transaction | 0 (original destination)
    | id: 1, 110, 0 (text, version 10 and later), producer, sequence 8, 0 8 | 0 | group | group sequence 4 | correlation
    | persistent 1 | expiration 8 | priority 1 | reply to | timestamp 8 | type | content | properties | tail

(OpenWire, Message; loose and uncached.) Producer, destination, transaction and tail are equal for many messages, and
are encoded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be, write_i64_be

from spanwire.client.messages.message import Message
from spanwire.client.messages.message_template import LENGTH_OCTETS, MessageTemplate
from spanwire.client.messages.typed_values import (
    MAX_DEPTH,
    EncodedText,
    Serialized,
    body_list,
    body_map,
    check_property_names,
    typed_properties,
)
from spanwire.model.destination import Destination
from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.message_view import BLOB, LONG_VALUE, PLAIN, TEXT
from spanwire.protocols.octets import INT_MAX, INT_MIN, encode_text
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.messages.message_body import KINDS, deflated, wire_content
from spanwire.protocols.primitive_map import decode_map, encode_map, encode_stream

NULL: Final = b"\x00"
TEXT_VIEW_VERSION: Final = 10
DELAY_PROPERTY: Final = "AMQ_SCHEDULED_DELAY"  # ActiveMQ's name; OpenWire has no field for a delay
MAX_DELAY_MS: Final = 2**53


class Outgoing:
    """Arguments of one send. None stands for the producer's default.

    ``properties`` may be an encoded map, as of `Message.property_octets`. ``expires_at_ms``, in milliseconds since
    1970, overrides ``time_to_live_ms``; a time in the past becomes the next millisecond.
    """

    def __init__(
        self,
        body: object,
        properties: Mapping[str, object] | bytes | None = None,
        destination: Destination | str | None = None,
        message_type: str | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | str | None = None,
        persistent: bool | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        group_id: str | None = None,
        group_sequence: int = 0,
        expires_at_ms: int | None = None,
    ) -> None:
        self.body: Final[object] = body
        self.properties: Final[Mapping[str, object] | bytes | None] = properties
        self.destination: Final[Destination | str | None] = destination
        self.message_type: Final[str | None] = message_type
        self.correlation_id: Final[str | None] = correlation_id
        self.reply_to: Final[Destination | str | None] = reply_to
        self.persistent: Final[bool | None] = persistent
        self.priority: Final[int | None] = priority
        self.time_to_live_ms: Final[int | None] = time_to_live_ms
        self.group_id: Final[str | None] = group_id
        self.group_sequence: Final[int] = group_sequence
        self.expires_at_ms: Final[int | None] = expires_at_ms

    @property
    def is_plain(self) -> bool:
        """True if a `MessageTemplate` can encode the message."""
        return (
            self.message_type is None
            and self.correlation_id is None
            and self.reply_to is None
            and self.group_id is None
            and self.group_sequence == 0
        )


class Envelope:
    """Fields added by the producer: ids, destination, transaction, delivery mode, priority and times."""

    def __init__(self, producer: bytes, sequence: int, destination: bytes, transaction: bytes) -> None:
        self.producer: Final[bytes] = producer
        self.sequence: Final[int] = sequence
        self.destination: Final[bytes] = destination
        self.transaction: Final[bytes] = transaction
        self.reply_to = NULL
        self.persistent = True
        self.priority = 4
        self.expiration_ms = 0
        self.timestamp_ms = 0


class MessageEncoder:
    """Encodes messages in the layout of one wire format version."""

    def __init__(self, version: int, compresses: bool = False, nests: bool = True) -> None:
        self.version: Final[int] = version
        self._compresses: Final[bool] = compresses
        self._depth: Final[int] = 1 if nests else MAX_DEPTH
        self._tail: Final[bytes] = message_tail(version)
        self._compressed_tail: Final[bytes] = message_tail(version, True)
        self._id_head: Final[bytes] = b"\x01\x6e\x00" if version >= TEXT_VIEW_VERSION else b"\x01\x6e"
        self._writer: Final[LooseWriter] = LooseWriter(version, False)

    def template(
        self, type_id: int, addressed: bytes, producer: bytes, persistent: bool, priority: int
    ) -> MessageTemplate:
        """Return a template for plain messages. ``addressed`` holds producer, destination and transaction."""
        return MessageTemplate(type_id, addressed, self._id_head, producer, persistent, priority, self._tail)

    def content(self, type_id: int, body: object) -> bytes | None:
        """Return a body in the form for `MessageTemplate`: texts without the length."""
        if isinstance(body, str):
            return text_octets(body)
        if isinstance(body, EncodedText):
            return body.octets
        content = content_of(type_id, body, self._depth)
        if content is not None and type_id == wire.ACTIVE_MQ_TEXT_MESSAGE:
            return content[LENGTH_OCTETS:]
        return content

    def octets(self, outgoing: Outgoing, envelope: Envelope, command_id: int, response_required: bool) -> bytes:
        """Return the message from the type id on.

        Raises `MessageFormatError` for a body or header that cannot be encoded.
        """
        type_id = type_id_of(outgoing.body)
        writer = self._writer
        output = BytesWriter()
        writer.begin(output)
        output.append(type_id)
        write_i32_be(output, command_id)
        output.append(1 if response_required else 0)
        output.write(envelope.producer)
        output.write(envelope.destination)
        output.write(envelope.transaction)
        output.append(0)
        output.write(self._id_head)
        output.write(envelope.producer)
        write_i64_be(output, envelope.sequence)
        write_i64_be(output, 0)
        output.append(0)
        try:
            self._write_headers(writer, outgoing, envelope)
        except ProtocolError as error:
            raise MessageFormatError(f"a message header cannot be written: {error}") from None
        is_compressed = self._write_content(output, type_id, outgoing.body)
        properties = property_octets(outgoing.properties, outgoing.body)
        if properties:
            output.append(1)
            write_i32_be(output, len(properties))
            output.write(properties)
        else:
            output.append(0)
        output.write(self._compressed_tail if is_compressed else self._tail)
        return output.getvalue()

    def _write_content(self, output: BytesWriter, type_id: int, body: object) -> bool:
        """Write the body as a nullable byte array. Returns True if the body is compressed."""
        if isinstance(body, str) and not self._compresses:
            write_text(output, body)
            return False
        content = content_of(type_id, body, self._depth)
        if content is None:
            output.append(0)
            return False
        smaller = deflated(KINDS[type_id], content) if self._compresses else None
        if smaller is not None:
            content = smaller
        output.append(1)
        write_i32_be(output, len(content))
        output.write(content)
        return smaller is not None

    def _write_headers(self, writer: LooseWriter, outgoing: Outgoing, envelope: Envelope) -> None:
        writer.write_string(outgoing.group_id)
        output = writer.out
        if not INT_MIN <= outgoing.group_sequence <= INT_MAX:
            raise MessageFormatError(f"the group sequence {outgoing.group_sequence} does not fit into 32 bits")
        write_i32_be(output, outgoing.group_sequence)
        writer.write_string(outgoing.correlation_id)
        output.append(1 if envelope.persistent else 0)
        write_i64_be(output, envelope.expiration_ms)
        output.append(envelope.priority)
        output.write(envelope.reply_to)
        write_i64_be(output, envelope.timestamp_ms)
        writer.write_string(outgoing.message_type)


def message_tail(version: int, is_compressed: bool = False) -> bytes:
    """Return the fields behind the properties of a new message: nulls, zeros and the compression flag."""
    writer = LooseWriter(version, False)
    message = wire.ActiveMQMessage()
    message.compressed = is_compressed
    message.write(writer)
    whole = writer.out.getvalue()
    # data structure 1, target 1, compressed 1, counter 4, path 1, arrival 8, user 1, bridge 1, and later fields
    size = 18 + (1 if version >= 2 else 0) + (17 if version >= 3 else 0) + (1 if version >= TEXT_VIEW_VERSION else 0)
    return whole[len(whole) - size :]


def nested_octets(structure: DataStructure | None) -> bytes:
    """Return an encoded id or destination, as a message contains it."""
    writer = LooseWriter(1, False)
    try:
        writer.write_nested(structure)
    except ProtocolError as error:
        raise MessageFormatError(f"a name or id cannot be written: {error}") from None
    return writer.out.getvalue()


def type_id_of(body: object) -> int:
    """Return the message type for a body. Raises `MessageFormatError` for other values."""
    if isinstance(body, Message):  # a class of the compiled build, so that its check costs the others nothing
        return wire.ACTIVE_MQ_MESSAGE if body.raw[0] == wire.ACTIVE_MQ_BLOB_MESSAGE else body.raw[0]
    if isinstance(body, (str, EncodedText)):
        return wire.ACTIVE_MQ_TEXT_MESSAGE
    if isinstance(body, (bytes, bytearray, memoryview)):
        return wire.ACTIVE_MQ_BYTES_MESSAGE
    if body is None:
        return wire.ACTIVE_MQ_MESSAGE
    if isinstance(body, dict):
        return wire.ACTIVE_MQ_MAP_MESSAGE
    if isinstance(body, (list, tuple)):
        return wire.ACTIVE_MQ_STREAM_MESSAGE
    if isinstance(body, Serialized):
        return wire.ACTIVE_MQ_OBJECT_MESSAGE
    if isinstance(body, Mapping):
        return wire.ACTIVE_MQ_MAP_MESSAGE
    if isinstance(body, Sequence):
        return wire.ACTIVE_MQ_STREAM_MESSAGE
    raise MessageFormatError(
        f"a value of the type {type(body).__name__} is no message body; send str, bytes, dict, list, None or a Message"
    )


def write_text(output: BytesWriter, body: str) -> None:
    """Write a text as a byte array: flag, length, and inside the length of the text and the text."""
    octets = text_octets(body)
    output.append(1)
    write_i32_be(output, len(octets) + 4)
    write_i32_be(output, len(octets))
    output.write(octets)


def text_octets(body: str) -> bytes:
    """Return an encoded text. Raises `MessageFormatError` for a text that cannot be encoded."""
    try:
        return encode_text(body)
    except ProtocolError as error:
        raise MessageFormatError(f"a text body cannot be written: {error}") from None


def content_of(type_id: int, body: object, depth: int = 1) -> bytes | None:
    """Return the content of a message; ``depth`` is the nesting of the outermost map or list."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, Message):
        return forwarded_content(KINDS[type_id], body)
    if isinstance(body, (str, EncodedText)):
        octets = text_octets(body) if isinstance(body, str) else body.octets
        if octets is None:
            return None
        return len(octets).to_bytes(LENGTH_OCTETS, "big") + octets
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    if isinstance(body, Serialized):
        return body.octets or None
    if isinstance(body, dict):
        return encode_map(body_map(body, depth)) if body else None
    if isinstance(body, (list, tuple)):
        return encode_stream(body_list(body, depth))
    if isinstance(body, Mapping):
        return encode_map(body_map(body, depth)) if body else None
    return encode_stream(body_list(body, depth)) if isinstance(body, Sequence) else None


def forwarded_content(kind: int, message: Message) -> bytes | None:
    """Return the content of a received message that is sent on as ``kind``.

    An uncompressed body goes on as it came, undecoded, even a malformed one: its receiver alone reads it. A text is
    looked at where its length is not that of the content, because the length is written anew.
    """
    content = None if message.is_compressed() else message.content_octets()
    if content is None or kind == PLAIN or kind == BLOB:
        return wire_content(kind, message.neutral_body())
    room = len(content) - LENGTH_OCTETS
    if kind == TEXT and (room < 0 or int(read_i32_be(content, 0)) != room):
        return wire_content(kind, message.neutral_body())
    return content


def delayed_properties(properties: Mapping[str, object] | bytes | None, body: object, delay_ms: object) -> bytes:
    """Return encoded properties with the delay for the broker's scheduler.

    Raises `MessageFormatError` for a delay that is negative, too long or not a whole number of milliseconds.
    """
    if not isinstance(delay_ms, int) or not 0 <= delay_ms <= MAX_DELAY_MS:
        raise MessageFormatError(f"a delay is 0 or more whole milliseconds, not {delay_ms}")
    values = decode_map(property_octets(properties, body))
    if delay_ms > 0:
        values[DELAY_PROPERTY] = (LONG_VALUE, delay_ms)
    return encode_map(values) if values else b""


def property_octets(properties: Mapping[str, object] | bytes | None, body: object) -> bytes:
    """Return encoded properties, empty without properties.

    A forwarded `Message` keeps its properties unless ``properties`` are set. Raises `MessageFormatError`.
    """
    if isinstance(properties, bytes):
        return properties
    if properties:
        check_property_names(properties)
        return encode_map(typed_properties(properties))
    if properties is None and isinstance(body, Message):
        return body.property_octets()
    return b""
