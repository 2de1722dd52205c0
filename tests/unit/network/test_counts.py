"""What a link counts: messages in, out, failed and held back, at both ends."""

from __future__ import annotations

from spanwire.broker.policy.policy_entry import BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import WRITE
from spanwire.cli.network.network import beyond
from spanwire.cli.process.status import counted
from spanwire.model.destination import parse_destination
from spanwire.model.routing import MAX_COUNTED, NetworkFilter
from spanwire.network.bridge.bridge import NetworkBridge
from spanwire.network.bridge.bridge_statistics import MAX_KEPT, BridgeStatistics, LinkCounts
from spanwire.network.connector.link import accepted_view
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Link, Network
from tests.support.recording_authorizer import RecordingAuthorizer

Q = "queue://Q"
T = "topic://T"


def bridge_of(link: Link) -> NetworkBridge:
    assert link.bridge is not None
    return link.bridge


def test_both_ends_of_a_duplex_link_count_what_goes_in_and_out() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b, BridgeSettings(name="twin", duplex=True))
    b.client().consumes(Q)
    a.client().consumes("queue://BACK")
    network.settles()
    for number in range(3):
        a.client().sends(Q, f"there{number}")
    b.client().sends("queue://BACK", "back")
    network.settles()
    near = bridge_of(link).statistics()
    far = accepted_view(b.acceptor.links["twin@A"], network.now.monotonic)
    assert (near.sent, near.answered, near.received, near.failed) == (3, 3, 1, 0)
    assert (far.enqueued, far.dequeued, far.received, far.failed) == (1, 1, 3, 0)


def test_both_ends_of_a_duplex_link_count_by_destination() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b, BridgeSettings(name="twin", duplex=True))
    for destination in (Q, T):
        b.client().consumes(destination)
    a.client().consumes("queue://BACK")
    network.settles()
    for destination in (Q, Q, T):
        a.client().sends(destination, "there")
    b.client().sends("queue://BACK", "back")
    network.settles()
    assert bridge_of(link).counts.rows() == [("outbound", Q, 2), ("outbound", T, 1), ("inbound", "queue://BACK", 1)]
    far = b.acceptor.links["twin@A"].counts
    assert far.rows() == [("outbound", "queue://BACK", 1), ("inbound", Q, 2), ("inbound", T, 1)]
    assert far.began > 0
    far.reset(far.began + 9, "inbound", T)
    assert (far.rows()[2], far.began < network.now.monotonic + 9) == (("inbound", T, 0), True)


def test_counters_of_an_accepted_link_begin_anew_at_a_reset() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b, BridgeSettings(name="twin", duplex=True))
    b.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "1")
    network.settles()
    accepted = b.acceptor.links["twin@A"]
    view = accepted_view(accepted, network.now.monotonic)
    assert (view.received, view.remote_id, view.breaks) == (1, a.broker.broker_id, 0)
    assert view.started_ms == network.now.wall_ms
    accepted.reset(network.now.monotonic)
    assert accepted_view(accepted, network.now.monotonic).received == 0
    assert accepted.counts.rows() == []
    a.client().sends(Q, "2")
    a.client().sends(Q, "3")
    network.settles()
    assert accepted_view(accepted, network.now.monotonic).received == 2


def test_counts_by_destination_are_bounded() -> None:
    counts = LinkCounts()
    for number in range(MAX_COUNTED + 2):
        counts.outbound.count(parse_destination(f"queue://R.{number}"))
    counts.outbound.count(parse_destination("queue://R.0"))
    rows = counts.rows()
    assert (len(rows), rows[0], rows[-1]) == (
        MAX_COUNTED + 1,
        ("outbound", "queue://R.0", 2),
        ("outbound", None, 2),
    )


def test_a_refused_message_of_a_duplex_link_is_not_counted() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B", authorizer=RecordingAuthorizer(("anonymous", WRITE, Q)))
    link = network.link(a, b, BridgeSettings(name="twin", duplex=True))
    b.client().consumes(Q)
    network.settles()
    a.client().sends(Q, "refused")
    network.settles()
    assert bridge_of(link).statistics().sent == 1
    assert b.acceptor.links["twin@A"].counts.rows() == []


def test_a_closed_duplex_link_keeps_its_largest_counts() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b, BridgeSettings(name="twin", duplex=True))
    network.settles()
    accepted = b.acceptor.links["twin@A"]
    for number in range(MAX_KEPT + 9):
        for _ in range(1 + (number > 8)):
            accepted.counts.inbound.count(parse_destination(f"queue://R.{number}"))
    assert accepted.bridge is not None
    accepted.bridge.leave("it is over", network.now)
    rows = accepted.counts.rows()
    assert (len(rows), rows[0], rows[-1]) == (
        MAX_KEPT + 1, ("inbound", "queue://R.9", 2), ("inbound", None, 9),
    )  # fmt: skip


