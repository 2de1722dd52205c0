"""OpenWire structures as plain JSON values and back, driven by the field table, for comparison with the golden frames.

Independent of the generated classes but for their attribute names.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
from functools import cache
from pathlib import Path
from typing import Any

from spanwire.model.message_view import PropertyValue
from spanwire.protocols.openwire.codec import _marshallers
from spanwire.protocols.openwire.codec.schema import DataStructure, StackElement, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat

ROOT = Path(__file__).resolve().parents[2]
ROWS = {
    row["name"]: row
    for row in json.loads((ROOT / "tools/openwire_commands.json").read_text(encoding="utf-8"))["dataStructures"]
}
TYPE_CODES = {
    "null": 0,
    "boolean": 1,
    "byte": 2,
    "char": 3,
    "short": 4,
    "int": 5,
    "long": 6,
    "double": 7,
    "float": 8,
    "string": 9,
    "byte-array": 10,
    "map": 11,
    "list": 12,
    "big-string": 9,
}
DECODED_KEYS = {"properties", "body"}  # what the vectors add beside the fields


def load_vectors(name: str) -> Any:
    """One file of tests/vectors/openwire."""
    data = gzip.decompress((ROOT / f"tests/vectors/openwire/{name}.json.gz").read_bytes())
    return json.loads(data.decode("utf-8"))


def wire_format_of(entry: dict[str, Any], version: int | None = None) -> WireFormat:
    """The negotiated format that a vector names."""
    return WireFormat(
        version=entry["version"] if version is None else version,
        tight=entry["encoding"] == "tight",
        cache=entry["cache"],
        cache_size=entry.get("cacheSize", 16383),
        stack_traces=entry["stackTrace"],
    )


@cache
def snake(name: str) -> str:
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


@cache
def fields_of(name: str, version: int) -> list[dict[str, Any]]:
    """All fields of a structure in one version, parents first."""
    row = ROWS[name]
    inherited = fields_of(row["parent"], version) if row["parent"] else []
    own = [f for f in row["fields"] + row["removedFields"] if f["since"] <= version <= f.get("until", 12)]
    return inherited + own


def values_of(structure: DataStructure | None, version: int, stack_traces: bool) -> Any:
    """A structure as the values of the vectors."""
    if structure is None:
        return None
    name = type(structure).__name__
    values: dict[str, Any] = {"$type": name}
    for field in fields_of(name, version):
        values[field["name"]] = _value(field, getattr(structure, snake(field["name"])), version, stack_traces)
    return values


def _value(field: dict[str, Any], value: Any, version: int, stack_traces: bool) -> Any:
    kind = field["type"]
    if kind in ("nested-object", "cached-object"):
        return values_of(value, version, stack_traces)
    if kind == "object-array":
        return None if value is None else [values_of(element, version, stack_traces) for element in value]
    if kind == "throwable":
        return throwable_values(value, stack_traces)
    if isinstance(value, bytes):
        return value.hex()
    return value


def throwable_values(value: Throwable | None, stack_traces: bool) -> Any:
    if value is None:
        return None
    values: dict[str, Any] = {"class": value.class_name, "message": value.message}
    if stack_traces:
        values["stack"] = [
            {"class": e.class_name, "method": e.method, "file": e.file, "line": e.line} for e in value.stack
        ]
        values["cause"] = throwable_values(value.cause, stack_traces)
    return values


def normalised(values: Any) -> Any:
    """The values of a vector without the decoded extras, and with large numbers as numbers."""
    if isinstance(values, list):
        return [normalised(value) for value in values]
    if not isinstance(values, dict):
        return values
    if "$type" not in values:
        return {key: normalised(value) for key, value in values.items()}
    kinds = {field["name"]: field["type"] for field in fields_of(values["$type"], 12)}
    kinds.update({field["name"]: field["type"] for field in ROWS[values["$type"]]["removedFields"]})
    found: dict[str, Any] = {"$type": values["$type"]}
    for key, value in values.items():
        if key in kinds:
            found[key] = int(value) if kinds[key] == "long" else normalised(value)
        else:
            assert key == "$type" or key in DECODED_KEYS, f"{values['$type']} has no field {key}"
    return found


def structure_of(values: Any) -> Any:
    """The structure that normalised values describe."""
    if values is None:
        return None
    made = getattr(_marshallers, values["$type"])()
    kinds = {field["name"]: field["type"] for field in fields_of(values["$type"], 12)}
    kinds.update({field["name"]: field["type"] for field in ROWS[values["$type"]]["removedFields"]})
    for key, value in values.items():
        if key != "$type":
            setattr(made, snake(key), _attribute(kinds[key], value))
    return made


def _attribute(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind in ("nested-object", "cached-object"):
        return structure_of(value)
    if kind == "object-array":
        return [structure_of(element) for element in value]
    if kind in ("byte-array", "byte-sequence", "const-byte-array"):
        return bytes.fromhex(value)
    return throwable_of(value) if kind == "throwable" else value


def throwable_of(value: Any) -> Throwable | None:
    if value is None:
        return None
    stack = [StackElement(e["class"], e["method"], e["file"], e["line"]) for e in value.get("stack", [])]
    return Throwable(value["class"], value["message"], stack, throwable_of(value.get("cause")))


def property_of(entry: dict[str, Any]) -> PropertyValue:
    """A typed primitive value of the vectors."""
    kind, value = entry["type"], entry["value"]
    code = TYPE_CODES[kind]
    if kind == "char":
        return (code, chr(value))
    if kind in ("int", "short", "byte", "long"):
        return (code, int(value))
    if kind == "float":
        return (code, struct.unpack(">f", bytes.fromhex(value))[0])
    if kind == "double":
        return (code, struct.unpack(">d", bytes.fromhex(value))[0])
    if kind == "byte-array":
        return (code, bytes.fromhex(value))
    if kind == "map":
        return (code, {name: property_of(inner) for name, inner in value.items()})
    if kind == "list":
        return (code, [property_of(inner) for inner in value])
    return (code, value)


def properties_of(entries: dict[str, Any] | None) -> dict[str, PropertyValue]:
    """The typed properties of the vectors."""
    return {name: property_of(entry) for name, entry in (entries or {}).items()}
