"""Puts the output of a STOMP connection into WebSocket messages (RFC 6455, section 5.2).

Each message carries one STOMP frame:

    FIN, opcode (1) | length (1), 126 and length (3), or 127 and length (9) | STOMP frame

A server's frames have no mask, so the header is written before the chunks without a copy. A frame in UTF-8 is a text
message, as sent by ActiveMQ and expected by scripts; any other frame is binary.
"""

from __future__ import annotations

import codecs
from typing import Final

TEXT: Final = 0x81  # with FIN
BINARY: Final = 0x82
SHORT: Final = 125  # bytes, the longest payload with a length in one byte
MEDIUM: Final = 0xFFFF  # bytes, the longest payload with a length in two bytes
HEART_BEAT: Final = b"\n"
NUL: Final = 0
CHECKED_BYTES: Final = 64 * 1024  # bytes decoded at a time; bounds the memory of the check


def messages(chunks: list[bytes]) -> list[bytes]:
    """Return the chunks of a STOMP connection, with a WebSocket header before each STOMP frame.

    A frame ends with a chunk with NUL at the end; a heart-beat is a separate chunk.
    """
    output: list[bytes] = []
    frame: list[bytes] = []
    size = 0
    is_text = True
    for chunk in chunks:
        if not chunk:
            continue
        frame.append(chunk)
        size += len(chunk)
        is_text = is_text and (chunk.isascii() or is_utf8(chunk))
        if chunk[-1] == NUL or (size == 1 and chunk == HEART_BEAT):
            output.append(header(TEXT if is_text else BINARY, size))
            output += frame
            frame = []
            size = 0
            is_text = True
    if frame:
        output.append(header(TEXT if is_text else BINARY, size))
        output += frame
    return output


def header(opcode: int, size: int) -> bytes:
    """Return the header of a frame with ``size`` bytes of payload."""
    if size <= SHORT:
        return bytes((opcode, size))
    if size <= MEDIUM:
        return bytes((opcode, 126, size >> 8, size & 0xFF))
    return bytes((opcode, 127)) + size.to_bytes(8, "big")


def is_utf8(chunk: bytes) -> bool:
    """Return True if ``chunk`` is whole characters of UTF-8."""
    checker = Utf8Checker()
    return checker.takes(chunk) and checker.is_at_end_of_character


class Utf8Checker:
    """Checks bytes in pieces for UTF-8; the text is dropped."""

    def __init__(self) -> None:
        self._decoder: Final = codecs.getincrementaldecoder("utf-8")()

    def takes(self, data: bytes) -> bool:
        """Return False if ``data`` behind the earlier bytes cannot be UTF-8."""
        try:
            for start in range(0, len(data), CHECKED_BYTES):
                self._decoder.decode(data[start : start + CHECKED_BYTES])
        except UnicodeDecodeError:
            return False
        return True

    @property
    def is_at_end_of_character(self) -> bool:
        """True if no character is incomplete."""
        return not self._decoder.getstate()[0]
