"""Maps as text: the `transformation` of a SUBSCRIBE or a SEND, in ActiveMQ's XML and JSON.

    <map>                          {"map": {"entry": [{"string": "size", "int": 3},
      <entry>                                         {"string": ["name", "Ann"]}]}}
        <string>size</string>
        <int>3</int>
      </entry>
    </map>

Java objects are never created or read: `jms-object-xml` and `jms-object-json` are refused.
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
    PropertyValue,
)
from spanwire.protocols.stomp.bodies.advisories import ADVISORY_JSON, ADVISORY_XML
from spanwire.protocols.stomp.bodies.map_text import NAMES, json_of_map, xml_of_map
from spanwire.protocols.stomp.bodies.markup import MAX_DEPTH, Element, parse_element
from spanwire.protocols.stomp.bodies.properties import FLOAT32
from spanwire.protocols.stomp.codec.errors import StompRequestError

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
"""Forms of a map in the ``transformation`` of a SEND."""

BYTE: Final = "jms-byte"
"""A SEND with it is what it would be without: a text, or with a content-length bytes."""

MAPS_AS: Final[dict[str, str]] = {**MAP_TRANSFORMATIONS, BYTE: XML, ADVISORY_XML: XML, ADVISORY_JSON: JSON}
"""Forms of a map in the ``transformation`` of a SUBSCRIBE: XML for each name without JSON, as in ActiveMQ."""

OBJECT_TRANSFORMATIONS: Final = frozenset({"jms-object-xml", "jms-object-json"})
MAX_SHOWN: Final = 40  # characters of a name that an error quotes
MAX_TEXT_BYTES: Final = 1024 * 1024  # bytes of a body that is converted to a map; the event loop does the conversion
MIN_INT: Final = -(2**31)
MAX_INT: Final = 2**31 - 1

KINDS: Final[dict[str, int]] = {name: kind for kind, name in NAMES.items()}
BOUNDS: Final[dict[int, int]] = {BYTE_VALUE: 2**7, SHORT_VALUE: 2**15, INT_VALUE: 2**31, LONG_VALUE: 2**63}


def check_asked(transformation: str | None) -> None:
    """Raise `StompRequestError` for a transformation of a subscription that is not supported."""
    if transformation is None or transformation in MAPS_AS:
        return
    name = transformation[:MAX_SHOWN]
    if transformation in OBJECT_TRANSFORMATIONS:
        raise StompRequestError(f"the transformation {name} is refused: {NO_OBJECTS}")
    raise StompRequestError(
        f"the transformation {name} is refused: there are {', '.join(MAP_TRANSFORMATIONS)} for maps, "
        f"{ADVISORY_XML} and {ADVISORY_JSON} for advisories, and {BYTE}"
    )


def map_text(entries: dict[str, PropertyValue], transformation: str) -> bytes:
    """Return the entries as `XML` or `JSON`, in order."""
    return (json_of_map(entries) if transformation == JSON else xml_of_map(entries)).encode()


def read_map_text(body: bytes, transformation: str) -> dict[str, PropertyValue]:
    """Parse a map in `XML` or `JSON`; raises `MessageFormatError` for any other text."""
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
    return (kind, None if kind == NULL_VALUE else _text(kind, text))


def _text(kind: int, text: str) -> str:
    """Return the first character for a char, NUL if empty; other texts unchanged."""
    return text[:1] or "\0" if kind == CHAR_VALUE else text


def _single(text: str) -> float:
    """Return the 32-bit float closest to the text's number."""
    try:
        number: float = FLOAT32.unpack(FLOAT32.pack(float(text)))[0]
    except OverflowError:
        raise ValueError(f"{text[:40]} does not fit a float") from None
    return number


def _octets(text: str) -> bytes:
    """Decode Base64 with optional line breaks."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _read_json(text: str) -> Element:
    root = json.loads(text)
    if not isinstance(root, dict) or len(root) != 1:
        raise ValueError("it is no JSON object with one member")
    for name, inside in root.items():
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
    """Return the sort key of an entry's parts.

    JSON members have no order, and the name of an entry is its string.
    """
    return element.name != "string"
