"""Avro bodies as columns and back, framed or not."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from spanwire.model.errors import MessageFormatError
from spanwire.pipeline.formats.avro.columns import column_type
from spanwire.pipeline.formats.avro.octets import OctetReader
from spanwire.pipeline.formats.avro.reading import Read, check_defaults, compile_reader
from spanwire.pipeline.formats.avro.schema import fault, parse_schema
from spanwire.pipeline.formats.avro.writing import compile_writer
from spanwire.pipeline.formats.plans import AvroPlan
from spanwire.pipeline.formats.schema_registry import AVRO, RegisteredSchema, StoredSchema
from spanwire.pipeline.formats.wire_format import schema_header, split_header
from spanwire.pipeline.formats.writer_schemas import WriterSchemas


class AvroCodec:
    """Decodes bodies of any compatible schema, and encodes with the plan's schema."""

    def __init__(self, plan: AvroPlan) -> None:
        """Raises `ConfigurationError` for a schema without a Spark type."""
        registered = plan.schema if isinstance(plan.schema, RegisteredSchema) else None
        if registered is not None:
            check_stored(registered.stored)
        self._schema: Final = parse_schema(plan.schema if isinstance(plan.schema, str) else plan.schema.text)
        check_defaults(self._schema)
        self.arrow: pa.DataType = column_type(self._schema)
        self.body: pa.DataType = pa.binary()
        self._read: Final = compile_reader(self._schema, self._schema)
        self._write: Final = compile_writer(self._schema)
        self._header: Final = b"" if registered is None else schema_header(registered.id)
        self._writers: Final = (
            None if registered is None else WriterSchemas(registered.registry.schema, AVRO, self._compile)
        )

    def decode(self, body: bytes | str) -> object:
        """Return the value of a body. Raises `MessageFormatError` for an invalid body."""
        if isinstance(body, str):
            raise MessageFormatError("expected a bytes body, got text")
        read, offset = self._read, 0
        if self._writers is not None:
            number, offset = split_header(body)
            read = self._writers.get(number)
        octets = OctetReader(body, offset)
        value = read(octets)
        if octets.left():
            raise MessageFormatError(f"{octets.left()} octets are left behind the value")
        return value

    def encode(self, value: object) -> bytes:
        """Return the body of a value. Raises `MessageFormatError` if the schema does not allow the value."""
        out = bytearray(self._header)
        self._write(out, value)
        return bytes(out)

    def _compile(self, stored: StoredSchema) -> Read:
        check_stored(stored)
        return compile_reader(parse_schema(stored.text), self._schema)


def check_stored(stored: StoredSchema) -> None:
    """Check that a schema of a registry is complete.

    Raises:
        ConfigurationError: the schema is not Avro, or refers to other schemas.
    """
    if stored.kind != AVRO:
        raise fault(f"schema {stored.number} of the registry is {stored.kind}")
    if stored.references:
        raise fault(
            f"schema {stored.number} refers to other schemas ({', '.join(stored.references)}); register it in one piece"
        )
