"""Frames of AMQP 0-9-1 within limits, where the library trusts each length, and fails at a value that it cannot hold.

A timestamp of the year 10,000, or tables nested too deep, end the library's connection. The broker then delivers the
message again to the next connection. So anybody with the right to publish could stop a bridge for good. Here such a
message becomes a dead letter with its readable properties.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Final

import aiormq.connection
from aiormq.connection import FrameReceiver
from aiormq.exceptions import InvalidFrameError
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from spanwire.bridges.providers.amqp091.readable_properties import UNREADABLE, named, readable_properties
from spanwire.model.units import MIB

MAX_FRAME: Final = 128 * MIB  # bytes; RabbitMQ's are 128 KiB, and without a limit it sends a message as one frame
MAX_MESSAGE: Final = 512 * MIB  # bytes of a body; RabbitMQ's largest max_message_size
HEADER: Final = 2  # kind of a frame with the properties of a message
HEAD: Final = struct.Struct(">BHI")  # kind, channel and length
CONTENT: Final = struct.Struct(">HHQ")  # class, weight and length of the body


class UnreadableHeader(ContentHeader):  # type: ignore[misc]
    """The readable properties of a message with others that the library cannot read."""

    def __init__(self, body_size: int, properties: Basic.Properties, reason: str) -> None:
        super().__init__(0, body_size, properties)
        self.reason: Final = reason


class MeasuredReader:
    """A stream with a limit for each read. It keeps the octets of the current frame."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader: Final = reader
        self.parts: Final[list[bytes]] = []

    def at_eof(self) -> bool:
        """Return True at the end of the stream."""
        return self._reader.at_eof()

    async def read(self) -> bytes:
        """Return no octets. The library calls this for the rest of a stream of another protocol."""
        return b""

    async def readexactly(self, count: int) -> bytes:
        """Return ``count`` octets. Raises `InvalidFrameError` for more than a frame of `MAX_FRAME` and its end."""
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
        """Return size, channel and frame.

        Raises:
            InvalidFrameError: the frame is too large, or cannot be read and is no header of a message.
        """
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
    """Return a header of a message with unreadable properties. Raises `InvalidFrameError` for another frame."""
    reason = "the tables of headers are too deep" if isinstance(error, RecursionError) else str(error)
    if len(octets) < HEAD.size + CONTENT.size or octets[0] != HEADER:
        raise error if isinstance(error, InvalidFrameError) else InvalidFrameError(reason)
    _, channel, length = HEAD.unpack_from(octets)
    if len(octets) != HEAD.size + length + 1:
        raise error if isinstance(error, InvalidFrameError) else InvalidFrameError(reason)
    _, _, body_size = CONTENT.unpack_from(octets, HEAD.size)
    properties, unreadable = readable_properties(octets[HEAD.size + CONTENT.size : -1])
    text = f"the properties of the message cannot be read: {reason}"
    if unreadable:
        text += f"; the dead letter is without {named(unreadable)}"
    return len(octets), channel, UnreadableHeader(body_size, properties, text)


def read_carefully() -> None:
    """Replace the library's reader of frames by `FrameReader`. The library takes no reader as a parameter."""
    aiormq.connection.FrameReceiver = FrameReader
