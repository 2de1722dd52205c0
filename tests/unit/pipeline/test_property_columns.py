"""Properties become columns of VARIANTs: what is copied from octets to octets is what decoding would have given."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES_VALUE,
    CHAR_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.pipeline.columns.property_columns import MAX_LAYOUT, PropertyColumns
from spanwire.pipeline.columns.variant import NO_NAMES, encode_variant
from spanwire.protocols.primitive_map import encode_map

NAMES = st.sampled_from(["a", "b", "symbol", "ä", "", "n\x00"]) | st.text("abcé", max_size=5)
PLAIN: st.SearchStrategy[PropertyValue] = st.one_of(
    st.tuples(st.just(STRING_VALUE), st.text(st.characters(exclude_categories=["Cs"]), max_size=80)),
    st.tuples(st.just(INT_VALUE), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(LONG_VALUE), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(SHORT_VALUE), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(BYTE_VALUE), st.integers(-128, 127)),
    st.tuples(st.just(DOUBLE_VALUE), st.floats(allow_nan=False)),
    st.tuples(st.just(FLOAT_VALUE), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(BOOLEAN_VALUE), st.booleans()),
    st.just((NULL_VALUE, None)),
)
RARE: st.SearchStrategy[PropertyValue] = st.one_of(
    st.tuples(st.just(CHAR_VALUE), st.characters(max_codepoint=0xD7FF)),
    st.tuples(st.just(BYTES_VALUE), st.binary(max_size=9)),
    st.tuples(st.just(LIST_VALUE), st.lists(PLAIN, max_size=3)),
    st.tuples(st.just(MAP_VALUE), st.dictionaries(NAMES, PLAIN, max_size=3)),
)
MAPS = st.dictionaries(NAMES, PLAIN, max_size=5) | st.dictionaries(NAMES, PLAIN | RARE, max_size=5)

Rows = list[list[tuple[str, bytes, bytes]]]


def rows_of(columns: PropertyColumns) -> Rows:
    """Name, value and metadata of each property of each row."""

    def run(octets: tuple[bytes, bytes]) -> list[bytes]:
        buffers = [None, pa.py_buffer(octets[0]), pa.py_buffer(octets[1])]
        found: list[bytes] = pa.Array.from_buffers(pa.binary(), columns.count, buffers).to_pylist()
        return found

    ends = pa.py_buffer(columns.row_ends())
    places = pa.Array.from_buffers(pa.int32(), ends.size // 4, [None, ends]).to_pylist()
    names, values = run(columns.names()), run(columns.values())
    entries = [
        (name.decode(), value, columns.metadata.get(number, NO_NAMES))
        for number, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    return [entries[start:end] for start, end in pairwise(places)]


def expected(entries: dict[str, PropertyValue]) -> list[tuple[str, bytes, bytes]]:
    return [(name, *encode_variant(entry)) for name, entry in entries.items()]


@given(st.lists(MAPS, max_size=6))
def test_every_map_becomes_what_its_decoded_values_are_encoded_to(maps: list[dict[str, PropertyValue]]) -> None:
    columns = PropertyColumns()
    for entries in maps:
        octets = b"..." + encode_map(entries) + b"."
        assert columns.add(octets, 3, len(octets) - 1)
    assert rows_of(columns) == [expected(entries) for entries in maps]


@given(st.lists(MAPS, min_size=1, max_size=3), st.data())
def test_damaged_octets_leave_no_trace_or_make_one_row(
    maps: list[dict[str, PropertyValue]], data: st.DataObject
) -> None:
    columns = PropertyColumns()
    for entries in maps:
        assert columns.add(encode_map(entries), 0, len(encode_map(entries)))
    before = rows_of(columns)
    octets = bytearray(encode_map(data.draw(MAPS)))
    place = data.draw(st.integers(0, len(octets) - 1))
    octets[place] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(octets)))
    was_read = columns.add(bytes(octets), 0, end)
    assert rows_of(columns)[: len(maps)] == before
    assert len(rows_of(columns)) == len(maps) + was_read


def test_a_name_that_is_there_twice_has_its_last_value() -> None:
    columns = PropertyColumns()
    one = encode_map({"a": (INT_VALUE, 1), "b": (INT_VALUE, 2)})
    octets = b"\x00\x00\x00\x03" + one[4:12] + one[4:11] + b"\x07" + one[12:]
    assert columns.add(octets, 0, len(octets))
    assert rows_of(columns) == [expected({"a": (INT_VALUE, 7), "b": (INT_VALUE, 2)})]


@pytest.mark.parametrize("count", [MAX_LAYOUT, MAX_LAYOUT + 1, 500])
def test_many_properties_are_all_there(count: int) -> None:
    entries: dict[str, PropertyValue] = {f"n{number}": (INT_VALUE, number) for number in range(count)}
    columns = PropertyColumns()
    assert columns.add(encode_map(entries), 0, len(encode_map(entries)))
    assert rows_of(columns) == [expected(entries)]


@pytest.mark.parametrize("octets", [b"", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00"])
def test_a_null_map_and_an_empty_one_have_no_properties(octets: bytes) -> None:
    columns = PropertyColumns()
    assert columns.add(octets, 0, len(octets))
    columns.add_none()
    assert rows_of(columns) == [[], []]
