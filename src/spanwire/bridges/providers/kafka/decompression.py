"""Decompression of batches of Kafka within a limit.

A broker checks the compressed size of a batch alone, and the library reads a batch of any size. So whoever may send to
a topic could fill the memory of its readers.
"""

from __future__ import annotations

import gzip
import io
import mmap
import struct
import sys
from collections.abc import Callable
from typing import Any, Final

from aiokafka import codec

from spanwire.model.errors import JmsError
from spanwire.model.units import MIB

MAX_BATCH: Final = 128 * MIB  # bytes of a batch without compression; producers make batches of 1 MiB by default
READERS: Final = tuple(
    f"aiokafka.record.{name}"
    for name in ("default_records", "legacy_records", "_crecords.default_records", "_crecords.legacy_records")
)
XERIAL: Final = b"\x82SNAPPY\0"  # begin of Snappy in blocks, each behind its length
XERIAL_HEADER: Final = 16  # bytes before the first block
BLOCK_LENGTH: Final = struct.Struct(">i")


def limit_batches() -> None:
    """Let the library decompress within `MAX_BATCH`. Another call changes nothing."""
    limited: dict[str, Callable[[Any], bytes]] = {
        "gzip_decode": gzip_decode,
        "snappy_decode": snappy_decode,
        "lz4_decode": lz4_decode,
        "zstd_decode": zstd_decode,
    }
    for reader in READERS:
        module = sys.modules.get(reader)  # the compiled ones are loaded unless the user has switched them off
        for name, decode in limited.items():
            if hasattr(module, name):
                setattr(module, name, decode)


def gzip_decode(payload: Any) -> bytes:
    """Return the octets of gzip. Raises `JmsError` for more than `MAX_BATCH`."""
    with gzip.GzipFile(fileobj=io.BytesIO(payload)) as file:
        octets = file.read(MAX_BATCH + 1)
    check(len(octets))
    return octets


def snappy_decode(payload: bytes) -> bytes:
    """Return the octets of Snappy, with or without blocks. Raises `JmsError` for more than `MAX_BATCH`."""
    check(sum(codec.cramjam.snappy.decompress_raw_len(block) for block in _blocks(payload)))
    octets: bytes = codec.snappy_decode(payload)
    return octets


def lz4_decode(payload: bytes) -> bytes:
    """Return the octets of LZ4. Raises `JmsError` for more than `MAX_BATCH`."""
    return _decode(codec.cramjam.lz4, payload)


def zstd_decode(payload: bytes) -> bytes:
    """Return the octets of Zstandard. Raises `JmsError` for more than `MAX_BATCH`."""
    return _decode(codec.cramjam.zstd, payload)


def check(octets: int) -> None:
    """Raise `JmsError` for a batch that is too large."""
    if octets > MAX_BATCH:
        raise JmsError(
            f"a compressed batch has more than {MAX_BATCH // MIB} MiB; let its producer send smaller batches"
        )


def _blocks(payload: bytes) -> list[bytes]:
    if not payload.startswith(XERIAL):
        return [payload]
    blocks: list[bytes] = []
    place = XERIAL_HEADER
    while place < len(payload):
        begin = place + BLOCK_LENGTH.size
        (length,) = BLOCK_LENGTH.unpack_from(payload, place)
        if length < 0:
            raise JmsError("a compressed batch is damaged")
        place = begin + length
        blocks.append(payload[begin:place])
    return blocks


def _decode(library: Any, payload: bytes) -> bytes:
    """Decompress into memory of the largest size; the system gives what is written alone."""
    with mmap.mmap(-1, MAX_BATCH) as memory:
        try:
            size: int = library.decompress_into(payload, memory)
        except codec.cramjam.DecompressionError as error:
            raise JmsError(
                f"a compressed batch is damaged, or has more than {MAX_BATCH // MIB} MiB: {error}; let its producer "
                "send smaller batches"
            ) from None
        return memory[:size]
