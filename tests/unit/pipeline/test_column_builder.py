"""Columns of octets and of times are laid out as Arrow has them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.errors import MessageFormatError
from spanwire.pipeline.columns.column_builder import (
    MAX_COLUMN_OCTETS,
    MAX_MICROS_MS,
    OctetColumn,
    TimeColumn,
    end_of,
    valid_bits,
)


def valid(nulls: list[int], rows: int) -> pa.Buffer | None:
    bits = valid_bits(nulls, rows)
    return None if bits is None else pa.py_buffer(bits)


@given(st.lists(st.none() | st.binary(max_size=20), max_size=70))
def test_arrow_finds_the_octets_that_were_put(values: list[bytes | None]) -> None:
    column = OctetColumn()
    for row, value in enumerate(values):
        if value is not None:
            column.put(row, value)
    rows = len(values)
    column.fill(rows)
    buffers = [valid(column.nulls, rows), pa.py_buffer(column.ends()), pa.py_buffer(column.octets())]
    array = pa.Array.from_buffers(pa.binary(), rows, buffers)
    array.validate(full=True)
    assert array.to_pylist() == values


@given(st.lists(st.just(0) | st.integers(-(2**63), 2**63 - 1), max_size=70))
def test_arrow_finds_the_times_that_were_put_and_none_for_no_time(values: list[int]) -> None:
    column = TimeColumn()
    for row, value in enumerate(values):
        column.put(row, value)
    rows = len(values)
    array = pa.Array.from_buffers(pa.int64(), rows, [valid(column.nulls, rows), pa.py_buffer(column.octets())])
    expected = [max(-MAX_MICROS_MS, min(value, MAX_MICROS_MS)) * 1000 if value else None for value in values]
    assert array.to_pylist() == expected


def test_a_column_larger_than_its_ends_can_tell_is_refused() -> None:
    half = bytes(MAX_COLUMN_OCTETS // 2 + 1)  # of pages that nobody touches
    column = OctetColumn()
    column.put(0, half)
    with pytest.raises(MessageFormatError, match="more than 2 GiB in one column"):
        column.put(1, half)
    column.put(1, b"x")
    column.fill(3)
    ends = [int.from_bytes(column.ends()[place : place + 4], "little") for place in range(0, 16, 4)]
    assert ends == [0, len(half), len(half) + 1, len(half) + 1]
    assert end_of(MAX_COLUMN_OCTETS) == MAX_COLUMN_OCTETS
