"""Frames of AMQP 0-9-1 within limits, where the library trusts each length, and fails at a value that it cannot hold.

A timestamp of the year 10,000 or tables deep inside each other end the library's connection, and the broker delivers
that message to the next one again. Whoever may publish could stop a bridge for good. Such a message becomes a dead
letter here.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Final

import aiormq.connection
from aiormq.connection import FrameReceiver
from aiormq.exceptions import InvalidFrameError
from pamqp.header import ContentHeader

from spanwire.model.units import MIB

MAX_FRAME: Final = 128 * MIB  # bytes; RabbitMQ's are 128 KiB, and without a limit it sends a message as one frame
MAX_MESSAGE: Final = 512 * MIB  # bytes of a body; RabbitMQ's largest max_message_size
HEADER: Final = 2  # kind of a frame with the properties of a message
HEAD: Final = struct.Struct(">BHI")  # kind, channel and length
CONTENT: Final = struct.Struct(">HHQ")  # class, weight and length of the body
UNREADABLE: Final = (ValueError, OverflowError, RecursionError, IndexError, TypeError, struct.error)


class UnreadableHeader(ContentHeader):  # type: ignore[misc]
    """The properties of a message that the library cannot read."""

    def __init__(self, body_size: int, reason: str) -> None:
        super().__init__(0, body_size)
        self.reason: Final = reason


class MeasuredReader:
    """A stream whose reads have a limit. It remembers the frame that is being read."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader: Final = reader
        self.parts: Final[list[bytes]] = []

    def at_eof(self) -> bool:
        """Return True at the end of the stream."""
        return self._reader.at_eof()

    async def read(self) -> bytes:
        """Return an empty text: the library asks for the rest of a stream that is none of AMQP."""
        return b""

    async def readexactly(self, count: int) -> bytes:
        """Return some octets. Raises `InvalidFrameError` beyond `MAX_FRAME` with the octet that ends a frame."""
        if count > MAX_FRAME + 1:
            raise InvalidFrameError(f"the broker announces a frame of {count} bytes, above {MAX_FRAME}")
        octets = await self._reader.readexactly(count)
        self.parts.append(octets)
        return octets


class FrameReader(FrameReceiver):  # type: ignore[misc]
    """Reads frames for a connection of the library."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self.reader: Any = MeasuredReader(reader)

    async def get_frame(self) -> Any:
        """Return size, channel and frame. Raises `InvalidFrameError` for a frame that is no message's."""
        parts: list[bytes] = self.reader.parts
        parts.clear()
        try:
            size, channel, frame = await super().get_frame()
        except (InvalidFrameError, *UNREADABLE) as error:
            size, channel, frame = _unreadable(b"".join(parts), error)
        if isinstance(frame, ContentHeader) and (frame.body_size or 0) > MAX_MESSAGE:
            raise InvalidFrameError(f"the broker announces a message of {frame.body_size} bytes, above {MAX_MESSAGE}")
        return size, channel, frame


def _unreadable(octets: bytes, error: Exception) -> tuple[int, int, UnreadableHeader]:
    """Return the frame of a message whose properties cannot be read. Raises `InvalidFrameError` for another frame."""
    reason = "the tables of headers are too deep" if isinstance(error, RecursionError) else str(error)
    if len(octets) < HEAD.size + CONTENT.size or octets[0] != HEADER:
        raise error if isinstance(error, InvalidFrameError) else InvalidFrameError(reason)
    _, channel, length = HEAD.unpack_from(octets)
    if len(octets) != HEAD.size + length + 1:
        raise error if isinstance(error, InvalidFrameError) else InvalidFrameError(reason)
    _, _, body_size = CONTENT.unpack_from(octets, HEAD.size)
    return len(octets), channel, UnreadableHeader(body_size, f"the properties of the message cannot be read: {reason}")


def read_carefully() -> None:
    """Let connections of the library read by `FrameReader` from now on: it has no place to hand a reader over."""
    aiormq.connection.FrameReceiver = FrameReader
