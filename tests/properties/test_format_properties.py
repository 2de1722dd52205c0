"""Bodies with a schema, of any schema and value: Avro beside fastavro, Protobuf and JSON there and back, and octets of
no sense.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping

import fastavro
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.errors import MessageFormatError
from spanwire.pipeline.formats.avro.codec import AvroCodec
from spanwire.pipeline.formats.codecs import codec_of
from spanwire.pipeline.formats.json_codec import JsonCodec
from spanwire.pipeline.formats.plans import AvroPlan, JsonPlan, ProtobufPlan
from spanwire.pipeline.formats.protobuf_codec import ProtobufCodec
from spanwire.pipeline.formats.rows import COLUMN, decode_bodies

Shape = tuple[object, st.SearchStrategy[object]]  # a schema of Avro and values in Arrow's form

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SINGLE: list[Shape] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=5)),
    ("string", TEXTS),
    ({"type": "enum", "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")),
    ({"type": "fixed", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4},
        st.decimals(-(10**30), 10**30, places=4, allow_nan=False),
    ),
]


def named(schema: object, name: str) -> object:
    """A type that needs a name gets one of its own."""
    needs_name = isinstance(schema, dict) and schema["type"] in ("enum", "fixed", "record")
    return {**schema, "name": name} if needs_name and isinstance(schema, dict) else schema


@st.composite
def shapes(draw: st.DrawFn, depth: int = 0, name: str = "R") -> Shape:
    """A type of Avro and its values."""
    choice = draw(st.integers(0, 9 if depth < 3 else 5))
    if choice < 6:
        schema, values = draw(st.sampled_from(SINGLE))
        return named(schema, f"{name}S"), values
    if choice < 9:
        inner, values = draw(shapes(depth + 1, f"{name}I"))
        if choice == 6:
            return {"type": "array", "items": inner}, st.lists(values, max_size=3)
        if choice == 7:
            return {"type": "map", "values": inner}, st.dictionaries(TEXTS, values, max_size=3).map(entries)
        return (["null", inner], st.none() | values) if not isinstance(inner, list) else (inner, values)
    return draw(records(depth + 1, f"{name}R"))


def entries(values: Mapping[str, object]) -> object:
    """A map in Arrow's form."""
    return list(values.items())


@st.composite
def records(draw: st.DrawFn, depth: int = 0, name: str = "R") -> Shape:
    inner = [draw(shapes(depth, f"{name}{place}")) for place in range(draw(st.integers(1, 4)))]
    fields = [{"name": f"f{place}", "type": schema} for place, (schema, _) in enumerate(inner)]
    values = st.fixed_dictionaries({f"f{place}": values for place, (_, values) in enumerate(inner)})
    return {"type": "record", "name": name, "fields": fields}, values.map(dict)


def plain(value: object) -> object:
    """A value without the difference between maps and lists of pairs."""
    if isinstance(value, dict):
        return plain(list(value.items()))
    if isinstance(value, list):
        inner = [plain(one) for one in value]
        return sorted(inner, key=str) if inner and all(isinstance(one, tuple) for one in value) else inner
    if isinstance(value, tuple):
        return (value[0], plain(value[1]))
    return value


@pytest.mark.large
@given(st.data())
def test_avro_is_that_of_fastavro_in_both_directions(data: st.DataObject) -> None:
    schema, values = data.draw(records())
    value = data.draw(values)
    codec = AvroCodec(AvroPlan(json.dumps(schema)))
    body = codec.encode(value)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    seen = fastavro.schemaless_reader(io.BytesIO(body), parsed, None)
    assert plain(seen) == plain(value)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, parsed, seen)
    assert written.getvalue() == body
    assert plain(decode_bodies([body], codec, "fail").to_pylist()[0]) == plain(value)


@given(st.data())
def test_octets_of_no_sense_are_refused_or_read_and_end_nothing(data: st.DataObject) -> None:
    schema, values = data.draw(records())
    codec = AvroCodec(AvroPlan(json.dumps(schema)))
    body = bytearray(codec.encode(data.draw(values)))
    if body:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    rows = decode_bodies([bytes(body), cut, data.draw(st.binary(max_size=20))], codec, COLUMN)
    assert len(rows) == 3


