"""Topic messages in networks with loops: each subscriber gets each message once, and all that it may reach."""

from __future__ import annotations

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import TopicPolicy
from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Inbox, Link, Network, Site

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
