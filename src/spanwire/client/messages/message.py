"""A received message: the encoded bytes, decoded on demand.

Only the fields for acknowledgements are decoded at once. Bodies are inflated and properties decoded on first use. The
body of an object message stays a Java serialization stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from json import loads
from typing import TYPE_CHECKING, Any, Final, Protocol

from librt.strings import read_i32_be, read_i64_be

from spanwire.client.messages.typed_values import TYPE_WORDS
from spanwire.model.destination import Destination
from spanwire.model.errors import IllegalStateError, InvalidDestinationError, MessageFormatError, ProtocolError
from spanwire.model.message_view import BYTES, MAP, OBJECT, STREAM, TEXT, PropertyValue
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.messages.identities import destination_of, message_id_of
from spanwire.protocols.openwire.messages.message_body import KINDS, neutral_body
from spanwire.protocols.openwire.messages.message_layout import PLAIN_OCTETS, MessageScanner
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, decode_stream, plain_map, plain_value

if TYPE_CHECKING:
    from spanwire.client.messages.content_types import Body, Properties

KIND_WORDS: Final = ("message", "text", "bytes", "map", "stream", "object", "blob")
NULLS: Final = b"\x00\x00"  # no content, no properties
ARRAY_HEAD: Final = 5  # octets before a byte array: flag and length
SEQUENCE_OCTETS: Final = 8
GROUP_SEQUENCE: Final = 2  # octets between the message id and the group sequence of a plain message
EMPTY: Final[tuple[None, ...]] = ()


class Done:
    """Result of `Message.acknowledge`, which may be awaited although the call has finished."""

    def __await__(self) -> Generator[None, None, None]:
        yield from EMPTY


DONE: Final = Done()


class MessageAcknowledger(Protocol):
    """Port: the session of a message."""

    def acknowledge(self, message: Message) -> None:
        """Acknowledge by the session's acknowledgement mode."""
        ...

    def reply(self, message: Message, body: Body, properties: Properties | None = None) -> Awaitable[None] | None:
        """Send a reply. In a blocking session the method returns after the send."""
        ...


