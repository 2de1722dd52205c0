"""Reads Java ``.properties`` text and replaces ``${…}`` placeholders.

Placeholders are replaced in every value of a configuration. A name is looked up in this order:

1. variables of the command line (``-D name=value``)
2. directories (``activemq.base``, ``activemq.home``, ``activemq.conf``, ``activemq.data``)
3. the properties of a PropertyPlaceholderConfigurer bean
4. the environment, by the name itself and as ``BROKER_NAME`` for ``broker-name``

``${name:text}`` has a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from spanwire.documents.spelling import closest
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import MAX_WORD

MAX_EXPANSIONS: Final = 200  # replacements within one value; ends properties that name each other
MAX_VALUE: Final = 64 * 1024  # characters of one value after replacement; bounds the memory

PLACEHOLDER: Final = re.compile(r"\$\{([^${}]*)\}")
ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def variable_of(name: str) -> str:
    """Return the variable of the environment that has the value of a placeholder."""
    return re.sub(r"[.\-]", "_", name).upper()


class UnknownPlaceholderError(ConfigurationError):
    """A placeholder has no value."""


class Variables:
    """The values of placeholders; values may be secrets and never appear in an error or a repr."""

    def __init__(
        self, values: Mapping[str, str], environment: Mapping[str, str], decryption: Decryption | None = None
    ) -> None:
        self._decryption: Final = Decryption(environment) if decryption is None else decryption
        self._values: Final = dict(values)
        self._environment: Final = environment

    def add(self, properties: Mapping[str, str]) -> None:
        """Add properties of the file; earlier values take precedence."""
        for name, value in properties.items():
            self._values.setdefault(name, value)

    def value(self, name: str) -> str | None:
        """Return the value of a name from the command line or the file."""
        return self._values.get(name)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment with the values of last resort."""
        return self._environment

    def names(self) -> list[str]:
        """Return the names with a value, without the environment."""
        return list(self._values)

    def replace(self, text: str) -> str:
        """Return ``text`` with all placeholders replaced, inner placeholders first.

        Raises:
            UnknownPlaceholderError: a name has no value.
            ConfigurationError: the replacement does not end.
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
            value = self._environment.get(variable_of(name))
        if value is not None:
            return self._decryption.plain(value)
        if colon:
            return default
        nearest = closest(name, self.names())
        shown = name if len(name) <= MAX_WORD else name[:MAX_WORD] + "…"
        remedy = f"give one with -D {shown}=VALUE, or as {variable_of(shown)} in the environment"
        raise UnknownPlaceholderError(
            f"the placeholder ${{{shown}}} has no value; {f'did you mean {nearest}?' if nearest else remedy}"
        )


def read_properties(text: str) -> dict[str, str]:
    """Parse a ``.properties`` text (java.util.Properties); a line without a separator has an empty value."""
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
    """Split a line at the first ``=``, ``:`` or blank that is not escaped."""
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
