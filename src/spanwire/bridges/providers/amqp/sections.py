"""The sections of a message of AMQP 1.0 (OASIS AMQP 1.0, part 3, section 3.2)."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.providers.amqp.codec import (
    BINARY,
    DESCRIBED,
    LIST,
    MAP,
    NULL,
    STRING,
    SYMBOL,
    ULONG,
    Room,
    Value,
    described,
    read,
    type_at,
    value_end,
    write,
)
from spanwire.model.errors import MessageFormatError

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78
BODIES: Final = (DATA, SEQUENCE, VALUE)
NAMES: Final = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}
MAX_MESSAGE: Final = 128 * 1024 * 1024  # bytes; as RabbitMQ's default, and more than those of others
MAX_SECTIONS: Final = 10_000  # a body may have many sections of data; each costs a Python object
ABSENT: Final[Value] = (NULL, None)

# Fields of the section header.
DURABLE: Final = 0
PRIORITY: Final = 1
TTL: Final = 2
FIRST_ACQUIRER: Final = 3
DELIVERY_COUNT: Final = 4
# Fields of the section properties.
MESSAGE_ID: Final = 0
USER_ID: Final = 1
TO: Final = 2
SUBJECT: Final = 3
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
CONTENT_TYPE: Final = 6
CONTENT_ENCODING: Final = 7
EXPIRY_TIME: Final = 8
CREATION_TIME: Final = 9
GROUP_ID: Final = 10
GROUP_SEQUENCE: Final = 11
FIELDS: Final = 12


class Sections:
    """A message cut into sections.

    Body and application properties stay encoded until requested.

    All sections share the room of one message, except that body and application properties do not count each other.
    """

    __slots__ = (
        "_room",
        "annotations",
        "application",
        "body_end",
        "body_kinds",
        "body_offset",
        "header",
        "octets",
        "properties",
    )

    def __init__(self, octets: bytes) -> None:
        """Cut a message. Raises `MessageFormatError`."""
        self.octets: Final = octets
        self.header: list[Value] = []
        self.annotations: dict[str, Value] = {}
        self.properties: list[Value] = []
        self.application = b""  # the encoded map of the application properties
        self.body_kinds: Final[list[int]] = []
        self.body_offset = self.body_end = 0
        self._room: Final = Room()
        offset = 0
        for _ in range(MAX_SECTIONS):
            if offset >= len(octets):
                return
            offset = self._section(offset)
        raise MessageFormatError(f"a message has more than {MAX_SECTIONS} sections")

    def body(self) -> bytes:
        """Return the encoded sections of the body."""
        return self.octets[self.body_offset : self.body_end]

    def body_values(self) -> list[Value]:
        """Return the values of the sections of the body.

        Raises `MessageFormatError`, also for data without octets and a sequence without a list.
        """
        values: list[Value] = []
        room = Room(self._room.left)
        offset = self.body_offset
        for kind in self.body_kinds:
            value, offset = read(self.octets, value_end(self.octets, offset + 1), room)
            if kind == DATA and value[0] != BINARY:
                raise MessageFormatError("a section of data has no octets")
            if kind == SEQUENCE and value[0] != LIST:
                raise MessageFormatError("a section with a sequence has no list")
            values.append(value)
        return values

    def body_type(self) -> int:
        """Return the type of the value of the first section of the body. Raises `MessageFormatError`."""
        return type_at(self.octets, value_end(self.octets, self.body_offset + 1))

    def application_values(self) -> list[tuple[Value, Value]]:
        """Return the application properties. Raises `MessageFormatError`."""
        if not self.application:
            return []
        (code, content), _ = read(self.application, room=Room(self._room.left))
        if code != MAP or not isinstance(content, list):
            raise MessageFormatError("the application properties of a message are no map")
        return content

    def _section(self, offset: int) -> int:
        if self.octets[offset] != DESCRIBED:
            raise MessageFormatError("a message of AMQP does not consist of sections")
        descriptor, start = read(self.octets, offset + 1, self._room)
        kind = descriptor[1] if descriptor[0] == ULONG else NAMES.get(text_of(descriptor) or "")
        end = value_end(self.octets, start)
        if kind in BODIES:
            assert isinstance(kind, int)
            if not self.body_kinds:
                self.body_offset = offset
            elif kind == VALUE or kind != self.body_kinds[0] or offset != self.body_end:
                raise MessageFormatError("the sections of a body are no series of data or sequences, and no one value")
            self.body_kinds.append(kind)
            self.body_end = end
        elif kind == APPLICATION_PROPERTIES:
            self.application = self.octets[start:end]
        elif kind == HEADER:
            self.header = self._list(start)
        elif kind == PROPERTIES:
            self.properties = self._list(start)
        elif kind == ANNOTATIONS:
            self.annotations = self._map(start)
        elif kind not in (DELIVERY_ANNOTATIONS, FOOTER):
            raise MessageFormatError("a message of AMQP has an unknown section")
        return end

    def _list(self, offset: int) -> list[Value]:
        (code, content), _ = read(self.octets, offset, self._room)
        if code != LIST or not isinstance(content, list):
            raise MessageFormatError("header or properties of a message are no list")
        return content

    def _map(self, offset: int) -> dict[str, Value]:
        (code, content), _ = read(self.octets, offset, self._room)
        if code != MAP or not isinstance(content, list):
            raise MessageFormatError("the annotations of a message are no map")
        return {str(name[1]): value for name, value in content if name[0] == SYMBOL}


def field(fields: list[Value], index: int) -> Value:
    """Return a field of header or properties, `ABSENT` for a missing one."""
    return fields[index] if index < len(fields) else ABSENT


def text_of(value: Value) -> str | None:
    """Return a string or symbol, or None for another type."""
    return value[1] if value[0] in (STRING, SYMBOL) and isinstance(value[1], str) else None


def number_of(value: Value) -> int | None:
    """Return a whole number, or None for another type."""
    return value[1] if isinstance(value[1], int) and not isinstance(value[1], bool) else None


def list_section(kind: int, fields: list[Value]) -> bytes:
    """Return a section with fields, without the absent ones at the end."""
    last = len(fields)
    while last and fields[last - 1][0] == NULL:
        last -= 1
    return described(kind, write((LIST, fields[:last])))


def map_section(kind: int, entries: list[tuple[Value, Value]]) -> bytes:
    """Return a section with a map; no octets for an empty map."""
    return described(kind, write((MAP, entries))) if entries else b""


def data_section(octets: bytes) -> bytes:
    """Return a body of octets."""
    return described(DATA, write((BINARY, octets)))


def sequence_section(values: list[Value]) -> bytes:
    """Return a body of values."""
    return described(SEQUENCE, write((LIST, values)))


def value_section(value: Value) -> bytes:
    """Return a body of one value."""
    return described(VALUE, write(value))
