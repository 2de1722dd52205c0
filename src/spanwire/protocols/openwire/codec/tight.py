"""The tight encoding: all flags at the beginning of the frame, numbers in as few octets as possible.

    type id | boolean stream: length, then bits, lowest bit of each octet first | all other octets

A frame has one boolean stream, shared by nested structures. Length under 64: one octet; under 256: C0 and one octet;
else 80 and a 16-bit number. The other octets are:

| field            | bits                                             | octets                                     |
|------------------|--------------------------------------------------|--------------------------------------------|
| long             | 2: 00 zero, 01 two, 10 four (both unsigned), 11  | 0, 2, 4 or 8                               |
| string           | non-null; then only-ASCII                        | 16-bit length, text                        |
| byte array       | non-null                                         | 32-bit length, bytes                       |
| nested structure | non-null; then 0 for a message or WireFormatInfo | type id, fields                            |
| cached structure | new; then those of the nested structure          | 16-bit slot, then the structure if new     |
| array            | non-null                                         | 16-bit count, nested structures            |
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be
from mypy_extensions import i64

from spanwire.protocols.octets import decode_text, encode_text
from spanwire.protocols.openwire.codec._marshallers import is_marshall_aware, read_structure
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError, beyond_frame
from spanwire.protocols.openwire.codec.object_cache import NO_SLOT, ReaderCache, WriterCache
from spanwire.protocols.openwire.codec.schema import DataStructure, FieldReader, FieldWriter

MAX_TIGHT_STRING: Final = 32766  # octets; Java refuses to write longer strings
MAX_STREAM_OCTETS: Final = 32767  # octets of the boolean stream; its length is a signed 16-bit number in Java
SHORT_STREAM: Final = 64
BYTE_STREAM: Final = 256
BYTE_STREAM_MARK: Final = 0xC0
SHORT_STREAM_MARK: Final = 0x80


class TightReader(FieldReader):
    """Reads tight frames, with or without an object cache."""

    def __init__(self, version: int, stack_traces: bool, cache: ReaderCache | None = None) -> None:
        super().__init__(version, stack_traces)
        self._cache: Final[ReaderCache | None] = cache
        self._bit: i64 = 0  # in bits from the start of the data, as the end below
        self._bit_end: i64 = 0

    def open_stream(self) -> None:
        """Locate the boolean stream, which follows the type id."""
        count = self.read_unsigned_byte()
        if count == BYTE_STREAM_MARK:
            count = self.read_unsigned_byte()
        elif count == SHORT_STREAM_MARK:
            count = self.read_unsigned_short()
        elif count >= SHORT_STREAM:
            raise OpenWireProtocolError(f"{count} is no length of a boolean stream")
        if count > self.remaining():
            raise OpenWireProtocolError(f"a boolean stream of {count} bytes where {self.remaining()} are left")
        self._bit = self.position * 8
        self.position += count
        self._bit_end = self.position * 8

    def read_boolean(self) -> bool:
        """Read the next bit."""
        bit = self._bit
        if bit >= self._bit_end:
            raise beyond_frame("the boolean stream")
        self._bit = bit + 1
        octet: i64 = self.data[bit >> 3]
        return (octet >> (bit & 7)) & 1 != 0

    def read_long(self) -> int:
        """Read zero, two, four or eight octets."""
        if self.read_boolean():
            if self.read_boolean():
                return self.read_full_long()
            value = self.read_int()
            return value + 2**32 if value < 0 else value
        if self.read_boolean():
            return self.read_unsigned_short()
        return 0

    def read_string(self) -> str | None:
        """Read length and text, flagged as ASCII or not."""
        if not self.read_boolean():
            return None
        only_ascii = self.read_boolean()
        count = self.read_short()
        if count < 0 or count > self.remaining():
            raise OpenWireProtocolError(f"a string of {count} bytes is announced where {self.remaining()} are left")
        octets = self.read_octets(count)
        if only_ascii and not octets.isascii():
            raise OpenWireProtocolError("a string flagged as only ASCII is not")
        return decode_text(octets)

    def read_nested(self) -> DataStructure | None:
        """Read type id and fields."""
        if not self.read_boolean():
            return None
        self.enter()
        type_id = self.read_unsigned_byte()
        if is_marshall_aware(type_id) and self.read_boolean():
            raise OpenWireProtocolError("a nested structure with a boolean stream of its own is not supported")
        value = read_structure(type_id, self)
        self.leave()
        return value

    def read_cached(self) -> DataStructure | None:
        """Read a nested structure, with the cache also by slot."""
        cache = self._cache
        return self.read_nested() if cache is None else cache.read(self)


class TightWriter(FieldWriter):
    """Writes tight frames, with or without an object cache; bits and octets are separate until the end."""

    def __init__(self, version: int, stack_traces: bool, cache: WriterCache | None = None) -> None:
        super().__init__(version, stack_traces)
        self._cache: Final[WriterCache | None] = cache
        self._bits = bytearray()
        self._bit_count = 0

    def begin(self) -> None:
        """Begin a frame."""
        self.out = BytesWriter()
        self._bits = bytearray()
        self._bit_count = 0
        if self._cache is not None:
            self._cache.sweep()

    def finish(self, type_id: int, target: BytesWriter) -> None:
        """Append size, type id, boolean stream and octets to ``target``."""
        count = len(self._bits)
        header = BytesWriter()
        header.append(type_id)
        if count < SHORT_STREAM:
            header.append(count)
        elif count < BYTE_STREAM:
            header.append(BYTE_STREAM_MARK)
            header.append(count)
        elif count <= MAX_STREAM_OCTETS:
            header.append(SHORT_STREAM_MARK)
            write_i16_be(header, count)
        else:
            raise OpenWireEncodeError("a command has too many flags for the tight encoding")
        write_i32_be(target, len(header) + count + len(self.out))
        target.write(header.getvalue())
        target.write(self._bits)
        target.write(self.out.getvalue())

    def write_boolean(self, value: bool) -> None:
        """Write the next bit."""
        count = self._bit_count
        if count & 7 == 0:
            self._bits.append(0)
        if value:
            self._bits[count >> 3] |= 1 << (count & 7)
        self._bit_count = count + 1

    def write_long(self, value: int) -> None:
        """Write zero, two, four or eight octets."""
        if value < 0 or value > 0xFFFFFFFF:
            self.write_boolean(True)
            self.write_boolean(True)
            self.write_full_long(value)
        elif value > 0xFFFF:
            self.write_boolean(True)
            self.write_boolean(False)
            self.write_int(value - 2**32 if value > 0x7FFFFFFF else value)
        else:
            self.write_boolean(False)
            self.write_boolean(value != 0)
            if value != 0:
                self.write_short(value)

    def write_string(self, value: str | None) -> None:
        """Write length and text, flagged as ASCII or not."""
        self.write_boolean(value is not None)
        if value is None:
            return
        octets = encode_text(value)
        if len(octets) > MAX_TIGHT_STRING:
            raise OpenWireEncodeError(f"a string of {len(octets)} bytes is longer than {MAX_TIGHT_STRING}")
        self.write_boolean(octets.isascii())
        self.write_short(len(octets))
        self.out.write(octets)

    def write_octet_array(self, value: bytes | None) -> None:
        """Write length and octets."""
        self.write_boolean(value is not None)
        if value is not None:
            self.write_int(len(value))
            self.out.write(value)

    def write_nested(self, value: DataStructure | None) -> None:
        """Write type id and fields."""
        self.write_boolean(value is not None)
        if value is None:
            return
        type_id = value.type_id()
        if is_marshall_aware(type_id):
            self.write_boolean(False)
        self.out.append(type_id)
        value.write(self)

    def write_cached(self, value: DataStructure | None) -> None:
        """Write a nested structure, with the cache also by slot.

        Inner structures get their slots before outer structures.
        """
        cache = self._cache
        if cache is None:
            self.write_nested(value)
            return
        slot = cache.find(value)
        self.write_boolean(slot == NO_SLOT)
        if slot != NO_SLOT:
            self.write_short(slot)
            return
        offset = len(self.out)
        self.write_short(0)
        self.write_nested(value)
        slot = cache.add(value)
        self.out[offset] = (slot >> 8) & 255
        self.out[offset + 1] = slot & 255
