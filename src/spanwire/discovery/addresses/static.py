"""Fixed lists of brokers: ``static:(tcp://host1:61616,ssl://host2:61617)?maxReconnectDelay=5000``.

``static:`` and ``simple:`` stand for all brokers of the list, ``masterslave:`` for the current master. The module only
splits the URI; the reader of the URI interprets the inner URIs and the options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.discovery.addresses.composite import parse_composite
from spanwire.model.errors import ConfigurationError

SCHEME: Final = "static"
MASTER_SLAVE: Final = "masterslave"
SCHEMES: Final = (SCHEME, "simple", MASTER_SLAVE)


@dataclass(frozen=True)
class StaticUri:
    """The URIs of the brokers in order, and the options.

    With ``is_one`` only the first usable broker is linked.
    """

    uris: tuple[str, ...]
    options: str
    is_one: bool = False


def parse_static(text: str) -> StaticUri:
    """Return the parts of ``static:(…)?…``; also accepts ``static:uri`` and ``static://(…)``.

    Raises `ConfigurationError`.
    """
    scheme, colon, rest = text.strip().partition(":")
    scheme = scheme.lower()
    if scheme not in SCHEMES or not colon:
        raise ConfigurationError("a network connector needs the uri static:(tcp://host:port)")
    uris, options = parse_list(scheme, rest)
    if scheme == MASTER_SLAVE and len(uris) < 2:
        raise ConfigurationError("masterslave: needs two brokers at least; write masterslave:(tcp://a:1,tcp://b:1)")
    return StaticUri(uris, options, scheme == MASTER_SLAVE)


def parse_list(scheme: str, rest: str) -> tuple[tuple[str, ...], str]:
    """Return the URIs and the options of ``(uri,uri)?options``, the text behind ``scheme:``.

    Raises `ConfigurationError`.
    """
    composite = parse_composite(f"{scheme}:{rest}")
    if composite.path:
        raise ConfigurationError(f"a path stands behind the parentheses of the {scheme}: uri; write ?option=value")
    return composite.parts, composite.query
