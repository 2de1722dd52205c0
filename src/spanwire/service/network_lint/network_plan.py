"""Computes the routes of demand and messages between brokers, by the rules of bridges.

    plan = NetworkPlan(brokers, links)
    plan.route("A", destination, "E")

No broker runs. The plan follows a consumer's subscription from link to link, then a message along the subscriptions. A
refusal names the rule of the refusing link.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.model.destination import Destination
from spanwire.model.routing import NO_PATH, NetworkFilter, within
from spanwire.network.demand.bridge_settings import BridgeSettings

MAX_CACHED: Final = 1_000  # destinations at brokers with remembered demand
MAX_STEPS: Final = 5_000  # subscriptions or hops of one search; bounds its time in a dense network

MAX_WAYS: Final = 100  # shortest ways of one consumer to one broker; a mesh of twelve without limits has millions

RULE_STATIC: Final = "static bridge"
RULE_ADVISORIES: Final = "advisories"
RULE_CONSUMER_TTL: Final = "consumerTTL"
RULE_MESSAGE_TTL: Final = "messageTTL"
RULE_PATH: Final = "path"  # the message or subscription has passed the broker already
RULE_LISTS: Final = "lists"
RULE_TEMPORARY: Final = "temporary"
RULE_SUPPRESSED: Final = "suppressed"
RULE_SAME_ID: Final = "same id"
RULE_PRIORITY: Final = "priority"  # the link is open, but another one has a higher priority


@dataclass(frozen=True)
class PlannedBroker:
    """A configured broker; ``broker_id`` is the broker's name unless configured."""

    name: str
    broker_id: str
    advisories: bool = True
    policies: PolicyMap = field(default_factory=PolicyMap)

    def can_replay(self, destination: Destination) -> bool:
        """Return True if messages may go back to a broker they came from."""
        bridges = self.policies.entry_for(destination).queue.bridges
        return destination.is_queue and bridges is not None and bridges.replays


@dataclass(frozen=True)
class PlannedLink:
    """One direction of a connector: messages go from broker ``near`` to broker ``far``.

    ``location`` is the location of the connector in its file.
    """

    near: str
    far: str
    settings: BridgeSettings
    location: str = ""
    reverse: bool = False

    @property
    def key(self) -> str:
        """The identity of this link."""
        return f"{self.near} {self.far} {self.settings.name} {self.location}"


@dataclass(frozen=True)
class Demand:
    """A bridge's subscription at the near broker, for a consumer at or beyond the far broker.

    Attributes:
        link: the link of the bridge.
        path: the ids of the brokers from the consumer's broker to the far broker.
        priority: the priority of the subscription.
        behind: the subscription at the far broker with this demand; None for consumers at the far broker.
    """

    link: PlannedLink
    path: tuple[str, ...]
    priority: int
    behind: Demand | None = None

    def count(self, consumers: int) -> int:
        """Return the number of queue consumers at the near broker for so many at the far end."""
        settings = self.link.settings
        behind = self.behind
        if behind is None:
            return 1 if settings.conduit else consumers
        return 1 if settings.conduit and settings.conduit_network_queues else behind.count(consumers)


@dataclass(frozen=True)
class Refusal:
    """A link not taken, and the reason; ``rule`` is a ``RULE_`` constant."""

    link: PlannedLink
    reason: str
    rule: str = ""


@dataclass
class Route:
    """The links of a message in order; an ``arrived`` route without ``links`` ends at the first broker.

    ``refusals`` are the closed ways.
    """

    links: list[PlannedLink] = field(default_factory=list)
    priorities: list[int] = field(default_factory=list)
    arrived: bool = False
    refusals: list[Refusal] = field(default_factory=list)


class _ConsumerDemand:
    """The demand of all consumers of one destination at one broker."""

    def __init__(self) -> None:
        self.demand: Final[dict[str, list[Demand]]] = {}
        self.all_demand: Final[dict[str, list[Demand]]] = {}  # with static subscriptions
        self.refusals: Final[list[Refusal]] = []
        self.refusal_keys: Final[set[str]] = set()
        self._best: Final[dict[str, list[Demand]]] = {}
        self._all_best: Final[dict[str, list[Demand]]] = {}

    def best_at(self, name: str) -> list[Demand]:
        """Return the best subscription of each link at a broker, for these consumers."""
        if name not in self._best:
            self._best[name] = _best_of_links(self.demand.get(name, []))
        return self._best[name]

    def ways_from(self, name: str) -> list[Demand]:
        """Return the best subscription of each link at a broker, including static subscriptions.

        The other subscriptions of a link are not needed, because a link has the same rules for all messages.
        """
        if name not in self._all_best:
            self._all_best[name] = _best_of_links(self.all_demand.get(name, []))
        return self._all_best[name]

    def add_refusal(self, refusal: Refusal) -> None:
        """Note that a link makes no subscription; each reason is noted once per link."""
        key = f"{refusal.link.key} {refusal.reason}"
        if key not in self.refusal_keys:
            self.refusal_keys.add(key)
            self.refusals.append(refusal)


