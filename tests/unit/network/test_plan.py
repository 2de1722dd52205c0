"""Routes on paper: the same as those that messages take in a simulated network."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from spanwire.broker.policy.policy_entry import BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.model.destination import QUEUE, TEMP_QUEUE, Destination, parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.service.network_lint.network_plan import (
    MAX_WAYS,
    RULE_MESSAGE_TTL,
    RULE_PATH,
    RULE_PRIORITY,
    RULE_TEMPORARY,
    NetworkPlan,
    PlannedBroker,
    PlannedLink,
)
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
    assert reasons(plan("AB", static), "A", "B") == ["it is a static bridge, which ignores consumers"]
    assert reasons(plan("BA"), "A", "B") == []
    silent = NetworkPlan(
        [PlannedBroker("A", "A"), PlannedBroker("B", "B", advisories=False)], [PlannedLink("A", "B", BridgeSettings())]
    )
    assert reasons(silent, "A", "B") == ["broker B has advisorySupport=false, so consumers are not announced"]


def test_a_static_destination_goes_where_nobody_asks_for_it() -> None:
    assert way(plan("AB", BridgeSettings(static_bridge=True, static=(Q,))), "A", "B") == "AB"


def test_where_duplicates_are_suppressed_the_long_way_is_refused() -> None:
    settings = BridgeSettings(message_ttl=3, consumer_ttl=3, suppress_queue_duplicates=True)
    found = plan("AB BA AC CA BC CB", settings)
    demand = found.demand(Q, "B")
    assert {name: [one.link.far for one in there] for name, there in demand.items()} == {"A": ["B"], "C": ["B"]}


def test_brokers_with_one_id_take_each_other_for_themselves() -> None:
    twins = NetworkPlan([PlannedBroker("A", "X"), PlannedBroker("B", "X")], [PlannedLink("A", "B", BridgeSettings())])
    assert reasons(twins, "A", "B") == ["both brokers have the id X, so each takes the other for itself"]


def test_answers_to_temporary_queues_are_refused_where_the_connector_says_so() -> None:
    found = plan("AB", BridgeSettings(bridge_temporary=False))
    (refusal,) = found.route("A", Destination(TEMP_QUEUE, "ID:x:1"), "B").refusals
    assert (refusal.rule, refusal.reason) == (RULE_TEMPORARY, "bridgeTempDestinations is false")


def test_a_way_through_a_broker_that_the_subscription_has_passed_is_none() -> None:
    assert "the subscription has passed broker B already" in reasons(plan("AB BA"), "A", "B")


def test_a_message_does_not_go_back_unless_its_queue_is_replayed() -> None:
    links = [PlannedLink("A", "B", BridgeSettings()), PlannedLink("B", "A", BridgeSettings())]
    replaying = PolicyMap([PolicyEntry(Destination(QUEUE, "Q"), queue=QueuePolicy(bridges=BridgePolicy(replays=True)))])
    for policies, arrives in ((PolicyMap(), False), (replaying, True)):
        found = NetworkPlan([PlannedBroker("A", "A", policies=policies), PlannedBroker("B", "B")], links)
        route = found.route("A", Q, "B", ("B",))
        assert route.arrived is arrives
        if not arrives:
            assert [one.rule for one in route.refusals if one.link == links[0]] == [RULE_PATH]
            assert "the message has passed broker B already" in [one.reason for one in route.refusals]
    elsewhere = NetworkPlan([PlannedBroker("A", "A", policies=replaying), PlannedBroker("B", "B")], links)
    assert not elsewhere.route("A", parse_destination("queue://OTHER"), "B", ("B",)).arrived


def test_a_broker_that_has_another_id_since_may_get_back_what_it_has_sent() -> None:
    pair = plan("AB BA")
    assert not pair.route("B", Q, "A", ("A",)).arrived
    assert pair.route("B", Q, "A", ("ID:A-before-its-restart",)).arrived


def test_ways_that_are_open_but_not_the_best_are_told() -> None:
    mesh = plan("AB AC CB")
    assert reasons(mesh, "A", "B") == [
        "its priority -8 is less than -5, so it is used when that window is full",
    ]
    even = plan("AB AC CB", BridgeSettings(message_ttl=3, consumer_ttl=3, decrease_priority=False))
    assert "its priority 0 is the same, so messages go there in turn" in reasons(even, "A", "B")


def test_the_longer_way_is_refused_by_name_where_duplicates_are_suppressed() -> None:
    settings = BridgeSettings(message_ttl=3, consumer_ttl=3, suppress_queue_duplicates=True)
    assert "the route over B (NC) has a higher priority (duplicates are suppressed)" in reasons(
        plan("AB AC CB", settings), "A", "B"
    )


def test_of_equal_routes_both_are_named_where_duplicates_are_suppressed_and_what_decides() -> None:
    settings = BridgeSettings(message_ttl=3, consumer_ttl=3, suppress_queue_duplicates=True)
    found = plan("AB AC BD CD", settings)
    assert way(found, "A", "D") == "ABD"
    assert reasons(found, "A", "D") == [
        "the route over B (NC) has the same priority, and the broker takes the one of which it hears first, which may "
        "be this one (duplicates are suppressed)"
    ]


EVEN = BridgeSettings(message_ttl=3, consumer_ttl=3, decrease_priority=False)
SEPARATE = replace(EVEN, conduit=False)


@pytest.mark.parametrize(
    ("links", "settings", "consumers", "messages", "shares"),
    [
        ("AB", EVEN, {"A": 1, "B": 2}, 30, {"A": 15, "B": 15}),
        ("AB", SEPARATE, {"A": 1, "B": 2}, 30, {"A": 10, "B": 20}),
        ("AB", EVEN, {"A": 1, "B": 2}, 12, {"A": 6, "B": 6}),
        ("AB", SEPARATE, {"A": 1, "B": 2}, 12, {"A": 4, "B": 8}),
        ("AB", replace(EVEN, decrease_priority=True), {"A": 1, "B": 2}, 30, {"A": 30}),
        ("AB AC", EVEN, {"B": 1, "C": 2}, 12, {"B": 6, "C": 6}),
        ("AB BC", SEPARATE, {"C": 2}, 12, {"C": 12}),
        ("AB BC", EVEN, {"A": 1, "B": 1, "C": 1}, 12, {"A": 4, "B": 4, "C": 4}),
        ("AB", EVEN, {"A": 0, "B": 1}, 12, {"B": 12}),
    ],
)
def test_messages_are_shared_as_the_examples_of_activemq_say(
    links: str, settings: BridgeSettings, consumers: dict[str, int], messages: int, shares: dict[str, float]
) -> None:
    assert plan(links, settings).shares("A", Q, consumers, messages) == pytest.approx(shares)


def test_a_mesh_without_limits_is_looked_at_for_a_limited_time() -> None:
    names = "ABCDEFGH"
    mesh = " ".join(a + b for a in names for b in names if a != b)
    unlimited = BridgeSettings(message_ttl=-1, consumer_ttl=-1)
    assert way(plan(mesh, unlimited), "A", "H") == "AH"
    assert way(plan(mesh, replace(unlimited, excluded=(Q,))), "A", "H") == ""


def test_of_the_ways_through_a_large_mesh_the_shortest_are_followed_to_each_broker() -> None:
    names = "ABCDEFGHIJKL"
    mesh = plan(
        " ".join(a + b for a in names for b in names if a != b), BridgeSettings(message_ttl=-1, consumer_ttl=-1)
    )
    found = mesh.demand(Q, "A")
    assert {name: len(there) for name, there in found.items()} == dict.fromkeys(names[1:], MAX_WAYS)
    for name, there in found.items():
        assert [demand.link.far for demand in there if len(demand.path) == 1] == ["A"]
        assert next(demand.link.far for demand in mesh.best_demand(Q, "A", name)) == "A"
        assert sorted({len(demand.path) for demand in there}) == [1, 2, 3]


def test_who_refuses_a_message_that_cannot_come_back_is_found_behind_another_broker() -> None:
    mesh = plan("BC CA", BridgeSettings(message_ttl=-1, consumer_ttl=-1))
    route = mesh.route("B", Q, "A", ("A",))
    assert not route.arrived
    assert [(refusal.link.near, refusal.rule) for refusal in route.refusals if refusal.rule == RULE_PATH] == [
        ("C", RULE_PATH)
    ]


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
    for one in inbox.received:
        route = on_paper.route(one.text, Q, goal)
        if not any(refusal.rule in (RULE_PRIORITY, RULE_MESSAGE_TTL, RULE_PATH) for refusal in route.refusals):
            assert one.path == tuple(link.near for link in route.links), f"seed {seed}: {one.text} to {goal}"


def test_a_subscription_of_a_bridge_counts_as_one_consumer_or_as_all_behind_it() -> None:
    for conduit, networks, counts in ((True, True, (1, 1)), (True, False, (1, 1)), (False, False, (5, 5))):
        settings = BridgeSettings(message_ttl=3, consumer_ttl=3, conduit=conduit, conduit_network_queues=networks)
        found = plan("AB BC", settings).demand(Q, "C")
        assert (found["B"][0].count(5), found["A"][0].count(5)) == counts
    apart, together = (
        BridgeSettings(consumer_ttl=3, conduit=False),
        BridgeSettings(consumer_ttl=3, conduit_network_queues=True),
    )
    near = PlannedLink("B", "C", apart, "BC")
    for settings, count in ((BridgeSettings(consumer_ttl=3), 5), (together, 1)):
        brokers = [PlannedBroker(name, name) for name in "ABC"]
        found = NetworkPlan(brokers, [PlannedLink("A", "B", settings, "AB"), near]).demand(Q, "C")
        assert found["A"][0].count(5) == count


def test_of_the_subscriptions_at_a_broker_the_one_of_the_best_priority_comes_first() -> None:
    low = BridgeSettings(message_ttl=3, consumer_ttl=3, priority_base=-20)
    high = replace(low, priority_base=-5)
    brokers = [PlannedBroker(name, name) for name in "AB"]
    found = NetworkPlan(brokers, [PlannedLink("A", "B", low, "low"), PlannedLink("A", "B", high, "high")])
    assert [one.link.settings for one in found.demand(Q, "B")["A"]] == [high, low]
    assert [link.settings for link in found.route("A", Q, "B").links] == [high]


def test_of_several_lists_the_one_that_keeps_a_destination_back_is_named() -> None:
    excluded = (parse_destination("queue://OTHER"), parse_destination("queue://Q.>"), Q)
    assert reasons(plan("AB", BridgeSettings(excluded=excluded)), "A", "B") == ["queue://Q.> is excluded"]
    lists = BridgeSettings(excluded=excluded[:1], included=(parse_destination("queue://IN"),))
    assert reasons(plan("AB", lists), "A", "B") == ["it is not among the included destinations"]
