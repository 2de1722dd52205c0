"""A STOMP message in bytes: the MESSAGE frame it will become, but for the lines that differ per subscription.

Layout of ``raw``::

    "message-id:" ID LF "timestamp:" MILLIS LF ["content-length:" N LF] (name ":" value LF)* LF   head
    body                                                                                         content
    NUL                                                                                          properties
    (name ":" value LF)*                                                                         tail

All lines have the escapes of STOMP 1.2. All before the tail is sent as it stands, behind "MESSAGE", `subscription`,
`ack` and `redelivered`; that is why the user's properties stand in the head. The tail is nearly always empty; it
remembers what is not sent:

- ``JMSXGroupID`` and ``JMSXGroupSeq``;
- ``original-destination``, where a dead letter or a copy was sent first;
- ``destination``, where a property of that name took the place of the header;
- ``framing``, where `content-length` is not the sender's but was added because the body holds a NUL or is binary.

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

HAS_ESCAPES: Final = 1  # a line behind the first has an escape: 1.0 reads it otherwise
HAS_RETURN: Final = 2  # one of them is the return, which 1.1 reads otherwise too
HAS_TEMPORARY: Final = 4  # destination or reply-to is temporary: its name depends on who reads it
FLAG_BITS: Final = 3
FLAGS: Final = (1 << FLAG_BITS) - 1

ID_LABEL: Final = "message-id:"
MAX_ID_DIGITS: Final = 19  # of a 64-bit number in an id


def id_line(producer_id: ProducerId) -> bytes:
    """The first line of every message of a producer, up to the sequence."""
    return (ID_LABEL + escaped(f"{producer_id}:", V1_2)).encode()


def line_flags(lines: bytes, temporary: bool) -> int:
    """The flags for header lines that follow the first."""
    flags = HAS_TEMPORARY if temporary else 0
    if lines.find(b"\\") >= 0:
        flags |= HAS_ESCAPES
        if lines.find(b"\\r") >= 0:
            flags |= HAS_RETURN
    return flags


def read_lines(lines: bytes) -> dict[str, str]:
    """Header lines with the escapes of 1.2, decoded. Raises `RemoteProtocolError` when they are not UTF-8."""
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
    """The headers of a message in this format, in the order in which they are sent."""
    head = message.head
    return read_lines(head if head is not None else message.raw[: message.content_start])


def tail_of(message: Message) -> dict[str, str]:
    """What its tail remembers."""
    tail = message.tail
    return read_lines(tail if tail is not None else message.raw[message.tail_start :])


def parse_message_id(text: str) -> MessageId | None:
    """The id whose text this is, or None when it is none."""
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
    """The destination in a `reply-to`; None where there is none or the value is a mere string."""
    text = head.get("reply-to")
    if text is None or not has_prefix(text):
        return None
    try:
        return read_destination(text)
    except InvalidDestinationError:
        return None


def is_bytes(head: dict[str, str], tail: dict[str, str]) -> bool:
    """Whether JMS sees a BytesMessage: `amq-msg-type` says so, or else that the sender gave a content-length."""
    kind = head.get("amq-msg-type")
    if kind is not None:
        return kind.lower() == "bytes"
    return "content-length" in head and "framing" not in tail


def number_in(headers: dict[str, str], name: str, default: int) -> int:
    """A number in stored lines; raises `RemoteProtocolError` when it is none."""
    text = headers.get(name)
    if text is None:
        return default
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_ID_DIGITS:
        raise RemoteProtocolError(f"a stored STOMP message has a bad {name}: {text[:40]}")
    return int(text)
