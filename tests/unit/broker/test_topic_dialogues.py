"""Topics without durable subscriptions (JMS 1.1 §6)."""

from __future__ import annotations

import pytest

from spanwire.broker.dispatch.connection_output import MAX_OUTPUT_BYTES
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.model.destination import Destination
from tests.support.dialogue.broker_dialogue import Stage

TOPIC = "topic://T"


def test_every_subscriber_gets_each_message_once_and_in_order() -> None:
    stage = Stage()
    first, second = stage.peer("a").consumes(TOPIC), stage.peer("b").consumes(TOPIC)
    stage.peer("p").sends(TOPIC, "1", "2", "3")
    assert first.takes() == second.takes() == ["1", "2", "3"]


def test_a_subscriber_gets_what_is_sent_after_it_came() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(TOPIC, "before")
    listener = stage.peer("a").announces(TOPIC)
    producer.sends(TOPIC, "between")
    stage.broker.start_consumer(listener.subscription, stage.now)
    producer.sends(TOPIC, "after")
    assert listener.takes() == ["between", "after"]


def test_selectors_and_deafness_filter_for_one_subscriber_alone() -> None:
    stage = Stage()
    peer = stage.peer("a")
    red = peer.consumes(TOPIC, selector="colour = 'red'")
    deaf = peer.consumes(TOPIC, no_local=True)
    everything = peer.consumes(TOPIC)
    peer.sends(TOPIC, "own", properties={"colour": "red"})
    stage.peer("p").sends(TOPIC, "foreign", properties={"colour": "blue"})
    assert (red.takes(), deaf.takes(), everything.takes()) == (["own"], ["foreign"], ["own", "foreign"])


def test_a_slow_subscriber_waits_alone_and_in_order() -> None:
    stage = Stage()
    slow, fast = stage.peer("a").consumes(TOPIC, prefetch=1), stage.peer("b").consumes(TOPIC)
    stage.peer("p").sends(TOPIC, "1", "2", "3")
    assert (slow.takes(), fast.takes()) == (["1"], ["1", "2", "3"])
    assert stage.view(TOPIC).pending == 2
    slow.acknowledges("1")
    stage.peer("q").sends(TOPIC, "4")
    assert slow.takes() == ["2"]
    slow.acknowledges("2")
    slow.acknowledges("3")
    assert slow.takes() == ["3", "4"]


def test_memory_is_free_when_the_last_subscriber_is_done() -> None:
    stage = Stage()
    slow, fast = stage.peer("a").consumes(TOPIC, prefetch=1), stage.peer("b").consumes(TOPIC)
    producer = stage.peer("p")
    producer.sends(TOPIC, "1", "2")
    fast.acknowledges("2")
    assert stage.memory() > 0
    slow.acknowledges("1")
    slow.acknowledges("2")
    assert stage.memory() == 0
    producer.sends(TOPIC, "3", "4")
    slow.peer.leaves()
    fast.peer.leaves()
    assert stage.memory() == 0


def test_a_topic_without_subscribers_keeps_nothing() -> None:
    stage = Stage()
    stage.peer("p").sends(TOPIC, "1")
    stage.peer("a").consumes(TOPIC, selector="n = 1")
    stage.peer("p2").sends(TOPIC, "2")
    assert stage.memory() == 0
    assert stage.view(TOPIC).enqueued == 2


def test_a_pulling_subscriber_is_served_from_what_waits() -> None:
    stage = Stage()
    other = stage.peer("b").consumes(TOPIC, prefetch=1)
    listener = stage.peer("a").consumes(TOPIC, prefetch=0)
    listener.pulls(-1)
    assert listener.ends == 1
    stage.peer("p").sends(TOPIC, "1", "2")
    listener.pulls(-1)
    assert listener.takes() == ["1"]
    listener.pulls(-1)
    listener.pulls(-1)  # the other one still has something pending, this one has not
    assert (listener.takes(), listener.ends) == (["2"], 2)
    assert other.takes() == ["1"]


def test_a_message_reaches_a_subscriber_of_overlapping_patterns_once() -> None:
    stage = Stage()
    listener = stage.peer("a").consumes("topic://A.>,topic://A.*,topic://A.B")
    stage.peer("p").sends("topic://A.B", "1")
    stage.peer("p2").sends("topic://A.C", "2")
    stage.peer("p3").sends("topic://A.C.D", "3")
    assert listener.takes() == ["1", "2", "3"]


