"""The loose encoding: each field in its place, flags as whole bytes.

| field            | octets                                                                                   |
|------------------|------------------------------------------------------------------------------------------|
| boolean          | 1                                                                                        |
| string           | flag, 16-bit length, modified UTF-8                                                      |
| byte array       | flag, 32-bit length, bytes                                                               |
| nested structure | flag, type id, fields                                                                    |
| cached structure | without cache as nested; else flag "new", 16-bit slot, and when new a nested structure   |
| array            | flag, 16-bit count, nested structures                                                    |
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from spanwire.protocols.octets import decode_text, encode_text
from spanwire.protocols.openwire.codec._marshallers import read_structure
from spanwire.protocols.openwire.codec.errors import OpenWireEncodeError, OpenWireProtocolError, beyond_frame
from spanwire.protocols.openwire.codec.object_cache import MIN_CACHEABLE_TYPE, NO_SLOT, ReaderCache, WriterCache
from spanwire.protocols.openwire.codec.schema import DataStructure, FieldReader, FieldWriter

MAX_LOOSE_STRING: Final = 65535  # octets; the length is an unsigned 16-bit number
MAX_REMEMBERED_OCTETS: Final = 256  # octets of one structure; each connection may remember a dozen structures


class RememberedStructure:
    """A structure and its octets."""

    def __init__(self, octets: bytes, structure: DataStructure) -> None:
        self.octets: Final[bytes] = octets
        self.structure: Final[DataStructure] = structure


class LooseReader(FieldReader):
    """Reads loose frames, with or without an object cache.

    Without the cache, the reader remembers the last id or destination of each type with its octets. The next structure
    of the type mostly has the same octets, and comparing costs less than reading. The loose encoding determines the
    end, so equal octets are an equal structure.
    """

    def __init__(self, version: int, stack_traces: bool, cache: ReaderCache | None = None) -> None:
        super().__init__(version, stack_traces)
        self._cache: Final[ReaderCache | None] = cache
        self._remembered: Final[dict[int, RememberedStructure]] = {}

    def read_boolean(self) -> bool:
        """Read a flag; any octet but 0 is True."""
        position = self.position
        if position >= self.end:
            raise beyond_frame("a flag")
        self.position = position + 1
        return self.data[position] != 0

    def read_long(self) -> int:
        """Read eight octets."""
        return self.read_full_long()

    def read_string(self) -> str | None:
        """Read flag, length and text."""
        if not self.read_boolean():
            return None
        count = self.read_unsigned_short()
        position = self.position
        if position + count > self.end:
            raise OpenWireProtocolError(f"a string of {count} bytes is announced where {self.remaining()} are left")
        self.position = position + count
        return decode_text(self.data[position : position + count])

    def read_nested(self) -> DataStructure | None:
        """Read flag, type id and fields."""
        if not self.read_boolean():
            return None
        self.enter()
        value = read_structure(self.read_unsigned_byte(), self)
        self.leave()
        return value

    def _read_remembered(self) -> DataStructure | None:
        """Read a nested structure, or return the remembered one if its octets are equal."""
        start = self.position
        if start + 1 >= self.end or self.data[start] == 0:
            return self.read_nested()
        type_id: int = self.data[start + 1]
        remembered = self._remembered.get(type_id)
        if remembered is not None:
            position = start + len(remembered.octets)
            if position <= self.end and self.data[start:position] == remembered.octets:
                self.position = position
                return remembered.structure
        value = self.read_nested()
        if value is not None and type_id >= MIN_CACHEABLE_TYPE and self.position - start <= MAX_REMEMBERED_OCTETS:
            self._remembered[type_id] = RememberedStructure(self.data[start : self.position], value)
        return value

    def read_cached(self) -> DataStructure | None:
        """Read a nested structure, with the cache also by slot."""
        cache = self._cache
        return self._read_remembered() if cache is None else cache.read(self)


class LooseWriter(FieldWriter):
    """Writes loose frames, with or without an object cache, in sequence into one buffer."""

    def __init__(self, version: int, stack_traces: bool, cache: WriterCache | None = None) -> None:
        super().__init__(version, stack_traces)
        self._cache: Final[WriterCache | None] = cache

    def begin(self, out: BytesWriter) -> None:
        """Begin a frame at the end of ``out``."""
        self.out = out
        if self._cache is not None:
            self._cache.sweep()

    def write_boolean(self, value: bool) -> None:
        """Write one octet."""
        self.out.append(1 if value else 0)

    def write_long(self, value: int) -> None:
        """Write eight octets."""
        self.write_full_long(value)

    def write_string(self, value: str | None) -> None:
        """Write flag, length and text."""
        if value is None:
            self.out.append(0)
            return
        octets = encode_text(value)
        if len(octets) > MAX_LOOSE_STRING:
            raise OpenWireEncodeError(f"a string of {len(octets)} bytes is longer than {MAX_LOOSE_STRING}")
        self.out.append(1)
        self.write_short(len(octets))
        self.out.write(octets)

    def write_octet_array(self, value: bytes | None) -> None:
        """Write flag, length and octets."""
        if value is None:
            self.out.append(0)
            return
        self.out.append(1)
        self.write_int(len(value))
        self.out.write(value)

    def write_nested(self, value: DataStructure | None) -> None:
        """Write flag, type id and fields."""
        if value is None:
            self.out.append(0)
            return
        self.out.append(1)
        self.out.append(value.type_id())
        value.write(self)

    def write_cached(self, value: DataStructure | None) -> None:
        """Write a nested structure, with the cache also by slot.

        Outer structures get their slots before inner structures.
        """
        cache = self._cache
        if cache is None:
            self.write_nested(value)
            return
        slot = cache.find(value)
        if slot != NO_SLOT:
            self.out.append(0)
            self.write_short(slot)
            return
        self.out.append(1)
        self.write_short(cache.add(value))
        self.write_nested(value)
