"""Messages that a link holds back, freed by what the answer advises for its settings, demand and policies."""

from __future__ import annotations

from spanwire.broker.explanation import explanation as cause
from spanwire.broker.policy.policy_entry import BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Network
from tests.support.why_dialogue import said
from tests.unit.network.test_why_links import Q, id_of, pair, why

REPLAYS = PolicyEntry(parse_destination("queue://>"), queue=QueuePolicy(bridges=BridgePolicy(replays=True)))


def test_a_message_returns_when_the_consumer_that_keeps_it_ends() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B", policies=PolicyMap([REPLAYS]))
    network.link(a, b, BridgeSettings(name="toB"))
    back = network.link(b, a, BridgeSettings(name="toA"))
    inbox = b.client().consumes(Q, manual=True)
    network.settles()
    producer = a.client()
    producer.sends(Q, "one")
    network.settles()
    keeper = b.client().consumes(Q, selector="n = 1")
    inbox.leaves()
    there = a.client().consumes(Q)
    network.settles()
    answer = why(b, id_of(producer), back)
    assert answer.cause == cause.REPLAY
    assert answer.advice == ["wait, or end the consumers here that want it"]
    keeper.leaves()
    network.settles()
    network.runs_timers()
    assert there.texts == ["one"]


def test_a_message_that_may_not_return_does_with_the_policy_of_the_advice() -> None:
    for policies, may_return in ((PolicyMap(), False), (PolicyMap([REPLAYS]), True)):
        network = Network()
        a, b = network.site("A"), network.site("B", policies=policies)
        network.link(a, b, BridgeSettings(name="toB"))
        back = network.link(b, a, BridgeSettings(name="toA"))
        inbox = b.client().consumes(Q, manual=True)
        network.settles()
        producer = a.client()
        producer.sends(Q, "one")
        network.settles()
        inbox.leaves()
        there = a.client().consumes(Q)
        network.settles()
        network.runs_timers()
        if may_return:
            assert there.texts == ["one"]
        else:
            answer = why(b, id_of(producer), back)
            assert answer.cause == cause.PATH
            assert "set conditionalNetworkBridgeFilterFactory with replayWhenNoConsumers" in said(answer)


def test_later_messages_go_on_with_a_higher_message_ttl() -> None:
    for ttl in (1, 2):
        network = Network()
        a, b, c = network.site("A"), network.site("B"), network.site("C")
        network.link(a, b, BridgeSettings(name="toB", consumer_ttl=2))
        onwards = network.link(b, c, BridgeSettings(name="toC", message_ttl=ttl))
        inbox = c.client().consumes(Q)
        network.settles()
        producer = a.client()
        producer.sends(Q, "one")
        network.settles()
        if ttl == 1:
            assert why(b, id_of(producer), onwards).cause == cause.TTL
    assert inbox.texts == ["one"]


def test_a_queue_whose_consumers_are_not_heard_of_goes_when_it_is_listed_as_static() -> None:
    for static in ((), (parse_destination(Q),)):
        network, a, b, link = pair(BridgeSettings(name="toB", advisory_filter="OTHER", static=static))
        inbox = b.client().consumes(Q)
        network.settles()
        producer = a.client()
        producer.sends(Q, "one")
        network.settles()
        if not static:
            answer = why(a, id_of(producer), link)
            assert answer.cause == cause.NO_DEMAND
            assert "list it in staticallyIncludedDestinations of network connector toB" in said(answer)
    assert inbox.texts == ["one"]


def test_a_broker_without_advisories_is_heard_of_with_them_or_needs_no_advisories_for_a_static_queue() -> None:
    for advisories, static in ((False, ()), (True, ()), (False, (parse_destination(Q),))):
        network = Network()
        a, b = network.site("A"), network.site("B", advisories=advisories)
        link = network.link(a, b, BridgeSettings(name="toB", static=static))
        inbox = b.client().consumes(Q)
        network.settles()
        producer = a.client()
        producer.sends(Q, "one")
        network.settles()
        if advisories or static:
            assert inbox.texts == ["one"]
        else:
            answer = why(a, id_of(producer), link)
            assert answer.cause == cause.NO_DEMAND
            assert "advisorySupport is off there" in said(answer)
            assert "list it in staticallyIncludedDestinations of network connector toB" in said(answer)


def test_a_message_for_a_broker_of_the_same_id_goes_when_one_of_them_gets_another() -> None:
    for far in ("A", "B"):
        network = Network()
        a, b = network.site("A"), network.site(far)
        link = network.link(a, b, BridgeSettings(name="toB"))
        inbox = b.client().consumes(Q)
        for _ in range(6):
            link.turn()
        producer = a.client()
        producer.sends(Q, "one")
        if far == "A":
            a.store_turn()
            answer = why(a, id_of(producer), link)
            assert answer.cause == cause.LINK_DOWN
            assert "the remote broker is this broker itself, or one with the same brokerId" in said(answer)
        else:
            network.settles()
    assert inbox.texts == ["one"]


def test_a_queue_that_the_included_destinations_lack_goes_when_they_have_it() -> None:
    other = (parse_destination("queue://OTHER"),)
    for included in (other, (*other, parse_destination(Q))):
        network, a, b, link = pair(BridgeSettings(name="toB", included=included))
        inbox = b.client().consumes(Q)
        producer = a.client()
        producer.sends(Q, "one")
        network.settles()
        if included == other:
            answer = why(a, id_of(producer), link)
            assert answer.cause == cause.EXCLUDED
            assert "its configuration does not include queue://Q" in said(answer)
            assert "change its excludedDestinations or dynamicallyIncludedDestinations" in said(answer)
    assert inbox.texts == ["one"]


def test_an_exclusion_wins_over_a_static_destination_until_it_is_taken_out() -> None:
    static = (parse_destination(Q),)
    for excluded in (static, ()):
        network, a, b, link = pair(BridgeSettings(name="toB", static=static, excluded=excluded))
        producer = a.client()
        producer.sends(Q, "one")
        network.settles()
        if excluded:
            assert why(a, id_of(producer), link).cause == cause.EXCLUDED
    inbox = b.client().consumes(Q)
    network.settles()
    assert inbox.texts == ["one"]
