"""Reads the frames of a client: whole messages here, all else by the library (RFC 6455, section 5.2).

    FIN, opcode | mask bit, length (1), 126 and length (3), or 127 and length (9) | mask (4) | contents

Nearly all frames are whole messages: text or binary, with FIN, complete in what was received. For a short one the
library takes 3.5 microseconds, and this module 1.6. So whole messages are cut out here; fragments, control frames,
frames against the rules, and frames that are still incomplete go to the library, one frame after the other. The library
decides about everything else, such as answers, errors and the end.
"""

from __future__ import annotations

from typing import Final

from websockets.frames import Opcode, apply_mask
from websockets.server import ServerProtocol

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
FIN: Final = 0x80
MASKED: Final = 0x80
WHOLE: Final = (FIN | TEXT, FIN | BINARY)  # the first octet of a whole message
MEDIUM: Final = 126  # instead of a length: two octets have the length
LONG: Final = 127  # eight octets have the length
MASK_OCTETS: Final = 4
OPCODE_BITS: Final = 0x0F
SHORTEST: Final = 2  # octets up to the end of a length

_LIBRARY_OPCODES: Final = {Opcode.CONT: CONTINUATION, Opcode.TEXT: TEXT, Opcode.BINARY: BINARY}


class DataFrame:
    """The contents of one data frame, without the mask."""

    __slots__ = ("data", "is_last", "opcode")

    def __init__(self, opcode: int, is_last: bool, data: bytes) -> None:
        self.opcode: Final[int] = opcode
        self.is_last: Final[bool] = is_last
        self.data: Final[bytes] = data


class FrameInput:
    """Cuts received bytes into frames, for messages of up to ``max_size`` bytes.

    ``protocol`` is the library's state machine behind an accepted handshake.
    """

    def __init__(self, protocol: ServerProtocol, max_size: int) -> None:
        self._protocol: Final = protocol
        self._max_size: Final = max_size
        self._data = b""  # received bytes
        self._position = 0  # the first byte of them that is left
        self._missing = 0  # bytes up to the end of the frame that the library has begun
        self._is_fragmented = False  # further frames of a message are to come

    @property
    def has_more(self) -> bool:
        """True while a call of `frames` has something to do."""
        left = len(self._data) - self._position
        return left > 0 and (self._missing > 0 or left >= _length_end(self._data, self._position))

    @property
    def waiting_bytes(self) -> int:
        """The bytes that are no frames yet, also those kept by the library."""
        return len(self._data) - self._position + len(self._protocol.reader.buffer)

    def receive(self, data: bytes) -> None:
        """Keep bytes of the client."""
        self._data = self._data[self._position :] + data
        self._position = 0

    def forget(self) -> None:
        """Drop the bytes that are no frames yet."""
        self._data = b""
        self._position = 0

    def frames(self, limit: int) -> list[DataFrame]:
        """Return the next data frames. At most ``limit`` frames are read, control frames among them."""
        found: list[DataFrame] = []
        count = 0
        while count < limit and self.has_more and not self._protocol.eof_sent:
            count += 1
            frame = None if self._missing or self._is_fragmented else self._whole_message()
            if frame is None:
                self._ask_library(found)
            else:
                found.append(frame)
        if self._protocol.eof_sent:  # what follows the end of a WebSocket is ignored
            self.forget()
        return found

    def _whole_message(self) -> DataFrame | None:
        """Cut out a message, or return None if the next frame is for the library."""
        data, start = self._data, self._position
        first = data[start]
        if first not in WHOLE or not data[start + 1] & MASKED:
            return None
        size = _content_size(data, start)
        begin = start + _length_end(data, start) + MASK_OCTETS
        end = begin + size
        if size > self._max_size or end > len(data):
            return None
        self._position = end
        content = apply_mask(data[begin:end], data[begin - MASK_OCTETS : begin])
        return DataFrame(first & OPCODE_BITS, True, content)

    def _ask_library(self, found: list[DataFrame]) -> None:
        """Pass the next frame to the library, or as much of it as is there."""
        data, start, protocol = self._data, self._position, self._protocol
        if not self._missing:
            mask = MASK_OCTETS if data[start + 1] & MASKED else 0
            self._missing = _length_end(data, start) + mask + _content_size(data, start)
        end = min(start + self._missing, len(data))
        self._missing -= end - start
        self._position = end
        protocol.receive_data(data[start:end])
        for frame in protocol.events_received():
            opcode = _LIBRARY_OPCODES.get(frame.opcode)
            if opcode is not None:
                self._is_fragmented = not frame.fin
                found.append(DataFrame(opcode, frame.fin, bytes(frame.data)))


def _length_end(data: bytes, start: int) -> int:
    """Return the octets from ``start`` to the end of the length: the least number if too few are there to say."""
    if len(data) - start < SHORTEST:
        return SHORTEST
    length = data[start + 1] & ~MASKED
    if length == MEDIUM:
        return SHORTEST + 2
    return SHORTEST + 8 if length == LONG else SHORTEST


def _content_size(data: bytes, start: int) -> int:
    """Return the length in the header at ``start``."""
    length = data[start + 1] & ~MASKED
    begin = start + SHORTEST
    if length == MEDIUM:
        return data[begin] << 8 | data[begin + 1]
    if length == LONG:
        return int.from_bytes(data[begin : begin + 8], "big")
    return length
