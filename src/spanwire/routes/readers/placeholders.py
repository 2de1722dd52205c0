"""Replaces ``{{NAME}}`` and ``{{env:NAME:default}}`` in route files, as in Camel.

So a route file needs no passwords. In Spring's XML ``${NAME}`` and ``${NAME:default}`` are replaced as well, also by
variables of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as AnyMapping
from dataclasses import replace
from typing import Final

from spanwire.routes.readers.nodes import Entry, Items, Location, Mapping, Node, Word

SPRING_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.-]*)(?::([^{}]*))?\}")
PLACEHOLDER: Final = re.compile(r"\{\{(env:)?([A-Za-z_][A-Za-z0-9_.-]*)(?::([^{}]*))?\}\}")


class Placeholders:
    """Replaces placeholders by definitions and environment variables."""

    _absent = "the environment has none"  # what is wrong with a variable that has no value

    def __init__(self, definitions: AnyMapping[str, str], environment: AnyMapping[str, str]) -> None:
        self._definitions: Final[AnyMapping[str, str]] = definitions
        self._environment: Final[AnyMapping[str, str]] = environment

    def fill(self, node: Node, is_spring: bool = False) -> Node:
        """Return the nodes with values in place of placeholders.

        An unresolved placeholder of Spring is recorded in its word, because it may belong to an unused expression of
        Camel.

        Raises:
            ConfigurationError: a placeholder of Camel has no value.
        """
        if isinstance(node, Items):
            return Items(node.location, [self.fill(item, is_spring) for item in node.items])
        if isinstance(node, Mapping):
            return Mapping(
                node.location,
                {
                    name: Entry(entry.location, self.fill(entry.value, is_spring))
                    for name, entry in node.entries.items()
                },
            )
        if node.text is None:
            return node
        word = replace(node, text=self._fill_text(node.text, node.location))
        if word.raw:
            return replace(word, raw=word.text or "")
        return self._fill_spring(word) if is_spring else word

    def _fill_spring(self, word: Word) -> Word:
        missing = ""

        def value(match: re.Match[str]) -> str:
            nonlocal missing
            replacement = self._definitions.get(match[1], self._environment.get(match[1], match[2]))
            if replacement is None:
                missing = missing or match[0]
            return match[0] if replacement is None else replacement

        text = SPRING_PLACEHOLDER.sub(value, word.text or "")
        return replace(word, text=text, missing=missing)

    def _fill_text(self, text: str, location: Location) -> str:
        parts: list[str] = []
        end = 0
        for match in PLACEHOLDER.finditer(text):
            parts += [text[end : match.start()], self._value(match, location)]
            end = match.end()
        return "".join([*parts, text[end:]])

    def _value(self, match: re.Match[str], location: Location) -> str:
        is_environment, name, default = match[1] is not None, match[2], match[3]
        value = (self._environment if is_environment else self._definitions).get(name, default)
        if value is None:
            remedy = self._absent if is_environment else f"give it with -D {name}=VALUE"
            raise location.error(f"{match[0]} has no value: {remedy}")
        return str(value)
