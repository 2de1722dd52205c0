"""ActiveMQ's headers of SUBSCRIBE do what its options of consumers do: exclusive, priority, noLocal, prefetchSize,
maximumPendingMessageLimit.
"""

from __future__ import annotations

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.topic_policy import FIXED_COUNT, RETAINED, PendingLimit, RecoveryPolicy, TopicPolicy
from spanwire.model.destination import TOPIC, Destination
from tests.support.stomp_dialogue import Peer, Stage


def subscribes(stage: Stage, destination: str, *headers: str) -> Peer:
    """A client with one subscription."""
    peer = stage.peer("1.2")
    lines = "".join(f"{header}\n" for header in headers)
    peer.sends(f"SUBSCRIBE\nid:1\ndestination:{destination}\n{lines}\n\0")
    return peer


def sends(peer: Peer, destination: str, *bodies: str) -> None:
    for body in bodies:
        peer.sends(f"SEND\ndestination:{destination}\n\n{body}\0")


def bodies(peer: Peer) -> list[str]:
    return [frame.body.decode() for frame in peer.receives() if frame.command == "MESSAGE"]


def acks(peer: Peer) -> list[str]:
    """Acknowledge all that has come; the bodies."""
    frames = peer.receives()
    for frame in frames:
        peer.sends(f"ACK\nid:{frame.headers['ack']}\n\n\0")
    return [frame.body.decode() for frame in frames]


def test_an_exclusive_subscription_gets_everything() -> None:
    stage = Stage()
    plain = subscribes(stage, "/queue/Q")
    exclusive = subscribes(stage, "/queue/Q", "activemq.exclusive:true")
    sends(stage.peer("1.2"), "/queue/Q", "a", "b", "c")
    assert (bodies(plain), bodies(exclusive)) == ([], ["a", "b", "c"])


def test_the_next_exclusive_subscription_takes_over() -> None:
    stage = Stage()
    first = subscribes(stage, "/queue/Q", "activemq.exclusive:true")
    second = subscribes(stage, "/queue/Q", "activemq.exclusive:true")
    producer = stage.peer("1.2")
    sends(producer, "/queue/Q", "a")
    first.sends("UNSUBSCRIBE\nid:1\n\n\0")
    sends(producer, "/queue/Q", "b")
    assert (bodies(first), bodies(second)) == (["a"], ["b"])


def test_the_subscription_of_higher_priority_is_served_first() -> None:
    stage = Stage()
    low = subscribes(stage, "/queue/Q")
    high = subscribes(stage, "/queue/Q", "activemq.priority:5")
    sends(stage.peer("1.2"), "/queue/Q", "a", "b")
    assert (bodies(low), bodies(high)) == ([], ["a", "b"])


def test_no_local_leaves_out_what_the_client_sends_itself() -> None:
    stage = Stage()
    peer = subscribes(stage, "/topic/T", "activemq.noLocal:true")
    sends(peer, "/topic/T", "own")
    sends(stage.peer("1.2"), "/topic/T", "other's")
    assert bodies(peer) == ["other's"]


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_no_more_than_the_prefetch_size_is_out(mode: str) -> None:
    stage = Stage()
    peer = subscribes(stage, "/queue/Q", f"ack:{mode}", "activemq.prefetchSize:2")
    sends(stage.peer("1.2"), "/queue/Q", *"abcde")
    assert acks(peer) == ["a", "b"]
    assert acks(peer) == ["c", "d"]
    assert acks(peer) == ["e"]


def test_a_slow_subscriber_can_lower_the_limit_of_its_policy() -> None:
    stage = Stage(
        policies=PolicyMap([PolicyEntry(Destination(TOPIC, ">"), topic=TopicPolicy(pending_limit=PendingLimit(4)))])
    )
    peer = subscribes(
        stage, "/topic/T", "ack:client-individual", "activemq.prefetchSize:1", "activemq.maximumPendingMessageLimit:2"
    )
    sends(stage.peer("1.2"), "/topic/T", *"abcdef")
    assert acks(peer) == ["a"]
    assert acks(peer) == ["e"]
    assert acks(peer) == ["f"]
    assert acks(peer) == []


def test_a_retroactive_subscription_gets_what_its_topic_keeps() -> None:
    keeping = TopicPolicy(recovery=RecoveryPolicy(FIXED_COUNT, 2))
    stage = Stage(policies=PolicyMap([PolicyEntry(Destination(TOPIC, ">"), topic=keeping)]))
    producer = stage.peer("1.2")
    sends(producer, "/topic/T", *"abc")
    late = subscribes(stage, "/topic/T", "activemq.retroactive:true")
    plain = subscribes(stage, "/topic/T")
    sends(producer, "/topic/T", "d")
    assert (bodies(late), bodies(plain)) == (["b", "c", "d"], ["d"])


def test_a_message_can_be_retained() -> None:
    keeping = TopicPolicy(recovery=RecoveryPolicy(RETAINED))
    stage = Stage(policies=PolicyMap([PolicyEntry(Destination(TOPIC, ">"), topic=keeping)]))
    producer = stage.peer("1.2")
    there = subscribes(stage, "/topic/T")
    producer.sends("SEND\ndestination:/topic/T\nActiveMQ.Retain:true\ncolour:red\n\nkept\0")
    sends(producer, "/topic/T", "not kept")
    live = there.receives()
    assert [frame.body for frame in live] == [b"kept", b"not kept"]
    assert "ActiveMQ.Retain" not in live[0].headers and live[0].headers["colour"] == "red"
    (retained,) = subscribes(stage, "/topic/T", "activemq.retroactive:true").receives()
    assert retained.body == b"kept"
    assert retained.headers["ActiveMQ.Retained"] == "true" and "ActiveMQ.Retain" not in retained.headers
    producer.sends("SEND\ndestination:/topic/T\nActiveMQ.Retain:true\ncontent-length:0\n\n\0")
    assert subscribes(stage, "/topic/T", "activemq.retroactive:true").receives() == []


def test_headers_that_only_tune_the_java_broker_change_nothing() -> None:
    stage = Stage()
    peer = subscribes(stage, "/queue/Q", "activemq.dispatchAsync:false", "activemq.nosuch:1")
    sends(stage.peer("1.2"), "/queue/Q", "a")
    assert bodies(peer) == ["a"]


@pytest.mark.parametrize(
    "header", ["activemq.prefetchSize:x", "activemq.priority:", "activemq.maximumPendingMessageLimit:9999999999"]
)
def test_a_number_that_is_none_is_refused_and_the_connection_lives_on(header: str) -> None:
    stage = Stage()
    peer = subscribes(stage, "/queue/Q", header)
    (error,) = peer.receives()
    assert error.command == "ERROR"
    assert header.partition(":")[0] in error.headers["message"]
    assert not peer.closed
