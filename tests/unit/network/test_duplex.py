"""A duplex link: one connection, both directions, configured at one end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spanwire.model.destination import parse_destination
from spanwire.model.errors import JmsError
from spanwire.network.bridge.duplex_bridge import DuplexAcceptor
from spanwire.network.bridge.settings_codec import MAX_TEXT, properties_of, settings_of
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Inbox, Link, Network, Site

Q = "queue://Q"
FOO = "queue://TEST.FOO"
T = "topic://T"


def pair(settings: BridgeSettings | None = None) -> tuple[Network, Site, Site, Link]:
    network = Network()
    a, b = network.site("A"), network.site("B")
    return network, a, b, network.link(a, b, settings or BridgeSettings(duplex=True))


def send(site: Site, count: int, destination: str = FOO) -> None:
    client = site.client()
    for number in range(count):
        client.sends(destination, f"m{number}")


def texts(inbox: Inbox) -> list[str]:
    return inbox.texts


def test_messages_cross_both_ways_over_one_connection() -> None:
    network, a, b, link = pair()
    there, here = b.client().consumes(Q), a.client().consumes("queue://BACK")
    network.settles()
    assert link.running
    send(a, 3, Q)
    send(b, 2, "queue://BACK")
    network.settles()
    assert (there.texts, here.texts) == (["m0", "m1", "m2"], ["m0", "m1"])
    assert [one.path for one in here.received] == [("B",)] * 2
    assert [one.path for one in there.received] == [("A",)] * 3
    assert link.bridge is not None and (link.bridge.statistics().sent, link.bridge.acknowledged) == (3, 3)
    (reverse,) = b.acceptor.bridges.values()
    assert (reverse.key, reverse.forwarder.forwarded, reverse.forwarder.acknowledged) == ("NC@A", 2, 2)


def test_persistent_messages_are_acknowledged_only_when_the_other_end_has_stored_them() -> None:
    network, a, b, link = pair()
    a.client().consumes(Q, manual=True)
    network.settles()
    send(b, 1, Q)
    for _ in range(20):  # all but the journal of A goes on
        b.turn()
        link.flush()
        link.deliver()
    assert b.queue("Q")[:2] == (1, 0)
    network.settles()
    assert b.queue("Q") == (1, 1, 0)


def test_a_message_that_came_over_the_link_does_not_go_back() -> None:
    network, a, b, _ = pair(BridgeSettings(duplex=True, message_ttl=3, consumer_ttl=3))
    a.client().consumes(Q)
    inbox = b.client().consumes(Q)
    network.settles()
    send(a, 4, Q)
    network.settles()
    assert inbox.texts == []
    assert b.queue("Q")[0] == 0


@pytest.mark.parametrize(
    ("producer", "messages", "left"), [("B", 10, {"B": 0, "C": 0, "D": 5, "E": 5}), ("C", 9, {"B": 3, "D": 3, "E": 3})]
)
def test_a_star_of_duplex_links_spreads_static_destinations(producer: str, messages: int, left: dict[str, int]) -> None:
    network = Network()
    sites = {name: network.site(name) for name in "BCDE"}
    static = (parse_destination(FOO),)
    settings = BridgeSettings(duplex=True, message_ttl=3, consumer_ttl=3, decrease_priority=False, static=static)
    for near, far in ("BC", "CD", "CE"):
        network.link(sites[near], sites[far], replace(settings, name=f"{near}{far}"))
    network.settles()
    send(sites[producer], messages)
    network.settles()
    assert {name: sites[name].queue("TEST.FOO")[2] for name in left} == left


@pytest.mark.parametrize("ttl", [1, 2, 3])
def test_in_a_ring_of_duplex_links_half_goes_each_way_round(ttl: int) -> None:
    network = Network()
    sites = {name: network.site(name) for name in "ABC"}
    static = (parse_destination(FOO),)
    settings = BridgeSettings(duplex=True, message_ttl=ttl, consumer_ttl=ttl, decrease_priority=False, static=static)
    for near, far in ("AB", "BC", "CA"):
        network.link(sites[near], sites[far], replace(settings, name=f"{near}{far}"))
    network.settles()
    send(sites["A"], 100)
    network.settles()
    assert [sites[name].queue("TEST.FOO")[2] for name in "ABC"] == [0, 50, 50]


def test_when_a_duplex_link_breaks_nothing_is_lost_in_either_direction() -> None:
    network, a, b, link = pair()
    there, here = b.client().consumes(Q), a.client().consumes("queue://BACK")
    network.settles()
    for round_ in range(10):
        a.client().sends(Q, f"a{round_}")
        b.client().sends("queue://BACK", f"b{round_}")
        for _ in range(round_):
            a.turn()
            b.turn()
            link.flush()
            link.deliver(1)
        link.breaks()
    network.settles()
    assert sorted(set(there.texts)) == sorted(f"a{number}" for number in range(10))
    assert sorted(set(here.texts)) == sorted(f"b{number}" for number in range(10))
    assert len(b.acceptor.bridges) == 1
    assert [one.text for one in there.received if not one.redelivered] == list(
        dict.fromkeys(one.text for one in there.received if not one.redelivered)
    )


def test_two_full_brokers_with_a_duplex_link_drain() -> None:
    network = Network()
    a = network.site("A", memory_limit_bytes=20_000)
    b = network.site("B", memory_limit_bytes=20_000)
    network.link(a, b, BridgeSettings(duplex=True, prefetch_size=5))
    for site, name in ((a, "TO-B"), (b, "TO-A")):
        client = site.client()
        for number in range(100):
            client.sends(f"queue://{name}", f"m{number}" + "x" * 500)
    network.settles()
    at_b, at_a = b.client().consumes("queue://TO-B"), a.client().consumes("queue://TO-A")
    network.settles()
    assert (len(at_b.received), len(at_a.received)) == (100, 100)


def test_a_newer_link_of_the_same_name_replaces_the_older_one() -> None:
    network, _a, b, link = pair(BridgeSettings(name="twin", duplex=True))
    network.settles()
    older, bridge = link.peer, link.bridge
    assert older is not None and bridge is not None
    bridge.receive_eof(network.now)
    link.peer = link.bridge = None  # the far end has not noticed
    network.settles()
    assert older.closed
    assert list(b.acceptor.bridges) == ["twin@A"]
    assert link.running


def test_two_links_of_different_names_live_side_by_side() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    for name, topic in (("SYSTEM1", "topic://outgoing.System1"), ("SYSTEM2", "topic://outgoing.System2")):
        network.link(a, b, BridgeSettings(name=name, duplex=True, included=(parse_destination(topic),)))
    inboxes = [a.client().consumes(f"topic://outgoing.System{number}") for number in (1, 2)]
    network.settles()
    assert sorted(b.acceptor.bridges) == ["SYSTEM1@A", "SYSTEM2@A"]
    for number in (1, 2):
        b.client().sends(f"topic://outgoing.System{number}", f"s{number}")
    network.settles()
    assert [inbox.texts for inbox in inboxes] == [["s1"], ["s2"]]
    counts = [bridge.forwarder.forwarded for bridge in b.acceptor.bridges.values()]
    assert counts == [1, 1]


def test_replies_find_their_way_over_a_duplex_link() -> None:
    network, a, b, _ = pair()
    requester = a.client()
    reply_to = requester.temporary_queue()
    replies = requester.consumes(reply_to.qualified_name)
    requests = b.client().consumes(Q)
    network.settles()
    requester.sends(Q, "ping")
    network.settles()
    assert requests.texts == ["ping"]
    b.client().sends(reply_to.qualified_name, "pong")
    network.settles()
    assert replies.texts == ["pong"]


def test_a_durable_subscriber_at_the_opening_end_is_served_over_the_link() -> None:
    network, a, b, link = pair()
    inbox = a.client("c1").consumes(T, durable="s")
    network.settles()
    (terms,) = b.broker.operations.durable_terms("NC_brokerA_inbound_brokerB")
    assert terms.name == "NC-DS_brokerB_T"
    link.enabled = False
    link.breaks()
    b.client().sends(T, "one")
    link.enabled = True
    network.settles()
    assert inbox.texts == ["one"]


@pytest.mark.parametrize(("url", "known"), [("tcp://A:61616", True), ("vm://A", False), ("", False)])
def test_the_addresses_of_brokers_whose_duplex_links_came_in_are_known(url: str, known: bool) -> None:
    network, _, b, link = pair()
    link.broker_url = url
    network.settles()
    assert b.acceptor.remote_brokers() == ([("tcp://A:61616", "brokerA")] if known else [])
    link.enabled = False
    link.breaks()
    network.settles()
    assert b.acceptor.remote_brokers() == []


def test_the_settings_of_a_duplex_connector_arrive_at_the_other_end() -> None:
    settings = BridgeSettings(
        name="a:b = ü",
        message_ttl=-1,
        consumer_ttl=4,
        conduit=False,
        decrease_priority=False,
        priority_base=-7,
        prefetch_size=10,
        always_sync_send=False,
        bridge_temporary=False,
        excluded=(parse_destination("queue://X.>"),),
        included=(parse_destination("queue://Q"), parse_destination("topic://F")),
        static=(parse_destination("topic://S.*"),),
        forced_durable=(parse_destination("topic://F"),),
        static_bridge=True,
        advisory_filter="Queue.A",
        conduit_network_queues=True,
        suppress_queue_duplicates=True,
        suppress_topic_duplicates=False,
        dynamic_only=True,
        client_id_token="-",
        sync_durable=True,
        virtual_demand=True,
        duplex=True,
    )
    assert settings_of(properties_of(settings, "brokerA"), []) == settings


@pytest.mark.parametrize("token", ["_", "-"])
def test_the_parts_of_client_ids_of_bridges_are_joined_by_the_token_of_the_connector(token: str) -> None:
    network, a, b, _ = pair(BridgeSettings(duplex=True, client_id_token=token))
    network.settles()
    here = sorted(str(view.client_id) for view in a.broker.connection_views())
    there = sorted(str(view.client_id) for view in b.broker.connection_views())
    assert here == sorted([f"NC{token}brokerB{token}inbound{token}brokerA", f"NC{token}brokerB{token}outbound"])
    assert there == sorted([f"NC{token}brokerA{token}inbound{token}brokerB", f"NC{token}brokerA{token}outbound"])


def test_a_password_does_not_travel() -> None:
    text = properties_of(BridgeSettings(duplex=True, user_name="user", remote_user_name="other"), "brokerA")
    assert "user" not in text
    assert "assword" not in text


@pytest.mark.parametrize(
    "text",
    [
        "excludedDestinations=[queue://]",
        "name=" + "n" * 256,
        "staticallyIncludedDestinations=[" + ",".join(["queue://Q"] * 1001) + "]",
        "a=b\n" * (MAX_TEXT // 4 + 1),
    ],
)
def test_settings_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(JmsError):
        settings_of(text, [])


@pytest.mark.parametrize(
    ("text", "taken", "note"),
    [
        ("prefetchSize=0", ("prefetch_size", 1), "prefetchSize 0 is taken as 1"),
        ("prefetchSize=99999999999", ("prefetch_size", 32766), "prefetchSize 99999999999 is taken as 32766"),
        ("messageTTL=100", ("message_ttl", 64), "messageTTL 100 is taken as 64"),
        ("consumerTTL=-2", ("consumer_ttl", -1), "consumerTTL -2 is taken as -1"),
        ("consumerPriorityBase=-1000", ("priority_base", -128), "consumerPriorityBase -1000 is taken as -128"),
        ("messageTTL=x", ("message_ttl", 1), "messageTTL x is no number, 1 is taken"),
    ],
)
def test_numbers_of_others_that_are_out_of_bounds_are_brought_within_them(
    text: str, taken: tuple[str, int], note: str
) -> None:
    notes: list[str] = []
    assert getattr(settings_of(text, notes), taken[0]) == taken[1]
    assert notes == [note]


@pytest.mark.parametrize(("duplex", "lines"), [(True, 1), (False, 0)])
def test_a_connector_with_values_beyond_our_limits_links_and_one_line_says_so(
    duplex: bool, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    network, a, b, link = pair(
        BridgeSettings(duplex=duplex, sync_durable=True, message_ttl=100, consumer_ttl=100, prefetch_size=100_000)
    )
    inbox = b.client().consumes(Q)
    network.settles()
    assert link.running, link.reasons
    send(a, 1, Q)
    network.settles()
    assert inbox.texts == ["m0"]
    said = "messageTTL 100 is taken as 64"
    assert len([line for line in caplog.messages if said in line]) == lines


def test_a_broker_takes_only_so_many_duplex_links_of_others() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    b.acceptor = DuplexAcceptor(b.broker, b.routes, most=1)
    first = network.link(a, b, BridgeSettings(name="one", duplex=True))
    network.settles()
    second = network.link(a, b, BridgeSettings(name="two", duplex=True))
    second.connects()
    for _ in range(10):
        second.flush()
        second.deliver()
    assert first.running and not second.running
    assert "this broker has 1 duplex links of other brokers, more are refused" in second.reasons[0]
