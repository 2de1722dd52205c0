"""Received messages as the columns of an Arrow record batch, without an object per row.

    columns = MessageColumns(bodies)
    message = columns.decode(raw, version); columns.append(message, columns.message_id(message), 1) …
    batch = columns.take()

A body or properties that cannot be decoded do not stop the rest: the row says ``unreadable`` and its column ``bytes``
holds the body's octets as they came. A serialized Java object is handed on as octets and never looked into.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from spanwire.model.destination import SCHEMES
from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.message_view import LIST_VALUE, MAP_VALUE, TEXT
from spanwire.pipeline import schema
from spanwire.pipeline.variant import NO_NAMES, encode_scalar, encode_variant
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.codec import StructureDecoder
from spanwire.protocols.openwire.message_body import KINDS, neutral_body
from spanwire.protocols.openwire.primitive_map import decode_map, decode_stream
from spanwire.protocols.openwire.schema import LATEST_VERSION
from spanwire.protocols.openwire.wire_format import WireFormat

BODY_TYPES: Final[dict[int, str]] = {
    wire.ACTIVE_MQ_TEXT_MESSAGE: schema.TEXT,
    wire.ACTIVE_MQ_BYTES_MESSAGE: schema.BYTES,
    wire.ACTIVE_MQ_MAP_MESSAGE: schema.MAP,
    wire.ACTIVE_MQ_STREAM_MESSAGE: schema.STREAM,
    wire.ACTIVE_MQ_OBJECT_MESSAGE: schema.OBJECT,
}
BODY_KINDS: Final = tuple(BODY_TYPES.values())
LENGTH_OCTETS: Final = 4  # in front of a text
HEADERS: Final = 13  # columns that come from header fields, but for the id
MAX_KNOWN_DESTINATIONS: Final = 1024  # texts of destinations that are remembered; reply queues can be many
MAX_LONG_MS: Final = (2**63 - 1) // 1000  # the last millisecond that microseconds can say


class MessageColumns:
    """Gathers messages column by column until they are taken."""

    def __init__(self, bodies: frozenset[str] = frozenset(BODY_KINDS)) -> None:
        self.octets = 0  # of bodies and properties gathered
        self._bodies: Final[frozenset[str]] = bodies
        self._schema: Final[pa.Schema] = schema.arrow_schema()
        self._destinations: Final[dict[wire.ActiveMQDestination, str]] = {}
        self._decoder = StructureDecoder(WireFormat(version=LATEST_VERSION))
        self._version = LATEST_VERSION
        self._producer: wire.ProducerId | None = None
        self._producer_text = ""
        self.clear()

    def clear(self) -> None:
        """Forget all rows gathered."""
        self.octets = 0
        self.ids: list[str] = []
        self._headers: list[tuple[object, ...]] = []
        self._offsets: list[int] = [0]
        self._names: list[str] = []
        self._values: list[bytes] = []
        self._metadata: list[bytes] = []
        self._body_types: list[str] = []
        self._texts: list[bytes | None] = []
        self._bytes: list[bytes | None] = []
        self._body: list[tuple[bytes, bytes] | None] = []

    def __len__(self) -> int:
        return len(self.ids)

    def decode(self, raw: bytes, version: int) -> wire.Message:
        """All fields of a message in its loose and uncached octets. Raises `MessageFormatError`."""
        if version != self._version:
            self._decoder = StructureDecoder(WireFormat(version=version))
            self._version = version
        try:
            message = self._decoder.decode(raw, 0, len(raw))
        except ProtocolError as error:
            raise MessageFormatError(f"a message cannot be read: {error}") from None
        if not isinstance(message, wire.Message):
            raise MessageFormatError("what the broker sent is no message")
        return message

    def append(self, message: wire.Message, message_id: str, delivery_count: int) -> None:
        """One more row; ``delivery_count`` is 1 for the first delivery."""
        self.ids.append(message_id)
        group = message.group_id
        sequence = message.message_id
        self._headers.append(
            (
                self._destination(message.destination),
                _micros(message.timestamp),
                _micros(message.expiration),
                message.priority,
                schema.PERSISTENT if message.persistent else schema.NON_PERSISTENT,
                message.correlation_id,
                None if message.reply_to is None else self._destination(message.reply_to),
                message.type,
                delivery_count > 1,
                group,
                None if group is None else message.group_sequence,
                delivery_count,
                None if sequence is None else sequence.broker_sequence_id,
            )
        )
        content, properties = message.content, message.marshalled_properties
        self.octets += (0 if content is None else len(content)) + (0 if properties is None else len(properties))
        is_readable = not properties or self._append_properties(properties)
        self._offsets.append(len(self._names))
        self._append_body(message, content, is_readable)

    def take(self) -> pa.RecordBatch:
        """All rows gathered, which are forgotten here."""
        headers: list[list[object]] = [list(column) for column in zip(*self._headers, strict=True)]
        if not headers:
            headers = [[] for _ in range(HEADERS)]
        fields = self._schema
        arrays = [pa.array(self.ids, pa.string())]
        for index, values in enumerate(headers[: HEADERS - 1]):
            arrays.append(pa.array(values, fields.field(index + 1).type))
        arrays.append(self._property_array())
        arrays.append(pa.array(self._body_types, pa.string()))
        arrays.append(pa.array(self._texts, pa.string()))
        arrays.append(pa.array(self._bytes, pa.binary()))
        arrays.append(self._body_array())
        arrays.append(pa.array(headers[HEADERS - 1], pa.int64()))
        batch = pa.RecordBatch.from_arrays(arrays, schema=fields)
        self.clear()
        return batch

    def message_id(self, message: wire.Message) -> str:
        """The id as JMS clients show it. Raises `MessageFormatError` for a message without one."""
        found = message.message_id
        if found is None:
            raise MessageFormatError("a message came without an id")
        if found.text_view:
            return found.text_view
        producer = found.producer_id
        if producer is None:
            return f"ID:{found.producer_sequence_id}"
        if producer is not self._producer:
            self._producer = producer
            self._producer_text = f"{producer.connection_id}:{producer.session_id}:{producer.value}:"
        return self._producer_text + str(found.producer_sequence_id)

    def _destination(self, destination: wire.ActiveMQDestination | None) -> str | None:
        if destination is None:
            return None
        known = self._destinations.get(destination)
        if known is None:
            if len(self._destinations) >= MAX_KNOWN_DESTINATIONS:
                self._destinations.clear()
            known = SCHEMES[destination.type_id() - wire.ACTIVE_MQ_QUEUE] + (destination.physical_name or "")
            self._destinations[destination] = known
        return known

    def _append_properties(self, octets: bytes) -> bool:
        """False when they cannot be decoded; there are none then."""
        try:
            entries = decode_map(octets)
        except MessageFormatError:
            return False
        for name, entry in entries.items():
            self._names.append(name)
            kind = entry[0]
            if kind == MAP_VALUE or kind == LIST_VALUE:
                value, metadata = encode_variant(entry)
                self._values.append(value)
                self._metadata.append(metadata)
            else:
                self._values.append(encode_scalar(entry))
                self._metadata.append(NO_NAMES)
        return True

    def _append_body(self, message: wire.Message, content: bytes | None, is_readable: bool) -> None:
        type_id = message.type_id()
        kind = BODY_TYPES.get(type_id, schema.MESSAGE)
        text: bytes | None = None
        octets: bytes | None = None
        body: tuple[bytes, bytes] | None = None
        if not is_readable:
            kind, octets = schema.UNREADABLE, content
        elif kind in self._bodies:
            try:
                if kind == schema.TEXT:
                    text = text_octets(content, message.compressed)
                elif kind == schema.BYTES or kind == schema.OBJECT:
                    octets = neutral_body(KINDS[type_id], content, message.compressed)
                else:
                    body = _structured(kind, neutral_body(KINDS[type_id], content, message.compressed) or b"")
            except MessageFormatError:
                kind, octets = schema.UNREADABLE, content
        self._body_types.append(kind)
        self._texts.append(text)
        self._bytes.append(octets)
        self._body.append(body)

    def _property_array(self) -> pa.Array:
        values = pa.StructArray.from_arrays(
            [pa.array(self._values, pa.binary()), pa.array(self._metadata, pa.binary())], fields=list(schema.VARIANT)
        )
        names = pa.array(self._names, pa.string())
        return pa.MapArray.from_arrays(pa.array(self._offsets, pa.int32()), names, values, type=schema.PROPERTIES)

    def _body_array(self) -> pa.Array:
        pairs = [(b"", b"") if pair is None else pair for pair in self._body]
        return pa.StructArray.from_arrays(
            [pa.array([pair[0] for pair in pairs], pa.binary()), pa.array([pair[1] for pair in pairs], pa.binary())],
            fields=list(schema.VARIANT),
            mask=pa.array([pair is None for pair in self._body], pa.bool_()),
        )


def text_octets(content: bytes | None, compressed: bool) -> bytes | None:
    """A text body as UTF-8; plain ASCII, the same in Java's and in everybody's UTF-8, is only cut out."""
    if content is not None and not compressed and len(content) > LENGTH_OCTETS:
        octets = content[LENGTH_OCTETS:]
        if octets.isascii() and int.from_bytes(content[:LENGTH_OCTETS], "big") == len(octets):
            return octets
    return neutral_body(TEXT, content, compressed)


def _structured(kind: str, octets: bytes) -> tuple[bytes, bytes]:
    if kind == schema.MAP:
        return encode_variant((MAP_VALUE, decode_map(octets)))
    return encode_variant((LIST_VALUE, decode_stream(octets)))


def _micros(millis: int) -> int | None:
    """Milliseconds as a timestamp's microseconds; 0 stands for none."""
    if millis == 0:
        return None
    return max(-MAX_LONG_MS, min(millis, MAX_LONG_MS)) * 1000
