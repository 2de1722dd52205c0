"""Messages of a topic with many subscribers: some in each turn, in order for each, whoever comes and goes meanwhile."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.advisory import consumer_advisory
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.topic import FAN_OUT_STEPS, MAX_FAN_OUTS, PER_STEP, Topic
from spanwire.broker.topic_policy import PRIORITY, DispatchPolicy, PendingLimit, TopicPolicy
from spanwire.model.destination import parse_destination
from tests.support.dialogue.broker_dialogue import Listener, Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories

TOPIC: Final = "topic://T"
MANY: Final = 3 * FAN_OUT_STEPS + 20


def crowd(stage: Stage, count: int = MANY, destination: str = TOPIC) -> list[Listener]:
    listeners: list[Listener] = []
    for number in range(0, count, 500):
        peer = stage.peer(f"crowd{number}")
        listeners.extend(peer.consumes(destination) for _ in range(min(500, count - number)))
    slices(stage)
    for listener in listeners:
        listener.takes()
    return listeners


def slices(stage: Stage, at_most: int = 4 * FAN_OUT_STEPS) -> int:
    """Turns until nothing is left to do; in each turn so many messages are dispatched at the most."""
    found = 0
    while stage.broker.next_timeout() == 0.0:
        before = len(stage.dispatches)
        stage.runs()
        assert len(stage.dispatches) - before <= at_most
        flush(stage)
        found += 1
        assert found < 10_000
    return found


def flush(stage: Stage) -> None:
    """What was dispatched last is with the kernel, so that dispatches may go on."""
    for peer in {listener.peer for listener, _ in stage.dispatches[-4 * FAN_OUT_STEPS :]}:
        peer.flushes()


def topic_of(stage: Stage) -> Topic:
    home = stage.broker.home_of(parse_destination(TOPIC))
    assert isinstance(home, Topic)
    return home


@pytest.mark.parametrize(
    "policy",
    [
        TopicPolicy(),
        TopicPolicy(pending_limit=PendingLimit(1_000)),
        TopicPolicy(dispatch=DispatchPolicy(PRIORITY)),
    ],
    ids=["plain", "tuned", "sorted"],
)
def test_a_message_to_many_subscribers_is_dispatched_in_slices(policy: TopicPolicy) -> None:
    stage = Stage(PolicyEntry(parse_destination("topic://>"), topic=policy))
    listeners = crowd(stage)
    stage.peer("p").sends(TOPIC, "1")
    assert sum(len(listener.out) for listener in listeners) == FAN_OUT_STEPS
    assert slices(stage, FAN_OUT_STEPS) == 3
    assert {tuple(listener.out) for listener in listeners} == {("1",)}


def test_messages_to_many_subscribers_come_in_order_to_each() -> None:
    stage = Stage()
    listeners = crowd(stage)
    texts = [str(number) for number in range(MAX_FAN_OUTS)]
    stage.peer("p").sends(TOPIC, *texts)
    slices(stage, FAN_OUT_STEPS)
    for listener in listeners:
        assert listener.out == texts


def test_a_subscriber_that_comes_between_slices_gets_what_is_sent_from_then_on() -> None:
    stage = Stage()
    listeners = crowd(stage)
    producer = stage.peer("p")
    producer.sends(TOPIC, "1")
    late = stage.peer("late").consumes(TOPIC)
    producer.sends(TOPIC, "2")
    slices(stage)
    assert late.out == ["2"]
    assert {tuple(listener.out) for listener in listeners} == {("1", "2")}


def test_subscribers_that_go_between_slices_get_nothing_more_and_the_others_all() -> None:
    stage = Stage()
    listeners = crowd(stage)
    producer = stage.peer("p")
    producer.sends(TOPIC, "1", "2")
    flush(stage)
    leaving = [*listeners[:3], *listeners[-3:], *listeners[FAN_OUT_STEPS - 2 : FAN_OUT_STEPS + 2]]
    had = [list(listener.out) for listener in leaving]
    for listener in leaving:
        listener.leaves()
    producer.sends(TOPIC, "3")
    slices(stage)
    assert [listener.out for listener in leaving] == had
    for listener in listeners:
        if listener not in leaving:
            assert listener.out == ["1", "2", "3"]


def test_a_topic_whose_subscribers_have_gone_between_slices_keeps_no_message() -> None:
    stage = Stage()
    listeners = crowd(stage)
    topic = topic_of(stage)
    stage.peer("p").sends(TOPIC, "1", "2")
    for peer in {listener.peer for listener in listeners}:
        peer.leaves()
    slices(stage)
    assert topic.usage.used_bytes == 0
    assert topic.consumer_count == 0


def test_a_crowd_that_shrinks_between_slices_gets_messages_in_order() -> None:
    stage = Stage()
    listeners = crowd(stage)
    producer = stage.peer("p")
    producer.sends(TOPIC, "1")
    kept = listeners[-2:]
    for listener in listeners[:-2]:
        listener.leaves()
    producer.sends(TOPIC, "2")
    slices(stage)
    assert [listener.out for listener in kept] == [["1", "2"]] * 2


def test_sends_wait_while_many_messages_are_on_their_way_and_go_on_in_order() -> None:
    stage = Stage()
    listeners = crowd(stage)
    producer = stage.peer("p")
    texts = [str(number) for number in range(3 * MAX_FAN_OUTS)]
    producer.sends(TOPIC, *texts)
    assert producer.state.reading_paused
    assert len(producer.state.parked) == 2 * MAX_FAN_OUTS
    slices(stage)
    assert not producer.state.reading_paused
    for listener in listeners:
        assert listener.out == texts


def test_a_send_that_waits_for_subscribers_is_answered_and_no_policy_refuses_it() -> None:
    entry = PolicyEntry(parse_destination("topic://>"), send_fail_if_no_space=True, send_fail_after_ms=1)
    stage = Stage(entry)
    crowd(stage)
    producer = stage.peer("p")
    producer.sends(TOPIC, *[str(number) for number in range(MAX_FAN_OUTS + 1)])
    stage.waits(1)
    producer.sends(TOPIC, "last")
    slices(stage)
    assert producer.reports == []
    assert set(producer.answers.values()) == {None}
    assert len(producer.answers) == MAX_FAN_OUTS + 2


def test_durable_subscribers_beside_many_others_have_each_message_once_and_the_answer_waits_for_the_disk() -> None:
    stage = Stage()
    durable = stage.peer("d", client_id="d").consumes(TOPIC, durable="d")
    listeners = crowd(stage)
    producer = stage.peer("p")
    texts = [str(number) for number in range(5)]
    producer.sends(TOPIC, *texts)
    slices(stage)
    assert len(producer.answers) == 0
    stage.settle()
    slices(stage)
    flush(stage)
    slices(stage)
    assert durable.out == texts
    assert len(producer.answers) == len(texts)
    assert {tuple(listener.out) for listener in listeners} == {tuple(texts)}


def test_an_advisory_to_many_listeners_is_told_in_slices_and_in_order_over_topics() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    listeners = crowd(stage, destination="topic://ActiveMQ.Advisory.Consumer.>")
    peer = stage.peer("c")
    names = ["queue://A", "queue://B", "queue://A"]
    for name in names:
        peer.consumes(name)
    assert slices(stage, FAN_OUT_STEPS + PER_STEP) >= 9
    for peer in {listener.peer for listener in listeners}:
        peer.flushes()
    wanted = [consumer_advisory(parse_destination(name)) for name in names]
    for listener in listeners:
        assert [delivery.message.destination for delivery in listener.deliveries[-3:]] == wanted


def test_a_request_counts_a_step_for_some_subscribers_that_get_its_message() -> None:
    stage = Stage()
    crowd(stage, 10 * PER_STEP)
    producer = stage.peer("p")
    before = stage.broker.steps
    producer.sends(TOPIC, "1")
    assert stage.broker.steps - before == 11
