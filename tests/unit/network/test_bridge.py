"""A one-way bridge between brokers: demand, forwarding, answers, breaks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import TopicPolicy
from spanwire.broker.ports import ADMIN, Principal
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import AuthenticationError, AuthorizationError
from spanwire.model.info import ConnectionInfo
from spanwire.model.message import FORMAT_STOMP
from spanwire.model.secret import Secret
from spanwire.network.bridge.bridge import START_DEADLINE, NetworkBridge
from spanwire.network.bridge.bridge_states import State
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from tests.support.network_dialogue import Inbox, Link, Network, Site

Q = "queue://Q"
TEN = [f"m{number}" for number in range(10)]


def chain(network: Network, names: str, settings: BridgeSettings | None = None) -> list[Site]:
    """Brokers in a row, each with a connector to the next."""
    sites = [network.site(name) for name in names]
    for near, far in pairwise(sites):
        network.link(near, far, settings or BridgeSettings(name=f"to{far.name}"))
    return sites


def pair(settings: BridgeSettings | None = None) -> tuple[Network, Site, Site, Link]:
    """Two brokers and a connector from the first to the second."""
    network = Network()
    a, b = chain(network, "AB", settings)
    return network, a, b, network.links[0]


def send_all(site: Site, destination: str, texts: list[str]) -> None:
    client = site.client()
    for text in texts:
        client.sends(destination, text)


def texts(inboxes: list[Inbox]) -> list[list[str]]:
    return [inbox.texts for inbox in inboxes]


def test_a_message_crosses_to_the_broker_of_its_consumer() -> None:
    network, a, b, link = pair()
    inbox = b.client().consumes(Q)
    network.settles()
    assert link.running
    a.client().sends(Q, "one")
    network.settles()
    assert inbox.texts == ["one"]
    assert inbox.received[0].path == ("A",)
    assert a.queue("Q") == (1, 1, 0)


def test_without_a_consumer_there_messages_stay_here() -> None:
    network, a, b, _ = pair()
    send_all(a, Q, TEN)
    network.settles()
    assert a.queue("Q")[2] == 10
    inbox = b.client().consumes(Q)
    network.settles()
    assert inbox.texts == TEN
    assert a.queue("Q") == (10, 10, 0)


def test_nothing_flows_against_the_connector() -> None:
    network, a, b, _ = pair()
    inbox = a.client().consumes(Q)
    send_all(b, Q, TEN)
    network.settles()
    assert inbox.texts == []
    assert b.queue("Q")[2] == 10


def test_when_the_last_consumer_there_leaves_nothing_crosses_any_more() -> None:
    network, a, b, link = pair()
    client = b.client()
    first, second = client.consumes(Q), client.consumes(Q)
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 1
    first.leaves()
    network.settles()
    assert link.bridge.demand_count == 1
    second.leaves()
    network.settles()
    assert link.bridge.demand_count == 0
    send_all(a, Q, TEN)
    network.settles()
    assert a.queue("Q")[2] == 10


def test_a_client_that_vanishes_takes_its_demand_along_through_the_whole_network() -> None:
    network = Network()
    a, b, c = chain(network, "ABC", BridgeSettings(message_ttl=2, consumer_ttl=2))
    client = c.client()
    client.consumes(Q)
    network.settles()
    assert [link.bridge.demand_count for link in network.links if link.bridge] == [1, 1]
    client.leaves()
    network.settles()
    assert [link.bridge.demand_count for link in network.links if link.bridge] == [0, 0]
    send_all(a, Q, ["stays"])
    network.settles()
    assert (a.queue("Q")[2], b.queue("Q")[2]) == (1, 0)


def test_a_browser_is_no_demand() -> None:
    network, _a, b, link = pair()
    client = b.client()
    send_all(b, Q, ["one"])
    client.browses(Q)
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 0


def test_consumers_of_patterns_are_demand_for_all_that_matches() -> None:
    network, a, b, _ = pair()
    inbox = b.client().consumes("queue://ORDERS.>")
    network.settles()
    send_all(a, "queue://ORDERS.EU", ["one"])
    send_all(a, "queue://BILLS", ["two"])
    network.settles()
    assert inbox.texts == ["one"]
    assert a.queue("BILLS")[2] == 1


def test_a_consumer_of_a_composite_destination_gets_each_part_once() -> None:
    network, a, b, _ = pair()
    inbox = b.client().consumes("queue://ONE,queue://TWO")
    network.settles()
    send_all(a, "queue://ONE", ["one"])
    send_all(a, "queue://TWO", ["two"])
    network.settles()
    assert sorted(inbox.texts) == ["one", "two"]


@pytest.mark.parametrize(
    "settings",
    [
        BridgeSettings(excluded=(parse_destination("queue://SECRET"), parse_destination("topic://SECRET"))),
        BridgeSettings(included=(parse_destination("queue://TRADE.>"),)),
    ],
)
def test_of_a_composite_destination_only_the_parts_cross_that_may(settings: BridgeSettings) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b, settings)
    inbox = b.client().consumes("queue://TRADE.A,SECRET,TRADE.B,topic://SECRET")
    network.settles()
    for destination in ("queue://SECRET", "topic://SECRET", "queue://TRADE.A", "queue://TRADE.B"):
        a.client().sends(destination, destination)
    network.settles()
    assert inbox.texts == ["queue://TRADE.A", "queue://TRADE.B"]
    assert a.queue("SECRET")[2] == 1


@pytest.mark.parametrize(
    "settings",
    [
        BridgeSettings(excluded=(parse_destination("queue://TRADE.NYSE.*"),)),
        BridgeSettings(included=(parse_destination("queue://TRADE.*"), parse_destination("queue://TRADE.LSE.>"))),
    ],
)
def test_a_consumer_of_a_pattern_gets_nothing_that_is_to_stay(settings: BridgeSettings) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b, settings)
    producer = a.client()
    producer.sends("queue://TRADE.NYSE.IBM", "there before")
    inbox = b.client().consumes("queue://TRADE.>")
    network.settles()
    for destination in ("queue://TRADE.NYSE.IBM", "queue://TRADE.NYSE.SUN", "queue://TRADE.LSE.BP"):
        producer.sends(destination, destination)
    network.settles()
    assert inbox.texts == ["queue://TRADE.LSE.BP"]
    assert (a.queue("TRADE.NYSE.IBM")[2], a.queue("TRADE.NYSE.SUN")[2]) == (2, 1)


def test_excluded_destinations_stay_and_of_included_ones_no_others_go() -> None:
    excluded = BridgeSettings(excluded=(parse_destination("queue://X.>"),))
    network, a, b, _ = pair(excluded)
    inbox = b.client().consumes("queue://X.1")
    other = b.client().consumes("queue://Y")
    network.settles()
    send_all(a, "queue://X.1", ["one"])
    send_all(a, "queue://Y", ["two"])
    network.settles()
    assert texts([inbox, other]) == [[], ["two"]]
    settings = BridgeSettings(
        included=(parse_destination("queue://X.>"),), excluded=(parse_destination("queue://X.1"),)
    )
    assert settings.is_demand(parse_destination("queue://X.2"), (), "A")
    assert not settings.is_demand(parse_destination("queue://X.1"), (), "A")
    assert not settings.is_demand(parse_destination("queue://Y"), (), "A")
    assert not settings.is_demand(parse_destination("topic://X.2"), (), "A")


@pytest.mark.parametrize(("conduit", "audits", "copies"), [(True, True, 1), (False, True, 1), (False, False, 2)])
def test_each_consumer_gets_a_topic_message_once_unless_there_is_neither_conduit_nor_audit(
    conduit: bool, audits: bool, copies: int
) -> None:
    policy = PolicyEntry(parse_destination("topic://>"), topic=TopicPolicy(audits_copies=audits))
    network = Network()
    a, b = network.site("A"), network.site("B", policies=PolicyMap([policy]))
    network.link(a, b, BridgeSettings(conduit=conduit))
    inboxes = [b.client().consumes("topic://t") for _ in range(2)]
    network.settles()
    send_all(a, "topic://t", ["one"])
    network.settles()
    assert texts(inboxes) == [["one"] * copies, ["one"] * copies]


def test_without_a_conduit_selectors_decide_at_the_sending_broker() -> None:
    network, a, b, _ = pair(BridgeSettings(conduit=False))
    inbox = b.client().consumes(Q, selector="n = 1")
    network.settles()
    client = a.client()
    for number in range(4):
        client.sends(Q, f"m{number}", properties={"n": number % 2})
    network.settles()
    assert inbox.texts == ["m1", "m3"]
    assert a.queue("Q")[2] == 2


def test_a_conduit_forwards_whatever_the_selectors() -> None:
    network, a, b, _ = pair()
    inbox = b.client().consumes(Q, selector="n = 1")
    network.settles()
    client = a.client()
    for number in range(4):
        client.sends(Q, f"m{number}", properties={"n": number % 2})
    network.settles()
    assert inbox.texts == ["m1", "m3"]
    assert (a.queue("Q")[2], b.queue("Q")[2]) == (0, 2)


@pytest.mark.parametrize(("ttl", "delivered"), [(3, TEN), (2, [])])
def test_messages_pile_up_until_demand_comes_from_as_far_as_the_ttl_allows(ttl: int, delivered: list[str]) -> None:
    network = Network()
    a, b, c, e = chain(network, "ABCE", BridgeSettings(message_ttl=ttl, consumer_ttl=ttl))
    send_all(a, Q, TEN)
    network.settles()
    inbox = e.client().consumes(Q)
    network.settles()
    assert inbox.texts == delivered
    assert [site.queue("Q")[2] for site in (a, b, c)] == [10 - len(delivered), 0, 0]
    assert {one.path for one in inbox.received} <= {("A", "B", "C")}


def test_a_message_may_have_fewer_hops_than_a_subscription() -> None:
    network = Network()
    a, b, c = chain(network, "ABC", BridgeSettings(message_ttl=1, consumer_ttl=2))
    inbox = c.client().consumes(Q)
    network.settles()
    send_all(a, Q, ["one"])
    network.settles()
    assert inbox.texts == []
    assert (a.queue("Q")[2], b.queue("Q")[2]) == (0, 1)


@pytest.mark.large
@pytest.mark.parametrize("ttl", [1, 2, 3, -1])
def test_no_message_returns_to_a_broker_it_has_left(ttl: int) -> None:
    network = Network()
    sites = [network.site(name) for name in "ABC"]
    settings = BridgeSettings(message_ttl=ttl, consumer_ttl=ttl, decrease_priority=False)
    for near in sites:
        for far in sites:
            if near is not far:
                network.link(near, far, settings)
    for site in sites:
        site.client().consumes(Q, manual=True, prefetch=2)
    network.settles()
    for site in sites:
        send_all(site, Q, [f"{site.name}{number}" for number in range(30)])
    network.settles()
    held = [one for site in sites for client in site.clients for inbox in client.inboxes for one in inbox.unread]
    assert held
    for one in held:
        assert len(set(one.path)) == len(one.path)
        assert ttl < 0 or len(one.path) <= ttl
        assert not one.path or one.text.startswith(one.path[0])
    for site in sites:
        for client in site.clients:
            for inbox in client.inboxes:
                inbox.manual = False
    network.settles()
    received = [t for site in sites for client in site.clients for inbox in client.inboxes for t in inbox.texts]
    assert sorted(received) == sorted(f"{site.name}{number}" for site in sites for number in range(30))


def test_a_local_consumer_comes_before_those_of_the_network() -> None:
    network, a, b, _ = pair()
    near, far = a.client().consumes(Q), b.client().consumes(Q)
    network.settles()
    send_all(a, Q, TEN)
    network.settles()
    assert texts([near, far]) == [TEN, []]


def test_consumers_share_equally_when_priorities_are_not_decreased() -> None:
    network, a, b, _ = pair(BridgeSettings(decrease_priority=False))
    near, far = a.client().consumes(Q), b.client().consumes(Q)
    network.settles()
    send_all(a, Q, TEN)
    network.settles()
    assert [len(inbox.texts) for inbox in (near, far)] == [5, 5]


def test_the_same_broker_at_the_other_end_is_refused() -> None:
    network = Network()
    a = network.site("A")
    link = network.link(a, a)
    link.connects()
    link.flush()
    link.deliver()
    link.flush()
    link.deliver()
    assert "this broker itself" in link.reasons[0]


def test_id_body_and_properties_stay_the_same_octets() -> None:
    network, a, b, _ = pair()
    inbox = b.client().consumes(Q)
    network.settles()
    sent = a.client().sends(Q, "body" * 100_000, properties={"n": 7, "m": 8})
    network.settles()
    came = inbox.received[0].message
    assert came.message_id == sent.message_id
    assert came.raw[came.content_start : came.tail_start] == sent.raw[sent.content_start : sent.tail_start]
    assert b.formats.header(came, "JMSActiveMQBrokerPath") == "[A]"
    assert a.formats.header(sent, "JMSActiveMQBrokerPath") is None


def test_the_broker_path_can_be_selected_by() -> None:
    network, a, b, _ = pair()
    inbox = b.client().consumes(Q, selector="JMSActiveMQBrokerPath = '[A]'")
    network.settles()
    send_all(a, Q, ["far"])
    send_all(b, Q, ["near"])
    network.settles()
    assert inbox.texts == ["far"]


def test_a_message_of_another_protocol_crosses_as_an_openwire_message() -> None:
    network, a, b, _ = pair()
    inbox = b.client().consumes(Q)
    network.settles()
    client = a.client()
    stomp = a.formats.converted(client.sends("queue://OTHER", "from stomp"), FORMAT_STOMP)
    view = a.formats.view(stomp)
    view.destination = parse_destination(Q)
    a.broker.send(client.state, a.formats.format(FORMAT_STOMP).encode_from_view(view), None, -1, network.now)
    network.settles()
    assert inbox.texts == ["from stomp"]


def test_messages_that_are_not_persistent_may_go_without_an_answer() -> None:
    network, a, b, link = pair(BridgeSettings(always_sync_send=False))
    inbox = b.client().consumes(Q)
    network.settles()
    client = a.client()
    client.sends(Q, "fleeting", persistent=False)
    link.flush()
    assert link.bridge is not None and link.bridge.in_flight == 0
    assert a.queue("Q") == (1, 1, 0)
    network.settles()
    assert inbox.texts == ["fleeting"]


def test_what_goes_without_an_answer_is_acknowledged_when_the_socket_has_taken_it() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b, BridgeSettings(always_sync_send=False))
    b.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "fleeting", persistent=False)
    bridge = link.bridge
    assert bridge is not None and bridge.data_to_send()
    bridge.unsent(1)
    assert (bridge.in_flight, bridge.acknowledged) == (1, 0)
    bridge.unsent(0)
    assert (bridge.in_flight, bridge.acknowledged) == (0, 1)


def test_advisories_of_this_broker_do_not_cross_to_a_consumer_of_all_topics() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b)
    b.client().consumes("topic://>")
    network.settles()
    producer = a.client()
    producer.consumes("topic://T")
    producer.sends("topic://T", "one")
    network.settles()
    assert link.bridge is not None and link.bridge.statistics().sent == 1


def test_replies_to_a_temporary_queue_find_their_way_back() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b)
    network.link(b, a)
    requester, replier = a.client(), b.client()
    requests = replier.consumes(Q)
    temporary = requester.temporary_queue()
    replies = requester.consumes(str(temporary))
    network.settles()
    requester.sends(Q, "question")
    network.settles()
    assert requests.texts == ["question"]
    replier.sends(str(temporary), "answer")
    network.settles()
    assert replies.texts == ["answer"]


def test_a_reply_to_a_temporary_queue_that_is_gone_is_given_up_and_the_bridge_lives() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(b, a)
    requester, replier = a.client(), b.client()
    temporary = requester.temporary_queue()
    requester.consumes(str(temporary))
    network.settles()
    replier.sends(str(temporary), "too late")
    link.flush()  # it is on the wire when the requester goes
    requester.leaves()
    network.settles()
    assert link.running and link.reasons == []
    assert str(temporary) not in [str(view.destination) for view in b.broker.destination_views()]


def test_temporary_destinations_stay_here_when_they_are_not_to_be_bridged() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(b, a, BridgeSettings(bridge_temporary=False))
    requester = a.client()
    temporary = requester.temporary_queue()
    requester.consumes(str(temporary))
    network.settles()
    assert str(temporary) not in [str(view.destination) for view in b.broker.destination_views()]


def test_a_message_is_acknowledged_here_only_when_the_remote_broker_has_stored_it() -> None:
    network, a, b, link = pair()
    b.client().consumes(Q, manual=True)
    network.settles()
    a.client().sends(Q, "one")
    a.store_turn()
    link.flush()
    link.deliver()
    link.flush()
    link.deliver()
    assert link.bridge is not None and link.bridge.in_flight == 1  # there, but not on its disk yet
    assert a.queue("Q")[1] == 0
    b.store_turn()
    link.flush()
    link.deliver()
    assert link.bridge.in_flight == 0
    assert a.queue("Q")[1] == 1


def test_a_message_is_forwarded_only_when_this_broker_has_it_on_its_disk() -> None:
    network, a, b, link = pair()
    b.client().consumes(Q, manual=True)
    network.settles()
    client = a.client()
    client.sends(Q, "one")
    client.sends(Q, "two", persistent=False)  # it does not overtake
    link.flush()
    link.deliver()
    assert link.bridge is not None and link.bridge.in_flight == 2
    assert b.queue("Q")[0] == 0
    a.store_turn()
    link.flush()
    link.deliver()
    assert b.queue("Q")[0] == 2


def test_messages_on_the_disk_do_not_wait_for_the_sync_of_acknowledgements() -> None:
    network, a, b, link = pair(BridgeSettings(prefetch_size=1))
    send_all(a, Q, TEN)
    network.settles()
    inbox = b.client().consumes(Q)
    for _ in range(100):
        b.turn()
        link.turn()  # the broker before never syncs
    assert inbox.texts == TEN


def test_a_link_asks_the_store_once_for_all_messages_that_wait_for_one_sync() -> None:
    network, a, b, link = pair()
    send_all(a, Q, TEN)
    network.settles()
    inbox = b.client().consumes(Q)
    a.client().sends("queue://OTHER", "on its way to the disk")
    before = a.journal.waiters
    for _ in range(10):
        b.turn()
        link.turn()
    assert link.bridge is not None and link.bridge.in_flight == 10
    assert a.journal.waiters == before + 1
    network.settles()
    assert inbox.texts == TEN


def test_large_messages_that_waited_for_the_disk_fill_the_output_of_the_link() -> None:
    network, a, b, link = pair()
    b.client().consumes(Q, manual=True)
    network.settles()
    client = a.client()
    client.sends(Q, "x" * 600_000)
    client.sends(Q, "y" * 600_000)
    link.flush()
    client.sends(Q, "z" * 600_000)
    a.store_turn()  # now they are on their way
    client.sends(Q, "later")
    assert link.bridge is not None and link.bridge.in_flight == 3
    network.settles()
    assert b.queue("Q")[0] == 4


def test_a_link_empties_the_queues_of_a_broker_whose_disk_is_full() -> None:
    network, a, b, _ = pair()
    send_all(a, Q, TEN)
    network.settles()
    a.client().sends("queue://OTHER", "no room for it" + "x" * 100_000)
    a.journal.space_changed(0, False)
    a.broker.room_changed(network.now)
    inbox = b.client().consumes(Q)
    network.settles()
    assert inbox.texts == TEN


def test_messages_that_wait_when_the_disk_becomes_full_cross_the_link_soon() -> None:
    network, a, b, _ = pair()
    inbox = b.client().consumes(Q)
    network.settles()
    large = "x" * 100_000
    send_all(a, Q, [large, *TEN])
    a.journal.space_changed(0, False)
    a.broker.room_changed(network.now)
    network.settles()
    assert inbox.texts == []
    network.environment.advance(1.0)
    network.runs_timers()
    assert inbox.texts == [large, *TEN]


def test_a_message_that_waits_for_the_disk_when_the_link_breaks_crosses_over_the_next_one() -> None:
    network, a, b, link = pair()
    inbox = b.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "one")
    link.breaks()
    a.store_turn()
    assert b.queue("Q")[0] == 0
    network.settles()
    assert inbox.texts == ["one"]


def test_a_settled_message_does_not_come_again_when_a_broker_on_its_way_loses_power_and_link() -> None:
    network = Network()
    a, b, c = (network.site(name) for name in "ABC")
    first, second = (
        network.link(near, far, BridgeSettings(consumer_ttl=2, message_ttl=2)) for near, far in ((a, b), (b, c))
    )
    inbox = c.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "one")
    a.store_turn()
    first.turn()
    second.turn()  # the broker in the middle has not synced the message
    c.turn()
    first.breaks()
    b.crashes(b.disk.power_cut(Random(1)))
    network.settles()
    assert inbox.texts == ["one"]


def test_when_the_link_breaks_before_the_answer_the_message_is_forwarded_again_and_taken_once() -> None:
    network, a, b, link = pair()
    inbox = b.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "one")
    a.store_turn()
    link.flush()
    link.deliver()  # it is at the remote broker, the answer is not here
    link.breaks()
    network.settles()
    assert [(one.text, one.redelivered) for one in inbox.received] == [("one", False)]
    assert b.broker.assembly.producer_audit.duplicates == 1
    assert a.queue("Q")[2] == 0


def test_what_is_not_in_a_store_comes_again_when_the_link_breaks_and_says_so() -> None:
    network, a, b, link = pair(BridgeSettings(name="toB", always_sync_send=True))
    inbox = b.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "one", persistent=False)
    link.flush()
    link.deliver()
    link.breaks()
    network.settles()
    assert [(one.text, one.redelivered) for one in inbox.received] == [("one", False), ("one", True)]


def test_what_was_answered_before_the_break_does_not_come_again() -> None:
    network, a, b, link = pair()
    inbox = b.client().consumes(Q)
    network.settles()
    send_all(a, Q, TEN)
    network.settles()
    link.breaks()
    network.settles()
    assert inbox.texts == TEN


def test_the_flag_of_a_message_that_may_have_come_twice_survives_a_restart_there() -> None:
    network, a, b, link = pair()
    inbox = b.client().consumes(Q, prefetch=1, manual=True)
    network.settles()
    client = a.client()
    client.sends(Q, "first")
    client.sends(Q, "second")
    link.flush()
    link.breaks()  # lost on the way: both are sent again, flagged
    network.settles()
    assert [one.redelivered for one in inbox.unread] == [True]
    b.broker.stop(network.now)
    while b.store_turn():
        pass
    b.journal.note_clean_stop()
    while b.store_turn():
        pass
    b.crashes()
    again = b.client().consumes(Q)
    network.settles()
    assert [(one.text, one.redelivered) for one in again.received] == [("first", True), ("second", True)]


def test_a_broker_that_loses_its_power_forwards_what_its_disk_has() -> None:
    network, a, b, _ = pair()
    send_all(a, Q, TEN)
    network.settles()
    a.crashes()
    inbox = b.client().consumes(Q)
    network.settles()
    assert inbox.texts == TEN
    assert all(one.redelivered for one in inbox.received)


def test_a_link_that_breaks_often_makes_no_poison_of_a_message() -> None:
    network, a, b, link = pair()
    inbox = b.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "one")
    for _ in range(10):
        link.flush()
        link.breaks()  # it never arrives
        link.connects()
        for _ in range(8):
            link.flush()
            link.deliver()
            a.store_turn()
    network.settles()
    assert [(one.text, one.redelivery_count) for one in inbox.received][-1] == ("one", 1)


def test_a_link_that_breaks_often_makes_no_poison_of_a_message_that_stays_here() -> None:
    network, a, b, link = pair()
    b.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "one")
    for _ in range(10):
        link.flush()
        link.breaks()
        link.connects()
        for _ in range(8):
            link.flush()
            link.deliver()
            a.store_turn()
    link.enabled = False
    link.breaks()
    inbox = a.client().consumes(Q)
    network.settles()
    assert [(one.text, one.redelivery_count) for one in inbox.received] == [("one", 1)]


def test_a_remote_broker_that_does_not_answer_closes_the_window() -> None:
    network, a, b, link = pair(BridgeSettings(prefetch_size=5))
    b.client().consumes(Q, manual=True)
    network.settles()
    link.enabled = False
    send_all(a, Q, [f"m{number}" for number in range(100)])
    a.store_turn()
    for _ in range(20):
        link.flush()
    assert link.bridge is not None and link.bridge.in_flight == 5
    assert a.queue("Q")[:2] == (100, 0)


def test_a_remote_broker_that_is_full_stops_the_bridge_and_goes_on_when_it_has_room() -> None:
    network = Network()
    a = network.site("A")
    b = network.site("B", memory_limit_bytes=200_000)
    network.link(a, b, BridgeSettings(prefetch_size=1000))
    inbox = b.client().consumes(Q, manual=True, prefetch=1)
    network.settles()
    client = a.client()
    for number in range(100):
        client.sends(Q, f"{number:03}" + "." * 20_000, persistent=False)
    network.settles()
    assert a.queue("Q")[2] + network.links[0].bridge.in_flight > 50  # type: ignore[union-attr]
    inbox.manual = False
    network.settles()
    assert [text[:3] for text in inbox.texts] == [f"{number:03}" for number in range(100)]
    assert network.links[0].reasons == []


class OneUser:
    """Lets one user in; duck-typed to `Authenticator`."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        if info.protocol == "openwire" and (info.user_name, info.password) != ("bridge", "secret"):
            raise AuthenticationError("User name [null] or password is invalid.")
        return Principal(info.user_name or "anonymous")


