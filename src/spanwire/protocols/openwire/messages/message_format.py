"""The OpenWire message formats: messages as their loose, uncached octets, from the type id on.

There are four formats, because the layout of a message changed with versions 2, 3 and 10. The layout of structures in
the field dataStructure changed more often. Structures are stored in the layout of the last version of the format
(`CANONICAL_VERSIONS`), and `received` converts messages of other versions.

`Message.format_index` is the offset of the broker's sequence in the encoded message, shifted left by `FLAG_BITS`, plus
flags.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from spanwire.broker.ports import MessageFormat
from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError, ProtocolError
from spanwire.model.ids import ProducerId
from spanwire.model.message import (
    FORMAT_OPENWIRE_1,
    FORMAT_OPENWIRE_2,
    FORMAT_OPENWIRE_3,
    FORMAT_OPENWIRE_10,
    Message,
)
from spanwire.model.message_view import MessageView, PropertyValue
from spanwire.protocols.octets import OctetReader
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import StructureDecoder, decode_message
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.command_tree import command_tree
from spanwire.protocols.openwire.messages.destination_octets import DestinationOctets
from spanwire.protocols.openwire.messages.identities import (
    NO_PRODUCER,
    destination_of,
    wire_destination,
    wire_message_id,
)
from spanwire.protocols.openwire.messages.large_message import LargeMessage
from spanwire.protocols.openwire.messages.message_body import KINDS, TYPE_IDS, neutral_body, wire_content
from spanwire.protocols.openwire.messages.message_layout import MessageScanner
from spanwire.protocols.primitive_map import (
    MAX_PROPERTIES,
    MIN_ENTRY_OCTETS,
    check_map_count,
    decode_map,
    encode_map,
)

CANONICAL_VERSIONS: Final[dict[int, int]] = {
    FORMAT_OPENWIRE_1: 1,
    FORMAT_OPENWIRE_2: 2,
    FORMAT_OPENWIRE_3: 9,
    FORMAT_OPENWIRE_10: 12,
}
FLAG_BITS: Final = 3
TRANSACTED: Final = 1  # the message names a transaction
CARRYING: Final = 2  # the message carries a data structure
NUMBERED: Final = 4  # the field of the broker's sequence is not 0; the message comes from another broker
FLAGS: Final = (1 << FLAG_BITS) - 1

MAX_REMEMBERED: Final = 4096  # producers and destinations by their octets; a full memory is cleared
MAX_REMEMBERED_OCTETS: Final = 1100  # octets of one entry; room for a destination name of 1 KiB
MAX_PRIORITY: Final = 9
FIRST_FOR_CONSUMER_VERSION: Final = 10  # the first version with the flag for the first message of a group
SUSPECT_OCTETS: Final = MAX_PROPERTIES * MIN_ENTRY_OCTETS  # a smaller property map cannot have too many entries
NULLS: Final = b"\x00\x00"  # no content, no properties
NO_OUTPUT: Final = BytesWriter()  # the target of a writer without a message


def format_id_of(version: int) -> int:
    """Return the message format of a connection with this wire format version."""
    if version >= 10:
        return FORMAT_OPENWIRE_10
    return FORMAT_OPENWIRE_3 if version >= 3 else version


class MessageReader:
    """Scans the messages of one connection, and knows destination and producer of the last message.

    Each connection has its own reader, because messages of a single connection are alike, but not messages of different
    producers.
    """

    __slots__ = ("destination", "producer_id", "scanner")

    def __init__(self, version: int) -> None:
        self.scanner: Final[MessageScanner] = MessageScanner(version)
        self.destination: Destination | None = None
        self.producer_id: ProducerId | None = None


class OpenWireMessageFormat(MessageFormat):
    """A message format; stateless except for bounded memories of decoded octets."""

    def __init__(self, format_id: int) -> None:
        self.format_id: Final[int] = format_id
        self.version: Final[int] = CANONICAL_VERSIONS[format_id]
        self.large: Final[LargeMessage] = LargeMessage()
        self.destination_octets: Final[DestinationOctets] = DestinationOctets()
        self._reader: Final[MessageReader] = self.new_reader()
        self._structures: Final[StructureDecoder] = StructureDecoder(WireFormat(version=self.version))
        self._writer: Final[LooseWriter] = LooseWriter(self.version, True)
        self._destinations: Final[dict[bytes, Destination]] = {}
        self._producers: Final[dict[bytes, ProducerId]] = {}
        self._head_scanner: Final[MessageScanner] = MessageScanner(self.version)
        self._headers_of: Message | None = None
        self._headers: wire.Message | None = None

    def index(self, raw: bytes) -> Message:
        """Create a message from its octets.

        Raises:
            OpenWireProtocolError: the octets are not exactly one message of the layout.
            InvalidDestinationError: the message has no valid destination.
        """
        return self.indexed(raw, self._reader)

    def indexed(self, raw: bytes, reader: MessageReader) -> Message:
        """Create a message from its octets with the reader of the connection; raises the errors of `index`."""
        scanner = reader.scanner
        if not scanner.scan_like_last(raw):
            scanner.scan_anew(raw)
        flags = CARRYING if scanner.carries_structure else 0
        if scanner.original_destination_start - scanner.transaction_start > 1:
            flags |= TRANSACTED
        if scanner.broker_sequence != 0:
            flags |= NUMBERED
        destination = reader.destination
        if destination is None or not scanner.same_route:
            reader.destination = None
            destination = self._destination(raw, scanner.destination_start, scanner.transaction_start)
            reader.destination = destination
        producer = reader.producer_id
        if producer is None or not scanner.same_producer:
            reader.producer_id = None
            producer = self._producer(raw, scanner.id_producer_start, scanner.sequence_start - 8)
            reader.producer_id = producer
        priority = scanner.priority
        message = Message(
            self.format_id,
            raw,
            scanner.content_start,
            scanner.properties_start,
            scanner.tail_start,
            destination,
            producer,
            scanner.sequence,
            scanner.persistent,
            0 if priority < 0 else priority if priority < MAX_PRIORITY else MAX_PRIORITY,
            scanner.expiration_ms if scanner.expiration_ms > 0 else 0,
            scanner.timestamp_ms,
            scanner.group_id,
            scanner.sequence_start << FLAG_BITS | flags,
            scanner.text_view,
        )
        if scanner.broker_path:
            message.broker_path = scanner.broker_path
            message.link_number = scanner.broker_sequence
        return message

    def new_reader(self) -> MessageReader:
        """Return the reader for the messages of a connection."""
        return MessageReader(self.version)

    def received(self, frame: wire.MessageFrame, reader: MessageReader | None = None) -> Message:
        """Create a message from a frame of any version of this format; raises the errors of `index`.

        ``reader`` belongs to the connection. Without a reader messages of all connections are compared with each other.
        """
        if reader is None:
            reader = self._reader
        if frame.version == self.version:
            return self.indexed(frame.raw, reader)
        return self._index_of_version(frame.raw, frame.version, reader)

    def check_properties(self, message: Message) -> None:
        """Raise `MessageFormatError` if a message announces more properties than the broker would decode.

        Only a message with more than `SUSPECT_OCTETS` of properties can.
        """
        check_map_count(octets_between(message.raw, message.properties_start, message.tail_start))

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        """Return all properties with their types; raises `MessageFormatError`."""
        return decode_map(octets_between(message.raw, message.properties_start, message.tail_start))

    def header(self, message: Message, name: str) -> object:
        """Return a JMS header by its JMS name; the headers of the last message are cached."""
        headers = self._headers
        if headers is None or self._headers_of is not message:
            headers = self._decoded(head_of(message) + NULLS + tail_of(message))
            self._headers = headers
            self._headers_of = message
        return header_value(headers, name)

    def view(self, message: Message) -> MessageView:
        """Return the whole message in neutral form; raises `MessageFormatError`."""
        try:
            structure = self._decoded(message.encoded())
        except ProtocolError as error:
            raise MessageFormatError(f"a message cannot be read: {error}") from None
        return view_of(structure, message)

    def encode_from_view(self, view: MessageView) -> Message:
        """Create a message of this format; raises `MessageFormatError` for values without a form in OpenWire."""
        try:
            return self.index(self.octets_of(structure_of(view)))
        except ProtocolError as error:
            raise MessageFormatError(f"a message cannot be written: {error}") from None

    def readdressed(self, message: Message, destination: Destination, names_original: bool = True) -> Message:
        """Return a copy for another destination that shares content, properties and tail."""
        head = head_of(message)
        scanner = self._head_scanner
        scanner.scan_head(head)
        old = head[scanner.destination_start : scanner.transaction_start]
        original = head[scanner.original_destination_start : scanner.message_id_start]
        writer = self._writer
        writer.begin(BytesWriter())
        writer.write_nested(wire_destination(destination))
        new_head = b"".join(
            [
                head[: scanner.destination_start],
                writer.out.getvalue(),
                head[scanner.transaction_start : scanner.original_destination_start],
                old if len(original) == 1 and names_original else original,
                head[scanner.message_id_start :],
            ]
        )
        sequence_start = (message.format_index >> FLAG_BITS) + len(new_head) - len(head)
        copy = message.variant(
            destination,
            message.persistent,
            message.expiration_ms,
            message.timestamp_ms,
            sequence_start << FLAG_BITS | message.format_index & FLAGS,
        )
        copy.head = new_head
        return copy

    def first_for_consumer(self, message: Message) -> Message:
        """Return a copy with JMSXGroupFirstForConsumer set; versions before 10 have no such field."""
        if self.version < FIRST_FOR_CONSUMER_VERSION:
            return message
        structure = self._decoded(message.encoded())
        structure.jmsx_group_first_for_consumer = True
        copy = self.index(self.octets_of(structure))
        copy.redelivery_count = message.redelivery_count
        copy.link_number = message.link_number
        return copy

    def restamped(
        self, message: Message, timestamp_ms: int, expiration_ms: int, persistent: bool, user_id: str | None = None
    ) -> Message:
        """Return a copy with other timestamp, expiration, delivery mode and user.

        Content and properties are shared.
        """
        structure = self._decoded(head_of(message) + NULLS + tail_of(message))
        structure.timestamp = timestamp_ms
        structure.expiration = expiration_ms
        structure.persistent = persistent
        if user_id is not None:
            structure.user_id = user_id or None
        stamped = self.index(self.octets_of(structure))
        copy = message.variant(
            message.destination,
            persistent,
            expiration_ms,
            timestamp_ms,
            stamped.format_index & ~FLAGS | message.format_index & FLAGS,
        )
        copy.head = stamped.raw[: stamped.content_start]
        if user_id is not None:
            copy.tail = stamped.raw[stamped.tail_start :]
        return copy

    def octets_of(self, structure: wire.Message) -> bytes:
        """Return a message structure as octets of this layout; raises `OpenWireEncodeError`."""
        out = BytesWriter()
        out.append(structure.type_id())
        self._writer.begin(out)
        structure.write(self._writer)
        self._writer.begin(NO_OUTPUT)
        return out.getvalue()

    def from_version(self, message: Message) -> Message:
        """Convert a message of another OpenWire format; fields without a counterpart are dropped."""
        cached = message.converted
        if cached is not None and cached.format_id == self.format_id:
            return cached
        structure = decode_message(message.encoded(), CANONICAL_VERSIONS[message.format_id])
        converted = self.index(self.octets_of(structure))
        message.converted = converted
        return converted

    def transaction_of(self, message: Message) -> wire.TransactionId | None:
        """Return the transaction of a message, or None."""
        if not message.format_index & TRANSACTED:
            return None
        return self._decoded(head_of(message) + NULLS + tail_of(message)).transaction_id

    def _decoded(self, octets: bytes) -> wire.Message:
        structure = self._structures.decode(octets, 0, len(octets))
        if not isinstance(structure, wire.Message):
            raise OpenWireProtocolError("the octets of a message are none")
        return structure

    def _index_of_version(self, raw: bytes, version: int, reader: MessageReader) -> Message:
        scanner = MessageScanner(version)
        scanner.scan(raw)
        if not scanner.carries_structure:
            return self.indexed(raw, reader)
        return self.indexed(self.octets_of(decode_message(raw, version)), reader)

    def _destination(self, raw: bytes, start: i64, end: i64) -> Destination:
        octets = raw[start:end]
        remembered = self._destinations.get(octets)
        if remembered is not None:
            return remembered
        reader = OctetReader(raw, start, end)
        if reader.read_unsigned_byte() == 0:
            raise InvalidDestinationError("the message has no destination")
        structure = wire.new_structure(reader.read_unsigned_byte())
        if isinstance(structure, wire.ActiveMQDestination) and reader.read_unsigned_byte() != 0:
            structure.physical_name = reader.read_text(reader.read_unsigned_short())
            destination = destination_of(structure)
            remember_destination(self._destinations, octets, destination)
            return destination
        raise InvalidDestinationError("the message's destination has no name")

    def _producer(self, raw: bytes, start: i64, end: i64) -> ProducerId:
        octets = raw[start:end]
        remembered = self._producers.get(octets)
        if remembered is not None:
            return remembered
        reader = OctetReader(raw, start, end)
        if reader.read_unsigned_byte() == 0:
            return NO_PRODUCER
        reader.position += 1
        if reader.read_unsigned_byte() == 0:
            raise OpenWireProtocolError("the id of a message has a producer without a connection")
        connection_id = reader.read_text(reader.read_unsigned_short())
        value = reader.read_full_long()
        producer = ProducerId(connection_id, reader.read_full_long(), value)
        if len(octets) <= MAX_REMEMBERED_OCTETS:
            if len(self._producers) >= MAX_REMEMBERED:
                self._producers.clear()
            self._producers[octets] = producer
        return producer


def remember_destination(memory: dict[bytes, Destination], octets: bytes, destination: Destination) -> None:
    """Remember the destination that ``octets`` encode, within the limits."""
    if len(octets) <= MAX_REMEMBERED_OCTETS:
        if len(memory) >= MAX_REMEMBERED:
            memory.clear()
        memory[octets] = destination


def head_of(message: Message) -> bytes:
    """Return the current head."""
    return message.head if message.head is not None else message.raw[: message.content_start]


def tail_of(message: Message) -> bytes:
    """Return the current tail."""
    return message.tail if message.tail is not None else message.raw[message.tail_start :]


def without_content(message: Message) -> bytes:
    """Return the current octets of a message without its body."""
    return head_of(message) + NULLS[:1] + message.raw[message.properties_start : message.tail_start] + tail_of(message)


def octets_between(raw: bytes, start: int, end: int) -> bytes:
    """Return the octets of a nullable byte array field, after its flag and length."""
    return raw[start + 5 : end] if end > start + 5 else b""


def header_value(structure: wire.Message, name: str) -> object:
    """Return a JMS header without a counterpart in `Message`."""
    if name == "JMSCorrelationID":
        return structure.correlation_id
    if name == "JMSType":
        return structure.type
    if name == "JMSReplyTo":
        return None if structure.reply_to is None else str(destination_of(structure.reply_to))
    if name == "JMSXGroupID":
        return structure.group_id
    if name == "JMSXGroupSeq":
        return structure.group_sequence
    if name == "JMSXUserID":
        return structure.user_id
    if name == "JMSXDeliveryCount":
        return structure.redelivery_counter + 1
    if name == "JMSRedelivered":
        return structure.redelivery_counter > 0
    return broker_header_value(structure, name)


def broker_header_value(structure: wire.Message, name: str) -> object:
    """Return one of ActiveMQ's own headers."""
    if name == "JMSActiveMQBrokerInTime":
        return structure.broker_in_time
    if name == "JMSActiveMQBrokerOutTime":
        return structure.broker_out_time
    if name == "JMSActiveMQBrokerPath" and structure.broker_path is not None:
        return "[" + ", ".join([str(broker_id.value) for broker_id in structure.broker_path]) + "]"
    if name == "JMSXGroupFirstForConsumer":
        return structure.jmsx_group_first_for_consumer
    return None


