"""Reads the XML of one command into a tree, within limits.

Expat checks the syntax. A document type, an entity or a processing instruction is refused, so nothing is ever looked up
or expanded. The encoding is UTF-8, whatever the text declares. XStream writes control characters as references that XML
1.0 does not allow, such as ``&#x0;``; they become noncharacters for Expat and control characters again in the tree.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError

MAX_DEPTH: Final = 64  # elements inside each other; two levels of XML for each of the 32 levels of a frame
MAX_ELEMENTS: Final = 262_144  # elements of one command; a message has about fifty, and one element takes 300 bytes
MAX_ATTRIBUTES: Final = 8  # attributes of one element; XStream writes two at most
MAX_ATTRIBUTE: Final = 1_024  # characters of a name of a class or of a path to another element
CONTROLS: Final = "\ufdd0"  # the first of 32 noncharacters that stand for the control characters
SHORTEST_REFERENCE: Final = b"&#"
CONTROL_REFERENCE: Final = re.compile(rb"&#(?:x([0-9A-Fa-f]{1,2})|([0-9]{1,2}));")
STAND_IN: Final = re.compile("[\ufdd0-\ufdef]")
ALLOWED_CONTROLS: Final = (9, 10, 13)
REAL_NAME: Final = "spanwire-class"  # attribute; XStream does not read it


class Element:
    """One element with its text and inner elements.

    ``type_name`` is the attribute ``class``, ``reference`` the path to the element that holds the value, ``real_name``
    the class of an exception that is sent as another one; each is empty if absent.
    """

    def __init__(self, tag: str, type_name: str, reference: str, real_name: str, parent: Element | None) -> None:
        self.tag: Final[str] = tag
        self.type_name: Final[str] = type_name
        self.reference: Final[str] = reference
        self.real_name: Final[str] = real_name
        self.parent: Final[Element | None] = parent
        self.children: Final[list[Element]] = []
        self.text = ""

    def child(self, tag: str) -> Element | None:
        """Return the first inner element of that name."""
        for element in self.children:
            if element.tag == tag:
                return element
        return None


class TreeBuilder:
    """Builds the tree from Expat's events."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self.replaces_controls = False
        self._current: Element | None = None
        self._depth = 0
        self._count = 0

    def on_start(self, tag: str, attributes: list[str]) -> None:
        """Open an element. ``attributes`` are names and values in turn."""
        self._count += 1
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise OpenWireProtocolError(f"a command in XML has elements more than {MAX_DEPTH} deep")
        if self._count > MAX_ELEMENTS:
            raise OpenWireProtocolError(f"a command in XML has more than {MAX_ELEMENTS} elements")
        parent = self._current
        if attributes:
            element = _with_attributes(tag, attributes, parent)
        else:
            element = Element(tag, "", "", "", parent)
        if parent is None:
            self.root = element
        else:
            parent.children.append(element)
        self._current = element

    def on_end(self, tag: str) -> None:
        """Close the element."""
        current = self._current
        if current is not None:
            if self.replaces_controls:
                current.text = STAND_IN.sub(_control, current.text)
            self._current = current.parent
        self._depth -= 1

    def on_text(self, text: str) -> None:
        """Add text to the open element; Expat passes long text in parts of its buffer."""
        current = self._current
        if current is not None and not current.children:
            current.text += text

    def on_doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: int) -> None:
        """Refuse a document type, and so entities. Expat passes the flag as a number, which compiled code checks."""
        raise OpenWireProtocolError("a command in XML has a document type")

    def on_instruction(self, target: str, data: str) -> None:
        """Refuse a processing instruction."""
        raise OpenWireProtocolError("a command in XML has a processing instruction")


def parse_elements(text: bytes) -> Element:
    """Return the outermost element of a command; its size was limited by the caller.

    Raises:
        OpenWireProtocolError: the text is no XML, exceeds a limit, or has parts that no command has.
    """
    builder = TreeBuilder()
    if SHORTEST_REFERENCE in text:
        text = CONTROL_REFERENCE.sub(_stand_in, text)
        builder.replaces_controls = True
    parser = expat.ParserCreate("UTF-8")
    parser.ordered_attributes = True
    parser.buffer_text = True
    parser.StartElementHandler = builder.on_start
    parser.EndElementHandler = builder.on_end
    parser.CharacterDataHandler = builder.on_text
    parser.StartDoctypeDeclHandler = builder.on_doctype
    parser.ProcessingInstructionHandler = builder.on_instruction
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise OpenWireProtocolError(f"a command is no XML: {error}") from None
    root = builder.root
    if root is None:
        raise OpenWireProtocolError("a command in XML is empty")
    return root


def _with_attributes(tag: str, attributes: list[str], parent: Element | None) -> Element:
    """Return an element with those of its attributes that have a meaning."""
    if len(attributes) > 2 * MAX_ATTRIBUTES:
        raise OpenWireProtocolError(f"an element of a command has more than {MAX_ATTRIBUTES} attributes")
    values: dict[str, str] = {}
    for index in range(0, len(attributes), 2):
        values[attributes[index]] = attributes[index + 1]
        if len(attributes[index + 1]) > MAX_ATTRIBUTE:
            raise OpenWireProtocolError(f"an attribute of a command is longer than {MAX_ATTRIBUTE} characters")
    return Element(tag, values.get("class", ""), values.get("reference", ""), values.get(REAL_NAME, ""), parent)


def resolve(element: Element) -> Element:
    """Return the element that holds the value of ``element``: itself, or the one that its path leads to.

    XStream writes a path for an object that the text has before, as ``../../producerId`` or ``../message[2]``.

    Raises:
        OpenWireProtocolError: the path leads nowhere, or to another path.
    """
    if not element.reference:
        return element
    current = element
    for step in element.reference.split("/"):
        following = current.parent if step == ".." else _inner(current, step)
        if following is None:
            raise OpenWireProtocolError("a reference in a command leads nowhere")
        current = following
    if current.reference:
        raise OpenWireProtocolError("a reference in a command leads to another reference")
    return current


def _inner(element: Element, step: str) -> Element | None:
    """Return the inner element of a step ``name`` or ``name[number]``."""
    name, bracket, rest = step.partition("[")
    number = rest[:-1]
    wanted = 1
    if bracket:
        if not (rest.endswith("]") and number.isascii() and number.isdigit() and len(number) < 7):
            return None
        wanted = int(number)
    for child in element.children:
        if child.tag == name:
            wanted -= 1
            if wanted == 0:
                return child
    return None


def _stand_in(match: re.Match[bytes]) -> bytes:
    """Return the noncharacter for a reference to a control character."""
    digits = match.group(1)
    code = int(match.group(2)) if digits is None else int(digits, 16)
    if code >= 32 or code in ALLOWED_CONTROLS:
        return match.group(0)
    return chr(ord(CONTROLS) + code).encode()


def _control(match: re.Match[str]) -> str:
    """Return the control character of a noncharacter."""
    return chr(ord(match.group(0)) - ord(CONTROLS))
