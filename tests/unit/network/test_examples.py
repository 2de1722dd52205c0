"""The worked examples of Understanding ActiveMQ Broker Networks and Networks of Brokers, with their numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Inbox, Link, Network, Site

FOO = "queue://TEST.FOO"
STATIC = (parse_destination(FOO),)


def settings(name: str, ttl: int = 1, **more: object) -> BridgeSettings:
    """As the examples have them: nearer consumers come no earlier."""
    return BridgeSettings(name=name, message_ttl=ttl, consumer_ttl=ttl, decrease_priority=False, **more)  # type: ignore[arg-type]


def linked(network: Network, near: Site, far: Site, ttl: int = 1, **more: object) -> Link:
    return network.link(near, far, settings(f"{near.name}{far.name}", ttl, **more))


def both_ways(network: Network, one: Site, other: Site, ttl: int = 1, **more: object) -> None:
    """What a duplex connector is: a bridge each way."""
    linked(network, one, other, ttl, **more)
    linked(network, other, one, ttl, **more)


def send(site: Site, count: int, destination: str = FOO) -> None:
    client = site.client()
    for number in range(count):
        client.sends(destination, f"m{number}")


def counts(inboxes: list[Inbox]) -> list[int]:
    return [len(inbox.received) for inbox in inboxes]


def waiting(*sites: Site, queue: str = "TEST.FOO") -> list[int]:
    return [site.queue(queue)[2] for site in sites]


@pytest.mark.parametrize(
    ("messages", "conduit", "share"),
    [(30, True, [15, 8, 7]), (30, False, [10, 10, 10]), (12, True, [6, 3, 3]), (12, False, [4, 4, 4])],
)
def test_two_consumers_behind_a_conduit_share_what_one_gets(messages: int, conduit: bool, share: list[int]) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    linked(network, a, b, conduit=conduit)
    inboxes = [a.client().consumes(FOO, prefetch=1000)]
    inboxes += [b.client().consumes(FOO, prefetch=1000) for _ in range(2)]
    network.settles()
    send(a, messages)
    network.settles()
    assert counts(inboxes) == share


def test_where_nearer_consumers_come_first_the_one_here_takes_all() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b, BridgeSettings(name="toB"))
    inboxes = [a.client().consumes(FOO, prefetch=1000)]
    inboxes += [b.client().consumes(FOO, prefetch=1000) for _ in range(2)]
    network.settles()
    send(a, 30)
    network.settles()
    assert counts(inboxes) == [30, 0, 0]


@pytest.mark.parametrize(("ttl", "arrived"), [(3, 10), (2, 0)])
def test_messages_wait_at_the_first_broker_of_a_chain_for_a_consumer_at_its_end(ttl: int, arrived: int) -> None:
    network = Network()
    a, b, c, e = (network.site(name) for name in "ABCE")
    for near, far in pairwise((a, b, c, e)):
        linked(network, near, far, ttl)
    send(a, 10)
    network.settles()
    assert waiting(a, b, c, e) == [10, 0, 0, 0]
    inbox = e.client().consumes(FOO)
    network.settles()
    assert len(inbox.received) == arrived


def test_static_destinations_spread_over_a_tree_without_any_consumer() -> None:
    network = Network()
    a, b, c, d, e = (network.site(name) for name in "ABCDE")
    for near, far in ((a, b), (b, c), (c, d), (c, e)):
        linked(network, near, far, 3, static=STATIC)
    network.settles()
    send(a, 10)
    network.settles()
    assert waiting(a, b, c, d, e) == [0, 0, 0, 5, 5]
    inbox = e.client().consumes(FOO)
    network.settles()
    assert len(inbox.received) == 5
    assert waiting(d, e) == [5, 0]


@pytest.mark.parametrize(
    ("producer", "messages", "left"), [("B", 10, {"B": 0, "C": 0, "D": 5, "E": 5}), ("C", 9, {"B": 3, "D": 3, "E": 3})]
)
def test_static_destinations_spread_over_a_star_of_links_both_ways(
    producer: str, messages: int, left: dict[str, int]
) -> None:
    network = Network()
    sites = {name: network.site(name) for name in "BCDE"}
    for spoke in "BDE":
        both_ways(network, sites["C"], sites[spoke], 3, static=STATIC)
    network.settles()
    send(sites[producer], messages)
    network.settles()
    assert {name: waiting(sites[name])[0] for name in left} == left


@pytest.mark.parametrize("ttl", [1, 2, 3])
def test_in_a_ring_half_of_the_messages_goes_each_way_round_and_none_comes_back(ttl: int) -> None:
    network = Network()
    a, b, c = (network.site(name) for name in "ABC")
    for one, other in ((a, b), (b, c), (c, a)):
        both_ways(network, one, other, ttl, static=STATIC)
    network.settles()
    send(a, 100)
    network.settles()
    assert waiting(a, b, c) == [0, 50, 50]
    paths = set()
    for site in (b, c):
        inbox = site.client().consumes(FOO, prefetch=1000, manual=True)
        site.turn()
        paths |= {one.path for one in inbox.reads()}
    assert paths == ({("A",)} if ttl == 1 else {("A", "B"), ("A", "C")})


@pytest.mark.parametrize(("conduit", "consumed", "stuck"), [(True, [5, 5], [5, 5]), (False, [10, 10], [0, 0])])
def test_behind_a_conduit_messages_get_stuck_at_the_wrong_selector(
    conduit: bool, consumed: list[int], stuck: list[int]
) -> None:
    network = Network()
    a, b, c = (network.site(name) for name in "ABC")
    linked(network, a, b, conduit=conduit)
    linked(network, a, c, conduit=conduit)
    inboxes = [b.client().consumes(FOO, selector="region = 1"), c.client().consumes(FOO, selector="region = 2")]
    network.settles()
    producer = a.client()
    for region in (1, 2):
        for number in range(10):
            producer.sends(FOO, f"r{region}-{number}", properties={"region": region})
    network.settles()
    assert counts(inboxes) == consumed
    assert waiting(b, c) == stuck


@pytest.mark.parametrize(
    ("lists", "passed"),
    [
        ({"included": ("queue://TRADE.STOCK.>", "topic://PRICE.STOCK.>")}, ["NYSE", "TSX", "prices", "nyse prices"]),
        ({"excluded": ("queue://TRADE.STOCK.NYSE.*", "topic://PRICE.STOCK.NYSE.*")}, ["TSX", "BOND", "prices"]),
        (
            {
                "included": ("queue://TRADE.STOCK.>", "topic://PRICE.STOCK.>"),
                "excluded": ("queue://TRADE.STOCK.NYSE.*", "topic://PRICE.STOCK.NYSE.*"),
            },
            ["TSX", "prices"],
        ),
    ],
)
def test_only_included_destinations_that_are_not_excluded_pass(
    lists: dict[str, tuple[str, ...]], passed: list[str]
) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    destinations: dict[str, object] = {
        name: tuple(parse_destination(one) for one in found) for name, found in lists.items()
    }
    linked(network, a, b, 1, **destinations)
    messages = {
        "NYSE": "queue://TRADE.STOCK.NYSE.IBM",
        "TSX": "queue://TRADE.STOCK.TSX.ABX",
        "BOND": "queue://TRADE.BOND.US",
        "prices": "topic://PRICE.STOCK.TSX.ABX",
        "nyse prices": "topic://PRICE.STOCK.NYSE.IBM",
    }
    inboxes = {name: b.client().consumes(destination) for name, destination in messages.items()}
    network.settles()
    for name, destination in messages.items():
        a.client().sends(destination, name)
    network.settles()
    assert [name for name, inbox in inboxes.items() if inbox.texts == [name]] == passed


def six_brokers(network: Network) -> dict[str, Site]:
    """Figure 7.1: B reaches E straight, over A and F, and over C and D."""
    sites = {name: network.site(name) for name in "ABCDEF"}
    for near, far in ("BE", "BA", "AF", "FE", "BC", "CD", "DE"):
        network.link(
            sites[near], sites[far], BridgeSettings(name=f"{near}{far}", message_ttl=3, consumer_ttl=3, prefetch_size=5)
        )
    return sites


def test_the_shortest_route_is_taken_until_its_window_is_full() -> None:
    network = Network()
    sites = six_brokers(network)
    inbox = sites["E"].client().consumes(FOO, prefetch=1000)
    network.settles()
    send(sites["B"], 5)
    network.settles()
    assert {one.path for one in inbox.received} == {("B",)}
    direct = next(link for link in network.links if link.settings.name == "BE")
    direct.stalled = True
    send(sites["B"], 9)
    network.settles()
    paths = [one.path for one in inbox.received[5:]]
    assert (paths.count(("B", "A", "F")), paths.count(("B", "C", "D"))) == (2, 2)
    direct.stalled = False
    network.settles()
    assert len(inbox.received) == 14


@pytest.mark.parametrize(("suppressed", "ways"), [(False, 2), (True, 1)])
def test_only_the_direct_route_stays_where_duplicates_are_suppressed(suppressed: bool, ways: int) -> None:
    network = Network()
    a, b, c = (network.site(name) for name in "ABC")
    for near, far in ((a, b), (a, c), (c, b), (b, c), (c, a), (b, a)):
        linked(network, near, far, 2, suppress_queue_duplicates=suppressed)
    b.client().consumes(FOO)
    network.settles()
    routes = [link for link in network.links if link.near is a and link.bridge is not None and link.bridge.demand_count]
    assert len(routes) == ways
    assert routes[0].far is b
