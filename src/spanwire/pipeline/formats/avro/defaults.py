"""Default values of fields, converted from the schema's JSON to Avro's binary encoding.

Readers and writers treat the encoded defaults like octets of a body, so this module needs no code for logical types.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import MessageFormatError
from spanwire.pipeline.formats import leaves
from spanwire.pipeline.formats.avro import kinds
from spanwire.pipeline.formats.avro.octets import DOUBLE_FORM, FLOAT_FORM, write_long, write_octets
from spanwire.pipeline.formats.avro.schema import AvroSchema

MAX_VALUES: Final = 100_000  # of all defaults of a schema; bounds its check on the driver


class DefaultWriter:
    """Writes the defaults of one schema.

    The number of values is limited: a default of ten empty records, whose own field has ten such records as a default,
    and so on, multiplies.
    """

    def __init__(self) -> None:
        self._left = MAX_VALUES
        self._out = bytearray()

    def octets(self, schema: AvroSchema, default: object) -> bytes:
        """Return a default in the binary encoding.

        Raises:
            MessageFormatError: the default does not fit the type, or the defaults have too many values.
        """
        self._out = bytearray()
        self._write(schema, default)
        return bytes(self._out)

    def _write(self, schema: AvroSchema, default: object) -> None:
        self._left -= 1
        if self._left < 0:
            raise MessageFormatError(f"the defaults of the schema have more than {MAX_VALUES} values")
        kind = schema.kind
        if kind == kinds.UNION:
            self._write_union(schema, default)
        elif kind == kinds.RECORD and isinstance(default, dict):
            for field in schema.fields:
                self._write(field.schema, default.get(field.name, field.default))
        elif kind == kinds.ARRAY and isinstance(default, list):
            self._write_block(schema.inner[0], [(b"", item) for item in default])
        elif kind == kinds.MAP and isinstance(default, dict):
            self._write_block(schema.inner[0], [(_key(key), item) for key, item in default.items()])
        elif kind == kinds.ENUM and default in schema.symbols:
            write_long(self._out, schema.symbols.index(str(default)))
        else:
            _write_single(schema, default, self._out)

    def _write_block(self, schema: AvroSchema, entries: list[tuple[bytes, object]]) -> None:
        """Write the items of an array, or the keys and values of a map."""
        if entries:
            write_long(self._out, len(entries))
        for key, item in entries:
            self._out += key
            self._write(schema, item)
        write_long(self._out, 0)

    def _write_union(self, schema: AvroSchema, default: object) -> None:
        """Write a default as the first matching branch of a union.

        Before version 1.12 the specification allowed only the first branch.
        """
        begin = len(self._out)
        for index, branch in enumerate(schema.inner):
            write_long(self._out, index)
            try:
                self._write(branch, default)
            except MessageFormatError:
                del self._out[begin:]
                continue
            return
        raise MessageFormatError("a default fits no branch of its union")


def _key(key: str) -> bytes:
    out = bytearray()
    write_octets(out, key.encode())
    return bytes(out)


def _write_single(schema: AvroSchema, default: object, out: bytearray) -> None:
    kind = schema.kind
    if kind == kinds.NULL and default is None:
        return
    if kind == kinds.BOOLEAN and isinstance(default, bool):
        out.append(int(default))
    elif kind in (kinds.INT, kinds.LONG):
        number = leaves.LONG.write(default)
        assert isinstance(number, int)
        write_long(out, number)
    elif kind == kinds.FLOAT:
        out += FLOAT_FORM.pack(leaves.single_floating(default))
    elif kind == kinds.DOUBLE:
        out += DOUBLE_FORM.pack(leaves.floating(default))
    elif kind == kinds.STRING and isinstance(default, str):
        write_octets(out, default.encode())
    elif kind == kinds.BYTES and isinstance(default, str):
        write_octets(out, _latin(default))
    elif kind == kinds.FIXED and isinstance(default, str) and len(default) == schema.size:
        out += _latin(default)
    else:
        raise MessageFormatError(f"the default does not fit the type {schema.label}")


def _latin(default: str) -> bytes:
    """Return the octets of a JSON string with characters up to U+00FF."""
    try:
        return default.encode("latin-1")
    except UnicodeEncodeError:
        raise MessageFormatError("a default of octets has a character above U+00FF") from None
