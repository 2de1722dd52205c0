"""Avro schemas as trees, checked before any body is read.

Recursive records are refused, because Spark has no recursive types. Arrays with items of zero octets are refused,
because a body of ten octets could announce any number of such items.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB
from spanwire.pipeline.formats.avro import kinds
from spanwire.pipeline.formats.leaves import MAX_DECIMAL_DIGITS

MAX_SCHEMA_CHARACTERS: Final = MIB  # registries refuse larger schemas
MAX_DEPTH: Final = 64  # types within types; bounds the recursion of a reader
MAX_TYPES: Final = 10_000  # counted at each use, because ten types that each use the next ten times make ten billion

# The smallest size of a value, in octets.
PRIMITIVES: Final[dict[str, int]] = {
    kinds.NULL: 0,
    kinds.BOOLEAN: 1,
    kinds.INT: 1,
    kinds.LONG: 1,
    kinds.FLOAT: 4,
    kinds.DOUBLE: 8,
    kinds.BYTES: 1,
    kinds.STRING: 1,
}
UUID_OCTETS: Final = 16
# Logical types with a Spark type, and their underlying types. Other logical types are read as the underlying type.
LOGICAL: Final[dict[str, tuple[str, ...]]] = {
    kinds.DECIMAL: (kinds.BYTES, kinds.FIXED),
    kinds.DATE: (kinds.INT,),
    kinds.UUID: (kinds.STRING, kinds.FIXED),
    kinds.TIMESTAMP_MILLIS: (kinds.LONG,),
    kinds.TIMESTAMP_MICROS: (kinds.LONG,),
    kinds.LOCAL_MILLIS: (kinds.LONG,),
    kinds.LOCAL_MICROS: (kinds.LONG,),
}


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record; ``default`` is JSON."""

    name: str
    schema: AvroSchema
    aliases: tuple[str, ...]
    has_default: bool
    default: object


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """An Avro type, with the types of fields, items, values or branches.

    Attributes:
        kind: a type of `kinds`, such as ``int`` or ``record``.
        logical: a logical type of `kinds`, or empty.
        least: the smallest size of a value in octets.
        types: the number of types in this schema, counted at every use.
        name: the full name of a record, enum or fixed.
        inner: the items of an array, the values of a map, or the branches of a union.
    """

    kind: str
    least: int
    types: int = 1
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    fields: tuple[AvroField, ...] = ()
    inner: tuple[AvroSchema, ...] = ()

    @property
    def label(self) -> str:
        """The name for errors."""
        return f"{self.kind} {self.name}" if self.name else self.kind


def parse_schema(text: str) -> AvroSchema:
    """Return the tree of a schema.

    Raises:
        ConfigurationError: the text is not an Avro schema, or the schema has no Spark type.
    """
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise fault(f"it has more than {MAX_SCHEMA_CHARACTERS} characters")
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(f"it is not JSON: {error}") from None
    return _Parser().parse(document, "", 1)


def fault(reason: str) -> ConfigurationError:
    """Return the error for a schema."""
    return ConfigurationError(f"spanwire: an Avro schema cannot be used: {reason[:300]}")


