"""Messages of AMQP 1.0 as messages of a bridge, and back.

Headers and bodies follow the AMQP JMS Mapping Version 1.0 of OASIS, which the annotations ``x-opt-jms-…`` belong to.
RabbitMQ hands only a body of octets on to clients of other protocols, so a text goes there as octets with a content
type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.addresses import Place
from spanwire.bridges.providers.amqp import sections as s
from spanwire.bridges.providers.amqp.codec import (
    BINARY,
    BOOLEAN,
    BYTE,
    LIST,
    MAP,
    NULL,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UBYTE,
    UINT,
    Value,
    described,
)
from spanwire.bridges.providers.amqp.peers import CREATED_QUEUE, Peer, address, destination_of
from spanwire.bridges.providers.amqp.sections import Sections, field, number_of, text_of
from spanwire.bridges.providers.amqp.values import (
    LONG_MAX,
    amqp_map,
    amqp_value,
    id_text,
    id_value,
    jms_map,
    jms_value,
    property_value,
)
from spanwire.bridges.providers.bodies import (
    BYTES_TYPE,
    CONTENT_TYPE,
    OBJECT_TYPE,
    TEXT_TYPE,
    TEXTUAL,
    BrokenContent,
    check_text,
    foreign_type,
)
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.model.message_view import BYTES, OBJECT, PLAIN, STREAM, STRING_VALUE, TEXT, PropertyValue
from spanwire.model.message_view import MAP as MAP_KIND
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, decode_stream, encode_map, encode_stream

ENCODING: Final = "content_encoding"
USER_ID: Final = "user_id"
MESSAGE_TYPE: Final = "x-opt-jms-msg-type"
DESTINATION_TYPE: Final = "x-opt-jms-dest"
REPLY_TYPE: Final = "x-opt-jms-reply-to"
OWN_PROPERTIES: Final = frozenset({CONTENT_TYPE, ENCODING})
TYPES: Final = {PLAIN: 0, OBJECT: 1, MAP_KIND: 2, BYTES: 3, STREAM: 4, TEXT: 5}  # values of `MESSAGE_TYPE`
KINDS: Final = {number: kind for kind, number in TYPES.items()}
CONNECTION_QUEUES: Final = "amq.gen"  # beginning of queues of RabbitMQ that no other broker can reach
NORMAL_PRIORITY: Final = 4
HIGHEST_PRIORITY: Final = 9
UINT_MAX: Final = 2**32 - 1
INT_RANGE: Final = 2**31
MAX_SHORT: Final = 255  # bytes of an id, address or content type at RabbitMQ


@dataclass(frozen=True, slots=True)
class Way:
    """The target of messages: the broker, the destination and the address of the destination there."""

    peer: Peer
    place: Place
    destination: Destination
    address: str


class AmqpContent:
    """Body and properties of a received message."""

    __slots__ = ("kind", "sections")

    def __init__(self, sections: Sections) -> None:
        self.sections: Final = sections
        self.kind: Final = _kind_of(sections)

    def neutral_body(self) -> bytes | None:
        """Return the body in its neutral encoding. Raises `MessageFormatError`."""
        with _refusal():
            return self._body()

    def _body(self) -> bytes | None:
        values = self.sections.body_values()
        if self.kind == STREAM:
            return encode_stream([jms_value(value) for value in _stream_values(values)])
        if self.kind == MAP_KIND:
            entries = values[0][1] if values else []
            assert isinstance(entries, list)
            return encode_map(jms_map(entries))
        if self.kind == PLAIN or not values or values[0][0] == NULL:
            return b"" if self.kind in (BYTES, OBJECT) else None
        return b"".join(_octets(value) for value in values)

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the application properties, and the properties of AMQP without a counterpart in JMS.

        Raises `MessageFormatError`.
        """
        with _refusal():
            values = jms_map(self.sections.application_values())
        own = self.sections.properties
        for name, text in (
            (CONTENT_TYPE, foreign_type(text_of(field(own, s.CONTENT_TYPE)))),
            (ENCODING, text_of(field(own, s.CONTENT_ENCODING))),
            (USER_ID, _user(field(own, s.USER_ID))),
        ):
            if text:
                values[name] = (STRING_VALUE, text)
        return values


