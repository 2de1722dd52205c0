"""Messages that go back where they came from, and bridges that get so many in a time."""

from __future__ import annotations

from spanwire.broker.policy.policy_entry import BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.queue.queue_consumers import FEW
from spanwire.model.destination import parse_destination
from spanwire.network.demand.bridge_settings import BridgeSettings
from tests.support.network_dialogue import Inbox, Network, Site

Q = "queue://Q"


def policies(**bridges: object) -> PolicyMap:
    bridge_policy = BridgePolicy(**bridges)  # type: ignore[arg-type]
    return PolicyMap([PolicyEntry(parse_destination("queue://>"), queue=QueuePolicy(bridges=bridge_policy))])


def pair(ttl: int = 3, **bridges: object) -> tuple[Network, Site, Site]:
    network = Network()
    a = network.site("A", policies=policies(**bridges))
    b = network.site("B", policies=policies(**bridges))
    network.link(a, b, BridgeSettings(name="link", message_ttl=ttl, consumer_ttl=ttl, duplex=True))
    network.settles()
    return network, a, b


def stuck_at_b(network: Network, a: Site, b: Site, count: int = 5) -> None:
    """A consumer at B drew messages there and left without reading them."""
    client = b.client()
    client.consumes(Q, prefetch=1, manual=True)
    network.settles()
    producer = a.client()
    for number in range(count):
        producer.sends(Q, f"m{number}")
    network.settles()
    client.leaves()
    network.settles()
    assert (a.queue("Q")[2], b.queue("Q")[2]) == (0, count)


def texts(inbox: Inbox) -> list[str]:
    return sorted(inbox.texts)


def test_without_replay_messages_stay_where_their_consumer_was() -> None:
    network, a, b = pair()
    stuck_at_b(network, a, b)
    inbox = a.client().consumes(Q)
    network.settles()
    assert inbox.texts == []
    assert b.queue("Q")[2] == 5


def test_with_replay_they_go_back_to_where_they_came_from() -> None:
    network, a, b = pair(replays=True)
    stuck_at_b(network, a, b)
    inbox = a.client().consumes(Q)
    network.settles()
    assert texts(inbox) == ["m0", "m1", "m2", "m3", "m4"]
    assert {one.path for one in inbox.received} == {("A", "B")}
    assert b.queue("Q")[2] == 0


def test_they_stay_while_somebody_consumes_here_and_go_when_the_last_one_leaves() -> None:
    network, a, b = pair(replays=True)
    stuck_at_b(network, a, b)
    client = b.client()
    client.consumes(Q, prefetch=1, manual=True)
    inbox = a.client().consumes(Q)
    network.settles()
    assert inbox.texts == []
    client.leaves()
    network.settles()
    assert texts(inbox) == ["m0", "m1", "m2", "m3", "m4"]


def test_a_consumer_whose_selector_wants_none_of_them_holds_them_up_unless_selectors_count() -> None:
    for aware, expected in ((False, 0), (True, 5)):
        network, a, b = pair(replays=True, selector_aware=aware)
        stuck_at_b(network, a, b)
        b.client().consumes(Q, selector="n = 7")
        inbox = a.client().consumes(Q)
        network.settles()
        assert len(inbox.received) == expected


def test_a_delay_holds_the_replay_back() -> None:
    network, a, b = pair(replays=True, replay_delay_ms=500)
    stuck_at_b(network, a, b)
    inbox = a.client().consumes(Q)
    network.settles()
    assert inbox.texts == []
    network.environment.advance(0.4)
    network.runs_timers()
    assert inbox.texts == []
    network.environment.advance(0.2)
    network.runs_timers()
    assert texts(inbox) == ["m0", "m1", "m2", "m3", "m4"]


def test_messages_go_back_and_forth_as_often_as_their_consumer_moves() -> None:
    network, a, b = pair(replays=True, ttl=10)
    stuck_at_b(network, a, b)
    client = a.client()
    client.consumes(Q, prefetch=1, manual=True)
    network.settles()
    assert (a.queue("Q")[2], b.queue("Q")[2]) == (5, 0)
    client.leaves()
    network.settles()
    inbox = b.client().consumes(Q)
    network.settles()
    assert texts(inbox) == ["m0", "m1", "m2", "m3", "m4"]
    assert {one.path for one in inbox.received} == {("A", "B", "A")}


def test_a_bridge_gets_only_so_many_messages_in_a_time() -> None:
    network, a, b = pair(rate_limit=3, rate_duration_ms=1000)
    inbox = b.client().consumes(Q)
    network.settles()
    producer = a.client()
    for number in range(8):
        producer.sends(Q, f"m{number}")
    network.settles()
    assert len(inbox.received) == 3
    network.environment.advance(1.0)
    network.runs_timers()
    assert len(inbox.received) == 6
    network.environment.advance(1.0)
    network.runs_timers()
    assert texts(inbox) == [f"m{number}" for number in range(8)]


def test_a_delay_that_is_over_when_the_consumer_moves_holds_nothing_back() -> None:
    network, a, b = pair(replays=True, replay_delay_ms=500)
    stuck_at_b(network, a, b)
    network.environment.advance(0.6)
    inbox = a.client().consumes(Q)
    network.settles()
    assert texts(inbox) == ["m0", "m1", "m2", "m3", "m4"]


def test_a_bridge_that_gets_only_so_many_goes_on_in_the_line_where_it_stopped() -> None:
    network, a, b = pair(rate_limit=2, rate_duration_ms=1000)
    inbox = b.client().consumes(Q)
    network.settles()
    producer = a.client()
    for number in range(40):
        producer.sends(Q, f"m{number}")
    network.settles()
    queue = a.broker.assembly.map.queue(parse_destination(Q))
    assert queue is not None
    for _ in range(19):
        network.environment.advance(1.0)
        network.runs_timers()
    assert texts(inbox) == sorted(f"m{number}" for number in range(40))
    assert (
        queue.selective.scanned <= 2 * 40
    )  # at the places of those that are gone as well; the whole line each time is 420


def test_a_bridge_beside_many_full_consumers_goes_on_after_its_pause() -> None:
    network, a, b = pair(rate_limit=1, rate_duration_ms=1000)
    crowd = a.client()
    full = [crowd.consumes(Q, prefetch=1, manual=True) for _ in range(FEW + 1)]
    producer = a.client()
    for number in range(FEW + 1):
        producer.sends(Q, f"m{number}")
    inbox = b.client().consumes(Q)
    network.settles()
    producer.sends(Q, "over the bridge")
    network.settles()
    producer.sends(Q, "in the pause")
    full[0].reads(1)
    assert [one.text for one in full[0].unread] == ["in the pause"]
    network.environment.advance(1.0)
    network.runs_timers()
    producer.sends(Q, "after the pause")
    network.settles()
    assert texts(inbox) == ["after the pause", "over the bridge"]