def test_a_bridge_logs_in_with_its_user_and_password() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B", authenticator=OneUser())
    link = network.link(a, b, BridgeSettings(user_name="bridge", password=Secret("secret")))
    network.settles()
    assert link.running


class Nobody:
    """Lets nobody in; duck-typed to `Authenticator`."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        raise AuthenticationError("User name [null] or password is invalid.")


def test_a_bridge_that_its_own_broker_refuses_says_so_and_names_the_attributes() -> None:
    network = Network()
    a, b = network.site("A", authenticator=Nobody()), network.site("B")
    link = network.link(a, b, BridgeSettings())
    for _ in range(6):
        link.turn()
    assert link.reasons[0] == (
        "this broker refuses its own bridge: User name [null] or password is invalid. Give the networkConnector the "
        "userName and password of a user of this broker"
    )


def test_a_refused_login_has_a_reason() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B", authenticator=OneUser())
    link = network.link(a, b, BridgeSettings(user_name="bridge", password=Secret("wrong")))
    for _ in range(6):
        link.turn()
    assert "refused the login" in link.reasons[0]
    assert "password is invalid" in link.reasons[0]
    assert len(a.broker.connection_views()) <= 1  # that of the next attempt


class NoBridges:
    """Everything but acting as a bridge; duck-typed to `Authorizer`."""

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        if action == ADMIN and destination.name == "ActiveMQ.Advisory.NetworkBridge":
            raise AuthorizationError("no")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        self.check(principal, action, destination)


def test_a_user_who_may_not_be_a_bridge_is_refused() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B", authorizer=NoBridges())
    link = network.link(a, b)
    for _ in range(6):
        link.turn()
    assert link.reasons and "is not authorized to act as a network bridge" in link.reasons[0]
    assert not link.running


def lone_bridge() -> tuple[Network, NetworkBridge]:
    network = Network()
    a = network.site("A")
    return network, NetworkBridge(a.broker, BridgeSettings(), "tcp://a:1", WireFormatPreferences(), network.now)


def test_a_peer_that_accepts_and_stays_silent_is_left_after_a_while() -> None:
    network, bridge = lone_bridge()
    assert bridge.next_timeout() == network.now.monotonic + START_DEADLINE
    network.environment.advance(START_DEADLINE)
    bridge.handle_timeout(network.now)
    assert bridge.closed
    assert "stays silent" in bridge.reason


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the port is an HTTP port"),
        (b"\0\0\0\x01\x1e", "broke the protocol"),
        (b"\xff" * 64, "broke the protocol"),
        (b"\0" * 8, "broke the protocol"),
    ],
)
def test_a_peer_that_is_no_broker_ends_the_bridge_with_a_reason(octets: bytes, reason: str) -> None:
    network, bridge = lone_bridge()
    bridge.receive_data(octets, network.now)
    assert bridge.closed
    assert reason in bridge.reason


def test_a_silent_link_is_given_up_and_a_living_one_says_so() -> None:
    network, _a, _b, link = pair()
    network.settles()
    assert link.bridge is not None
    bridge = link.bridge
    network.environment.advance(29.0)
    bridge.handle_timeout(network.now)
    assert bridge.data_to_send() != []  # a keep-alive
    network.environment.advance(30.0)
    bridge.handle_timeout(network.now)
    assert bridge.state is State.CLOSED
    assert "silent" in bridge.reason


def test_a_second_bridge_of_the_same_name_to_the_same_broker_is_refused() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    first = network.link(a, b, BridgeSettings(name="same"))
    network.settles()
    second = network.link(a, b, BridgeSettings(name="same"))
    for _ in range(6):
        second.turn()
    assert first.running
    assert "already connected" in second.reasons[0]


def test_three_connectors_of_distinct_names_share_the_load() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    links = [network.link(a, b, BridgeSettings(name=f"link0{number}ToBrokerB")) for number in (1, 2, 3)]
    inbox = b.client().consumes(Q)
    network.settles()
    send_all(a, Q, [f"m{number}" for number in range(30)])
    network.settles()
    assert sorted(inbox.texts) == sorted(f"m{number}" for number in range(30))
    assert [link.bridge.statistics().sent for link in links if link.bridge] == [10, 10, 10]


def test_when_the_broker_here_stops_the_remote_one_is_told() -> None:
    network, a, _b, link = pair()
    network.settles()
    assert link.bridge is not None
    a.broker.stop(network.now)
    assert link.bridge.closed
    assert link.bridge.data_to_send() != []


def test_replies_find_their_way_over_two_hops() -> None:
    network = Network()
    a, b, c = (network.site(name) for name in "ABC")
    settings = BridgeSettings(message_ttl=2, consumer_ttl=2)
    for near, far in ((a, b), (b, c), (c, b), (b, a)):
        network.link(near, far, replace(settings, name=f"{near.name}{far.name}"))
    requester, replier = a.client(), c.client()
    requests = replier.consumes(Q)
    temporary = requester.temporary_queue()
    replies = requester.consumes(str(temporary))
    network.settles()
    requester.sends(Q, "question")
    network.settles()
    assert requests.texts == ["question"]
    replier.sends(str(temporary), "answer")
    network.settles()
    assert replies.texts == ["answer"]
    requester.leaves()
    network.settles()
    for site in (a, b, c):
        assert str(temporary) not in [str(view.destination) for view in site.broker.destination_views()]


def test_when_the_link_breaks_the_temporary_destinations_behind_it_are_gone_and_come_back_with_it() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(b, a)
    requester, replier = a.client(), b.client()
    temporary = requester.temporary_queue()
    replies = requester.consumes(str(temporary))
    network.settles()
    link.breaks()
    assert str(temporary) not in [str(view.destination) for view in b.broker.destination_views()]
    network.settles()
    replier.sends(str(temporary), "after the break")
    network.settles()
    assert replies.texts == ["after the break"]


def test_a_consumer_of_one_destination_is_served_by_the_subscription_of_a_pattern_that_covers_it() -> None:
    network, a, b, link = pair()
    client = b.client()
    every = client.consumes("topic://ORDERS.>")
    network.settles()
    one = client.consumes("topic://ORDERS.NEW")
    network.settles()
    assert link.bridge is not None and link.bridge.demand_count == 1
    send_all(a, "topic://ORDERS.NEW", ["m"])
    network.settles()
    assert texts([every, one]) == [["m"], ["m"]]
    every.leaves()
    network.settles()
    one.leaves()
    network.settles()
    assert link.bridge.demand_count == 0


def test_a_durable_subscriber_does_not_share_the_subscription_of_one_that_is_not_durable() -> None:
    network, a, b, _ = pair()
    plain = b.client().consumes("topic://T")
    network.settles()
    away = b.client("c1")
    away.consumes("topic://T", durable="s1")
    network.settles()
    away.leaves()
    plain.leaves()
    network.settles()
    send_all(a, "topic://T", ["kept"])
    network.settles()
    again = b.client("c1").consumes("topic://T", durable="s1")
    network.settles()
    assert again.texts == ["kept"]
    assert [terms.name for terms in a.broker.operations.durable_terms()] == ["NC-DS_brokerA_T"]


def test_a_queue_among_topics_that_are_to_be_durable_is_served_like_any_other() -> None:
    network, a, b, link = pair(BridgeSettings(forced_durable=(parse_destination("queue://>"),)))
    inbox = b.client().consumes(Q)
    network.settles()
    send_all(a, Q, ["one"])
    network.settles()
    inbox.leaves()
    network.settles()
    assert inbox.texts == ["one"]
    assert link.bridge is not None and link.bridge.demand_count == 0
    assert a.broker.operations.durable_terms() == []


@pytest.mark.parametrize(("conduit", "subscriptions"), [(False, 2), (True, 1)])
def test_a_nearer_consumer_takes_the_place_of_a_farther_one_only_where_one_subscription_serves_both(
    conduit: bool, subscriptions: int
) -> None:
    network = Network()
    a, b, c = chain(network, "ABC", BridgeSettings(conduit=conduit, message_ttl=2, consumer_ttl=2))
    far = c.client().consumes("topic://T")
    network.settles()
    link = network.links[0]
    assert link.bridge is not None and link.bridge.forwarder is not None
    demand = link.bridge.forwarder.local.demand
    (first,) = demand.subscriptions
    near = b.client().consumes("topic://T")
    network.settles()
    assert len(demand.subscriptions) == subscriptions and (first in demand.subscriptions) is not conduit
    send_all(a, "topic://T", ["one"])
    network.settles()
    assert texts([far, near]) == [["one"], ["one"]]


@pytest.mark.parametrize("duplex", [False, True])
def test_a_closed_bridge_is_counted_for_the_next_collection_once(duplex: bool) -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b, BridgeSettings(name="toB", duplex=duplex))
    network.settles()
    link.breaks()
    network.settles()
    departed = [site.broker.assembly.context.departed for site in (a, b)]
    assert departed == [1, 1 if duplex else 0]
