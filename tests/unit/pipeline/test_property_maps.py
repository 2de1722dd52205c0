"""Properties that come straight from Arrow are those of the long way over Python's values, octet by octet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.client.messages.message_encoder import property_octets
from spanwire.client.messages.typed_values import typed_properties
from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES_VALUE,
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
from spanwire.pipeline.arrow.rows import MAX_PORTION_BYTES, MAX_PORTION_ROWS, RowReader
from spanwire.pipeline.arrow.schema import PROPERTIES
from spanwire.pipeline.columns.column_view import ColumnView
from spanwire.pipeline.columns.property_maps import (
    MAX_KNOWN_NAME,
    MAX_KNOWN_NAMES,
    MAX_LAYOUT,
    PropertyMapWriter,
    PropertyViews,
    client_value,
)
from spanwire.pipeline.columns.variant import NO_NAMES, decode_variant, encode_scalar, encode_variant
from spanwire.pipeline.options import write_options
from spanwire.protocols.primitive_map import BIG_STRING_LENGTH, decode_map, encode_map

LETTERS = st.characters(exclude_categories=["Cs"])
NAMES = st.text(LETTERS, min_size=1, max_size=20)


def whole(kind: int, bits: int) -> st.SearchStrategy[PropertyValue]:
    return st.tuples(st.just(kind), st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))


LONG_TEXTS = st.builds(
    lambda letter, more: letter * (BIG_STRING_LENGTH + more), st.sampled_from("x\u20ac"), st.integers(-1, 1)
)
SCALARS: st.SearchStrategy[PropertyValue] = st.one_of(
    st.just((NULL_VALUE, None)),
    st.tuples(st.just(BOOLEAN_VALUE), st.booleans()),
    whole(BYTE_VALUE, 8),
    whole(SHORT_VALUE, 16),
    whole(INT_VALUE, 32),
    whole(LONG_VALUE, 64),
    st.tuples(st.just(DOUBLE_VALUE), st.floats()),
    st.tuples(st.just(FLOAT_VALUE), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(STRING_VALUE), st.one_of(st.text(LETTERS, max_size=90), LONG_TEXTS)),
)
ROW = st.one_of(st.none(), st.dictionaries(NAMES, st.one_of(st.none(), SCALARS), max_size=4))


def column(rows: list[dict[str, bytes | None] | None]) -> pa.Array:
    found: list[object] = []
    for row in rows:
        entries = [
            (name, None if value is None else {"value": value, "metadata": NO_NAMES})
            for name, value in (row or {}).items()
        ]
        found.append(None if row is None else entries)
    return pa.array(found, PROPERTIES)


def maps_of(array: pa.Array, options: dict[str, str] | None = None) -> list[object]:
    given_options = write_options({"destination": "OUT", "duplicateIdProperty": "", **(options or {})})
    return [row.properties for row in RowReader(given_options).rows(pa.record_batch({"properties": array}))]


def one_map(value: bytes) -> object:
    return maps_of(column([{"n": value}]))[0]


def long_way(properties: Mapping[str, object]) -> bytes:
    """The octets by way of typed values; names of received messages may be such that no selector can name them."""
    return encode_map(typed_properties(properties)) if properties else b""


@pytest.mark.large
@given(st.lists(ROW, max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_maps_are_those_of_the_long_way(
    rows: list[dict[str, PropertyValue | None] | None], start: int, count: int
) -> None:
    given_rows = [
        None if row is None else {n: None if v is None else encode_scalar(v) for n, v in row.items()} for row in rows
    ]
    expected = [long_way({n: None if v is None else client_value(v) for n, v in (row or {}).items()}) for row in rows]
    array = column(given_rows)
    assert maps_of(array) == expected
    assert maps_of(array.slice(start, count)) == expected[start : start + count]


@given(st.lists(st.dictionaries(NAMES, st.one_of(st.none(), st.text(LETTERS, max_size=90)), max_size=4), max_size=6))
def test_maps_of_texts_are_those_of_the_long_way(rows: list[dict[str, str | None]]) -> None:
    array = pa.array([list(row.items()) for row in rows], pa.map_(pa.string(), pa.string()))
    assert maps_of(array) == [long_way(row) for row in rows]


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except (ConfigurationError, MessageFormatError) as error:
        return type(error)


@given(st.binary(max_size=12))
def test_any_octets_are_what_they_are_on_the_long_way(octets: bytes) -> None:
    def long_way() -> object:
        try:
            entry = decode_variant(octets, NO_NAMES)
        except MessageFormatError as error:
            raise ConfigurationError(str(error)) from None
        return property_octets({"n": client_value(entry)}, None)

    assert outcome(lambda: one_map(octets)) == outcome(long_way)


@pytest.mark.parametrize("octets", [b"\x14\1\2\3", b"\x18\1\2\3\4\5\6\7", b"\x1c", b"\x38\1", b"\x0c", b"\x10\1", b""])
def test_a_number_that_is_cut_is_told_with_its_name(octets: bytes) -> None:
    with pytest.raises(ConfigurationError, match="the property 'n': a VARIANT is cut or damaged"):
        one_map(octets)


@pytest.mark.parametrize(
    "entry", [(BYTES_VALUE, b"x"), (MAP_VALUE, {"a": (INT_VALUE, 1)}), (LIST_VALUE, [(INT_VALUE, 1)])]
)
def test_what_no_property_can_be_is_refused(entry: PropertyValue) -> None:
    value, metadata = encode_variant(entry)
    array = pa.array([[("n", {"value": value, "metadata": metadata})]], PROPERTIES)
    with pytest.raises(MessageFormatError, match=r"the property 'n' is a .*, which no property can be"):
        maps_of(array)


@pytest.mark.parametrize(("name", "told"), [("", "a property has no name"), ("n" * 65536, "longer than 65535 bytes")])
def test_a_name_that_no_property_can_have_is_refused(name: str, told: str) -> None:
    with pytest.raises(MessageFormatError, match=told):
        maps_of(column([{name: b"\x04"}]))


def test_more_names_than_are_remembered_are_written_all_the_same() -> None:
    names = [f"n{number}" for number in range(MAX_KNOWN_NAMES + 2)]
    (octets,) = maps_of(column([dict.fromkeys(names, b"\x04")]))
    assert isinstance(octets, bytes)
    assert list(decode_map(octets)) == names


@pytest.mark.parametrize("kind", [PROPERTIES, pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.int32())])
@pytest.mark.parametrize("others", [0, MAX_LAYOUT])
def test_a_name_that_is_there_twice_is_written_once_with_its_last_value(kind: pa.DataType, others: int) -> None:
    def value(number: int) -> object:
        if kind == PROPERTIES:
            return {"value": encode_scalar((INT_VALUE, number)), "metadata": NO_NAMES}
        return number if kind.item_type == pa.int32() else str(number)

    more = [(f"n{number}", value(0)) for number in range(others)]
    twice = [("a", value(1)), ("b", value(2)), ("a", value(3)), *more, ("a", value(4)), ("id", value(5)), ("id", None)]
    once = [("a", value(4)), ("b", value(2)), *more, ("id", None)]
    array = pa.array([once, twice, twice, once, [("b", value(2)), ("a", value(4))]], kind)
    first, *same, last = maps_of(array)
    assert same == [first] * 3
    assert isinstance(first, bytes) and isinstance(last, bytes)
    assert list(decode_map(first)) == ["a", "b", *(name for name, _ in more), "id"]
    assert list(decode_map(last).items()) == [(name, decode_map(first)[name]) for name in ("b", "a")]
    reader = RowReader(write_options({"destination": "OUT", "duplicateIdProperty": "id"}), "q")
    maps = [row.properties for row in reader.rows(pa.record_batch({"properties": array}))]
    for row, octets in enumerate(maps[:4]):
        assert isinstance(octets, bytes)
        assert decode_map(octets) == {**decode_map(first), "id": (STRING_VALUE, f"q/{row}")}


def test_only_names_of_a_usual_length_are_remembered() -> None:
    writer = PropertyMapWriter()
    for size in (MAX_KNOWN_NAME, MAX_KNOWN_NAME + 1):
        name = b"n" * size
        names = ColumnView(ends(0, size), name)
        (octets,) = writer.encode_views(
            PropertyViews(ColumnView(ends(0, 1), b""), names, ColumnView(ends(0, 1), b"x"), None), 1
        )
        assert decode_map(octets) == {name.decode(): (STRING_VALUE, "x")}
    assert [len(name) for name in writer._names] == [MAX_KNOWN_NAME]


def ends(*places: int) -> bytes:
    return b"".join(place.to_bytes(4, "little") for place in places)


@pytest.mark.parametrize(
    ("count", "size", "portions"),
    [(2 * MAX_PORTION_ROWS + 1, 1, 3), (9, MAX_PORTION_BYTES // 2, 9), (2, 2 * MAX_PORTION_BYTES, 2)],
)
def test_large_rows_are_taken_a_few_at_a_time(count: int, size: int, portions: int) -> None:
    reader = RowReader(write_options({"destination": "OUT", "duplicateIdProperty": ""}))
    found = list(reader.portions(pa.record_batch({"bytes": [b"x" * size] * count})))
    assert (sum(map(len, found)), len(found)) == (count, portions)
