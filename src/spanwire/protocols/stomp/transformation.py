"""Maps as text: the `transformation` of a SUBSCRIBE or a SEND, in the XML and JSON that ActiveMQ's clients know.

    <map>                          {"map": {"entry": [{"string": "size", "int": 3},
      <entry>                                         {"string": ["name", "Ann"]}]}}
        <string>size</string>
        <int>3</int>
      </entry>
    </map>

Java objects are never made or read: `jms-object-xml` and `jms-object-json` are refused where they are asked for.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final

from spanwire.model.errors import MessageFormatError
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
from spanwire.protocols.stomp.markup import MAX_DEPTH, Element, parse_element
from spanwire.protocols.stomp.properties import FLOAT32, property_text

TRANSFORMATION: Final = "transformation"
TRANSFORMATION_ERROR: Final = "transformation-error"
NO_OBJECTS: Final = "Java objects are passed on between Java clients and never made or read"
XML: Final = "jms-map-xml"
JSON: Final = "jms-map-json"
MAP_TRANSFORMATIONS: Final[dict[str, str]] = {
    "jms-map-xml": XML,
    "jms-map-json": JSON,
    "jms-xml": XML,
    "jms-json": JSON,
}
"""What a subscription may ask for, and what it means for a map."""

OBJECT_TRANSFORMATIONS: Final = frozenset({"jms-object-xml", "jms-object-json"})
MAX_TEXT_BYTES: Final = 1024 * 1024  # of a body that is turned into a map: the loop does it
MIN_INT: Final = -(2**31)
MAX_INT: Final = 2**31 - 1

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
KINDS: Final[dict[str, int]] = {name: kind for kind, name in NAMES.items()}
BOUNDS: Final[dict[int, int]] = {BYTE_VALUE: 2**7, SHORT_VALUE: 2**15, INT_VALUE: 2**31, LONG_VALUE: 2**63}


def map_text(entries: dict[str, PropertyValue], transformation: str) -> bytes:
    """The entries as `XML` or `JSON`, in their order."""
    root = _map_element(entries)
    if transformation == JSON:
        return json.dumps({root.name: _json_inside(root)}, separators=(",", ":"), ensure_ascii=False).encode()
    return root.text_form(0).encode()


def read_map_text(body: bytes, transformation: str) -> dict[str, PropertyValue]:
    """The entries of a map in `XML` or `JSON`; raises `MessageFormatError` for a text that is none."""
    if len(body) > MAX_TEXT_BYTES:
        raise MessageFormatError(f"a map of {len(body)} bytes is not read; {MAX_TEXT_BYTES} are allowed")
    try:
        text = body.decode()
        root = _read_json(text) if transformation == JSON else parse_element(text)
        if root.name != "map":
            raise ValueError(f"<{root.name[:40]}> is no map")
        return _entries(root, 1)
    except (ValueError, RecursionError) as error:
        raise MessageFormatError(f"the text is no map: {error}") from None


# -- values as elements ------------------------------------------------------------------------------------------------


def _map_element(entries: dict[str, PropertyValue]) -> Element:
    children: list[Element] = []
    for name, value in entries.items():
        children.append(Element("entry", "", [Element("string", name, []), _element(value)]))
    return Element("map", "", children)


def _element(value: PropertyValue) -> Element:
    kind, inner = value
    if isinstance(inner, dict):
        return _map_element(inner)
    if isinstance(inner, list):
        return Element("list", "", [_element(item) for item in inner])
    if isinstance(inner, bytes):
        return Element(NAMES[BYTES_VALUE], base64.b64encode(inner).decode(), [])
    if kind == NULL_VALUE or inner is None:
        return Element(NAMES[NULL_VALUE], "", [])
    return Element(NAMES[kind], property_text(value) or "", [])


def _entries(root: Element, depth: int) -> dict[str, PropertyValue]:
    entries: dict[str, PropertyValue] = {}
    for entry in root.children:
        if entry.name != "entry" or len(entry.children) != 2 or entry.children[0].name != "string":
            raise ValueError("an entry is no name with a value")
        entries[entry.children[0].text] = _value(entry.children[1], depth)
    return entries


def _value(element: Element, depth: int) -> PropertyValue:
    kind = KINDS.get(element.name)
    text = element.text
    if kind is None or depth > MAX_DEPTH:
        raise ValueError(f"<{element.name[:40]}> is no type of a value")
    if kind == MAP_VALUE:
        return (MAP_VALUE, _entries(element, depth + 1))
    if kind == LIST_VALUE:
        return (LIST_VALUE, [_value(child, depth + 1) for child in element.children])
    bound = BOUNDS.get(kind)
    if bound is not None:
        number = int(text)
        if not -bound <= number < bound:
            raise ValueError(f"{text[:40]} does not fit a {element.name}")
        return (kind, number)
    if kind == FLOAT_VALUE:
        return (FLOAT_VALUE, _single(text))
    if kind == DOUBLE_VALUE:
        return (DOUBLE_VALUE, float(text))
    if kind == BOOLEAN_VALUE:
        return (BOOLEAN_VALUE, text.strip().lower() == "true")
    if kind == BYTES_VALUE:
        return (BYTES_VALUE, _octets(text))
    return (kind, None if kind == NULL_VALUE else text)


def _single(text: str) -> float:
    """The 32-bit number closest to what the text says."""
    try:
        number: float = FLOAT32.unpack(FLOAT32.pack(float(text)))[0]
    except OverflowError:
        raise ValueError(f"{text[:40]} does not fit a float") from None
    return number


def _octets(text: str) -> bytes:
    """Base64, which may be broken into lines."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


# -- elements as JSON --------------------------------------------------------------------------------------------------


def _json_inside(element: Element) -> object:
    """Children by name, those that share one as a list; without children the text, or the number that it is."""
    if not element.children:
        return _json_leaf(element)
    found: dict[str, list[object]] = {}
    for child in element.children:
        found.setdefault(child.name, []).append(_json_inside(child))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _json_leaf(element: Element) -> object:
    kind = KINDS.get(element.name, STRING_VALUE)
    if kind in BOUNDS:
        return int(element.text)
    if kind == BOOLEAN_VALUE:
        return element.text == "true"
    if kind == FLOAT_VALUE or kind == DOUBLE_VALUE:
        number = float(element.text)
        return number if number - number == 0.0 else element.text  # JSON knows neither NaN nor infinity
    return element.text


def _read_json(text: str) -> Element:
    found = json.loads(text)
    if not isinstance(found, dict) or len(found) != 1:
        raise ValueError("it is no JSON object with one member")
    for name, inside in found.items():
        return _from_json(str(name), inside, 1)
    raise ValueError("it is empty")


def _from_json(name: str, inside: object, depth: int) -> Element:
    if depth > 3 * MAX_DEPTH:
        raise ValueError("it is too deep")
    if isinstance(inside, dict):
        children: list[Element] = []
        for child, value in inside.items():
            if isinstance(value, list):
                children.extend([_from_json(str(child), item, depth + 1) for item in value])
            else:
                children.append(_from_json(str(child), value, depth + 1))
        if name == "entry":
            children.sort(key=_name_first)
        return Element(name, "", children)
    if isinstance(inside, bool):
        return Element(name, "true" if inside else "false", [])
    if inside is None or isinstance(inside, list):
        raise ValueError(f"{name[:40]} has no value")
    return Element(name, str(inside), [])


def _name_first(element: Element) -> bool:
    """JSON members have no order: the name of an entry is its string."""
    return element.name != "string"
