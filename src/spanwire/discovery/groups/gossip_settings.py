"""Settings of gossip: ``gossip:(tcp://seed:61616)?max=20&networks=10.1.0.0/16,*.example.org``.

The brokers in parentheses, the seeds, are linked always. Each tells of the brokers that it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.discovery.addresses.allowed_hosts import AllowedHosts
from spanwire.discovery.addresses.composite import parse_composite
from spanwire.discovery.addresses.reconnect import OPTIONS as RECONNECT_OPTIONS
from spanwire.model.errors import ConfigurationError

GOSSIP: Final = "gossip"
MAX: Final = "max"
NETWORKS: Final = "networks"
OPTIONS: Final = (MAX, NETWORKS)
DEFAULT_MAX: Final = 20  # links of a connector; a full mesh of 21 brokers
MAX_MAX: Final = 100  # as many links as a connector has at most


@dataclass(frozen=True)
class GossipSettings:
    """The bounds of the links of one connector: their number, and the hosts of the others."""

    networks: tuple[str, ...] = ()
    max_links: int = DEFAULT_MAX

    @property
    def description(self) -> str:
        """The bounds as text for messages."""
        return f"gossip about {', '.join(self.networks)}"


@dataclass(frozen=True)
class GossipUri:
    """The parts of a ``gossip:`` URI; ``networks`` is empty if they follow from the seeds."""

    seeds: tuple[str, ...]
    networks: tuple[str, ...]
    max_links: int
    reconnect: str  # the options for new attempts


def parse_gossip(text: str) -> GossipUri:
    """Return the parts of ``gossip:(tcp://host:port)?max=20``. Raises `ConfigurationError`."""
    composite = parse_composite(text)
    if not composite.is_list or composite.path:
        raise ConfigurationError("gossip: names seeds in parentheses; write gossip:(tcp://host:port)")
    options = dict(composite.options)
    for name in options:
        if name not in (*OPTIONS, *RECONNECT_OPTIONS):
            known = ", ".join((*OPTIONS, *RECONNECT_OPTIONS))
            raise ConfigurationError(f"gossip: has no option {name[:60]!r}; it knows {known}")
    limit = options.get(MAX, str(DEFAULT_MAX))
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:6]) <= MAX_MAX):
        raise ConfigurationError(f"max of gossip: is a number of links from 1 to {MAX_MAX}")
    networks = tuple([one.strip() for one in options.get(NETWORKS, "").split(",") if one.strip()])
    if NETWORKS in options and not networks:
        raise ConfigurationError("networks of gossip: is empty; write networks=10.1.0.0/16, or leave it out")
    AllowedHosts(networks)
    pairs = [pair for pair in composite.query.split("&") if pair.partition("=")[0] in RECONNECT_OPTIONS]
    return GossipUri(composite.parts, networks, int(limit), "&".join(pairs))
