"""The types of columns for JSON Schema.

Objects with properties become structs, other objects with a schema for the values become maps, arrays become arrays. A
part without a Spark type (several types, no type at all, a recursive schema) becomes a string column with JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa

from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.pipeline.formats import leaves
from spanwire.pipeline.formats.leaves import UTC_TIMESTAMP, Convert, ValueType, with_field

MAX_DEPTH: Final = 64  # schemas within schemas; bounds the recursion of this module
MAX_TYPES: Final = 10_000  # counted at each use, because definitions that use each other multiply
NULL: Final = "null"
DATE_FORM: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def fault(reason: str) -> ConfigurationError:
    """Return the error for a schema."""
    return ConfigurationError(f"spanwire: a JSON schema cannot be used: {reason[:300]}")


def read_json(value: object) -> str:
    """Return the JSON of a value without a type."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write_json(value: object) -> object:
    """Return the value of a JSON text.

    Raises:
        MessageFormatError: the value is not a string, or the string is not JSON.
    """
    if not isinstance(value, str):
        raise MessageFormatError(f"expected JSON text, got {type(value).__name__}")
    try:
        document: object = json.loads(value, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise MessageFormatError("a text is not JSON") from None
    return document


def refuse_constant(name: str) -> object:
    """Refuse NaN and infinity, because JSON has no such numbers."""
    raise ValueError(f"{name} is not JSON")


def read_integer(value: object) -> object:
    """Return an integer; in JSON Schema 1.0 is an integer."""
    return int(value) if isinstance(value, float) else value


def read_date(value: object) -> object:
    """Return a date as days since 1970-01-01.

    Raises:
        ValueError: the text is not a date.
    """
    if not isinstance(value, str) or DATE_FORM.fullmatch(value) is None:
        raise ValueError
    return leaves.epoch_days(date.fromisoformat(value))


def write_date(value: object) -> object:
    """Return the text of a date."""
    leaves.epoch_days(value)
    return str(value)


def read_timestamp(value: object) -> object:
    """Return a date and time with an offset as microseconds since 1970-01-01 UTC.

    Raises:
        ValueError: the text is not such a date and time.
    """
    return leaves.epoch_microseconds(datetime.fromisoformat(value if isinstance(value, str) else ""))


def write_timestamp(value: object) -> object:
    """Return the text of a timestamp in UTC."""
    leaves.epoch_microseconds(value)
    assert isinstance(value, datetime)
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


ANY: Final = ValueType(pa.string(), read_json, write_json, True)
DATE: Final = ValueType(pa.date32(), read_date, write_date)
TIMESTAMP: Final = ValueType(UTC_TIMESTAMP, read_timestamp, write_timestamp)
INTEGER: Final = ValueType(pa.int64(), read_integer, leaves.LONG.write)
NUMBER: Final = ValueType(pa.float64(), leaves.floating, leaves.floating)
FORMATS: Final[dict[str, ValueType]] = {"date": DATE, "date-time": TIMESTAMP}


class TypeBuilder:
    """Builds the types of one schema."""

    def __init__(self, root: object) -> None:
        self._root: Final = root
        self._count = 0

    def build(self, node: object, inside: tuple[str, ...] = (), depth: int = 1) -> ValueType:
        """Return the type of a part of the schema.

        Args:
            node: the part.
            inside: the references on the path to the part.
            depth: the number of nested schemas on the path, including the part.

        Raises:
            ConfigurationError: a reference has no target, or the schema is too large.
        """
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_TYPES:
            raise fault(f"it is nested more than {MAX_DEPTH} deep, or has more than {MAX_TYPES} types")
        if not isinstance(node, dict):
            return ANY
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in inside:
                return ANY
            return self.build(self._resolve(reference), (*inside, reference), depth + 1)
        for word in ("anyOf", "oneOf", "allOf"):
            if isinstance(node.get(word), list):
                return self._alternatives(node, word, inside, depth)
        kinds = kinds_of(node)
        built = self._typed(node, [kind for kind in kinds if kind != NULL], inside, depth)
        return nullable(built) if NULL in kinds else built

    def _resolve(self, reference: str) -> object:
        """Return the target of a reference within the schema."""
        target: object = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
                target = target[int(name)]
            else:
                raise fault(f"the reference {reference} leads nowhere")
        return target

    def _alternatives(self, node: dict[str, object], word: str, inside: tuple[str, ...], depth: int) -> ValueType:
        """Return the type of the only alternative besides null, or `ANY` for several alternatives."""
        options = node[word]
        assert isinstance(options, list)
        if "type" in node or "properties" in node:  # the alternatives only restrict the stated type
            return self.build({name: part for name, part in node.items() if name != word}, inside, depth + 1)
        others = [option for option in options if not (isinstance(option, dict) and option.get("type") == NULL)]
        if len(others) != 1:
            return ANY
        built = self.build(others[0], inside, depth + 1)
        return nullable(built) if len(others) < len(options) and word != "allOf" else built

    def _typed(self, node: dict[str, object], kinds: list[str], inside: tuple[str, ...], depth: int) -> ValueType:
        if sorted(kinds) == ["integer", "number"]:
            kinds = ["number"]
        if len(kinds) != 1:
            return ANY
        kind = kinds[0]
        if kind == "object":
            return self._object(node, inside, depth)
        if kind == "array":
            items = node.get("items")
            return array_type(self.build(items, inside, depth + 1)) if isinstance(items, dict) else ANY
        if kind == "string":
            form = node.get("format")
            return FORMATS.get(form, leaves.STRING) if isinstance(form, str) else leaves.STRING
        return {"integer": INTEGER, "number": NUMBER, "boolean": leaves.BOOLEAN}.get(kind, ANY)

    def _object(self, node: dict[str, object], inside: tuple[str, ...], depth: int) -> ValueType:
        properties, others = node.get("properties"), node.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            fields = [(name, self.build(part, inside, depth + 1)) for name, part in properties.items()]
            required = node.get("required")
            return object_type(fields, required if isinstance(required, list) else [])
        return map_type(self.build(others, inside, depth + 1)) if isinstance(others, dict) else ANY


def kinds_of(node: dict[str, object]) -> list[str]:
    """Return the stated or implied types of a schema."""
    kind = node.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [str(one) for one in kind]
    if "properties" in node:
        return ["object"]
    values = node.get("enum", [node["const"]] if "const" in node else None)
    if not isinstance(values, list):
        return []
    names = {type(None): NULL, bool: "boolean", int: "integer", float: "number", str: "string"}
    return sorted({names.get(type(value), "any") for value in values})


def nullable(built: ValueType) -> ValueType:
    """Return the nullable form of a type."""
    return ValueType(built.arrow, built.read, built.write, True)


def reading(built: ValueType) -> Convert:
    """Return the conversion of a nullable value."""
    return lambda value: None if value is None else built.read(value)


def array_type(item: ValueType) -> ValueType:
    """Return the type of arrays."""
    read_item = reading(item)

    def read(value: object) -> object:
        return [read_item(one) for one in value] if isinstance(value, list) else None

    def write(value: object) -> object:
        if not isinstance(value, list):
            raise MessageFormatError(f"expected array, got {type(value).__name__}")
        return [None if one is None else item.write(one) for one in value]

    return ValueType(pa.list_(item.arrow), read, write)


def map_type(entry: ValueType) -> ValueType:
    """Return the type of objects with any names."""
    read_entry = reading(entry)

    def read(value: object) -> object:
        return [(name, read_entry(one)) for name, one in value.items()] if isinstance(value, dict) else None

    def write(value: object) -> object:
        pairs = list(value.items()) if isinstance(value, dict) else value
        if not isinstance(pairs, list):
            raise MessageFormatError(f"expected map, got {type(value).__name__}")
        return {name: None if one is None else entry.write(one) for name, one in pairs}

    return ValueType(pa.map_(pa.string(), entry.arrow), read, write)


def object_type(fields: Sequence[tuple[str, ValueType]], required: Sequence[object]) -> ValueType:
    """Return the type of objects with the given properties.

    A null column is left out of the object, except for a required and nullable property.
    """
    types, readers = dict(fields), {name: reading(built) for name, built in fields}
    lowered = [name.lower() for name in types]
    if len(set(lowered)) < len(lowered):
        raise fault("two properties of an object differ in the case of letters alone, and Spark has one name for them")

    def read(value: object) -> object:
        if not isinstance(value, dict):
            return None
        return {name: readers[name](one) for name, one in value.items() if name in readers}

    def write(value: object) -> object:
        return _write_object(types, required, value)

    return ValueType(pa.struct([(name, built.arrow) for name, built in fields]), read, write)


def _write_object(types: Mapping[str, ValueType], required: Sequence[object], value: object) -> object:
    if not isinstance(value, dict):
        raise MessageFormatError(f"expected object, got {type(value).__name__}")
    if not value.keys() <= types.keys():
        unknown = ", ".join(sorted(value.keys() - types.keys()))
        raise MessageFormatError(f"the object has no property {unknown}; there are {', '.join(types)}")
    document: dict[str, object] = {}
    for name, one in value.items():
        built = types[name]
        if one is not None:
            try:
                document[name] = built.write(one)
            except MessageFormatError as error:
                raise with_field(name, error) from None
        elif built.is_nullable and name in required:
            document[name] = None
    return document
