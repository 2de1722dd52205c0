"""Words that are no part of an identifier any more, with the words that took their place.

Part of `make lint`.

A reader looks a word up once. So each thing has one name, the term of JMS and ActiveMQ where there is one, and a word
that had four meanings has none. A word, or its plural, is a part of a name in snake_case or CamelCase: ``told_to_pull``
and ``ToldQueue`` contain ``told``, ``uphold`` does not. Texts, wire options and names in the store are no identifiers.

To retire a word, add a row to `RETIRED`. To finish a package, take it out of ``still_in``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

SOURCES: Final = "src/spanwire/"
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Retired(NamedTuple):
    """The replacement of a word and the packages that the rule is for, as paths below src/spanwire."""

    instead: str
    where: tuple[str, ...] = ("",)
    still_in: tuple[str, ...] = ()  # only gets shorter


RETIRED: Final[dict[str, Retired]] = {
    "bury": Retired("send_to_dlq"),
    "detention": Retired("deferred dead letters"),
    "handover": Retired("group rescan"),
    "fact": Retired("metadata record", where=("broker", "stores")),
    "home": Retired("destination", where=("broker", "network", "protocols", "stores")),
    "looking": Retired("scanning, selective dispatch"),
    "news": Retired("advisories, destination events"),
    "office": Retired("dead letter handler"),
    "outlet": Retired("connection output"),
    "party": Retired("scan group"),
    "piece": Retired("part, slice", where=("stores",)),
    "place": Retired("index, position, location", where=("broker", "stores")),
    "rooms": Retired("assembly"),
    "spared": Retired("sequence ranges"),
    "told": Retired("reported, published, notified"),
    "unstored": Retired("unsynced", still_in=("pipeline/source",)),
}


def words_of(identifier: str) -> list[str]:
    """Return the words of a name in snake_case or CamelCase, in lower case."""
    return [word.lower() for word in WORD.findall(identifier)]


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each class, function, argument, variable and attribute of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def retired_in(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and fault of each definition in a module, or its file name, that contains a retired word."""
    if not path.startswith(SOURCES):
        return
    inside = path.removeprefix(SOURCES)
    rules = {
        word: rule
        for word, rule in RETIRED.items()
        if is_below(inside, rule.where) and not is_below(inside, rule.still_in)
    }
    for line, name in [(1, inside.rpartition("/")[2].removesuffix(".py")), *identifiers(tree)]:
        for word in words_of(name):
            rule = rules.get(word) or rules.get(word.removesuffix("s"))
            if rule is not None:
                yield (
                    line,
                    f"{name}: the word {word!r} is retired; write {rule.instead} (tools/retired_words.py)",
                )


def is_below(path: str, packages: tuple[str, ...]) -> bool:
    """Return True if ``path`` is one of ``packages`` or lies below one.

    An empty package is the whole source.
    """
    return any(not package or path == package or path.startswith(package + "/") for package in packages)
