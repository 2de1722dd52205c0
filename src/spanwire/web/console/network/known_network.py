"""The brokers and links that one broker knows, from its links and the ways to consumers beyond them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

MAX_BROKERS: Final = 100  # brokers of a map; more are not legible, and each is made anew for every look at the page

Row = Mapping[str, object]


@dataclass(slots=True)
class KnownBroker:
    """A broker of the map.

    ``before`` is the broker over which it is known, None for the broker of the map. ``links`` are the rows of the links
    that are seen; a broker without them is reported.
    """

    key: str
    name: str
    before: str | None
    links: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class KnownNetwork:
    """The brokers by key, nearest first. ``omitted`` counts the ones beyond `MAX_BROKERS`."""

    brokers: dict[str, KnownBroker]
    reported: set[tuple[str, str]] = field(default_factory=set)
    omitted: int = 0


def known_network(name: str, broker_id: str, links: Sequence[Row]) -> KnownNetwork:
    """Return the network that a broker knows from the rows of its links, which have ``ways`` beside the view."""
    own = broker_id or name
    network = KnownNetwork({own: KnownBroker(own, name, None)})
    omitted: set[str] = set()
    for link in sorted(links, key=lambda row: (str(row.get("remote") or row.get("uri")), str(row.get("name")))):
        remote = str(link.get("remote") or link.get("uri"))
        key = next((way[0] for way in _ways(link)), remote)
        _add(network, KnownBroker(key, remote, own), omitted)
        if key in network.brokers:
            network.brokers[key].links.append(link)
    for link in links:
        for way in _ways(link):
            for near, far in pairwise(way):
                _add(network, KnownBroker(far, far, near), omitted)
                if near in network.brokers and far in network.brokers:
                    network.reported.add((near, far))
    network.omitted = len(omitted)
    return network


def _add(network: KnownNetwork, broker: KnownBroker, omitted: set[str]) -> None:
    if broker.key in network.brokers:
        return
    if len(network.brokers) >= MAX_BROKERS:
        omitted.add(broker.key)
    elif broker.before in network.brokers:
        network.brokers[broker.key] = broker


def _ways(link: Row) -> Iterator[list[str]]:
    ways = link.get("ways")
    for way in ways if isinstance(ways, (list, tuple)) else ():
        if isinstance(way, (list, tuple)) and way:
            yield [str(broker) for broker in way]
