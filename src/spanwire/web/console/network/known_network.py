"""The brokers and links of a map, from the reports of brokers and the ways to consumers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from spanwire.management.tables.network_tables import RUNNING

MAX_BROKERS: Final = 1_000  # brokers of a map; a broker knows no more
MAX_LINKS: Final = 5_000  # links of a map
OWN: Final = "own"
SPANWIRE: Final = "spanwire"
ACTIVEMQ: Final = "activemq"
REPORTED: Final = "reported"  # known by its consumers, or as the far end of a link
SILENT: Final = "silent"

Row = Mapping[str, object]


@dataclass(slots=True)
class KnownBroker:
    """A broker of the map; ``silence`` is the reason for a missing report, ``age_s`` its age.

    A guest has opened the link to the own broker, and no other broker has asked the guest. An invited guest has opened
    a duplex link, and could report over it.
    """

    name: str
    kind: str = REPORTED
    silence: str = ""
    age_s: float = 0.0
    is_guest: bool = False
    is_invited: bool = False


@dataclass(slots=True)
class KnownLink:
    """One direction of a link: messages go from ``near`` to ``far``.

    ``state`` is empty without a report. ``is_known`` is False for a link known only from consumers beyond. For a duplex
    link with a silent far end, the way back has only the received messages.
    """

    near: str
    far: str
    name: str = ""
    state: str = ""
    reason: str = ""
    demand: float | None = None
    waiting: float | None = None
    in_flight: float | None = None
    forwarded: float | None = None
    rate: float | None = None
    reconnects: float | None = None
    uri: str = ""
    is_duplex: bool = False
    is_known: bool = True
    is_direct: bool = True
    destinations: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Return True unless the link is known not to run."""
        return self.state in (RUNNING, "")


@dataclass(slots=True)
class KnownNetwork:
    """Brokers by name, the own one first, and all links. ``omitted`` counts brokers beyond `MAX_BROKERS`."""

    own: str
    brokers: dict[str, KnownBroker]
    links: dict[tuple[str, str, str], KnownLink] = field(default_factory=dict)
    omitted: int = 0

    def links_between(self, one: str, other: str) -> list[KnownLink]:
        """Return the links from one broker to another."""
        return [link for link in self.links.values() if (link.near, link.far) == (one, other)]


def known_network(rows: Sequence[Row], status_links: Sequence[Row] = ()) -> KnownNetwork:
    """Return the network from the rows of brokers, the own broker first.

    Args:
        rows: as the control command ``network`` returns them.
        status_links: links of the broker's status, with ``ways`` to consumers beyond.
    """
    own = str(rows[0].get("name")) if rows else ""
    network = KnownNetwork(own, {own: KnownBroker(own, OWN)})
    names: dict[str, str] = {}
    for row in rows:
        name = str(row.get("name"))
        names[str(row.get("id") or name)] = name
        silence = str(row.get("silence") or "")
        kind = OWN if name == own else SILENT if silence and not row.get("kind") else str(row.get("kind") or SPANWIRE)
        _add(network, KnownBroker(name, kind, silence, _number(row.get("age_s")) or 0.0))
    for row in rows:
        for link in _rows(row.get("links")):
            for direction in _directions(str(row.get("name")), link):
                _link(network, direction)
    if rows:
        _mark_guests(network, _rows(rows[0].get("links")))
    _drop_nameless(network)
    for link in status_links:
        for way in _ways(link):
            for near, far in pairwise([own, *(names.get(broker, broker) for broker in way)]):
                if not network.links_between(near, far):
                    _link(network, KnownLink(near, far, is_known=False))
    return network


def _drop_nameless(network: KnownNetwork) -> None:
    """Drop the reports of far ends about links without a name, where the near end has reported more."""
    named = {(link.near, link.far) for link in network.links.values() if link.name and link.is_direct}
    for key in [key for key in network.links if not key[2] and key[:2] in named]:
        del network.links[key]


def _mark_guests(network: KnownNetwork, links: Sequence[Row]) -> None:
    """Mark the brokers known only from incoming links to the own broker."""
    for link in links:
        guest = network.brokers.get(str(link.get("remote")))
        if guest is not None and guest.kind == REPORTED and (link.get("incoming") or link.get("accepted")):
            guest.is_guest = True
            guest.is_invited = guest.is_invited or bool(link.get("accepted"))


def _add(network: KnownNetwork, broker: KnownBroker) -> bool:
    known = network.brokers.get(broker.name)
    if known is not None:
        if known.kind == REPORTED:
            network.brokers[broker.name] = broker
        return True
    if len(network.brokers) >= MAX_BROKERS:
        network.omitted += 1
        return False
    network.brokers[broker.name] = broker
    return True


def _link(network: KnownNetwork, link: KnownLink) -> None:
    key = (link.near, link.far, link.name)
    known = network.links.get(key)
    if known is not None and (known.is_direct or not link.is_direct):
        return
    if link.near == link.far or (known is None and len(network.links) >= MAX_LINKS):
        return
    if _add(network, KnownBroker(link.near)) and _add(network, KnownBroker(link.far)):
        network.links[key] = link


def _directions(teller: str, row: Row) -> Iterator[KnownLink]:
    """Yield the directions of a link in a broker's report.

    Directions better known at the other end are not direct.
    """
    other = str(row.get("remote") or row.get("uri") or "")
    if not other:
        return
    name, state, reason = (str(row.get(key) or "") for key in ("name", "state", "reason"))
    reconnects = _number(row.get("reconnects"))
    listed = row.get("destinations")
    destinations = tuple(str(one) for one in listed) if isinstance(listed, (list, tuple)) else ()
    uri, is_duplex = str(row.get("uri") or ""), row.get("duplex") is True or row.get("accepted") is True
    if row.get("incoming"):
        yield KnownLink(other, teller, name, state, is_direct=False)
        return
    yield KnownLink(
        teller, other, name, state, reason, _number(row.get("demand")), _number(row.get("waiting")),
        _number(row.get("in_flight")), _number(row.get("dequeued")), _number(row.get("rate")), reconnects, uri,
        is_duplex, destinations=destinations,
    )  # fmt: skip
    if is_duplex:
        yield KnownLink(
            other, teller, name, state, reason, forwarded=_number(row.get("received")),
            rate=_number(row.get("received_rate")), reconnects=reconnects, is_duplex=True, is_direct=False,
        )  # fmt: skip


def _rows(value: object) -> list[Row]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _ways(link: Row) -> Iterator[list[str]]:
    ways = link.get("ways")
    for way in ways if isinstance(ways, (list, tuple)) else ():
        if isinstance(way, (list, tuple)) and way:
            yield [str(broker) for broker in way]
