"""The STOMP decoder: converts bytes to frames.

See STOMP 1.2, "STOMP Frames"; 1.0 and 1.1 where different.

Layout of a frame::

    EOL*  command EOL  (name ":" value EOL)*  EOL  body  NUL

``EOL`` is a newline with an optional return before it. Blank lines and NULs between frames are heart-beats and are
counted. With ``content-length`` the body has this many bytes, and a NUL must follow; without it the first NUL ends the
frame. A NUL inside the header block ends the frame as if a blank line preceded it, because people forget this line in
frames typed into a terminal.

The version decides how a header line is read (observed on ActiveMQ): 1.0 trims values, 1.2 drops a return at the line's
end, 1.1 keeps the return. All versions resolve escapes, except in CONNECT. The first of a repeated name counts; a line
without a colon is skipped.

Every length is limited during the read, so the memory of the decoder is bounded.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from spanwire.protocols.base import MAX_FRAME_SIZE, MAX_STOMP_FRAME_BEFORE_LOGIN
from spanwire.protocols.stomp.codec.encoding import unescaped
from spanwire.protocols.stomp.codec.errors import StompProtocolError
from spanwire.protocols.stomp.codec.frames import (
    CLIENT_COMMANDS,
    CONNECT,
    SEND,
    STOMP,
    V1_0,
    V1_2,
    AckRun,
    Frame,
    HeaderBlock,
)

MAX_COMMAND_LENGTH: Final = 1_024  # bytes; ActiveMQ's limit, the longest command has 11 letters
MAX_HEADER_LENGTH: Final = 10 * 1_024  # bytes of a header line; ActiveMQ's limit
MAX_HEADERS: Final = 1_000  # header lines of a frame; ActiveMQ's limit
MAX_HEADER_BLOCK: Final = 64 * 1_024  # bytes of all header lines of a frame; bounds the memory of a partial frame
MAX_BODY: Final = 100 * 1024 * 1024  # bytes; ActiveMQ's limit
MAX_LENGTH_DIGITS: Final = 10  # digits of a content-length; more digits are beyond any limit
MAX_REPEATED_BLOCKS: Final = 64  # cached header blocks; one for each destination that a producer alternates between
MAX_UTF8_BYTES: Final = 4  # bytes of one character
MAX_REPEATED_LENGTH: Final = 2_048  # bytes; a longer header block is not cached

NEWLINE: Final = 10
RETURN: Final = 13
NO_LENGTH: Final = -1
ZERO: Final = 48
NINE: Final = 57
HYPHEN: Final = 45
ACK_WORD: Final = 0x41434B0A  # ACK, newline
ID_WORD: Final = 0x0A69643A  # newline, "id:"
ID_OFFSET: Final = 3  # bytes of an ACK frame before the second word
ID_START: Final = 7  # bytes of an ACK frame before its id
MAX_NUMBER_DIGITS: Final = 18  # digits of the two numbers of an id together; more may exceed 64 bits
MAX_ACK_RUN: Final = 500  # ACK frames of one run; a run belongs to one turn, whatever its frames need
MIN_ACK: Final = 13  # bytes of the shortest plain ACK, with two digits
KNOWN_COMMANDS: Final = frozenset(CLIENT_COMMANDS)
TRIMMED: Final = "".join(chr(code) for code in range(0x21))  # characters that Java's String.trim removes

TOO_LONG: Final = "The maximum data length was exceeded"
BLOCK_TOO_LONG: Final = "The maximum header length was exceeded"


class FrameDecoder:
    """Converts bytes, however split, to frames.

    The only state of the connection here is the accepted login.

    In 1.2, ACK frames with the id of a dispatch and nothing else become an `AckRun`.

    Until `accept` is called, each call returns at most one frame and buffers the rest, because the version decides how
    the next frame is read. The caller then feeds ``b""`` to continue. After a failure no further bytes are decoded.
    """

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self._max_frame_size: Final[int] = max_frame_size
        self._version = V1_0
        self._accepted = False
        self._head = bytearray()  # an incomplete header block, or undecoded bytes before the login
        self._scanned = 0  # bytes of the head without the end of a header block
        self._partial: Frame | None = None  # a frame with an incomplete body; its chunks grow
        self._body_size = 0  # bytes of the incomplete body
        self._blocks: dict[str, HeaderBlock] = {}
        self._hashes: set[int] = set()  # of header blocks that came once
        self._cacheable = False
        self._repeats = False  # the last header block was a cached one
        self._last_head = b""  # header block and blank line of the last SEND that repeated
        self._last_block: HeaderBlock | None = None
        self._last_length = NO_LENGTH
        self.failure: StompProtocolError | None = None  # set once, after the peer broke the protocol
        self.heart_beats = 0  # blank bytes between frames

    @property
    def has_buffered_bytes(self) -> bool:
        """Return True if bytes wait for the next call; they may contain a whole frame."""
        return len(self._head) > 0

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes of incomplete frames."""
        return len(self._head) + self._body_size

    def accept(self, version: int) -> None:
        """Accept the login: further frames may be large, and the rules of ``version`` apply."""
        self._accepted = True
        self._version = version

    def feed(self, data: bytes) -> list[Frame]:
        """Return all frames completed by ``data``, in order.

        Errors of the peer are not raised but stored in ``failure``.
        """
        frames: list[Frame] = []
        if self.failure is not None:
            return frames
        try:
            self._decode(data, frames)
        except StompProtocolError as error:
            self.failure = error
            self._head = bytearray()
            self._partial = None
            self._body_size = 0
        return frames

    def _decode(self, data: bytes, frames: list[Frame]) -> None:
        position = 0
        if self._partial is not None:
            position = self._continue_body(self._partial, data, frames)
            if position == NO_LENGTH:
                return
            if not self._accepted:
                self._buffer(data[position:])
                return
        elif self._head:
            self._head += data
            if not self._head_is_complete():
                return
            data = bytes(self._head)
            self._head = bytearray()
            self._scanned = 0
        self._decode_frames(data, position, frames)

    def _decode_frames(self, data: bytes, position: int, frames: list[Frame]) -> None:
        size = len(data)
        while True:
            begin = position
            while position < size and data[position] <= RETURN and data[position] in (NEWLINE, RETURN, 0):
                position += 1
            self.heart_beats += position - begin
            if position == size:
                return
            if not self._accepted:
                check_first_command(data, position)
            position = self._decode_frame(data, position, frames)
            if position == NO_LENGTH:
                return
            if not self._accepted:
                self._buffer(data[position:])
                return

    def _decode_frame(self, data: bytes, position: int, frames: list[Frame]) -> int:
        """Decode a frame; return the position after it, or `NO_LENGTH` if it is incomplete and buffered."""
        last = self._last_block
        if last is not None:
            last_end = position + len(self._last_head)
            if data[position:last_end] == self._last_head:  # compiled, a slice takes a third of ``startswith``
                return self._take_body(Frame(last, None, self._last_length), data, last_end, frames)
        if self._version == V1_2 and self._accepted:
            following = take_ack(data, position, frames)
            if following != NO_LENGTH:
                return following
        nul = data.find(b"\0", position)
        limit = nul if nul >= 0 else len(data)
        end = data.find(b"\n\n", position, limit)
        body_start = end + 2
        if end < 0 and nul >= 0:
            end = nul
            body_start = nul
        head = data[position : end if end >= 0 else limit]
        crlf = data.find(b"\n\r\n", position, end + 1 if end >= 0 else limit) if b"\r" in head else NO_LENGTH
        if crlf >= 0:
            end = crlf
            head = data[position:end]
            body_start = crlf + 3
        elif end < 0:
            self._buffer(data[position:])
            self._head_is_complete()
            return NO_LENGTH
        frame = self._new_frame(head)
        if end == nul and frame.content_length > 0:
            raise StompProtocolError("the header block of a frame with content-length contains a NUL")
        if self._repeats and frame.receipt is None and end < nul:
            self._last_head = data[position:body_start]
            self._last_block = frame.block
            self._last_length = frame.content_length
        return self._take_body(frame, data, body_start, frames)

    def _take_body(self, frame: Frame, data: bytes, body_start: int, frames: list[Frame]) -> int:
        """Read the body of ``frame``; return the position after the frame, or `NO_LENGTH` if it is incomplete."""
        size = len(data)
        length = frame.content_length
        if length >= 0:
            stop = body_start + length
            if stop < size and data[stop] != 0:
                raise StompProtocolError("content-length bytes were read and there was no trailing null byte")
        else:
            stop = data.find(b"\0", body_start)
            if stop < 0:
                stop = size
            self._check_body(stop - body_start)
        if stop >= size:
            self._partial = frame
            self._body_size = size - body_start
            frame.chunks = [data[body_start:]] if self._body_size else []
            return NO_LENGTH
        if stop > body_start:
            frame.whole = data[body_start:stop]
        frames.append(frame)
        return stop + 1

    def _continue_body(self, frame: Frame, data: bytes, frames: list[Frame]) -> int:
        """Extend an incomplete body, and return the position after its frame.

        Returns `NO_LENGTH` if the body is still incomplete.
        """
        if frame.content_length >= 0:
            stop = frame.content_length - self._body_size
            if stop < len(data) and data[stop] != 0:
                raise StompProtocolError("content-length bytes were read and there was no trailing null byte")
            complete = stop < len(data)
        else:
            stop = data.find(b"\0")
            complete = stop >= 0
            if not complete:
                stop = len(data)
            self._check_body(self._body_size + stop)
        chunk = data if stop >= len(data) else data[:stop]
        chunks = frame.chunks
        assert chunks is not None
        if chunk:
            chunks.append(chunk)
            self._body_size += len(chunk)
        if not complete:
            self._merge_small_chunks(chunks)
            return NO_LENGTH
        frames.append(frame)
        self._partial = None
        self._body_size = 0
        return stop + 1

    def _merge_small_chunks(self, chunks: list[bytes]) -> None:
        """Join the last two chunks while the last is no shorter.

        So a body in single bytes costs about its own size, and chunks are copied no more than once per doubling.
        """
        while len(chunks) > 1 and len(chunks[-1]) >= len(chunks[-2]) and len(chunks[-2]) < MAX_HEADER_BLOCK:
            last = chunks.pop()
            chunks[-1] = chunks[-1] + last

    def _buffer(self, rest: bytes) -> None:
        self._head = bytearray(rest)
        self._scanned = 0

    def _head_is_complete(self) -> bool:
        """Return True if the buffer has the end of a header block; else check all limits."""
        head = self._head
        start = max(0, self._scanned - 2)
        if head.find(b"\n\n", start) >= 0 or head.find(b"\n\r\n", start) >= 0 or head.find(b"\0", start) >= 0:
            return True
        self._scanned = len(head)
        if not self._accepted:
            check_first_command(bytes(head[: MAX_COMMAND_LENGTH + 2]), 0)
        if len(head) > MAX_COMMAND_LENGTH and head.find(b"\n", 0, MAX_COMMAND_LENGTH + 1) < 0:
            raise StompProtocolError("The maximum command length was exceeded")
        limit = MAX_HEADER_BLOCK if self._accepted else MAX_STOMP_FRAME_BEFORE_LOGIN
        if len(head) > limit or len(head) - head.rfind(b"\n") - 1 > MAX_HEADER_LENGTH:
            raise StompProtocolError(BLOCK_TOO_LONG)
        return False

    def _check_body(self, length: int) -> None:
        limit = min(MAX_BODY, self._max_frame_size) if self._accepted else MAX_STOMP_FRAME_BEFORE_LOGIN
        if length > limit:
            raise StompProtocolError(TOO_LONG)

    def _new_frame(self, block: bytes) -> Frame:
        """Return the frame of a header block without its body; a repeated block is parsed only once."""
        if len(block) > (MAX_HEADER_BLOCK if self._accepted else MAX_STOMP_FRAME_BEFORE_LOGIN):
            raise StompProtocolError(BLOCK_TOO_LONG)
        all_lines = decoded(block).split("\n")
        length = NO_LENGTH
        receipt: str | None = None
        lines = [all_lines[0]]
        for index in range(1, len(all_lines)):
            line = all_lines[index]
            if length == NO_LENGTH and line.startswith("content-length:"):
                length = parse_length(line[15:])
                self._check_body(length)
            elif receipt is None and line.startswith("receipt:"):
                receipt = self._value(line[8:], self._accepted)
            else:
                lines.append(line)
        text = "\n".join(lines)
        header_block = self._blocks.get(text)
        self._repeats = header_block is not None
        if header_block is None:
            self._cacheable = True
            header_block = self._parse(text, lines, length)
            if self._cacheable and header_block.command == SEND and len(block) <= MAX_REPEATED_LENGTH:
                self._remember(text, header_block)
        return Frame(header_block, receipt, length)

    def _remember(self, block: str, header_block: HeaderBlock) -> None:
        """Cache a header block that comes for the second time.

        If each message has a header of its own, no block repeats. Cached at once, such blocks took 54 KiB of memory for
        each connection.
        """
        key = hash(block)
        if key in self._hashes:
            if len(self._blocks) >= MAX_REPEATED_BLOCKS:
                self._blocks.clear()
            self._blocks[block] = header_block
            return
        if len(self._hashes) >= MAX_REPEATED_BLOCKS:
            self._hashes.clear()
        self._hashes.add(key)

    def _parse(self, text: str, lines: list[str], length: int) -> HeaderBlock:
        """Parse the ``lines`` of a header block, ``text``, without its `content-length` and its `receipt`."""
        if len(lines) - 1 > MAX_HEADERS:
            raise StompProtocolError("The maximum number of headers was exceeded")
        command = lines[0]
        if command not in KNOWN_COMMANDS:
            command = command.strip(TRIMMED)
        if len(command) > MAX_COMMAND_LENGTH:
            raise StompProtocolError("The maximum command length was exceeded")
        is_plain = self._version != V1_0 and "\\" not in text and "\r" not in text
        is_long = len(text) * MAX_UTF8_BYTES > MAX_HEADER_LENGTH
        headers: dict[str, str] = {}
        for index in range(1, len(lines)):
            line = lines[index]
            if is_long and len(line.encode()) > MAX_HEADER_LENGTH:
                raise StompProtocolError(BLOCK_TOO_LONG)
            colon = line.find(":")
            if colon <= 0:
                continue
            name = line[:colon]
            value = line[colon + 1 :]
            if not is_plain:
                name = unescaped(name, self._version) if self._accepted else name
                value = self._value(value, self._accepted)
            if name == "content-length" or name == "receipt":
                self._cacheable = False
                self._check_repeated(name, value, length)
            elif name not in headers:
                headers[name] = value
        return HeaderBlock(command, headers)

    def _check_repeated(self, name: str, value: str, length: int) -> None:
        if name == "content-length" and parse_length(value) != length:
            raise StompProtocolError("content-length is given twice with different values")

    def _value(self, text: str, decode: bool) -> str:
        """Return a header value by the rules of the version."""
        if self._version == V1_0:
            text = text.strip(TRIMMED)
        elif self._version == V1_2 and text.endswith("\r"):
            text = text[:-1]
        return unescaped(text, self._version) if decode else text