def bridge_message(octets: bytes, now_ms: int, peer: Peer) -> BridgeMessage:
    """Return a received message. A damaged message fails at sending.

    ``now_ms`` is for a relative expiration.
    """
    try:
        with _refusal():
            return _message(AmqpContent(Sections(octets)), now_ms, peer)
    except MessageFormatError as error:
        return BridgeMessage("", BYTES, BrokenContent(str(error)), len(octets))


@contextmanager
def _refusal() -> Iterator[None]:
    """Turn any error into `MessageFormatError`.

    With another error, the bridge would stop at the message for good.
    """
    try:
        yield
    except MessageFormatError:
        raise
    except Exception as error:
        raise MessageFormatError(f"a message of AMQP cannot be read ({type(error).__name__})") from error


def _message(content: AmqpContent, now_ms: int, peer: Peer) -> BridgeMessage:
    header, own, annotations = content.sections.header, content.sections.properties, content.sections.annotations
    message = BridgeMessage(
        id_text(field(own, s.MESSAGE_ID)) or "", content.kind, content, len(content.sections.octets)
    )
    message.persistent = field(header, s.DURABLE)[1] is True
    priority = number_of(field(header, s.PRIORITY))
    message.priority = NORMAL_PRIORITY if priority is None else max(min(priority, HIGHEST_PRIORITY), 0)
    life_ms = number_of(field(header, s.TTL))
    expiry_ms = number_of(field(own, s.EXPIRY_TIME))
    message.expiration_ms = _time(expiry_ms or (now_ms + life_ms if life_ms else 0))
    message.timestamp_ms = _time(number_of(field(own, s.CREATION_TIME)) or 0)
    message.correlation_id = id_text(field(own, s.CORRELATION_ID))
    if not peer.is_rabbit or text_of(field(own, s.TO)) or MESSAGE_TYPE in annotations:
        message.message_type = text_of(field(own, s.SUBJECT))  # else the routing key of a client of AMQP 0-9-1
    message.reply_to = _reply_to(text_of(field(own, s.REPLY_TO)), annotations.get(REPLY_TYPE))
    message.group_id = text_of(field(own, s.GROUP_ID))
    sequence = (number_of(field(own, s.GROUP_SEQUENCE)) or 0) % (2 * INT_RANGE)
    message.group_sequence = sequence - 2 * INT_RANGE if sequence >= INT_RANGE else sequence
    was_sent = peer.is_rabbit and field(header, s.FIRST_ACQUIRER)[1] is False
    message.is_redelivered = was_sent or bool(number_of(field(header, s.DELIVERY_COUNT)))
    return message


def outgoing_message(message: BridgeMessage, way: Way, now_ms: int) -> bytes:
    """Return the octets of a message to send.

    The body of a message from AMQP is forwarded unchanged, and so are application properties unchanged by steps; a
    broker can end the connection for a damaged body, so the body is read before.

    Raises:
        MessageFormatError: body, headers or properties have no form in AMQP 1.0.
    """
    own = message.content.sections if isinstance(message.content, AmqpContent) else None
    if own is not None and not (way.peer.is_rabbit and message.kind == TEXT):
        own.body_values()
        body = own.body() or s.value_section(s.ABSENT)
        body_type = text_of(field(own.properties, s.CONTENT_TYPE))
    else:
        body, body_type = _body(message.kind, message.content.neutral_body(), way.peer.is_rabbit)
    values = message.property_values()
    if own is not None and own.application and message.properties is None:
        application = described(s.APPLICATION_PROPERTIES, own.application)
    else:
        application = s.map_section(
            s.APPLICATION_PROPERTIES,
            [((STRING, name), property_value(value)) for name, value in values.items() if name not in OWN_PROPERTIES],
        )
    return b"".join(
        (
            s.list_section(s.HEADER, _header(message, now_ms)),
            s.map_section(s.ANNOTATIONS, _annotations(message, way.destination)),
            s.list_section(s.PROPERTIES, _properties(message, way, values, body_type)),
            application,
            body,
        )
    )


