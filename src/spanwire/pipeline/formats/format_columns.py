"""Spark columns from bodies with a schema, and bodies with a schema from columns.

    orders = messages.select(avro_as(schema).alias("order")).select("order.*")
    bodies = totals.select(avro_body("region", "total", schema=schema))

A schema from a `SchemaRegistry` makes and expects framed bodies, Confluent's wire format. All functions need a running
session. Bodies are converted in Spark's workers, so these need the package `spanwire`, and for Protobuf and JSON the
packages of the extras `protobuf` and `jsonschema`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.formats.codecs import PROTOBUF_FILE_TEXT, PROTOBUF_MESSAGE, codec_of, load_format
from spanwire.pipeline.formats.plans import AvroPlan, JsonPlan, Plan, ProtobufPlan, read_descriptors
from spanwire.pipeline.formats.rows import FAIL, NULL, decode_bodies, decoded_type, encode_values
from spanwire.pipeline.formats.schema_registry import PROTOBUF, RegisteredSchema, SchemaRegistry
from spanwire.pipeline.formats.spark_types import spark_type

BYTES: Final = "bytes"
TEXT: Final = "text"


def avro_as(schema: str | RegisteredSchema, column: str | Column = BYTES, on_error: str = NULL) -> Column:
    """Return the Avro of a bytes body as a struct or another value.

    Args:
        schema: the reader's schema, as JSON or from a registry. With a schema from a registry, bodies are framed, and
            the writer's schema comes from the registry.
        column: the column of bodies.
        on_error: an invalid body becomes null (``null``), ends the query (``fail``), or becomes a row of nulls with the
            reason in the additional field ``_error`` (``column``).

    Raises:
        ConfigurationError: the schema cannot be used.
    """
    return _decoded(AvroPlan(schema), column, on_error)


def protobuf_as(schema: ProtobufPlan, column: str | Column = BYTES, on_error: str = NULL) -> Column:
    """Return the Protobuf message of a bytes body as a struct.

    Args:
        schema: the message type, see `protobuf_schema`.
        column: the column of bodies.
        on_error: as for `avro_as`.

    Raises:
        ConfigurationError: the schema cannot be used, or the package protobuf is missing.
    """
    return _decoded(schema, column, on_error)


def json_as(schema: str | RegisteredSchema, column: str | Column | None = None, on_error: str = NULL) -> Column:
    """Return the JSON of a body, checked with a JSON schema, as a struct or another value.

    Args:
        schema: the schema, as JSON or from a registry. With a schema from a registry, bodies are framed.
        column: the column of bodies, by default ``text``, and ``bytes`` for framed bodies.
        on_error: as for `avro_as`.

    Raises:
        ConfigurationError: the schema cannot be used, or the package jsonschema is missing.
    """
    if column is None:
        column = BYTES if isinstance(schema, RegisteredSchema) else TEXT
    return _decoded(JsonPlan(schema), column, on_error)


def avro_body(*columns: str | Column, schema: str | RegisteredSchema, on_error: str = FAIL) -> Column:
    """Return a bytes body of Avro.

    Args:
        columns: the fields of the record, by name or as columns. A field without a column has its default.
        schema: the schema, as JSON or from a registry. With a schema from a registry, bodies are framed.
        on_error: a row outside the schema ends the query (``fail``) or has a null body (``null``).

    Raises:
        ConfigurationError: the schema cannot be used.
    """
    return _encoded(AvroPlan(schema), columns, on_error).alias(BYTES)


def protobuf_body(*columns: str | Column, schema: ProtobufPlan, on_error: str = FAIL) -> Column:
    """Return a bytes body of Protobuf.

    Args:
        columns: the fields of the message, by name or as columns. A null field is not set.
        schema: the message type, see `protobuf_schema`.
        on_error: as for `avro_body`.

    Raises:
        ConfigurationError: the schema cannot be used, or the package protobuf is missing.
    """
    return _encoded(schema, columns, on_error).alias(BYTES)


def json_body(*columns: str | Column, schema: str | RegisteredSchema, on_error: str = FAIL) -> Column:
    """Return a text body of valid JSON, or a framed bytes body.

    Args:
        columns: the properties of the object, by name or as columns. A null property is left out.
        schema: the schema, as JSON or from a registry. With a schema from a registry, bodies are framed.
        on_error: as for `avro_body`.

    Raises:
        ConfigurationError: the schema cannot be used, or the package jsonschema is missing.
    """
    name = BYTES if isinstance(schema, RegisteredSchema) else TEXT
    return _encoded(JsonPlan(schema), columns, on_error).alias(name)


def protobuf_schema(descriptors: str | Path, message: str, registered: RegisteredSchema | None = None) -> ProtobufPlan:
    """Return a message type of a descriptor file of protoc.

    The command is ``protoc --include_imports --descriptor_set_out=FILE``.

    Args:
        descriptors: the path of the file, read once, on the driver.
        message: the full name of the message type, such as ``shop.Order``.
        registered: a registered schema with the message type; if present, bodies are framed.

    Raises:
        ConfigurationError: the file cannot be read or has no message type with the name, or the package protobuf is
            missing.
    """
    octets = read_descriptors(descriptors)
    cast(Callable[[bytes, str], object], load_format(PROTOBUF_MESSAGE))(octets, message)
    return ProtobufPlan(octets, message, registered)


def register_protobuf(registry: SchemaRegistry, subject: str, schema: ProtobufPlan) -> ProtobufPlan:
    """Register the file of a message type under a subject, unless the subject has the same file already.

    Returns the type with framed bodies.

    Args:
        registry: the registry.
        subject: the name of the subject.
        schema: the message type. The file may import only Google's own files.

    Raises:
        ConfigurationError: the schema cannot be used, or the package protobuf is missing.
        RegistryError: the registry refuses the schema, or does not answer.
    """
    file_text = cast(Callable[[ProtobufPlan], str], load_format(PROTOBUF_FILE_TEXT))
    registered = registry.register(subject, file_text(schema), PROTOBUF)
    return ProtobufPlan(schema.descriptors, schema.message, registered)


def _decoded(plan: Plan, column: str | Column, on_error: str) -> Column:
    kind = decoded_type(codec_of(plan), on_error)

    def decode(bodies: pa.Array) -> pa.Array:
        return decode_bodies(bodies.to_pylist(), codec_of(plan), on_error)

    return F.arrow_udf(decode, spark_type(kind))(F.col(column) if isinstance(column, str) else column)


def _encoded(plan: Plan, columns: tuple[str | Column, ...], on_error: str) -> Column:
    if on_error not in (NULL, FAIL):
        raise ConfigurationError(f"spanwire: on_error is {on_error[:60]!r}; write {NULL} or {FAIL}")

    def encode(rows: pa.Array) -> pa.Array:
        return encode_values(rows.to_pylist(), codec_of(plan), on_error)

    return F.arrow_udf(encode, spark_type(codec_of(plan).body))(F.struct(*columns))
