"""A document of definitions, read from the rows of a broker or from TOML, and written as TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.documents.spelling import suggestion
from spanwire.management.definitions.kinds import KINDS, LIMITS, Key, Kind, Value, Values
from spanwire.model.errors import ConfigurationError

FORMAT: Final = "spanwire-definitions"
VERSION: Final = 1
HEAD: Final = ("format", "version", "broker")
MAX_BYTES: Final = 64 * 1024 * 1024  # bytes of a document; 200,000 destinations are smaller
INTEGERS: Final = range(-1, 1 << 63)  # of a Java long; -1 is no limit
MAX_PARTS: Final = 16  # parts of a dotted name, as a.b.c; two are needed, and tomllib takes their square in time
# Comments and texts, those of several lines first. An end that is missing is tomllib's to name. No group is possessive:
# Python 3.11 before 3.11.5 matches those wrongly (issue 106052 of CPython).
_TEXTS: Final = re.compile(
    rb"""#[^\n]*+|"{3}(?:[^"\\]|\\[\s\S]|"(?!""))*(?:"{3,5})?|'{3}(?:[^']|'(?!''))*(?:'{3,5})?"""
    rb"""|"(?:[^"\\\n]|\\[^\n])*"?|'[^'\n]*+'?"""
)
_PARTS: Final = re.compile(rb"(?<![A-Za-z0-9_-])(?:(?:[A-Za-z0-9_-]++|'')[ \t]*+\.[ \t]*+){%d}" % MAX_PARTS)
BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
UNPAIRED: Final = re.compile("[\x7f\ud800-\udfff]")  # TOML escapes the one, and has no way to write the others
Item = tuple[str, Key]  # name of the kind, and what tells the object from others


@dataclass(frozen=True, slots=True)
class Document:
    """Definitions of the broker ``broker``: the values of all fields of each object; limits may lack some."""

    broker: str
    items: dict[Item, Values]

    def of(self, kind: Kind) -> list[tuple[Key, Values]]:
        """Return the objects of a kind by name."""
        return sorted((key, values) for (name, key), values in self.items.items() if name == kind.name)


def from_rows(broker: str, rows: Iterable[Mapping[str, object]]) -> Document:
    """Return the document of a broker's rows without fields unknown to this version."""
    items: dict[Item, Values] = {}
    for row in rows:
        kind = KINDS.get(str(row.get("kind")))
        if kind is not None and all(isinstance(row.get(name), str) for name in kind.keys):
            known = {name: row[name] for name in kind.defaults if name in row}
            items[_item(kind, row)] = _complete(kind, known)
    return Document(broker, items)


def is_document(content: bytes) -> bool:
    """Return True for the text of a document, not of another file in TOML or XML."""
    head = content[:4096].decode("utf-8", "replace")
    return re.search(rf'^format\s*=\s*["\']{FORMAT}["\']', head, re.MULTILINE) is not None


def from_toml(content: bytes, source: str) -> Document:
    """Return the document in ``content``.

    Raises:
        ConfigurationError: ``content`` is no document; the text names ``source``, the table and the entry.
    """
    tables = _tables(content, source)
    items: dict[Item, Values] = {}
    for name, table in tables.items():
        if name in HEAD:
            continue
        kind = KINDS.get(name)
        if kind is None:
            raise ConfigurationError(f"{source}: there is no kind [{name[:60]}]{suggestion(name[:60], KINDS)}")
        for place, entry in _entries(kind, table, source):
            item, values = _read(kind, entry, place)
            if item in items:
                raise ConfigurationError(f"{place}: {kind.title(item[1])} stands there twice; keep one")
            items[item] = values
    return Document(str(tables.get("broker", "")), items)


def _tables(content: bytes, source: str) -> dict[str, object]:
    """Return the tables of a document of this version. Raises `ConfigurationError`."""
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"{source}: is larger than {MAX_BYTES} bytes, which no definitions need")
    if _PARTS.search(_TEXTS.sub(_emptied, content)):
        raise ConfigurationError(f"{source}: a name has more than {MAX_PARTS} parts")
    try:
        tables = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source}: is not in UTF-8; save it as UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ConfigurationError(f"{source}: the TOML is broken: {error}") from error
    version = tables.get("version")
    if tables.get("format") == FORMAT and type(version) is int and version > VERSION:
        raise ConfigurationError(
            f"{source}: has the version {version} of a newer Spanwire, and this one reads up to {VERSION}: use "
            "the newer one"
        )
    if tables.get("format") != FORMAT or version != VERSION:
        raise ConfigurationError(f'{source}: begin it with format = "{FORMAT}" and version = {VERSION}')
    return tables


