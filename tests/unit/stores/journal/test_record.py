"""The headers of records are the octets that the format says, whatever numbers stand in them."""

from __future__ import annotations

from struct import pack
from zlib import crc32

import pytest

from spanwire.stores.journal.segments.record import MESSAGE, encode_header, encode_message_header, read_record

SHORTS = [0, 1, 0x7FFF, 0x8000, 0xFFFF]
NUMBERS = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
SEQUENCES = [0, 1, 1 << 32, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


@pytest.mark.parametrize("payload", [b"", b"some"])
@pytest.mark.parametrize("expires", [b"", b"8 octets"])
def test_a_header_is_a_checksum_and_six_numbers(payload: bytes, expires: bytes) -> None:
    numbers = [(short, 7, 9) for short in SHORTS] + [(4, number, 9) for number in NUMBERS]
    for format_id, number, sequence in numbers + [(4, 7, sequence) for sequence in SEQUENCES]:
        flags = 0x14 if expires else 4
        rest = pack("<IBBHIQ", len(expires + payload), MESSAGE, flags, format_id, number, sequence)
        crc = crc32(rest + expires + payload, (0xFFFFFFF8 + 64) & 0xFFFFFFFF)
        written = encode_message_header(0xFFFFFFF8, 64, MESSAGE, flags, format_id, number, sequence, expires, payload)
        assert written == pack("<I", crc) + rest + expires
        if not expires:
            assert written == encode_header(0xFFFFFFF8, 64, MESSAGE, flags, format_id, number, sequence, payload)
        octets = written + payload
        record = read_record(memoryview(octets), 0, len(octets), 0xFFFFFFF8, 64)
        assert record is not None
        assert (record.format_id, record.destination, record.sequence) == (format_id, number, sequence)
