"""Decodes received messages into columns, without an object per row.

    decoder = ColumnDecoder(bodies)
    decoder.add(raw, version, redelivery_count)

Messages of a queue usually differ only in ids, times, properties and bodies, and lack the rarer headers. For such a
message, fields equal to the previous message's are compared as octets and not decoded again. All other messages are
decoded field by field. Both paths fill the same columns; common headers are stored once, with an index per row.

A body or properties that cannot be decoded do not stop the batch: ``body_type`` is then ``unreadable`` and the column
``bytes`` has the body's octets. Serialized Java objects are passed on as octets and never read.
`spanwire.pipeline.arrow.record_batch` makes record batches; this module does not import Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from librt.strings import BytesWriter, read_i32_be, read_i32_le, read_i64_be, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from spanwire.client.messages.message import Message
from spanwire.model.destination import SCHEMES
from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.message_view import LIST_VALUE, MAP_VALUE, TEXT
from spanwire.pipeline.columns.advisory_body import structure_entry
from spanwire.pipeline.columns.body_types import (
    BODY_TYPES,
    BYTES_BODY,
    MAP_BODY,
    MESSAGE_BODY,
    OBJECT_BODY,
    TEXT_BODY,
    UNREADABLE,
)
from spanwire.pipeline.columns.column_builder import OctetColumn, TimeColumn
from spanwire.pipeline.columns.property_columns import PropertyColumns
from spanwire.pipeline.columns.variant import encode_variant
from spanwire.protocols.octets import INT_MAX
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import StructureDecoder
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.message_body import KINDS, neutral_body
from spanwire.protocols.openwire.messages.message_layout import MessageScanner
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, decode_stream

LENGTH_OCTETS: Final = 4  # octets; length before a text
ARRAY_HEAD: Final = 5  # octets; flag and length before a byte array
MAX_KNOWN_TEXT: Final = 1024  # octets; longer destinations and producers are not cached
MAX_KNOWN_TEXTS: Final = 1024  # cached destinations, and producers; a requestor may have many reply queues
NO_OCTETS: Final = b""

# Lengths of a message without the rarer headers: from the broker's sequence to the content, and from the properties to
# the end (see `spanwire.protocols.openwire.messages.message_layout`).
PLAIN_VERSION: Final = 10
PLAIN_HEAD_OCTETS: Final = 35
PLAIN_TAIL_OCTETS: Final = 37
COMPRESSED_OFFSET: Final = 2  # octets from the start of the tail
IN_TIME_OFFSET: Final = 20
OUT_TIME_OFFSET: Final = 28
NUMBER_OCTETS: Final = 8


# Bounds of one record batch: it is written while the processor's cache still contains it.
MAX_CHUNK_ROWS: Final = 2000
MAX_CHUNK_BYTES: Final = 2 * 1024 * 1024


class RawMessage(Protocol):
    """An undecoded message as the client received it."""

    @property
    def raw(self) -> bytes:
        """The message in loose, uncached OpenWire encoding, from the type number on."""
        ...

    @property
    def version(self) -> int:
        """The OpenWire version of the encoding."""
        ...

    @property
    def redelivery_count(self) -> int:
        """The number of earlier deliveries."""
        ...


class CommonHeaders:
    """Headers that consecutive messages share, named as in the schema; ``None`` is null."""

    def __init__(
        self, destination: str | None, persistent: bool, priority: int, delivery_count: int, kind: str
    ) -> None:
        self.destination: Final[str | None] = destination
        self.persistent: Final[bool] = persistent
        self.priority: Final[int] = priority
        self.delivery_count: Final[int] = delivery_count
        self.body_type: Final[str] = kind
        self.correlation_id: str | None = None
        self.reply_to: str | None = None
        self.type: str | None = None
        self.group: str | None = None
        self.group_sequence: int | None = None
        self.broker_path: list[str] | None = None


class DecodedColumns:
    """The columns of decoded messages; ``common_indexes`` has a 32-bit index into ``commons`` per row."""

    def __init__(self) -> None:
        self.octets = 0  # size of bodies and properties
        self.last_timestamp_ms = 0
        self.ids: Final[list[str]] = []
        self.commons: Final[list[CommonHeaders]] = []
        self.common_indexes: Final = BytesWriter()
        self.timestamps: Final[TimeColumn] = TimeColumn()
        self.expirations: Final[TimeColumn] = TimeColumn()
        self.properties: Final[PropertyColumns] = PropertyColumns()
        self.texts: Final[OctetColumn] = OctetColumn()
        self.bytes: Final[OctetColumn] = OctetColumn()
        self.bodies: Final[dict[int, tuple[bytes, bytes]]] = {}  # by row: value and metadata of a VARIANT
        self.sequences: Final = BytesWriter()
        self.in_times: Final[TimeColumn] = TimeColumn()
        self.out_times: Final[TimeColumn] = TimeColumn()

    def add_row(self, message_id: str, timestamp_ms: i64, expiration_ms: i64, sequence: i64) -> None:
        """Add the values of one row; its common headers are the last entry of ``commons``."""
        row = len(self.ids)
        self.ids.append(message_id)
        write_i32_le(self.common_indexes, i32(len(self.commons) - 1))
        self.timestamps.put(row, timestamp_ms)
        self.expirations.put(row, expiration_ms)
        write_i64_le(self.sequences, sequence)
        self.last_timestamp_ms = timestamp_ms

    def keys(self, has_many_sources: bool) -> list[str]:
        """Return a key per row that is unique among the messages of the source.

        The key is the message id. With several sources the destination is added, because each of them may have a
        message with the same id.
        """
        if not has_many_sources:
            return self.ids
        indexes = self.common_indexes.getvalue()
        destinations = [self.commons[read_i32_le(indexes, 4 * row)].destination for row in range(len(self.ids))]
        return [
            source_key(message_id, destination) for message_id, destination in zip(self.ids, destinations, strict=True)
        ]


class ColumnDecoder:
    """Decodes messages into ``columns`` until the caller takes them with `take_columns`."""

    def __init__(self, bodies: frozenset[str]) -> None:
        """Decode only bodies of the types in ``bodies``, named as in ``body_type``."""
        self.columns = DecodedColumns()
        self._bodies: Final[frozenset[str]] = bodies
        self._decoder = StructureDecoder(WireFormat(version=LATEST_VERSION))
        self._scanner = MessageScanner(LATEST_VERSION)
        self._version = LATEST_VERSION
        self._common: CommonHeaders | None = None  # headers of the previous row if that row was plain
        self._destinations: Final[dict[bytes, str]] = {}  # texts by encoded destination
        self._destination_octets = NO_OCTETS  # encoded destination of the previous message
        self._destination_text = ""
        self._producers: Final[dict[bytes, str]] = {}
        self._producer_octets = NO_OCTETS
        self._producer_text = ""

    def take_columns(self) -> DecodedColumns:
        """Return the columns decoded so far and begin new ones."""
        columns = self.columns
        self.columns = DecodedColumns()
        self._common = None
        return columns

    @property
    def is_full(self) -> bool:
        """Return True if the columns have enough rows or octets for one record batch."""
        return self.columns.octets >= MAX_CHUNK_BYTES or len(self.columns.ids) >= MAX_CHUNK_ROWS

    def add_until_full(self, messages: Sequence[RawMessage], start: int) -> int:
        """Add messages from the index ``start`` on, at least one, until the columns are full.

        Returns:
            the index behind the last added message.

        Raises:
            MessageFormatError: a message cannot be read.
        """
        for index in range(start, len(messages)):
            message = messages[index]
            if isinstance(message, Message):  # compiled code reads attributes of a known class faster
                self.add(message.raw, message.version, message.redelivery_count)
            else:
                self.add(message.raw, message.version, message.redelivery_count)
            if self.is_full:
                return index + 1
        return len(messages)

    def add(self, raw: bytes, version: int, redelivery_count: int) -> None:
        """Add one message in loose, uncached encoding.

        Raises:
            MessageFormatError: the octets are no message with an id.
        """
        if version != self._version:
            self._decoder = StructureDecoder(WireFormat(version=version))
            self._scanner = MessageScanner(version)
            self._version = version
        scanner = self._scanner
        try:
            scanner.scan(raw)
        except ProtocolError as error:
            raise MessageFormatError(f"a message cannot be read: {error}") from None
        if not self._is_plain(raw, scanner) or not self._add_plain(raw, scanner, redelivery_count):
            self._add_decoded(raw, scanner, redelivery_count)

    def _is_plain(self, raw: bytes, scanner: MessageScanner) -> bool:
        """Return True for a text or bytes message without rarer headers, of a known producer and destination."""
        type_id: int = raw[0]
        if type_id != wire.ACTIVE_MQ_TEXT_MESSAGE and type_id != wire.ACTIVE_MQ_BYTES_MESSAGE:
            return False
        tail = scanner.tail_start
        if (
            self._version < PLAIN_VERSION
            or len(raw) - tail != PLAIN_TAIL_OCTETS
            or scanner.content_start - scanner.sequence_start != PLAIN_HEAD_OCTETS
            or raw[tail + COMPRESSED_OFFSET] != 0
            or scanner.text_view is not None
        ):
            return False
        return self._knows_destination(raw, scanner) and self._knows_producer(raw, scanner)

    def _knows_destination(self, raw: bytes, scanner: MessageScanner) -> bool:
        octets = raw[scanner.destination_start : scanner.transaction_start]
        if octets != self._destination_octets:
            text = self._destinations.get(octets)
            if text is None:
                return False
            self._destination_octets = octets
            self._destination_text = text
        return True

    def _knows_producer(self, raw: bytes, scanner: MessageScanner) -> bool:
        octets = raw[scanner.id_producer_start : scanner.sequence_start - NUMBER_OCTETS]
        if octets != self._producer_octets:
            text = self._producers.get(octets)
            if text is None:
                return False
            self._producer_octets = octets
            self._producer_text = text
        return True

    def _add_plain(self, raw: bytes, scanner: MessageScanner, redelivery_count: int) -> bool:
        """Add a plain message; return False, with nothing added, if its body or properties are unreadable."""
        start, end, tail = scanner.content_start, scanner.properties_start, scanner.tail_start
        has_content, has_properties = raw[start] != 0, raw[end] != 0
        kind = TEXT_BODY if raw[0] == wire.ACTIVE_MQ_TEXT_MESSAGE else BYTES_BODY
        body: bytes | None = None
        if kind in self._bodies:
            if kind == BYTES_BODY:
                body = raw[start + ARRAY_HEAD : end] if has_content else NO_OCTETS
            elif has_content:
                body = plain_text(raw, start + ARRAY_HEAD, end)
                if body is None:
                    return False
        columns = self.columns
        if not has_properties:
            columns.properties.add_none()
        elif not columns.properties.add(raw, end + ARRAY_HEAD, tail):
            return False
        row = len(columns.ids)
        self._set_common(scanner, count_deliveries(redelivery_count), kind)
        message_id = self._producer_text + str(scanner.sequence)
        columns.add_row(message_id, scanner.timestamp_ms, scanner.expiration_ms, scanner.broker_sequence)
        columns.in_times.put(row, read_i64_be(raw, tail + IN_TIME_OFFSET))
        columns.out_times.put(row, read_i64_be(raw, tail + OUT_TIME_OFFSET))
        if body is not None:
            (columns.texts if kind == TEXT_BODY else columns.bytes).put(row, body)
        if has_content:
            columns.octets += end - start - ARRAY_HEAD
        if has_properties:
            columns.octets += tail - end - ARRAY_HEAD
        return True

    def _set_common(self, scanner: MessageScanner, count: int, kind: str) -> None:
        common = self._common
        if (
            common is None
            or common.destination != self._destination_text
            or common.persistent != scanner.persistent
            or common.priority != scanner.priority
            or common.delivery_count != count
            or common.body_type != kind
        ):
            common = CommonHeaders(self._destination_text, scanner.persistent, scanner.priority, count, kind)
            self._common = common
            self.columns.commons.append(common)

    def _add_decoded(self, raw: bytes, scanner: MessageScanner, redelivery_count: int) -> None:
        message = self._decode(raw)
        message_id = self._message_id(message, raw, scanner)
        columns = self.columns
        row = len(columns.ids)
        kind = self._put_contents(message, row)
        common = CommonHeaders(
            self._destination(message.destination),
            message.persistent,
            message.priority,
            count_deliveries(redelivery_count),
            kind,
        )
        common.correlation_id = message.correlation_id
        common.reply_to = self._destination(message.reply_to)
        common.type = message.type
        group = message.group_id
        common.group = group
        common.group_sequence = None if group is None else message.group_sequence
        path = message.broker_path
        common.broker_path = None if path is None else [broker.value or "" for broker in path]
        columns.commons.append(common)
        self._common = None
        columns.add_row(message_id, message.timestamp, message.expiration, scanner.broker_sequence)
        columns.in_times.put(row, message.broker_in_time)
        columns.out_times.put(row, message.broker_out_time)
        if common.destination is not None:
            octets = raw[scanner.destination_start : scanner.transaction_start]
            _remember(self._destinations, octets, common.destination)

    def _decode(self, raw: bytes) -> wire.Message:
        try:
            message = self._decoder.decode(raw, 0, len(raw))
        except ProtocolError as error:
            raise MessageFormatError(f"a message cannot be read: {error}") from None
        if not isinstance(message, wire.Message):
            raise MessageFormatError("the broker sent another command instead of a message")
        return message

    def _message_id(self, message: wire.Message, raw: bytes, scanner: MessageScanner) -> str:
        """Return the id as JMS clients show it."""
        message_id = message.message_id
        if message_id is None:
            raise MessageFormatError("a message has no id")
        text = message_id.text_view
        if text:
            return text
        producer = message_id.producer_id
        if producer is None:
            return f"ID:{message_id.producer_sequence_id}"
        text = f"{producer.connection_id}:{producer.session_id}:{producer.value}:"
        octets = raw[scanner.id_producer_start : scanner.sequence_start - NUMBER_OCTETS]
        _remember(self._producers, octets, text)
        return text + str(message_id.producer_sequence_id)

    def _destination(self, destination: wire.ActiveMQDestination | None) -> str | None:
        if destination is None:
            return None
        return SCHEMES[destination.type_id() - wire.ACTIVE_MQ_QUEUE] + (destination.physical_name or "")

    def _put_contents(self, message: wire.Message, row: int) -> str:
        """Add properties and body; return the value of ``body_type``."""
        columns = self.columns
        properties, content = message.marshalled_properties, message.content
        is_readable = True
        if properties is not None:
            columns.octets += len(properties)
            is_readable = columns.properties.add(properties, 0, len(properties))
        if properties is None or not is_readable:
            columns.properties.add_none()
        if content is not None:
            columns.octets += len(content)
        kind = self._put_body(message, content, row) if is_readable else None
        if kind is None:
            if content is not None:
                columns.bytes.put(row, content)
            return UNREADABLE
        return kind

    def _put_body(self, message: wire.Message, content: bytes | None, row: int) -> str | None:
        """Add the body and return its type, or ``None`` if the body is unreadable."""
        columns = self.columns
        type_id = message.type_id()
        kind = BODY_TYPES.get(type_id, MESSAGE_BODY)
        if kind == MESSAGE_BODY:
            structure = message.data_structure
            if structure is not None:
                columns.bodies[row] = encode_variant(structure_entry(structure))
            return kind
        if kind not in self._bodies:
            return kind
        try:
            octets = neutral_body(KINDS[type_id], content, message.compressed)
            if kind == MAP_BODY:
                columns.bodies[row] = encode_variant((MAP_VALUE, decode_map(octets or NO_OCTETS, UNBOUNDED)))
            elif kind != TEXT_BODY and kind != BYTES_BODY and kind != OBJECT_BODY:
                columns.bodies[row] = encode_variant((LIST_VALUE, decode_stream(octets or NO_OCTETS, UNBOUNDED)))
            elif octets is not None:
                (columns.texts if kind == TEXT_BODY else columns.bytes).put(row, octets)
        except MessageFormatError:
            return None
        if message.compressed and octets is not None:  # an inflated body may be a hundred times as large
            columns.octets += len(octets)
        return kind


def plain_text(raw: bytes, start: i64, end: i64) -> bytes | None:
    """Return the text between two offsets of a content field as UTF-8, or ``None``.

    ``None`` stands for a null or invalid text. ASCII has the same octets in UTF-8 and in Java's modified UTF-8, and is
    copied unchanged.
    """
    text_start: i64 = start + LENGTH_OCTETS
    if text_start <= end and text_start + i64(read_i32_be(raw, start)) == end:
        octets = raw[text_start:end]
        if octets.isascii():
            return octets
    try:
        return neutral_body(TEXT, raw[start:end], False)
    except MessageFormatError:
        return None


def count_deliveries(redelivery_count: int) -> int:
    """Return the number of deliveries including the present one, at most the largest 32-bit number."""
    return redelivery_count + 1 if redelivery_count < INT_MAX else INT_MAX


def source_key(message_id: str, destination: str | None) -> str:
    """Return a key that distinguishes messages with the same id from several sources."""
    return f"{message_id} {destination}"


def _remember(texts: dict[bytes, str], octets: bytes, text: str) -> None:
    if len(octets) <= MAX_KNOWN_TEXT and octets not in texts:
        if len(texts) >= MAX_KNOWN_TEXTS:
            texts.clear()
        texts[octets] = text
