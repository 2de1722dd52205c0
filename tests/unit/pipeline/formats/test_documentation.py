"""The tables of types in the documentation, row by row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from spanwire.pipeline.formats.codecs import codec_of
from spanwire.pipeline.formats.plans import AvroPlan, JsonPlan, Plan, ProtobufPlan
from spanwire.pipeline.formats.spark_types import spark_type

PAGE = (Path(__file__).parents[4] / "docs/reference/body-types.md").read_text("utf-8")
FIELD = descriptor_pb2.FieldDescriptorProto


def rows(title: str) -> list[tuple[str, str]]:
    """The first two cells of each row that has a type of Spark in backticks."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (.*`) \| ``?([A-Z].*?)``? \|$", section, re.MULTILINE)


def plans() -> list[tuple[Plan, str]]:
    avro: list[tuple[Plan, str]] = [(AvroPlan(schema.strip("`")), kind) for schema, kind in rows("Avro")]
    json = [(JsonPlan(schema.strip("`")), kind) for schema, kind in rows("JSON Schema")]
    return [*avro, *json]


@pytest.mark.parametrize(("plan", "kind"), plans())
def test_a_schema_of_the_page_has_the_type_beside_it(plan: Plan, kind: str) -> None:
    assert spark_type(codec_of(plan).arrow) == kind


SINGLE = [(word, kind) for words, kind in rows("Protobuf") for word in re.findall(r"`(?!repeated)(\w+)`", words)]


@pytest.mark.parametrize(("word", "kind"), SINGLE)
def test_a_type_of_protobuf_has_the_type_beside_it(word: str, kind: str) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    number = FIELD.Type.Value(f"TYPE_{word.upper()}")
    file.message_type.add(name="M").field.add(name="x", number=1, type=number, label=FIELD.LABEL_OPTIONAL)
    octets = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    assert spark_type(codec_of(ProtobufPlan(octets, "M")).arrow) == f"STRUCT<`x`: {kind}>"


def test_the_tables_are_read() -> None:
    assert len(plans()) > 35 and len(SINGLE) == 15