def test_a_message_that_its_target_has_seen_is_held_back_by_its_path() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    network.link(a, b)
    back = network.link(b, a)
    for site in (a, b):
        site.client().consumes(T)
    network.settles()
    a.client().sends(T, "one")
    network.settles()
    assert bridge_of(back).statistics().refusals.by_reason() == {"path": 1}
    assert bridge_of(back).statistics().sent == 0


def test_a_message_without_a_hop_left_is_held_back_by_its_ttl() -> None:
    network = Network()
    a, b, c = [network.site(name) for name in "ABC"]
    network.link(a, b, BridgeSettings(message_ttl=1, consumer_ttl=2))
    second = network.link(b, c, BridgeSettings(message_ttl=1, consumer_ttl=2))
    inbox = c.client().consumes(T)
    network.settles()
    a.client().sends(T, "too far")
    network.settles()
    assert inbox.texts == []
    assert bridge_of(second).statistics().refusals.by_reason() == {"ttl": 1}


def test_an_excluded_consumer_counts_as_unserved() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b, BridgeSettings(excluded=(parse_destination("queue://SECRET.>"),)))
    b.client().consumes("queue://SECRET.ONE")
    b.client().consumes(Q)
    network.settles()
    assert bridge_of(link).statistics().unserved == 1


def test_a_message_that_may_go_back_later_is_held_back_for_replay() -> None:
    policy = PolicyEntry(
        parse_destination("queue://>"), queue=QueuePolicy(bridges=BridgePolicy(replays=True, replay_delay_ms=1000))
    )
    network = Network()
    a = network.site("A")
    b = network.site("B", policies=PolicyMap([policy]))
    settings = BridgeSettings(message_ttl=5, consumer_ttl=5)
    network.link(a, b, settings)
    back = network.link(b, a, settings)
    first = b.client().consumes(Q, manual=True)
    network.settles()
    a.client().sends(Q, "moves")
    network.settles()
    first.leaves()
    destination = a.client().consumes(Q)
    network.settles()
    assert destination.texts == []
    assert bridge_of(back).statistics().refusals.replay > 0
    network.environment.advance(1.1)
    network.runs_timers()
    assert destination.texts == ["moves"]


def test_a_message_that_the_remote_broker_cannot_take_counts_as_failed() -> None:
    network = Network()
    a, b = network.site("A"), network.site("B")
    link = network.link(a, b)
    consumer = b.client()
    queue = consumer.temporary_queue()
    consumer.consumes(queue.qualified_name)
    network.settles()
    link.stalled = True
    a.client().sends(queue.qualified_name, "late", persistent=False)
    network.settles()
    consumer.leaves()
    network.settles()
    link.stalled = False
    network.settles()
    counts = bridge_of(link).statistics()
    assert (counts.sent, counts.failed) == (1, 1)


def test_the_counts_of_several_lives_of_a_link_add_up() -> None:
    whole, part = BridgeStatistics(), BridgeStatistics()
    part.sent, part.answered, part.received, part.failed, part.unserved = 1, 2, 3, 4, 5
    barrier = NetworkFilter("B", 2)
    assert [barrier.passes(path) for path in (("A", "B"), ("A", "C"), ("A",))] == [False, False, True]
    part.refusals.add(barrier.refusals)
    for _ in range(2):
        whole.add(part)
    assert (whole.sent, whole.answered, whole.received, whole.failed, whole.unserved) == (2, 4, 6, 8, 10)
    assert whole.refusals.by_reason() == {"path": 2, "ttl": 2}


def test_only_what_occurred_is_printed() -> None:
    assert counted({"received": 0, "failed": 0, "filtered": {}}) == ""
    shown = counted({"received": 3, "failed": 1, "unserved": 2, "filtered": {"path": 4, "ttl": 1}})
    assert shown == ", received 3, failed 1, unserved 2, held back path 4, ttl 1"


def test_a_link_knows_the_ways_to_consumers_behind_the_remote_broker() -> None:
    network = Network()
    a, b, c, d = [network.site(name) for name in "ABCD"]
    settings = BridgeSettings(message_ttl=3, consumer_ttl=3)
    first = network.link(a, b, settings)
    network.link(b, c, settings)
    network.link(c, d, settings)
    b.client().consumes("queue://NEAR")
    c.client().consumes("queue://MIDDLE")
    far = d.client()
    far.consumes("queue://FAR")
    network.settles()
    assert bridge_of(first).ways(9) == (("B", "C"), ("B", "C", "D"))
    assert len(bridge_of(first).ways(1)) == 1
    far.leaves()
    network.settles()
    assert bridge_of(first).ways(9) == (("B", "C"),)


def test_each_way_that_leads_on_is_a_line_of_the_map() -> None:
    assert beyond([["B"], ["B", "C"], ["B", "C", "D"]]) == ["    leads on: B -> C", "    leads on: B -> C -> D"]
    assert beyond(None) == []
