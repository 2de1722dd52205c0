"""Reads the XML of one command into a tree, within limits.

Expat checks the syntax. A document type, an entity or a processing instruction is refused, so no entity is ever looked
up or expanded. The encoding is UTF-8, despite any other declaration. XStream writes control characters as references
not allowed in XML 1.0, such as ``&#x0;`` and ``&#xffff;``; each becomes `ESCAPE` and a letter for Expat, and the
character again in the tree.

A reference to another element costs more than its text. So all elements read for a command are counted in `Work`.
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
MAX_STEPS: Final = 16  # of a path to another element; the fields of a command are at most six levels deep
MAX_REPEATED: Final = 262_144  # characters and elements read again by reference; commands of Java repeat a few hundred
SHORTEST_REFERENCE: Final = b"&#"
ESCAPE: Final = "\ufdef"  # a noncharacter that XML allows; a genuine one is doubled
ESCAPE_OCTETS: Final = ESCAPE.encode()
CHARACTER_REFERENCE: Final = re.compile(rb"&#(?:x0*([0-9A-Fa-f]{1,6})|0*([0-9]{1,7}));|" + ESCAPE_OCTETS)
FORBIDDEN: Final = "".join(map(chr, (*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF)))  # by XML 1.0
MAX_FORBIDDEN: Final = 0xFFFF
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcde"  # one for each forbidden character
ESCAPED: Final = re.compile(f"{ESCAPE}([A-Za-e{ESCAPE}])")
NO_PLACE: Final = -1
REAL_NAME: Final = "spanwire-class"  # attribute; XStream does not read it


class Element:
    """One element with its text and inner elements.

    ``type_name`` is the attribute ``class``, ``reference`` the path to the element with the value, ``real_name`` the
    class of an exception sent as another class; each is empty if absent. ``place`` is the index of the text among the
    values of a shape (`spanwire.protocols.openwire.xstream.shapes`), or `NO_PLACE`.
    """

    def __init__(self, tag: str, type_name: str, reference: str, real_name: str, parent: Element | None) -> None:
        self.tag: Final[str] = tag
        self.type_name: Final[str] = type_name
        self.reference: Final[str] = reference
        self.real_name: Final[str] = real_name
        self.parent = parent
        self.children: Final[list[Element]] = []
        self.text = ""
        self.place = NO_PLACE

    def child(self, tag: str) -> Element | None:
        """Return the first inner element of that name."""
        for element in self.children:
            if element.tag == tag:
                return element
        return None


class Work:
    """Counts the characters and elements that are read for a command.

    Without references each character is read once at most, so the work is at most ``size``, the length of the text.
    """

    def __init__(self, size: int) -> None:
        self._limit: Final[int] = size + MAX_REPEATED
        self.spent = 0

    def spend(self, count: int) -> None:
        """Count ``count`` characters or elements; raises `OpenWireProtocolError` if they are too many."""
        self.spent += count
        if self.spent > self._limit:
            raise OpenWireProtocolError(f"references in a command repeat more than {MAX_REPEATED} characters")


class TreeBuilder:
    """Builds the tree from Expat's events."""

    def __init__(self, has_escapes: bool) -> None:
        self.root: Element | None = None
        self._has_escapes: Final[bool] = has_escapes
        self._current: Element | None = None
        self._parts: Final[list[str]] = []  # the text of the open element
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
        if parent is not None and self._parts:
            self._end_text(parent)
        if attributes:
            if self._has_escapes:
                attributes = [_unescaped(value) for value in attributes]
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
            if self._parts:
                self._end_text(current)
            self._current = current.parent
        self._depth -= 1

    def on_text(self, text: str) -> None:
        """Add text to the open element; Expat passes long text in parts of its buffer."""
        current = self._current
        if current is not None and not current.children:
            self._parts.append(text)

    def _end_text(self, element: Element) -> None:
        text = "".join(self._parts)
        self._parts.clear()
        element.text = _unescaped(text) if self._has_escapes else text

    def on_doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: int) -> None:
        """Refuse a document type, and so entities.

        Expat passes the flag as a number, which compiled code checks.
        """
        raise OpenWireProtocolError("a command in XML has a document type")

    def on_instruction(self, target: str, data: str) -> None:
        """Refuse a processing instruction."""
        raise OpenWireProtocolError("a command in XML has a processing instruction")


