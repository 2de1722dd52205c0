"""Template of a producer's plain messages: the constant parts, encoded once.

    size 4 | head: type to producer of the message id | sequence 8 | middle: 0 8 to persistent | expiration 8 | priority
    to reply to | timestamp 8 | 0 (message type) | content | properties | tail

The layout is that of `spanwire.client.messages.message_encoder`. A plain message has no group, correlation id, message
type or reply destination, and no response.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be

from spanwire.protocols.openwire.codec import _marshallers as wire

ONE_WAY: Final = b"\x00\x00\x00\x00\x00"  # command id 0, no response required
LENGTH_OCTETS: Final = 4
NUMBER_OCTETS: Final = 24  # sequence, expiration, timestamp


class MessageTemplate:
    """Encodes messages of one type, destination, transaction, delivery mode and priority."""

    def __init__(
        self,
        type_id: int,
        addressed: bytes,
        id_head: bytes,
        producer: bytes,
        persistent: bool,
        priority: int,
        tail: bytes,
    ) -> None:
        self._head: Final[bytes] = bytes([type_id]) + ONE_WAY + addressed + b"\x00" + id_head + producer
        self._middle: Final[bytes] = bytes(8 + 1 + 1 + 4 + 1) + (b"\x01" if persistent else b"\x00")
        self._priority: Final[bytes] = bytes([priority, 0])
        self._tail: Final[bytes] = tail
        self._is_text: Final[bool] = type_id == wire.ACTIVE_MQ_TEXT_MESSAGE
        # the nulls or flags of message type, content and properties are one octet each
        self._fixed: Final[int] = (
            len(self._head) + len(self._middle) + len(self._priority) + NUMBER_OCTETS + 3 + len(tail)
        )

    def size(self, content: bytes | None, properties: bytes) -> int:
        """Return the octets of the message that `write` and `finish` encode, without the frame length.

        The content of a text message contains a length that is not part of ``content``.
        """
        size = self._fixed
        if content is not None:
            size += LENGTH_OCTETS + len(content)
            if self._is_text:
                size += LENGTH_OCTETS
        if properties:
            size += LENGTH_OCTETS + len(properties)
        return size

    def write(
        self, output: BytesWriter, size: int, sequence: int, expires_ms: int, timestamp_ms: int, content: bytes | None
    ) -> None:
        """Write the frame length and the message up to the properties."""
        write_i32_be(output, size)
        output.write(self._head)
        write_i64_be(output, sequence)
        output.write(self._middle)
        write_i64_be(output, expires_ms)
        output.write(self._priority)
        write_i64_be(output, timestamp_ms)
        output.append(0)
        if content is None:
            output.append(0)
            return
        output.append(1)
        if self._is_text:
            write_i32_be(output, len(content) + LENGTH_OCTETS)
        write_i32_be(output, len(content))
        output.write(content)

    def finish(self, output: BytesWriter, properties: bytes) -> None:
        """Write the properties and the end of the frame."""
        if properties:
            output.append(1)
            write_i32_be(output, len(properties))
            output.write(properties)
        else:
            output.append(0)
        output.write(self._tail)
