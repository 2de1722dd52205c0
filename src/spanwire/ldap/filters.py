"""Search filters with places for names (java.text.MessageFormat), and the escaping of the names.

A user's name is a value, never a part of a filter or of a distinguished name. In ``(uid={0})`` the name is the value of
an assertion (RFC 4515, "String Search Filter Definition"). In ``(member=uid={1},ou=User)`` the name is a value inside
of a distinguished name (RFC 4514, "String Representation of Distinguished Names"). The distinguished name is a value of
an assertion, so the user's name is escaped for both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError

PLACE: Final = re.compile(r"\{(\d)\}")
FILTER_SPECIALS: Final = frozenset("\\*()\0")
NAME_SPECIALS: Final = frozenset('\\,+"<>;=')
MAX_FILTER: Final = 2_000  # characters of a filter in a configuration; those of ActiveMQ's examples have 50


@dataclass(frozen=True, slots=True)
class FilterTemplate:
    """A filter with places {0} and {1}."""

    text: str

    def filled(self, *values: str) -> str:
        """Return the filter with ``values`` as values."""
        parts: list[str] = []
        end = 0
        for match in PLACE.finditer(self.text):
            before = self.text[: match.start()]
            parts.append(self.text[end : match.start()])
            value = values[int(match.group(1))]
            parts.append(filter_value(name_value(value) if _is_inside_name(before) else value))
            end = match.end()
        parts.append(self.text[end:])
        return "".join(parts)


def filter_template(text: str, places: int) -> FilterTemplate:
    """Return the template of a filter; ActiveMQ's examples write some without the outer parentheses.

    Raises:
        ConfigurationError: the filter is none, or has a place without a value.
    """
    shown = text[:80]
    if len(text) > MAX_FILTER:
        raise ConfigurationError(f"the filter {shown!r}… has more than {MAX_FILTER} characters")
    if "'" in text:
        raise ConfigurationError(f"the filter {shown!r} has a quote; write the character as \\27")
    rest = PLACE.sub("", text)
    if "{" in rest or "}" in rest or any(int(place) >= places for place in PLACE.findall(text)):
        allowed = " and ".join(f"{{{place}}}" for place in range(places))
        raise ConfigurationError(f"the filter {shown!r} may have the places {allowed} only")
    whole = text if text.startswith("(") else f"({text})"
    depth = 0
    for character in whole:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
    if depth != 0 or "=" not in whole:
        raise ConfigurationError(f"{shown!r} is no search filter; write one such as (uid={{0}})")
    return FilterTemplate(whole)


def filter_value(value: str) -> str:
    """Return ``value`` as the value of an assertion in a filter."""
    return "".join(f"\\{ord(character):02x}" if character in FILTER_SPECIALS else character for character in value)


def name_value(value: str) -> str:
    """Return ``value`` as the value of an attribute in a distinguished name."""
    escaped = "".join(
        "\\00" if character == "\0" else f"\\{character}" if character in NAME_SPECIALS else character
        for character in value
    )
    if escaped.startswith(("#", " ")):
        escaped = f"\\{escaped}"
    if escaped.endswith(" ") and not escaped.endswith("\\ "):
        escaped = f"{escaped[:-1]}\\ "
    return escaped


def _is_inside_name(before: str) -> bool:
    """Return True for a place inside of a distinguished name: after a second ``=`` of the assertion."""
    assertion = before.rpartition("(")[2]
    return assertion.count("=") > 1
