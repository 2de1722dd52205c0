"""Values and sections of AMQP 1.0: what is written is read again, and what is damaged is refused."""

from __future__ import annotations

import contextlib
import struct
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.bridges.providers.amqp.codec import (
    ARRAY,
    BINARY,
    BOOLEAN,
    BYTE,
    CHAR,
    DESCRIBED,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    MAP,
    MAX_DEPTH,
    MAX_EMPTY,
    MAX_VALUES,
    NULL,
    SHORT,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    UUID,
    Value,
    read,
    value_end,
    write,
)
from spanwire.bridges.providers.amqp.sections import (
    DATA,
    MAX_SECTIONS,
    PROPERTIES,
    SEQUENCE,
    Sections,
    data_section,
)
from spanwire.model.errors import MessageFormatError
from tests.support.peers import require_library


def whole(code: int, bits: int, is_signed: bool) -> st.SearchStrategy[Value]:
    least = -(2 ** (bits - 1)) if is_signed else 0
    return st.integers(least, least + 2**bits - 1).map(lambda number: (code, number))


SIMPLE: st.SearchStrategy[Value] = st.one_of(
    st.just((NULL, None)),
    st.booleans().map(lambda value: (BOOLEAN, value)),
    *(whole(code, bits, False) for code, bits in ((UBYTE, 8), (USHORT, 16), (UINT, 32), (ULONG, 64))),
    *(whole(code, bits, True) for code, bits in ((BYTE, 8), (SHORT, 16), (INT, 32), (LONG, 64), (TIMESTAMP, 64))),
    st.floats(width=32, allow_nan=False).map(lambda value: (FLOAT, value)),
    st.floats(allow_nan=False).map(lambda value: (DOUBLE, value)),
    st.characters(codec="utf-8").map(lambda value: (CHAR, value)),
    st.uuids().map(lambda value: (UUID, value)),
    st.binary(max_size=300).map(lambda value: (BINARY, value)),
    st.text(st.characters(codec="utf-8"), max_size=300).map(lambda value: (STRING, value)),
    st.text(st.characters(codec="ascii"), max_size=300).map(lambda value: (SYMBOL, value)),
)
VALUES: st.SearchStrategy[Value] = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(lambda items: (LIST, items)),
        st.lists(st.tuples(SIMPLE, inner), max_size=5).map(lambda items: (MAP, items)),
    ),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_is_read_as_it_was_written(value: Value) -> None:
    octets = write(value)
    assert read(octets) == (value, len(octets))
    assert value_end(octets, 0) == len(octets)


@given(VALUES, st.data())
def test_each_beginning_of_a_value_is_refused(value: Value, data: st.DataObject) -> None:
    octets = write(value)
    with pytest.raises(MessageFormatError):
        read(octets[: data.draw(st.integers(0, len(octets) - 1))])


@given(st.binary(max_size=200))
def test_any_octets_are_read_or_refused(octets: bytes) -> None:
    for attempt in (read, Sections):
        with contextlib.suppress(MessageFormatError):
            attempt(octets)


