"""Reads Avro's binary encoding with a check of every length, and writes numbers and octets."""

from __future__ import annotations

import struct
from typing import Final

from spanwire.model.errors import MessageFormatError

MAX_VARINT_OCTETS: Final = 10  # a long
FLOAT_FORM: Final = struct.Struct("<f")
DOUBLE_FORM: Final = struct.Struct("<d")


class OctetReader:
    """Reads the octets of one body from an offset to the end."""

    __slots__ = ("data", "offset")

    def __init__(self, data: bytes, offset: int) -> None:
        self.data: Final[bytes] = data
        self.offset = offset

    def left(self) -> int:
        """Return the number of octets from the offset to the end."""
        return len(self.data) - self.offset

    def int64(self) -> int:
        """Return a zigzag varint of up to 64 bits."""
        data, offset = self.data, self.offset
        if offset < len(data) and data[offset] < 0x80:
            value = data[offset]
            self.offset = offset + 1
            return value >> 1 ^ -(value & 1)
        value = shift = 0
        for octet in data[offset : offset + MAX_VARINT_OCTETS]:
            value |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                if value >> 64:
                    break
                self.offset = offset + shift // 7
                return value >> 1 ^ -(value & 1)
        raise MessageFormatError("a number is cut or too large")

    def int32(self) -> int:
        """Return a zigzag varint of up to 32 bits."""
        value = self.int64()
        if not -(2**31) <= value < 2**31:
            raise MessageFormatError("a number is too large for int")
        return value

    def take(self, count: int) -> bytes:
        """Return the next octets."""
        offset = self.offset
        if count < 0 or count > len(self.data) - offset:
            raise MessageFormatError(f"{count} octets are announced, and {self.left()} are there")
        self.offset = offset + count
        return self.data[offset : offset + count]

    def octets(self) -> bytes:
        """Return octets with a length prefix."""
        return self.take(self.int64())

    def text(self) -> str:
        """Return UTF-8 text with a length prefix."""
        try:
            return self.octets().decode()
        except UnicodeDecodeError:
            raise MessageFormatError("a string is not UTF-8") from None

    def boolean(self) -> bool:
        """Return a boolean."""
        octet = self.take(1)[0]
        if octet > 1:
            raise MessageFormatError("a boolean is neither 0 nor 1")
        return octet == 1

    def float32(self) -> float:
        """Return a floating-point number of 32 bits."""
        number: float = FLOAT_FORM.unpack(self.take(4))[0]
        return number

    def float64(self) -> float:
        """Return a floating-point number of 64 bits."""
        number: float = DOUBLE_FORM.unpack(self.take(8))[0]
        return number

    def block(self, least: int) -> int:
        """Return the number of items in a block of an array or map, 0 at the end.

        Args:
            least: the smallest size of an item in octets, more than 0.
        """
        count = self.int64()
        if count < 0:
            count = -count
            if self.int64() > self.left():
                raise MessageFormatError("a block is longer than the body")
        if count * least > self.left():
            raise MessageFormatError(f"a block announces {count} items, and {self.left()} octets are there")
        return count


def write_long(out: bytearray, number: int) -> None:
    """Write a zigzag varint."""
    value = number << 1 ^ number >> 63
    value &= 0xFFFF_FFFF_FFFF_FFFF
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_octets(out: bytearray, octets: bytes) -> None:
    """Write octets with a length prefix."""
    write_long(out, len(octets))
    out += octets
