"""Demand that stands: static destinations, durable subscribers, and one of several routes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.protocols.base import MAX_OPENWIRE_FRAME_BEFORE_LOGIN
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder
from tests.support.network_dialogue import Link, Network, Site

T = "topic://T"
Q = "queue://Q"


def pair(settings: BridgeSettings) -> tuple[Network, Site, Site, Link]:
    network = Network()
    a, b = network.site("A"), network.site("B")
    return network, a, b, network.link(a, b, settings)


def send(site: Site, destination: str, *texts: str) -> None:
    client = site.client()
    for text in texts:
        client.sends(destination, text)


def durable_lines(site: Site) -> list[tuple[str, str]]:
    found = site.broker.operations
    names = {client_id for client_id in CLIENT_IDS for _ in found.durable_terms(client_id)}
    return [(terms.name, terms.topic.name) for client_id in sorted(names) for terms in found.durable_terms(client_id)]


CLIENT_IDS = ("NC_brokerB_inbound_brokerA", "to-B_brokerB_inbound_brokerA", "NC_brokerC_inbound_brokerB")


def test_a_static_bridge_asks_for_no_advisories_and_consumers_there_are_no_demand() -> None:
    static = (parse_destination("queue://always.include.queue"),)
    network, a, b, link = pair(BridgeSettings(static_bridge=True, static=static))
    b.client().consumes("queue://other")
    link.connects()
    assert link.bridge is not None and link.peer is not None
    said: list[wire.Command] = []
    decoder = FrameDecoder(pass_messages=False)
    link.flush()
    link.deliver()
    for chunk in link.bridge.data_to_send():
        link.to_far.append(chunk)
        said += decoder.feed(chunk)
    assert [type(command).__name__ for command in said if isinstance(command, wire.ConsumerInfo)] == []
    network.settles()
    assert link.running
    send(a, "queue://always.include.queue", "one")
    send(a, "queue://other", "two")
    network.settles()
    assert b.queue("always.include.queue")[2] == 1
    assert (a.queue("other")[2], b.queue("other")[2]) == (1, 0)


def test_a_static_destination_that_is_excluded_stays_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    static = (parse_destination("queue://TEST.X1"),)
    network, a, b, _ = pair(BridgeSettings(static=static, excluded=(parse_destination("queue://TEST.>"),)))
    network.settles()
    send(a, "queue://TEST.X1", "one")
    network.settles()
    assert (a.queue("TEST.X1")[2], b.queue("TEST.X1")[2]) == (1, 0)
    assert "queue://TEST.X1 is static and excluded, so it is not forwarded" in caplog.text


def test_a_wildcard_among_static_destinations_takes_what_matches_now_and_later() -> None:
    network, a, b, _ = pair(BridgeSettings(static=(parse_destination("queue://TEST.>"),)))
    send(a, "queue://TEST.X", "before")
    network.settles()
    send(a, "queue://TEST.Y", "after")
    network.settles()
    assert (b.queue("TEST.X")[2], b.queue("TEST.Y")[2]) == (1, 1)


def test_a_consumer_of_a_static_destination_makes_no_second_subscription_and_takes_none_away() -> None:
    network, a, b, link = pair(BridgeSettings(static=(parse_destination(T),)))
    inbox = b.client().consumes(T)
    network.settles()
    send(a, T, "one")
    network.settles()
    assert inbox.texts == ["one"]
    inbox.leaves()
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 1


def test_what_is_static_goes_although_it_is_not_among_the_included_ones() -> None:
    lists = BridgeSettings(included=(parse_destination("queue://IN"),), static=(parse_destination("queue://ALWAYS"),))
    network, a, b, _ = pair(lists)
    network.settles()
    for name in ("ALWAYS", "OTHER"):
        b.client().consumes(f"queue://{name}", manual=True)
        send(a, f"queue://{name}", name)
    network.settles()
    assert (b.queue("ALWAYS")[0], b.queue("OTHER")[0]) == (1, 0)


@pytest.mark.parametrize(
    ("settings", "topics"),
    [
        (BridgeSettings(bridge_temporary=False), "ActiveMQ.Advisory.Consumer.>"),
        (
            BridgeSettings(),
            "ActiveMQ.Advisory.Consumer.>,ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic",
        ),
        (
            BridgeSettings(
                bridge_temporary=False,
                included=(parse_destination("queue://include.test.foo"), parse_destination("topic://include.test.bar")),
            ),
            "ActiveMQ.Advisory.Consumer.Queue.include.test.foo,ActiveMQ.Advisory.Consumer.Topic.include.test.bar",
        ),
        (
            BridgeSettings(
                bridge_temporary=False,
                advisory_filter="Queue.include.test.foo,ActiveMQ.Advisory.Consumer.Topic.include.test.bar",
            ),
            "ActiveMQ.Advisory.Consumer.Queue.include.test.foo,ActiveMQ.Advisory.Consumer.Topic.include.test.bar",
        ),
        (
            BridgeSettings(bridge_temporary=False, advisory_filter="ActiveMQ.Advisory.Consumer.Queue.Q"),
            "ActiveMQ.Advisory.Consumer.Queue.Q",
        ),
        (
            BridgeSettings(bridge_temporary=False, advisory_filter="NO_DESTINATION"),
            "ActiveMQ.Advisory.Consumer.NO_DESTINATION",
        ),
        (BridgeSettings(static_bridge=True), ""),
        (
            BridgeSettings(bridge_temporary=False, virtual_demand=True),
            "ActiveMQ.Advisory.Consumer.>,ActiveMQ.Advisory.VirtualDestination.Consumer.>",
        ),
        (
            BridgeSettings(
                bridge_temporary=False, virtual_demand=True, included=(parse_destination("topic://include.bar"),)
            ),
            "ActiveMQ.Advisory.Consumer.Topic.include.bar,"
            "ActiveMQ.Advisory.VirtualDestination.Consumer.Topic.include.bar",
        ),
    ],
)
def test_the_advisory_filter_is_as_documented(settings: BridgeSettings, topics: str) -> None:
    assert settings.advisory_topics() == topics


@pytest.mark.parametrize(
    "settings",
    [
        BridgeSettings(included=(parse_destination("queue://TRADE.>"),)),
        BridgeSettings(advisory_filter="Queue.TRADE.>"),
    ],
)
def test_a_narrow_filter_still_hears_of_what_it_asks_for(settings: BridgeSettings) -> None:
    network, a, b, _ = pair(settings)
    inboxes = [b.client().consumes("queue://TRADE.A"), b.client().consumes("queue://OTHER")]
    network.settles()
    send(a, "queue://TRADE.A", "one")
    send(a, "queue://OTHER", "two")
    network.settles()
    assert [inbox.texts for inbox in inboxes] == [["one"], []]


def test_messages_for_a_durable_subscriber_wait_at_the_broker_before_a_broken_link() -> None:
    network, a, b, link = pair(BridgeSettings())
    inbox = b.client("c1").consumes(T, durable="s1")
    network.settles()
    assert durable_lines(a) == [("NC-DS_brokerA_T", "T")]
    link.enabled = False
    link.breaks()
    send(a, T, "one", "two")
    network.settles()
    assert inbox.texts == []
    link.enabled = True
    network.settles()
    assert inbox.texts == ["one", "two"]


def test_a_durable_subscriber_that_is_away_gets_what_was_sent_meanwhile() -> None:
    network, a, b, _ = pair(BridgeSettings())
    client = b.client("c1")
    client.consumes(T, durable="s1")
    network.settles()
    client.leaves()
    network.settles()
    send(a, T, "one")
    network.settles()
    inbox = b.client("c1").consumes(T, durable="s1")
    network.settles()
    assert inbox.texts == ["one"]


@pytest.mark.parametrize(("dynamic_only", "arrived"), [(False, ["early", "late"]), (True, [])])
def test_after_a_restart_durable_subscriptions_are_active_again_unless_only_consumers_count(
    dynamic_only: bool, arrived: list[str]
) -> None:
    network, a, b, link = pair(BridgeSettings(dynamic_only=dynamic_only))
    client = b.client("c1")
    client.consumes(T, durable="s1")
    network.settles()
    link.enabled = False
    link.breaks()
    client.leaves()
    send(a, T, "early")
    network.settles()
    a.crashes()
    link.enabled = True
    network.settles()
    send(a, T, "late")
    network.settles()
    b.crashes()
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == (0 if dynamic_only else 1)
    link.enabled = False
    link.breaks()
    inbox = b.client("c1").consumes(T, durable="s1")
    network.settles()
    assert inbox.texts == arrived
    link.enabled = True
    network.settles()
    assert inbox.texts == ["early", "late"]


def test_a_consumer_that_is_not_durable_shares_the_subscription_of_one_that_is() -> None:
    network, a, b, link = pair(BridgeSettings())
    plain = b.client().consumes(T)
    network.settles()
    durable = b.client("c1").consumes(T, durable="s1")
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 1
    send(a, T, "one")
    network.settles()
    assert (plain.texts, durable.texts) == (["one"], ["one"])


def test_a_forced_durable_topic_waits_for_consumers_that_are_not_and_ends_with_the_last() -> None:
    network, a, b, link = pair(BridgeSettings(forced_durable=(parse_destination("topic://T"),)))
    inbox = b.client().consumes(T)
    network.settles()
    assert durable_lines(a) == [("NC-DS_brokerA_T", "T")]
    link.enabled = False
    link.breaks()
    send(a, T, "one")
    link.enabled = True
    network.settles()
    assert inbox.texts == ["one"]


@pytest.mark.large
def test_durable_subscriptions_travel_two_hops() -> None:
    network = Network()
    a, b, c = (network.site(name) for name in "ABC")
    for near, far in pairwise((a, b, c)):
        network.link(near, far, BridgeSettings(message_ttl=2, consumer_ttl=2))
    client = c.client("c1")
    client.consumes(T, durable="s1")
    network.settles()
    assert durable_lines(a) == [("NC-DS_brokerA_T", "T")]
    assert durable_lines(b) == [("NC-DS_brokerB_T", "T")]
    client.leaves()
    for link in network.links:
        link.enabled = False
        link.breaks()
    send(a, T, "one")
    network.settles()
    for link in network.links:
        link.enabled = True
    network.settles()
    inbox = c.client("c1").consumes(T, durable="s1")
    network.settles()
    assert inbox.texts == ["one"]


def test_without_a_conduit_each_durable_subscription_has_its_own() -> None:
    network, a, b, link = pair(BridgeSettings(conduit=False))
    b.client("c1").consumes(T, durable="s")
    b.client("c2").consumes(T, durable="s")
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 2
    assert [name for name, _ in durable_lines(a)] == ["NC-DS_brokerA_T_c1_s", "NC-DS_brokerA_T_c2_s"]


def test_an_unsubscribe_there_ends_the_subscription_here() -> None:
    network, a, b, link = pair(BridgeSettings())
    client = b.client("c1")
    inbox = client.consumes(T, durable="s1")
    network.settles()
    inbox.leaves()
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 1
    b.broker.unsubscribe(client.state, "s1", network.now)
    network.settles()
    assert link.bridge.demand_count == 0
    assert durable_lines(a) == []


def away(site: Site, *names: str) -> None:
    """Durable subscribers that came, and left."""
    for name in names:
        client = site.client(f"client-{name}")
        client.consumes(T, durable=name)
        site.network.settles()
        client.leaves()
    site.network.settles()


def unsubscribes(site: Site, name: str) -> None:
    client = site.client(f"client-{name}")
    site.broker.unsubscribe(client.state, name, site.network.now)
    client.leaves()
    site.network.settles()


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("comes_back", [True, False])
def test_an_unsubscribe_ends_the_subscription_here_after_a_restart_or_a_broken_link(
    restarted: bool, comes_back: bool
) -> None:
    network, a, b, link = pair(BridgeSettings())
    away(b, "s1", "s2")
    if restarted:
        a.crashes()
    else:
        link.breaks()
    network.settles()
    if comes_back:
        away(b, "s1")
    unsubscribes(b, "s1")
    assert durable_lines(a) == [("NC-DS_brokerA_T", "T")]
    unsubscribes(b, "s2")
    assert durable_lines(a) == []
    a.crashes()
    network.settles()
    assert (durable_lines(a), link.running) == ([], True)


def test_an_unsubscribe_ends_a_subscription_here_that_no_bridge_took_up_again() -> None:
    network, a, b, link = pair(BridgeSettings(dynamic_only=True))
    away(b, "s1")
    a.crashes()
    network.settles()
    assert link.bridge is not None and (link.bridge.demand_count, len(durable_lines(a))) == (0, 1)
    unsubscribes(b, "s1")
    assert durable_lines(a) == []


def test_a_subscription_that_is_made_anew_for_another_topic_ends_that_for_the_first_here() -> None:
    network, a, b, _ = pair(BridgeSettings())
    away(b, "s1")
    b.client("client-s1").consumes("topic://OTHER", durable="s1")
    network.settles()
    assert durable_lines(a) == [("NC-DS_brokerA_OTHER", "OTHER")]


def test_a_subscription_whose_subscriber_stayed_away_too_long_ends_here_as_well() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B", upkeep=UpkeepSettings(offline_timeout_ms=1_000, offline_check_ms=1_000))
    network.link(a, b, BridgeSettings())
    away(b, "s1")
    network.environment.advance(60.0)
    network.runs_timers()
    assert (b.broker.operations.durable_terms(), durable_lines(a)) == ([], [])


def test_a_subscription_of_which_nobody_knows_the_subscribers_is_kept() -> None:
    network, a, b, _ = pair(BridgeSettings())
    away(b, "s1")
    (terms,) = a.broker.operations.durable_terms()
    a.broker.remote_subscribers.forget(terms.key)
    network.settles()
    a.crashes()
    network.settles()
    unsubscribes(b, "s1")
    assert durable_lines(a) == [("NC-DS_brokerA_T", "T")]


def test_a_forced_durable_topic_ends_with_its_last_consumer_after_a_restart() -> None:
    network, a, b, _ = pair(BridgeSettings(forced_durable=(parse_destination(T),)))
    inbox = b.client().consumes(T)
    network.settles()
    a.crashes()
    network.settles()
    assert durable_lines(a) == [("NC-DS_brokerA_T", "T")]
    inbox.leaves()
    network.settles()
    assert durable_lines(a) == []


def test_a_sync_leaves_a_subscription_that_stands_for_brokers_behind_the_remote_one() -> None:
    network = Network()
    a, b, c = (network.site(name) for name in "ABC")
    settings = BridgeSettings(message_ttl=2, consumer_ttl=2, sync_durable=True, prefetch_size=1)
    links = [network.link(near, far, settings) for near, far in pairwise((a, b, c))]
    away(c, "s1")
    links[0].enabled = False
    links[0].breaks()
    send(a, T, "one", "two", "three")
    network.settles()
    links[0].enabled = True
    network.settles()
    inbox = c.client("client-s1").consumes(T, durable="s1")
    network.settles()
    assert inbox.texts == ["one", "two", "three"]


def triangle(suppressed: bool, ttl: int = 3) -> tuple[Network, dict[str, Site]]:
    network = Network()
    sites = {name: network.site(name) for name in "ABC"}
    for near in "ABC":
        for far in "ABC":
            if near != far:
                network.link(
                    sites[near],
                    sites[far],
                    BridgeSettings(
                        name=f"{near}{far}", message_ttl=ttl, consumer_ttl=ttl, suppress_queue_duplicates=suppressed
                    ),
                )
    return network, sites


def demand(network: Network) -> dict[str, int]:
    return {link.settings.name: link.bridge.demand_count for link in network.links if link.bridge is not None}


def test_of_three_linked_brokers_two_keep_one_subscription_to_the_third_and_none_to_each_other() -> None:
    network, sites = triangle(True)
    inbox = sites["A"].client().consumes(Q)
    network.settles()
    assert {name for name, count in demand(network).items() if count} == {"BA", "CA"}
    inbox.leaves()
    network.settles()
    assert set(demand(network).values()) == {0}


def test_when_the_best_route_breaks_the_next_one_is_taken_and_given_up_again() -> None:
    network, sites = triangle(True)
    inbox = sites["A"].client().consumes(Q)
    network.settles()
    direct = next(link for link in network.links if link.settings.name == "BA")
    direct.enabled = False
    direct.breaks()
    network.settles()
    assert {name for name, count in demand(network).items() if count} == {"BC", "CA"}
    send(sites["B"], Q, "around")
    network.settles()
    assert [one.path for one in inbox.received] == [("B", "C")]
    direct.enabled = True
    network.settles()
    assert {name for name, count in demand(network).items() if count} == {"BA", "CA"}


def test_topics_come_once_in_a_triangle_for_duplicate_routes_are_suppressed_unless_told_otherwise() -> None:
    network, sites = triangle(False)
    inbox = sites["A"].client().consumes(T)
    network.settles()
    assert {name for name, count in demand(network).items() if count} == {"BA", "CA"}
    send(sites["B"], T, "one")
    network.settles()
    assert inbox.texts == ["one"]


def test_what_came_from_there_does_not_wait_for_ever_in_a_durable_subscription() -> None:
    network, a, b, link = pair(BridgeSettings())
    network.link(b, a, BridgeSettings(name="back"))
    inbox = b.client("c1").consumes(T, durable="s1")
    a.client().consumes(T)
    network.settles()
    send(b, T, "mine")
    network.settles()
    assert inbox.texts == ["mine"]
    assert link.bridge is not None
    assert (link.bridge.demand_count, link.bridge.statistics().sent, link.bridge.acknowledged) == (1, 0, 1)


def test_only_so_many_consumers_are_remembered_that_have_a_better_route() -> None:
    network, sites = triangle(True)
    sites["B"].routes = NetworkRoutes(max_passed_over=1)
    client = sites["A"].client()
    for number in range(3):
        client.consumes(f"queue://Q{number}")
    network.settles()
    assert sites["B"].routes.passed_over == 1
    assert demand(network)["BA"] == 3


@pytest.mark.parametrize("duplex", [False, True])
def test_a_durable_subscriber_that_was_there_before_the_link_and_is_away_is_served(duplex: bool) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    client = b.client("c1")
    client.consumes(T, durable="s1")
    network.settles()
    client.leaves()
    network.link(a, b, BridgeSettings(sync_durable=True, duplex=duplex))
    network.settles()
    assert durable_lines(a) == [("NC-DS_brokerA_T", "T")]
    send(a, T, "one")
    network.settles()
    inbox = b.client("c1").consumes(T, durable="s1")
    network.settles()
    assert inbox.texts == ["one"]


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_more_durable_subscriptions_than_a_frame_before_the_login_takes_are_told(there: bool, duplex: bool) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    client = (b if there else a).client("c1")
    topics = [f"topic://{letter * 900}" for letter in "abcd"]
    count = MAX_OPENWIRE_FRAME_BEFORE_LOGIN // 900 + 1
    for number in range(count):
        client.consumes(topics[number % len(topics)], durable=f"s{number}")
    network.settles()
    client.leaves()
    link = network.link(a, b, BridgeSettings(sync_durable=True, duplex=duplex))
    network.settles()
    assert link.running
    told, teller = (a, "brokerB") if there else (b, "brokerA")
    made = told.broker.operations.durable_terms(f"NC_{teller}_inbound_{told.broker.name}")
    assert len(made) == (len(topics) if there or duplex else 0)


def test_an_unsubscribe_while_the_link_was_down_ends_the_subscription_here() -> None:
    network, a, b, link = pair(BridgeSettings(sync_durable=True))
    client = b.client("c1")
    inbox = client.consumes(T, durable="s1")
    network.settles()
    assert durable_lines(a) == [("NC-DS_brokerA_T", "T")]
    link.enabled = False
    link.breaks()
    inbox.leaves()
    b.broker.unsubscribe(client.state, "s1", network.now)
    link.enabled = True
    network.settles()
    assert durable_lines(a) == []
    assert link.bridge is not None and link.bridge.demand_count == 0


def test_over_a_duplex_link_the_opening_end_tells_of_its_durable_subscribers_too() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    client = a.client("c1")
    client.consumes(T, durable="s1")
    network.settles()
    client.leaves()
    network.link(a, b, BridgeSettings(sync_durable=True, duplex=True))
    network.settles()
    assert [terms.name for terms in b.broker.operations.durable_terms()] == ["NC-DS_brokerB_T"]


def test_a_subscriber_that_comes_back_after_it_was_told_of_shares_what_was_made_for_it() -> None:
    network, a, b, link = pair(BridgeSettings(sync_durable=True))
    client = b.client("c1")
    client.consumes(T, durable="s1")
    network.settles()
    link.breaks()
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 1
    client.leaves()
    network.settles()
    again = b.client("c1")
    inbox = again.consumes(T, durable="s1")
    network.settles()
    send(a, T, "one")
    network.settles()
    assert inbox.texts == ["one"]
    inbox.leaves()
    b.broker.unsubscribe(again.state, "s1", network.now)
    network.settles()
    assert link.bridge.demand_count == 0
