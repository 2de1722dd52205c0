"""Demand that flaps and advisories that flood: what clients of one broker do costs the others little."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

import pytest

from spanwire.broker.destinations.destination_map import ADVISORY_SHARE
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Link, Network, Site

FLAPS = 200
MIB = 1024 * 1024
AMPLIFICATION = 2  # most bytes that a change may cost on a link beyond, for each byte on the link where it happened


class Wire(deque[bytes]):
    """One direction of a link, which counts its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.carried = 0

    def extend(self, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            self.carried += len(chunk)
            self.append(chunk)


def row(names: str, *, memory_limit_bytes: int = 64 * MIB, duplex: bool = False) -> tuple[Network, list[Site]]:
    network = Network()
    sites = [network.site(name, memory_limit_bytes=memory_limit_bytes) for name in names]
    for near, far in pairwise(sites):
        ttl = len(names)
        network.link(near, far, BridgeSettings(name="on", message_ttl=ttl, consumer_ttl=ttl, duplex=duplex))
    return network, sites


def measured(network: Network) -> list[tuple[Wire, Wire]]:
    """Both directions of each link, from now on."""
    network.settles()
    found: list[tuple[Wire, Wire]] = []
    for link in network.links:
        link.to_far, link.to_near = Wire(), Wire()
        found.append((link.to_far, link.to_near))
    return found


def nothing_is_left(network: Network) -> bool:
    return all(link.bridge is not None and link.bridge.demand_count == 0 for link in network.links)


@pytest.mark.large
def test_demand_that_flaps_at_one_end_costs_no_link_more_than_the_one_where_it_begins() -> None:
    network, (a, _, _, d) = row("ABCD")
    wires = measured(network)
    for _ in range(FLAPS):
        client = d.client()
        client.consumes("queue://FLAPS")
        network.settles()
        client.leaves()
        network.settles()
    carried = [forth.carried + back.carried for forth, back in wires]
    last = carried[-1]
    assert last > FLAPS * 100
    assert all(each < AMPLIFICATION * last for each in carried)
    assert nothing_is_left(network)
    inbox = d.client().consumes("queue://FLAPS")
    network.settles()
    a.client().sends("queue://FLAPS", "still")
    network.settles()
    assert inbox.texts == ["still"]


def test_flaps_that_come_all_at_once_cost_no_more_and_leave_nothing() -> None:
    network, (_, _, c) = row("ABC")
    wires = measured(network)
    for _ in range(FLAPS):
        client = c.client()
        client.consumes("queue://FLAPS")
        client.leaves()
    network.settles()
    first, last = [forth.carried + back.carried for forth, back in wires]
    assert first < AMPLIFICATION * last
    assert nothing_is_left(network)
    assert [link.reasons for link in network.links] == [[], []]


def test_many_consumers_of_one_destination_cross_a_second_link_as_one() -> None:
    network, (_, _, c) = row("ABC")
    wires = measured(network)
    client = c.client()
    for _ in range(FLAPS):
        client.consumes("topic://MANY")
    network.settles()
    assert wires[0][1].carried * 50 < wires[1][1].carried


@pytest.mark.large
def test_a_flood_of_advisories_that_a_bridge_does_not_read_takes_a_share_of_memory_at_most() -> None:
    limit = 8 * MIB
    network, (a, b) = row("AB", memory_limit_bytes=limit)
    (link,) = network.links
    network.settles()
    link.enabled = False  # nothing moves on it any more, and nobody has closed it
    client = b.client()
    most = 0
    for number in range(2_000):
        client.consumes(f"queue://FLOOD.{number % 10}").leaves()
        destination = b.broker.find_destination(client.consumes("queue://HERE").info.destination)
        client.inboxes[-1].leaves()
        assert destination is not None and destination.usage.parent is not None
        most = max(most, destination.usage.parent.used_bytes)
        if link.peer is not None and link.peer.closed:
            link.breaks()  # the broker has ended it, so its transport closes the socket
    assert link.peer is None
    assert most <= limit * (ADVISORY_SHARE + 5) // 100
    link.enabled = True
    inbox = b.client().consumes("queue://AFTER")
    network.settles()
    a.client().sends("queue://AFTER", "through")
    network.settles()
    assert inbox.texts == ["through"]
    assert link.bridge is not None and link.bridge.destinations(9) == ("queue://AFTER",)


def test_a_link_that_breaks_again_and_again_leaves_one_subscription_each_time() -> None:
    network, (a, b) = row("AB", duplex=True)
    b.client().consumes("queue://THERE")
    a.client().consumes("queue://HERE")
    network.settles()
    link: Link = network.links[0]
    for _ in range(50):
        link.breaks()
        network.settles()
    bridges = list(b.acceptor.bridges.values())
    assert link.bridge is not None and link.bridge.demand_count == 1
    assert [bridge.forwarder.local.demand.remote_count for bridge in bridges] == [1]
    assert [view.consumers for view in a.broker.destination_views() if view.destination == "queue://THERE"] == [1]
    assert [view.consumers for view in b.broker.destination_views() if view.destination == "queue://HERE"] == [1]
