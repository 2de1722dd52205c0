"""Avro bodies: the octets of the specification, resolution of schemas, and refusals."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats.avro.codec import AvroCodec
from spanwire.pipeline.formats.avro.octets import OctetReader
from spanwire.pipeline.formats.avro.reading import compile_reader
from spanwire.pipeline.formats.avro.schema import MAX_DEPTH, parse_schema
from spanwire.pipeline.formats.avro.writing import compile_writer
from spanwire.pipeline.formats.plans import AvroPlan
from spanwire.pipeline.formats.rows import decode_bodies
from spanwire.pipeline.formats.spark_types import spark_type

Json = object


def encoded(schema: Json, value: object) -> bytes:
    out = bytearray()
    compile_writer(parse_schema(json.dumps(schema)))(out, value)
    return bytes(out)


def decoded(octets: bytes, writer: Json, reader: Json = None) -> object:
    """What a reader sees, in Arrow's form."""
    written = parse_schema(json.dumps(writer))
    rest = OctetReader(octets, 0)
    value = compile_reader(written, written if reader is None else parse_schema(json.dumps(reader)))(rest)
    assert rest.left() == 0
    return value


def record(*fields: Json, name: str = "R") -> dict[str, Json]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Json, **more: Json) -> dict[str, Json]:
    return {"name": name, "type": kind, **more}


def codec(schema: Json) -> AvroCodec:
    return AvroCodec(AvroPlan(json.dumps(schema)))


# The specification of Apache Avro 1.12, chapter "Binary Encoding", has these octets.
SPECIFIED = [
    ("long", 0, "00"),
    ("long", -1, "01"),
    ("long", 1, "02"),
    ("long", -2, "03"),
    ("long", 2, "04"),
    ("long", -64, "7f"),
    ("long", 64, "80 01"),
    ("string", "foo", "06 66 6f 6f"),
    (record(field("a", "long"), field("b", "string"), name="test"), {"a": 27, "b": "foo"}, "36 06 66 6f 6f"),
    ({"type": "enum", "name": "Foo", "symbols": ["A", "B", "C", "D"]}, "D", "06"),
    ({"type": "array", "items": "long"}, [3, 27], "04 06 36 00"),
    (["null", "string"], None, "00"),
    (["null", "string"], "a", "02 02 61"),
]


@pytest.mark.parametrize(("schema", "value", "octets"), SPECIFIED)
def test_values_have_the_octets_of_the_specification(schema: Json, value: object, octets: str) -> None:
    assert encoded(schema, value) == bytes.fromhex(octets)
    assert decoded(bytes.fromhex(octets), schema) == value


def test_blocks_with_a_size_and_several_blocks_are_read() -> None:
    assert decoded(bytes.fromhex("03 04 06 36 02 02 00"), {"type": "array", "items": "long"}) == [3, 27, 1]
    mapped = bytes.fromhex("01 06 02 61 02 02 02 62 04 00")
    assert decoded(mapped, {"type": "map", "values": "long"}) == [("a", 1), ("b", 2)]


