"""Producers of a connection, found by the first octets of each of their messages.

type id | command id 4 | response required 1 | producer id … | destination … | transaction id … 0 1 5 6
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.model.errors import JmsError
from spanwire.model.ids import AnyTransactionId, ProducerId
from spanwire.model.info import ProducerCounts, ProducerInfo
from spanwire.model.message import Message
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.loose import LooseReader, LooseWriter
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION
from spanwire.protocols.openwire.messages.identities import transaction_id_of, wire_producer_id
from spanwire.protocols.openwire.messages.message_format import MAX_REMEMBERED_OCTETS, OpenWireMessageFormat

PRODUCER_OFFSET: Final = 6
MINIMUM_MESSAGE_SIZE: Final = 1024  # bytes of a message in a producer's window beside content and properties
MAX_DELIVERED_BEFORE: Final = 1_000  # deliveries; bounds the unverified number of a peer
ARRAY_HEAD_OCTETS: Final = 5  # flag and length of a byte array


class AnnouncedProducer:
    """A producer with a unique ``number`` on its connection.

    ``window_size`` is in bytes, 0 for no window. ``transaction_octets`` are the encoded ``transaction_id`` of its last
    message in a transaction.
    """

    __slots__ = (
        "confirmed",
        "counts",
        "number",
        "octets",
        "producer_id",
        "structure",
        "transaction_id",
        "transaction_octets",
        "window_size",
    )

    def __init__(self, info: ProducerInfo, number: int, octets: bytes) -> None:
        self.producer_id: Final[ProducerId] = info.producer_id
        self.window_size: Final[int] = info.window_size
        self.counts: Final[ProducerCounts] = info.counts
        self.number: Final[int] = number
        self.octets: Final[bytes] = octets
        self.structure: Final[wire.ProducerId] = wire_producer_id(info.producer_id)
        self.confirmed: ProducerId = info.producer_id  # the equal object that its messages share
        self.transaction_octets = b""
        self.transaction_id: AnyTransactionId | None = None


class AnnouncedProducers:
    """Finds the producer of a message; the broker limits the number of producers of a connection."""

    def __init__(self, broker: Broker, state: ConnectionState) -> None:
        self._broker: Final[Broker] = broker
        self._state: Final[ConnectionState] = state
        self._by_octets: Final[dict[bytes, AnnouncedProducer]] = {}
        self._by_number: Final[dict[int, AnnouncedProducer]] = {}
        self._number = 0
        self.takes_foreign_ids = False  # a bridge forwards messages of other producers
        self._last: AnnouncedProducer | None = None
        self._last_front = b""

    def add(self, info: ProducerInfo) -> None:
        """Add a producer that the broker has accepted; an existing producer stays unchanged."""
        octets = _octets_of(info.producer_id)
        if octets in self._by_octets:
            return
        self._number += 1
        producer = AnnouncedProducer(info, self._number, octets)
        self._by_octets[octets] = producer
        self._by_number[self._number] = producer

    def remove(self, producer_id: ProducerId) -> None:
        """Remove a producer."""
        producer = self._by_octets.pop(_octets_of(producer_id), None)
        if producer is not None:
            del self._by_number[producer.number]
            self._last = None

    def remove_session(self, session: int) -> None:
        """Remove all producers of a session."""
        for producer in list(self._by_octets.values()):
            if producer.producer_id.session_id == session:
                self.remove(producer.producer_id)

    def by_number(self, number: int) -> AnnouncedProducer | None:
        """Return the producer with a number, or None after the removal."""
        return self._by_number.get(number)

    def sender(self, raw: bytes, message: Message, front: bytes) -> AnnouncedProducer:
        """Return the producer of an indexed message, and count the message.

        ``front`` is its reader's (`MessageScanner.front`).

        Raises:
            AuthorizationError: the message has an id of another producer.
            JmsError: the producer of the message was never announced.
        """
        producer = self._last
        if producer is None or front is not self._last_front or len(front) == 0:
            if producer is None or raw[PRODUCER_OFFSET : PRODUCER_OFFSET + len(producer.octets)] != producer.octets:
                producer = self._find(raw, message)
                self._last = producer
            self._last_front = front
        producer_id = message.producer_id
        if producer_id is not producer.confirmed and not self.takes_foreign_ids:
            if producer_id != producer.producer_id:
                self._broker.access.refuse(
                    self._state, f"send a message of another than producer {producer.producer_id}"
                )
            producer.confirmed = producer_id
        producer.counts.sent += 1
        return producer

    def _find(self, raw: bytes, message: Message) -> AnnouncedProducer:
        reader = LooseReader(LATEST_VERSION, False)
        reader.begin(raw, 0, len(raw))
        reader.position = PRODUCER_OFFSET
        claimed = wire.as_producer_id(reader.read_nested())
        if claimed is not None and claimed.connection_id is not None:
            self._broker.access.check_own(self._state, claimed.connection_id)
        producer = self._by_octets.get(raw[PRODUCER_OFFSET : reader.position])
        if producer is None:
            raise JmsError(f"Cannot send message to {message.destination} with invalid (null) producer state")
        return producer


def transaction_of(message: Message, producer: AnnouncedProducer) -> AnyTransactionId | None:
    """Return the transaction of a message with the flag `TRANSACTED`, mostly that of the producer's last one."""
    raw = message.raw
    position = PRODUCER_OFFSET + len(producer.octets)
    if raw[position] == 0:
        position += 1
    elif raw[position + 2] == 0:
        position += 3
    else:
        position += 5 + (raw[position + 3] << 8 | raw[position + 4])
    known = producer.transaction_octets
    if len(known) > 0 and raw[position : position + len(known)] == known:
        return producer.transaction_id
    reader = LooseReader(LATEST_VERSION, False)
    reader.begin(raw, 0, len(raw))
    reader.position = position
    transaction_id = transaction_id_of(wire.as_transaction_id(reader.read_nested()))
    if reader.position - position <= MAX_REMEMBERED_OCTETS:
        producer.transaction_octets = raw[position : reader.position]
        producer.transaction_id = transaction_id
    return transaction_id


def delivered_before(message_format: OpenWireMessageFormat, message: Message) -> int:
    """Return the number of deliveries by another broker before the forwarding of the message."""
    raw = message.raw
    start = message.tail_start
    if raw[start] == 0 and raw[start + 1] == 0:  # without structure and target consumer, the counter has a fixed offset
        count: int = read_i32_be(raw, start + 3)
    else:
        header = message_format.header(message, "JMSXDeliveryCount")
        count = header - 1 if isinstance(header, int) else 0
    return min(max(count, 0), MAX_DELIVERED_BEFORE)


def window_size_of(message: Message) -> int:
    """Return the bytes of a message in its producer's window, as counted by the client."""
    size = MINIMUM_MESSAGE_SIZE
    content = message.properties_start - message.content_start
    properties = message.tail_start - message.properties_start
    if content > ARRAY_HEAD_OCTETS:
        size += content - ARRAY_HEAD_OCTETS
    if properties > ARRAY_HEAD_OCTETS:
        size += properties - ARRAY_HEAD_OCTETS
    return size


def _octets_of(producer_id: ProducerId) -> bytes:
    """Return a nested producer id with flag, type and fields, loose and uncached."""
    writer = LooseWriter(LATEST_VERSION, False)
    out = BytesWriter()
    writer.begin(out)
    writer.write_nested(wire_producer_id(producer_id))
    return out.getvalue()
