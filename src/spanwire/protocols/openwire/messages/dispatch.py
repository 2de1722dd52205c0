"""Dispatch frames: a MessageDispatch around the unchanged octets of a message.

    size 4 | type 21 | command id 4 | response required 1 | consumer | destination | 1 | message | redelivery counter 4
           '------------- the same for each message of a destination to a consumer --------------'

Only the eight octets of the broker's sequence differ from the stored message. Clients return the sequence in
acknowledgements and when they close a consumer.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i64

from spanwire.model.message import Message
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder, decode_message
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.messages.large_message import LargeMessage
from spanwire.protocols.openwire.messages.message_format import (
    CANONICAL_VERSIONS,
    CARRYING,
    FLAG_BITS,
    NUMBERED,
    OpenWireMessageFormat,
)

SEQUENCE_OCTETS: Final = 8
COUNTER_OCTETS: Final = 4


def dispatch_start(consumer_id: wire.ConsumerId) -> bytes:
    """Return the octets between size and destination, loose and uncached; equal in every version."""
    writer = LooseWriter(1, False)
    writer.out.append(wire.MESSAGE_DISPATCH)
    writer.write_int(0)
    writer.write_boolean(False)
    writer.write_nested(consumer_id)
    return writer.out.getvalue()


def append_dispatch(out: BytesWriter, head: bytes, message: Message, sequence: int, redelivery_count: int) -> None:
    """Append a dispatch frame to ``out``, for a connection with the format of the message."""
    octets = message.raw
    if message.head is not None or message.tail is not None:
        octets = message.encoded()
    write_i32_be(out, len(head) + len(octets) + COUNTER_OCTETS)
    out.write(head)
    start: i64 = len(out) + (message.format_index >> FLAG_BITS)
    offset: i64 = start + SEQUENCE_OCTETS
    out.write(octets)
    number = sequence
    while number > 0:
        offset -= 1
        out[offset] = number & 255
        number >>= 8
    if message.format_index & NUMBERED:
        while offset > start:
            offset -= 1
            out[offset] = 0
    write_i32_be(out, redelivery_count)


def dispatch_chunks(
    head: bytes, message: Message, sequence: int, redelivery_count: int, large: LargeMessage
) -> list[bytes]:
    """Return a dispatch frame as chunks; the largest, a slice of the message, is shared through ``large``."""
    octets = large.octets_of(message)
    start = message.format_index >> FLAG_BITS
    first = BytesWriter()
    write_i32_be(first, len(head) + len(octets) + COUNTER_OCTETS)
    first.write(head)
    first.write(octets[:start])
    write_i64_be(first, sequence)
    last = BytesWriter()
    write_i32_be(last, redelivery_count)
    return [first.getvalue(), large.rest_of(message, octets, start + SEQUENCE_OCTETS), last.getvalue()]


def passes(message: Message, encoder: FrameEncoder) -> bool:
    """Return True if the octets of ``message``, already in the connection's format, can be sent unchanged.

    A tight or cached connection needs another encoding. Also, the layout of a carried structure depends on the version.
    """
    wire_format = encoder.wire_format
    if not wire_format.passes_messages():
        return False
    return not message.format_index & CARRYING or wire_format.version == CANONICAL_VERSIONS[message.format_id]


def full_dispatch(
    consumer_id: wire.ConsumerId, message: Message, sequence: int, redelivery_count: int
) -> wire.MessageDispatch:
    """Return a dispatch as a command, for a connection with another encoding of messages."""
    structure = decode_message(message.encoded(), CANONICAL_VERSIONS[message.format_id])
    if structure.message_id is not None:
        structure.message_id.broker_sequence_id = sequence
    return wire.MessageDispatch(
        consumer_id=consumer_id,
        destination=structure.destination,
        message=structure,
        redelivery_counter=redelivery_count,
    )


def in_format(message: Message, message_format: OpenWireMessageFormat) -> Message:
    """Return ``message``, of any OpenWire format, in the format of a connection."""
    if message.format_id == message_format.format_id:
        return message
    return message_format.from_version(message)
