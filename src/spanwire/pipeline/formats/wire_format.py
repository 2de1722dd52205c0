"""The header of a framed body: Confluent's wire format. Pure.

    Avro, JSON    0 | schema id 4 | body
    Protobuf      0 | schema id 4 | message indexes | body

The id is big endian. The message indexes are the path to the message type in the file: the number of indexes, then each
index, as zigzag varints. The path [0], the first type of a file, is a single octet 0.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spanwire.model.errors import MessageFormatError

MAGIC: Final = 0
HEADER_OCTETS: Final = 5
MAX_SCHEMA_ID: Final = 2**31 - 1  # an int of Java
MAX_INDEXES: Final = 32  # message types nested in each other; protoc itself refuses more
MAX_VARINT_OCTETS: Final = 5  # an int of Java


def split_header(body: bytes) -> tuple[int, int]:
    """Return the schema id and the offset after the header.

    Raises:
        MessageFormatError: the body does not begin with a header.
    """
    if len(body) < HEADER_OCTETS:
        raise MessageFormatError(f"a framed body has at least {HEADER_OCTETS} octets, this one {len(body)}")
    if body[0] != MAGIC:
        raise MessageFormatError(f"a framed body begins with the octet {MAGIC}, this one with {body[0]}")
    number = int.from_bytes(body[1:HEADER_OCTETS], "big")
    if number > MAX_SCHEMA_ID:
        raise MessageFormatError(f"{number} is not a schema id")
    return number, HEADER_OCTETS


def schema_header(number: int) -> bytes:
    """Return the header with the id of a schema."""
    if not 0 <= number <= MAX_SCHEMA_ID:
        raise MessageFormatError(f"{number} is not a schema id")
    return bytes([MAGIC]) + number.to_bytes(4, "big")


def read_indexes(body: bytes, offset: int) -> tuple[tuple[int, ...], int]:
    """Return the message indexes of a Protobuf body and the offset after the last index.

    Raises:
        MessageFormatError: the indexes are incomplete or invalid.
    """
    count, offset = _read_varint(body, offset)
    if count == 0:
        return (0,), offset
    if not 0 < count <= MAX_INDEXES:
        raise MessageFormatError(f"a path of message indexes has at most {MAX_INDEXES} steps, this one {count}")
    indexes: list[int] = []
    for _ in range(count):
        index, offset = _read_varint(body, offset)
        if index < 0:
            raise MessageFormatError("a message index is negative")
        indexes.append(index)
    return tuple(indexes), offset


def write_indexes(indexes: Sequence[int]) -> bytes:
    """Return the wire form of message indexes."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def _read_varint(body: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for place in range(MAX_VARINT_OCTETS):
        if offset >= len(body):
            raise MessageFormatError("the message indexes of a framed body are cut")
        octet = body[offset]
        offset += 1
        value |= (octet & 0x7F) << (7 * place)
        if octet < 0x80:
            return value >> 1 ^ -(value & 1), offset
    raise MessageFormatError("a message index is too large")


def _varint(number: int) -> bytes:
    value = number << 1
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
