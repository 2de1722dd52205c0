"""Encodes messages for the next broker: stored octets with another producer and a longer path.

    type 1 | command id 4 | response required 1 | producer | destination | transaction | original destination | id …
             '----------------- replaced ------------------'   unchanged      null            unchanged
    … | content | properties | structure | target | compressed 1 | redelivery counter 4 | broker path | …
        '----------------------- unchanged -------------------'      of this broker       + this broker

The broker sequence in the id holds a number by which the next broker finds a duplicate
(`spanwire.broker.persistence.producer_audit`). Id, body and properties are the same octets in every broker. If the head
begins with the octets of the message before, its split offset is reused; an unchanged tail is encoded once. With
useCompression an uncompressed body is deflated.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i64

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.errors import JmsError
from spanwire.model.message import Message
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.messages.message_body import KINDS, deflated
from spanwire.protocols.openwire.messages.message_format import CANONICAL_VERSIONS, FLAG_BITS, OpenWireMessageFormat
from spanwire.protocols.openwire.messages.message_layout import ROUTE_START, MessageScanner
from spanwire.protocols.openwire.output import SEPARATE_CHUNK_BYTES, OutputBuffer

NULL_TRANSACTION: Final = b"\x00"
COUNTER_START: Final = 3  # in a tail without structure and target consumer
PATH_START: Final = 7
NUMBER_OCTETS: Final = 8


class ForwardEncoder:
    """Encodes the messages of one bridge into its output.

    ``producer_id`` is the bridge's producer at the remote broker, ``largest`` the largest frame of the remote broker in
    bytes. With ``compresses`` bodies are compressed.
    """

    def __init__(
        self,
        broker_id: str,
        producer_id: wire.ProducerId,
        formats: MessageFormats,
        message_format: OpenWireMessageFormat,
        version: int,
        largest: int = MAX_FRAME_SIZE,
        compresses: bool = False,
    ) -> None:
        self._compresses: Final[bool] = compresses
        self._largest: Final[int] = largest
        self._broker_id: Final[str] = broker_id
        self._producer: Final[bytes] = _nested(producer_id, version)
        self._producer_id: Final[wire.ProducerId] = producer_id
        self._formats: Final[MessageFormats] = formats
        self._format: Final[OpenWireMessageFormat] = message_format
        self._version: Final[int] = version
        self._scanner: Final[MessageScanner] = MessageScanner(message_format.version)
        self._own_hop: Final[bytes] = _nested(wire.BrokerId(broker_id), version)
        self._front = b""
        self._old_tail = b""
        self._old_count = -1
        self._new_tail = b""

    def append(
        self, output: OutputBuffer, message: Message, command_id: int, answered: bool, count: int, number: i64
    ) -> None:
        """Encode ``message`` with a redelivery counter of ``count`` and its ``number`` for duplicates.

        Raises:
            JmsError: the message is too large for the remote broker
            ProtocolError: the message cannot be converted into the remote broker's format
        """
        own = self._in_format(message)
        if self._compresses:
            output.append(self._compressed(own, command_id, answered, count, number))
            return
        if own.size + (len(own.head) if own.head is not None else 0) > self._largest:  # the size has room for a hop
            raise JmsError(f"it is larger than the {self._largest} bytes that broker takes")
        raw = own.raw
        start = own.tail_start
        if raw[start] or raw[start + 1] or own.tail is not None or not output.passes_messages:
            output.append(self._rewritten(own, command_id, answered, count, number))
            return
        head = own.head if own.head is not None else raw
        front = self._front_of(head)
        tail = self._tail(own, count)
        index = own.format_index >> FLAG_BITS
        leading = head[self._scanner.original_destination_start : index]
        trailing = head[index + NUMBER_OCTETS :] if own.head is not None else b""
        rest_start = own.content_start if own.head is not None else index + NUMBER_OCTETS
        rest = raw[rest_start:start]
        size = ROUTE_START + len(front) + len(leading) + NUMBER_OCTETS + len(trailing) + len(rest) + len(tail)
        writer = output.writer
        write_i32_be(writer, size)
        writer.append(raw[0])
        write_i32_be(writer, command_id)
        writer.append(1 if answered else 0)
        writer.write(front)
        writer.write(leading)
        write_i64_be(writer, number)
        if trailing:
            writer.write(trailing)
        if len(rest) < SEPARATE_CHUNK_BYTES:
            writer.write(rest)
        else:
            output.append_chunk(rest)
        output.writer.write(tail)

    def _front_of(self, head: bytes) -> bytes:
        """Return producer, destination and transaction, reused while the heads begin alike."""
        scanner = self._scanner
        scanner.scan_route(head)
        if not scanner.same_route or not self._front:
            destination = head[scanner.destination_start : scanner.transaction_start]
            self._front = self._producer + destination + NULL_TRANSACTION
        scanner.data = b""  # do not keep a large message in memory
        return self._front

    def _in_format(self, message: Message) -> Message:
        if message.format_id == self._format.format_id:
            return message
        leading = message.converted
        if message.format_id in CANONICAL_VERSIONS:
            own = self._format.from_version(message)
        else:
            own = self._formats.converted(message, self._format.format_id)
        if leading is None and message.destination.is_queue:
            message.converted = None  # a queue's message is forwarded once; a second form would double its memory
        return own

    def _tail(self, message: Message, count: int) -> bytes:
        """Return the tail with ``count`` and one more hop."""
        tail = message.raw[message.tail_start :]
        if tail == self._old_tail and count == self._old_count:
            return self._new_tail
        hops = 0
        path_end = PATH_START + 1
        if tail[PATH_START]:
            hops = tail[PATH_START + 1] << 8 | tail[PATH_START + 2]
            path_end = _path_end(tail, hops)
        out = BytesWriter()
        out.write(tail[:COUNTER_START])
        write_i32_be(out, count)
        out.append(1)
        out.append((hops + 1) >> 8)
        out.append((hops + 1) & 255)
        if hops > 0:
            out.write(tail[PATH_START + 3 : path_end])
        out.write(self._own_hop)
        out.write(tail[path_end:])
        self._old_tail = tail
        self._old_count = count
        self._new_tail = out.getvalue()
        return self._new_tail

    def _compressed(self, message: Message, command_id: int, answered: bool, count: int, number: int) -> wire.Message:
        """Return the message with a deflated body, if it has an uncompressed one."""
        structure = self._rewritten(message, command_id, answered, count, number)
        content = structure.content
        size = message.size
        if content is not None and not structure.compressed:
            smaller = deflated(KINDS[structure.type_id()], content)
            if smaller is not None:
                structure.content = smaller
                structure.compressed = True
                size += len(smaller) - len(content)
        if size > self._largest:
            raise JmsError(f"it is larger than the {self._largest} bytes that broker takes")
        return structure

    def _rewritten(self, message: Message, command_id: int, answered: bool, count: int, number: int) -> wire.Message:
        """Return the message rebuilt from its fields, for tight connections and messages with a structure."""
        structure = decode_message(message.encoded(), CANONICAL_VERSIONS[message.format_id])
        structure.command_id = command_id
        structure.response_required = answered
        structure.producer_id = self._producer_id
        structure.transaction_id = None
        structure.redelivery_counter = count
        if structure.message_id is not None:
            structure.message_id.broker_sequence_id = number
        path = structure.broker_path
        structure.broker_path = [*(path if path is not None else []), wire.BrokerId(self._broker_id)]
        return structure


def _path_end(tail: bytes, hops: int) -> int:
    """Return the end of the broker path in a tail, which was checked when the message arrived."""
    position = PATH_START + 3
    for _ in range(hops):
        if tail[position] == 0:
            position += 1
        elif tail[position + 2] == 0:
            position += 3
        else:
            position += 5 + (tail[position + 3] << 8 | tail[position + 4])
    return position


def _nested(structure: wire.ProducerId | wire.BrokerId, version: int) -> bytes:
    writer = LooseWriter(version, False)
    writer.begin(BytesWriter())
    writer.write_nested(structure)
    return writer.out.getvalue()
