"""The five topologies, with three to twelve brokers: concentrator, hub and spokes, tree, mesh, complete graph.

In each, messages come from where producers may be and reach consumers where those may be. A seed decides who is where
and which links break meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from spanwire.model.routing import MAX_PATH
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Inbox, Network, Site

SIZES = (3, 4, 5, 8, 12)
NAMES = "ABCDEFGHIJKL"
QUEUE = "queue://WORK"
TOPIC = "topic://NEWS"


class Topology:
    """A network and where its producers and consumers may be; ``ttl`` is what its connectors need at least."""

    def __init__(self, size: int, ttl: int, *, duplex: bool, suppressed: bool = False) -> None:
        self.network = Network()
        self.sites = [self.network.site(name) for name in NAMES[:size]]
        self.producers = self.sites
        self.consumers = self.sites
        self.ttl = ttl
        self._duplex = duplex
        self._suppressed = suppressed

    def link(self, near: int, far: int) -> None:
        settings = BridgeSettings(
            name=f"{NAMES[near]}{NAMES[far]}",
            duplex=self._duplex,
            message_ttl=self.ttl,
            consumer_ttl=self.ttl,
            suppress_queue_duplicates=self._suppressed,
        )
        self.network.link(self.sites[near], self.sites[far], settings)


def concentrator(size: int) -> Topology:
    """Each broker of the first layer leads to all of the second."""
    made = Topology(size, 1, duplex=False)
    first = (size + 1) // 2
    for near in range(first):
        for far in range(first, size):
            made.link(near, far)
    made.producers, made.consumers = made.sites[:first], made.sites[first:]
    return made


def hub_and_spokes(size: int) -> Topology:
    """Each spoke opens its link to the hub."""
    made = Topology(size, 2, duplex=True)
    for spoke in range(1, size):
        made.link(spoke, 0)
    return made


def tree(size: int) -> Topology:
    """Two below each; one way between any two."""
    made = Topology(size, 6, duplex=True)
    for child in range(1, size):
        made.link((child - 1) // 2, child)
    return made


def mesh(size: int) -> Topology:
    """A grid of three columns, linked to the right and downwards."""
    made = Topology(size, size, duplex=True, suppressed=True)
    for place in range(size):
        if place % 3 < 2 and place + 1 < size:
            made.link(place, place + 1)
        if place + 3 < size:
            made.link(place, place + 3)
    return made


def complete_graph(size: int) -> Topology:
    """Everybody is linked to everybody, each way by a connector of its own."""
    made = Topology(size, 1, duplex=False)
    for near in range(size):
        for far in range(size):
            if near != far:
                made.link(near, far)
    return made


Make = Callable[[int], Topology]
TOPOLOGIES = (concentrator, hub_and_spokes, tree, mesh, complete_graph)


def received(inboxes: list[Inbox]) -> Counter[str]:
    return Counter(text for inbox in inboxes for text in inbox.texts)


def send_from_all(sites: list[Site], destination: str, count: int) -> set[str]:
    sent: set[str] = set()
    for site in sites:
        client = site.client()
        for number in range(count):
            text = f"{site.name}{number}"
            client.sends(destination, text)
            sent.add(text)
    return sent


@pytest.mark.large
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", TOPOLOGIES)
def test_each_message_of_a_queue_reaches_one_consumer_wherever_it_is(make: Make, size: int) -> None:
    made = make(size)
    choose = Random(size)
    network = made.network
    for site in choose.sample(made.consumers, min(2, len(made.consumers))):
        inbox = site.client().consumes(QUEUE)
        network.settles()
        sent = send_from_all(made.producers, QUEUE, 4)
        network.settles()
        choose.choice(network.links).breaks()
        network.settles()
        assert received([inbox]) == Counter(sent)
        inbox.leaves()
        network.settles()
    assert [site.queue("WORK")[2] for site in made.sites] == [0] * size


@pytest.mark.large
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", TOPOLOGIES)
def test_each_message_of_a_topic_reaches_every_consumer(make: Make, size: int) -> None:
    made = make(size)
    network = made.network
    inboxes = [site.client().consumes(TOPIC) for site in made.consumers]
    network.settles()
    sent = send_from_all(made.producers, TOPIC, 2)
    assert inboxes and sent
    network.settles()
    for inbox in inboxes:
        assert Counter(inbox.texts) == Counter(sent)


@pytest.mark.large
@pytest.mark.parametrize("size", [3, 5, 12])
@pytest.mark.parametrize("make", [hub_and_spokes, tree, mesh, complete_graph])
def test_messages_follow_a_consumer_that_moves_from_broker_to_broker(make: Make, size: int) -> None:
    made = make(size)
    choose = Random(100 + size)
    network = made.network
    producer = made.sites[0]
    for round_ in range(4):
        site = choose.choice(made.sites[1:])
        inbox = site.client().consumes(QUEUE)
        network.settles()
        texts = [f"r{round_}m{number}" for number in range(5)]
        client = producer.client()
        for text in texts:
            client.sends(QUEUE, text)
        network.settles()
        assert sorted(inbox.texts) == texts
        inbox.leaves()
        network.settles()


def test_a_message_goes_as_far_as_the_longest_path_allows_in_a_row_of_a_hundred_brokers() -> None:
    network = Network()
    sites = [network.site(f"N{number:03d}") for number in range(100)]
    for place, near in enumerate(sites[:-1]):
        network.link(near, sites[place + 1], BridgeSettings(name="on", message_ttl=-1, consumer_ttl=-1))
    far = sites[MAX_PATH].client().consumes(QUEUE)
    network.settles()
    sites[0].client().sends(QUEUE, "far")
    network.settles()
    assert far.texts == ["far"]
    (one,) = far.received
    assert one.path == tuple(site.name for site in sites[:MAX_PATH])
    far.leaves()
    network.settles()
    farther = sites[-1].client().consumes(QUEUE)
    network.settles()
    sites[0].client().sends(QUEUE, "too far")
    sites[99 - MAX_PATH].client().sends(QUEUE, "just in reach")
    network.settles()
    assert farther.texts == ["just in reach"]
    assert all(link.running and not link.reasons for link in network.links)
