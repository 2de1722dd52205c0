"""A simulated network has the demand, the ways and the advisories that bridges of a real one have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from spanwire.cli.network.network_arrays import read_plan
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.routing import network_priority
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.pipeline.simulation.counting import count
from spanwire.pipeline.simulation.demand_follower import Demand, DemandFollower
from spanwire.pipeline.simulation.flows import Flows
from spanwire.pipeline.simulation.graph import Graph, is_forest
from spanwire.pipeline.simulation.reach import nearest, within_reach
from spanwire.pipeline.simulation.rules import Rules
from spanwire.service.network_lint.network_plan import MAX_WAYS, NetworkPlan, PlannedBroker, PlannedLink
from tests.support.demand_network import DemandNetwork
from tests.support.seeds import SEEDS

QUEUE = parse_destination("queue://Q")
TOPIC = parse_destination("topic://T")
TTLS = (1, 2, 3, -1)


def connectors(random: Random, names: str, share: float) -> list[tuple[str, str]]:
    return [(near, far) for near in names for far in names if near != far and random.random() < share]


def drawn(random: Random, names: str, *, even: bool) -> list[tuple[str, str, BridgeSettings]]:
    """Random connectors; with ``even`` all have the same TTLs and conduits."""
    decreases = random.random() < 0.6
    found: list[tuple[str, str, BridgeSettings]] = []
    settings: BridgeSettings | None = None
    for near, far in connectors(random, names, random.choice((0.25, 0.4, 0.6))):
        if settings is None or not even:
            settings = BridgeSettings(
                message_ttl=random.choice(TTLS),
                consumer_ttl=random.choice(TTLS),
                conduit=random.random() < 0.6,
                decrease_priority=decreases,
                excluded=(QUEUE,) if not even and random.random() < 0.1 else (),
                duplex=random.random() < 0.3,
            )
        found.append((near, far, settings))
    return found


def planned(names: str, links: list[tuple[str, str, BridgeSettings]]) -> NetworkPlan:
    made: list[PlannedLink] = []
    for number, (near, far, settings) in enumerate(links):
        made.append(PlannedLink(near, far, settings, str(number)))
        if settings.duplex:
            made.append(PlannedLink(far, near, settings, str(number), reverse=True))
    return NetworkPlan([PlannedBroker(name, name) for name in names], made)


def followed(graph: Graph, rules: Rules, goals: list[int], consumers: int = 1) -> Demand:
    return DemandFollower(graph, rules, np.array(goals), consumers).run()


@pytest.mark.parametrize("seed", SEEDS[:150])
def test_demand_is_that_of_the_plan_by_which_bridges_go(seed: int) -> None:
    random = Random(seed)
    names = "ABCDEF"[: random.choice((3, 4, 5, 6))]
    links = drawn(random, names, even=random.random() < 0.5)
    destination = random.choice((QUEUE, TOPIC))
    if destination is TOPIC:  # behind conduits the plan looks at one consumer alone
        links = [(near, far, replace(one, conduit=False)) for near, far, one in links]
    plan = planned(names, links)
    graph, rules = read_plan(plan, destination)
    for goal, name in enumerate(names):
        if max(map(len, plan.demand(destination, name).values()), default=0) >= MAX_WAYS:
            continue  # the plan goes no farther
        found = followed(graph, rules, [goal])
        expected: Counter[tuple[str, str, str]] = Counter()
        hops: Counter[int] = Counter()
        best: dict[tuple[str, str, str], int] = {}
        for demands in plan.demand(destination, name).values():
            for one in demands:
                key = (one.link.near, one.link.far, one.link.location)
                expected[key] += 1
                hops[len(one.path)] += 1
                best[key] = max(best.get(key, -1_000), one.priority)
        keys = [(link.near, link.far, link.location) for link in plan.links]
        sizes = {keys[graph.order[link]]: int(found.subscriptions[link]) for link in range(graph.links)}
        assert {key: size for key, size in sizes.items() if size} == expected
        assert {place: int(size) for place, size in enumerate(found.by_hops) if size} == hops
        for link in range(graph.links):
            if found.nearest[link] and rules.decreases:
                path = ("",) * int(found.nearest[link])
                assert network_priority(path, rules.priority_base) == best[keys[graph.order[link]]]


@pytest.mark.parametrize("seed", SEEDS[:60])
def test_subscriptions_and_advisories_are_those_of_brokers_that_talk_to_each_other(seed: int) -> None:
    random = Random(seed)
    names = "ABCDE"[: random.choice((3, 4, 5))]
    joins = random.random() < 0.5
    settings = BridgeSettings(
        consumer_ttl=random.choice(TTLS),
        conduit=random.random() < 0.6 or joins,
        conduit_network_queues=joins,
        duplex=random.random() < 0.5,
    )
    pairs = connectors(random, names, random.choice((0.25, 0.4)))
    if joins:  # where there are several ways of the same length, the order of advisories decides
        pairs = [(name, random.choice(names[:place])) for place, name in enumerate(names) if place]
    if settings.duplex:
        pairs = [pair for place, pair in enumerate(pairs) if pair[::-1] not in pairs[:place]]
    network = DemandNetwork()
    sites = {name: network.site(name) for name in names}
    for number, (near, far) in enumerate(pairs):
        named = replace(settings, name=f"C{number}")
        network.link(sites[near], sites[far], named)
    network.settles()
    goals = sorted(random.sample(range(len(names)), random.choice((1, 1, 2))))
    consumers = random.choice((1, 3))
    destination = random.choice((QUEUE, TOPIC)) if len(goals) == 1 and not joins else QUEUE
    for goal in goals:
        client = sites[names[goal]].client()
        for _ in range(consumers):
            client.consumes(destination)
        network.settles()
    graph, rules = read_plan(planned(names, [(near, far, settings) for near, far in pairs]), destination)
    found = followed(graph, rules, goals, consumers)
    own = [consumers * (place in goals) for place in range(len(names))]
    there = np.bincount(graph.near, weights=found.subscriptions, minlength=len(names))
    assert [site.consumers_of(destination) for site in sites.values()] == [
        int(count) + mine for count, mine in zip(there, own, strict=True)
    ]
    told = [
        sum(count for name, count in site.advisories().items() if name.endswith(f"Consumer.{family(destination)}"))
        for site in sites.values()
    ]
    assert told == [int(count) for count in np.bincount(graph.far, weights=found.frames, minlength=len(names))]


def family(destination: Destination) -> str:
    return f"{'Queue' if destination.is_queue else 'Topic'}.{destination.name}"


@pytest.mark.parametrize("seed", SEEDS[:100])
def test_messages_go_where_the_plan_shares_them_out(seed: int) -> None:
    random = Random(seed)
    names = "ABCDE"[: random.choice((3, 4, 5))]  # of more, the plan does not follow all ways
    plan = planned(names, drawn(random, names, even=random.random() < 0.5))
    graph, rules = read_plan(plan, QUEUE)
    goals = sorted(random.sample(range(len(names)), random.choice((1, 2, 3))))
    consumers = random.choice((1, 2))
    most = (max(map(len, plan.demand(QUEUE, names[goal]).values()), default=0) for goal in goals)
    if max(most) >= MAX_WAYS:
        return  # the plan goes no farther
    demand = followed(graph, rules, goals, consumers)
    at = np.zeros(len(names))
    at[goals] = consumers
    flow = Flows(graph, rules, demand, at).follow(np.arange(len(names)))
    away = nearest(graph, np.array(goals))
    for start, name in enumerate(names):
        shares = plan.shares(name, QUEUE, {names[goal]: consumers for goal in goals}, 1)
        assert flow.arrived[start].sum() == pytest.approx(sum(shares.values()))
        whole = flow.arrived[start].sum() + flow.stuck[start].sum() + flow.no_consumers[start]
        assert whole == pytest.approx(1.0)
        if rules.decreases and rules.is_uniform:
            reach = min(rules.farthest_demand, rules.farthest_message)
            expected = 1.0 if 0 <= away[start] <= reach else 0.0
            assert flow.arrived[start, max(away[start], 0)] == pytest.approx(expected)


@pytest.mark.parametrize("seed", SEEDS[:60])
def test_what_is_within_reach_is_what_the_plan_reaches(seed: int) -> None:
    random = Random(seed)
    names = "ABCDEF"[: random.choice((4, 5, 6))]
    plan = planned(names, drawn(random, names, even=True))
    graph, rules = read_plan(plan, QUEUE)
    heard = within_reach(graph, np.arange(len(names)), rules.consumer_ttl, rules.farthest_demand)
    both = min(rules.farthest_demand, rules.farthest_message)
    expected: Counter[int] = Counter()
    arrived: Counter[int] = Counter()
    for goal in names:
        for there in plan.demand(QUEUE, goal).values():
            expected[min(len(one.path) for one in there)] += 1
        for start in names:
            route = plan.route(start, QUEUE, goal)
            if route.arrived and start != goal:
                arrived[0] += 1
    assert {hops: int(size) for hops, size in enumerate(heard) if size} == expected
    assert int(heard[1 : both + 1].sum()) == arrived[0]


@pytest.mark.parametrize("seed", SEEDS[:40])
def test_in_a_forest_what_is_counted_is_what_is_followed(seed: int) -> None:
    random = Random(seed)
    brokers = random.choice((2, 7, 30))
    pairs = [(place, random.randrange(place)) for place in range(1, brokers) if random.random() < 0.9]
    names = [str(place) for place in range(brokers)]
    settings = BridgeSettings(consumer_ttl=random.choice((1, 2, 4, -1)), conduit=random.random() < 0.5, duplex=True)
    plan = NetworkPlan(
        [PlannedBroker(name, name) for name in names],
        [
            PlannedLink(near, far, settings, name)
            for one, other in pairs
            for near, far, name in ((names[one], names[other], "ahead"), (names[other], names[one], "back"))
        ],
    )
    graph, rules = read_plan(plan, QUEUE)
    assert is_forest(graph)
    goals = sorted(random.sample(range(brokers), random.randint(1, brokers)))
    counted = count(graph, rules, np.array(goals), 2, exact=True)
    one_by_one = followed(graph, rules, goals, 2)
    for name in ("subscriptions", "frames", "nearest", "preferred", "by_hops"):
        assert np.array_equal(getattr(counted, name), getattr(one_by_one, name)), name


@pytest.mark.parametrize("seed", SEEDS[:40])
def test_elsewhere_what_is_counted_is_never_too_little(seed: int) -> None:
    random = Random(seed)
    names = "ABCDEF"
    plan = planned(names, drawn(random, names, even=True))
    graph, rules = read_plan(plan, QUEUE)
    goals = np.array([0, 3])
    counted, one_by_one = count(graph, rules, goals, 1, exact=False), followed(graph, rules, [0, 3])
    assert (counted.subscriptions >= one_by_one.subscriptions).all()
    assert (counted.frames >= one_by_one.frames).all()
    assert counted.by_hops[1:3].tolist() == one_by_one.by_hops[1:3].tolist()
