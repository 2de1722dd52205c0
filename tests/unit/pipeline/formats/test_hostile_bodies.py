"""Bodies and schemas that would end a query, or take it more time than anybody has."""

from __future__ import annotations

import json
import sys
from types import FrameType
from typing import Any, Final

import pytest
from google.protobuf import descriptor_pb2, struct_pb2

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.formats import json_codec
from spanwire.pipeline.formats.avro import defaults
from spanwire.pipeline.formats.avro.codec import AvroCodec
from spanwire.pipeline.formats.json_codec import JsonCodec
from spanwire.pipeline.formats.plans import AvroPlan, JsonPlan, ProtobufPlan
from spanwire.pipeline.formats.protobuf_codec import ProtobufCodec
from spanwire.pipeline.formats.rows import NULL, Codec, decode_bodies

Field = descriptor_pb2.FieldDescriptorProto
GROWTH: Final = 1.5
DRAFTS: Final = ("", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema")


def json_codec_of(**schema: Any) -> JsonCodec:
    return JsonCodec(JsonPlan(json.dumps({"type": "object", **schema})))


def of_draft(draft: str) -> dict[str, str]:
    return {"$schema": draft} if draft else {}


def are_null(codec: Codec, *bodies: bytes | str) -> list[bool]:
    return [value is None for value in decode_bodies(bodies, codec, NULL).to_pylist()]


def lines_of(codec: Codec, body: str) -> int:
    """Return how many lines of Python read a body."""
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        decode_bodies([body], codec, NULL)
    finally:
        sys.settrace(None)
    return lines


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_ends_no_query(number: float) -> None:
    one = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/struct.proto"]
    )
    one.message_type.add(name="Order").field.add(
        name="x", number=1, type=Field.TYPE_MESSAGE, label=Field.LABEL_OPTIONAL, type_name=".google.protobuf.Value"
    )
    files = descriptor_pb2.FileDescriptorSet(file=[one]).SerializeToString()
    codec = ProtobufCodec(ProtobufPlan(files, "shop.Order"))

    def body(value: float) -> bytes:
        inner: bytes = struct_pb2.Value(number_value=value).SerializeToString()
        return b"\x0a" + bytes([len(inner)]) + inner

    assert are_null(codec, body(number), body(1.5)) == [True, False]


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 4_200, "1e999", "-1e999"])
@pytest.mark.parametrize(
    "rule", [{"multipleOf": 0.5}, {"multipleOf": 3}, {"maximum": 5.5, "minimum": 0}, {"enum": [1]}]
)
def test_a_number_that_a_rule_cannot_be_applied_to_ends_no_query(number: str, rule: dict[str, object]) -> None:
    codec = json_codec_of(properties={"a": {"type": "number", **rule}})
    assert are_null(codec, f'{{"a":{number}}}', "{}") == [True, False]


@pytest.mark.parametrize("draft", DRAFTS)
def test_equal_items_are_found_in_one_pass(draft: str) -> None:
    codec = json_codec_of(
        definitions={"set": {"type": "array", "uniqueItems": True, **of_draft(draft)}},
        properties={"a": {"$ref": "#/definitions/set"}},
    )

    def body(count: int) -> str:
        return json.dumps({"a": [{"n": number} for number in range(count)]})

    assert lines_of(codec, body(400)) < GROWTH * 2 * lines_of(codec, body(200))
    assert are_null(codec, body(20_000)) == [False]


@pytest.mark.parametrize(
    ("items", "is_unique"),
    [
        ("[1, 1.0]", False),
        ("[1, true]", True),
        ('[0, false, null, "", [], {}]', True),
        ('[{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]', False),
        ("[[1], [true]]", True),
        ("[1e999, 1e999]", False),
        ('["a", "\\u0061"]', False),
    ],
)
def test_items_are_equal_as_in_the_standard(items: str, is_unique: bool) -> None:
    codec = json_codec_of(properties={"a": {"type": "array", "uniqueItems": True}}, required=["a"])
    assert are_null(codec, f'{{"a": {items}}}', "{}")[0] is not is_unique


@pytest.mark.parametrize("inner", DRAFTS)
@pytest.mark.parametrize("draft", DRAFTS)
def test_alternatives_that_refer_to_each_other_do_not_multiply_for_ever(draft: str, inner: str) -> None:
    def term(name: str) -> dict[str, object]:
        return {"type": "object", "properties": {"op": {"const": name}, "left": {"$ref": "#/definitions/term"}}}

    schema: dict[str, Any] = {
        "definitions": {"term": {"oneOf": [term("and"), term("or")], **of_draft(inner)}},
        "properties": {"term": {"$ref": "#/definitions/term"}},
        **of_draft(draft),
    }
    codec = json_codec_of(**schema)

    def body(depth: int) -> str:
        value: dict[str, object] = {"op": "or"}
        for _ in range(depth):
            value = {"op": "or", "left": value}
        return json.dumps({"term": value})

    assert are_null(codec, body(6), body(12), body(3)) == [False, True, False]
    assert are_null(codec, body(60)) == [True]


def test_a_long_list_of_references_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_codec, "STEPS", 10)
    codec = json_codec_of(
        definitions={"number": {"type": "integer"}},
        properties={"a": {"type": "array", "items": {"$ref": "#/definitions/number"}}},
    )
    assert are_null(codec, json.dumps({"a": [7] * 5_000})) == [False]


def test_defaults_that_multiply_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(depth: int) -> dict[str, Any]:
        if depth == 0:
            return {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int", "default": 0}]}
        items = {"type": "array", "items": record(depth - 1)}
        return {"type": "record", "name": f"R{depth}", "fields": [{"name": "a", "type": items, "default": [{}] * 20}]}

    AvroCodec(AvroPlan(json.dumps(record(2))))
    with pytest.raises(ConfigurationError, match="the defaults of the schema have more than 100000 values"):
        AvroCodec(AvroPlan(json.dumps(record(12))))
    monkeypatch.setattr(defaults, "MAX_VALUES", 100)
    with pytest.raises(ConfigurationError, match="more than 100 values"):
        AvroCodec(AvroPlan(json.dumps(record(2))))