@given(VALUES)
def test_proton_reads_the_same_value(value: Value) -> None:
    require_library("proton")
    from proton import Data  # noqa: PLC0415 -- the library may be missing

    data = Data()
    octets = write(value)
    assert data.decode(octets) == len(octets)
    assert read(bytes(data.encode()))[0] == value


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        (b"\x56\x01", (BOOLEAN, True)),
        (b"\x43", (UINT, 0)),
        (b"\x52\xff", (UINT, 255)),
        (b"\x44", (ULONG, 0)),
        (b"\x53\x10", (ULONG, 16)),
        (b"\x54\xff", (INT, -1)),
        (b"\x55\xfe", (LONG, -2)),
        (b"\x45", (LIST, [])),
        (b"\xe0\x04\x02\x54\x01\x02", (ARRAY, [(INT, 1), (INT, 2)])),
        (b"\x00\xa3\x01a\x41", (DESCRIBED, ((SYMBOL, "a"), (BOOLEAN, True)))),
        (b"\x98" + bytes(16), (UUID, uuid.UUID(int=0))),
    ],
)
def test_short_forms_arrays_and_descriptors_are_read(octets: bytes, value: Any) -> None:
    assert read(octets)[0] == value


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", "ends inside"),
        (b"\xb1\xff\xff\xff\xff", "ends inside"),
        (b"\xd0" + struct.pack(">II", 4, 2**32 - 1), "which is not possible"),
        (b"\xc1\x02\x01\x40", "which is not possible"),
        (b"\xc0\x03\x01\x40\x40", "another length"),
        (b"\xc0\x00", "no count"),
        (b"\xa1\x01\xff", "malformed"),
        (b"\xa3\x01\xff", "malformed"),
        (b"\x73\x00\x00\xd8\x00", "no value of AMQP"),
        (b"\x56\x02", "no value of AMQP"),
        (b"\x57\x02", "no value of AMQP"),
        (b"\x10", "no type of AMQP"),
        (b"\xa7\x00", "no type of AMQP"),
        (b"\xf0\x00\x00\x00\x05\x7f\xff\xff\xff\x45", "which is not possible"),
        (b"\xc0\x01\x01" * 3 + b"\xc0", "ends inside"),
        (b"\x00" * 100, "too deeply|inside each other|ends inside"),
    ],
)
def test_a_damaged_value_is_refused_with_a_reason(octets: bytes, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        read(octets)


def test_depth_and_number_of_values_have_limits() -> None:
    deep: Value = (NULL, None)
    for _ in range(MAX_DEPTH):
        deep = (LIST, [deep])
    read(write(deep))
    with pytest.raises(MessageFormatError, match="inside each other"):
        read(write((LIST, [deep])))
    with pytest.raises(MessageFormatError, match="which is not possible"):
        read(b"\xf0" + struct.pack(">II", 5, MAX_VALUES + 1) + b"\x45")
    nested = b"\xd0" + struct.pack(">II", MAX_VALUES + 3, MAX_VALUES - 1) + b"\x45" * (MAX_VALUES - 1)
    with pytest.raises(MessageFormatError, match="values"):
        read(b"\xd0" + struct.pack(">II", 4 + 2 * len(nested), 2) + nested * 2)


@pytest.mark.parametrize("code", [b"\x40", b"\x41", b"\x42", b"\x43", b"\x44", b"\x45", b"\x00\x40\x43"])
def test_an_array_has_few_members_that_take_no_octets(code: bytes) -> None:
    def array(count: int) -> bytes:
        return b"\xf0" + struct.pack(">II", 4 + len(code), count) + code

    (kind, members), _ = read(array(MAX_EMPTY))
    assert isinstance(members, list)
    assert (kind, len(members)) == (ARRAY, MAX_EMPTY)
    with pytest.raises(MessageFormatError, match="17 members without octets, above 16"):
        read(array(MAX_EMPTY + 1))


@pytest.mark.parametrize("descriptors", [MAX_DEPTH + 1, 3_000])
@pytest.mark.parametrize("skip", [read, value_end])
def test_descriptors_inside_each_other_have_a_limit(skip: Callable[[bytes, int], object], descriptors: int) -> None:
    skip(b"\x00" * MAX_DEPTH + b"\x40" * (MAX_DEPTH + 1), 0)
    skip(b"\x00\x40" * MAX_DEPTH + b"\x40", 0)
    for octets in (b"\x00" * descriptors + b"\x40" * (descriptors + 1), b"\x00\x40" * descriptors + b"\x40"):
        with pytest.raises(MessageFormatError, match="inside each other"):
            skip(octets, 0)


@pytest.mark.parametrize("kind", [SEQUENCE, PROPERTIES])
def test_all_sections_of_a_message_share_its_number_of_values(kind: int) -> None:
    half = MAX_VALUES // 2
    section = bytes((0, 0x53, kind)) + b"\xd0" + struct.pack(">II", half + 4, half) + b"\x40" * half
    assert len(Sections(section).body_values()) == (1 if kind == SEQUENCE else 0)
    with pytest.raises(MessageFormatError, match="values"):
        Sections(section * 2).body_values()


@pytest.mark.parametrize("value", [(INT, 2**31), (UBYTE, -1), (SYMBOL, "é"), (STRING, "\ud800"), (CHAR, "")])
def test_a_value_that_does_not_fit_its_type_is_refused(value: Value) -> None:
    with pytest.raises(MessageFormatError, match="has no form in AMQP"):
        write(value)


def test_a_message_is_cut_into_its_sections() -> None:
    octets = b"\x00\x53\x70\xc0\x02\x01\x41" + b"\x00\xa3\x10amqp:data:binary\xa0\x01a" + data_section(b"b")
    found = Sections(octets)
    assert (found.header, found.body_kinds) == ([(BOOLEAN, True)], [DATA, DATA])
    assert found.body_values() == [(BINARY, b"a"), (BINARY, b"b")]
    assert found.body() == octets[7:]


@pytest.mark.parametrize(
    "octets",
    [
        b"\x41",
        b"\x00\x53\x79\x45",
        b"\x00\x53\x70\x41",
        b"\x00\x53\x72\x45",
        b"\x00\x53\x75\xb0\x00\x00\xff\xff",
        data_section(b"") * (MAX_SECTIONS + 1),
        data_section(b"") + b"\x00\x53\x76\x45",
        data_section(b"") + b"\x00\x53\x70\x45" + data_section(b""),
        b"\x00\x53\x77\x40" * 2,
    ],
)
def test_a_message_that_does_not_consist_of_sections_is_refused(octets: bytes) -> None:
    with pytest.raises(MessageFormatError):
        Sections(octets)
