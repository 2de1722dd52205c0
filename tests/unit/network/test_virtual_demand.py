"""Consumers behind virtual destinations of a remote broker as demand."""

from __future__ import annotations

import pytest

from spanwire.broker.dispatch.virtual_route import VirtualRoutes
from spanwire.broker.policy.virtual_settings import CompositeDestination, ForwardTo, VirtualSettings, VirtualTopic
from spanwire.model.destination import TOPIC, Destination, parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Network, Site

BAR = "topic://include.bar"
COMPOSITE = CompositeDestination(
    parse_destination(BAR), (ForwardTo(parse_destination("queue://include.bar.forward")),), forward_only=False
)


def network_with(virtual: VirtualSettings, listens: bool, hops: int = 1) -> tuple[Network, list[Site]]:
    """A chain whose last broker has the virtual destinations."""
    network = Network()
    sites = [network.site(name) for name in "ABC"[:hops]]
    sites.append(network.site("Z", virtual=virtual))
    settings = BridgeSettings(
        virtual_demand=listens,
        message_ttl=3,
        consumer_ttl=3,
        included=(parse_destination(BAR), parse_destination("topic://VirtualTopic.>")),
    )
    for place in range(hops):
        network.link(sites[place], sites[place + 1], settings)
    network.settles()
    return network, sites


@pytest.mark.parametrize(
    ("told", "listens", "arrived"),
    [(True, True, ["one"]), (True, False, []), (False, True, [])],
)
def test_a_consumer_behind_a_composite_topic_counts_where_both_ends_say_so(
    told: bool, listens: bool, arrived: list[str]
) -> None:
    network, (a, z) = network_with(VirtualSettings((), (COMPOSITE,), None, told), listens)
    inbox = z.client().consumes("queue://include.bar.forward")
    network.settles()
    a.client().sends(BAR, "one")
    network.settles()
    assert inbox.texts == arrived


def test_the_demand_goes_with_its_last_consumer() -> None:
    network, (_, z) = network_with(VirtualSettings((), (COMPOSITE,), None, True), True)
    (link,) = network.links
    inbox = z.client().consumes("queue://include.bar.forward")
    network.settles()
    assert link.bridge is not None and link.bridge.destinations(9) == (BAR,)
    inbox.leaves()
    network.settles()
    assert link.bridge.destinations(9) == ()


def test_a_bridge_that_comes_later_hears_of_consumers_that_are_there() -> None:
    network, (a, z) = network_with(VirtualSettings((), (COMPOSITE,), None, True), True)
    inbox = z.client().consumes("queue://include.bar.forward")
    network.links[0].breaks()
    network.settles()
    a.client().sends(BAR, "one")
    network.settles()
    assert inbox.texts == ["one"]


def test_a_queue_that_listens_to_a_virtual_topic_is_demand_for_the_topic() -> None:
    network, (a, z) = network_with(VirtualSettings(counts_as_demand=True), True)
    inbox = z.client().consumes("queue://Consumer.x.VirtualTopic.y")
    network.settles()
    a.client().sends("topic://VirtualTopic.y", "one")
    network.settles()
    assert inbox.texts == ["one"]


ON_CREATION = VirtualSettings((), (COMPOSITE,), None, counts_as_demand=True, announced_on_creation=True)
FORWARD = parse_destination("queue://include.bar.forward")


def test_with_demand_on_creation_the_queue_itself_is_demand_for_as_long_as_it_is_there() -> None:
    network, (a, z) = network_with(ON_CREATION, True)
    (link,) = network.links
    admin = z.client()
    z.broker.add_destination(admin.state, FORWARD, network.now)
    network.settles()
    assert link.bridge is not None and link.bridge.destinations(9) == (BAR,)
    a.client().sends(BAR, "one")
    network.settles()
    assert z.queue("include.bar.forward")[2] == 1
    z.broker.remove_destination(admin.state, FORWARD, network.now)
    network.settles()
    assert link.bridge.destinations(9) == ()


def test_a_bridge_that_comes_later_hears_of_a_queue_that_counts_as_a_consumer() -> None:
    network, (_, z) = network_with(ON_CREATION, True)
    (link,) = network.links
    z.broker.add_destination(z.client().state, FORWARD, network.now)
    link.breaks()
    network.settles()
    assert link.bridge is not None and link.bridge.destinations(9) == (BAR,)


