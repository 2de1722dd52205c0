"""Protobuf bodies: the octets of Protobuf's documentation, each kind of field, and refusals."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats.format_columns import protobuf_schema
from spanwire.pipeline.formats.plans import ProtobufPlan
from spanwire.pipeline.formats.protobuf_codec import ProtobufCodec, find_message, indexes_of
from spanwire.pipeline.formats.rows import decode_bodies
from spanwire.pipeline.formats.spark_types import spark_type

Field = descriptor_pb2.FieldDescriptorProto
OPTIONAL, REPEATED = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED


def file(syntax: str = "proto3", package: str = "shop", imports: tuple[str, ...] = ()) -> Any:
    return descriptor_pb2.FileDescriptorProto(name="shop.proto", package=package, syntax=syntax, dependency=imports)


def add(message: Any, name: str, kind: int, label: int = OPTIONAL, type_name: str = "") -> Any:
    return message.field.add(
        name=name, number=len(message.field) + 1, type=kind, label=label, type_name=type_name or None
    )


def codec(one: Any, name: str) -> ProtobufCodec:
    return ProtobufCodec(ProtobufPlan(descriptor_pb2.FileDescriptorSet(file=[one]).SerializeToString(), name))


def single(kind: int, label: int = OPTIONAL, type_name: str = "", imports: tuple[str, ...] = ()) -> ProtobufCodec:
    """A message with one field x."""
    one = file(imports=imports)
    enum = one.enum_type.add(name="Colour")
    enum.value.add(name="RED", number=0)
    enum.value.add(name="BLUE", number=5)
    inner = one.message_type.add(name="Inner")
    add(inner, "a", Field.TYPE_INT32)
    one.message_type.add(name="Nothing")
    add(one.message_type.add(name="M"), "x", kind, label, type_name)
    return codec(one, "shop.M")


def both_ways(one: ProtobufCodec, value: object, octets: str) -> None:
    assert one.encode({"x": value}) == bytes.fromhex(octets)
    assert decode_bodies([bytes.fromhex(octets)], one, "fail").to_pylist() == [{"x": value}]


# https://protobuf.dev/programming-guides/encoding/ has these messages.
def test_messages_have_the_octets_of_the_documentation() -> None:
    one = file("proto2", "")
    add(one.message_type.add(name="Test1"), "a", Field.TYPE_INT32)
    one.message_type.add(name="Test2").field.add(name="b", number=2, type=Field.TYPE_STRING, label=OPTIONAL)
    one.message_type.add(name="Test3").field.add(
        name="c", number=3, type=Field.TYPE_MESSAGE, label=OPTIONAL, type_name=".Test1"
    )
    test4 = one.message_type.add(name="Test4")
    test4.field.add(name="d", number=4, type=Field.TYPE_STRING, label=OPTIONAL)
    test4.field.add(name="e", number=5, type=Field.TYPE_INT32, label=REPEATED)
    packed = one.message_type.add(name="Test5").field.add(name="f", number=6, type=Field.TYPE_INT32, label=REPEATED)
    packed.options.packed = True
    for name, value, octets in (
        ("Test1", {"a": 150}, "08 96 01"),
        ("Test2", {"b": "testing"}, "12 07 74 65 73 74 69 6e 67"),
        ("Test3", {"c": {"a": 150}}, "1a 03 08 96 01"),
        ("Test4", {"d": "hello", "e": [1, 2, 3]}, "22 05 68 65 6c 6c 6f 28 01 28 02 28 03"),
        ("Test5", {"f": [3, 270, 86942]}, "32 06 03 8e 02 9e a7 05"),
    ):
        assert codec(one, name).encode(value) == bytes.fromhex(octets)
        assert decode_bodies([bytes.fromhex(octets)], codec(one, name), "fail").to_pylist() == [value]


@pytest.mark.parametrize(
    ("kind", "column", "value", "octets"),
    [
        (Field.TYPE_INT32, "INT", -1, "08 ff ff ff ff ff ff ff ff ff 01"),
        (Field.TYPE_SINT32, "INT", -1, "08 01"),
        (Field.TYPE_SFIXED32, "INT", -1, "0d ff ff ff ff"),
        (Field.TYPE_UINT32, "BIGINT", 2**32 - 1, "08 ff ff ff ff 0f"),
        (Field.TYPE_FIXED32, "BIGINT", 1, "0d 01 00 00 00"),
        (Field.TYPE_INT64, "BIGINT", 1, "08 01"),
        (Field.TYPE_SINT64, "BIGINT", -2, "08 03"),
        (Field.TYPE_SFIXED64, "BIGINT", 1, "09 01 00 00 00 00 00 00 00"),
        (Field.TYPE_UINT64, "DECIMAL(20, 0)", Decimal(2**64 - 1), "08 ff ff ff ff ff ff ff ff ff 01"),
        (Field.TYPE_FIXED64, "DECIMAL(20, 0)", Decimal(1), "09 01 00 00 00 00 00 00 00"),
        (Field.TYPE_FLOAT, "FLOAT", 1.5, "0d 00 00 c0 3f"),
        (Field.TYPE_DOUBLE, "DOUBLE", 1.5, "09 00 00 00 00 00 00 f8 3f"),
        (Field.TYPE_BOOL, "BOOLEAN", True, "08 01"),
        (Field.TYPE_STRING, "STRING", "a", "0a 01 61"),
        (Field.TYPE_BYTES, "BINARY", b"\xff", "0a 01 ff"),
    ],
)
def test_each_type_has_a_column_and_goes_both_ways(kind: int, column: str, value: object, octets: str) -> None:
    assert spark_type(single(kind).arrow) == f"STRUCT<`x`: {column}>"
    both_ways(single(kind), value, octets)


def test_enums_messages_and_lists_of_them_go_both_ways() -> None:
    both_ways(single(Field.TYPE_ENUM, type_name=".shop.Colour"), "BLUE", "08 05")
    both_ways(single(Field.TYPE_ENUM, type_name=".shop.Colour"), "7", "08 07")  # one of a newer schema
    both_ways(single(Field.TYPE_MESSAGE, type_name=".shop.Inner"), {"a": 1}, "0a 02 08 01")
    both_ways(single(Field.TYPE_MESSAGE, type_name=".shop.Inner"), None, "")
    both_ways(single(Field.TYPE_MESSAGE, REPEATED, ".shop.Inner"), [{"a": 1}, {"a": 0}], "0a 02 08 01 0a 00")
    both_ways(single(Field.TYPE_MESSAGE, type_name=".shop.Nothing"), True, "0a 00")
    both_ways(single(Field.TYPE_MESSAGE, type_name=".shop.Nothing"), None, "")
    assert spark_type(single(Field.TYPE_MESSAGE, type_name=".shop.Nothing").arrow) == "STRUCT<`x`: BOOLEAN>"


def well_known(name: str, source: str) -> ProtobufCodec:
    """Google's own files come with the package: these descriptors lack them."""
    return single(
        Field.TYPE_MESSAGE, type_name=f".google.protobuf.{name}", imports=(f"google/protobuf/{source}.proto",)
    )


