"""The static agent: a fixed list of brokers, ``static:(tcp://host1:61616,ssl://host2:61617)?maxReconnectDelay=5000``.

Only takes a URI apart; what the inner URIs and the options mean is the reader's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError

SCHEME: Final = "static"
MAX_URIS: Final = 100  # brokers of one connector: a bridge and its prefetched messages each


@dataclass(frozen=True)
class StaticUri:
    """The URIs of the brokers, in order, and the options of the agent."""

    uris: tuple[str, ...]
    options: str


def parse_static(text: str) -> StaticUri:
    """Takes ``static:(…)?…`` apart; ``static:uri`` and ``static://(…)`` are the same. Raises `ConfigurationError`."""
    scheme, colon, rest = text.strip().partition(":")
    if scheme != SCHEME or not colon:
        raise ConfigurationError("a network connector needs the uri static:(tcp://host:port)")
    rest = rest.removeprefix("//") if rest.startswith("//(") else rest
    options = ""
    if rest.startswith("("):
        inner, closing, after = rest[1:].rpartition(")")
        if not closing or (after and not after.startswith("?")):
            raise ConfigurationError("the parentheses of the static: uri are not closed")
        options = after.removeprefix("?")
    else:
        inner = rest
    uris = tuple(part.strip() for part in _parts(inner) if part.strip())
    if not uris:
        raise ConfigurationError("the static: uri names no broker; write static:(tcp://host:port)")
    if len(uris) > MAX_URIS:
        raise ConfigurationError(f"the static: uri names {len(uris)} brokers, {MAX_URIS} are the most")
    return StaticUri(uris, options)


def _parts(text: str) -> list[str]:
    """The text cut at its commas, but for those in parentheses, which belong to an inner list."""
    found: list[str] = []
    depth = start = 0
    for place, character in enumerate(text):
        if character == "," and depth == 0:
            found.append(text[start:place])
            start = place + 1
        else:
            depth += (character == "(") - (character == ")")
    return [*found, text[start:]]