def dead_letter(octets: bytes, notes: dict[str, str]) -> bytes:
    """Return a received message with notes as application properties, and without an expiration.

    A damaged message becomes the body of octets of a new one.
    """
    added: list[tuple[Value, Value]] = [((STRING, name), (STRING, text)) for name, text in notes.items()]
    try:
        with _refusal():
            return _with_notes(Sections(octets), added, frozenset(notes))
    except MessageFormatError:
        header = s.list_section(s.HEADER, [(BOOLEAN, True)])
        return header + s.map_section(s.APPLICATION_PROPERTIES, added) + s.data_section(octets)


def _with_notes(found: Sections, added: list[tuple[Value, Value]], names: frozenset[str]) -> bytes:
    found.body_values()
    former = [(name, value) for name, value in found.application_values() if text_of(name) not in names]
    properties = [*found.properties]
    for index in (s.TO, s.EXPIRY_TIME):
        if index < len(properties):
            properties[index] = s.ABSENT
    return b"".join(
        (
            s.list_section(s.HEADER, [(BOOLEAN, True), field(found.header, s.PRIORITY)]),
            s.map_section(s.ANNOTATIONS, [((SYMBOL, name), value) for name, value in found.annotations.items()]),
            s.list_section(s.PROPERTIES, properties),
            s.map_section(s.APPLICATION_PROPERTIES, [*former, *added]),
            found.body() or s.value_section(s.ABSENT),
        )
    )


def _kind_of(sections: Sections) -> int:
    said = number_of(sections.annotations.get(MESSAGE_TYPE, s.ABSENT))
    kind = KINDS.get(said) if said is not None else None
    kinds = sections.body_kinds
    if not kinds:
        return PLAIN if kind is None else kind
    if kinds[0] == s.SEQUENCE:
        return STREAM
    if kinds[0] == s.DATA:
        return _kind_of_data(sections, kind)
    code = sections.body_type()
    if code == NULL:
        return TEXT if kind == TEXT else PLAIN
    if code == BINARY:
        return OBJECT if _content_type(sections) == OBJECT_TYPE else BYTES
    return {STRING: TEXT, MAP: MAP_KIND}.get(code, STREAM)


def _kind_of_data(sections: Sections, kind: int | None) -> int:
    content_type = _content_type(sections)
    if content_type == OBJECT_TYPE:
        return OBJECT
    if kind == TEXT or (kind is None and content_type.startswith(TEXTUAL)):
        try:
            b"".join(_octets(value) for value in sections.body_values()).decode("utf-8")
            return TEXT
        except UnicodeDecodeError:
            return BYTES
    return BYTES


def _content_type(sections: Sections) -> str:
    encoding = text_of(field(sections.properties, s.CONTENT_ENCODING))
    return "" if encoding else (text_of(field(sections.properties, s.CONTENT_TYPE)) or "").lower()


def _stream_values(values: list[Value]) -> list[Value]:
    """Return the values of sequences, of a list, or one single value."""
    found: list[Value] = []
    for value in values:
        if value[0] == LIST and isinstance(value[1], list):
            found += value[1]
        else:
            found.append(value)
    return found


def _octets(value: Value) -> bytes:
    content = value[1]
    if isinstance(content, str):
        return content.encode("utf-8")
    if not isinstance(content, bytes):
        raise MessageFormatError("a section of data has no octets")
    return content


def _time(time_ms: int) -> int:
    """Return a time within JMS limits, writable for the other providers."""
    return min(max(time_ms, 0), LONG_MAX - 1)


def _user(value: Value) -> str | None:
    return value[1].decode("utf-8", "replace") if isinstance(value[1], bytes) else text_of(value)


def _reply_to(text: str | None, said: Value | None) -> Destination | None:
    if not text:
        return None
    kind = None if said is None else number_of(said)
    found = destination_of(text, kind if kind in (0, 1, 2, 3) else QUEUE)
    return None if found is not None and found.name.startswith(CONNECTION_QUEUES) else found


def _body(kind: int, body: bytes | None, as_octets: bool) -> tuple[bytes, str | None]:
    """Return the sections of a neutral body, and the content type."""
    if kind == TEXT:
        if body is None:
            return s.value_section(s.ABSENT), None
        check_text(body)
        if as_octets:
            return s.data_section(body), TEXT_TYPE
        return s.value_section((STRING, body.decode("utf-8"))), None
    if kind == BYTES:
        return s.data_section(body or b""), BYTES_TYPE
    if kind == OBJECT:
        return s.data_section(body or b""), OBJECT_TYPE
    if kind == MAP_KIND:
        return s.value_section((MAP, amqp_map(decode_map(body or b"", UNBOUNDED)))), None
    if kind == STREAM:
        return s.sequence_section([amqp_value(value) for value in decode_stream(body or b"", UNBOUNDED)]), None
    return s.value_section(s.ABSENT), None