def view_of(structure: wire.Message, message: Message) -> MessageView:
    """Return the neutral form of a decoded message; raises `MessageFormatError`."""
    kind = KINDS[structure.type_id()]
    view = MessageView(kind, message.destination, message.message_id)
    original = structure.original_destination
    view.original_destination = None if original is None else destination_of(original)
    view.correlation_id = structure.correlation_id
    view.reply_to = None if structure.reply_to is None else destination_of(structure.reply_to)
    view.type = structure.type
    view.persistent = message.persistent
    view.priority = message.priority
    view.expiration_ms = message.expiration_ms
    view.timestamp_ms = message.timestamp_ms
    view.group_id = structure.group_id
    view.group_sequence = structure.group_sequence
    view.first_for_consumer = structure.jmsx_group_first_for_consumer
    view.user_id = structure.user_id
    view.redelivery_count = structure.redelivery_counter
    properties = structure.marshalled_properties
    view.properties = {} if properties is None else decode_map(properties)
    view.body = neutral_body(kind, structure.content, structure.compressed)
    command = structure.data_structure
    if command is not None:
        try:
            view.command = command_tree(command)
        except ProtocolError as error:
            raise MessageFormatError(f"an advisory cannot be read: {error}") from None
    return view


def structure_of(view: MessageView) -> wire.Message:
    """Return the structure for a neutral message; raises `MessageFormatError`."""
    structure = wire.new_structure(TYPE_IDS[view.kind])
    assert isinstance(structure, wire.Message)
    structure.message_id = wire_message_id(view.message_id, 0)
    structure.producer_id = structure.message_id.producer_id
    structure.destination = wire_destination(view.destination)
    original = view.original_destination
    structure.original_destination = None if original is None else wire_destination(original)
    structure.group_id = view.group_id
    structure.group_sequence = view.group_sequence
    structure.jmsx_group_first_for_consumer = view.first_for_consumer
    structure.correlation_id = view.correlation_id
    structure.persistent = view.persistent
    structure.expiration = view.expiration_ms
    structure.priority = view.priority
    structure.reply_to = None if view.reply_to is None else wire_destination(view.reply_to)
    structure.timestamp = view.timestamp_ms
    structure.type = view.type
    structure.user_id = view.user_id
    structure.redelivery_counter = view.redelivery_count
    structure.marshalled_properties = encode_map(view.properties) if view.properties else None
    structure.content = wire_content(view.kind, view.body)
    return structure


def openwire_formats() -> dict[int, MessageFormat]:
    """Return the formats of this protocol by number."""
    return {format_id: OpenWireMessageFormat(format_id) for format_id in CANONICAL_VERSIONS}
