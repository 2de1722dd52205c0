"""Header keys of Kafka that are not UTF-8.

A cluster takes any octets as a key. The library raises an error for such a record, and would read it again for good. So
the octets that are not UTF-8 are read as ``\\xff``, and the record crosses like any other.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from spanwire.bridges.providers.kafka.decompression import gzip_decode, lz4_decode, snappy_decode, zstd_decode

# base offset, length, epoch of the leader, version, checksum, attributes, last offset, first and last time, producer,
# its epoch, its sequence, number of records
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
BEFORE_LENGTH: Final = 8  # octets
BEFORE_CONTENT: Final = 12  # octets; the length counts those behind it
BEFORE_VERSION: Final = 16  # octets
VERSION: Final = 2  # the first version whose records have headers
CODEC: Final = 0x07  # bits of the attributes
MAX_SHIFT: Final = 63  # bits before the last octet of a number; numbers have 64
APPEND_TIME: Final = 0x08  # bit of the attributes of a batch whose time is the cluster's
DECODERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    0: bytes,
    1: gzip_decode,
    2: snappy_decode,
    3: lz4_decode,
    4: zstd_decode,
}

Headers = list[tuple[str, bytes | None]]


def read_all_keys() -> None:
    """Let the consumers of the library read all header keys. Another call changes nothing."""
    fetcher.MemoryRecords = Batches


@dataclass(frozen=True, slots=True)
class Record:
    """A record, under the library's names."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    checksum: None = None


class Batches:
    """The batches of an answer of the cluster."""

    def __init__(self, octets: bytes) -> None:
        self._octets: Final = octets
        self._batches: Final[Any] = MemoryRecords(octets)
        self._begin = 0  # of the next batch

    def size_in_bytes(self) -> int:
        """Return the octets of the answer."""
        return len(self._octets)

    def has_next(self) -> bool:
        """Return True before the last batch that is complete."""
        return bool(self._batches.has_next())

    def next_batch(self) -> Any:
        """Return the next batch. Raises errors of the library for a damaged one."""
        batch = self._batches.next_batch()
        begin = self._begin
        (length,) = struct.unpack_from(">i", self._octets, begin + BEFORE_LENGTH)
        self._begin = end = begin + BEFORE_CONTENT + length
        if self._octets[begin + BEFORE_VERSION] < VERSION:
            return batch
        return Batch(batch, memoryview(self._octets)[begin:end])


class Batch:
    """A batch that the library reads up to the first key that is not UTF-8."""

    def __init__(self, batch: Any, octets: memoryview) -> None:
        self._batch: Final = batch
        self._octets: Final = octets
        self._count = 0  # records that the library has read
        self._others: Iterator[Record] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Batch:
        iter(self._batch)  # decompresses
        return self

    def __next__(self) -> Any:
        if self._others is None:
            try:
                record = next(self._batch)
            except (UnicodeDecodeError, CorruptRecordException) as error:
                if not isinstance(error.__cause__ or error, UnicodeDecodeError):
                    raise
                self._others = itertools.islice(records(self._octets), self._count, None)
            else:
                self._count += 1
                return record
        return next(self._others)


def records(octets: memoryview) -> Iterator[Record]:
    """Yield the records of a batch with a good checksum. Raises `CorruptRecordException` for wrong lengths."""
    base, _, _, _, _, attributes, _, first_ms, last_ms, _, _, _, count = HEADER.unpack_from(octets)
    buffer = bytearray(DECODERS[attributes & CODEC](bytes(octets[HEADER.size :])))
    is_append_time = bool(attributes & APPEND_TIME)
    end = 0
    for _ in range(count):
        try:
            length, begin = _varint(buffer, end)
            end = begin + length
            delta_ms, position = _varint(buffer, begin + 1)  # behind attributes that have no meaning
            number, position = _varint(buffer, position)
            key, position = _octets(buffer, position)
            value, position = _octets(buffer, position)
            headers, position = _headers(buffer, position)
        except (ValueError, IndexError) as error:
            raise CorruptRecordException(f"a record is damaged: {error}") from None
        if not position == end <= len(buffer):
            raise CorruptRecordException(f"a record of {length} bytes has {position - begin}")
        timestamp = last_ms if is_append_time else first_ms + delta_ms
        yield Record(base + number, timestamp, int(is_append_time), key, value, headers)


def _headers(buffer: bytearray, position: int) -> tuple[Headers, int]:
    headers: Headers = []
    count, position = _varint(buffer, position)
    for _ in range(count):
        name, position = _octets(buffer, position)
        value, position = _octets(buffer, position)
        if name is None:
            raise ValueError("a header has no key")
        headers.append((name.decode("utf-8", "backslashreplace"), value))
    return headers, position


def _varint(buffer: bytearray, position: int) -> tuple[int, int]:
    """Return a number and the position behind it. The library's own compiled function reads beyond the buffer."""
    number = shift = 0
    while True:
        octet = buffer[position]
        position += 1
        number |= (octet & 0x7F) << shift
        if octet < 0x80:
            return number >> 1 ^ -(number & 1), position
        shift += 7
        if shift > MAX_SHIFT:
            raise ValueError("a number has too many octets")


def _octets(buffer: bytearray, position: int) -> tuple[bytes | None, int]:
    length, position = _varint(buffer, position)
    if length < 0:
        return None, position
    return bytes(buffer[position : position + length]), position + length
