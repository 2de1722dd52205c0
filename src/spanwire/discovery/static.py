"""Agents with a fixed list of brokers: ``static:(tcp://host1:61616,ssl://host2:61617)?maxReconnectDelay=5000`` for all
of them, ``masterslave:(tcp://host1:61616,tcp://host2:61616)`` for the one that is master; ``simple:`` is ``static:``.

Only takes a URI apart; what the inner URIs and the options mean is the reader's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError

SCHEME: Final = "static"
MASTER_SLAVE: Final = "masterslave"
SCHEMES: Final = (SCHEME, "simple", MASTER_SLAVE)
MAX_URIS: Final = 100  # brokers of one connector: a bridge and its prefetched messages each


@dataclass(frozen=True)
class StaticUri:
    """The URIs of the brokers, in order, and the options of the agent. ``is_one``: of the brokers only the first that
    can be used is.
    """

    uris: tuple[str, ...]
    options: str
    is_one: bool = False


def parse_static(text: str) -> StaticUri:
    """Takes ``static:(…)?…`` apart; ``static:uri`` and ``static://(…)`` are the same. Raises `ConfigurationError`."""
    scheme, colon, rest = text.strip().partition(":")
    scheme = scheme.lower()
    if scheme not in SCHEMES or not colon:
        raise ConfigurationError("a network connector needs the uri static:(tcp://host:port)")
    uris, options = parse_list(scheme, rest)
    if scheme == MASTER_SLAVE and len(uris) < 2:
        raise ConfigurationError("masterslave: needs two brokers at least; write masterslave:(tcp://a:1,tcp://b:1)")
    return StaticUri(uris, options, scheme == MASTER_SLAVE)


def parse_list(scheme: str, rest: str) -> tuple[tuple[str, ...], str]:
    """The URIs and the options of ``(uri,uri)?options``, which is what follows ``scheme:``. Raises
    `ConfigurationError`.
    """
    rest = rest.removeprefix("//") if rest.startswith("//(") else rest
    options = ""
    if rest.startswith("("):
        inner, closing, after = rest[1:].rpartition(")")
        if not closing or (after and not after.startswith("?")):
            raise ConfigurationError(f"the parentheses of the {scheme}: uri are not closed")
        options = after.removeprefix("?")
    else:
        inner = rest
    uris = tuple(part.strip() for part in _parts(inner) if part.strip())
    if not uris:
        raise ConfigurationError(f"the {scheme}: uri names no broker; write {scheme}:(tcp://host:port)")
    if len(uris) > MAX_URIS:
        raise ConfigurationError(f"the {scheme}: uri names {len(uris)} brokers, {MAX_URIS} are the most")
    return uris, options


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
