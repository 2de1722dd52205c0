"""A network on paper: which way demand and messages would go between brokers, asked of the rules that bridges go by.

    plan = NetworkPlan(brokers, links)
    plan.route("A", destination, "E")

Nothing runs: a consumer at one broker is followed from link to link as its subscription would travel, then a message
along what that left behind. Each refusal says which rule it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.broker.policy.policy_entry import PolicyMap
from spanwire.model.destination import Destination
from spanwire.model.routing import NO_PATH, NetworkFilter, within
from spanwire.network.settings import BridgeSettings

MAX_CACHED: Final = 1_000  # answers about one destination at one broker that are remembered
MAX_STEPS: Final = 5_000  # subscriptions or hops followed for one question

MAX_WAYS: Final = (
    100  # of one consumer to one broker, the shortest; to a mesh of twelve without limits there are millions
)

RULE_STATIC: Final = "static bridge"
RULE_ADVISORIES: Final = "advisories"
RULE_CONSUMER_TTL: Final = "consumerTTL"
RULE_MESSAGE_TTL: Final = "messageTTL"
RULE_PATH: Final = "path"  # it has been there
RULE_LISTS: Final = "lists"
RULE_TEMPORARY: Final = "temporary"
RULE_SUPPRESSED: Final = "suppressed"
RULE_SAME_ID: Final = "same id"
RULE_PRIORITY: Final = "priority"  # open, but another is taken first


@dataclass(frozen=True)
class PlannedBroker:
    """A broker as its configuration describes it. ``broker_id`` is its name where none is set."""

    name: str
    broker_id: str
    advisories: bool = True
    policies: PolicyMap = field(default_factory=PolicyMap)

    def can_replay(self, destination: Destination) -> bool:
        """Whether messages may go back from here to where they came from."""
        bridges = self.policies.entry_for(destination).queue.bridges
        return destination.is_queue and bridges is not None and bridges.replays


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

    @property
    def key(self) -> str:
        """What tells it from others."""
        return f"{self.near} {self.far} {self.settings.name} {self.place}"


@dataclass(frozen=True)
class Demand:
    """A subscription of the bridge ``link`` at its near broker, for a consumer beyond the brokers of ``path``, the
    consumer's own first. ``behind`` is the subscription at the far broker that it stands for; None: consumers there.
    """

    link: PlannedLink
    path: tuple[str, ...]
    priority: int
    behind: Demand | None = None

    def count(self, consumers: int) -> int:
        """As how many consumers of a queue so many at the far end count here."""
        settings = self.link.settings
        behind = self.behind
        if behind is None:
            return 1 if settings.conduit else consumers
        return 1 if settings.conduit and settings.conduit_network_queues else behind.count(consumers)


@dataclass(frozen=True)
class Refusal:
    """A link that was not taken, and why; ``rule`` is one of the words above."""

    link: PlannedLink
    reason: str
    rule: str = ""


@dataclass
class Route:
    """Where a message goes: the links in order; empty ``links`` of one that has ``arrived`` mean a consumer right here.
    ``refusals`` are the ways that were not open.
    """

    links: list[PlannedLink] = field(default_factory=list)
    priorities: list[int] = field(default_factory=list)
    arrived: bool = False
    refusals: list[Refusal] = field(default_factory=list)


class _ConsumerDemand:
    """What was found out about consumers of one destination at one broker."""

    def __init__(self) -> None:
        self.demand: Final[dict[str, list[Demand]]] = {}
        self.all_demand: Final[dict[str, list[Demand]]] = {}  # with what is there without any consumer
        self.refusals: Final[list[Refusal]] = []
        self.refusal_keys: Final[set[str]] = set()
        self._best: Final[dict[str, list[Demand]]] = {}
        self._all_best: Final[dict[str, list[Demand]]] = {}

    def best_at(self, name: str) -> list[Demand]:
        """Of what a broker has because of these consumers, the best of each link."""
        if name not in self._best:
            self._best[name] = _best_of_links(self.demand.get(name, []))
        return self._best[name]

    def ways_from(self, name: str) -> list[Demand]:
        """The same with what is there without any consumer. Whether a link is open to a message does not depend on
        which of its subscriptions that is for.
        """
        if name not in self._all_best:
            self._all_best[name] = _best_of_links(self.all_demand.get(name, []))
        return self._all_best[name]

    def add_refusal(self, refusal: Refusal) -> None:
        """A link makes no subscription; each is told once for each reason."""
        key = f"{refusal.link.key} {refusal.reason}"
        if key not in self.refusal_keys:
            self.refusal_keys.add(key)
            self.refusals.append(refusal)


class NetworkPlan:
    """Brokers and the links between them. A broker is known by its name."""

    def __init__(self, brokers: list[PlannedBroker], links: list[PlannedLink]) -> None:
        self.brokers: Final[dict[str, PlannedBroker]] = {broker.name: broker for broker in brokers}
        self.links: Final[list[PlannedLink]] = links
        self._leading_to: Final[dict[str, list[PlannedLink]]] = {broker.name: [] for broker in brokers}
        for link in links:
            self._leading_to[link.far].append(link)
        self._cache: Final[dict[tuple[str, str], _ConsumerDemand]] = {}

    def demand(self, destination: Destination, consumer_at: str) -> dict[str, list[Demand]]:
        """Which subscriptions a consumer at one broker leads to, by the broker where they are; best priority first."""
        return self._consumer_demand(destination, consumer_at).demand

    def best_demand(self, destination: Destination, consumer_at: str, near: str) -> list[Demand]:
        """Of those at the broker ``near`` the best one of each link."""
        return self._consumer_demand(destination, consumer_at).best_at(near)

    def refusals(self, destination: Destination, consumer_at: str) -> list[Refusal]:
        """Which links make no subscription for it, and why."""
        return self._consumer_demand(destination, consumer_at).refusals

    def _consumer_demand(self, destination: Destination, consumer_at: str) -> _ConsumerDemand:
        key = (destination.qualified_name, consumer_at)
        consumer_demand = self._cache.get(key)
        if consumer_demand is None:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            consumer_demand = self._cache[key] = _ConsumerDemand()
            self._follow_demand(destination, consumer_at, consumer_demand)
            self._add_static(destination, consumer_demand)
        return consumer_demand

    def _follow_demand(self, destination: Destination, consumer_at: str, consumer_demand: _ConsumerDemand) -> None:
        by_broker = consumer_demand.demand
        front: list[tuple[str, Demand | None]] = [(consumer_at, None)]
        steps = 0
        while steps < len(front) and steps < MAX_STEPS:
            name, behind = front[steps]
            steps += 1
            path, requested = (NO_PATH, 0) if behind is None else (behind.path, behind.priority)
            for link in self._leading_to[name]:
                if len(by_broker.get(link.near, [])) >= MAX_WAYS:
                    continue
                refusal = self._refuses_demand(link, destination, path)
                if refusal is not None:
                    consumer_demand.add_refusal(refusal)
                    continue
                path_beyond = (*path, self.brokers[name].broker_id)
                demand = Demand(link, path_beyond, link.settings.priority(requested, path_beyond), behind)
                if self._is_duplicate(by_broker.get(link.near, []), demand, destination):
                    reason = "a route of at least this priority is there (duplicates are suppressed)"
                    consumer_demand.add_refusal(Refusal(link, reason, RULE_SUPPRESSED))
                    continue
                by_broker.setdefault(link.near, []).append(demand)
                front.append((link.near, demand))
        for name in by_broker:
            by_broker[name].sort(key=_worst_last)

    def _refuses_demand(self, link: PlannedLink, destination: Destination, path: tuple[str, ...]) -> Refusal | None:
        """Why the consumer behind ``path`` is no demand for ``link``; None when it is."""
        settings, near, far = link.settings, self.brokers[link.near], self.brokers[link.far]
        if near.broker_id == far.broker_id:
            reason = f"both brokers have the id {near.broker_id}, so each takes the other for itself"
            return Refusal(link, reason, RULE_SAME_ID)
        if settings.static_bridge:
            return Refusal(link, "it is a static bridge, which asks for no consumers", RULE_STATIC)
        if not far.advisories or not near.advisories:
            silent = far if not far.advisories else near
            reason = f"broker {silent.name} has advisorySupport=false, so nobody hears of consumers"
            return Refusal(link, reason, RULE_ADVISORIES)
        if not within(len(path), settings.consumer_ttl):
            reason = f"the consumer is {len(path) + 1} hops away and consumerTTL is {settings.consumer_ttl}"
            return Refusal(link, reason, RULE_CONSUMER_TTL)
        if near.broker_id in path:
            return Refusal(link, f"the subscription has passed broker {near.name} already", RULE_PATH)
        if not settings.is_demand(destination, path, near.broker_id):
            return _by_lists(link, destination)
        return None

    def _is_duplicate(self, subscriptions: list[Demand], demand: Demand, destination: Destination) -> bool:
        if not demand.link.settings.is_suppressed(destination):
            return False
        for other in list(subscriptions):
            if other.priority >= demand.priority:
                return True
            subscriptions.remove(other)
        return False

    def _add_static(self, destination: Destination, consumer_demand: _ConsumerDemand) -> None:
        """The subscriptions that there are whether or not anybody consumes, with the others."""
        consumer_demand.all_demand.update(
            {name: list(subscriptions) for name, subscriptions in consumer_demand.demand.items()}
        )
        for link in self.links:
            settings = link.settings
            if settings.is_permitted(destination) and any(one.matches(destination) for one in settings.static):
                path = (self.brokers[link.far].broker_id,)
                subscriptions = consumer_demand.all_demand.setdefault(link.near, [])
                subscriptions.append(Demand(link, path, settings.priority(0, path)))
                subscriptions.sort(key=_worst_last)

    def route(self, start: str, destination: Destination, consumer_at: str, path: tuple[str, ...] = NO_PATH) -> Route:
        """The way of a message from ``start``, to which it came along ``path``, to a consumer at ``consumer_at``: at
        each broker the best subscription whose bridge may take it, with a way on from there.
        """
        if start == consumer_at:
            return Route(arrived=True)
        consumer_demand = self._consumer_demand(destination, consumer_at)
        walk = _Walk(self, destination, consumer_demand, consumer_at)
        walk.begin(start, path)
        if walk.route.arrived:
            walk.tell_others()
        return walk.route

    def shares(
        self, start: str, destination: Destination, consumers: dict[str, int], messages: int
    ) -> dict[str, float]:
        """How many of so many messages sent at ``start`` each broker's ``consumers`` of a queue get together, when all
        of them have room. What is on its way to nobody is in no share.
        """
        demand: dict[str, list[tuple[str, Demand]]] = {}
        for name in consumers:
            for near, subscriptions in self.demand(destination, name).items():
                demand.setdefault(near, []).extend([(name, one) for one in subscriptions])
        shares: dict[str, float] = {}
        front: list[tuple[str, tuple[str, ...], float]] = [(start, NO_PATH, float(messages))]
        steps = 0
        while steps < len(front) and steps < MAX_STEPS:
            name, path, amount = front[steps]
            steps += 1
            best = self._best(name, path, consumers, demand.get(name, []))
            whole = sum([count for _, count in best])
            path_beyond = (*path, self.brokers[name].broker_id)
            for link, count in best:
                part = amount * count / whole
                if link is None:
                    shares[name] = shares.get(name, 0.0) + part
                else:
                    front.append((link.far, path_beyond, part))
        return shares

    def _best(
        self, name: str, path: tuple[str, ...], consumers: dict[str, int], demand: list[tuple[str, Demand]]
    ) -> list[tuple[PlannedLink | None, int]]:
        """Who gets messages at this broker, and as how many consumers: None stands for those right here."""
        candidates: list[tuple[int, PlannedLink | None, int]] = []
        if consumers.get(name, 0) > 0:
            candidates.append((0, None, consumers[name]))
        conduits: list[PlannedLink] = []
        for goal, one in demand:
            link = one.link
            if not self.filter_of(link).passes(path):
                continue
            if link.settings.conduit and (one.behind is None or link.settings.conduit_network_queues):
                if link in conduits:
                    continue
                conduits.append(link)
            candidates.append((one.priority, link, one.count(consumers[goal])))
        highest = max([priority for priority, _, _ in candidates], default=0)
        return [(link, count) for priority, link, count in candidates if priority == highest]

    def filter_of(self, link: PlannedLink) -> NetworkFilter:
        """What its bridge asks of each message."""
        settings = link.settings
        return NetworkFilter(
            self.brokers[link.far].broker_id, settings.message_ttl, settings.excluded, settings.let_through
        )


class _Walk:
    """One message on its way to a consumer at ``goal``."""

    def __init__(
        self, plan: NetworkPlan, destination: Destination, consumer_demand: _ConsumerDemand, goal: str
    ) -> None:
        self.route: Final[Route] = Route()
        self.route.refusals.extend(consumer_demand.refusals)
        self._plan: Final[NetworkPlan] = plan
        self._destination: Final[Destination] = destination
        self._demand: Final[dict[str, list[Demand]]] = consumer_demand.all_demand
        self._refusal_keys: Final[set[str]] = set(consumer_demand.refusal_keys)
        self._goal: Final[str] = goal
        self._consumer_demand: Final[_ConsumerDemand] = consumer_demand
        self._dead_ends: set[str] | None = None  # brokers, where it can arrive nowhere
        self._visited: Final[list[str]] = []  # a message that goes back and forth arrives nowhere
        self._steps = 0

    def begin(self, start: str, path: tuple[str, ...]) -> None:
        """Go on from broker ``start``, to which the message came along ``path``.

        A message that has been at its goal never comes there again unless it may go back somewhere; then what is left
        to find is who refuses it, for which each broker is looked at once instead of all ways through all of them.
        """
        brokers = self._plan.brokers
        if brokers[self._goal].broker_id in path:
            if not any(broker.can_replay(self._destination) for broker in brokers.values()):
                self._dead_ends = set()
        self.follow(start, path)

    def follow(self, name: str, path: tuple[str, ...]) -> bool:
        """Go on from broker ``name``, to which the message came along ``path``."""
        if name == self._goal:
            self.route.arrived = True
            return True
        if self._dead_ends is not None:
            if name in self._dead_ends:
                return False
            self._dead_ends.add(name)
        self._visited.append(name)
        path_beyond = (*path, self._plan.brokers[name].broker_id)
        tried: list[str] = []
        for one in self._consumer_demand.ways_from(name):
            link = one.link
            if link.far in tried:
                continue
            self._steps += 1
            if self._steps > MAX_STEPS:
                break
            refusal = self._refuses(link, path)
            if refusal is not None:
                self._add(refusal)
                continue
            tried.append(link.far)
            self.route.links.append(link)
            self.route.priorities.append(one.priority)
            if self.follow(link.far, path_beyond):
                return True
            self.route.links.pop()
            self.route.priorities.pop()
        self._visited.pop()
        return False

    def _refuses(self, link: PlannedLink, path: tuple[str, ...]) -> Refusal | None:
        target = self._plan.brokers[link.far]
        if target.broker_id in path:
            if self._plan.brokers[link.near].can_replay(self._destination) and link.far not in self._visited:
                return None
            return Refusal(link, f"the message has passed broker {target.name} already", RULE_PATH)
        if not within(len(path), link.settings.message_ttl):
            reason = f"the message has made {len(path)} hops and messageTTL is {link.settings.message_ttl}"
            return Refusal(link, reason, RULE_MESSAGE_TTL)
        return None

    def tell_others(self) -> None:
        """At each broker on the way: the links that are open as well, and that another was preferred to."""
        taken = [link.key for link in self.route.links]
        refused = {refusal.link.key for refusal in self.route.refusals}
        for link, priority in zip(self.route.links, self.route.priorities, strict=True):
            for one in self._demand.get(link.near, []):
                key = one.link.key
                if one.priority > priority or key in taken or key in refused:
                    continue
                refused.add(key)
                reason = (
                    f"its priority {one.priority} is the same, so messages go there in turn"
                    if one.priority == priority
                    else f"its priority {one.priority} is less than {priority}, so it is used when that window is full"
                )
                self._add(Refusal(one.link, reason, RULE_PRIORITY))

    def _add(self, refusal: Refusal) -> None:
        key = f"{refusal.link.key} {refusal.reason}"
        if key not in self._refusal_keys:
            self._refusal_keys.add(key)
            self.route.refusals.append(refusal)


def _best_of_links(demand: list[Demand]) -> list[Demand]:
    """The first of each link, in their order."""
    best: list[Demand] = []
    seen: set[int] = set()
    for one in demand:
        if id(one.link) not in seen:
            seen.add(id(one.link))
            best.append(one)
    return best


def _by_lists(link: PlannedLink, destination: Destination) -> Refusal:
    if destination.is_temporary:
        return Refusal(link, "bridgeTempDestinations is false", RULE_TEMPORARY)
    for pattern in link.settings.excluded:
        if pattern.matches(destination):
            return Refusal(link, f"{pattern} is excluded", RULE_LISTS)
    return Refusal(link, "it is not among the included destinations", RULE_LISTS)


def _worst_last(demand: Demand) -> int:
    return -demand.priority
