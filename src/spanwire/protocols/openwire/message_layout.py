"""Where the fields of a message lie in its loose, uncached octets.

Found by walking over the fields without decoding them. Offsets are into the octets from the type id on::

    type id | command id 4 | response required 1 | producer | destination | transaction | original destination
    | id: text (10+), producer, sequence 8, broker sequence 8 | original transaction | group | group sequence 4
    | correlation | persistent 1 | expiration 8 | priority 1 | reply to | timestamp 8 | type           ← the head
    | content | properties                                                                              ← shared
    | data structure | target consumer | compressed 1 | redelivery counter 4 | broker path | arrival 8 | user
    | received by bridge 1 | droppable 1 (2+) | cluster, in 8, out 8 (3+) | first for consumer 1 (10+)  ← the tail

(10+) means: since that version. A blob message has three more fields at its end.
"""

from __future__ import annotations

from typing import Final

from spanwire.protocols.openwire._marshallers import (
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
from spanwire.protocols.openwire.errors import OpenWireProtocolError
from spanwire.protocols.openwire.loose import LooseReader
from spanwire.protocols.openwire.octets import OctetReader, decode_text
from spanwire.protocols.openwire.schema import Throwable

MAX_BROKER_PATH: Final = 64  # brokers that a message came through; more is a loop or a forgery
NULL: Final = 0


class CarriedReader(LooseReader):
    """Reads the data structure that a message carries. An exception in it has no bytes that hold for every connection
    (stack traces are negotiated), and no real message carries one.
    """

    def read_throwable(self) -> Throwable | None:
        """Null, or refused."""
        if self.read_boolean():
            raise OpenWireProtocolError("a message carries an exception, which cannot be passed on")
        return None


class MessageScanner(OctetReader):
    """Walks over one message at a time and keeps what it found until the next.

    Raises `OpenWireProtocolError` for octets that are not exactly one message.
    """

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version: Final[int] = version
        self._carried: Final[CarriedReader] = CarriedReader(version, False)
        self.producer_start = 0
        self.destination_start = 0
        self.transaction_start = 0
        self.original_destination_start = 0
        self.message_id_start = 0
        self.text_view: str | None = None
        self.id_producer_start = 0
        self.sequence_start = 0
        self.sequence = 0
        self.group_id: str | None = None
        self.persistent = False
        self.expiration_ms = 0
        self.priority = 0
        self.timestamp_ms = 0
        self.content_start = 0
        self.properties_start = 0
        self.tail_start = 0
        self.carries_structure = False

    def scan(self, raw: bytes) -> None:
        """Find everything in ``raw``."""
        self.data = raw
        self.position = 0
        self.end = len(raw)
        type_id = self.read_unsigned_byte()
        if not is_message(type_id):
            raise OpenWireProtocolError(f"a structure of type {type_id} is no message")
        self.scan_head()
        self.content_start = self.position
        self.skip_octet_array()
        self.properties_start = self.position
        self.skip_octet_array()
        self.tail_start = self.position
        self._skip_tail(type_id)
        if self.position != self.end:
            raise OpenWireProtocolError(f"{self.left()} bytes are left over in a message")

    def scan_head(self) -> None:
        """From behind the type id up to the content."""
        self.skip(5)
        self.producer_start = self.position
        self.skip_id(PRODUCER_ID)
        self.destination_start = self.position
        self.skip_destination()
        self.transaction_start = self.position
        self.skip_transaction()
        self.original_destination_start = self.position
        self.skip_destination()
        self._scan_message_id()
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

    def _scan_message_id(self) -> None:
        self.message_id_start = self.position
        if not self.read_flag():
            raise OpenWireProtocolError("a message has no id")
        if self.read_unsigned_byte() != MESSAGE_ID:
            raise OpenWireProtocolError("the id of a message is none")
        self.text_view = self.read_nullable_text() if self.version >= 10 else None
        self.id_producer_start = self.position
        self.skip_id(PRODUCER_ID)
        self.sequence = self.read_full_long()
        self.sequence_start = self.position
        self.skip(8)

    def _skip_tail(self, type_id: int) -> None:
        self._skip_carried()
        self.skip_id(CONSUMER_ID)
        self.skip(5)
        self._skip_broker_path()
        self.skip(8)
        self.skip_text()
        self.skip(1)
        if self.version >= 2:
            self.skip(1)
        if self.version >= 3:
            self._skip_broker_path()
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

    def _skip_broker_path(self) -> None:
        if not self.read_flag():
            return
        count = self.read_short()
        if count < 0 or count > MAX_BROKER_PATH:
            raise OpenWireProtocolError(
                f"a message came through {count} brokers, {MAX_BROKER_PATH} are the most"
            )
        for _ in range(count):
            self.skip_id(BROKER_ID)

    def skip(self, count: int) -> None:
        """Step over octets of fixed width."""
        position = self.position + count
        if position > self.end:
            raise OpenWireProtocolError("a message ends inside a field")
        self.position = position

    def read_flag(self) -> bool:
        """Any octet but 0 is true."""
        return self.read_unsigned_byte() != NULL

    def read_nullable_text(self) -> str | None:
        """A string or null."""
        return self.read_text(self.read_unsigned_short()) if self.read_flag() else None

    def skip_text(self) -> None:
        """A string or null; a bad string is refused here, or a consumer of this message would choke on it."""
        if self.read_flag():
            octets = self.read_octets(self.read_unsigned_short())
            if not octets.isascii():
                decode_text(octets)

    def skip_octet_array(self) -> None:
        """A byte array or null."""
        if self.read_flag():
            count = self.read_int()
            if count < 0 or count > self.left():
                raise OpenWireProtocolError(f"{count} bytes are announced where {self.left()} are left")
            self.position += count

    def skip_destination(self) -> None:
        """A destination or null."""
        if self.read_flag():
            type_id = self.read_unsigned_byte()
            if type_id < ACTIVE_MQ_QUEUE or type_id > ACTIVE_MQ_TEMP_TOPIC:
                raise wrong_type(type_id, "ActiveMQDestination")
            self.skip_text()

    def skip_transaction(self) -> None:
        """A transaction id or null."""
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
        """A producer, consumer, connection or broker id, or null."""
        if not self.read_flag():
            return
        type_id = self.read_unsigned_byte()
        if type_id != expected:
            raise wrong_type(type_id, TYPE_NAMES[expected])
        self.skip_text()
        if expected == PRODUCER_ID or expected == CONSUMER_ID:
            self.skip(16)


def wrong_type(type_id: int, expected: str) -> OpenWireProtocolError:
    """The error for a structure where another is declared."""
    return OpenWireProtocolError(f"a structure of type {type_id} stands where {expected} is declared")