class _Parser:
    """Parses one schema, and keeps the named types."""

    def __init__(self) -> None:
        self._types: Final[dict[str, AvroSchema]] = {}
        self._open: Final[set[str]] = set()

    def parse(self, node: object, namespace: str, depth: int) -> AvroSchema:
        if depth > MAX_DEPTH:
            raise fault(f"types are nested more than {MAX_DEPTH} deep")
        if isinstance(node, str):
            return self._named(node, namespace)
        if isinstance(node, list):
            return self._union(node, namespace, depth)
        if not isinstance(node, dict):
            raise fault(f"{json.dumps(node)[:60]} is not a type")
        kind = node.get("type")
        if kind in (kinds.RECORD, "error", kinds.ENUM, kinds.FIXED):
            return self._definition(node, str(kind), namespace, depth)
        if kind == kinds.ARRAY or kind == kinds.MAP:
            inner = self.parse(node.get("items" if kind == kinds.ARRAY else "values"), namespace, depth + 1)
            if kind == kinds.ARRAY and inner.least == 0:
                raise fault(f"the items of an array, {inner.label}, take no octets")
            return AvroSchema(kind, 1, count_types([inner]), inner=(inner,))
        if isinstance(kind, str) and kind in PRIMITIVES:
            return with_logical(AvroSchema(kind, PRIMITIVES[kind]), node)
        if kind is None:
            raise fault("a type has no word type")
        return self.parse(kind, namespace, depth + 1)

    def _named(self, name: str, namespace: str) -> AvroSchema:
        if name in PRIMITIVES:
            return AvroSchema(name, PRIMITIVES[name])
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for candidate in (full, name):
            if candidate in self._open:
                raise fault(f"the record {candidate} contains itself, and Spark has no such type")
            if candidate in self._types:
                return self._types[candidate]
        raise fault(f"there is no type {name[:60]}")

    def _union(self, node: list[object], namespace: str, depth: int) -> AvroSchema:
        branches = tuple(self.parse(branch, namespace, depth + 1) for branch in node)
        if not branches or any(branch.kind == kinds.UNION for branch in branches):
            raise fault("a union is empty or directly in another")
        return AvroSchema(kinds.UNION, 1, count_types(branches), inner=branches)

    def _definition(self, node: dict[str, object], kind: str, namespace: str, depth: int) -> AvroSchema:
        name, own = node.get("name"), node.get("namespace")
        if not isinstance(name, str) or not name:
            raise fault(f"a type {kind} has no name")
        inside = own if isinstance(own, str) else namespace
        full = name if "." in name or not inside else f"{inside}.{name}"
        if full in self._types or full in self._open:
            raise fault(f"the type {full} is defined twice")
        aliases = texts(node.get("aliases"), "aliases")
        if kind == kinds.ENUM:
            schema = self._enum(node, full, aliases)
        elif kind == kinds.FIXED:
            size = node.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise fault(f"the fixed {full} has no size")
            schema = with_logical(AvroSchema(kinds.FIXED, size, name=full, aliases=aliases, size=size), node)
        else:
            self._open.add(full)
            fields = self._fields(node.get("fields"), full, full.rpartition(".")[0], depth)
            self._open.remove(full)
            least, types = sum(field.schema.least for field in fields), count_types([field.schema for field in fields])
            schema = AvroSchema(kinds.RECORD, least, types, full, aliases, fields=fields)
        self._types[full] = schema
        return schema

    def _enum(self, node: dict[str, object], full: str, aliases: tuple[str, ...]) -> AvroSchema:
        symbols, default = texts(node.get("symbols"), "symbols"), node.get("default")
        if not symbols or len(set(symbols)) != len(symbols):
            raise fault(f"the enum {full} has no symbols, or one of them twice")
        if default is not None and default not in symbols:
            raise fault(f"the default of the enum {full} is not among the symbols")
        symbol = default if isinstance(default, str) else None
        return AvroSchema(kinds.ENUM, 1, name=full, aliases=aliases, symbols=symbols, default_symbol=symbol)

    def _fields(self, nodes: object, record: str, namespace: str, depth: int) -> tuple[AvroField, ...]:
        if not isinstance(nodes, list) or not nodes:
            raise fault(f"the record {record} has no fields")
        fields: list[AvroField] = []
        for node in nodes:
            name = node.get("name") if isinstance(node, dict) else None
            if not isinstance(name, str) or any(field.name.lower() == name.lower() for field in fields):
                raise fault(f"a field of the record {record} has no name, or that of another field")
            schema = self.parse(node.get("type"), namespace, depth + 1)
            aliases = texts(node.get("aliases"), "aliases")
            fields.append(AvroField(name, schema, aliases, "default" in node, node.get("default")))
        return tuple(fields)


def with_logical(schema: AvroSchema, node: dict[str, object]) -> AvroSchema:
    """Return a type with the logical type of a node.

    Unknown and invalid logical types are ignored, as the specification demands.
    """
    logical = node.get("logicalType")
    if not isinstance(logical, str) or schema.kind not in LOGICAL.get(logical, ()):
        return schema
    if logical == kinds.UUID and schema.kind == kinds.FIXED and schema.size != UUID_OCTETS:
        return schema
    precision, scale = 0, 0
    if logical == kinds.DECIMAL:
        precision, scale = number(node.get("precision")), number(node.get("scale", 0))
        if precision < 1 or not 0 <= scale <= precision:
            return schema
        if precision > MAX_DECIMAL_DIGITS:
            raise fault(f"a decimal has {precision} digits, and Spark's have at most {MAX_DECIMAL_DIGITS}")
    return replace(schema, logical=logical, precision=precision, scale=scale)


def count_types(inner: Sequence[AvroSchema]) -> int:
    """Return the number of types in a type with these inner types.

    Raises:
        ConfigurationError: the number exceeds `MAX_TYPES`.
    """
    types = 1 + sum(schema.types for schema in inner)
    if types > MAX_TYPES:
        raise fault(f"it has more than {MAX_TYPES} types, each counted at every use")
    return types


def number(node: object) -> int:
    """Return an integer of JSON, or -1 for another value."""
    return node if isinstance(node, int) and not isinstance(node, bool) else -1


def texts(node: object, word: str) -> tuple[str, ...]:
    """Return a list of strings, empty if the node is missing."""
    if node is None:
        return ()
    if not isinstance(node, list) or not all(isinstance(item, str) for item in node):
        raise fault(f"{word} is not a list of strings")
    return tuple(node)
