"""Topic messages in networks with loops: each subscriber gets each message once, and all that it may reach."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spanwire.broker.explanation import explanation as cause
from spanwire.broker.explanation.explainer import Explainer
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import TopicPolicy
from spanwire.model.destination import parse_destination
from spanwire.network.bridge.local_demand import LocalDemand
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import STARTED_MS, Inbox, Link, Network, Site

T = "topic://T"
UNAUDITED = PolicyMap([PolicyEntry(parse_destination("topic://>"), topic=TopicPolicy(audits_copies=False))])


def linked(network: Network, near: Site, far: Site, ttl: int = 2, duplex: bool = False) -> Link:
    settings = BridgeSettings(
        name=near.name + far.name, message_ttl=ttl, consumer_ttl=ttl, decrease_priority=False, duplex=duplex
    )
    return network.link(near, far, settings)


def mesh_of_three(policies: PolicyMap | None = None) -> tuple[Network, list[Site], dict[str, Link]]:
    network = Network()
    sites = [network.site(name, policies=policies) for name in "ABC"]
    links = {near.name + far.name: linked(network, near, far) for near in sites for far in sites if near is not far}
    return network, sites, links


def durable_at(site: Site) -> Inbox:
    return site.client(f"client{site.name}").consumes(T, durable=f"sub{site.name}")


def test_each_durable_subscriber_in_a_mesh_of_three_gets_a_message_once() -> None:
    network, sites, _ = mesh_of_three()
    inboxes = [durable_at(site) for site in sites]
    network.settles()
    for site in sites:
        site.client().sends(T, f"from {site.name}")
    network.settles()
    assert [sorted(inbox.texts) for inbox in inboxes] == [["from A", "from B", "from C"]] * 3


@pytest.mark.parametrize(("policies", "most"), [(None, 1), (UNAUDITED, 2)])
def test_each_consumer_in_a_square_of_duplex_links_gets_a_message_once_unless_its_audit_is_off(
    policies: PolicyMap | None, most: int
) -> None:
    network = Network()
    a, b, c, d = sites = [network.site(name, policies=policies) for name in "ABCD"]
    for near, far in ((a, b), (a, c), (b, d), (c, d)):
        linked(network, near, far, ttl=4, duplex=True)
    inboxes = [site.client().consumes(T) for site in sites]
    network.settles()
    for number in range(5):
        a.client().sends(T, f"m{number}", persistent=False)
    network.settles()
    counts = [inbox.texts.count(f"m{number}") for inbox in inboxes for number in range(5)]
    assert (min(counts), max(counts)) == (1, most)


def test_a_message_of_the_same_text_that_is_sent_again_is_another_message() -> None:
    network, sites, _ = mesh_of_three()
    inboxes = [durable_at(site) for site in sites]
    network.settles()
    producer = sites[0].client()
    producer.sends(T, "one")
    producer.sends(T, "one")
    network.settles()
    assert [inbox.texts for inbox in inboxes] == [["one", "one"]] * 3


@pytest.mark.parametrize("crashes", [False, True])
def test_a_copy_that_waited_behind_a_broken_link_is_dropped_when_it_comes(crashes: bool) -> None:
    network, (a, b, c), links = mesh_of_three()
    for name in ("AB", "AC", "BA", "CA", "CB"):
        links[name].enabled = False
    inboxes = {site.name: durable_at(site) for site in (a, b, c)}
    network.settles()
    for link in links.values():
        link.enabled = True
    network.settles()
    links["BC"].breaks()
    links["BC"].enabled = False
    network.settles()  # A has found its other route to C
    a.client().sends(T, "one")
    network.settles()
    assert inboxes["C"].texts == ["one"]
    if crashes:
        c.crashes()
        inboxes["C"] = durable_at(c)
    links["BC"].enabled = True
    network.settles()
    assert inboxes["C"].texts == ([] if crashes else ["one"])
    assert c.broker.assembly.producer_audit.copies.dropped == 1


def test_a_durable_subscriber_that_comes_and_goes_gets_each_message_once() -> None:
    network, (a, b, c), _ = mesh_of_three()
    inbox = durable_at(c)
    for site in (a, b):
        durable_at(site)
    network.settles()
    producer = a.client()
    got: list[str] = []
    for number in range(4):
        inbox.leaves()
        c.clients[0].leaves()
        producer.sends(T, f"away {number}")
        network.settles()
        inbox = durable_at(c)
        producer.sends(T, f"there {number}")
        network.settles()
        got.extend(inbox.texts)
    assert got == [f"{where} {number}" for number in range(4) for where in ("away", "there")]


@pytest.mark.parametrize("durable", [False, True])
def test_a_nearer_copy_goes_on_to_brokers_that_the_first_copy_cannot_reach(durable: bool) -> None:
    """A-B-C and A-C, then C-D: over B the TTL ends at C, and that copy comes first."""
    network = Network()
    a, b, c, d = (network.site(name) for name in "ABCD")
    linked(network, a, b)
    linked(network, b, c)
    slow = linked(network, a, c)
    linked(network, c, d)
    inboxes = [durable_at(site) if durable else site.client().consumes(T) for site in (b, c, d)]
    network.settles()
    slow.stalled = True
    a.client().sends(T, "one")
    network.settles()
    assert [inbox.texts for inbox in inboxes] == [["one"], ["one"], []]
    slow.stalled = False
    network.settles()
    assert [inbox.texts for inbox in inboxes] == [["one"]] * 3


def test_a_consumer_is_served_over_one_route_whichever_was_heard_of_first() -> None:
    for first in ("AB", "AC"):
        network, (a, b, c), links = mesh_of_three()
        links["AB"].enabled = links["AC"].enabled = False
        consumers = [b.client().consumes(T), c.client().consumes(T)]
        network.settles()
        links[first].enabled = True
        network.settles()
        links["AB"].enabled = links["AC"].enabled = True
        network.settles()
        for inbox in consumers:
            (demand,) = a.routes._serving[str(inbox.info.consumer_id)]
            assert demand.info.destination == parse_destination(T)
        consumers[0].leaves()
        network.settles()
        assert links["AB"].bridge is not None and links["AC"].bridge is not None
        assert links["AB"].bridge.demand_count + links["AC"].bridge.demand_count == 1


def ring_with_a_tail(ring: str = "ABCDE", tail: str = "DF", ttl: int = 3) -> tuple[Network, dict[str, Site]]:
    """A ring, and a tail that begins at one of it; from A, C is two hops away over B, and F three over E."""
    network = Network()
    sites = {name: network.site(name) for name in ring + tail[1:]}
    circle = ring + ring[0]
    for line in (circle, tail):
        for one, other in pairwise(line):
            for near, far in ((one, other), (other, one)):
                settings = BridgeSettings(name=near + far, message_ttl=ttl, consumer_ttl=ttl)
                network.link(sites[near], sites[far], settings)
    return network, sites


def ring_with_an_announced_consumer() -> tuple[Network, dict[str, Site], LocalDemand]:
    """A ring with a tail, and what E has for D: one subscription, and one that only announces the other consumer."""
    network, sites = ring_with_a_tail()
    for name in "CF":
        sites[name].client().consumes(T)
        network.settles()
    (local,) = [one for one in local_demands(network) if one.client.info.remote_address == "vm://brokerE#ED"]
    return network, sites, local


@pytest.mark.parametrize("order", ["CF", "FC"])
def test_a_consumer_behind_the_conduit_for_another_one_is_heard_of_where_that_one_has_another_route(order: str) -> None:
    network, sites = ring_with_a_tail()
    inboxes: list[Inbox] = []
    for name in order:
        inboxes.append(sites[name].client().consumes(T))
        network.settles()
    for name in "AE":
        sites[name].client().sends(T, f"from {name}", persistent=False)
    network.settles()
    assert [sorted(inbox.texts) for inbox in inboxes] == [["from A", "from E"]] * 2


def test_a_consumer_is_announced_in_place_of_another_one_of_its_broker_that_leaves() -> None:
    network, sites = ring_with_a_tail()
    for name in "CFF":
        sites[name].client().consumes(T)
        network.settles()
    first, second = sites["F"].clients
    (inbox,) = second.inboxes
    first.leaves()
    network.settles()
    sites["A"].client().sends(T, "one", persistent=False)
    network.settles()
    assert inbox.texts == ["one"]


def test_consumers_of_one_broker_with_other_topics_behind_a_wildcard_are_each_heard_of() -> None:
    network, sites = ring_with_a_tail()
    sites["C"].client().consumes("topic://T.>")
    network.settles()
    inboxes = [sites["F"].client().consumes(topic) for topic in ("topic://T.1", "topic://T.2")]
    network.settles()
    for number in (1, 2):
        sites["A"].client().sends(f"topic://T.{number}", f"m{number}", persistent=False)
    network.settles()
    assert [inbox.texts for inbox in inboxes] == [["m1"], ["m2"]]


def test_a_consumer_behind_the_wildcard_of_one_too_far_away_is_heard_of() -> None:
    network = Network()
    a, b, c, d = [network.site(name) for name in "ABCD"]
    for near, far in ((a, b), (b, c), (c, d)):
        linked(network, near, far, ttl=2)
    d.client().consumes("topic://T.>")
    network.settles()
    inbox = c.client().consumes("topic://T.1")
    network.settles()
    a.client().sends("topic://T.1", "one", persistent=False)
    network.settles()
    assert inbox.texts == ["one"]


def test_a_consumer_is_heard_of_although_the_other_route_to_the_first_one_is_too_long_to_be_announced() -> None:
    """From A, D is three hops away over B and over F. B does not hear that A sends over F."""
    network, sites = ring_with_a_tail(ring="ABCDEF", tail="CG")
    late = next(link for link in network.links if link.settings.name == "AB")
    late.enabled = False
    sites["D"].client().consumes(T)
    network.settles()
    late.enabled = True
    network.settles()
    inbox = sites["G"].client().consumes(T)
    network.settles()
    sites["A"].client().sends(T, "one", persistent=False)
    network.settles()
    assert inbox.texts == ["one"]


def test_what_only_announces_is_no_consumer_of_the_topic() -> None:
    _, sites, local = ring_with_an_announced_consumer()
    assert len(local.heralds) == 1
    (view,) = [view for view in sites["E"].broker.destination_views() if view.destination == T]
    assert view.consumers == len(local.demand.subscriptions) == 1


def test_what_only_announces_is_in_no_list_of_consumers() -> None:
    network, sites, local = ring_with_an_announced_consumer()
    (demand,) = local.demand.subscriptions
    overview = sites["E"].broker.assembly.overview
    assert (len(local.heralds), len(local.client.consumers)) == (1, 2)
    assert overview.consumers(local.client) == [demand.subscription]
    assert overview.connection_view(local.client, network.now.wall_ms).consumers == 1
    assert [session.consumers for session in overview.sessions(local.client)] == [1]


def test_a_connection_of_a_bridge_that_announces_further_consumers_is_healthy() -> None:
    network, sites, local = ring_with_an_announced_consumer()
    assert len(local.heralds) == 1
    answer = Explainer(sites["E"].broker, STARTED_MS).connection(local.client, [], network.now)
    assert answer.cause == cause.HEALTHY, answer.sentence


def test_what_announces_further_consumers_ends_with_a_subscription_that_an_operator_ends() -> None:
    network, sites, local = ring_with_an_announced_consumer()
    (demand,) = local.demand.subscriptions
    sites["E"].broker.assembly.operator_actions.end_consumer(str(demand.info.consumer_id), network.now)
    assert len(local.heralds) == 0
    assert list(local.client.consumers) == [str(demand.info.consumer_id)]  # until its second is over


def test_bridges_in_a_ring_do_not_serve_each_other_once_all_consumers_have_left() -> None:
    network = Network()
    a, b, c, d = sites = [network.site(name) for name in "ABCD"]
    for near, far in ((a, b), (b, c), (c, d), (d, a)):
        linked(network, near, far, ttl=3)
    clients = [site.client() for site in sites]
    for client in clients:
        client.consumes(T)
    network.settles()
    for client in clients:
        client.leaves()
    network.settles()
    assert [local.demand.remote_count for local in local_demands(network)] == [0] * 4


def test_a_consumer_misses_nothing_when_the_one_leaves_for_which_the_conduit_was_made() -> None:
    network = Network()
    a, b, c, d = [network.site(name) for name in "ABCD"]
    for near, far in ((a, b), (b, c), (c, d)):
        linked(network, near, far, ttl=3)
    first = c.client()
    first.consumes(T)
    network.settles()
    inbox = d.client().consumes(T)
    network.settles()
    first.leaves()
    for number in range(20):
        a.client().sends(T, f"m{number}", persistent=False)
        for link in network.links:
            link.flush()
            link.deliver(1)
    network.settles()
    assert inbox.texts == [f"m{number}" for number in range(20)]
    assert [local.demand.subscriptions[0].info.broker_path for local in local_demands(network)] == [
        ("D", "C", "B"), ("D", "C"), ("D",),
    ]  # fmt: skip


def test_a_consumer_is_still_heard_of_when_the_one_leaves_for_which_the_conduit_was_made() -> None:
    network, sites = ring_with_a_tail(tail="DFG", ttl=4)
    inboxes: list[Inbox] = []
    for name in "DCG":
        inboxes.append(sites[name].client().consumes(T))
        network.settles()
    sites["D"].clients[0].leaves()
    network.settles()
    sites["A"].client().sends(T, "one", persistent=False)
    network.settles()
    assert [inbox.texts for inbox in inboxes[1:]] == [["one"], ["one"]]


def test_messages_that_wait_for_a_link_are_not_lost_when_the_one_leaves_for_which_the_conduit_was_made() -> None:
    network = Network()
    a, b, c = [network.site(name) for name in "ABC"]
    settings = BridgeSettings(name="AB", message_ttl=2, consumer_ttl=2, prefetch_size=1)
    link = network.link(a, b, settings)
    linked(network, b, c)
    first = b.client()
    first.consumes(T)
    network.settles()
    inbox = c.client().consumes(T)
    network.settles()
    link.stalled = True
    for number in range(5):
        a.client().sends(T, f"m{number}", persistent=True)
    first.leaves()
    network.settles()
    link.stalled = False
    network.settles()
    assert inbox.texts == [f"m{number}" for number in range(5)]


def test_nothing_is_announced_or_served_once_all_consumers_have_left() -> None:
    network, sites = ring_with_a_tail()
    for name in "CF":
        sites[name].client().consumes(T)
        network.settles()
    assert any(len(local.heralds) for local in local_demands(network))
    for name in "CF":
        sites[name].clients[0].leaves()
        network.settles()
    for local in local_demands(network):
        assert (len(local.heralds), local.demand.remote_count, len(local.client.consumers)) == (0, 0, 0)


def test_in_a_tree_nothing_is_announced_twice() -> None:
    network = Network()
    sites = [network.site(name) for name in "ABCD"]
    for near, far in ((0, 1), (1, 2), (1, 3)):
        linked(network, sites[near], sites[far], ttl=3)
        linked(network, sites[far], sites[near], ttl=3)
    for site in sites:
        site.client().consumes(T)
    network.settles()
    assert [len(local.heralds) for local in local_demands(network)] == [0] * 6


def test_only_so_many_consumers_behind_conduits_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    network, sites = ring_with_a_tail()
    network.settles()
    for local in local_demands(network):
        local.heralds.at_most = 1
    for topic in ("topic://T1", "topic://T2"):
        for name in "CF":
            sites[name].client().consumes(topic)
            network.settles()
    assert max(site.routes.heralds for site in network.sites) == 1
    (line,) = [text for text in caplog.messages if text.startswith("network connector ED: more")]
    assert line.startswith("network connector ED: more than 1 consumers of other brokers would have to be announced")
    assert line.endswith("raise networkTTL of the network connectors")


@pytest.mark.parametrize("first", ["AB", "AE"])
def test_a_consumer_behind_the_conduit_for_a_nearer_one_is_served_over_a_shorter_route(first: str) -> None:
    """B and D have consumers; D is three hops away over B, and two over E. Over B nothing can go on to F."""
    network, sites = ring_with_a_tail()
    late = next(link for link in network.links if link.settings.name == ("AE" if first == "AB" else "AB"))
    late.enabled = False
    inboxes: list[Inbox] = []
    for name in "BDF":
        inboxes.append(sites[name].client().consumes(T))
        network.settles()
    late.enabled = True
    network.settles()
    sites["A"].client().sends(T, "one", persistent=False)
    network.settles()
    assert [inbox.texts for inbox in inboxes] == [["one"]] * 3
    (local,) = [one for one in local_demands(network) if one.client.info.remote_address == "vm://brokerA#AE"]
    assert [demand.info.broker_path for demand in local.demand.subscriptions] == [("D", "E")]


def local_demands(network: Network) -> list[LocalDemand]:
    bridges = [link.bridge for link in network.links]
    return [bridge.forwarder.local for bridge in bridges if bridge is not None and bridge.forwarder is not None]
