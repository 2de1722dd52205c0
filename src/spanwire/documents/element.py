"""The tree of a document, and the limits of its size. The caller interprets the names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_DOCUMENT_BYTES: Final = 1024 * 1024  # bytes of a document; a large activemq.xml has 50 KiB
MAX_DEPTH: Final = 32  # nested elements; activemq.xml needs nine levels
MAX_ELEMENTS: Final = 20_000  # elements of a document; enough for thousands of policy entries and destinations
MAX_ATTRIBUTES: Final = 128  # attributes of an element; the broker element has about ninety


@dataclass(slots=True)
class Attribute:
    """A setting and its line. The repr hides the value, because settings may be passwords."""

    value: str = field(repr=False)
    line: int


@dataclass(slots=True)
class Element:
    """An element: an object to configure, with settings and inner elements."""

    name: str
    line: int
    namespace: str = ""
    attributes: dict[str, Attribute] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    text: str = field(default="", repr=False)
    foreign: dict[tuple[str, str], Attribute] = field(default_factory=dict)  # by namespace and name
    prefixes: tuple[tuple[str, str], ...] = ()  # prefixes declared here, with the namespaces

    def value(self, name: str) -> str | None:
        """Return the text of a setting, or None."""
        attribute = self.attributes.get(name)
        return None if attribute is None else attribute.value

    def child(self, name: str) -> Element | None:
        """Return the first inner element of this name."""
        return next((child for child in self.children if child.name == name), None)
