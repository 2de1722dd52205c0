"""Who gets the messages of a topic, and in which order (ActiveMQ, "Dispatch Policies")."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry
from spanwire.broker.policy.topic_policy import (
    CLIENT_ID_FILTER,
    PRIORITY,
    PRIORITY_NETWORK,
    DispatchPolicy,
    TopicPolicy,
)
from spanwire.model.destination import TOPIC, Destination, parse_destination
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage

T = "topic://T"


def choosing(kind: str, advisories: AdvisoryPolicy | None = None) -> Stage:
    tuning = TopicPolicy(dispatch=DispatchPolicy(kind))
    told = advisories if advisories is not None else AdvisoryPolicy()
    return Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning, advisories=told))


def bridges(peer: Peer, number: int, priority: int, *beyond: int, network: bool = True) -> Listener:
    """A bridge that stands for some consumers beyond it."""
    info = ConsumerInfo(
        ConsumerId(peer.connection_id, 1, number),
        parse_destination(T),
        priority=priority,
        network_subscription=network,
        network_consumer_path=tuple(ConsumerId("ID:beyond", 1, one) for one in beyond),
    )
    listener = Listener(peer, info)
    listener.attached(peer.stage.broker.add_consumer(peer.state, info, listener, peer.stage.now))
    peer.stage.broker.start_consumer(listener.subscription, peer.stage.now)
    return listener


def test_consumers_of_a_higher_priority_get_a_message_first() -> None:
    stage = choosing(PRIORITY)
    peer = stage.peer("c")
    consumers = [peer.consumes(T, priority=priority) for priority in (1, 5, 3, 5)]
    stage.peer("p").sends(T, "a")
    assert [listener for listener, _ in stage.dispatches] == [consumers[place] for place in (1, 3, 2, 0)]
    consumers[1].leaves()
    stage.dispatches.clear()
    stage.peer("q").sends(T, "b")
    assert [listener for listener, _ in stage.dispatches] == [consumers[place] for place in (3, 2, 0)]


def test_of_bridges_that_stand_for_the_same_consumer_the_best_gets_the_messages() -> None:
    stage = choosing(PRIORITY_NETWORK)
    peer, producer = stage.peer("c"), stage.peer("p")
    low = bridges(peer, 1, -10, 7)
    best = bridges(peer, 2, -5, 7, 8)
    equal = bridges(peer, 3, -5, 8)
    other = bridges(peer, 4, -20, 9)
    local = bridges(peer, 5, -30, 7, network=False)
    producer.sends(T, "a")
    assert [one.takes() for one in (low, best, equal, other, local)] == [[], ["a"], [], ["a"], ["a"]]
    best.leaves()
    producer.sends(T, "b")
    assert [one.takes() for one in (low, equal, other, local)] == [["b"], ["b"], ["b"], ["b"]]


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.booleans(), st.lists(st.integers(0, 3), max_size=2, unique=True)), max_size=6
    )
)
def test_a_bridge_is_passed_by_only_where_another_one_stands_for_its_consumer(
    found: list[tuple[int, bool, list[int]]],
) -> None:
    stage = choosing(PRIORITY_NETWORK)
    peer = stage.peer("c")
    everybody = [
        bridges(peer, number, priority, *beyond, network=network)
        for number, (priority, network, beyond) in enumerate(found)
    ]
    stage.peer("p").sends(T, "a")
    takers: list[set[int]] = []
    for listener, (priority, network, beyond) in zip(everybody, found, strict=True):
        rivals = [
            other
            for one, other in zip(everybody, found, strict=True)
            if one is not listener and other[0] >= priority and other[1] and set(other[2]) & set(beyond)
        ]
        if listener.takes() == []:
            assert network and rivals
        elif network:
            assert not any(taker & set(beyond) for taker in takers)
            takers.append(set(beyond))


def test_a_message_that_names_a_client_goes_to_nobody_else() -> None:
    for told in (AdvisoryPolicy(), AdvisoryPolicy(delivered=True, no_consumers=True)):
        stage = choosing(CLIENT_ID_FILTER, told)
        name = "topic://NEWS.PTP"
        anna = stage.peer("a", client_id="anna").consumes(name)
        berta = stage.peer("b", client_id="berta").consumes(name)
        nobody = stage.peer("n").consumes(name)
        producer = stage.peer("p")
        producer.sends(name, "all")
        producer.sends(name, "one", properties={"PTP_CLIENTID": "anna"})
        producer.sends(name, "none", properties={"PTP_CLIENTID": "carla"})
        producer.sends(name, "number", properties={"PTP_CLIENTID": 7})
        assert [one.takes() for one in (anna, berta, nobody)] == [["all", "one"], ["all"], ["all"]]


def test_outside_topics_of_that_name_a_message_that_names_a_client_goes_to_nobody() -> None:
    stage = choosing(CLIENT_ID_FILTER)
    anna = stage.peer("a", client_id="anna").consumes(T)
    stage.peer("p").sends(T, "one", properties={"PTP_CLIENTID": "anna"})
    stage.peer("p2").sends(T, "all")
    assert anna.takes() == ["all"]


def test_a_durable_subscription_gets_what_is_for_its_client() -> None:
    stage = choosing(CLIENT_ID_FILTER)
    name = "topic://NEWS.PTP"
    first, second = stage.peer("a", client_id="anna"), stage.peer("b", client_id="berta")
    first.consumes(name, durable="s").leaves()
    second.consumes("topic://NEWS.>", durable="s").leaves()
    producer = stage.peer("p")
    producer.sends(name, "all")
    producer.sends(name, "one", properties={"PTP_CLIENTID": "anna"})
    stage.syncs()
    anna = first.consumes(name, durable="s")
    berta = second.consumes("topic://NEWS.>", durable="s")
    stage.syncs()
    assert anna.takes() == ["all", "one"]
    assert berta.takes() == ["all"]
    assert [one.dispatched_count for one in (anna.subscription, berta.subscription)] == [2, 1]


def test_memory_is_free_again_when_all_have_acknowledged() -> None:
    stage = choosing(CLIENT_ID_FILTER)
    anna = stage.peer("a", client_id="anna").consumes("topic://NEWS.PTP")
    stage.peer("p").sends("topic://NEWS.PTP", "one", persistent=False, properties={"PTP_CLIENTID": "anna"})
    assert stage.broker.statistics().memory_bytes > 0
    anna.acknowledges("one", count=1)
    assert stage.broker.statistics().memory_bytes == 0