LOGICAL = [
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "DECIMAL(9, 2)",
        Decimal("-1.50"),
        "04 ff 6a",
    ),
    (
        {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
        "DECIMAL(9, 2)",
        Decimal("1.50"),
        "00 00 00 96",
    ),
    ({"type": "int", "logicalType": "date"}, "DATE", date(1970, 1, 3), "04"),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        "TIMESTAMP",
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "d0 0f",
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        "TIMESTAMP",
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        "01",
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        "TIMESTAMP_NTZ",
        datetime(1970, 1, 1, 0, 0, 1),
        "d0 0f",
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        "TIMESTAMP_NTZ",
        datetime(1970, 1, 1, 0, 0, 0, 1),
        "02",
    ),
    (
        {"type": "string", "logicalType": "uuid"},
        "STRING",
        "2c1f4a3e-0000-4000-8000-00000000000a",
        "48" + b"2c1f4a3e-0000-4000-8000-00000000000a".hex(),
    ),
    (
        {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"},
        "STRING",
        "2c1f4a3e-0000-4000-8000-00000000000a",
        "2c1f4a3e0000400080000000 0000000a",
    ),
    ({"type": "int", "logicalType": "time-millis"}, "INT", 5, "0a"),
    ({"type": "long", "logicalType": "time-micros"}, "BIGINT", 5, "0a"),
    ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, "BINARY", bytes(12), "00" * 12),
    ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "BINARY", b"a", "02 61"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "STRING", "B", "02"),
    ({"type": "fixed", "name": "F", "size": 2}, "BINARY", b"ab", "61 62"),
    ("boolean", "BOOLEAN", True, "01"),
    ("int", "INT", -1, "01"),
    ("float", "FLOAT", 1.5, "00 00 c0 3f"),
    ("double", "DOUBLE", 1.5, "00 00 00 00 00 00 f8 3f"),
    ("bytes", "BINARY", b"\xff", "02 ff"),
    ({"type": "map", "values": "int"}, "MAP<STRING, INT>", [("a", 1)], "02 02 61 02 00"),
    (["null", {"type": "array", "items": ["null", "int"]}], "ARRAY<INT>", [1, None], "02 04 02 02 00 00"),
    (["int", "null", "long"], "BIGINT", 2**40, "04 80 80 80 80 80 40"),
    (["int", "null", "long"], "BIGINT", 1, "00 02"),
    (["float", "double"], "DOUBLE", 1.5, "02 00 00 00 00 00 00 f8 3f"),
    (
        ["null", "int", "string"],
        "STRUCT<`member0`: INT, `member1`: STRING>",
        {"member0": None, "member1": "a"},
        "04 02 61",
    ),
    (["null", "int", "string"], "STRUCT<`member0`: INT, `member1`: STRING>", None, "00"),
]


@pytest.mark.parametrize(("schema", "kind", "value", "octets"), LOGICAL)
def test_each_type_has_a_column_and_goes_both_ways(schema: Json, kind: str, value: object, octets: str) -> None:
    one = codec(record(field("x", schema)))
    assert spark_type(one.arrow) == f"STRUCT<`x`: {kind}>"
    assert one.encode({"x": value}) == bytes.fromhex(octets)
    assert decode_bodies([bytes.fromhex(octets)], one, "fail").to_pylist() == [{"x": value}]


RESOLVED = [
    ("int", 7, "long", 7),
    ("int", 7, "double", 7.0),
    ("long", 7, "float", 7.0),
    ("float", 1.5, "double", 1.5),
    ("string", "a", "bytes", b"a"),
    ("bytes", b"a", "string", "a"),
    ("int", 7, ["null", "long"], 7),
    (["null", "int"], 7, "long", 7),
    ("string", "a", ["int", "string"], {"member1": "a"}),
    ({"type": "array", "items": "int"}, [1], {"type": "array", "items": "long"}, [1]),
    ({"type": "map", "values": "int"}, [("a", 1)], {"type": "map", "values": "double"}, [("a", 1.0)]),
    (
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        "B",
        {"type": "enum", "name": "other.E", "symbols": ["C", "A"], "default": "C"},
        "C",
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        {"type": "long", "logicalType": "timestamp-micros"},
        1_000_000,
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1},
        Decimal("1.5"),
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        Decimal("1.5"),
    ),
    (
        record(field("gone", {"type": "map", "values": ["null", "string"]}), field("a", "int"), field("old", "string")),
        {"gone": [("k", "v")], "a": 1, "old": "x"},
        record(
            field("new", "string", aliases=["old"]),
            field("a", "long"),
            field("more", ["null", "int"], default=None),
            field("at", {"type": "long", "logicalType": "timestamp-millis"}, default=2),
            field("inner", record(field("b", "bytes", default="\u00ff"), name="I"), default={}),
            field("list", {"type": "array", "items": "string"}, default=["x"]),
            field("map", {"type": "map", "values": "double"}, default={"k": 1}),
        ),
        {
            "new": "x",
            "a": 1,
            "more": None,
            "at": 2000,
            "inner": {"b": b"\xff"},
            "list": ["x"],
            "map": [("k", 1.0)],
        },
    ),
]


