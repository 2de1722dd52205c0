"""Splits a stream of bytes into frames: a 32-bit size and the octets.

An incomplete frame is stored as a list of chunks, joined once, so a large message is copied only once. Small chunks are
collected in a buffer, so single bytes of a peer take only the memory of the bytes.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError

SIZE_OCTETS: Final = 4
GATHERED_OCTETS: Final = 4096  # shorter chunks are copied into one buffer
INCOMPLETE: Final = -1


class FrameBuffer:
    """Buffers the octets of frames that are incomplete or cannot be decoded yet.

    Only the sizes of frames are read.

    ``limit`` is the largest allowed frame in octets; the size octets alone suffice to refuse a larger frame.
    """

    def __init__(self, limit: int) -> None:
        self.limit: i64 = limit
        self.buffered = 0  # octets, including sizes
        self.is_inside_frame = False
        self.used = 0  # octets of the last read that belong to the frame
        self._missing = 0  # octets until the end of the frame
        self._unframed = b""
        self._chunks: list[bytes] = []
        self._gathered = bytearray()

    def take_buffered(self, data: bytes) -> bytes:
        """Return the buffered octets outside of a frame, followed by ``data``."""
        octets = self._unframed + data if self._unframed else data
        self._unframed = b""
        self.buffered = 0
        return octets

    def buffer(self, octets: bytes, position: i64) -> None:
        """Buffer the rest of a read from ``position`` on: the beginning of a frame, or frames that must wait."""
        remaining: i64 = len(octets) - position
        self.buffered = remaining
        if remaining >= SIZE_OCTETS:
            size: int = read_i32_be(octets, position)
            if remaining - SIZE_OCTETS < size <= self.limit:
                self.is_inside_frame = True
                self._missing = size - (remaining - SIZE_OCTETS)
                self._chunks.append(octets[position + SIZE_OCTETS :])
                return
        if remaining > 0:
            self._unframed = octets[position:]

    def complete_frame(self, data: bytes) -> bytes:
        """Return the octets of the frame without its size if ``data`` completes the frame, else empty bytes."""
        missing = self._missing
        if len(data) < missing:
            self._missing = missing - len(data)
            self.buffered += len(data)
            self._gather(data)
            return b""
        self.used = missing
        if self._gathered:
            self._chunks.append(bytes(self._gathered))
            self._gathered = bytearray()
        self._chunks.append(data[:missing])
        octets = b"".join(self._chunks)
        self._chunks = []
        self.buffered = 0
        self.is_inside_frame = False
        return octets

    def _gather(self, data: bytes) -> None:
        if len(data) < GATHERED_OCTETS:
            self._gathered += data
            if len(self._gathered) < GATHERED_OCTETS:
                return
            data = b""
        if self._gathered:
            self._chunks.append(bytes(self._gathered))
            self._gathered = bytearray()
        if data:
            self._chunks.append(data)

    def size_at(self, octets: bytes, position: i64) -> i64:
        """Return the size of the frame at ``position``, or `INCOMPLETE`.

        Raises:
            OpenWireProtocolError: the announced size is not positive or over the limit.
        """
        remaining: i64 = len(octets) - position
        if remaining < SIZE_OCTETS:
            return INCOMPLETE
        announced: int = read_i32_be(octets, position)
        size: i64 = announced
        if size <= 0:
            raise OpenWireProtocolError(f"a frame announces a size of {size}")
        if size > self.limit:
            raise OpenWireProtocolError(f"a frame of {size} bytes is larger than the limit of {self.limit}")
        if size > remaining - SIZE_OCTETS:
            return INCOMPLETE
        return size  # in one expression with the other number mypyc would box both
