"""Writes maps as XML and JSON, line by line: some microseconds for each entry.

`transformation` reads them.
"""

from __future__ import annotations

import base64
import json
from typing import Final

from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES_VALUE,
    CHAR_VALUE,
    DOUBLE_VALUE,
    FLOAT_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.protocols.stomp.bodies.properties import property_text

INDENT: Final = "  "
NAMES: Final[dict[int, str]] = {
    NULL_VALUE: "null",
    BOOLEAN_VALUE: "boolean",
    BYTE_VALUE: "byte",
    CHAR_VALUE: "char",
    SHORT_VALUE: "short",
    INT_VALUE: "int",
    LONG_VALUE: "long",
    FLOAT_VALUE: "float",
    DOUBLE_VALUE: "double",
    STRING_VALUE: "string",
    BYTES_VALUE: "byte-array",
    MAP_VALUE: "map",
    LIST_VALUE: "list",
}


def xml_of_map(entries: dict[str, PropertyValue]) -> str:
    """Return the map as elements on separate lines, indented by two blanks for each level."""
    lines: list[str] = []
    _map_lines(lines, entries, 0)
    return "\n".join(lines)


def json_of_map(entries: dict[str, PropertyValue]) -> str:
    """Return the map as an object without blanks."""
    return json.dumps({NAMES[MAP_VALUE]: _json_map(entries)}, separators=(",", ":"), ensure_ascii=False)


def _map_lines(lines: list[str], entries: dict[str, PropertyValue], level: int) -> None:
    indent = INDENT * level
    if not entries:
        lines.append(f"{indent}<map/>")
        return
    inner = INDENT * (level + 1)
    lines.append(f"{indent}<map>")
    for name, value in entries.items():
        lines.append(f"{inner}<entry>")
        lines.append(f"{inner}{INDENT}<string>{escaped(name)}</string>")
        _value_lines(lines, value, level + 2)
        lines.append(f"{inner}</entry>")
    lines.append(f"{indent}</map>")


def _value_lines(lines: list[str], value: PropertyValue, level: int) -> None:
    inner = value[1]
    if isinstance(inner, dict):
        _map_lines(lines, inner, level)
        return
    indent = INDENT * level
    if isinstance(inner, list):
        if not inner:
            lines.append(f"{indent}<list/>")
            return
        lines.append(f"{indent}<list>")
        for item in inner:
            _value_lines(lines, item, level + 1)
        lines.append(f"{indent}</list>")
        return
    name = _name(value)
    text = _text(value)
    if text or name == "string":
        lines.append(f"{indent}<{name}>{escaped(text)}</{name}>")
    else:
        lines.append(f"{indent}<{name}/>")


def _name(value: PropertyValue) -> str:
    kind, inner = value
    if isinstance(inner, dict):
        return NAMES[MAP_VALUE]
    if isinstance(inner, list):
        return NAMES[LIST_VALUE]
    if isinstance(inner, bytes):
        return NAMES[BYTES_VALUE]
    return NAMES[NULL_VALUE if inner is None else kind]


def _text(value: PropertyValue) -> str:
    kind, inner = value
    if isinstance(inner, str) and kind != NULL_VALUE:
        return inner
    if isinstance(inner, bytes):
        return base64.b64encode(inner).decode()
    if kind == NULL_VALUE or inner is None:
        return ""
    return property_text(value) or ""


def escaped(text: str) -> str:
    """Return a text as XML, with the references that ActiveMQ writes."""
    if text.isalnum():
        return text
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&apos;").replace("\r", "&#xd;")


def _json_map(entries: dict[str, PropertyValue]) -> object:
    """Return a map as JSON; an empty map is an empty text, like an element without content."""
    entry_list: list[object] = []
    for name, value in entries.items():
        kind = _name(value)
        inside = _json_value(value)
        entry_list.append({"string": [name, inside]} if kind == "string" else {"string": name, kind: inside})
    if not entry_list:
        return ""
    return {"entry": entry_list[0] if len(entry_list) == 1 else entry_list}


def _json_list(items: list[PropertyValue]) -> object:
    """Return the items grouped by type; a single item of a type is no array."""
    if not items:
        return ""
    items_by_type: dict[str, list[object]] = {}
    for item in items:
        items_by_type.setdefault(_name(item), []).append(_json_value(item))
    return {name: values[0] if len(values) == 1 else values for name, values in items_by_type.items()}


def _json_value(value: PropertyValue) -> object:
    kind, inner = value
    if isinstance(inner, dict):
        return _json_map(inner)
    if isinstance(inner, list):
        return _json_list(inner)
    if isinstance(inner, int) and kind == BOOLEAN_VALUE:
        return inner != 0
    if isinstance(inner, int) and kind != NULL_VALUE:
        return inner
    if isinstance(inner, float) and inner - inner == 0.0 and kind != NULL_VALUE:
        return float(property_text(value) or "0")  # the shortest digits that identify a float
    return _text(value)  # JSON knows neither NaN nor infinity
