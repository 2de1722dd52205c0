"""JSON bodies with a schema as columns and back, with the package jsonschema.

The schema, with all its parts, is interpreted by the draft in its ``$schema``, by draft 7 without ``$schema``.
References to other schemas are refused, so validation never uses the network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import jsonschema
import pyarrow as pa
import referencing

from spanwire.model.errors import MessageFormatError
from spanwire.model.units import MIB
from spanwire.pipeline.formats.json_types import TypeBuilder, fault, refuse_constant
from spanwire.pipeline.formats.plans import JsonPlan
from spanwire.pipeline.formats.schema_registry import JSON, RegisteredSchema, StoredSchema
from spanwire.pipeline.formats.wire_format import schema_header, split_header
from spanwire.pipeline.formats.writer_schemas import WriterSchemas

MAX_SCHEMA_CHARACTERS: Final = MIB  # registries refuse larger schemas
MAX_PLACE: Final = 100  # characters of a JSON path in an error; the sender chooses the names of its steps
MAX_NODES: Final = 100_000  # parts of a schema that are searched for references
# References within a schema that a body may follow: alternatives that refer to each other multiply them, and a body of
# some hundred octets would take for ever. Each takes about 35 us, so a body of 1 MiB takes at most some 70 s.
STEPS: Final = 2_000
STEPS_PER_OCTET: Final = 2
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class JsonCodec:
    """Decodes and encodes JSON bodies, and refuses every body that the schema does not allow."""

    def __init__(self, plan: JsonPlan) -> None:
        """Raises `ConfigurationError` for an invalid schema or a reference to another schema."""
        registered = plan.schema if isinstance(plan.schema, RegisteredSchema) else None
        if registered is not None and (registered.stored.kind != JSON or registered.stored.references):
            raise fault(f"schema {registered.id} is {registered.stored.kind}, or refers to other schemas")
        schema = load_schema(plan.schema if isinstance(plan.schema, str) else plan.schema.text)
        self._type: Final = TypeBuilder(schema).build(schema)
        validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
        try:
            validator.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise fault(f"{error.json_path}: {error.message}") from None
        self._steps: Final = Steps()
        self._validator: Final = limited(validator, self._steps)(schema, registry=referencing.Registry())
        self.arrow: pa.DataType = self._type.arrow
        self.body: pa.DataType = pa.string() if registered is None else pa.binary()
        self._header: Final = b"" if registered is None else schema_header(registered.id)
        self._writers: Final = (
            None if registered is None else WriterSchemas(registered.registry.schema, JSON, same_schema)
        )

    def decode(self, body: bytes | str) -> object:
        """Return the value of a body.

        Raises:
            MessageFormatError: the body is not JSON, or the schema does not allow the body.
        """
        octets = body.encode("utf-8", "replace") if isinstance(body, str) else body
        if self._writers is not None:
            number, offset = split_header(octets)
            self._writers.get(number)
            octets = octets[offset:]
        try:
            document: object = json.loads(octets.decode(), parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            raise MessageFormatError("the body is not JSON") from None
        self._validate(document, STEPS + STEPS_PER_OCTET * len(octets))
        try:
            return self._type.read(document) if document is not None else None
        except (ValueError, OverflowError):
            raise MessageFormatError("a number, date or time of the body has no value in Spark") from None

    def encode(self, value: object) -> bytes | str:
        """Return the body of a value. Raises `MessageFormatError` if the schema does not allow the value."""
        document = self._type.write(value)
        self._validate(document, sys.maxsize)
        try:
            text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except ValueError:
            raise MessageFormatError("a number is infinite or NaN") from None
        return self._header + text.encode() if self._header else text

    def _validate(self, document: object, steps: int) -> None:
        self._steps.left = steps
        try:
            error = next(self._validator.iter_errors(document), None)
        except RecursionError:
            raise MessageFormatError("the body is nested too deep") from None
        except ArithmeticError:
            raise MessageFormatError("a number of the body is too large for a rule of the schema") from None
        if error is not None:  # error.message is left out because it quotes the body
            raise MessageFormatError(f"{error.json_path[:MAX_PLACE]} breaks the rule {error.validator}")


class Steps:
    """Counts the references that a validation follows."""

    left = 0

    def take(self) -> None:
        """Raise `MessageFormatError` after the last step."""
        if self.left <= 0:
            raise MessageFormatError("the body takes too many steps to be checked")
        self.left -= 1


def limited(validator: Any, steps: Steps) -> Any:
    """Return a class of validators that counts references, and finds equal items in one pass."""

    def counted(rule: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any]]:
        def follow(*arguments: Any) -> Iterator[Any]:
            steps.take()
            yield from rule(*arguments) or ()

        return follow

    rules = {word: counted(validator.VALIDATORS[word]) for word in REFERENCES if word in validator.VALIDATORS}
    extended = jsonschema.validators.extend(validator, {**rules, "uniqueItems": unique_items})
    library_evolve = extended.evolve

    def evolve(self: Any, **changes: Any) -> Any:
        # A part of a schema with the word $schema would choose the library's own class.
        part = changes.get("schema", self.schema)
        if isinstance(part, dict) and "$schema" in part:
            changes["schema"] = {name: value for name, value in part.items() if name != "$schema"}
        return library_evolve(self, **changes)

    extended.evolve = evolve
    return extended


def unique_items(_: object, is_wanted: object, instance: object, __: object) -> Iterator[jsonschema.ValidationError]:
    """Return an error for an array with equal items. The library compares each object with each other."""
    if is_wanted and isinstance(instance, list):
        # Texts, because a sender can choose numbers with the same hash.
        if len({json.dumps(comparable(item), sort_keys=True) for item in instance}) < len(instance):
            yield jsonschema.ValidationError("two items are equal")


def comparable(value: object) -> object:
    """Return a value whose JSON is that of all equal values; 1.0 is 1."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    return value


def same_schema(stored: StoredSchema) -> StoredSchema:
    """Return the writer's schema unchanged, because the reader's schema validates all bodies."""
    return stored


def load_schema(text: str) -> dict[str, object]:
    """Return the parsed schema.

    Raises:
        ConfigurationError: the text is not JSON, is too large, or refers to another schema.
    """
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise fault(f"it has more than {MAX_SCHEMA_CHARACTERS} characters")
    try:
        schema: object = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise fault(f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise fault("it is not a JSON object")
    nodes: list[object] = [schema]
    for _ in range(MAX_NODES):
        if not nodes:
            return schema
        node = nodes.pop()
        if isinstance(node, dict):
            for word in REFERENCES:
                target = node.get(word)
                if isinstance(target, str) and target != "#" and not target.startswith("#/"):
                    raise fault(f"{word} {target[:100]} leads out of it; write the definition into it")
            nodes.extend(node.values())
        elif isinstance(node, list):
            nodes.extend(node)
    raise fault(f"it has more than {MAX_NODES} parts")
