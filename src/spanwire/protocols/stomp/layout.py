"""The layout of a STOMP message in memory.

The layout is a MESSAGE frame without the lines that differ by subscription.

Layout of ``raw``::

    "message-id:" ID LF "timestamp:" MILLIS LF ["content-length:" N LF] (name ":" value LF)* LF   head
    body                                                                                         content
    NUL                                                                                          properties
    (name ":" value LF)*                                                                         tail

All lines have the escapes of STOMP 1.2. A MESSAGE frame has "MESSAGE", `subscription`, `ack` and `redelivered`, then
all bytes before the tail unchanged; therefore the user's properties are in the head. The tail is nearly always empty
and has headers that are not sent:

- ``JMSXGroupID`` and ``JMSXGroupSeq``;
- ``original-destination`` of a dead letter or a copy;
- ``destination`` if a property of this name replaces the header;
- ``framing`` if the sender gave no `content-length`, and one was added for a binary body or a body with a NUL.

``Message.format_index`` is the length of the first line, times eight, plus the flags below.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError, RemoteProtocolError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import Message
from spanwire.protocols.stomp.codec.encoding import escaped, unescaped
from spanwire.protocols.stomp.codec.frames import V1_2
from spanwire.protocols.stomp.destinations import has_prefix, read_destination

HAS_ESCAPES: Final = 1  # a line after the first has an escape, which 1.0 reads differently
HAS_RETURN: Final = 2  # an escape is the return, which 1.1 reads differently, too
HAS_TEMPORARY: Final = 4  # destination or reply-to is temporary, so its name depends on the connection
FLAG_BITS: Final = 3
FLAGS: Final = (1 << FLAG_BITS) - 1

ID_LABEL: Final = "message-id:"
MAX_ID_DIGITS: Final = 19  # digits of a 64-bit number in an id


def id_line(producer_id: ProducerId) -> bytes:
    """Return the first line of all messages of a producer, up to the sequence."""
    return (ID_LABEL + escaped(f"{producer_id}:", V1_2)).encode()


def line_flags(lines: bytes, temporary: bool) -> int:
    """Return the flags for header lines after the first."""
    flags = HAS_TEMPORARY if temporary else 0
    if lines.find(b"\\") >= 0:
        flags |= HAS_ESCAPES
        if lines.find(b"\\r") >= 0:
            flags |= HAS_RETURN
    return flags


def read_lines(lines: bytes) -> dict[str, str]:
    """Decode header lines with the escapes of 1.2; raises `RemoteProtocolError` unless they are UTF-8."""
    headers: dict[str, str] = {}
    try:
        text = lines.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError("a stored STOMP message has headers that are not UTF-8") from error
    for line in text.split("\n"):
        colon = line.find(":")
        if colon > 0:
            headers.setdefault(unescaped(line[:colon], V1_2), unescaped(line[colon + 1 :], V1_2))
    return headers


def head_of(message: Message) -> dict[str, str]:
    """Return the headers of a message in this format, in the order of the frame."""
    head = message.head
    return read_lines(head if head is not None else message.raw[: message.content_start])


def tail_of(message: Message) -> dict[str, str]:
    """Return the headers in the tail of a message."""
    tail = message.tail
    return read_lines(tail if tail is not None else message.raw[message.tail_start :])


def parse_message_id(text: str) -> MessageId | None:
    """Parse a message id; return None for any other text."""
    parts = text.rsplit(":", 3)
    if len(parts) != 4:
        return None
    numbers: list[int] = []
    for part in parts[1:]:
        digits = part[1:] if part.startswith("-") else part
        if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_ID_DIGITS:
            return None
        numbers.append(int(part))
    return MessageId(ProducerId(parts[0], numbers[0], numbers[1]), numbers[2])


def reply_to_of(head: dict[str, str]) -> Destination | None:
    """Return the destination of a `reply-to`; None if absent or a mere string."""
    text = head.get("reply-to")
    if text is None or not has_prefix(text):
        return None
    try:
        return read_destination(text)
    except InvalidDestinationError:
        return None


def is_bytes(head: dict[str, str], tail: dict[str, str]) -> bool:
    """Return True for a JMS BytesMessage: by `amq-msg-type`, else by a `content-length` of the sender."""
    kind = head.get("amq-msg-type")
    if kind is not None:
        return kind.lower() == "bytes"
    return "content-length" in head and "framing" not in tail


def number_in(headers: dict[str, str], name: str, default: int) -> int:
    """Return a number from stored lines; raises `RemoteProtocolError` for any other text."""
    text = headers.get(name)
    if text is None:
        return default
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_ID_DIGITS:
        raise RemoteProtocolError(f"a stored STOMP message has a bad {name}: {text[:40]}")
    return int(text)
