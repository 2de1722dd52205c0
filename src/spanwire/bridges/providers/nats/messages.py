"""Messages of NATS as messages of a bridge, and back.

JMS headers and properties are headers of the message, as texts. A text with a line break or another form that a header
does not keep goes into the header `TEXTS`, as JSON.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import Final

from nats.aio.msg import Msg
from nats.errors import Error

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.steps import DUPLICATE_ID
from spanwire.bridges.providers.bodies import KIND, BrokenContent, foreign_type, incoming_body, outgoing_body
from spanwire.bridges.providers.text_headers import (
    MESSAGE_ID,
    apply_texts,
    content_type_of,
    incoming_properties,
    outgoing_texts,
)
from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import PropertyValue

CONTENT_TYPE_HEADER: Final = "content-type"
TEXTS: Final = "JMSTexts"  # header with a JSON object of texts that no header keeps
COMMANDS: Final = "nats-"  # beginning of headers that tell the server what to do, such as Nats-Rollup
DUPLICATE_HEADER: Final = "Nats-Msg-Id"  # by which a stream detects duplicates
MAX_ID: Final = 255  # characters of an id for the detection of duplicates; the server keeps them in memory
DIGEST: Final = 16  # bytes of a digest in such an id
HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # of the library
UNREADABLE: Final[dict[str, str]] = {}  # in place of headers that the library cannot read
HEADER_ROOM: Final = 16  # bytes of a message for the version of the headers
LINE_ROOM: Final = 4  # bytes of a header beside name and text


class NatsContent:
    """Body and headers of a message; the kind is known when it arrives."""

    __slots__ = ("body", "texts")

    def __init__(self, body: bytes | None, texts: dict[str, str]) -> None:
        self.body: Final[bytes | None] = body
        self.texts: Final[dict[str, str]] = texts

    def neutral_body(self) -> bytes | None:
        """Return the body in its neutral encoding."""
        return self.body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the headers that are no JMS headers and no commands, as strings."""
        texts = {
            name: text
            for name, text in self.texts.items()
            if name != CONTENT_TYPE_HEADER and not name.lower().startswith(COMMANDS)
        }
        return incoming_properties(texts, foreign_type(self.texts.get(CONTENT_TYPE_HEADER)))


def bridge_message(received: Msg) -> BridgeMessage:
    """Return a received message; without an id it has one of stream and place."""
    texts = texts_of(received.headers or {})
    kind, body = incoming_body(received.data, texts.get(CONTENT_TYPE_HEADER), texts.get(KIND))
    place, timestamp_ms, deliveries = place_of(received)
    is_broken = received.headers is UNREADABLE
    content = BrokenContent("the headers of the message cannot be read") if is_broken else NatsContent(body, texts)
    message = BridgeMessage(texts.get(MESSAGE_ID) or place, kind, content, len(received.data))
    message.timestamp_ms = timestamp_ms
    message.is_redelivered = deliveries > 1
    apply_texts(message, texts)
    return message


def place_of(received: Msg) -> tuple[str, int, int]:
    """Return stream and sequence, the time in milliseconds, and the deliveries; nothing of these in core NATS."""
    try:
        data = received.metadata
    except (Error, ValueError, OverflowError):  # a publisher of core NATS may choose any address for replies
        return "", 0, 1
    return f"{data.stream}-{data.sequence.stream}", max(0, int(data.timestamp.timestamp() * 1_000)), data.num_delivered


def texts_of(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers with the texts of `TEXTS`; a damaged one stays a header like others."""
    texts = {name: text for name, text in headers.items() if name != TEXTS}
    if TEXTS in headers:
        try:
            others = json.loads(headers[TEXTS])
        except (ValueError, RecursionError):
            others = None
        if not isinstance(others, dict) or not all(isinstance(text, str) for text in others.values()):
            return dict(headers)
        texts |= others
    return texts


def outgoing_message(message: BridgeMessage, subject: str, max_bytes: int) -> tuple[bytes, dict[str, str]]:
    """Return payload and headers to publish. ``max_bytes`` is the largest message of the server or stream.

    Raises:
        MessageFormatError: body or properties have no form in NATS, or the message is too large.
    """
    body, own_type, kind = outgoing_body(message.kind, message.content.neutral_body())
    texts = outgoing_texts(message, kind)
    headers = {
        name: text for name, text in texts.items() if is_header(name, text) and not name.lower().startswith(COMMANDS)
    }
    others = {name: text for name, text in texts.items() if not is_header(name, text)}
    content_type = content_type_of(message, own_type)
    if content_type is not None and is_header(CONTENT_TYPE_HEADER, content_type):
        headers[CONTENT_TYPE_HEADER] = content_type
    if others:
        headers[TEXTS] = json.dumps(others, separators=(",", ":"))
    duplicate_id = duplicate_id_of(message, subject, texts, body)
    if duplicate_id is not None:
        headers[DUPLICATE_HEADER] = duplicate_id
    size = size_of(body, headers)
    if size > max_bytes:
        raise MessageFormatError(f"the message has {size} bytes, and the server takes {max_bytes}")
    return body, headers


def is_header(name: str, text: str) -> bool:
    """Return True for a text that arrives as it is in a header of that name."""
    return HEADER_NAME.fullmatch(name) is not None and text.isprintable() and text.strip() == text and name != TEXTS


def duplicate_id_of(message: BridgeMessage, subject: str, texts: dict[str, str], body: bytes) -> str | None:
    """Return the id by which a stream detects a message that comes again, or None for a message without an id.

    Producers of other systems choose message ids that are not unique, so a digest of the body is a part. So is the
    subject: a stream may have several, and a message to two of them is no duplicate.
    """
    own = texts.get(DUPLICATE_ID)
    if own is None and not message.message_id:
        return None
    text = f"{subject}/{own or f'{message.message_id}/{blake2b(body, digest_size=DIGEST).hexdigest()}'}"
    is_fit = len(text) <= MAX_ID and is_header(DUPLICATE_HEADER, text)
    return text if is_fit else blake2b(text.encode(), digest_size=DIGEST).hexdigest()


def size_of(body: bytes, headers: dict[str, str]) -> int:
    """Return the bytes of a message that count for the limits of a server."""
    return HEADER_ROOM + len(body) + sum(len(f"{name}{text}".encode()) + LINE_ROOM for name, text in headers.items())