class NetworkPlan:
    """The brokers of a network by name, and the links between the brokers."""

    def __init__(self, brokers: list[PlannedBroker], links: list[PlannedLink]) -> None:
        self.brokers: Final[dict[str, PlannedBroker]] = {broker.name: broker for broker in brokers}
        self.links: Final[list[PlannedLink]] = links
        self._leading_to: Final[dict[str, list[PlannedLink]]] = {broker.name: [] for broker in brokers}
        for link in links:
            self._leading_to[link.far].append(link)
        self._cache: Final[dict[tuple[str, str], _ConsumerDemand]] = {}

    def demand(self, destination: Destination, consumer_at: str) -> dict[str, list[Demand]]:
        """Return the subscriptions for a consumer at one broker, by near broker; best priority first."""
        return self._consumer_demand(destination, consumer_at).demand

    def best_demand(self, destination: Destination, consumer_at: str, near: str) -> list[Demand]:
        """Return the best subscription of each link at the broker ``near``."""
        return self._consumer_demand(destination, consumer_at).best_at(near)

    def refusals(self, destination: Destination, consumer_at: str) -> list[Refusal]:
        """Return the links without a subscription, and the reasons."""
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
                rival = self._rival(by_broker.get(link.near, []), demand, destination)
                if rival is not None:
                    consumer_demand.add_refusal(Refusal(link, _suppressed(demand, rival), RULE_SUPPRESSED))
                    continue
                by_broker.setdefault(link.near, []).append(demand)
                front.append((link.near, demand))
        for name in by_broker:
            by_broker[name].sort(key=_worst_last)

    def _refuses_demand(self, link: PlannedLink, destination: Destination, path: tuple[str, ...]) -> Refusal | None:
        """Return the reason against a subscription for the consumer behind ``path``, or None."""
        settings, near, far = link.settings, self.brokers[link.near], self.brokers[link.far]
        if near.broker_id == far.broker_id:
            reason = f"both brokers have the id {near.broker_id}, so each takes the other for itself"
            return Refusal(link, reason, RULE_SAME_ID)
        if settings.static_bridge:
            return Refusal(link, "it is a static bridge, which ignores consumers", RULE_STATIC)
        if not far.advisories or not near.advisories:
            silent = far if not far.advisories else near
            reason = f"broker {silent.name} has advisorySupport=false, so consumers are not announced"
            return Refusal(link, reason, RULE_ADVISORIES)
        if not within(len(path), settings.consumer_ttl):
            reason = f"the consumer is {len(path) + 1} hops away and consumerTTL is {settings.consumer_ttl}"
            return Refusal(link, reason, RULE_CONSUMER_TTL)
        if near.broker_id in path:
            return Refusal(link, f"the subscription has passed broker {near.name} already", RULE_PATH)
        if not settings.is_demand(destination, path, near.broker_id):
            return _by_lists(link, destination)
        return None

    def _rival(self, subscriptions: list[Demand], demand: Demand, destination: Destination) -> Demand | None:
        """Return the subscription for which duplicate suppression drops ``demand``, or None.

        Those that ``demand`` is better than are removed.
        """
        if not demand.link.settings.is_suppressed(destination):
            return None
        for other in list(subscriptions):
            if other.priority >= demand.priority:
                return other
            subscriptions.remove(other)
        return None

    def _add_static(self, destination: Destination, consumer_demand: _ConsumerDemand) -> None:
        """Add the static subscriptions, which need no consumer."""
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
        """Return the way of a message from ``start`` to a consumer at ``consumer_at``.

        At each broker the message takes the best subscription with an open link and a way on from there. ``path`` are
        the brokers before ``start``.
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
        """Return the shares of each broker's ``consumers`` in a queue's ``messages``, sent at ``start``.

        All consumers have room. Messages without a way to a consumer are in no share.
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
        """Return the links with the highest priority, each with a number of consumers.

        None in place of a link stands for the broker's own consumers.
        """
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
        """Return the message filter of a link's bridge."""
        settings = link.settings
        return NetworkFilter(
            self.brokers[link.far].broker_id, settings.message_ttl, settings.excluded, settings.let_through
        )


class _Walk:
    """The search for one message's way to a consumer at ``goal``."""

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
        self._dead_ends: set[str] | None = None  # visited brokers of a search for refusals alone
        self._visited: Final[list[str]] = []  # the brokers of this way; a message does not go back and forth
        self._steps = 0

    def begin(self, start: str, path: tuple[str, ...]) -> None:
        """Search from broker ``start``; the message has passed the brokers of ``path``.

        If the message has passed the goal, only replay can return the message. Without replay the search looks for
        refusals alone, and visits each broker once instead of trying all ways.
        """
        brokers = self._plan.brokers
        if brokers[self._goal].broker_id in path:
            if not any(broker.can_replay(self._destination) for broker in brokers.values()):
                self._dead_ends = set()
        self.follow(start, path)

    def follow(self, name: str, path: tuple[str, ...]) -> bool:
        """Search from broker ``name``, after the brokers of ``path``. Returns True at the goal."""
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
            refusal = self._refusal(link, path)
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

    def _refusal(self, link: PlannedLink, path: tuple[str, ...]) -> Refusal | None:
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
        """Note, for each broker on the way, the open links with a lower or the same priority."""
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
    """Return the first subscription of each link, in order."""
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


def _suppressed(demand: Demand, rival: Demand) -> str:
    """Return why duplicate suppression keeps ``rival``."""
    over = f"{rival.link.far} ({rival.link.settings.name})"
    if rival.priority > demand.priority:
        return f"the route over {over} has a higher priority (duplicates are suppressed)"
    return (
        f"the route over {over} has the same priority, and the broker takes the one of which it hears first, which may "
        "be this one (duplicates are suppressed)"
    )


def _worst_last(demand: Demand) -> int:
    return -demand.priority