@pytest.mark.parametrize(("writer", "value", "reader", "seen"), RESOLVED)
def test_a_reader_sees_what_another_schema_wrote(writer: Json, value: object, reader: Json, seen: object) -> None:
    assert decoded(encoded(writer, value), writer, reader) == seen


UNRESOLVED = [
    ("string", "a", "int", "the writer's string cannot be read as int"),
    ("long", 1, "int", "the writer's long cannot be read as int"),
    (record(field("a", "int")), {"a": 1}, record(field("b", "int")), "has no field b, and there is no default"),
    (record(field("a", "int")), {"a": 1}, record(field("a", "int"), name="S"), "record R cannot be read as record S"),
    ("int", 1, ["null", "string"], "no branch for the writer's int"),
    (["null", "int"], None, "int", "null cannot be read as int"),
    ({"type": "fixed", "name": "F", "size": 1}, b"a", {"type": "fixed", "name": "F", "size": 2}, "fixed F cannot"),
    (
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        "B",
        {"type": "enum", "name": "E", "symbols": ["A"]},
        "enum E has no symbol B",
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime(1970, 1, 1, tzinfo=UTC),
        {"type": "long", "logicalType": "local-timestamp-millis"},
        "timestamp-millis cannot be read as local-timestamp-millis",
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        Decimal("1.5"),
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
        "decimal has more digits",
    ),
]


