"""Cuts a stream of bytes into frames: a 32-bit size, then that many octets.

A frame that is not complete is held as a list of the chunks in which it arrived and joined once, so that its cost stays
linear; small chunks are gathered, so that a peer that sends byte by byte costs no more memory than its bytes.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from spanwire.protocols.openwire.errors import OpenWireProtocolError

SIZE_OCTETS: Final = 4
GATHERED_OCTETS: Final = 4096  # chunks shorter than this are copied into one buffer
MAX_SIZE: Final = 2**31 - 1
INCOMPLETE: Final = -1


class FrameBuffer:
    """Holds what arrived of an incomplete frame. Knows sizes and nothing else of OpenWire.

    ``limit`` is the largest frame allowed now; a larger one is refused from its four size octets alone.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0  # octets
        self._needed = 0  # octets before looking again makes sense
        self._chunks: list[bytes] = []
        self._gathered = bytearray()

    def joined(self, data: bytes) -> bytes:
        """All octets that are held and ``data``, or nothing while the frame they belong to is incomplete."""
        if self.held == 0:
            return data
        self.held += len(data)
        if len(data) < GATHERED_OCTETS:
            self._gathered += data
        else:
            self._chunks.append(bytes(self._gathered))
            self._gathered = bytearray()
            self._chunks.append(data)
        if len(self._gathered) >= GATHERED_OCTETS:
            self._chunks.append(bytes(self._gathered))
            self._gathered = bytearray()
        if self.held < self._needed:
            return b""
        self._chunks.append(bytes(self._gathered))
        octets = b"".join(self._chunks)
        self._chunks = []
        self._gathered = bytearray()
        self.held = 0
        return octets

    def hold(self, octets: bytes) -> None:
        """Keep what is left of a read: the start of a frame, or frames that cannot be decoded yet."""
        self.held = len(octets)
        self._needed = 0
        if len(octets) < SIZE_OCTETS:
            self._needed = SIZE_OCTETS
        else:
            size = read_i32_be(octets, 0)
            if 0 < size <= self.limit:
                self._needed = SIZE_OCTETS + size
        if octets:
            self._chunks = [octets]

    def size_at(self, octets: bytes, position: i64) -> i64:
        """The size of the frame that starts at ``position``, or `INCOMPLETE`.

        Raises `OpenWireProtocolError` for a size that no frame can have, as soon as its four octets are there.
        """
        left: i64 = len(octets) - position
        if left < SIZE_OCTETS:
            return INCOMPLETE
        announced: int = read_i32_be(octets, position)
        size: i64 = announced
        if size <= 0:
            raise OpenWireProtocolError(f"a frame announces a size of {size}")
        if size > self.limit:
            raise OpenWireProtocolError(f"a frame of {size} bytes is larger than the limit of {self.limit}")
        return size if size <= left - SIZE_OCTETS else INCOMPLETE
