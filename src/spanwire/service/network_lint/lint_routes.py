"""Checks of the routes of messages and demand: missing, double, and endless ways."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.routing import UNLIMITED_TTL, within
from spanwire.service.network_lint.lint_findings import LintFindings, are_disjoint, probe, probes
from spanwire.service.network_lint.network_files import NetworkFiles
from spanwire.service.network_lint.network_plan import (
    MAX_WAYS,
    RULE_MESSAGE_TTL,
    RULE_PATH,
    Demand,
    NetworkPlan,
    PlannedLink,
)

SAMPLE_MESSAGES: Final = 12  # messages in ActiveMQ's example of an uneven split: 6, 3, 3


class RouteLint:
    """Findings 2 to 7 and 14 of one network."""

    def __init__(self, files: NetworkFiles, findings: LintFindings) -> None:
        self._plan: Final = files.plan
        self._findings: Final = findings
        self._queues: Final = probes(files, QUEUE)
        brokers = list(files.plan.brokers.values())
        self._unlimited: Final = NetworkPlan(brokers, [replace(link, settings=replace(
            link.settings, message_ttl=UNLIMITED_TTL, consumer_ttl=UNLIMITED_TTL, decrease_priority=True,
            suppress_queue_duplicates=True,
        )) for link in files.plan.links])  # fmt: skip

    def check(self) -> None:
        """Run the checks for any clients."""
        needed: dict[tuple[PlannedLink, bool], tuple[int, str]] = {}
        for queue in self._queues:
            for goal in self._plan.brokers:
                self._measure(queue, goal, needed)
                self._count(queue, goal)
        self._reach(needed)
        for link in self._plan.links:
            self._copies(link)
        self._both_ways()

    def check_possible_clients(self) -> None:
        """Check for clients with selectors, for several clients, and for failover."""
        for queue in self._queues[:1]:
            for near in self._plan.brokers:
                self._selectors(queue, near)
        for link in self._plan.links:
            self._uneven(link)
            self._replay(link)

    def _measure(self, queue: Destination, goal: str, needed: dict[tuple[PlannedLink, bool], tuple[int, str]]) -> None:
        """Note the links with too small limits on the way to ``goal``.

        Adds to ``needed``, for each link, and for consumers and messages apart, the required hops and the broker at the
        end of these hops.
        """
        for start in self._plan.brokers:
            ideal = self._unlimited.route(start, queue, goal)
            if not ideal.arrived or self._plan.route(start, queue, goal).arrived:
                continue
            hops = len(ideal.links)
            for index, wanted_link in enumerate(ideal.links):
                link = self._plan.links[self._unlimited.links.index(wanted_link)]
                behind = hops - 1 - index
                if not within(behind, link.settings.consumer_ttl):
                    needed[link, True] = max(needed.get((link, True), (0, "")), (behind + 1, goal))
                if not within(index, link.settings.message_ttl):
                    needed[link, False] = max(needed.get((link, False), (0, "")), (index + 1, start))

    def _reach(self, needed: dict[tuple[PlannedLink, bool], tuple[int, str]]) -> None:
        for link in self._plan.links:
            settings = link.settings
            if (link, True) in needed:
                hops, name = needed[link, True]
                self._findings.fault(
                    link.location, 2,
                    f"a consumer at {name} is {hops} hops from {link.near} and consumerTTL is {settings.consumer_ttl}, "
                    f"so its subscription does not arrive",
                    f'set networkTTL="{hops}", if messages are to go that far',
                )  # fmt: skip
            if (link, False) in needed:
                hops, name = needed[link, False]
                self._findings.fault(
                    link.location, 2,
                    f"a message from {name} makes {hops} hops to {link.far} and messageTTL is {settings.message_ttl}, "
                    f"so it stays at {link.near}",
                    f'set networkTTL="{hops}", if messages are to come that far',
                )  # fmt: skip

    def _count(self, queue: Destination, goal: str) -> None:
        for name, there in self._plan.demand(queue, goal).items():
            paths = sorted({demand.path for demand in there}, key=len)
            if len(paths) < 2:
                continue
            for demand in there:
                if len(demand.path) > 1 and not self._findings.has(demand.link.location, 3):
                    self._findings.fault(
                        demand.link.location, 3,
                        f"a consumer at {goal} counts {_times(len(paths))} at {name}, once for every way to it, as "
                        f"consumerTTL is {demand.link.settings.consumer_ttl}: messages go the long way, and are stuck "
                        f"there when the consumer moves",
                        'set consumerTTL="1" (messageTTL may be higher), or suppressDuplicateQueueSubscriptions="true"',
                    )  # fmt: skip

    def _selectors(self, queue: Destination, near: str) -> None:
        others = [name for name in self._plan.brokers if name != near]
        for wrong in others:
            for right in others:
                conduit = misleading_conduit(self._plan, queue, near, wrong, right)
                if conduit is None or self._findings.has(conduit.location, 4):
                    continue
                self._findings.hint(
                    conduit.location, 4,
                    f"a conduit looks at no selectors, and nothing that {near} sends to {wrong} goes on to {right}: "
                    f"consumers of one queue with different selectors there get messages of each other, which are "
                    f"stuck",
                    'set conduitSubscriptions="false" for queues with selectors',
                )  # fmt: skip

    def _uneven(self, link: PlannedLink) -> None:
        """Check an uneven split of messages.

        The example is from ActiveMQ's documentation: one consumer here, two there.
        """
        queue = probe(link.settings, QUEUE)
        if queue is None or not link.settings.conduit or self._findings.has(link.location, 5):
            return
        if link.settings.priority(0, (link.far,)) < 0:
            return  # the local consumer has priority
        consumers = {link.near: 1, link.far: 2}
        got = self._plan.shares(link.near, queue, consumers, SAMPLE_MESSAGES)
        if is_uneven(got, consumers):
            self._findings.hint(
                link.location, 5,
                f"all consumers of a queue at {link.far} count as one: of {SAMPLE_MESSAGES} messages one here gets "
                f"{_amount(got[link.near])}, and two there {_amount(got[link.far] / 2)} each",
                'set conduitSubscriptions="false" if each is to get as much',
            )  # fmt: skip

    def _copies(self, link: PlannedLink) -> None:
        topic = probe(link.settings, TOPIC)
        if topic is None or link.settings.conduit:
            return
        if any(demand.link == link for demand in self._plan.demand(topic, link.far).get(link.near, [])):
            self._findings.fault(
                link.location, 6,
                "without a conduit each remote consumer of a topic gets every message once for each of them",
                'exclude <topic physicalName="&gt;"/> here and give topics a connector of their own with a conduit',
            )  # fmt: skip

    def _both_ways(self) -> None:
        """Check a duplex link with a second connector in the opposite direction."""
        for back in self._plan.links:
            if not back.reverse:
                continue
            for other in self._plan.links:
                if other.reverse or (other.near, other.far) != (back.near, back.far):
                    continue
                if are_disjoint(back.settings, other.settings):
                    continue
                both = "both open a duplex link to the other" if other.settings.duplex else "are linked both ways"
                for location, one in ((back.location, back), (other.location, other)):
                    if self._findings.has(location, 7):
                        continue
                    self._findings.fault(
                        location, 7,
                        f"{one.far} and {one.near} {both}, and messages from {back.near} to {back.far} have two ways: "
                        f"{back.settings.name} and {other.settings.name}",
                        'leave duplex="true" at one end and remove the other connector',
                    )  # fmt: skip

    def _replay(self, link: PlannedLink) -> None:
        queue = probe(link.settings, QUEUE)
        if queue is None or not no_way_back(self._plan, queue, link.far, link.near):
            return
        if not self._findings.has(link.location, 14):
            self._findings.hint(
                link.location, 14,
                f"messages that came from {link.far} do not go back there when their consumer fails over to it",
                REPLAY_REMEDY,
            )  # fmt: skip


REPLAY_REMEDY: Final = "set replayWhenNoConsumers of conditionalNetworkBridgeFilterFactory in a policyEntry"


def misleading_conduit(plan: NetworkPlan, queue: Destination, near: str, wrong: str, right: str) -> PlannedLink | None:
    """Return the conduit that forwards messages for ``right`` to ``wrong``, without a way on from there.

    Only the consumer at ``right`` selects the messages at ``near``. The conduit ignores selectors, and follows a
    consumer at ``wrong``. Returns None without such a conduit.
    """
    if wrong == right or near == wrong:
        return None
    there = _best_open(plan, near, queue, wrong)
    if not there:
        return None
    rivals = [] if right == near else _best_open(plan, near, queue, right)
    if right != near and not rivals:
        return None
    wanted_link = max([rival.priority for rival in rivals], default=0)
    taken = [rival.link for rival in rivals]  # links on the way to the right consumer
    for demand in there:
        if demand.priority < wanted_link or not demand.link.settings.conduit or demand.link in taken:
            continue
        path = (plan.brokers[near].broker_id, *demand.path[:0:-1])
        if plan.brokers[right].broker_id not in path and not plan.route(wrong, queue, right, path).arrived:
            return demand.link
    return None


def _best_open(plan: NetworkPlan, near: str, queue: Destination, goal: str) -> list[Demand]:
    """Return the best subscription of each link open to a message from here."""
    return [one for one in plan.best_demand(queue, goal, near) if plan.filter_of(one.link).passes(())]


def is_uneven(shares: dict[str, float], consumers: dict[str, int]) -> bool:
    """Return True if the consumers at one broker get more messages than the consumers at another."""
    each = [share / consumers[name] for name, share in shares.items() if share > 0]
    return bool(each) and max(each) - min(each) > 0.001


def no_way_back(plan: NetworkPlan, queue: Destination, start: str, consumer_at: str) -> bool:
    """Return True if messages stay behind on a consumer's failover from ``consumer_at`` to ``start``.

    The link back refuses messages from ``start``.
    """
    there = plan.route(start, queue, consumer_at)
    if not there.arrived or not there.links:
        return False
    path = tuple(plan.brokers[link.near].broker_id for link in there.links)
    back = plan.route(consumer_at, queue, start, path)
    return not back.arrived and any(one.rule in (RULE_PATH, RULE_MESSAGE_TTL) for one in back.refusals)


def _times(count: int) -> str:
    return f"{count} times" if count < MAX_WAYS else f"at least {count} times"


def _amount(amount: float) -> str:
    return f"{amount:g}"