def take_ack(data: bytes, start: i64, frames: list[Frame]) -> i64:
    """Take an ACK without other headers as the number of a dispatch.

    Its bytes are "ACK", newline, "id:", subscription, "-", number, two newlines, NUL. To parse it as other frames takes
    35 times as long.

    Returns:
        The position after the frame; `NO_LENGTH`, without any effect, for any other frame and for an incomplete one.
    """
    size: i64 = len(data)
    if size - start < MIN_ACK or read_i32_be(data, start) != ACK_WORD:
        return NO_LENGTH
    if read_i32_be(data, start + ID_OFFSET) != ID_WORD:
        return NO_LENGTH
    position: i64 = start + ID_START
    limit: i64 = min(size - 2, position + MAX_NUMBER_DIGITS + 1)
    subscription: i64 = -1
    number: i64 = 0
    digits: i64 = 0
    while position < limit:
        octet: i64 = data[position]
        if octet >= ZERO and octet <= NINE:
            number = number * 10 + octet - ZERO
            digits += 1
        elif octet == HYPHEN and digits > 0 and subscription < 0:
            subscription = number
            number = 0
            digits = 0
        else:
            break
        position += 1
    if digits == 0 or subscription < 0 or position > size - 3:
        return NO_LENGTH
    if data[position] != NEWLINE or data[position + 1] != NEWLINE or data[position + 2] != 0:
        return NO_LENGTH
    if frames:
        run = frames[-1]
        if isinstance(run, AckRun) and run.subscription == subscription and run.numbers.size < MAX_ACK_RUN:
            run.numbers.append(number)
            return position + 3
    frames.append(AckRun(subscription, number))
    return position + 3


