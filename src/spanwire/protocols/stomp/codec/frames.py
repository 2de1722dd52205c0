"""STOMP frames as values: commands, versions and decoded frames (STOMP 1.2, "STOMP Frames").

A frame's header block is a separate object, because producers repeat it. The decoder returns the same `HeaderBlock`
again, and the connection stores the parsed headers in it.
"""

from __future__ import annotations

from typing import Final

V1_0: Final = 10
V1_1: Final = 11
V1_2: Final = 12
VERSION_NAMES: Final[dict[int, str]] = {V1_0: "1.0", V1_1: "1.1", V1_2: "1.2"}

CONNECT: Final = "CONNECT"
STOMP: Final = "STOMP"
SEND: Final = "SEND"
SUBSCRIBE: Final = "SUBSCRIBE"
UNSUBSCRIBE: Final = "UNSUBSCRIBE"
ACK: Final = "ACK"
NACK: Final = "NACK"
BEGIN: Final = "BEGIN"
COMMIT: Final = "COMMIT"
ABORT: Final = "ABORT"
DISCONNECT: Final = "DISCONNECT"
CONNECTED: Final = "CONNECTED"
MESSAGE: Final = "MESSAGE"
RECEIPT: Final = "RECEIPT"
ERROR: Final = "ERROR"

CLIENT_COMMANDS: Final = (
    CONNECT,
    STOMP,
    SEND,
    SUBSCRIBE,
    UNSUBSCRIBE,
    ACK,
    NACK,
    BEGIN,
    COMMIT,
    ABORT,
    DISCONNECT,
)


class Prepared:
    """The parsed form of a header block; each use derives its own class."""


class HeaderBlock:
    """A command and its decoded headers: the first of a repeated name, without `receipt` and `content-length`.

    `receipt` and `content-length` differ between otherwise equal frames, so they are attributes of `Frame`. Header
    blocks are shared between frames: never change ``headers``.
    """

    __slots__ = ("command", "headers", "prepared")

    def __init__(self, command: str, headers: dict[str, str]) -> None:
        self.command: Final[str] = command
        self.headers: Final[dict[str, str]] = headers
        self.prepared: Prepared | None = None


class Frame:
    """A frame; ``chunks`` are the body in order, ``content_length`` is -1 if absent."""

    __slots__ = ("block", "chunks", "content_length", "receipt")

    def __init__(self, block: HeaderBlock, receipt: str | None, content_length: int, chunks: list[bytes]) -> None:
        self.block: Final[HeaderBlock] = block
        self.receipt: Final[str | None] = receipt
        self.content_length: Final[int] = content_length
        self.chunks: Final[list[bytes]] = chunks

    @property
    def command(self) -> str:
        """Return the command, such as SEND."""
        return self.block.command

    @property
    def headers(self) -> dict[str, str]:
        """Return all headers but `receipt` and `content-length`."""
        return self.block.headers

    @property
    def body(self) -> bytes:
        """Return the body as one object."""
        if len(self.chunks) == 1:
            return self.chunks[0]
        return b"".join(self.chunks)

    def __repr__(self) -> str:
        return f"Frame({self.block.command}, {sum(map(len, self.chunks))} bytes)"