def _emptied(found: re.Match[bytes]) -> bytes:
    """Return an empty text for a text, and no text for a comment."""
    return b"" if found[0].startswith(b"#") else b"''"


def to_toml(document: Document) -> str:
    """Return the document as TOML: objects by kind and name, without default values."""
    lines = [
        f"# Definitions of broker {_one_line(document.broker)}, without messages. Secrets are left out and named.",
        f'format = "{FORMAT}"',
        f"version = {VERSION}",
        f"broker = {_text(document.broker)}",
    ]
    for kind in KINDS.values():
        for key, values in document.of(kind):
            lines += ["", f"[{kind.name}]" if kind is LIMITS else f"[[{kind.name}]]"]
            lines += [f"{name} = {_text(part)}" for name, part in zip(kind.keys, key, strict=True)]
            for name, value in values.items():
                if kind is LIMITS or value != kind.defaults[name]:
                    lines.append(f"{name} = {_written(value)}")
    return "\n".join(lines) + "\n"


def _entries(kind: Kind, table: object, source: str) -> list[tuple[str, object]]:
    """Return the entries of a kind, each with the name of its place. Raises `ConfigurationError`."""
    if kind is LIMITS:
        return [(f"{source}: [{kind.name}]", table)]
    if not isinstance(table, list):
        raise ConfigurationError(f"{source}: write [[{kind.name}]] before each of the {kind.plural}")
    return [(f"{source}: [[{kind.name}]] number {number}", entry) for number, entry in enumerate(table, 1)]


def _read(kind: Kind, entry: object, place: str) -> tuple[Item, Values]:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{place} is no table")
    for name in kind.keys:
        if not isinstance(entry.get(name), str) or not entry[name]:
            raise ConfigurationError(f'{place}: write {name} = "…"')
    known = (*kind.keys, *kind.defaults)
    values: dict[str, object] = {}
    for name, value in entry.items():
        if name not in known:
            raise ConfigurationError(f"{place}: there is no {name[:60]!r}{suggestion(name[:60], known)}")
        if name in kind.defaults:
            if not _is_like(value, kind.defaults[name]):
                raise ConfigurationError(f"{place}: {name} is {_type_of(kind.defaults[name])}")
            if isinstance(value, int) and value not in INTEGERS:
                raise ConfigurationError(f"{place}: {name} is from {INTEGERS[0]} to {INTEGERS[-1]}")
            values[name] = value
    return _item(kind, entry), _complete(kind, values)


def _item(kind: Kind, row: Mapping[str, object]) -> Item:
    return kind.name, tuple(str(row[name]) for name in kind.keys)


def _complete(kind: Kind, known: Mapping[str, object]) -> Values:
    """Return the values of all fields in order; limits may lack some."""
    return {
        name: known.get(name, default)  # type: ignore[misc]  # of the default's type, as checked
        for name, default in kind.defaults.items()
        if kind is not LIMITS or name in known
    }


def _is_like(value: object, default: Value) -> bool:
    """Return True if a value has the type of a default."""
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if isinstance(default, dict):
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return type(value) is type(default)


def _type_of(default: Value) -> str:
    names = {bool: "true or false", int: "a whole number", str: "a text", list: "a list of texts"}
    return names.get(type(default), "a table of texts")


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return f"{{{', '.join(_pairs(value))}}}"


def _pairs(table: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(table.items()):
        yield f"{name if BARE.fullmatch(name) else _text(name)} = {_text(value)}"


def _text(text: str) -> str:
    """Return a basic string of TOML with the escapes of JSON; an unpaired surrogate becomes U+FFFD."""
    return UNPAIRED.sub(
        lambda found: "\\u007F" if found[0] == "\x7f" else "\\uFFFD", json.dumps(text, ensure_ascii=False)
    )


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