def check_first_command(data: bytes, position: int) -> None:
    """Raise `StompProtocolError` if the first bytes cannot become a CONNECT or STOMP frame.

    The check needs only the first bytes, so an HTTP request or a TLS hello to this port gets an answer at once.
    """
    end = data.find(b"\n", position, position + MAX_COMMAND_LENGTH + 2)
    nul = data.find(b"\0", position, position + MAX_COMMAND_LENGTH + 2)
    if nul >= 0 and (end < 0 or nul < end):
        end = nul
    complete = end >= 0
    line = data[position : end if complete else position + MAX_COMMAND_LENGTH]
    word = line.decode("utf-8", "replace").strip(TRIMMED)
    if word == CONNECT or word == STOMP:
        return
    if complete:
        if word in CLIENT_COMMANDS:
            raise StompProtocolError("Not connected.")
    else:
        for command in CLIENT_COMMANDS:
            if command.startswith(word):
                return
    raise StompProtocolError(f"Unknown STOMP action: {word}")


def decoded(data: bytes) -> str:
    """Decode header bytes; raises `StompProtocolError` unless they are UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StompProtocolError("the header block is not UTF-8") from error


def parse_length(digits: str) -> int:
    """Parse a content-length header: ASCII digits with optional blanks around.

    Raises `StompProtocolError`.
    """
    if not digits.isdigit():
        digits = digits.strip(" \t\r")
    if not digits.isdigit() or not digits.isascii():
        raise StompProtocolError("Specified content-length is not a valid integer")
    if len(digits) > MAX_LENGTH_DIGITS:
        raise StompProtocolError(TOO_LONG)
    return int(digits)