def test_a_connection_with_much_unsent_gets_nothing_more_until_it_is_sent() -> None:
    stage = Stage()
    peer = stage.peer("a")
    peer.reads = False
    topic, queue = peer.consumes(TOPIC), peer.consumes("queue://Q")
    fast = stage.peer("b").consumes(TOPIC)
    producer = stage.peer("p")
    big = "x" * (MAX_OUTPUT_BYTES // 2)
    producer.sends(TOPIC, *[big] * 4)
    producer.sends("queue://Q", "waits")
    assert len(topic.takes()) == 2
    assert queue.takes() == []
    assert stage.connection_view(peer).slow
    assert len(fast.takes()) == 2  # it has not flushed either
    fast.peer.flushes()
    assert len(fast.takes()) == 2
    peer.flushes(unsent=MAX_OUTPUT_BYTES + 1)
    assert topic.takes() == []
    peer.flushes(unsent=MAX_OUTPUT_BYTES)
    assert len(topic.takes()) == 1
    peer.flushes()
    assert len(topic.takes()) == 1
    assert queue.takes() == ["waits"]
    assert not stage.connection_view(peer).slow


def test_a_queue_passes_a_connection_by_that_does_not_read() -> None:
    stage = Stage()
    stuck, free = stage.peer("a"), stage.peer("b")
    stuck_listener, free_listener = stuck.consumes("queue://Q"), free.consumes("queue://Q")
    stuck.flushes(unsent=MAX_OUTPUT_BYTES + 1)
    stage.peer("p").sends("queue://Q", "1", "2", "3")
    assert (stuck_listener.takes(), free_listener.takes()) == ([], ["1", "2", "3"])


def test_connections_with_output_are_flushed_once_per_turn() -> None:
    stage = Stage()
    first, second = stage.peer("a"), stage.peer("b")
    first.consumes(TOPIC)
    second.consumes("queue://Q")
    stage.broker.take_dirty()
    stage.peer("p").sends(TOPIC, "1", "2", "3")
    assert stage.broker.take_dirty() == [first]
    assert stage.broker.take_dirty() == []
    stage.broker.mark_dirty(second.state)
    stage.broker.mark_dirty(second.state)
    assert stage.broker.take_dirty() == [second]


def test_over_the_limit_of_its_policy_a_slow_subscriber_loses_the_oldest_messages_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage(PolicyEntry(Destination(1, ">"), topic=TopicPolicy(pending_limit=PendingLimit(2))))
    slow, fast = stage.peer("a").consumes(TOPIC, prefetch=1), stage.peer("b").consumes(TOPIC)
    stage.peer("p").sends(TOPIC, "1", "2", "3", "4", "5", "6", persistent=False)
    assert fast.takes() == ["1", "2", "3", "4", "5", "6"]
    assert slow.takes() == ["1"]
    slow.acknowledges("1")
    slow.acknowledges("5")
    slow.acknowledges("6")
    assert slow.takes() == ["5", "6"]
    fast.acknowledges("6")
    assert stage.memory() == 0
    assert caplog.text.count("some are discarded") == 1


def test_a_limit_of_nothing_keeps_what_a_subscriber_can_take_at_once() -> None:
    stage = Stage(PolicyEntry(Destination(1, ">"), topic=TopicPolicy(pending_limit=PendingLimit(0))))
    slow = stage.peer("a").consumes(TOPIC, prefetch=1)
    stage.peer("p").sends(TOPIC, "1", "2", "3", persistent=False)
    slow.acknowledges("1")
    stage.peer("q").sends(TOPIC, "4")
    assert slow.takes() == ["1", "4"]
    slow.acknowledges("4")
    assert stage.memory() == 0


def test_without_a_limit_a_slow_subscriber_keeps_everything() -> None:
    stage = Stage()
    slow = stage.peer("a").consumes(TOPIC, prefetch=1)
    texts = [str(number) for number in range(2_000)]
    stage.peer("p").sends(TOPIC, *texts)
    for text in texts:
        slow.acknowledges(text)
    assert slow.takes() == texts


def test_a_wildcard_subscriber_over_the_limit_frees_the_memory_of_the_topic_it_loses_from() -> None:
    stage = Stage(PolicyEntry(Destination(1, ">"), topic=TopicPolicy(pending_limit=PendingLimit(1))))
    slow = stage.peer("a").consumes("topic://*", prefetch=1)
    producer = stage.peer("p")
    for topic in ("topic://A", "topic://B", "topic://C", "topic://D"):
        producer.sends(topic, topic, persistent=False)
    slow.acknowledges("topic://A")
    slow.acknowledges("topic://D")
    assert slow.takes() == ["topic://A", "topic://D"]
    assert stage.memory() == 0
