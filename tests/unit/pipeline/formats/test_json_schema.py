"""JSON bodies with a schema: types of columns, what is valid, and refusals."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats.json_codec import JsonCodec
from spanwire.pipeline.formats.plans import JsonPlan
from spanwire.pipeline.formats.rows import decode_bodies
from spanwire.pipeline.formats.spark_types import spark_type

Json = object


def codec(schema: Json) -> JsonCodec:
    return JsonCodec(JsonPlan(json.dumps(schema)))


def with_x(schema: Json, **more: Json) -> JsonCodec:
    return codec({"type": "object", "properties": {"x": schema}, **more})


TYPES = [
    ({"type": "integer"}, "BIGINT", 5, "5"),
    ({"type": "number"}, "DOUBLE", 1.5, "1.5"),
    ({"type": ["integer", "number", "null"]}, "DOUBLE", 1.5, "1.5"),
    ({"type": "boolean"}, "BOOLEAN", True, "true"),
    ({"type": "string"}, "STRING", "\u00e9", '"\u00e9"'),
    ({"type": "string", "format": "date"}, "DATE", date(2026, 1, 2), '"2026-01-02"'),
    (
        {"type": "string", "format": "date-time"},
        "TIMESTAMP",
        datetime(2026, 1, 2, 3, 4, 5, 60, UTC),
        '"2026-01-02T03:04:05.000060Z"',
    ),
    ({"enum": ["a", "b", None]}, "STRING", "a", '"a"'),
    ({"const": 5}, "BIGINT", 5, "5"),
    ({"type": "array", "items": {"type": ["integer", "null"]}}, "ARRAY<BIGINT>", [1, None], "[1,null]"),
    ({"type": "object", "additionalProperties": {"type": "number"}}, "MAP<STRING, DOUBLE>", [("a", 1.5)], '{"a":1.5}'),
    ({"properties": {"a": {"type": "string"}}}, "STRUCT<`a`: STRING>", {"a": "b"}, '{"a":"b"}'),
    ({"anyOf": [{"type": "null"}, {"type": "string"}]}, "STRING", "a", '"a"'),
    ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "BIGINT", 1, "1"),
    ({"allOf": [{"$ref": "#/$defs/one"}]}, "BIGINT", 1, "1"),
    ({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}, "BIGINT", 1, "1"),
    ({"$ref": "#/$defs/a~1b"}, "STRING", "a", '"a"'),
    ({"type": ["string", "integer"]}, "STRING", "5", "5"),
    ({}, "STRING", '{"a":[1,"b",null]}', '{"a":[1,"b",null]}'),
    (True, "STRING", '"a"', '"a"'),
    ({"type": "object"}, "STRING", '{"a":1}', '{"a":1}'),
    ({"type": "array"}, "STRING", "[1]", "[1]"),
    (
        {"$ref": "#/$defs/tree"},
        "STRUCT<`children`: ARRAY<STRING>>",
        {"children": ['{"children":[]}']},
        '{"children":[{"children":[]}]}',
    ),
]
DEFINITIONS = {
    "one": {"type": "integer"},
    "a/b": {"type": "string"},
    "tree": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
}


@pytest.mark.parametrize(("schema", "column", "value", "text"), TYPES)
def test_each_type_has_a_column_and_goes_both_ways(schema: Json, column: str, value: object, text: str) -> None:
    one = with_x(schema, **{"$defs": DEFINITIONS})
    assert spark_type(one.arrow) == f"STRUCT<`x`: {column}>"
    assert one.encode({"x": value}) == f'{{"x":{text}}}'
    assert decode_bodies([f'{{"x": {text}}}'], one, "fail").to_pylist() == [{"x": value}]


def test_numbers_without_a_fraction_are_integers_and_times_may_have_any_offset() -> None:
    assert with_x({"type": "integer"}).decode('{"x": 5.0}') == {"x": 5}
    stamp = with_x({"type": "string", "format": "date-time"})
    seen = decode_bodies(['{"x": "2026-01-02T03:04:05+02:00"}'], stamp, "fail").to_pylist()
    assert seen == [{"x": datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)}]


def test_null_and_absent_properties() -> None:
    one = codec(
        {
            "type": "object",
            "properties": {"a": {"type": ["string", "null"]}, "b": {"type": ["null", "string"]}, "c": {}},
            "required": ["a"],
        }
    )
    assert one.encode({"a": None, "b": None, "c": None}) == '{"a":null}'
    assert decode_bodies(['{"a": null, "further": 1}'], one, "fail").to_pylist() == [{"a": None, "b": None, "c": None}]
    with pytest.raises(MessageFormatError, match=r"\$ breaks the rule required"):
        with_x({"type": "string"}, required=["x"]).encode({"x": None})


@pytest.mark.parametrize(
    ("schema", "body", "reason"),
    [
        ({"type": "integer"}, '{"x": "secret"}', r"^\$\.x breaks the rule type$"),
        ({"type": "integer", "maximum": 5}, '{"x": 6}', r"^\$\.x breaks the rule maximum$"),
        ({"type": "array", "items": {"type": "integer"}}, '{"x": [1, "a"]}', r"^\$\.x\[1\] breaks the rule type$"),
        ({"type": "integer"}, '{"x": 5', "not JSON"),
        ({"type": "number"}, '{"x": NaN}', "not JSON"),
        ({"type": "integer"}, b'{"x": "\xff"}', "not JSON"),
        ({"type": "integer"}, '{"x": ' + "9" * 5000 + "}", "not JSON"),
        ({"type": "integer"}, '{"x": ' + "[" * 100_000, "not JSON"),
        ({"type": "number"}, '{"x": ' + "9" * 400 + "}", "has no value in Spark"),
        ({"type": "string", "format": "date"}, '{"x": "20260102"}', "has no value in Spark"),
        (
            {"type": "string", "format": "date-time"},
            '{"x": "2026-01-02T03:04:05"}',
            "expected timestamp with a time zone",
        ),
    ],
)
def test_a_body_that_is_not_valid_is_refused_without_its_content(schema: Json, body: str | bytes, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason) as caught:
        with_x(schema).decode(body)
    assert "secret" not in str(caught.value)


def test_a_number_too_large_for_its_column_is_a_bad_body() -> None:
    rows = decode_bodies(['{"x": 9223372036854775808}', '{"x": 1}'], with_x({"type": "integer"}), "column").to_pylist()
    assert rows == [{"x": None, "_error": "a value does not fit the type of its column"}, {"x": 1, "_error": None}]


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"type": "integer"}, {"x": "a"}, "x: expected long, got str"),
        ({"type": "integer"}, {"y": 1}, "the object has no property y; there are x"),
        ({"type": "string", "pattern": "^a"}, {"x": "b"}, r"\$\.x breaks the rule pattern"),
        ({}, {"x": "{"}, "x: a text is not JSON"),
        ({"type": "array", "items": {"type": "string"}}, {"x": [1]}, "x: expected string, got int"),
    ],
)
def test_a_value_that_the_schema_does_not_allow_names_its_property(schema: Json, value: object, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        with_x(schema).encode(value)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ('{"type": "nonsense"}', "nonsense"),
        ('{"$ref": "http://127.0.0.1:9/schema.json"}', "leads out of it; write the definition into it"),
        ('{"properties": {"a": {"items": [{"$ref": "other.json"}]}}}', "leads out of it"),
        ('{"$ref": "#/$defs/none"}', "the reference #/\\$defs/none leads nowhere"),
        ('{"properties": {"a": {}, "A": {}}}', "differ in the case of letters"),
        ('{"properties": {"a": ' * 70 + "{}" + "}}" * 70, "more than 64 deep"),
        (json.dumps({"x": [0] * 100_001}), "more than 100000 parts"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_in_one_line(schema: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        JsonCodec(JsonPlan(schema))
    assert str(caught.value).startswith("spanwire: a JSON schema cannot be used: ") and "\n" not in str(caught.value)