def test_without_demand_on_creation_a_queue_alone_is_none() -> None:
    network, (_, z) = network_with(VirtualSettings((), (COMPOSITE,), None, True), True)
    (link,) = network.links
    z.broker.add_destination(z.client().state, FORWARD, network.now)
    network.settles()
    assert link.bridge is not None and link.bridge.destinations(9) == ()


TO_TOPIC = CompositeDestination(
    parse_destination(BAR), (ForwardTo(parse_destination("topic://include.bar.t")),), forward_only=False
)


def away(network: Network, site: Site) -> None:
    """A durable subscriber behind the composite topic that came, and left."""
    client = site.client("c1")
    client.consumes("topic://include.bar.t", durable="s1")
    network.settles()
    client.leaves()
    network.settles()


def came_meanwhile(network: Network, site: Site) -> list[str]:
    inbox = site.client("c1").consumes("topic://include.bar.t", durable="s1")
    network.settles()
    return inbox.texts


@pytest.mark.parametrize("on_creation", [True, False])
@pytest.mark.parametrize("hops", [1, 2])
def test_a_durable_subscriber_behind_a_composite_topic_stays_demand_while_it_is_away(
    on_creation: bool, hops: int
) -> None:
    virtual = VirtualSettings((), (TO_TOPIC,), None, counts_as_demand=True, announced_on_creation=on_creation)
    network, sites = network_with(virtual, True, hops)
    away(network, sites[-1])
    sites[0].client().sends(BAR, "one")
    network.settles()
    for link in network.links:
        link.enabled = False
        link.breaks()
    sites[0].client().sends(BAR, "two")
    network.settles()
    for link in network.links:
        link.enabled = True
    network.settles()
    assert came_meanwhile(network, sites[-1]) == ["one", "two"]


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize(("on_creation", "arrived"), [(True, ["one"]), (False, [])])
def test_a_bridge_that_comes_while_a_durable_subscriber_is_away_hears_of_it_with_demand_on_creation(
    on_creation: bool, arrived: list[str], restarted: bool
) -> None:
    virtual = VirtualSettings((), (TO_TOPIC,), None, counts_as_demand=True, announced_on_creation=on_creation)
    network, (a, z) = network_with(virtual, True)
    (link,) = network.links
    link.enabled = False
    link.breaks()
    away(network, z)
    if restarted:
        z.crashes()
    link.enabled = True
    network.settles()
    a.client().sends(BAR, "one")
    network.settles()
    assert came_meanwhile(network, z) == arrived


@pytest.mark.parametrize("late", [True, False])
def test_the_demand_of_a_durable_subscriber_ends_when_it_unsubscribes(late: bool) -> None:
    virtual = VirtualSettings((), (TO_TOPIC,), None, counts_as_demand=True, announced_on_creation=True)
    network, (a, z) = network_with(virtual, True)
    (link,) = network.links
    away(network, z)
    if late:
        link.breaks()
        a.crashes()
        network.settles()
    assert link.bridge is not None and link.bridge.destinations(9) == (BAR,)
    z.broker.unsubscribe(z.client("c1").state, "s1", network.now)
    network.settles()
    assert link.bridge.destinations(9) == ()
    assert a.broker.operations.durable_terms() == []


@pytest.mark.parametrize(
    ("settings", "queue", "topic"),
    [
        (VirtualTopic(), "Consumer.A.VirtualTopic.Orders.EU", "VirtualTopic.Orders.EU"),
        (VirtualTopic(), "Consumer.A.Other", None),
        (VirtualTopic(), "Consumer", None),
        (VirtualTopic(Destination(TOPIC, ">"), "VT.", ".Q"), "VT.a.b.Q", "a.b"),
        (VirtualTopic(Destination(TOPIC, ">"), "VT.", ".Q"), "VT.a.b", None),
    ],
)
def test_the_name_of_a_queue_tells_to_which_topic_it_listens(
    settings: VirtualTopic, queue: str, topic: str | None
) -> None:
    found = VirtualRoutes(VirtualSettings((settings,), counts_as_demand=True)).sources(
        parse_destination(f"queue://{queue}")
    )
    assert found == ([] if topic is None else [Destination(TOPIC, topic)])


def test_no_virtual_destination_takes_advisories() -> None:
    everything = VirtualSettings((VirtualTopic(Destination(TOPIC, ">"), "VT.", ""),))
    assert VirtualRoutes(everything).find(Destination(TOPIC, "A")) is not None
    assert VirtualRoutes(everything).find(Destination(TOPIC, "ActiveMQ.Advisory.Connection")) is None
