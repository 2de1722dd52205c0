"""What a route file holds before anybody knows what it means: words, lists and mappings, each with its line.

Readers of formats (`yaml_file`, `camel_xml`) make nodes; `parsing` and `endpoints` give them meaning. Every error says
file, line, word, and the known word that may be meant.
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
    """Where something stands."""

    file: str
    line: int

    def error(self, message: str) -> ConfigurationError:
        """An error of one line about what stands here; of addresses in it no secrets."""
        return ConfigurationError(f"{self.file}:{self.line}: {mask(message)}")

    def unknown(self, kind: str, word: str, known: Collection[str]) -> ConfigurationError:
        """An error about a word that nobody knows."""
        shown = shown_name(word)[:MAX_SHOWN]
        return self.error(f"there is no {kind} {shown!r}{suggestion(shown, known)}")


@dataclass(frozen=True, slots=True)
class Word:
    """A text, number or truth value, as it was written; None for none. ``missing`` is a placeholder in it that has no
    value, which is told when somebody asks for the text.
    """

    location: Location
    text: str | None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    location: Location
    items: list[Node]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a mapping."""

    location: Location
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Names with values, in order."""

    location: Location
    entries: dict[str, Entry] = field(default_factory=dict)

    def check(self, kind: str, known: Sequence[str]) -> None:
        """Raises `ConfigurationError` for a name that is not among ``known``."""
        for name, entry in self.entries.items():
            if name not in known:
                raise entry.location.unknown(kind, name, known)

    def node(self, name: str) -> Node | None:
        """The value of that name, if it is there."""
        entry = self.entries.get(name)
        return None if entry is None else entry.value

    def text(self, name: str) -> str | None:
        """The word of that name, if it is there and not null."""
        node = self.node(name)
        return None if node is None or is_null(node) else text_of(node, name)

    def require(self, name: str, owner: str) -> str:
        """The word of that name, which must be there."""
        text = self.text(name)
        if text is None:
            raise self.location.error(f"{owner} needs {name}")
        return text


Node = Word | Items | Mapping


def is_null(node: Node) -> bool:
    """Return True for a word without a text, such as YAML's null."""
    return isinstance(node, Word) and node.text is None


def text_of(node: Node, name: str) -> str:
    """The text of a word. Raises `ConfigurationError` for a list, a mapping or nothing, and for a placeholder without a
    value.
    """
    if not isinstance(node, Word) or node.text is None:
        raise node.location.error(f"{name} must be a text or a number")
    if node.missing:
        raise node.location.error(f"{node.missing} has no value: give it with -D {node.missing[2:-1]}=VALUE")
    return node.text


def mapping_of(node: Node, name: str) -> Mapping:
    """The mapping. Raises `ConfigurationError` for anything else."""
    if not isinstance(node, Mapping):
        raise node.location.error(f"{name} must hold names with values")
    return node


def items_of(node: Node | None, name: str) -> list[Node]:
    """The members of a list; none for nothing. Raises `ConfigurationError` for anything else."""
    if node is None or is_null(node):
        return []
    if not isinstance(node, Items):
        raise node.location.error(f"{name} must be a list")
    return node.items
