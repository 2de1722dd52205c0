"""Reads TOML as nodes with lines, as `spanwire.routes.readers.yaml_file` reads YAML.

The reader keeps every word as text.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB
from spanwire.routes.readers.nodes import Entry, Items, Location, Mapping, Node, Word

MAX_FILE_BYTES: Final = MIB  # bytes; a file of a thousand bridges has some hundred kilobytes
MAX_DEPTH: Final = 8  # tables inside each other; a bridge needs two
KEY: Final = r"(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')"
TABLE_LINE: Final = re.compile(rf"\s*\[\[?\s*({KEY}(?:\s*\.\s*{KEY})*)\s*\]\]?")
KEY_LINE: Final = re.compile(rf"\s*({KEY}(?:\s*\.\s*{KEY})*)\s*=")
BROKEN_AT: Final = re.compile(r"at line (\d+)")


def read_toml(content: bytes, file: str) -> Mapping:
    """Return the document.

    Raises:
        ConfigurationError: the text is no TOML, or exceeds the limits; the error has the line.
    """
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{file}: is larger than {MAX_FILE_BYTES} bytes, which no file of bridges needs")
    try:
        text = content.decode("utf-8-sig")
        document = tomllib.loads(text)
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file}:1: the TOML is not in UTF-8; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        match = BROKEN_AT.search(str(error))
        line = int(match.group(1)) if match else text.count("\n") + 1  # else the error is at the end of the file
        raise Location(file, line).error(f"the TOML is broken: {str(error).partition(' (at ')[0]}") from None
    except (RecursionError, ValueError, OverflowError):
        raise Location(file, 1).error("the TOML is nested too deep or has a number out of range") from None
    return _Conversion(file, _lines(text)).mapping(document, (), 1)


class _Conversion:
    """Converts tables to nodes, with the lines of the keys."""

    def __init__(self, file: str, lines: dict[tuple[str, ...], int]) -> None:
        self._file: Final[str] = file
        self._lines: Final[dict[tuple[str, ...], int]] = lines

    def mapping(self, table: dict[str, object], path: tuple[str, ...], line: int) -> Mapping:
        """Return a table. A key without a known line has the line of the table."""
        location = Location(self._file, self._lines.get(path, line))
        if len(path) > MAX_DEPTH:
            raise location.error(f"more than {MAX_DEPTH} tables stand inside each other")
        entries: dict[str, Entry] = {}
        for name, value in table.items():
            inner = (*path, name)
            key_line = self._lines.get(inner, location.line)
            entries[name] = Entry(Location(self._file, key_line), self._node(value, inner, key_line))
        return Mapping(location, entries)

    def _node(self, value: object, path: tuple[str, ...], line: int) -> Node:
        location = Location(self._file, line)
        if isinstance(value, dict):
            return self.mapping(value, path, line)
        if isinstance(value, list):
            return Items(location, [self._node(item, (*path, ""), line) for item in value])
        if isinstance(value, bool):
            return Word(location, "true" if value else "false")
        return Word(location, str(value))


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the first line of each key, by a scan of the text, because the parser has no lines."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = TABLE_LINE.match(line)
        if header is not None:
            table = _split(header.group(1))
            lines.setdefault(table, number)
            continue
        key = KEY_LINE.match(line)
        if key is not None:
            lines.setdefault(table + _split(key.group(1)), number)
    return lines


def _split(keys: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in re.findall(KEY, keys))