def _header(message: BridgeMessage, now_ms: int) -> list[Value]:
    life: Value = s.ABSENT
    if message.expiration_ms:
        life = (UINT, min(max(message.expiration_ms - now_ms, 1), UINT_MAX))
    return [(BOOLEAN, message.persistent), (UBYTE, message.priority), life]


def _annotations(message: BridgeMessage, destination: Destination) -> list[tuple[Value, Value]]:
    numbers = {MESSAGE_TYPE: TYPES.get(message.kind, 0), DESTINATION_TYPE: destination.kind}
    if message.reply_to is not None:
        numbers[REPLY_TYPE] = message.reply_to.kind
    return [((SYMBOL, name), (BYTE, number)) for name, number in numbers.items()]


def _properties(
    message: BridgeMessage, way: Way, values: dict[str, PropertyValue], body_type: str | None
) -> list[Value]:
    reply_to = message.reply_to
    content_type = _own_text(values, CONTENT_TYPE) or body_type
    encoding = _own_text(values, ENCODING)
    fields: dict[int, Value] = {
        s.MESSAGE_ID: id_value(message.message_id),
        s.TO: (STRING, way.address),
        s.SUBJECT: _text(message.message_type),
        s.REPLY_TO: s.ABSENT if reply_to is None else (STRING, _reply_address(reply_to, way)),
        s.CORRELATION_ID: id_value(message.correlation_id),
        s.CONTENT_TYPE: _symbol(CONTENT_TYPE, content_type),
        s.CONTENT_ENCODING: _symbol(ENCODING, encoding),
        s.EXPIRY_TIME: (TIMESTAMP, message.expiration_ms) if message.expiration_ms else s.ABSENT,
        s.CREATION_TIME: (TIMESTAMP, message.timestamp_ms) if message.timestamp_ms else s.ABSENT,
        s.GROUP_ID: _text(message.group_id),
        s.GROUP_SEQUENCE: (UINT, message.group_sequence % (2 * INT_RANGE)) if message.group_id else s.ABSENT,
    }
    if way.peer.is_rabbit:
        for index, text in ((s.MESSAGE_ID, message.message_id), (s.CORRELATION_ID, message.correlation_id)):
            fields[index] = _text(text or None)
        _check_shorts(fields)
    return [fields.get(index, s.ABSENT) for index in range(s.FIELDS)]


def _check_shorts(fields: dict[int, Value]) -> None:
    """Refuse texts that RabbitMQ cannot hand on to clients of AMQP 0-9-1."""
    for index in (s.MESSAGE_ID, s.CORRELATION_ID, s.REPLY_TO, s.CONTENT_TYPE, s.CONTENT_ENCODING):
        text = text_of(fields[index])
        if text is not None and len(text.encode("utf-8", "replace")) > MAX_SHORT:
            raise MessageFormatError(f"{text[:60]!r} has more than {MAX_SHORT} bytes, which RabbitMQ does not take")


def _reply_address(destination: Destination, way: Way) -> str:
    if way.peer.is_rabbit and not way.peer.has_new_addresses and destination.is_queue:
        return CREATED_QUEUE + destination.name  # of which the plug-in makes the reply_to of AMQP 0-9-1
    try:
        return address(way.peer, destination, way.place)
    except InvalidDestinationError as error:
        raise MessageFormatError(f"JMSReplyTo: {error}") from None


def _own_text(values: dict[str, PropertyValue], name: str) -> str | None:
    value = values.get(name)
    return value[1] if value is not None and isinstance(value[1], str) else None


def _text(text: str | None) -> Value:
    return s.ABSENT if text is None else (STRING, text)


def _symbol(name: str, text: str | None) -> Value:
    if text is not None and not text.isascii():
        raise MessageFormatError(f"{name} is {text[:60]!r}, and AMQP takes ASCII alone")
    return s.ABSENT if not text else (SYMBOL, text)
