"""The output of a connection: commands and dispatched messages, in order.

One buffer has the output until the end of the turn.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i64

from spanwire.broker.ports import NO_TOKEN
from spanwire.protocols.openwire.codec._marshallers import BaseCommand, Response
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.large_message import LargeMessage

MAX_UNREAD_ANSWER_BYTES: Final = 8 * 1024 * 1024  # bytes of responses that a peer leaves unread; real peers read them
KEPT_BYTES: Final = 64 * 1024  # the largest buffer that a connection keeps for its next output: that of one read
KEPT_SHARE: Final = 8  # an output that fills a smaller part of the buffer gives the buffer back
SEPARATE_CHUNK_BYTES: Final = 32 * 1024  # larger messages are not copied into the buffer (as DIRECT_WRITE_BYTES)

# size 10, type 30, command id 0, no response required; the correlation id follows
LOOSE_RESPONSE_HEAD: Final = b"\x00\x00\x00\x0a\x1e\x00\x00\x00\x00\x00"
LOOSE_RESPONSE_BYTES: Final = 14

UNSIGNED: Final = 0xFFFFFFFF  # the largest token of a response: a command id as an unsigned number


def token_of(command: BaseCommand) -> int:
    """Return the token of the response to ``command``, or `NO_TOKEN` if the peer wants no response."""
    return command.command_id & UNSIGNED if command.response_required else NO_TOKEN


class OutputBuffer:
    """Encodes output into a `BytesWriter`.

    A large message is a separate chunk between two parts of the buffer.

    The size has two limits. The broker dispatches only while a connection has few unsent bytes. ``unread_answers``
    counts the bytes of responses that the peer has certainly not read, and the connection keeps the count below
    `MAX_UNREAD_ANSWER_BYTES`.
    """

    def __init__(self) -> None:
        self.writer = BytesWriter()
        self.encoder = FrameEncoder()
        self.passes_messages = True
        self.unread_answers = 0
        self._chunks: list[bytes] = []
        self._kept: i64 = 0  # bytes of the buffer, known from earlier output
        self.large: LargeMessage | None = None  # has a part of the output

    def negotiated(self, wire_format: WireFormat) -> None:
        """Encode all further output in ``wire_format``."""
        self.encoder = FrameEncoder(wire_format)
        self.passes_messages = wire_format.passes_messages()

    def append(self, command: DataStructure) -> None:
        """Append a command; raises `OpenWireEncodeError`, without effect, if the command cannot be encoded."""
        self.encoder.append(command, self.writer)

    def answer(self, command: DataStructure) -> None:
        """Append a command that responds to a command of the peer."""
        start = len(self.writer)
        self.append(command)
        self.unread_answers += len(self.writer) - start

    def respond(self, correlation_id: int) -> None:
        """Append a Response, the most frequent answer."""
        if not self.passes_messages:
            self.answer(Response(correlation_id))
            return
        self.unread_answers += LOOSE_RESPONSE_BYTES
        writer = self.writer
        writer.write(LOOSE_RESPONSE_HEAD)
        write_i32_be(writer, correlation_id)

    def append_chunk(self, octets: bytes) -> None:
        """Append a part of a frame without copying."""
        if len(self.writer) > 0:
            self._chunks.append(self.writer.getvalue())
            self.writer = BytesWriter()
        self._chunks.append(octets)

    def unsent(self, count: int) -> None:
        """Set the number of bytes of earlier output that the transport has not sent yet."""
        if self.unread_answers > count:
            self.unread_answers = count

    def take(self) -> list[bytes]:
        """Return all output and forget it."""
        chunks = self._chunks
        writer = self.writer
        size: i64 = len(writer)
        if size > 0:
            chunks.append(writer.getvalue())
            if size > KEPT_BYTES or size < self._kept // KEPT_SHARE:
                self.writer = BytesWriter()
                self._kept = 0
            else:  # the next output need not grow a buffer step by step, which copies all of it once more
                writer.truncate(0)
                self._kept = max(self._kept, size)
        if chunks:
            self._chunks = []
        if self.large is not None:
            self.large.forget()
            self.large = None
        return chunks