def parse_elements(text: bytes) -> Element:
    """Return the outermost element of a command.

    The caller has limited the size, and calls `release` in the end.

    Raises:
        OpenWireProtocolError: the text is no XML, exceeds a limit, or has parts unknown in commands.
    """
    has_escapes = SHORTEST_REFERENCE in text or ESCAPE_OCTETS in text
    if has_escapes:
        text = CHARACTER_REFERENCE.sub(_stand_in, text)
    builder = TreeBuilder(has_escapes)
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
    except OpenWireProtocolError:
        release(builder.root)
        raise
    except expat.ExpatError as error:
        release(builder.root)
        raise OpenWireProtocolError(f"a command is no XML: {error}") from None
    root = builder.root
    if root is None:
        raise OpenWireProtocolError("a command in XML is empty")
    return root


def release(root: Element | None) -> None:
    """Cut the ways from elements to their parents.

    Else a body stays in memory until Python looks for cycles.
    """
    waiting = [] if root is None else [root]
    while waiting:
        element = waiting.pop()
        element.parent = None
        waiting.extend(element.children)


def _with_attributes(tag: str, attributes: list[str], parent: Element | None) -> Element:
    """Return an element with the meaningful attributes only."""
    if len(attributes) > 2 * MAX_ATTRIBUTES:
        raise OpenWireProtocolError(f"an element of a command has more than {MAX_ATTRIBUTES} attributes")
    values: dict[str, str] = {}
    for index in range(0, len(attributes), 2):
        values[attributes[index]] = attributes[index + 1]
        if len(attributes[index + 1]) > MAX_ATTRIBUTE:
            raise OpenWireProtocolError(f"an attribute of a command is longer than {MAX_ATTRIBUTE} characters")
    return Element(tag, values.get("class", ""), values.get("reference", ""), values.get(REAL_NAME, ""), parent)


def resolve(element: Element, work: Work) -> Element:
    """Return the element with the value of ``element``: the same element, or the target of its path.

    XStream writes a path for an earlier object of the text, as ``../../producerId`` or ``../message[2]``. The elements
    passed, and the inner elements of the returned element, are counted in ``work``.

    Raises:
        OpenWireProtocolError: the path is too long, leads nowhere or to another path, or the work is too much.
    """
    current = element
    if element.reference:
        steps = element.reference.split("/")
        if len(steps) > MAX_STEPS:
            raise OpenWireProtocolError(f"a reference in a command has more than {MAX_STEPS} steps")
        for step in steps:
            following = current.parent if step == ".." else _inner(current, step, work)
            if following is None:
                raise OpenWireProtocolError("a reference in a command leads nowhere")
            current = following
        if current.reference:
            raise OpenWireProtocolError("a reference in a command leads to another reference")
    work.spend(1 + len(current.children))
    return current


def resolve_text(element: Element, work: Work) -> Element:
    """Return the element whose text is the value of ``element``, as `resolve` does, and count the text."""
    source = resolve(element, work)
    work.spend(len(source.text))
    return source


def _inner(element: Element, step: str, work: Work) -> Element | None:
    """Return the inner element of a step ``name`` or ``name[number]``."""
    name, bracket, rest = step.partition("[")
    number = rest[:-1]
    wanted = 1
    if bracket:
        if not (rest.endswith("]") and number.isascii() and number.isdigit() and len(number) < 7):
            return None
        wanted = int(number)
    passed = 0
    for child in element.children:
        passed += 1
        if child.tag == name:
            wanted -= 1
            if wanted == 0:
                work.spend(passed)
                return child
    return None


def _stand_in(match: re.Match[bytes]) -> bytes:
    """Return the escape for a reference to a forbidden character, and for a genuine `ESCAPE`."""
    digits = match.group(1)
    number = match.group(2)
    if digits is None and number is None:
        return 2 * ESCAPE_OCTETS
    code = int(number) if digits is None else int(digits, 16)
    if code == ord(ESCAPE):
        return 2 * ESCAPE_OCTETS
    index = FORBIDDEN.find(chr(code)) if code <= MAX_FORBIDDEN else -1
    return match.group(0) if index < 0 else (ESCAPE + LETTERS[index]).encode()


def _unescaped(text: str) -> str:
    """Return a text with the characters for which escapes stand."""
    return ESCAPED.sub(_character, text) if ESCAPE in text else text


def _character(match: re.Match[str]) -> str:
    """Return the character of an escape."""
    letter = match.group(1)
    return letter if letter == ESCAPE else FORBIDDEN[LETTERS.index(letter)]
