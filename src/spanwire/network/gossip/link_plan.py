"""Decides which members a connector links to, and when to try again. Time and links are passed in.

Pure.

    plan.tick(now, members, seen)     once a second
    plan.on_failure(uri, uptime_s, now)

One link leads to each member. A seed's own link goes before a learned link. With ``duplex`` one broker of a pair opens
the link: the broker with the lesser name, or the other broker if no such link comes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spanwire.discovery.addresses.address import read_address
from spanwire.discovery.addresses.allowed_hosts import AllowedHosts
from spanwire.discovery.addresses.reconnect import Reconnect, ReconnectSettings
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.discovery.groups.sightings import DiscoveryListener
from spanwire.network.gossip.kept_members import Linked
from spanwire.network.gossip.topology import neighbours

GRACE_S: Final = 10.0  # seconds that the broker with the greater name leaves a duplex link to the other one
FORMER_S: Final = 24 * 3600.0  # seconds for which a member that was linked is tried, though nobody tells of it
MAX_FORMER: Final = 100  # of them that have links or are kept in the store, as many as a connector has links
MAX_REMEMBERED: Final = 1_000  # of them in memory, as many as a map has brokers; the one linked last stays longest
BARRED_S: Final = 600.0  # seconds for which an address is not tried where another broker has answered

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """The running links: remote names of learned links by URI, of seeds, of accepted links."""

    links: Mapping[str, str] = field(default_factory=dict)
    seeds: frozenset[str] = frozenset()
    accepted: frozenset[str] = frozenset()  # brokers that have opened a duplex link to this one


@dataclass(slots=True)
class _Target:
    name: str
    since: float  # known since
    reconnect: Reconnect
    addresses: tuple[str, ...] = ()
    turn: int = 0  # which of the addresses comes next
    uri: str = ""  # of the link, "" for none
    proven: str = ""  # the address where the member has answered
    linked_at: float = -math.inf
    retry_at: float = -math.inf
    barred: dict[str, float] = field(default_factory=dict)  # address, until a time


class LinkPlan:
    """The links of one connector to the members of a network; ``listener`` opens and ends them."""

    def __init__(
        self, own: str, settings: GossipSettings, duplex: bool, retry: ReconnectSettings, listener: DiscoveryListener
    ) -> None:
        self._own: Final = own
        self._limit: Final = settings.max_links
        self._allowed: Final = AllowedHosts(settings.networks)
        self._duplex: Final = duplex
        self._retry: Final = retry
        self._listener: Final = listener
        self._targets: Final[dict[str, _Target]] = {}
        self._by_uri: Final[dict[str, _Target]] = {}

    def is_served(self, name: str, seen: Seen) -> bool:
        """Return True if the broker ``name`` has a duplex link to this broker.

        Such a link goes before a link from here.
        """
        return self._duplex and name in seen.accepted and name < self._own

    def tick(self, now: float, members: Mapping[str, tuple[str, ...]], seen: Seen) -> None:
        """Open and end links."""
        usable = self._usable(members)
        self._learn(now, usable, seen)
        wanted = self._wanted(now, usable, seen)
        for target in list(self._targets.values()):
            if target.name not in wanted:
                self._drop(target)
                if target.name not in usable and now - target.linked_at > FORMER_S:
                    del self._targets[target.name]
        self._forget_beyond(usable, wanted)
        for name in sorted(wanted):
            target = self._targets[name]
            if not target.uri and now >= target.retry_at:
                self._open(target, now)

    def on_failure(self, uri: str, uptime_s: float, now: float) -> None:
        """Note that a link could not be opened, or has ended after ``uptime_s`` seconds of use."""
        target = self._by_uri.pop(uri, None)
        if target is None:
            return
        target.uri = ""
        target.turn += 1
        delay = target.reconnect.next_delay(uptime_s)
        target.retry_at = math.inf if delay is None else now + delay

    def recall(self, members: Mapping[str, Linked], now: float) -> None:
        """Take the members that were linked in the last run, by name; each is tried as after a break."""
        for name in self._usable({name: (one.uri,) for name, one in members.items()}):
            linked_at = now - members[name].age_s
            target = _Target(name, now, Reconnect(self._retry), proven=members[name].uri, linked_at=linked_at)
            self._targets.setdefault(name, target)

    def linked(self, now: float) -> dict[str, Linked]:
        """Return the members that were linked lately by name, the latest first."""
        found = [target for target in self._targets.values() if target.proven]
        found.sort(key=lambda one: (-one.linked_at, one.name))
        return {one.name: Linked(one.proven, now - one.linked_at) for one in found}

    def name_of(self, uri: str) -> str:
        """Return the name of the member at an address, as others have told it or it has answered; "" if unknown."""
        found = self._by_uri.get(uri)
        if found is None:
            known = [one for one in self._targets.values() if uri == one.proven or uri in one.addresses]
            found = known[0] if len(known) == 1 else None
        return "" if found is None else found.name

    def end(self) -> None:
        """Forget all; the caller ends the links."""
        self._targets.clear()
        self._by_uri.clear()

    def _forget_beyond(self, usable: Mapping[str, tuple[str, ...]], wanted: set[str]) -> None:
        """Forget the members beyond `MAX_REMEMBERED` that nobody tells of, the ones linked longest ago."""
        former = [one for one in self._targets.values() if one.name not in usable and one.name not in wanted]
        beyond = len(former) - MAX_REMEMBERED
        if beyond > 0:
            for target in sorted(former, key=lambda one: (one.linked_at, one.name))[:beyond]:
                del self._targets[target.name]

    def _usable(self, members: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the members with an address permitted for links."""
        usable: dict[str, tuple[str, ...]] = {}
        for name, uris in members.items():
            hosts = [(uri, read_address(uri)) for uri in uris]
            allowed = tuple([uri for uri, one in hosts if one is not None and self._allowed.allows(one.host)])
            if allowed and name != self._own:
                usable[name] = allowed
        return usable

    def _learn(self, now: float, usable: Mapping[str, tuple[str, ...]], seen: Seen) -> None:
        for name, addresses in usable.items():
            target = self._targets.get(name)
            if target is None:
                target = self._targets[name] = _Target(name, now, Reconnect(self._retry))
            if target.addresses != addresses:
                target.addresses, target.turn = addresses, 0
                target.retry_at = -math.inf  # it is back, at another address perhaps
        for name in seen.accepted & self._targets.keys():
            target = self._targets[name]
            target.linked_at = now
            if target.addresses and target.proven not in target.addresses:
                target.proven = target.addresses[0]
        for uri, remote in seen.links.items():
            target = self._by_uri.get(uri)
            if target is None or not remote:
                continue
            if remote == target.name:
                target.proven, target.linked_at = uri, now
                continue
            logger.warning("gossip: the broker at %s is called %s, and not %s: it is not linked there",
                           uri, remote, target.name)  # fmt: skip
            self._drop(target)
            if len(target.barred) >= MAX_FORMER:
                target.barred.clear()
            target.barred[uri] = now + BARRED_S

    def _wanted(self, now: float, usable: Mapping[str, tuple[str, ...]], seen: Seen) -> set[str]:
        chosen = neighbours(self._own, usable.keys(), self._limit)
        former = sorted(
            [
                target
                for target in self._targets.values()
                if target.name not in usable and now - target.linked_at <= FORMER_S
            ],
            key=lambda target: (seen.links.get(target.uri) != target.name, -target.linked_at, target.name),
        )
        room = min(max(1, self._limit - len(chosen)), MAX_FORMER)
        if former:  # each of the ones beyond the room has its turn
            first = int(now / GRACE_S) * room % len(former) if len(former) > room else 0
            chosen |= {target.name for target in (former[first:] + former[:first])[:room]}
        return {name for name in chosen if self._is_mine(self._targets[name], now, seen)}

    def _is_mine(self, target: _Target, now: float, seen: Seen) -> bool:
        """Return True if this connector has to have a learned link to the member."""
        if target.name in seen.seeds:
            return False
        if not self._duplex:
            return True
        if target.name in seen.accepted:
            return bool(target.uri) and self._own < target.name
        return self._own < target.name or bool(target.uri) or now - target.since >= GRACE_S

    def _open(self, target: _Target, now: float) -> None:
        uris = [uri for uri in target.addresses if target.barred.get(uri, -math.inf) <= now]
        if target.turn == 0 and target.proven in uris:
            uris.insert(0, target.proven)
        elif not uris and target.proven and target.barred.get(target.proven, -math.inf) <= now:
            uris = [target.proven]
        uris = [uri for uri in uris if uri not in self._by_uri]
        if not uris:
            return
        uri = uris[target.turn % len(uris)]
        target.uri = uri
        self._by_uri[uri] = target
        self._listener.on_found(uri)

    def _drop(self, target: _Target) -> None:
        if target.uri:
            uri, target.uri = target.uri, ""
            self._by_uri.pop(uri, None)
            self._listener.on_lost(uri)
