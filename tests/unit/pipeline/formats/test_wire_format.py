"""Headers of framed bodies, with the octets of Confluent's documentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.errors import MessageFormatError
from spanwire.pipeline.formats.wire_format import (
    MAX_INDEXES,
    MAX_SCHEMA_ID,
    read_indexes,
    schema_header,
    split_header,
    write_indexes,
)


def test_the_header_is_a_zero_and_the_id_in_big_endian() -> None:
    assert schema_header(100_001) == b"\x00\x00\x01\x86\xa1"
    assert split_header(b"\x00\x00\x01\x86\xa1rest") == (100_001, 5)


# "the array [1, 0] is encoded as the variable length ints 2,1,0", "[0] ... optimized to just 0"
@pytest.mark.parametrize(
    ("indexes", "octets"),
    [([0], b"\x00"), ([1, 0], b"\x04\x02\x00"), ([2], b"\x02\x04"), ([0, 0], b"\x04\x00\x00"), ([64], b"\x02\x80\x01")],
)
def test_message_indexes_are_zigzag_numbers_behind_their_count(indexes: list[int], octets: bytes) -> None:
    assert write_indexes(indexes) == octets
    assert read_indexes(b"head" + octets + b"body", 4) == (tuple(indexes), 4 + len(octets))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "at least 5 octets, this one 0"),
        (b"\x00\x00\x00\x00", "at least 5 octets, this one 4"),
        (b"{\x00\x00\x00\x01", "begins with the octet 0, this one with 123"),
        (b"\x01" + bytes(16), "begins with the octet 0, this one with 1"),
        (b"\x00\x80\x00\x00\x00", "not a schema id"),
    ],
)
def test_a_body_without_a_header_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        split_header(body)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", "are cut"),
        (b"\x04\x02", "are cut"),
        (b"\x80\x80\x80\x80\x80\x01", "too large"),
        (write_indexes([0] * (MAX_INDEXES + 1)), "at most 32 steps, this one 33"),
        (b"\xfe\xff\xff\xff\x0f", "at most 32 steps"),
        (b"\x01", "at most 32 steps, this one -1"),
        (b"\x02\x01", "negative"),
    ],
)
def test_message_indexes_are_checked_before_they_are_read(octets: bytes, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        read_indexes(octets, 0)


@given(
    st.integers(0, MAX_SCHEMA_ID), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=MAX_INDEXES), st.binary()
)
def test_any_header_is_read_as_it_was_written(number: int, indexes: list[int], body: bytes) -> None:
    octets = schema_header(number) + write_indexes(indexes) + body
    assert split_header(octets) == (number, 5)
    found, offset = read_indexes(octets, 5)
    assert (list(found), octets[offset:]) == (indexes, body)