PROTO_SCALARS = [
    (descriptor_pb2.FieldDescriptorProto.TYPE_INT32, st.integers(-(2**31), 2**31 - 1)),
    (descriptor_pb2.FieldDescriptorProto.TYPE_SINT64, st.integers(-(2**63), 2**63 - 1)),
    (descriptor_pb2.FieldDescriptorProto.TYPE_FIXED32, st.integers(0, 2**32 - 1)),
    (descriptor_pb2.FieldDescriptorProto.TYPE_UINT64, st.integers(0, 2**64 - 1)),
    (descriptor_pb2.FieldDescriptorProto.TYPE_BOOL, st.booleans()),
    (descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT, st.floats(width=32, allow_nan=False)),
    (descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE, st.floats(allow_nan=False)),
    (descriptor_pb2.FieldDescriptorProto.TYPE_STRING, TEXTS),
    (descriptor_pb2.FieldDescriptorProto.TYPE_BYTES, st.binary(max_size=5)),
]


@given(st.data())
def test_protobuf_goes_there_and_back(data: st.DataObject) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="any.proto", syntax="proto3")
    message = file.message_type.add(name="Any")
    value: dict[str, object] = {}
    for number in range(1, data.draw(st.integers(1, 6)) + 1):
        kind, values = data.draw(st.sampled_from(PROTO_SCALARS))
        is_list = data.draw(st.booleans())
        label = 3 if is_list else 1
        message.field.add(name=f"f{number}", number=number, type=kind, label=label)
        value[f"f{number}"] = data.draw(st.lists(values, max_size=3) if is_list else values)
    codec = ProtobufCodec(ProtobufPlan(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "Any"))
    body = codec.encode(value)
    assert decode_bodies([body], codec, "fail").to_pylist() == [value]
    rubbish = data.draw(st.binary(max_size=20))
    assert len(decode_bodies([rubbish, body[:-1]], codec, COLUMN)) == 2


JSON_SHAPES: list[tuple[dict[str, object], st.SearchStrategy[object]]] = [
    ({"type": "integer"}, st.integers(-(2**63), 2**63 - 1)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False)),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "string"}, TEXTS),
    ({"type": "string", "format": "date"}, st.dates()),
    ({"type": "array", "items": {"type": ["integer", "null"]}}, st.lists(st.none() | st.integers(0, 9), max_size=3)),
    ({"type": "object", "additionalProperties": {"type": "string"}}, st.dictionaries(TEXTS, TEXTS).map(entries)),
]


@given(st.data())
def test_json_goes_there_and_back(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(JSON_SHAPES), min_size=1, max_size=5))
    names = [f"p{place}" for place in range(len(chosen))]
    properties = {name: schema for name, (schema, _) in zip(names, chosen, strict=True)}
    value = {name: data.draw(st.none() | values) for name, (_, values) in zip(names, chosen, strict=True)}
    codec = JsonCodec(JsonPlan(json.dumps({"type": "object", "properties": properties})))
    body = codec.encode(value)
    assert decode_bodies([body], codec, "fail").to_pylist() == [value]


@pytest.mark.large
@given(st.text() | st.binary(max_size=20).map(lambda octets: octets.decode("latin-1")))
def test_texts_of_no_sense_are_refused_or_read(text: str) -> None:
    codec = codec_of(JsonPlan('{"type": "object", "properties": {"a": {"type": "integer"}}}'))
    assert len(decode_bodies([text, f'{{"a": {text}}}'], codec, COLUMN)) == 2


def test_infinite_numbers_are_no_json() -> None:
    codec = codec_of(JsonPlan('{"type": "object", "properties": {"a": {"type": "number"}}}'))
    for number in (math.inf, -math.inf, math.nan):
        with pytest.raises(MessageFormatError, match="infinite"):
            codec.encode({"a": number})
