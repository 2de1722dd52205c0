"""Names of beans: quoting as ActiveMQ's, comparison, and patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from typing import Final

DOMAIN: Final = "org.apache.activemq"
MAX_PATTERN: Final = 500  # characters of a name
MAX_WILDCARDS: Final = 5  # stars of a name
ILLEGAL_IN_NAMES: Final = re.compile(r"[:,'\"=?*]")
QUOTED: Final = {"?": "&qmark;", "=": "&equals;", "*": "&asterisk;"}


def quoted(text: str) -> str:
    """Return a value of a bean's name in ActiveMQ's spelling."""
    return ILLEGAL_IN_NAMES.sub(lambda match: QUOTED.get(match[0], "_"), text)


def parts(name: str) -> tuple[str, frozenset[str]]:
    """Return domain and properties of a name; the order of properties has no meaning."""
    domain, _, properties = name.partition(":")
    return domain, frozenset(properties.split(","))


def is_pattern(name: str) -> bool:
    """Return True for a name of possibly several beans."""
    return "*" in name or "?" in name


@dataclass(frozen=True, slots=True)
class Pattern:
    """The name of a bean, or a pattern of names.

    A pattern has ``*`` and ``?`` in values of properties, or ``*`` as the last property.
    """

    domain: re.Pattern[str]
    tests: tuple[re.Pattern[str], ...]
    keys: frozenset[str]
    is_open: bool

    @classmethod
    def of(cls, name: str) -> Pattern:
        """Return the pattern of a name. Raises `ValueError` for too long a name, or too many stars."""
        if len(name) > MAX_PATTERN or name.count("*") > MAX_WILDCARDS:
            raise ValueError(f"a pattern has at most {MAX_PATTERN} characters and {MAX_WILDCARDS} stars")
        domain, properties = parts(name)
        named = sorted(one for one in properties - {"*"} if one)
        return cls(
            _compiled(domain),
            tuple(_compiled(one) for one in named),
            frozenset(one.partition("=")[0] for one in named),
            "*" in properties,
        )

    def may_match(self, keys: frozenset[str]) -> bool:
        """Return True if the names with some keys of properties may match."""
        return self.keys <= keys if self.is_open else self.keys == keys

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Return the matching names."""
        return [name for name in names if self.matches(name)]

    def matches(self, name: str) -> bool:
        """Return True if a name matches."""
        domain, properties = parts(name)
        if self.domain.match(domain) is None or (not self.is_open and len(properties) != len(self.tests)):
            return False
        return all(any(test.match(one) for one in properties) for test in self.tests)


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(translate(text.replace("[", "[[]")))  # only * and ? are special
