from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.errors import MessageFormatError
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
from spanwire.pipeline.columns.variant import NO_NAMES, decode_variant, encode_scalar, encode_variant

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def integers(kind: int, bits: int) -> st.SearchStrategy[PropertyValue]:
    limit = 2 ** (bits - 1)
    return st.tuples(st.just(kind), st.integers(-limit, limit - 1))


SCALARS: st.SearchStrategy[PropertyValue] = st.one_of(
    st.just((NULL_VALUE, None)),
    st.tuples(st.just(BOOLEAN_VALUE), st.booleans()),
    integers(BYTE_VALUE, 8),
    integers(SHORT_VALUE, 16),
    integers(INT_VALUE, 32),
    integers(LONG_VALUE, 64),
    st.tuples(st.just(DOUBLE_VALUE), st.floats(allow_nan=False)),
    st.tuples(st.just(FLOAT_VALUE), st.floats(allow_nan=False, width=32)),
    st.tuples(st.just(STRING_VALUE), TEXTS),
    st.tuples(st.just(BYTES_VALUE), st.binary(max_size=80)),
)
VALUES: st.SearchStrategy[PropertyValue] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(st.just(LIST_VALUE), st.lists(inner, max_size=5)),
        st.tuples(st.just(MAP_VALUE), st.dictionaries(TEXTS, inner, max_size=5)),
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("entry", "octets"),
    [
        ((NULL_VALUE, None), b"\x00"),
        ((BOOLEAN_VALUE, True), b"\x04"),
        ((BOOLEAN_VALUE, False), b"\x08"),
        ((BYTE_VALUE, -2), b"\x0c\xfe"),
        ((SHORT_VALUE, 258), b"\x10\x02\x01"),
        ((INT_VALUE, 5), b"\x14\x05\x00\x00\x00"),
        ((LONG_VALUE, -1), b"\x18" + b"\xff" * 8),
        ((DOUBLE_VALUE, 1.5), b"\x1c\x00\x00\x00\x00\x00\x00\xf8\x3f"),
        ((FLOAT_VALUE, 1.5), b"\x38\x00\x00\xc0\x3f"),
        ((STRING_VALUE, "abc"), b"\x0dabc"),
        ((STRING_VALUE, "x" * 64), b"\x40\x40\x00\x00\x00" + b"x" * 64),
        ((CHAR_VALUE, "ä"), b"\x09\xc3\xa4"),
        ((BYTES_VALUE, b"ab"), b"\x3c\x02\x00\x00\x00ab"),
    ],
)
def test_a_scalar_is_written_with_the_width_of_its_jms_type(entry: PropertyValue, octets: bytes) -> None:
    assert encode_scalar(entry) == octets


@given(VALUES)
def test_every_value_comes_back_with_its_type(entry: PropertyValue) -> None:
    assert decode_variant(*encode_variant(entry)) == entry


def test_fields_of_an_object_stand_in_the_order_of_their_names_as_readers_search_them() -> None:
    value, metadata = encode_variant((MAP_VALUE, {"b": (BYTE_VALUE, 1), "a": (BYTE_VALUE, 2)}))
    assert list(decode_variant(value, metadata)[1]) == ["a", "b"]  # type: ignore[call-overload]


def test_an_object_of_more_than_255_fields_has_a_wide_count() -> None:
    entries: dict[str, PropertyValue] = {f"n{number}": (INT_VALUE, number) for number in range(300)}
    assert decode_variant(*encode_variant((MAP_VALUE, entries))) == (MAP_VALUE, entries)


def test_a_decimal_as_spark_writes_literals_becomes_a_double() -> None:
    assert decode_variant(b"\x20\x01\x0f\x00\x00\x00", NO_NAMES) == (DOUBLE_VALUE, 1.5)


def test_a_date_is_refused_with_what_to_do() -> None:
    with pytest.raises(MessageFormatError, match="a date has no JMS type; cast it"):
        decode_variant(b"\x2c\x00\x00\x00\x00", NO_NAMES)


@given(VALUES, st.data())
def test_damaged_octets_end_in_one_error(entry: PropertyValue, data: st.DataObject) -> None:
    value, metadata = encode_variant(entry)
    cut = data.draw(st.integers(0, len(value)))
    noise = data.draw(st.binary(max_size=8))
    try:
        decode_variant(value[:cut] + noise, metadata)
    except MessageFormatError:
        return


def test_what_is_nested_without_end_is_refused() -> None:
    entry: PropertyValue = (LIST_VALUE, [])
    for _ in range(20):
        entry = (LIST_VALUE, [entry])
    with pytest.raises(MessageFormatError, match="nested"):
        encode_variant(entry)
