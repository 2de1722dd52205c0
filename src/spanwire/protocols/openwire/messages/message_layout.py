"""Locates the fields of a message in its loose, uncached octets, without decoding them.

Offsets count from the type id::

    type id | command id 4 | response required 1 | producer | destination | transaction | original destination
    | id: text (10+), producer, sequence 8, broker sequence 8 | original transaction | group | group sequence 4
    | correlation | persistent 1 | expiration 8 | priority 1 | reply to | timestamp 8 | type           ← the head
    | content | properties                                                                              ← shared
    | data structure | target consumer | compressed 1 | redelivery counter 4 | broker path | arrival 8 | user
    | received by bridge 1 | droppable 1 (2+) | cluster, in 8, out 8 (3+) | first for consumer 1 (10+)  ← the tail

(10+) means: since version 10. A blob message has three more fields at its end.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from spanwire.model.routing import NO_PATH
from spanwire.protocols.octet_errors import beyond_frame
from spanwire.protocols.octets import OctetReader, decode_text
from spanwire.protocols.openwire.codec._marshallers import (
    ACTIVE_MQ_BLOB_MESSAGE,
    ACTIVE_MQ_QUEUE,
    ACTIVE_MQ_TEMP_TOPIC,
    BROKER_ID,
    CONNECTION_ID,
    CONSUMER_ID,
    LOCAL_TRANSACTION_ID,
    MESSAGE_ID,
    PRODUCER_ID,
    TYPE_NAMES,
    XA_TRANSACTION_ID,
    is_message,
)
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.loose import LooseReader
from spanwire.protocols.openwire.codec.schema import Throwable

MAX_BROKER_PATH: Final = 64  # brokers; a longer path is a loop or a forgery
MAX_SAME_OCTETS: Final = 1024  # octets of a part that is compared with the previous message
ROUTE_START: Final = 6  # octets of type id, command id and response required
BROKER_ID_OCTETS: Final = 5  # octets of a broker id before its text: two flags, the type and a length
NUMBER_OCTETS: Final = 8
ARRAY_OCTETS: Final = 5  # octets of a byte array before its content: a flag and a length
PLAIN_OCTETS: Final = 27  # octets from the original transaction to the type if all nullable fields are null
TEXT_VIEW_VERSION: Final = 10


class CarriedReader(LooseReader):
    """Reads the data structure in a message; refuses exceptions.

    Stack traces are negotiated, so an exception has no form for every connection. No real message carries an exception.
    """

    def read_throwable(self) -> Throwable | None:
        """Read null; refuse an exception."""
        if self.read_boolean():
            raise OpenWireProtocolError("a message carries an exception, which cannot be passed on")
        return None


class MessageScanner(OctetReader):
    """Scans a message and stores the offsets until the next scan.

    Messages of a producer have common parts: route, id except for its numbers, tail. A part is compared with the
    previous message and scanned only if different. Each part determines its own end, so equal octets have equal
    meanings. ``front`` is the route and the id up to the numbers if the next message can be compared in one go, else
    empty. Messages with the same object as ``front`` have the same producer, destination and transaction.

    Raises:
        OpenWireProtocolError: the octets are not exactly one message.
    """

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version: Final[int] = version
        self._carried: Final[CarriedReader] = CarriedReader(version, False)
        self._id_producer_offset: Final[int] = 3 if version >= TEXT_VIEW_VERSION else 2
        self.destination_start: i64 = 0
        self.transaction_start: i64 = 0
        self.original_destination_start: i64 = 0
        self.message_id_start: i64 = 0
        self.text_view: str | None = None
        self.id_producer_start: i64 = 0
        self.sequence_start: i64 = 0  # offset of the broker's sequence
        self.sequence = 0  # the producer's sequence
        self.broker_sequence: i64 = 0
        self.group_id: str | None = None
        self.persistent = False
        self.expiration_ms = 0
        self.priority = 0
        self.timestamp_ms = 0
        self.content_start: i64 = 0
        self.properties_start: i64 = 0
        self.tail_start: i64 = 0
        self.carries_structure = False
        self.broker_path: tuple[str, ...] = NO_PATH
        self.same_route = False
        self.same_producer = False
        self.front = b""
        self._type_id: i64 = -1
        self._route = b""
        self._id_octets = b""
        self._tail = b""

    def scan(self, raw: bytes) -> None:
        """Scan the whole message ``raw``."""
        if not self.scan_like_last(raw):
            self.scan_anew(raw)

    def scan_anew(self, raw: bytes) -> None:
        """Scan a message that `scan_like_last` did not scan."""
        self.front = b""
        self.data = raw
        self.position = 0
        self.end = len(raw)
        type_id = self.read_unsigned_byte()
        if not is_message(type_id):
            raise OpenWireProtocolError(f"a structure of type {type_id} is no message")
        self._scan_head()
        self.content_start = self.position
        self.skip_octet_array()
        self.properties_start = self.position
        self.skip_octet_array()
        self._scan_tail(type_id)
        self.data = b""  # a large message must not stay in memory until the next one
        if len(self._route) > 0 and len(self._id_octets) > 0 and len(self._tail) > 0:
            self.front = self._route + self._id_octets
            self._type_id = type_id

    def scan_like_last(self, raw: bytes) -> bool:
        """Scan a message that differs from the last in numbers, content and properties alone, as most do.

        One comparison and no calls: 700 instructions less for each message than part by part.

        Returns:
            False, with no offset changed, if the message differs in more.
        """
        front = self.front
        front_octets: i64 = len(front)
        tail_octets: i64 = len(self._tail)
        size: i64 = len(raw)
        sequence: i64 = ROUTE_START + front_octets
        plain: i64 = sequence + 2 * NUMBER_OCTETS
        content: i64 = plain + PLAIN_OCTETS
        tail: i64 = size - tail_octets
        if front_octets == 0 or tail < content + 2 or raw[0] != self._type_id:
            return False
        if raw[plain] or raw[plain + 1] or raw[plain + 6] or raw[plain + 17] or raw[plain + 26]:
            return False
        properties: i64 = content + 1
        if raw[content] != 0:
            if content + ARRAY_OCTETS > tail:
                return False
            length: int = read_i32_be(raw, content + 1)
            properties = content + ARRAY_OCTETS + length
            if length < 0 or properties >= tail:
                return False
        end: i64 = properties + 1
        if raw[properties] != 0:
            if properties + ARRAY_OCTETS > tail:
                return False
            count: int = read_i32_be(raw, properties + 1)
            end = properties + ARRAY_OCTETS + count
        if end != tail or not raw.endswith(self._tail) or raw[ROUTE_START:sequence] != front:
            return False
        self.same_route = True
        self.same_producer = True
        self.sequence = read_i64_be(raw, sequence)
        self.sequence_start = sequence + NUMBER_OCTETS
        self.broker_sequence = read_i64_be(raw, sequence + NUMBER_OCTETS)
        self.group_id = None  # from here on as in `_take_plain`, without the call
        self.persistent = raw[plain + 7] != 0
        self.expiration_ms = read_i64_be(raw, plain + 8)
        priority: int = raw[plain + 16]
        self.priority = priority if priority < 128 else priority - 256
        self.timestamp_ms = read_i64_be(raw, plain + 18)
        self.content_start = content
        self.properties_start = properties
        self.tail_start = tail
        return True

    def _take_plain(self, data: bytes, start: i64) -> None:
        """Take the fields from the original transaction to the type, with null in all nullable fields."""
        self.group_id = None
        self.persistent = data[start + 7] != 0
        self.expiration_ms = read_i64_be(data, start + 8)
        priority: int = data[start + 16]
        self.priority = priority if priority < 128 else priority - 256
        self.timestamp_ms = read_i64_be(data, start + 18)

    def scan_head(self, head: bytes) -> None:
        """Scan ``head``, the octets up to the content."""
        self.data = head
        self.end = len(head)
        self._scan_head()

    def scan_route(self, head: bytes) -> None:
        """Scan the destination and the following fields up to the id."""
        self.data = head
        self.end = len(head)
        self._scan_front()

    def _scan_head(self) -> None:
        self._scan_front()
        self._scan_message_id()
        self._scan_rest_of_head()

    def _scan_front(self) -> None:
        if self.end < ROUTE_START:
            raise OpenWireProtocolError("a message ends inside a field")
        self.position = ROUTE_START
        end = ROUTE_START + len(self._route)
        self.same_route = end > ROUTE_START and self.data[ROUTE_START:end] == self._route
        if self.same_route:
            self.position = end
        else:
            self._scan_route()

    def _scan_route(self) -> None:
        self._route = b""
        self.skip_id(PRODUCER_ID)
        self.destination_start = self.position
        self.skip_destination()
        self.transaction_start = self.position
        self.skip_transaction()
        self.original_destination_start = self.position
        self.skip_destination()
        if self.position <= MAX_SAME_OCTETS:
            self._route = self.data[ROUTE_START : self.position]

    def _scan_message_id(self) -> None:
        start = self.position
        self.message_id_start = start
        end = start + len(self._id_octets)
        self.same_producer = end > start and self.data[start:end] == self._id_octets
        if self.same_producer:
            self.text_view = None
            self.id_producer_start = start + self._id_producer_offset
            self.position = end
        else:
            self._scan_id_producer(start)
        self.sequence = self.read_full_long()
        position = self.position
        if position + NUMBER_OCTETS > self.end:
            raise beyond_frame("a 64-bit number")
        self.sequence_start = position
        self.broker_sequence = read_i64_be(self.data, position)
        self.position = position + NUMBER_OCTETS

    def _scan_id_producer(self, start: int) -> None:
        self._id_octets = b""
        if not self.read_flag():
            raise OpenWireProtocolError("a message has no id")
        if self.read_unsigned_byte() != MESSAGE_ID:
            raise OpenWireProtocolError("the id of a message is none")
        self.text_view = self.read_nullable_text() if self.version >= TEXT_VIEW_VERSION else None
        self.id_producer_start = self.position
        self.skip_id(PRODUCER_ID)
        if self.text_view is None and self.position - start <= MAX_SAME_OCTETS:
            self._id_octets = self.data[start : self.position]

    def _scan_rest_of_head(self) -> None:
        start = self.position
        data = self.data
        if start + PLAIN_OCTETS <= self.end and not (
            data[start] or data[start + 1] or data[start + 6] or data[start + 17] or data[start + 26]
        ):  # original transaction, group, correlation id, reply to and type are null in most messages
            self._take_plain(data, start)
            self.position = start + PLAIN_OCTETS
            return
        self.skip_transaction()
        self.group_id = self.read_nullable_text()
        self.skip(4)
        self.skip_text()
        self.persistent = self.read_flag()
        self.expiration_ms = self.read_full_long()
        self.priority = self.read_byte()
        self.skip_destination()
        self.timestamp_ms = self.read_full_long()
        self.skip_text()

    def _scan_tail(self, type_id: int) -> None:
        start = self.position
        self.tail_start = start
        self.carries_structure = False
        tail = self._tail
        if type_id != ACTIVE_MQ_BLOB_MESSAGE and len(tail) > 0:
            if self.end - start == len(tail) and self.data.endswith(tail):
                return
        self._tail = b""
        self._skip_tail(type_id)
        if self.position != self.end:
            raise OpenWireProtocolError(f"{self.remaining()} bytes are left over in a message")
        if type_id != ACTIVE_MQ_BLOB_MESSAGE and not self.carries_structure and self.end - start <= MAX_SAME_OCTETS:
            self._tail = self.data[start:]

    def _skip_tail(self, type_id: int) -> None:
        self._skip_carried()
        self.skip_id(CONSUMER_ID)
        self.skip(5)
        self.broker_path = self._scan_broker_path()
        self.skip(8)
        self.skip_text()
        self.skip(1)
        if self.version >= 2:
            self.skip(1)
        if self.version >= 3:
            self._scan_broker_path()
            self.skip(16)
        if self.version >= 10:
            self.skip(1)
        if type_id == ACTIVE_MQ_BLOB_MESSAGE:
            self.skip_text()
            self.skip_text()
            self.skip(1)

    def _skip_carried(self) -> None:
        start = self.position
        self.carries_structure = self.read_flag()
        if self.carries_structure:
            carried = self._carried
            carried.data = self.data
            carried.position = start
            carried.end = self.end
            carried.depth = 0
            carried.structures = 0
            carried.read_nested()
            self.position = carried.position

    def _scan_broker_path(self) -> tuple[str, ...]:
        if not self.read_flag():
            return NO_PATH
        count = self.read_short()
        if count < 0 or count > MAX_BROKER_PATH:
            raise OpenWireProtocolError(f"a message came through {count} brokers, {MAX_BROKER_PATH} are the most")
        path: list[str] = []
        for _ in range(count):
            start = self.position
            self.skip_id(BROKER_ID)
            if self.position - start > BROKER_ID_OCTETS:
                path.append(decode_text(self.data[start + BROKER_ID_OCTETS : self.position]))
        return tuple(path)

    def skip(self, count: int) -> None:
        """Skip octets of fixed width."""
        position = self.position + count
        if position > self.end:
            raise OpenWireProtocolError("a message ends inside a field")
        self.position = position

    def read_flag(self) -> bool:
        """Read a flag; any octet but 0 is True."""
        return self.read_unsigned_byte() != 0

    def read_nullable_text(self) -> str | None:
        """Read a string or null."""
        return self.read_text(self.read_unsigned_short()) if self.read_flag() else None

    def skip_text(self) -> None:
        """Skip a string or null; refuse an invalid string, which a consumer could not decode."""
        if self.read_flag():
            octets = self.read_octets(self.read_unsigned_short())
            if not octets.isascii():
                decode_text(octets)

    def skip_octet_array(self) -> None:
        """Skip a byte array or null."""
        if self.read_flag():
            count = self.read_int()
            if count < 0 or count > self.remaining():
                raise OpenWireProtocolError(f"{count} bytes are announced where {self.remaining()} are left")
            self.position += count

    def skip_destination(self) -> None:
        """Skip a destination or null."""
        if self.read_flag():
            type_id = self.read_unsigned_byte()
            if type_id < ACTIVE_MQ_QUEUE or type_id > ACTIVE_MQ_TEMP_TOPIC:
                raise wrong_type(type_id, "ActiveMQDestination")
            self.skip_text()

    def skip_transaction(self) -> None:
        """Skip a transaction id or null."""
        if not self.read_flag():
            return
        type_id = self.read_unsigned_byte()
        if type_id == LOCAL_TRANSACTION_ID:
            self.skip(8)
            self.skip_id(CONNECTION_ID)
        elif type_id == XA_TRANSACTION_ID:
            self.skip(4)
            self.skip_octet_array()
            self.skip_octet_array()
        else:
            raise wrong_type(type_id, "TransactionId")

    def skip_id(self, expected: int) -> None:
        """Skip a producer, consumer, connection or broker id, or null."""
        if not self.read_flag():
            return
        type_id = self.read_unsigned_byte()
        if type_id != expected:
            raise wrong_type(type_id, TYPE_NAMES[expected])
        self.skip_text()
        if expected == PRODUCER_ID or expected == CONSUMER_ID:
            self.skip(16)


def wrong_type(type_id: int, expected: str) -> OpenWireProtocolError:
    """Return the error for a structure of another type than declared."""
    return OpenWireProtocolError(f"a structure of type {type_id} stands where {expected} is declared")
