"""Elements of a stream as values, and their XML.

A name consists of the namespace and the local name. Elements are written without prefixes: each declares its namespace
if different from the surrounding namespace. So an element written here can stand in any stream.
"""

from __future__ import annotations

import re
from typing import Final

CLIENT: Final = "jabber:client"
STREAMS: Final = "http://etherx.jabber.org/streams"
XML: Final = "http://www.w3.org/XML/1998/namespace"
LANGUAGE: Final = XML + " lang"  # the attribute xml:lang, as the decoder names it

_UNWRITABLE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # by XML 1.0, section 2.2
REPLACEMENT: Final = "\ufffd"


class Element:
    """An element: namespace, local name, attributes, text and inner elements.

    ``text`` is the text before the first inner element. Attributes with a namespace have ``NAMESPACE NAME`` as name.
    """

    __slots__ = ("attributes", "children", "name", "namespace", "text")

    def __init__(self, namespace: str, name: str, attributes: dict[str, str] | None = None, text: str = "") -> None:
        self.namespace: Final[str] = namespace
        self.name: Final[str] = name
        self.attributes: Final[dict[str, str]] = attributes if attributes is not None else {}
        self.children: Final[list[Element]] = []
        self.text = text

    def child(self, namespace: str, name: str) -> Element | None:
        """Return the first inner element with a name."""
        for element in self.children:
            if element.name == name and element.namespace == namespace:
                return element
        return None

    def add(self, element: Element) -> Element:
        """Append and return an inner element."""
        self.children.append(element)
        return element

    def __repr__(self) -> str:
        return f"Element({self.namespace} {self.name})"


def is_writable(text: str) -> bool:
    """Return True if XML can carry every character of ``text``.

    A return alone would arrive as a line feed.
    """
    return "\r" not in text and _UNWRITABLE.search(text) is None


def escaped(text: str) -> str:
    """Return a text as XML, for content and for attributes; characters without a form in XML are replaced."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = text.replace('"', "&quot;").replace("'", "&apos;").replace("\r", "&#13;")
    return _UNWRITABLE.sub(REPLACEMENT, text)


def encode_element(element: Element, around: str = CLIENT) -> bytes:
    """Return an element as XML in UTF-8; ``around`` is the default namespace outside of it."""
    parts: list[str] = []
    _append(parts, element, around)
    return "".join(parts).encode()


def _append(parts: list[str], element: Element, around: str) -> None:
    parts.append("<" + element.name)
    if element.namespace != around:
        parts.append(f" xmlns='{escaped(element.namespace)}'")
    for name, value in element.attributes.items():
        written = "xml:lang" if name == LANGUAGE else name
        parts.append(f" {written}='{_attribute(value)}'")
    if not element.text and not element.children:
        parts.append("/>")
        return
    parts.append(">" + escaped(element.text))
    for child in element.children:
        _append(parts, child, element.namespace)
    parts.append(f"</{element.name}>")


def _attribute(value: str) -> str:
    """Return an attribute's value as XML; a reader would turn line ends and tabs into blanks."""
    return escaped(value).replace("\n", "&#10;").replace("\t", "&#9;")
