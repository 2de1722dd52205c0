"""Maps, lists and streams of typed values."""

from __future__ import annotations

import pytest

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
from spanwire.protocols.primitive_map import (
    MAX_BODY_VALUES,
    MAX_PROPERTIES,
    UNBOUNDED,
    EntryReader,
    check_map_count,
    decode_map,
    decode_plain_map,
    decode_stream,
    encode_map,
    encode_stream,
)

# Value and its octets: the type code, then the data.
VALUES: list[tuple[PropertyValue, str]] = [
    ((NULL_VALUE, None), "00"),
    ((BOOLEAN_VALUE, True), "0101"),
    ((BYTE_VALUE, -2), "02fe"),
    ((CHAR_VALUE, "€"), "0320ac"),
    ((SHORT_VALUE, -2), "04fffe"),
    ((INT_VALUE, -2), "05fffffffe"),
    ((LONG_VALUE, -2), "06fffffffffffffffe"),
    ((DOUBLE_VALUE, -1.5), "07bff8000000000000"),
    ((FLOAT_VALUE, -1.5), "08bfc00000"),
    ((STRING_VALUE, "a\0"), "090003" + "61c080"),
    ((BYTES_VALUE, b"\0\xff"), "0a0000000200ff"),
    ((MAP_VALUE, {"k": (INT_VALUE, 1)}), "0b00000001" + "00016b" + "0500000001"),
    ((LIST_VALUE, [(NULL_VALUE, None)]), "0c00000001" + "00"),
    ((STRING_VALUE, "x" * 8190), "091ffe" + "78" * 8190),
    ((STRING_VALUE, "x" * 8191), "0d00001fff" + "78" * 8191),
]


@pytest.mark.parametrize(("value", "octets"), VALUES, ids=[octets[:12] for _, octets in VALUES])
def test_each_type_of_value_has_its_code_and_octets(value: PropertyValue, octets: str) -> None:
    assert encode_stream([value]).hex() == octets
    assert decode_stream(bytes.fromhex(octets)) == [value]
    entry = "00000001" + "0001" + "61" + octets
    assert encode_map({"a": value}).hex() == entry
    assert decode_map(bytes.fromhex(entry)) == {"a": value}


def test_plain_values_have_no_types() -> None:
    entries: dict[str, PropertyValue] = {
        "map": (MAP_VALUE, {"k": (INT_VALUE, 1)}),
        "list": (LIST_VALUE, [(STRING_VALUE, "x"), (NULL_VALUE, None)]),
        "float": (FLOAT_VALUE, 0.5),
    }
    assert decode_plain_map(encode_map(entries)) == {"map": {"k": 1}, "list": ["x", None], "float": 0.5}


@pytest.mark.parametrize("data", ["", "00000000", "ffffffff"], ids=["nothing", "no entries", "null"])
def test_an_absent_map_is_empty(data: str) -> None:
    assert decode_map(bytes.fromhex(data)) == {}


def nested(depth: int) -> bytes:
    return b"\x0c\0\0\0\1" * depth + b"\0"


def test_values_nest_to_a_depth_of_sixteen_and_no_deeper() -> None:
    decode_stream(nested(15))
    with pytest.raises(MessageFormatError, match="16 deep"):
        decode_stream(nested(16))
    with pytest.raises(MessageFormatError, match="16 deep"):
        decode_stream(nested(100_000))
    value: PropertyValue = (NULL_VALUE, None)
    for _ in range(20):
        value = (LIST_VALUE, [value])
    with pytest.raises(MessageFormatError, match="16 deep"):
        encode_stream([value])


@pytest.mark.parametrize(
    "octets",
    [
        "0e",
        "ff",
        "05000000",
        "0900036162",
        "0affffffff",
        "0a7fffffff",
        "0d80000000",
        "0c7fffffff",
        "0bfffffffe",
        "0900" + "01ff",
    ],
    ids=["code", "code -1", "int", "string", "bytes -1", "bytes", "big string", "list", "map -2", "utf"],
)
def test_octets_that_are_no_value_are_a_format_error(octets: str) -> None:
    with pytest.raises(MessageFormatError):
        decode_stream(bytes.fromhex(octets))
    with pytest.raises(MessageFormatError):
        decode_map(bytes.fromhex("00000001" + "0001" + "61" + octets))


@pytest.mark.parametrize(
    "value",
    [
        (INT_VALUE, 2**31),
        (BYTE_VALUE, 200),
        (SHORT_VALUE, 2**15),
        (LONG_VALUE, 2**63),
        (FLOAT_VALUE, 1e300),
        (CHAR_VALUE, "ab"),
        (CHAR_VALUE, "😀"),
        (STRING_VALUE, 5),
        (INT_VALUE, "5"),
        (INT_VALUE, None),
        (BYTES_VALUE, "x"),
        (99, 1),
        (STRING_VALUE, "\ud800"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_its_type_is_a_format_error(value: PropertyValue) -> None:
    with pytest.raises(MessageFormatError):
        encode_map({"a": value})


def test_a_name_that_is_too_long_is_a_format_error() -> None:
    with pytest.raises(MessageFormatError, match="name"):
        encode_map({"x" * 65536: (NULL_VALUE, None)})


def test_a_map_that_announces_too_many_entries_is_refused_unread() -> None:
    data = encode_map({f"{number:x}": (BOOLEAN_VALUE, True) for number in range(MAX_PROPERTIES + 1)})
    reader = EntryReader(data, MAX_PROPERTIES)
    with pytest.raises(MessageFormatError, match=f"more than {MAX_PROPERTIES} entries"):
        reader.count_entries(MAX_PROPERTIES + 1)
    assert reader.position == 0
    with pytest.raises(MessageFormatError, match=f"more than {MAX_PROPERTIES} entries"):
        decode_map(data)
    with pytest.raises(MessageFormatError, match="send fewer"):
        check_map_count(data)
    assert len(decode_map(data, UNBOUNDED)) == MAX_PROPERTIES + 1


def test_entries_of_maps_and_lists_inside_count_for_the_whole() -> None:
    inner: list[PropertyValue] = [(NULL_VALUE, None)] * (MAX_PROPERTIES - 2)
    assert len(decode_map(encode_map({"a": (LIST_VALUE, inner), "b": (NULL_VALUE, None)}))) == 2
    with pytest.raises(MessageFormatError, match=f"more than {MAX_PROPERTIES} entries"):
        decode_map(encode_map({"a": (LIST_VALUE, inner), "b": (MAP_VALUE, {"c": (NULL_VALUE, None)})}))


def test_a_stream_of_too_many_values_is_left_at_the_limit() -> None:
    data = encode_stream([(NULL_VALUE, None)] * (MAX_BODY_VALUES + 1))
    assert len(decode_stream(data[1:])) == MAX_BODY_VALUES
    with pytest.raises(MessageFormatError, match=f"more than {MAX_BODY_VALUES} entries"):
        decode_stream(data)
