"""Contents of a route file before interpretation: words, lists and mappings, each with a line.

Readers of formats (`yaml_file`, `camel_xml`) make nodes; `parsing` and `endpoints` interpret nodes. Every error has
file, line, word, and a suggested known word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from spanwire.documents.spelling import suggestion
from spanwire.model.errors import ConfigurationError
from spanwire.routes.masking import mask, shown_name

MAX_SHOWN: Final = 60  # characters of a word that an error repeats


@dataclass(frozen=True, slots=True)
class Location:
    """A position in a file."""

    file: str
    line: int

    def __str__(self) -> str:
        """Return file and line as an error begins."""
        return f"{self.file}:{self.line}"

    def error(self, message: str) -> ConfigurationError:
        """Return an error of one line about the position, without secrets of addresses."""
        return ConfigurationError(f"{self.file}:{self.line}: {mask(message)}")

    def unknown(self, kind: str, word: str, known: Collection[str]) -> ConfigurationError:
        """Return an error about an unknown word."""
        shown = shown_name(word)[:MAX_SHOWN]
        return self.error(f"there is no {kind} {shown!r}{suggestion(shown, known)}")


@dataclass(frozen=True, slots=True)
class Word:
    """A text, number or truth value as written; ``text`` is ``None`` for null.

    ``missing`` is a placeholder without a value in the text; reading the text raises an error. ``raw`` is the text of
    an expression, in which ``${…}`` is no placeholder.
    """

    location: Location
    text: str | None
    missing: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    location: Location
    items: list[Node]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a mapping."""

    location: Location
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Names with values, in order."""

    location: Location
    entries: dict[str, Entry] = field(default_factory=dict)

    def check(self, kind: str, known: Sequence[str]) -> None:
        """Check the names of the mapping.

        Raises:
            ConfigurationError: a name is not in ``known``.
        """
        for name, entry in self.entries.items():
            if name not in known:
                raise entry.location.unknown(kind, name, known)

    def node(self, name: str) -> Node | None:
        """Return the value of a name, or ``None``."""
        entry = self.entries.get(name)
        return None if entry is None else entry.value

    def text(self, name: str) -> str | None:
        """Return the word of a name, or ``None`` if missing or null."""
        node = self.node(name)
        return None if node is None or is_null(node) else text_of(node, name)

    def require(self, name: str, owner: str) -> str:
        """Return the word of a name.

        Raises:
            ConfigurationError: the name is missing or null.
        """
        text = self.text(name)
        if text is None:
            raise self.location.error(f"{owner} needs {name}")
        return text


Node = Word | Items | Mapping


def is_null(node: Node) -> bool:
    """Return True for a word without a text, such as YAML's null."""
    return isinstance(node, Word) and node.text is None


def text_of(node: Node, name: str) -> str:
    """Return the text of a word.

    Raises:
        ConfigurationError: the node is no word, is null, or has a placeholder without a value.
    """
    if not isinstance(node, Word) or node.text is None:
        raise node.location.error(f"{name} must be a text or a number")
    if node.missing:
        raise node.location.error(f"{node.missing} has no value: give it with -D {node.missing[2:-1]}=VALUE")
    return node.text


def mapping_of(node: Node, name: str) -> Mapping:
    """Return the mapping.

    Raises:
        ConfigurationError: the node is no mapping.
    """
    if not isinstance(node, Mapping):
        raise node.location.error(f"{name} must hold names with values")
    return node


def items_of(node: Node | None, name: str) -> list[Node]:
    """Return the members of a list; empty for null.

    Raises:
        ConfigurationError: the node is no list.
    """
    if node is None or is_null(node):
        return []
    if not isinstance(node, Items):
        raise node.location.error(f"{name} must be a list")
    return node.items
