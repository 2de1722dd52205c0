"""Routes on paper: the same as those that messages take in a simulated network."""

from __future__ import annotations

from random import Random

import pytest

from spanwire.model.destination import parse_destination
from spanwire.network.plan import NetworkPlan, PlannedBroker, PlannedLink
from spanwire.network.settings import BridgeSettings
from tests.support.network_dialogue import Network
from tests.support.seeds import SEEDS

Q = parse_destination("queue://Q")


def plan(links: str, settings: BridgeSettings | None = None) -> NetworkPlan:
    """``links`` such as ``AB BC``."""
    chosen = settings or BridgeSettings(message_ttl=3, consumer_ttl=3)
    names = sorted(set(links.replace(" ", "")))
    return NetworkPlan(
        [PlannedBroker(name, name) for name in names],
        [PlannedLink(pair[0], pair[1], chosen, pair) for pair in links.split()],
    )


def way(found: NetworkPlan, start: str, goal: str) -> str:
    route = found.route(start, Q, goal)
    return start + "".join(link.far for link in route.links) if route.arrived else ""


def reasons(found: NetworkPlan, start: str, goal: str) -> list[str]:
    return [refusal.reason for refusal in found.route(start, Q, goal).refusals]


def test_of_three_ways_the_shortest_is_taken() -> None:
    mesh = plan("BE BA AF FE BC CD DE")
    assert way(mesh, "B", "E") == "BE"
    assert way(plan("BA AF FE BC CD DE"), "B", "E") in ("BAFE", "BCDE")


def test_each_rule_says_why_it_is_no_way() -> None:
    short = plan("AB BC", BridgeSettings(message_ttl=3, consumer_ttl=1))
    assert reasons(short, "A", "C") == ["the consumer is 2 hops away and consumerTTL is 1"]
    far = plan("AB BC", BridgeSettings(message_ttl=1, consumer_ttl=3))
    assert reasons(far, "A", "C") == ["the message has made 1 hops and messageTTL is 1"]
    assert reasons(plan("AB", BridgeSettings(excluded=(Q,))), "A", "B") == ["queue://Q is excluded"]
    other = BridgeSettings(included=(parse_destination("queue://OTHER"),))
    assert reasons(plan("AB", other), "A", "B") == ["it is not among the included destinations"]
    static = BridgeSettings(static_bridge=True)
    assert reasons(plan("AB", static), "A", "B") == ["it is a static bridge, which asks for no consumers"]
    assert reasons(plan("BA"), "A", "B") == []
    silent = NetworkPlan(
        [PlannedBroker("A", "A"), PlannedBroker("B", "B", advisories=False)], [PlannedLink("A", "B", BridgeSettings())]
    )
    assert reasons(silent, "A", "B") == ["broker B has advisorySupport=false, so nobody hears of consumers"]


def test_a_static_destination_goes_where_nobody_asks_for_it() -> None:
    assert way(plan("AB", BridgeSettings(static_bridge=True, static=(Q,))), "A", "B") == "AB"


def test_where_duplicates_are_suppressed_the_long_way_is_refused() -> None:
    settings = BridgeSettings(message_ttl=3, consumer_ttl=3, suppress_queue_duplicates=True)
    found = plan("AB BA AC CA BC CB", settings)
    demand = found.demand(Q, "B")
    assert {name: [one.link.far for one in there] for name, there in demand.items()} == {"A": ["B"], "C": ["B"]}


@pytest.mark.parametrize(("links", "loop"), [("AB BA BC", False), ("AB BC CA", True), ("AB BC CD DB", True)])
def test_there_and_back_is_no_loop(links: str, loop: bool) -> None:
    assert plan(links).has_loop() is loop


@pytest.mark.parametrize("seed", SEEDS[:40])
def test_a_message_arrives_in_a_network_if_it_does_on_paper(seed: int) -> None:
    random = Random(seed)
    names = "ABCD"[: random.choice((3, 4))]
    network = Network()
    sites = {name: network.site(name) for name in names}
    planned: list[PlannedLink] = []
    for near in names:
        for far in names:
            if near == far or random.random() < 0.45:
                continue
            settings = BridgeSettings(
                name=near + far,
                message_ttl=random.choice((1, 2, 3, -1)),
                consumer_ttl=random.choice((1, 2, 3, -1)),
                decrease_priority=random.random() < 0.8,
                conduit=random.random() < 0.5,
                excluded=(Q,) if random.random() < 0.1 else (),
                suppress_queue_duplicates=False,
            )
            network.link(sites[near], sites[far], settings)
            planned.append(PlannedLink(near, far, settings))
    on_paper = NetworkPlan([PlannedBroker(name, name) for name in names], planned)
    goal = random.choice(names)
    inbox = sites[goal].client().consumes("queue://Q")
    network.settles()
    for name in names:
        sites[name].client().sends("queue://Q", name)
    network.settles()
    came = set(inbox.texts)
    for name in names:
        arrived = on_paper.route(name, Q, goal).arrived
        assert arrived or name not in came, f"seed {seed}: {name} to {goal} is no way on paper"
        if all(link.settings.message_ttl < 0 for link in planned):
            assert arrived == (name in came), f"seed {seed}: {name} to {goal}"
