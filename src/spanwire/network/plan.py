"""A network on paper: which way demand and messages would go between brokers, asked of the rules that bridges go by.

    plan = NetworkPlan(brokers, links)
    plan.route("A", destination, "E")

Nothing runs: a consumer at one broker is followed from link to link as its subscription would travel, then a message
along what that left behind. Each refusal says which rule it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.routing import NO_PATH, NetworkFilter, within
from spanwire.network.settings import BridgeSettings

MAX_STEPS: Final = 100_000  # subscriptions followed for one question; a mesh without limits has very many ways


@dataclass(frozen=True)
class PlannedBroker:
    """A broker as its configuration describes it. ``broker_id`` is its name where none is set."""

    name: str
    broker_id: str
    advisories: bool = True


@dataclass(frozen=True)
class PlannedLink:
    """One direction of a connector: messages go from the broker ``near`` to the broker ``far``, by their names.
    ``place`` is where the connector stands.
    """

    near: str
    far: str
    settings: BridgeSettings
    place: str = ""
    reverse: bool = False


@dataclass(frozen=True)
class Demand:
    """A subscription of the bridge ``link`` at its near broker, for a consumer beyond the brokers of ``path``."""

    link: PlannedLink
    path: tuple[str, ...]
    priority: int


@dataclass(frozen=True)
class Refusal:
    """A link that was not taken, and why."""

    link: PlannedLink
    reason: str


@dataclass
class Route:
    """Where a message goes: the links in order; empty ``links`` of one that has ``arrived`` mean a consumer right here.
    ``refusals`` are the ways that were not open.
    """

    links: list[PlannedLink] = field(default_factory=list)
    priorities: list[int] = field(default_factory=list)
    arrived: bool = False
    refusals: list[Refusal] = field(default_factory=list)


class NetworkPlan:
    """Brokers and the links between them. A broker is known by its name."""

    def __init__(self, brokers: list[PlannedBroker], links: list[PlannedLink]) -> None:
        self.brokers: Final[dict[str, PlannedBroker]] = {broker.name: broker for broker in brokers}
        self.links: Final[list[PlannedLink]] = links

    def demand(
        self, destination: Destination, consumer_at: str, refusals: list[Refusal] | None = None
    ) -> dict[str, list[Demand]]:
        """Which subscriptions a consumer at one broker leads to, by the broker where they are; best priority first."""
        found: dict[str, list[Demand]] = {}
        told: list[Refusal] = [] if refusals is None else refusals
        front: list[tuple[str, tuple[str, ...], int]] = [(consumer_at, NO_PATH, 0)]
        steps = 0
        while front and steps < MAX_STEPS:
            name, path, asked = front.pop(0)
            for link in self.links:
                if link.far != name:
                    continue
                steps += 1
                reason = self._refuses_demand(link, destination, path)
                if reason:
                    told.append(Refusal(link, reason))
                    continue
                came = (*path, self.brokers[name].broker_id)
                demand = Demand(link, came, link.settings.priority(asked, came))
                if self._is_duplicate(found.get(link.near, []), demand, destination):
                    told.append(Refusal(link, "a route of at least this priority is there (duplicates are suppressed)"))
                    continue
                found.setdefault(link.near, []).append(demand)
                front.append((link.near, came, demand.priority))
        for name in found:
            found[name].sort(key=_worst_last)
        return found

    def _refuses_demand(self, link: PlannedLink, destination: Destination, path: tuple[str, ...]) -> str:
        """Why the consumer behind ``path`` is no demand for ``link``; empty when it is."""
        settings, near, far = link.settings, self.brokers[link.near], self.brokers[link.far]
        if settings.static_bridge:
            return "it is a static bridge, which asks for no consumers"
        if not far.advisories or not near.advisories:
            silent = far if not far.advisories else near
            return f"broker {silent.name} has advisorySupport=false, so nobody hears of consumers"
        if not within(len(path), settings.consumer_ttl):
            return f"the consumer is {len(path) + 1} hops away and consumerTTL is {settings.consumer_ttl}"
        if near.broker_id in path:
            return f"the subscription has passed broker {near.name} already"
        if not settings.wants(destination, path, near.broker_id):
            return _by_lists(settings, destination)
        return ""

    def _is_duplicate(self, there: list[Demand], demand: Demand, destination: Destination) -> bool:
        if not demand.link.settings.suppresses(destination):
            return False
        for other in list(there):
            if other.priority >= demand.priority:
                return True
            there.remove(other)
        return False

    def route(self, start: str, destination: Destination, consumer_at: str) -> Route:
        """The way of a message from ``start`` to a consumer at ``consumer_at``: at each broker the best subscription
        whose bridge may take it, with a way on from there.
        """
        found = Route()
        if start == consumer_at:
            found.arrived = True
            return found
        demand = self.demand(destination, consumer_at, found.refusals)
        self._add_static(demand, destination)
        self._follow(found, demand, start, NO_PATH, consumer_at)
        return found

    def _add_static(self, demand: dict[str, list[Demand]], destination: Destination) -> None:
        for link in self.links:
            settings = link.settings
            if settings.permits(destination) and any(one.matches(destination) for one in settings.static):
                path = (self.brokers[link.far].broker_id,)
                demand.setdefault(link.near, []).append(Demand(link, path, settings.priority(0, path)))
                demand[link.near].sort(key=_worst_last)

    def _follow(
        self, route: Route, demand: dict[str, list[Demand]], name: str, path: tuple[str, ...], goal: str
    ) -> bool:
        """Go on from broker ``name``, to which the message came along ``path``."""
        if name == goal:
            route.arrived = True
            return True
        for one in demand.get(name, []):
            link, settings = one.link, one.link.settings
            target = self.brokers[link.far]
            allowed = NetworkFilter(target.broker_id, settings.message_ttl, settings.excluded, settings.let_through)
            if not allowed.passes(path):
                reason = (
                    f"the message has passed broker {target.name} already"
                    if target.broker_id in path
                    else f"the message has made {len(path)} hops and messageTTL is {settings.message_ttl}"
                )
                _refuse(route, link, reason)
                continue
            route.links.append(link)
            route.priorities.append(one.priority)
            if self._follow(route, demand, link.far, (*path, self.brokers[name].broker_id), goal):
                return True
            route.links.pop()
            route.priorities.pop()
        return False

    def distances(self, start: str) -> dict[str, int]:
        """How many links lead from a broker to each that it reaches, whatever the limits."""
        found = {start: 0}
        front = [start]
        while front:
            name = front.pop(0)
            for link in self.links:
                if link.near == name and link.far not in found:
                    found[link.far] = found[name] + 1
                    front.append(link.far)
        return found

    def has_loop(self) -> bool:
        """Whether there are two different ways between two brokers; there and back over one pair is none."""
        pairs = {frozenset((link.near, link.far)) for link in self.links if link.near != link.far}
        joined: dict[str, set[str]] = {}
        for pair in pairs:
            one, other = sorted(pair)
            first, second = joined.setdefault(one, {one}), joined.setdefault(other, {other})
            if first is second:
                return True
            first |= second
            for name in second:
                joined[name] = first
        return False


def _refuse(route: Route, link: PlannedLink, reason: str) -> None:
    refusal = Refusal(link, reason)
    if refusal not in route.refusals:
        route.refusals.append(refusal)


def _by_lists(settings: BridgeSettings, destination: Destination) -> str:
    if destination.is_temporary:
        return "bridgeTempDestinations is false"
    for pattern in settings.excluded:
        if pattern.matches(destination):
            return f"{pattern} is excluded"
    return "it is not among the included destinations"


def _worst_last(demand: Demand) -> int:
    return -demand.priority
