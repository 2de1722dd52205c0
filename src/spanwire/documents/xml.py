"""Reads XML into `Element`s: expat without document types, entities and external resources.

Every element and attribute has its line. Size, depth and counts are limited before the document is interpreted.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

from spanwire.documents.element import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    MAX_ELEMENTS,
    Attribute,
    Element,
)
from spanwire.model.errors import ConfigurationError

# xsi:schemaLocation and xml:space are for editors.
FOR_EDITORS: Final = ("http://www.w3.org/2001/XMLSchema-instance", "http://www.w3.org/XML/1998/namespace")
SEPARATOR: Final = " "  # between namespace and name; a URI contains no blank
ALONE: Final = re.compile(rb"&[\w.:-]*$", re.ASCII)  # an ampersand before the place of an error, without its semicolon
UNCLOSED: Final = (expat.errors.XML_ERROR_TAG_MISMATCH, expat.errors.XML_ERROR_NO_ELEMENTS)
MAX_TAG: Final = 80  # characters of a name in an error


class _Builder:
    """Collects the elements of one document."""

    def __init__(self, source: str, parser: expat.XMLParserType) -> None:
        self._source: Final = source
        self._parser: Final = parser
        self._open: Final[list[Element]] = []
        self._count = 0
        self._declared: list[tuple[str, str]] = []  # prefixes of the next element
        self.root: Element | None = None

    def namespace(self, prefix: str | None, uri: str | None) -> None:
        if prefix and uri and len(self._declared) < MAX_ATTRIBUTES:
            self._declared.append((prefix, uri))

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self._parser.CurrentLineNumber
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise ConfigurationError(f"{self._source}:{line}: more than {MAX_ELEMENTS} elements")
        if len(self._open) >= MAX_DEPTH:
            raise ConfigurationError(f"{self._source}:{line}: elements are nested more than {MAX_DEPTH} deep")
        if len(attributes) > MAX_ATTRIBUTES:
            raise ConfigurationError(f"{self._source}:{line}: an element has more than {MAX_ATTRIBUTES} attributes")
        namespace, _, name = tag.rpartition(SEPARATOR)
        element = Element(name, line, namespace)
        if self._declared:
            element.prefixes, self._declared = tuple(self._declared), []
        for key, value in attributes.items():
            space, _, local = key.rpartition(SEPARATOR)
            if not space:
                element.attributes[key] = Attribute(value, line)
            elif space not in FOR_EDITORS:
                element.foreign[space, local] = Attribute(value, line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, tag: str) -> None:
        self._open.pop()

    def text(self, data: str) -> None:
        self._open[-1].text += data

    @property
    def innermost(self) -> Element | None:
        """Return the innermost element without its end, if there is one."""
        return self._open[-1] if self._open else None

    def doctype(self, name: str, system_id: str | None, public_id: str | None, has_internal_subset: bool) -> None:
        line = self._parser.CurrentLineNumber
        raise ConfigurationError(f"{self._source}:{line}: DOCTYPE is refused; remove it, entities are not expanded")


def _fault(content: bytes, error: expat.ExpatError, builder: _Builder) -> str:
    """Return the reason against a document, for the usual slips with what to write."""
    reason = expat.errors.messages.get(error.code, "not well-formed")
    if reason == expat.errors.XML_ERROR_INVALID_TOKEN:
        line = (content.splitlines() or [b""])[error.lineno - 1 :][:1]
        before, after = (line[0][: error.offset], line[0][error.offset :]) if line else (b"", b"")
        if ALONE.search(before):
            return "a & stands alone; write &amp; in its place"
        if after.startswith(b"<") and before.count(b"<") > before.count(b">"):
            return "a < stands in a value; write &lt; in its place"
    still_open = builder.innermost
    if still_open is None or reason not in UNCLOSED:
        return f"the XML is broken: {reason}"
    return f"the XML is broken: {reason}; <{still_open.name[:MAX_TAG]}> of line {still_open.line} is still open"


def read_xml(content: bytes, source: str) -> Element:
    """Return the root element of a document.

    Raises:
        ConfigurationError: the document is too large or not well-formed; the text has the line
    """
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ConfigurationError(f"{source}: is larger than {MAX_DOCUMENT_BYTES} bytes, which no such file needs")
    parser = expat.ParserCreate(namespace_separator=SEPARATOR)
    builder = _Builder(source, parser)
    parser.StartNamespaceDeclHandler = builder.namespace
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.doctype
    parser.buffer_text = True
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ConfigurationError(f"{source}:{error.lineno}: {_fault(content, error, builder)}") from error
    except (LookupError, ValueError) as error:  # an encoding unknown to Python or unusable for expat
        raise ConfigurationError(
            f"{source}:1: the XML is in an encoding that cannot be read; save it as UTF-8"
        ) from error
    root = builder.root
    if root is None:
        raise ConfigurationError(f"{source}:1: the XML holds no element")
    return root
