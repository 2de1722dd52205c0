"""Composite URIs: ``scheme:(uri,uri)/path?options``, nested (ActiveMQ, Connection Configuration URIs).

    failover://(tcp://a:1?x=1,static:(tcp://b:2,tcp://c:3))?randomize=false

Clients and network connectors use this reader. ``//`` before the parentheses and the parentheses are optional. Without
parentheses everything belongs to the inner URIs, also the options. The module only splits a URI; the reader of the URI
interprets the parts. No error text shows the URI, because a URI may contain secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from spanwire.model.errors import ConfigurationError

MAX_URI: Final = 4_096  # characters of one URI with its inner URIs
MAX_DEPTH: Final = 8  # nested lists; real URIs have at most three
MAX_PARTS: Final = 100  # URIs of one list; each costs a socket
MAX_OPTIONS: Final = 64
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+]{0,31}", re.ASCII)
OPTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9.]{0,127}", re.ASCII)
LISTS: Final = ("broker", "discovery", "failover", "fanout", "masterslave", "network", "proxy", "simple", "static")
DISCOVERY: Final = "discovery"


@dataclass(frozen=True)
class Composite:
    """The parts of a URI; a URI without a list has an ``address``, the text between colon and options.

    ``parts`` are the inner URIs as written, ``path`` is the text between the closing parenthesis and the question mark,
    ``query`` has the ``options`` as written.
    """

    scheme: str
    address: str = ""
    is_list: bool = False
    parts: tuple[str, ...] = ()
    path: str = ""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    query: str = field(default="", repr=False)


def parse_composite(text: str, depth: int = 0) -> Composite:
    """Split one level of a URI; ``depth`` is the number of enclosing lists. Raises `ConfigurationError`."""
    text = text.strip()
    if len(text) > MAX_URI:
        raise ConfigurationError(f"a URI of {len(text)} characters is longer than {MAX_URI}")
    if depth > MAX_DEPTH:
        raise ConfigurationError(f"a URI has more than {MAX_DEPTH} lists inside each other")
    scheme, colon, rest = text.partition(":")
    if not colon or not SCHEME.fullmatch(scheme):
        raise ConfigurationError("a URI has no scheme; write tcp://host:port, or scheme:(uri,uri) for several")
    scheme = scheme.lower()
    body = rest.removeprefix("//")
    if body.startswith("("):
        return _with_parentheses(scheme, body)
    if scheme in LISTS:
        return Composite(scheme, is_list=True, parts=split_parts(scheme, body))
    address, _, query = rest.partition("?")
    return Composite(scheme, address, options=parse_options(f"a {scheme}: uri", query), query=query)


def parse_options(subject: str, query: str) -> dict[str, str]:
    """Return the options in ``a=1&b=2``; reads the older ``wireformat.`` as ``wireFormat.``.

    Raises:
        ConfigurationError: an option is invalid; the text begins with ``subject``
    """
    options: dict[str, str] = {}
    pairs = [pair for pair in query.split("&") if pair]
    if len(pairs) > MAX_OPTIONS:
        raise ConfigurationError(f"{subject} has more than {MAX_OPTIONS} options")
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not OPTION.fullmatch(name):
            raise ConfigurationError(f"{subject}: an option's name holds more than letters, digits and dots")
        options[name.replace("wireformat.", "wireFormat.")] = unquote(value).strip()
    return options


def split_parts(scheme: str, text: str) -> tuple[str, ...]:
    """Return the text split at commas outside of inner lists. Raises `ConfigurationError`."""
    parts = tuple([part.strip() for part in _cut(scheme, text) if part.strip()])
    if not parts and scheme == DISCOVERY:
        raise ConfigurationError("the discovery: uri names no agent; write discovery:(multicast://default)")
    if not parts:
        raise ConfigurationError(f"the {scheme}: uri names no broker; write {scheme}:(tcp://host:port)")
    if len(parts) > MAX_PARTS:
        raise ConfigurationError(f"the {scheme}: uri names {len(parts)} brokers; at most {MAX_PARTS} are allowed")
    return parts


def _cut(scheme: str, text: str) -> list[str]:
    parts: list[str] = []
    depth = start = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if depth > MAX_DEPTH:
            raise ConfigurationError(f"a URI has more than {MAX_DEPTH} lists inside each other")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    if depth:
        raise _unbalanced(scheme)
    return [*parts, text[start:]]


def _with_parentheses(scheme: str, body: str) -> Composite:
    end = _closing(body)
    if end < 0:
        raise _unbalanced(scheme)
    path, _, query = body[end + 1 :].partition("?")
    if path and not path.startswith("/"):
        raise ConfigurationError(f"something stands behind the parentheses of the {scheme}: uri; write ?option=value")
    inner = body[1:end]
    parts = () if scheme == "broker" and not inner.strip() else split_parts(scheme, inner)
    return Composite(scheme, "", True, parts, path.removeprefix("/"), parse_options(f"a {scheme}: uri", query), query)


def _closing(body: str) -> int:
    """Return the index of the parenthesis matching the first character; -1 without one."""
    depth = 0
    for index, character in enumerate(body):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return index
    return -1


def _unbalanced(scheme: str) -> ConfigurationError:
    return ConfigurationError(f"the parentheses of the {scheme}: uri do not match")
