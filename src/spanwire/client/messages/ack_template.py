"""Encoding of MessageAcks.

Apart from ids, type and count, all acknowledgements of a consumer and destination are equal:

type 22 | command id 4 | response required 1 | destination | transaction | consumer | ack type 1 | first id | last id
| count 4 | 0 (poison cause, version 7 and later)
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be

from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat

POISON_CAUSE_VERSION: Final = 7
ONE_WAY_HEAD: Final = b"\x16\x00\x00\x00\x00\x00"  # type 22, command id 0, no response required


class AcknowledgementEncoder:
    """Encodes the acknowledgements of one consumer."""

    def __init__(self, consumer: bytes) -> None:
        self._consumer: Final[bytes] = consumer
        self._destination = b""
        self._transaction = b""
        self._head = b""

    def octets(
        self, wire_format: WireFormat, destination: bytes, transaction: bytes, ack_type: int, ids: AcknowledgedIds
    ) -> bytes:
        """Return an acknowledgement from the type id on, for `Link.send_frame`."""
        if destination != self._destination or transaction != self._transaction or not self._head:
            self._destination = destination
            self._transaction = transaction
            self._head = ONE_WAY_HEAD + destination + transaction + self._consumer
        output = BytesWriter()
        output.write(self._head)
        output.append(ack_type)
        output.write(ids.first)
        output.write(ids.last)
        write_i32_be(output, ids.count)
        if wire_format.version >= POISON_CAUSE_VERSION:
            if ids.poison_cause:
                writer = LooseWriter(wire_format.version, wire_format.stack_traces)
                writer.begin(output)
                writer.write_throwable(Throwable("java.lang.Throwable", ids.poison_cause))
            else:
                output.append(0)
        return output.getvalue()


class AcknowledgedIds:
    """Encoded ids of the first and last message, the count, and the cause of a POISON_ACK."""

    def __init__(self, first: bytes, last: bytes, count: int, poison_cause: str = "") -> None:
        self.first: Final[bytes] = first
        self.last: Final[bytes] = last
        self.count: Final[int] = count
        self.poison_cause: Final[str] = poison_cause