def test_well_known_messages_have_columns_of_their_own() -> None:
    stamp = well_known("Timestamp", "timestamp")
    assert spark_type(stamp.arrow) == "STRUCT<`x`: TIMESTAMP>"
    both_ways(stamp, datetime(1970, 1, 1, 0, 0, 1, 5, UTC), "0a 05 08 01 10 88 27")
    both_ways(stamp, datetime(1969, 12, 31, 23, 59, 59, 500_000, UTC), "0a 11 08" + "ff" * 9 + "01 10 80 ca b5 ee 01")
    span = well_known("Duration", "duration")
    assert spark_type(span.arrow) == "STRUCT<`x`: INTERVAL DAY TO SECOND>"
    both_ways(span, timedelta(seconds=1, microseconds=5), "0a 05 08 01 10 88 27")
    both_ways(span, -timedelta(seconds=1, microseconds=5), "0a 16 08" + "ff" * 9 + "01 10 f8 d8" + "ff" * 7 + "01")
    wrapped = well_known("Int64Value", "wrappers")
    assert spark_type(wrapped.arrow) == "STRUCT<`x`: BIGINT>"
    for value, octets in ((None, ""), (0, "0a 00"), (7, "0a 02 08 07")):
        both_ways(wrapped, value, octets)
    document = well_known("Struct", "struct")
    both_ways(document, '{"a": 1.5}', "0a 10 0a 0e 0a 01 61 12 09 11 00 00 00 00 00 00 f8 3f")
    with pytest.raises(MessageFormatError, match="x: a text is not JSON for the message type"):
        document.encode({"x": "[1]"})


def test_presence_decides_between_null_and_the_default() -> None:
    one = file()
    message = one.message_type.add(name="M")
    add(message, "plain", Field.TYPE_INT32)
    optional = add(message, "maybe", Field.TYPE_INT32)
    optional.proto3_optional, optional.oneof_index = True, 1
    for name in ("left", "right"):
        add(message, name, Field.TYPE_STRING).oneof_index = 0
    message.oneof_decl.add(name="side")
    message.oneof_decl.add(name="_maybe")
    both = codec(one, "shop.M")
    nothing = {"plain": 0, "maybe": None, "left": None, "right": None}
    assert decode_bodies([b""], both, "fail").to_pylist() == [nothing]
    assert both.encode(nothing) == b""
    some = {"plain": 0, "maybe": 0, "left": None, "right": ""}
    assert decode_bodies([both.encode(some)], both, "fail").to_pylist() == [some]
    with pytest.raises(MessageFormatError, match="of left, right at most one has a value"):
        both.encode({"left": "a", "right": "b"})


