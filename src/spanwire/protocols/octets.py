"""Numbers and texts in the layout of Java's DataInput and DataOutput: big endian, modified UTF-8.

Modified UTF-8 (Java SE, interface `java.io.DataInput`) differs from UTF-8 in two ways. U+0000 is written as C0 80, and
a character above U+FFFF as two surrogates of three bytes each. Every read checks the remaining length first, so no
announced length ever allocates memory.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i64

from spanwire.protocols.octet_errors import OpenWireEncodeError, OpenWireProtocolError, beyond_frame

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1


def decode_text(octets: bytes) -> str:
    """Decode modified UTF-8.

    An unpaired surrogate, which Java texts may contain after a cut, becomes U+FFFD.

    Raises:
        OpenWireProtocolError: the octets have four-byte or overlong forms or cut sequences.
    """
    if octets.isascii():
        return octets.decode("ascii")
    try:
        text = octets.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
        if max(text) > "\uffff":
            raise OpenWireProtocolError("a string holds a four-byte sequence, which modified UTF-8 does not have")
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    except UnicodeDecodeError:
        raise OpenWireProtocolError("a string is not modified UTF-8") from None


def encode_text(text: str) -> bytes:
    """Encode ``text`` as modified UTF-8; raises `OpenWireEncodeError` for an unpaired surrogate."""
    if text.isascii() and "\x00" not in text:
        return text.encode("ascii")
    try:
        units = text.encode("utf-16-be")
    except UnicodeEncodeError:
        raise OpenWireEncodeError("a string holds half of a surrogate pair") from None
    if len(units) != 2 * len(text):
        text = "".join([chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2)])
    return text.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")


def patch_int(out: BytesWriter, position: int, value: int) -> None:
    """Write a 32-bit number over the four octets at ``position``."""
    out[position] = (value >> 24) & 255
    out[position + 1] = (value >> 16) & 255
    out[position + 2] = (value >> 8) & 255
    out[position + 3] = value & 255


class OctetReader:
    """Reads numbers and octets in sequence from ``data`` between two offsets.

    Raises:
        OpenWireProtocolError: a read extends beyond the end.
    """

    def __init__(self, data: bytes = b"", start: i64 = 0, end: i64 = 0) -> None:
        self.data = data
        self.position: i64 = start
        self.end: i64 = end

    def remaining(self) -> int:
        """Return the number of octets not read yet."""
        return self.end - self.position

    def read_unsigned_byte(self) -> int:
        """Read a number from 0 to 255."""
        position = self.position
        if position >= self.end:
            raise beyond_frame("a byte")
        self.position = position + 1
        return self.data[position]

    def read_byte(self) -> int:
        """Read a number from -128 to 127."""
        value = self.read_unsigned_byte()
        return value - 256 if value > 127 else value

    def read_short(self) -> int:
        """Read a signed 16-bit number."""
        position = self.position
        if position + 2 > self.end:
            raise beyond_frame("a 16-bit number")
        self.position = position + 2
        return int(read_i16_be(self.data, position))

    def read_unsigned_short(self) -> int:
        """Read an unsigned 16-bit number, such as the length of a string or a UTF-16 unit."""
        value = self.read_short()
        return value + 65536 if value < 0 else value

    def read_int(self) -> int:
        """Read a signed 32-bit number."""
        position = self.position
        if position + 4 > self.end:
            raise beyond_frame("a 32-bit number")
        self.position = position + 4
        return int(read_i32_be(self.data, position))

    def read_full_long(self) -> int:
        """Read a signed 64-bit number of eight octets."""
        position = self.position
        if position + 8 > self.end:
            raise beyond_frame("a 64-bit number")
        self.position = position + 8
        return int(read_i64_be(self.data, position))

    def read_float(self) -> float:
        """Read an IEEE 754 single."""
        position = self.position
        if position + 4 > self.end:
            raise beyond_frame("a float")
        self.position = position + 4
        return read_f32_be(self.data, position)

    def read_double(self) -> float:
        """Read an IEEE 754 double."""
        position = self.position
        if position + 8 > self.end:
            raise beyond_frame("a double")
        self.position = position + 8
        return read_f64_be(self.data, position)

    def read_octets(self, count: i64) -> bytes:
        """Read exactly ``count`` octets."""
        position = self.position
        if count < 0:
            raise OpenWireProtocolError(f"a length is negative: {count}")
        if count > self.end - position:
            raise OpenWireProtocolError(f"{count} bytes are announced where {self.end - position} are left")
        self.position = position + count
        return self.data[position : position + count]

    def read_text(self, count: i64) -> str:
        """Read a text of ``count`` octets in modified UTF-8."""
        return decode_text(self.read_octets(count))


class OctetWriter:
    """Appends numbers and octets to ``out``.

    Raises `OpenWireEncodeError` for a number out of the range of its type.
    """

    def __init__(self) -> None:
        self.out = BytesWriter()

    def write_byte(self, value: int) -> None:
        """Write a number from -128 to 255."""
        if value < -128 or value > 255:
            raise OpenWireEncodeError(f"{value} does not fit into 8 bits")
        self.out.append(value & 255)

    def write_short(self, value: int) -> None:
        """Write a number from -32768 to 65535."""
        if value < -32768 or value > 65535:
            raise OpenWireEncodeError(f"{value} does not fit into 16 bits")
        write_i16_be(self.out, value - 65536 if value > 32767 else value)

    def write_int(self, value: int) -> None:
        """Write a signed 32-bit number."""
        if value < INT_MIN or value > INT_MAX:
            raise OpenWireEncodeError(f"{value} does not fit into 32 bits")
        write_i32_be(self.out, value)

    def write_full_long(self, value: int) -> None:
        """Write a signed 64-bit number as eight octets."""
        if value < LONG_MIN or value > LONG_MAX:
            raise OpenWireEncodeError(f"{value} does not fit into 64 bits")
        write_i64_be(self.out, value)

    def write_octets(self, octets: bytes) -> None:
        """Write ``octets`` unchanged."""
        self.out.write(octets)
