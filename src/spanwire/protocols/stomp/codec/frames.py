"""STOMP frames as values: commands, versions and decoded frames (STOMP 1.2, "STOMP Frames").

A frame's header block is a separate object, because producers repeat it. The decoder returns the same `HeaderBlock`
again, and the connection stores the parsed headers in it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from spanwire.model.acks import SequenceRun

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


@mypyc_attr(acyclic=True)
class Prepared:
    """The parsed form of a header block; each use derives its own class."""


@mypyc_attr(acyclic=True)
class HeaderBlock:
    """A command and its decoded headers.

    Of a repeated name the first counts. `receipt` and `content-length` are left out.

    `receipt` and `content-length` differ between otherwise equal frames, so they are attributes of `Frame`. Header
    blocks are shared between frames: never change ``headers``.
    """

    __slots__ = ("command", "headers", "is_send", "prepared")

    def __init__(self, command: str, headers: dict[str, str]) -> None:
        self.command: Final[str] = command
        self.is_send: Final[bool] = command == SEND
        self.headers: Final[dict[str, str]] = headers
        self.prepared: Prepared | None = None


@mypyc_attr(acyclic=True)
class Frame:
    """A frame; ``content_length`` is -1 if absent.

    The body is ``whole`` if it came in one read, else it is in ``chunks``, in order. A list for the usual one chunk
    takes 300 instructions for each message.
    """

    __slots__ = ("block", "chunks", "content_length", "receipt", "whole")

    def __init__(self, block: HeaderBlock, receipt: str | None, content_length: int) -> None:
        self.block: Final[HeaderBlock] = block
        self.receipt: Final[str | None] = receipt
        self.content_length: Final[int] = content_length
        self.whole = b""
        self.chunks: list[bytes] | None = None

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
        return self.whole if self.chunks is None else b"".join(self.chunks)

    def __repr__(self) -> str:
        return f"Frame({self.block.command}, {len(self.body)} bytes)"


ACK_BLOCK: Final = HeaderBlock(ACK, {})


@mypyc_attr(acyclic=True)
class AckRun(Frame):
    """ACK frames without other headers than an `id` of the broker (`StompSubscription`).

    Thousands arrive one behind the other, so each frame is a number of the run and has no object of its own.
    ``subscription`` is the number of the subscription, ``numbers`` belong to the dispatches in the order of the frames.
    """

    __slots__ = ("numbers", "subscription")

    def __init__(self, subscription: i64, number: i64) -> None:
        super().__init__(ACK_BLOCK, None, -1)
        self.subscription: Final[i64] = subscription
        self.numbers: Final[SequenceRun] = SequenceRun(number)

    def frame(self, number: int) -> Frame:
        """Return one ACK of the run as a frame with headers."""
        return Frame(HeaderBlock(ACK, {"id": f"{self.subscription}-{number}"}), None, -1)
