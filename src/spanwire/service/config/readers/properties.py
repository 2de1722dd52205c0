"""Java ``.properties`` text, and ``${…}`` placeholders.

Placeholders are replaced in every value of a configuration. A name is looked for among the variables given at start
(``-D name=value``), the places (``activemq.base``, ``activemq.home``, ``activemq.conf``, ``activemq.data``), what a
PropertyPlaceholderConfigurer bean holds, and, last, the environment: as it stands and as ``BROKER_NAME`` for
``broker-name``. ``${name:text}`` gives a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.service.config.values.decryption import Decryption

MAX_EXPANSIONS: Final = 200  # replacements within one value, so that properties naming each other come to an end
MAX_VALUE: Final = 64 * 1024  # characters of one value after replacement

PLACEHOLDER: Final = re.compile(r"\$\{([^${}]*)\}")
ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class UnknownPlaceholderError(ConfigurationError):
    """A placeholder that nothing gives a value; the text is its name."""


class Variables:
    """Where placeholders get their values from. Values may be secrets and never stand in an error or a repr."""

    def __init__(
        self, given: Mapping[str, str], environment: Mapping[str, str], decryption: Decryption | None = None
    ) -> None:
        self._decryption: Final = Decryption(environment) if decryption is None else decryption
        self._values: Final = dict(given)
        self._environment: Final = environment

    def add(self, properties: Mapping[str, str]) -> None:
        """Properties of the file itself; those given before win."""
        for name, value in properties.items():
            self._values.setdefault(name, value)

    def value(self, name: str) -> str | None:
        """The value of one name that was given, or that the file holds."""
        return self._values.get(name)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment that gives values of last resort."""
        return self._environment

    def names(self) -> list[str]:
        """The names that have a value, without those of the environment."""
        return list(self._values)

    def replace(self, text: str) -> str:
        """``text`` with all placeholders replaced, inner ones first.

        Raises `UnknownPlaceholderError` for a name without a value, `ConfigurationError` when there is no end to it.
        """
        for _ in range(MAX_EXPANSIONS):
            match = PLACEHOLDER.search(text)
            if match is None:
                return text
            text = text[: match.start()] + self._value(match.group(1)) + text[match.end() :]
            if len(text) > MAX_VALUE:
                break
        raise ConfigurationError("the placeholders of this value have no end; do they name each other?")

    def _value(self, expression: str) -> str:
        name, colon, default = expression.partition(":")
        value = self._values.get(name)
        if value is None:
            value = self._environment.get(name)
        if value is None:
            value = self._environment.get(re.sub(r"[.\-]", "_", name).upper())
        if value is not None:
            return self._decryption.plain(value)
        if colon:
            return default
        raise UnknownPlaceholderError(name)


def read_properties(text: str) -> dict[str, str]:
    """The keys and values of a ``.properties`` text (java.util.Properties). Lines without a separator have an empty
    value.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _cut(line)
        properties[_unescaped(key)] = _unescaped(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    joined: str | None = None
    for raw in re.split(r"\r\n|\n|\r", text):
        line = raw.lstrip(" \t\f")
        if joined is None and (not line or line[0] in "#!"):
            continue
        joined = line if joined is None else joined + line
        backslashes = len(joined) - len(joined.rstrip("\\"))
        if backslashes % 2:
            joined = joined[:-1]
            continue
        lines.append(joined)
        joined = None
    if joined:
        lines.append(joined)
    return lines


def _cut(line: str) -> tuple[str, str]:
    """Key and value at the first ``=``, ``:`` or blank that is not escaped."""
    index = 0
    while index < len(line) and line[index] not in "=: \t\f":
        index += 2 if line[index] == "\\" else 1
    rest = line[index:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return line[:index], rest


def _unescaped(text: str) -> str:
    return ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return CONTROLS.get(code, code)
