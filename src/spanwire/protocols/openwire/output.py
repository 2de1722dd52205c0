"""What one connection has to send: commands and dispatched messages, in order, in one buffer until the turn ends."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be

from spanwire.model.units import KIB, MIB
from spanwire.protocols.openwire.codec._marshallers import Response
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.large_message import LargeMessage

MAX_UNREAD_ANSWER_BYTES: Final = 8 * MIB  # answers a peer may leave unread; a real one reads while it sends
SEPARATE_CHUNK_BYTES: Final = 32 * KIB  # larger messages are not copied into the buffer (the transport's DIRECT_WRITE)

# size 10, type 30, command id 0, no response required; the correlation id follows
LOOSE_RESPONSE_HEAD: Final = b"\x00\x00\x00\x0a\x1e\x00\x00\x00\x00\x00"
LOOSE_RESPONSE_BYTES: Final = 14


class OutputBuffer:
    """Encodes into one `BytesWriter`; a large message stands between two of its pieces as a chunk of its own.

    Bounded from two sides: the broker dispatches only while a connection has little unsent, and ``unread_answers``
    counts the bytes of answers that the peer has certainly not read, which the connection keeps below
    `MAX_UNREAD_ANSWER_BYTES`.
    """

    def __init__(self) -> None:
        self.writer = BytesWriter()
        self.encoder = FrameEncoder()
        self.passes_messages = True
        self.unread_answers = 0
        self._chunks: list[bytes] = []
        self.large: LargeMessage | None = None  # has a part of what is to be sent

    def negotiated(self, wire_format: WireFormat) -> None:
        """Encode all that follows in ``wire_format``."""
        self.encoder = FrameEncoder(wire_format)
        self.passes_messages = wire_format.passes_messages()

    def append(self, command: DataStructure) -> None:
        """One command; raises `OpenWireEncodeError`, and keeps nothing of it, when it cannot be written."""
        self.encoder.append(command, self.writer)

    def answer(self, command: DataStructure) -> None:
        """One command that the peer caused by one of its own."""
        start = len(self.writer)
        self.append(command)
        self.unread_answers += len(self.writer) - start

    def respond(self, correlation_id: int) -> None:
        """A Response, the most frequent answer of all."""
        if not self.passes_messages:
            self.answer(Response(correlation_id))
            return
        self.unread_answers += LOOSE_RESPONSE_BYTES
        writer = self.writer
        writer.write(LOOSE_RESPONSE_HEAD)
        write_i32_be(writer, correlation_id)

    def append_chunk(self, octets: bytes) -> None:
        """A piece of a frame that is not to be copied."""
        if len(self.writer) > 0:
            self._chunks.append(self.writer.getvalue())
            self.writer = BytesWriter()
        self._chunks.append(octets)

    def unsent(self, count: int) -> None:
        """Of all that was taken, the transport still holds ``count`` bytes."""
        if self.unread_answers > count:
            self.unread_answers = count

    def take(self) -> list[bytes]:
        """Everything so far; the buffer forgets it."""
        chunks = self._chunks
        if len(self.writer) > 0:
            chunks.append(self.writer.getvalue())
            self.writer = BytesWriter()
        if chunks:
            self._chunks = []
        if self.large is not None:
            self.large.forget()
            self.large = None
        return chunks