class Message:
    """A received message. Headers are attributes; times are milliseconds since 1970.

    ``redelivery_count`` counts earlier deliveries. ``epoch`` is the link of the connection over which the message came.
    """

    def __init__(
        self, raw: bytes, version: int, scanner: MessageScanner, destination_octets: bytes, redelivery_count: int
    ) -> None:
        self.raw: Final[bytes] = raw
        self.version: Final[int] = version
        self.destination_octets: Final[bytes] = destination_octets
        self.redelivery_count = redelivery_count
        self.epoch = 0
        self.consumer_number = 0
        self.arrival = 0  # number in the order of the broker, if the consumer sorts its messages
        self.acknowledger: MessageAcknowledger | None = None
        self.persistent: Final[bool] = scanner.persistent
        self.priority: Final[int] = scanner.priority
        self.expiration: Final[int] = scanner.expiration_ms
        self.timestamp: Final[int] = scanner.timestamp_ms
        self.group_id: Final[str | None] = scanner.group_id
        self.content_start: Final[int] = scanner.content_start
        self.properties_start: Final[int] = scanner.properties_start
        self.tail_start: Final[int] = scanner.tail_start
        self.id_octets: Final[bytes] = raw[scanner.message_id_start : scanner.sequence_start + SEQUENCE_OCTETS]
        self.broker_sequence: Final[int] = int(read_i64_be(raw, scanner.sequence_start))
        # All nullable fields between the message id and the content are null, as in most messages, if there is no room
        # for another value. Such a message is forwarded without a look into its headers.
        self._is_plain: Final[bool] = scanner.content_start - scanner.sequence_start == SEQUENCE_OCTETS + PLAIN_OCTETS
        self._headers: wire.Message | None = None
        self._properties: dict[str, PropertyValue] | None = None

    def acknowledge(self) -> Done:
        """Acknowledge the message, or in a client session all delivered messages of the session.

        In an individual session only the message is acknowledged. Other modes ignore the call. A connection lost since
        the delivery ignores the call as well, because the broker redelivers the message.

        Raises:
            IllegalStateError: No consumer has received the message, or the session is closed.
        """
        if self.acknowledger is None:
            raise IllegalStateError("only a message that a consumer received can be acknowledged")
        self.acknowledger.acknowledge(self)
        return DONE

    def reply(self, body: Body, properties: Properties | None = None) -> Awaitable[None]:
        """Send a reply to ``reply_to``, with the message's correlation id, or with the message id without one.

        Await the result with `spanwire.client.aio`. In a transacted session the commit sends the reply.

        Raises:
            InvalidDestinationError: The message has no ``reply_to``.
            IllegalStateError: No consumer has received the message.
        """
        if self.acknowledger is None:
            raise IllegalStateError("only a message that a consumer received can be answered")
        sent = self.acknowledger.reply(self, body, properties)
        return DONE if sent is None else sent

    @property
    def kind(self) -> str:
        """JMS message type: ``text``, ``bytes``, ``map``, ``stream``, ``object``, ``message`` or ``blob``."""
        return KIND_WORDS[KINDS[self.raw[0]]]

    @property
    def text(self) -> str:
        """Body of a text message, or of a bytes message in UTF-8 as STOMP clients often send.

        Raises `MessageFormatError` for any other body, or without a body.
        """
        body = self.body
        if isinstance(body, bytes) and KINDS[self.raw[0]] == BYTES:
            try:
                return body.decode("utf-8")
            except UnicodeDecodeError:
                raise MessageFormatError("the body is no text in UTF-8") from None
        if not isinstance(body, str):
            raise MessageFormatError(f"a {self.kind} message has no text" if body is not None else "there is no text")
        return body

    def json(self) -> Any:
        """Return the JSON value of the text. Raises `MessageFormatError` for a text that is not JSON."""
        try:
            return loads(self.text)
        except (ValueError, RecursionError) as error:
            raise MessageFormatError(f"the body is no JSON: {error}") from None

    @property
    def body(self) -> Any:
        """Body by the message type: str, bytes, dict, list or None; bytes for an object message.

        Raises `MessageFormatError` if the body cannot be decoded.
        """
        kind = KINDS[self.raw[0]]
        body = self.neutral_body()
        if kind == TEXT:
            return None if body is None else body.decode("utf-8")
        if kind == BYTES:
            return body or b""
        if kind == MAP:
            return plain_map(decode_map(body or b"", UNBOUNDED))
        if kind == STREAM:
            return [plain_value(value) for value in decode_stream(body or b"", UNBOUNDED)]
        return body if kind == OBJECT else None

    def neutral_body(self) -> bytes | None:
        """Return the body in the encoding of `spanwire.model.message_view`."""
        return neutral_body(KINDS[self.raw[0]], self.content_octets(), self.is_compressed())

    def content_octets(self) -> bytes | None:
        """Return the content as it is encoded; None without a body."""
        if self.raw[self.content_start] == 0:
            return None
        return self.raw[self.content_start + ARRAY_HEAD : self.properties_start]

    def is_compressed(self) -> bool:
        """Return True if the content is a zlib stream."""
        tail = self.tail_start
        if self.raw[tail] == 0 and self.raw[tail + 1] == 0:  # no data structure, no target consumer before the flag
            return self.raw[tail + 2] != 0
        return self.headers.compressed

    @property
    def properties(self) -> dict[str, Any]:
        """Properties as plain Python values. Raises `MessageFormatError` for undecodable properties."""
        return plain_map(self.property_values())

    @property
    def typed_properties(self) -> dict[str, tuple[str, object]]:
        """Properties as (JMS type, value): boolean byte short int long float double string."""
        return {name: (TYPE_WORDS[kind], value) for name, (kind, value) in self.property_values().items()}

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the properties with their wire types, decoded once."""
        values = self._properties
        if values is None:
            values = decode_map(self.property_octets(), UNBOUNDED)
            self._properties = values
        return values

    def property_octets(self) -> bytes:
        """Return the encoded property map, empty without properties."""
        start = self.properties_start + ARRAY_HEAD
        return self.raw[start : self.tail_start] if start < self.tail_start else b""

    @property
    def headers(self) -> wire.Message:
        """The command without body and properties, decoded once."""
        headers = self._headers
        if headers is None:
            try:
                headers = decode_message(
                    self.raw[: self.content_start] + NULLS + self.raw[self.tail_start :], self.version
                )
            except ProtocolError as error:
                raise MessageFormatError(f"a message cannot be read: {error}") from None
            self._headers = headers
        return headers

    @property
    def message_id(self) -> str:
        """JMSMessageID, ``ID:host-port-millis-n:1:1:1:7``: the producer's id and the number of the message."""
        return str(message_id_of(self.headers.message_id))

    @property
    def destination(self) -> Destination:
        """JMSDestination."""
        return _readable(self.headers.destination)

    @property
    def original_destination(self) -> Destination | None:
        """First destination of a message moved by the broker, such as a dead letter; else None."""
        original = self.headers.original_destination
        return None if original is None else _readable(original)

    @property
    def reply_to(self) -> Destination | None:
        """JMSReplyTo."""
        if self._is_plain:
            return None
        reply_to = self.headers.reply_to
        return None if reply_to is None else _readable(reply_to)

    @property
    def correlation_id(self) -> str | None:
        """JMSCorrelationID."""
        return None if self._is_plain else self.headers.correlation_id

    @property
    def message_type(self) -> str | None:
        """JMSType."""
        return None if self._is_plain else self.headers.type

    @property
    def user_id(self) -> str | None:
        """JMSXUserID, if the broker sets it."""
        return self.headers.user_id

    @property
    def group_sequence(self) -> int:
        """JMSXGroupSeq."""
        if self._is_plain:
            return int(read_i32_be(self.raw, self.content_start - PLAIN_OCTETS + GROUP_SEQUENCE))
        return self.headers.group_sequence

    @property
    def redelivered(self) -> bool:
        """JMSRedelivered: True if the message may have been delivered before."""
        return self.redelivery_count > 0

    @property
    def delivery_count(self) -> int:
        """JMSXDeliveryCount: 1 for the first delivery."""
        return self.redelivery_count + 1

    def is_expired(self, wall_ms: int) -> bool:
        """Return True if the message has expired."""
        return 0 < self.expiration <= wall_ms

    def __repr__(self) -> str:
        return f"Message({self.kind}, {len(self.raw)} bytes)"


def reply_destination(message: Message) -> Destination:
    """Return the destination for the reply to a message.

    Raises `InvalidDestinationError` if there is none.
    """
    destination = message.reply_to
    if destination is None:
        raise InvalidDestinationError("the message has no reply_to, so it cannot be answered")
    return destination


def _readable(structure: wire.ActiveMQDestination | None) -> Destination:
    """Return the destination of a header. Raises `MessageFormatError` for an invalid name."""
    try:
        return destination_of(structure)
    except InvalidDestinationError as error:
        raise MessageFormatError(f"a message cannot be read: {error}") from None
