"""Reads TOML into the same `Element`s as XML, with the names of ``activemq.xml`` in snake_case.

    broker_name = "orders"
    [[transport_connectors]]
    uri = "tcp://127.0.0.1:61616"
    [[destinations]]
    queue = "ORDERS"
    [persistence_adapter.kaha_db]
    directory = "data/journal"
    [[destination_policy.policy_entries]]
    queue = ">"
    memory_limit = "64 mb"

A list of tables becomes the element of this name with one inner element per table. If the name is no plural (such as
``composite_queue``), each table becomes an element of this name. A table in a list of destinations (such as
``excluded_destinations``) names a queue or a topic. Everything may be in a ``[broker]`` table.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final

from spanwire.documents.element import MAX_DEPTH, MAX_DOCUMENT_BYTES, MAX_ELEMENTS, Attribute, Element
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.elements import ELEMENTS
from spanwire.service.config.tables.handling import LATER
from spanwire.service.config.values.diagnostics import snake_case

KEY: Final = r"(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')"
TABLE_LINE: Final = re.compile(rf"\s*\[\[?\s*({KEY}(?:\s*\.\s*{KEY})*)\s*\]\]?")
KEY_LINE: Final = re.compile(rf"\s*({KEY}(?:\s*\.\s*{KEY})*)\s*=")
BROKEN_AT: Final = re.compile(r"at line (\d+)")
# Needed for words with adjacent capitals. If TOML spells two words alike, such as discoveryUri and discoveryURI, the
# supported word counts.
KNOWN: Final[dict[str, str]] = {
    snake_case(word): word
    for is_later in (True, False)
    for table in ELEMENTS.values()
    for word, rule in (*table.settings.items(), *table.children.items())
    if (rule.kind == LATER) is is_later
}
ITEMS: Final = {
    "policyEntries": "policyEntry",
    "redeliveryPolicyEntries": "redeliveryPolicy",
    "users": "authenticationUser",
    "authorizationEntries": "authorizationEntry",
}  # the items of other lists have the name without its final s
DESTINATION_LISTS: Final = frozenset(
    "destinations excludedDestinations dynamicallyIncludedDestinations staticallyIncludedDestinations "
    "durableDestinations forwardTo".split()
)


class _Lines:
    """Finds the line of a key by scanning the text, because the parser has no line numbers."""

    def __init__(self, text: str) -> None:
        self._lines_by_path: Final[dict[tuple[str, ...], list[int]]] = {}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), 1):
            header = TABLE_LINE.match(line)
            if header:
                table = _split(header.group(1))
                self._lines_by_path.setdefault(table, []).append(number)
                continue
            key = KEY_LINE.match(line)
            if key:
                self._lines_by_path.setdefault(table + _split(key.group(1)), []).append(number)

    def after(self, path: tuple[str, ...], line: int) -> int:
        """Return the first line from ``line`` on that sets ``path``, or ``line`` for an inline table."""
        return next((number for number in self._lines_by_path.get(path, ()) if number >= line), line)

    def item(self, path: tuple[str, ...], index: int, line: int) -> int:
        """Return the line of the table ``index`` of ``[[path]]``; ``line`` for a list in one value."""
        lines = self._lines_by_path.get(path, ())
        return lines[index] if index < len(lines) else line


def read_toml(content: bytes, source: str) -> Element:
    """Return the ``broker`` element of a file.

    Raises `ConfigurationError` with the line of a syntax error.
    """
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ConfigurationError(f"{source}: is larger than {MAX_DOCUMENT_BYTES} bytes, which no configuration needs")
    try:
        text = content.decode("utf-8")
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source}:1: the TOML is not in UTF-8; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        match = BROKEN_AT.search(str(error))
        line = int(match.group(1)) if match else text.count("\n") + 1  # else it is "at end of document"
        reason = str(error).partition(" (at ")[0]
        raise ConfigurationError(f"{source}:{line}: the TOML is broken: {reason}") from error
    except (RecursionError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"{source}:1: the TOML is nested too deep or holds a number out of range") from error
    path: tuple[str, ...] = ()
    if isinstance(document.get("broker"), dict):
        others = sorted(set(document) - {"broker"})
        if others:
            raise ConfigurationError(f"{source}:1: {others[0]!r} stands outside the [broker] table; move it inside")
        document, path = document["broker"], ("broker",)
    return _Conversion(source, _Lines(text)).table("broker", document, path, 1)


class _Conversion:
    """Converts tables to elements, and counts the elements."""

    def __init__(self, source: str, lines: _Lines) -> None:
        self._source: Final = source
        self._lines: Final = lines
        self._count = 0

    def table(self, name: str, table: dict[str, object], path: tuple[str, ...], line: int) -> Element:
        """Return a table as an element."""
        self._count += 1
        if self._count > MAX_ELEMENTS or len(path) > MAX_DEPTH:
            raise ConfigurationError(f"{self._source}:{line}: more tables than a configuration needs")
        element = Element(name, line)
        for key, value in table.items():
            item_path = (*path, key)
            item_line = self._lines.after(item_path, line)
            camel_name = camel_case(key)
            if isinstance(value, dict):
                element.children.append(self.table(camel_name, value, item_path, item_line))
            elif isinstance(value, list) and camel_name not in DESTINATION_LISTS and _item_of(camel_name) == camel_name:
                element.children.extend(self._items(camel_name, value, item_path, item_line))
            elif isinstance(value, list):
                element.children.append(self._list(camel_name, value, item_path, item_line))
            else:
                element.attributes[camel_name] = Attribute(self._scalar(key, value, item_line), item_line)
        return element

    def _list(self, name: str, items: list[object], path: tuple[str, ...], line: int) -> Element:
        element = Element(name, line)
        element.children.extend(self._items(name, items, path, line))
        return element

    def _items(self, name: str, items: list[object], path: tuple[str, ...], line: int) -> list[Element]:
        """Return the elements for the tables of a list."""
        elements: list[Element] = []
        for index, item in enumerate(items):
            item_line = self._lines.item(path, index, line)
            if not isinstance(item, dict):
                raise ConfigurationError(f"{self._source}:{item_line}: {path[-1]} must be a list of tables")
            if name in DESTINATION_LISTS:
                elements.extend(self._destinations(item, path, item_line))
            else:
                elements.append(self.table(_item_of(name), item, path, item_line))
        return elements

    def _destinations(self, item: dict[str, object], path: tuple[str, ...], line: int) -> list[Element]:
        """Return the elements of a table of destinations.

        An entry such as ``queue = "A"`` is short for a queue with this physicalName.
        """
        elements = []
        for key, value in item.items():
            item_line = self._lines.after((*path, key), line)
            if isinstance(value, dict):
                elements.append(self.table(camel_case(key), value, (*path, key), item_line))
                continue
            name = Attribute(self._scalar(key, value, item_line), item_line)
            elements.append(Element(camel_case(key), item_line, attributes={"physicalName": name}))
        return elements

    def _scalar(self, key: str, value: object, line: int) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float | str):
            return str(value)
        raise ConfigurationError(f"{self._source}:{line}: {key} must be text, a number, true or false")


def camel_case(name: str) -> str:
    """Return ``data_directory`` in the spelling of ``activemq.xml``."""
    known = KNOWN.get(name)
    if known is not None:
        return known
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _item_of(name: str) -> str:
    """Return the element name for the tables of a list; the list's own name if such elements are repeated."""
    return ITEMS.get(name, name.removesuffix("s"))


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
