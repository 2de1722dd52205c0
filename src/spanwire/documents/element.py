"""The tree that readers make of a document, and how large one may be.

What its names mean is left to whoever asked for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MAX_DOCUMENT_BYTES: Final = 1024 * 1024  # a large activemq.xml has 50 KiB
MAX_DEPTH: Final = 32  # the deepest word of activemq.xml stands nine levels down
MAX_ELEMENTS: Final = 20_000  # a policy entry or destination each, for thousands of destinations
MAX_ATTRIBUTES: Final = 128  # the broker element knows about ninety


@dataclass(slots=True)
class Attribute:
    """One setting and where it stands. The value may be a password, so no repr shows it."""

    value: str = field(repr=False)
    line: int


@dataclass(slots=True)
class Element:
    """One element: a thing to configure, its settings and what stands inside it."""

    name: str
    line: int
    namespace: str = ""
    attributes: dict[str, Attribute] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    text: str = field(default="", repr=False)
    foreign: dict[tuple[str, str], Attribute] = field(default_factory=dict)  # by namespace and name

    def value(self, name: str) -> str | None:
        """The text of a setting, or None when it is not there."""
        attribute = self.attributes.get(name)
        return None if attribute is None else attribute.value

    def child(self, name: str) -> Element | None:
        """The first element of this name inside."""
        return next((child for child in self.children if child.name == name), None)