def test_maps_go_both_ways() -> None:
    one = file()
    add(one.message_type.add(name="Inner"), "a", Field.TYPE_INT32)
    message = one.message_type.add(name="M")
    for name, kind, type_name in (("Counts", Field.TYPE_INT32, ""), ("Inners", Field.TYPE_MESSAGE, ".shop.Inner")):
        entry = message.nested_type.add(name=f"{name}Entry")
        entry.options.map_entry = True
        add(entry, "key", Field.TYPE_STRING)
        add(entry, "value", kind, OPTIONAL, type_name)
        add(message, name.lower(), Field.TYPE_MESSAGE, REPEATED, f".shop.M.{name}Entry")
    both = codec(one, "shop.M")
    assert spark_type(both.arrow) == "STRUCT<`counts`: MAP<STRING, INT>, `inners`: MAP<STRING, STRUCT<`a`: INT>>>"
    value = {"counts": [("a", 1)], "inners": [("b", {"a": 2})]}
    body = both.encode(value)
    assert body == bytes.fromhex("0a 05 0a 01 61 10 01 12 07 0a 01 62 12 02 08 02")
    assert decode_bodies([body], both, "fail").to_pylist() == [value]


def test_unknown_fields_are_passed_over_and_rubbish_is_refused() -> None:
    one = single(Field.TYPE_STRING)
    assert one.decode(bytes.fromhex("0a 01 61 78 05")) == {"x": "a"}
    for octets in ("0a 05 61", "ff", "0a 01 ff"):
        with pytest.raises(MessageFormatError, match=r"the body is not a message shop\.M"):
            one.decode(bytes.fromhex(octets))


@pytest.mark.parametrize(
    ("one", "value", "reason"),
    [
        (single(Field.TYPE_INT32), 2**31, "x: the number is too large for int"),
        (single(Field.TYPE_UINT32), -1, "x: the number is too large for uint32"),
        (single(Field.TYPE_STRING), 5, "x: expected string, got int"),
        (single(Field.TYPE_ENUM, type_name=".shop.Colour"), "GREEN", "Colour has no such value; there are RED, BLUE"),
        (single(Field.TYPE_INT32, REPEATED), [1, None], "x: expected array without null, got list"),
        (single(Field.TYPE_MESSAGE, type_name=".shop.Inner"), {"b": 1}, "x: the message shop.Inner has no field b"),
    ],
)
def test_a_value_that_the_message_does_not_allow_names_its_field(
    one: ProtobufCodec, value: object, reason: str
) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        one.encode({"x": value})


def test_a_required_field_of_proto2_is_not_left_out() -> None:
    one = file("proto2")
    add(one.message_type.add(name="M"), "x", Field.TYPE_INT32, Field.LABEL_REQUIRED)
    with pytest.raises(MessageFormatError, match="required"):
        codec(one, "shop.M").encode({"x": None})


def test_a_message_that_contains_itself_is_refused() -> None:
    one = file()
    add(one.message_type.add(name="Tree"), "children", Field.TYPE_MESSAGE, REPEATED, ".shop.Tree")
    with pytest.raises(ConfigurationError, match=r"the message shop\.Tree contains itself"):
        codec(one, "shop.Tree")


def test_descriptors_without_the_message_and_octets_that_are_none_are_refused() -> None:
    one = file(imports=("other.proto",))
    add(one.message_type.add(name="M"), "x", Field.TYPE_INT32)
    with pytest.raises(ConfigurationError, match=r"not complete.*; add --include_imports"):
        codec(one, "shop.M")
    with pytest.raises(ConfigurationError, match="make such a file with protoc"):
        ProtobufCodec(ProtobufPlan(b"nonsense", "M"))
    del one.dependency[:]
    with pytest.raises(ConfigurationError, match=r"there is no message shop\.N; there are shop\.M$"):
        codec(one, "shop.N")


def test_names_in_descriptors_import_nothing() -> None:
    one = descriptor_pb2.FileDescriptorProto(
        name="os.proto", package="tests.support", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    add(one.message_type.add(name="spark_faults"), "x", Field.TYPE_INT32)
    before = set(sys.modules)
    assert codec(one, "tests.support.spark_faults").encode({"x": 1}) == b"\x08\x01"
    assert set(sys.modules) - before == set()


def test_the_path_to_a_message_counts_messages_from_zero() -> None:
    one = file()
    one.message_type.add(name="First")
    outer = one.message_type.add(name="Outer")
    outer.nested_type.add(name="A")
    outer.nested_type.add(name="B")
    octets = descriptor_pb2.FileDescriptorSet(file=[one]).SerializeToString()
    assert indexes_of(find_message(octets, "shop.First")) == [0]
    assert indexes_of(find_message(octets, "shop.Outer")) == [1]
    assert indexes_of(find_message(octets, "shop.Outer.B")) == [1, 1]


def test_a_schema_with_an_unknown_message_is_refused_with_the_names_of_the_descriptors(tmp_path: Path) -> None:
    one = file()
    add(one.message_type.add(name="Order"), "id", Field.TYPE_INT32)
    path = tmp_path / "order.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[one]).SerializeToString())
    assert protobuf_schema(path, "shop.Order").message == "shop.Order"
    with pytest.raises(ConfigurationError, match=r"there is no message Order; there are shop\.Order$"):
        protobuf_schema(path, "Order")