@pytest.mark.parametrize(("writer", "value", "reader", "reason"), UNRESOLVED)
def test_schemas_that_do_not_fit_make_bad_bodies(writer: Json, value: object, reader: Json, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        decoded(encoded(writer, value), writer, reader)


@pytest.mark.parametrize(
    ("kind", "octets", "reason"),
    [
        ("string", "06 66 6f", "3 octets are announced, and 2 are there"),
        ("string", "05 66 6f", "-3 octets are announced"),
        ("bytes", "fe ff ff ff ff ff ff ff ff 01", "9223372036854775807 octets are announced, and 0"),
        ("string", "02 ff", "not UTF-8"),
        ("long", "", "cut or too large"),
        ("long", "80", "cut or too large"),
        ("long", "80 80 80 80 80 80 80 80 80 80 01", "cut or too large"),
        ("long", "ff ff ff ff ff ff ff ff ff 02", "cut or too large"),
        ("int", "80 80 80 80 10", "too large for int"),
        ("boolean", "02", "neither 0 nor 1"),
        ("double", "00 00", "8 octets are announced"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "01", "no symbol -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02", "no symbol 1"),
        (["null", "int"], "01", "no branch -1"),
        (["null", "int"], "04", "no branch 2"),
        (
            {"type": "array", "items": "int"},
            "80 80 80 80 80 80 80 80 40",
            "announces 2305843009213693952 items",
        ),
        ({"type": "array", "items": "int"}, "01 0a 02 00", "a block is longer than the body"),
        ({"type": "array", "items": "int"}, "02 02", "cut"),
        ("int", "02 00", "1 octets are left"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, "04 00 64", "more than 2 digits"),
    ],
)
def test_octets_that_are_no_avro_are_refused(kind: Json, octets: str, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        codec(record(field("x", kind))).decode(bytes.fromhex(octets))


def test_a_map_of_null_has_no_more_entries_than_octets() -> None:
    with pytest.raises(MessageFormatError, match="a block announces 4 items"):
        decoded(bytes.fromhex("08 00 00 00"), {"type": "map", "values": "null"})


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int", 2**31, "x: the number is too large for int"),
        ("int", True, "x: expected int, got bool"),
        ("int", None, "x: expected int, got null"),
        ("string", b"a", "x: expected string, got bytes"),
        ("float", 1e39, "x: the number is too large for float"),
        ("boolean", 1, "x: expected boolean, got int"),
        ({"type": "array", "items": "int"}, [1, None], "x: expected int, got null"),
        ({"type": "map", "values": "int"}, [("a", "b")], "x: expected int, got str"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "x: enum E has no such symbol; there are A"),
        ({"type": "fixed", "name": "F", "size": 2}, b"a", "x: expected 2 octets, got 1"),
        ({"type": "string", "logicalType": "uuid"}, "u", "x: a value is not a UUID"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, Decimal(100), "does not fit 2 digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, Decimal("0.5"), "does not fit 2 digits"),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3}, Decimal(200), "1 octets"),
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2020, 1, 1), "with a time zone, got datetime"),
        ({"type": "int", "logicalType": "date"}, datetime(2020, 1, 1), "expected date, got datetime"),
        (["null", "int", "string"], {"member0": 1, "member1": "a"}, "exactly one has a value"),
        (["int", "string"], None, "expected union, got null"),
        (record(field("y", "int"), name="I"), {"y": "a"}, "x: y: expected int, got str"),
        (record(field("y", "int"), name="I"), {}, "x: y: expected int, got null"),
        (record(field("y", "int"), name="I"), {"y": 1, "z": 1}, "x: record I has no field z; there are y"),
    ],
)
def test_a_value_that_the_schema_does_not_allow_names_its_field(kind: Json, value: object, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        codec(record(field("x", kind))).encode({"x": value})


def test_a_field_without_a_column_has_its_default() -> None:
    schema = record(field("a", "int"), field("b", "string", default="x"), field("c", ["null", "int"]))
    assert codec(schema).encode({"a": 1}) == bytes.fromhex("02 02 78 00")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "it is not JSON"),
        ('"nonsense"', "there is no type nonsense"),
        ("{}", "a type has no word type"),
        ("5", "5 is not a type"),
        ('{"type": "record", "name": "R"}', "the record R has no fields"),
        ('{"type": "record", "fields": []}', "a type record has no name"),
        (json.dumps(record(field("a", "int"), field("A", "int"))), "that of another field"),
        ('{"type": "record", "name": "n.R", "fields": [{"name": "r", "type": ["null", "R"]}]}', "n.R contains itself"),
        ('{"type": "array", "items": "null"}', "the items of an array, null, take no octets"),
        ('{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}', "take no octets"),
        ('{"type": "fixed", "name": "F", "size": -1}', "has no size"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "one of them twice"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}', "not among the symbols"),
        ('["null"]', "no branch but null"),
        ('["null", ["int"]]', "directly in another"),
        ('"null"', "a type is null alone"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 39}', "39 digits"),
        (json.dumps(record(field("a", "int", default="x"))), "default of the field a does not fit"),
        ('{"type": "array", "items":' * (MAX_DEPTH + 1) + '"int"' + "}" * (MAX_DEPTH + 1), "more than 64 deep"),
        ('"' + "x" * 2**20 + '"', "characters"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_in_one_line(schema: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        AvroCodec(AvroPlan(schema))
    assert str(caught.value).startswith("spanwire: an Avro schema cannot be used: ") and "\n" not in str(caught.value)


def test_types_that_multiply_are_refused() -> None:
    fields: list[Json] = [field(f"f{n}", "int") for n in range(10)]
    kinds: list[Json] = [record(*fields, name="T0")]
    for level in range(1, 5):
        uses: list[Json] = [field(f"f{n}", kinds[-1] if n == 0 else f"T{level - 1}") for n in range(10)]
        kinds.append(record(*uses, name=f"T{level}"))
    with pytest.raises(ConfigurationError, match="more than 10000 types"):
        codec(kinds[-1])
    assert codec(kinds[2]).arrow.num_fields == 10
