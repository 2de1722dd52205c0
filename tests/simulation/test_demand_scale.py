"""How demand spreads through networks of many brokers, who hears of it, and what it costs as the network grows.

`python -m tests.bench.networks.scale` measures the same with hundreds of brokers.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from random import Random

import pytest

from spanwire.model.destination import Destination, parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.demand_network import (
    NEIGHBOURS,
    DemandNetwork,
    hub_and_spokes,
    queues_and_topics,
    regular_edges,
    regular_graph,
)

QUEUE = parse_destination("queue://WANTED")
TOPIC = parse_destination("topic://WANTED")


def distances(size: int, edges: set[tuple[int, int]], start: int) -> list[int]:
    """How many links each broker is away."""
    near: dict[int, list[int]] = {place: [] for place in range(size)}
    for one, other in edges:
        near[one].append(other)
        near[other].append(one)
    found = {start: 0}
    line = deque([start])
    while line:
        place = line.popleft()
        for other in near[place]:
            if other not in found:
                found[other] = found[place] + 1
                line.append(other)
    return [found[place] for place in range(size)]


@pytest.mark.large
@pytest.mark.parametrize("seed", range(4))
def test_in_a_graph_of_four_neighbours_demand_goes_as_far_as_its_ttl_and_no_farther(seed: int) -> None:
    size = 40
    edges = regular_edges(size, seed)
    network = regular_graph(size, ttl=3, seed=seed)
    start = Random(seed).randrange(size)
    client = network.sites[start].client()
    for destination in (QUEUE, TOPIC):
        client.consumes(destination)
    network.settles()
    away = distances(size, edges, start)
    assert max(away) > 3
    for destination in (QUEUE, TOPIC):
        wanted = [site.consumers_of(destination) > 0 for site in network.sites]
        assert wanted == [steps <= 3 for steps in away], f"seed {seed}: {destination}"
    client.leaves()
    network.settles()
    assert network.demand == 0


def test_every_broker_of_a_regular_graph_has_four_neighbours() -> None:
    for seed in range(20):
        edges = regular_edges(30, seed)
        assert len(edges) == 30 * NEIGHBOURS // 2
        assert all(sum(place in edge for edge in edges) == NEIGHBOURS for place in range(30))


def test_a_broker_is_not_told_of_consumers_that_were_heard_of_through_it() -> None:
    network = hub_and_spokes(5)
    before = network.advisories
    client = network.sites[1].client()
    client.consumes(QUEUE)
    network.settles()
    assert network.advisories - before == 1 + 3  # the hub, and by it the other spokes
    assert network.demand == 4
    client.leaves()
    network.settles()
    assert network.advisories - before == 2 * (1 + 3)
    assert network.demand == 0


def test_a_link_that_comes_later_is_not_told_of_them_either() -> None:
    network = DemandNetwork()
    a, b, c = (network.site(name) for name in "ABC")
    both_ways = BridgeSettings(duplex=True, message_ttl=3, consumer_ttl=3)
    network.link(a, b, both_ways)
    network.settles()
    c.client().consumes(QUEUE)
    network.link(b, c, both_ways)
    network.settles()
    assert [site.consumers_of(QUEUE) for site in (a, b, c)] == [1, 1, 1]
    told = [sum(count for name, count in site.advisories().items() if "WANTED" in name) for site in (a, b, c)]
    assert told == [0, 1, 1]
    network.link(a, c, BridgeSettings(name="back", duplex=True, message_ttl=3, consumer_ttl=3))
    network.settles()
    assert sum(count for name, count in a.advisories().items() if "WANTED" in name) == 1  # not to C, but to B of C's


@pytest.mark.large
def test_advisories_for_each_broker_do_not_depend_on_destinations_that_nobody_asks_for() -> None:
    counts: dict[int, list[int]] = {}
    for total in (10, 1_000):
        network = regular_graph(8, ttl=2, seed=3)
        for place, site in enumerate(network.sites):
            producer = site.client()
            for destination in queues_and_topics(total):
                producer.produces_for(destination)
            for destination in queues_and_topics(10)[place % 5 :: 5]:
                site.client().consumes(destination)
        network.settles()
        counts[total] = [sum(site.advisories().values()) for site in network.sites]
    assert counts[10] == counts[1_000]
    assert min(counts[10]) > NEIGHBOURS


def test_behind_a_conduit_a_spoke_costs_the_others_one_advisory_for_each_destination() -> None:
    frames: list[int] = []
    for size in (6, 11):
        network = hub_and_spokes(size)
        before = network.advisories
        for spoke in network.sites[1:]:
            client = spoke.client()
            for _ in range(20):
                client.consumes(TOPIC)
        network.settles()
        spokes = size - 1
        frames.append(network.advisories - before - spokes * 20 - spokes * (spokes - 1))
        assert network.demand == spokes * 2  # one of each spoke at the hub, one of the hub at each spoke
    assert frames == [0, 0]


@pytest.mark.parametrize("destination", [QUEUE, TOPIC])
def test_behind_a_conduit_a_consumer_that_is_nearer_is_heard_of_farther_away_than_the_first_one(
    destination: Destination,
) -> None:
    network = DemandNetwork()
    sites = [network.site(name) for name in "ABCD"]
    for near, far in pairwise(sites):
        network.link(near, far, BridgeSettings(message_ttl=2, consumer_ttl=2, conduit_network_queues=True))
    network.settles()
    farthest, nearer = (site.client() for site in (sites[3], sites[2]))
    farthest.consumes(destination)
    network.settles()
    assert [site.consumers_of(destination) for site in sites] == [0, 1, 1, 1]
    nearer.consumes(destination)
    network.settles()
    assert [site.consumers_of(destination) for site in sites] == [1, 1, 2, 1]
    nearer.leaves()
    network.settles()
    assert sites[1].consumers_of(destination) == 1
    farthest.leaves()
    network.settles()
    assert [site.consumers_of(destination) for site in sites] == [0, 0, 0, 0]
