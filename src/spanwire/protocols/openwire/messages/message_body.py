"""Message bodies: converts the content field of an OpenWire message to the neutral body and back.

| message | content when not compressed                                  | neutral body           |
|---------|--------------------------------------------------------------|------------------------|
| text    | 32-bit length, modified UTF-8; null or length -1: null text  | UTF-8, or None         |
| bytes   | the bytes                                                    | the bytes              |
| map     | a primitive map; null when empty                             | a primitive map        |
| stream  | a sequence of primitive values                               | the sequence           |
| object  | a Java serialization stream, never decoded                   | the same               |
| other   | none                                                         | None                   |

A compressed content is a zlib stream of the content in the table. For bytes a 32-bit uncompressed length precedes the
stream, and only this number of bytes counts. Dispatching needs no body, so bodies are decompressed on demand only.
"""

from __future__ import annotations

import zlib
from typing import Final

from librt.strings import BytesWriter, write_i32_be

from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.message_view import BLOB, BYTES, MAP, OBJECT, PLAIN, STREAM, TEXT
from spanwire.protocols.octets import OctetReader, encode_text
from spanwire.protocols.openwire.codec._marshallers import (
    ACTIVE_MQ_BLOB_MESSAGE,
    ACTIVE_MQ_BYTES_MESSAGE,
    ACTIVE_MQ_MAP_MESSAGE,
    ACTIVE_MQ_MESSAGE,
    ACTIVE_MQ_OBJECT_MESSAGE,
    ACTIVE_MQ_STREAM_MESSAGE,
    ACTIVE_MQ_TEXT_MESSAGE,
)
from spanwire.protocols.primitive_map import MAX_BODY_VALUES, decode_map, decode_stream

MAX_INFLATED_OCTETS: Final = 100 * 1024 * 1024  # octets; the largest body
MAX_INFLATION: Final = 100  # ratio to the compressed octets; a zlib bomb reaches 1,030
FREE_INFLATED_OCTETS: Final = 1024 * 1024  # octets; below it any ratio is harmless, such as a text of one repeated line
MAX_DEFLATED_OCTETS: Final = 4 * 1024 * 1024  # octets; compressing a larger body would delay all other work
FLUSHED: Final = b"\x00\x00\xff\xff"  # the end of a flushed, unfinished stream, as in texts of ActiveMQ Artemis
NULL_TEXT_LENGTH: Final = -1
EMPTY_MAP: Final = b"\x00\x00\x00\x00"

KINDS: Final[dict[int, int]] = {
    ACTIVE_MQ_MESSAGE: PLAIN,
    ACTIVE_MQ_BYTES_MESSAGE: BYTES,
    ACTIVE_MQ_MAP_MESSAGE: MAP,
    ACTIVE_MQ_OBJECT_MESSAGE: OBJECT,
    ACTIVE_MQ_STREAM_MESSAGE: STREAM,
    ACTIVE_MQ_TEXT_MESSAGE: TEXT,
    ACTIVE_MQ_BLOB_MESSAGE: BLOB,
}
TYPE_IDS: Final[dict[int, int]] = {kind: type_id for type_id, kind in KINDS.items()}


def neutral_body(kind: int, content: bytes | None, compressed: bool) -> bytes | None:
    """Return the neutral body of a message of ``kind``; raises `MessageFormatError` for malformed content."""
    if kind == PLAIN or kind == BLOB:
        return None
    if content is None:
        return _empty_body(kind)
    plain = content if not compressed else _inflated(kind, content)
    if kind == TEXT:
        return _text(plain)
    if kind == MAP:
        decode_map(plain, MAX_BODY_VALUES)
    elif kind == STREAM:
        decode_stream(plain)
    return plain


def wire_content(kind: int, body: bytes | None) -> bytes | None:
    """Return the uncompressed content field for a neutral body."""
    if body is None or kind == PLAIN or kind == BLOB:
        return None
    if kind != TEXT:
        return body
    try:
        octets = encode_text(body.decode("utf-8"))
    except (UnicodeDecodeError, ProtocolError):
        raise MessageFormatError("a text body is not UTF-8") from None
    out = BytesWriter()
    write_i32_be(out, len(octets))
    out.write(octets)
    return out.getvalue()


def inflate(octets: bytes, allowed: int) -> bytes:
    """Decompress a zlib stream to at most ``allowed`` octets; memory stays within this limit."""
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(octets, allowed + 1)
    except zlib.error:
        raise MessageFormatError("a compressed body is no zlib stream") from None
    if len(data) > allowed:
        raise MessageFormatError(f"a compressed body of {len(octets)} bytes inflates to more than {allowed}")
    if not stream.eof and not octets.endswith(FLUSHED):
        raise MessageFormatError("a compressed body is cut")
    return data


def deflated(kind: int, content: bytes) -> bytes | None:
    """Return the compressed content field (ActiveMQMessage.compress).

    Returns:
        None if the content is too large to compress at once, or would inflate more than a reader accepts.
    """
    if len(content) > MAX_DEFLATED_OCTETS:
        return None
    stream = zlib.compress(content)
    if kind == BYTES:
        out = BytesWriter()
        write_i32_be(out, len(content))
        out.write(stream)
        stream = out.getvalue()
    return stream if len(content) <= _allowed(len(stream)) else None


def _allowed(octets: int) -> int:
    return min(MAX_INFLATED_OCTETS, max(FREE_INFLATED_OCTETS, octets * MAX_INFLATION))


def _inflated(kind: int, content: bytes) -> bytes:
    if kind != BYTES:
        return inflate(content, _allowed(len(content)))
    reader = OctetReader(content, 0, len(content))
    try:
        length = reader.read_int()
    except ProtocolError:
        raise MessageFormatError("a compressed bytes body is shorter than its length field") from None
    data = inflate(content[4:], _allowed(len(content)))
    if length < 0 or length > len(data):
        raise MessageFormatError(f"a compressed bytes body announces {length} bytes and has {len(data)}")
    return data[:length]


def _empty_body(kind: int) -> bytes | None:
    if kind == MAP:
        return EMPTY_MAP
    return None if kind == TEXT or kind == OBJECT else b""


def _text(content: bytes) -> bytes | None:
    reader = OctetReader(content, 0, len(content))
    try:
        length = reader.read_int()
        if length == NULL_TEXT_LENGTH:
            return None
        return reader.read_text(length).encode("utf-8")
    except ProtocolError as error:
        raise MessageFormatError(f"a text body cannot be read: {error}") from None
