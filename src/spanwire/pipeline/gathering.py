"""Received messages taken apart column by column, without an object per row.

    gatherer = MessageGatherer(bodies)
    gatherer.add(raw, version, redelivery_count, known)

A body or properties that cannot be decoded do not stop the rest: the row says ``unreadable`` and its column ``bytes``
holds the body's octets as they came. A serialized Java object is handed on as octets and never looked into. Knows
nothing of Arrow: `spanwire.pipeline.columns` makes record batches of what is gathered here.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import SCHEMES
from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.message_view import LIST_VALUE, MAP_VALUE, TEXT
from spanwire.pipeline.advisory_body import told_of
from spanwire.pipeline.body_types import (
    BODY_TYPES,
    BYTES_BODY,
    MAP_BODY,
    MESSAGE_BODY,
    OBJECT_BODY,
    TEXT_BODY,
    UNREADABLE,
)
from spanwire.pipeline.variant import NO_NAMES, encode_scalar, encode_variant
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.codec import StructureDecoder
from spanwire.protocols.openwire.message_body import KINDS, neutral_body
from spanwire.protocols.openwire.schema import LATEST_VERSION
from spanwire.protocols.openwire.wire_format import WireFormat
from spanwire.protocols.primitive_map import decode_map, decode_stream

LENGTH_OCTETS: Final = 4  # in front of a text
MAX_KNOWN_DESTINATIONS: Final = 1024  # texts of destinations that are remembered; reply queues can be many
MAX_MICROS_MS: Final = (2**63 - 1) // 1000  # the last millisecond that microseconds can say


class Gathered:
    """The columns of some messages. A null VARIANT has no octets; ``property_ends`` tells where the properties of a row
    end among those of all.
    """

    def __init__(self) -> None:
        self.octets = 0  # of bodies and properties
        self.last_timestamp_ms = 0
        self.ids: Final[list[str]] = []
        self.destinations: Final[list[str | None]] = []
        self.timestamps: Final[list[int | None]] = []
        self.expirations: Final[list[int | None]] = []
        self.priorities: Final[list[int]] = []
        self.persistent: Final[list[bool]] = []
        self.correlation_ids: Final[list[str | None]] = []
        self.reply_tos: Final[list[str | None]] = []
        self.types: Final[list[str | None]] = []
        self.redelivered: Final[list[bool]] = []
        self.groups: Final[list[str | None]] = []
        self.group_sequences: Final[list[int | None]] = []
        self.delivery_counts: Final[list[int]] = []
        self.property_ends: Final[list[int]] = [0]
        self.property_names: Final[list[str]] = []
        self.property_values: Final[list[bytes]] = []
        self.property_metadata: Final[list[bytes]] = []
        self.body_types: Final[list[str]] = []
        self.texts: Final[list[bytes | None]] = []
        self.bytes: Final[list[bytes | None]] = []
        self.body_values: Final[list[bytes]] = []
        self.body_metadata: Final[list[bytes]] = []
        self.sequences: Final[list[int]] = []
        self.broker_paths: Final[list[list[str] | None]] = []
        self.in_times: Final[list[int | None]] = []
        self.out_times: Final[list[int | None]] = []


class MessageGatherer:
    """Decodes messages into `Gathered`, which whoever takes it replaces by calling `take`."""

    def __init__(self, bodies: frozenset[str], has_many_sources: bool = False) -> None:
        """`has_many_sources`: a message is known by its id and its destination, since several queues may have it."""
        self._has_many_sources: Final[bool] = has_many_sources
        self.gathered = Gathered()
        self._bodies: Final[frozenset[str]] = bodies
        self._decoder = StructureDecoder(WireFormat(version=LATEST_VERSION))
        self._version = LATEST_VERSION
        self._destinations: Final[dict[wire.ActiveMQDestination, str]] = {}
        self._producer: wire.ProducerId | None = None
        self._producer_text = ""

    def take(self) -> Gathered:
        """Everything gathered, which is forgotten here."""
        gathered = self.gathered
        self.gathered = Gathered()
        return gathered

    def add(self, raw: bytes, version: int, redelivery_count: int, known: list[set[str]]) -> str:
        """One more row, from a message's loose and uncached octets; gives its key: the id, with several sources and the
        destination. A message whose key is in a set of ``known`` is left out.

        Raises `MessageFormatError` for octets that are no message with an id.
        """
        message = self._decode(raw, version)
        message_id = self._message_id(message)
        key = message_id
        if self._has_many_sources:
            key = source_key(message_id, self._destination(message.destination))
        for keys in known:
            if key in keys:
                return key
        self._append(message, message_id, redelivery_count + 1)
        return key

    def _decode(self, raw: bytes, version: int) -> wire.Message:
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

    def _message_id(self, message: wire.Message) -> str:
        """The id as JMS clients show it."""
        found = message.message_id
        if found is None:
            raise MessageFormatError("a message came without an id")
        text = found.text_view
        if text:
            return text
        producer = found.producer_id
        if producer is None:
            return f"ID:{found.producer_sequence_id}"
        if producer is not self._producer:
            self._producer = producer
            self._producer_text = f"{producer.connection_id}:{producer.session_id}:{producer.value}:"
        return self._producer_text + str(found.producer_sequence_id)

    def _append(self, message: wire.Message, message_id: str, delivery_count: int) -> None:
        to = self.gathered
        group = message.group_id
        found = message.message_id
        assert found is not None
        to.ids.append(message_id)
        to.destinations.append(self._destination(message.destination))
        to.timestamps.append(_micros(message.timestamp))
        to.expirations.append(_micros(message.expiration))
        to.priorities.append(message.priority)
        to.persistent.append(message.persistent)
        to.correlation_ids.append(message.correlation_id)
        to.reply_tos.append(self._destination(message.reply_to))
        to.types.append(message.type)
        to.redelivered.append(delivery_count > 1)
        to.groups.append(group)
        to.group_sequences.append(None if group is None else message.group_sequence)
        to.delivery_counts.append(delivery_count)
        to.sequences.append(found.broker_sequence_id)
        path = message.broker_path
        to.broker_paths.append(None if path is None else [one.value or "" for one in path])
        to.in_times.append(_micros(message.broker_in_time))
        to.out_times.append(_micros(message.broker_out_time))
        to.last_timestamp_ms = message.timestamp
        properties, content = message.marshalled_properties, message.content
        is_readable = True
        if properties is not None:
            to.octets += len(properties)
            is_readable = self._append_properties(properties)
        if content is not None:
            to.octets += len(content)
        to.property_ends.append(len(to.property_names))
        self._append_body(message, content, is_readable)

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
        to = self.gathered
        try:
            entries = decode_map(octets)
        except MessageFormatError:
            return False
        for name, entry in entries.items():
            to.property_names.append(name)
            kind = entry[0]
            if kind == MAP_VALUE or kind == LIST_VALUE:
                value, metadata = encode_variant(entry)
                to.property_values.append(value)
                to.property_metadata.append(metadata)
            else:
                to.property_values.append(encode_scalar(entry))
                to.property_metadata.append(NO_NAMES)
        return True

    def _append_body(self, message: wire.Message, content: bytes | None, is_readable: bool) -> None:
        to = self.gathered
        type_id = message.type_id()
        kind = BODY_TYPES.get(type_id, MESSAGE_BODY)
        text: bytes | None = None
        octets: bytes | None = None
        body = (b"", b"")
        if not is_readable:
            kind, octets = UNREADABLE, content
        elif kind == MESSAGE_BODY:
            told = message.data_structure
            if told is not None:
                body = encode_variant(told_of(told))
        elif kind in self._bodies:
            try:
                if kind == TEXT_BODY:
                    text = text_octets(content, message.compressed)
                else:
                    octets = neutral_body(KINDS[type_id], content, message.compressed)
                    if kind != BYTES_BODY and kind != OBJECT_BODY:
                        body = _structured(kind, octets or b"")
                        octets = None
            except MessageFormatError:
                kind, octets = UNREADABLE, content
        if message.compressed:  # inflated it may be a hundred times as large
            to.octets += len(text or octets or body[0])
        to.body_types.append(kind)
        to.texts.append(text)
        to.bytes.append(octets)
        to.body_values.append(body[0])
        to.body_metadata.append(body[1])


def source_key(message_id: str, destination: str | None) -> str:
    """How a message of one of several queues is told from the same one in another."""
    return f"{message_id} {destination}"


def text_octets(content: bytes | None, compressed: bool) -> bytes | None:
    """A text body as UTF-8; plain ASCII, the same in Java's and in everybody's UTF-8, is only cut out."""
    if content is not None and not compressed and len(content) > LENGTH_OCTETS:
        octets = content[LENGTH_OCTETS:]
        if octets.isascii() and int.from_bytes(content[:LENGTH_OCTETS], "big") == len(octets):
            return octets
    return neutral_body(TEXT, content, compressed)


def _structured(kind: str, octets: bytes) -> tuple[bytes, bytes]:
    if kind == MAP_BODY:
        return encode_variant((MAP_VALUE, decode_map(octets)))
    return encode_variant((LIST_VALUE, decode_stream(octets)))


def _micros(millis: int) -> int | None:
    """Milliseconds as a timestamp's microseconds; 0 stands for none."""
    if millis == 0:
        return None
    return max(-MAX_MICROS_MS, min(millis, MAX_MICROS_MS)) * 1000
