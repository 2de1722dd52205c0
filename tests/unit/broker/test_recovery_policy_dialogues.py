"""What topics keep for consumers to come (ActiveMQ, "Subscription Recovery Policy", "Retroactive Consumer")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.dispatch.memory_usage import OVERSHOOT_SHARE
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import (
    FIXED_COUNT,
    FIXED_SIZE,
    LAST_IMAGE,
    RETAINED,
    TIMED,
    EvictionPolicy,
    PendingLimit,
    RecoveryPolicy,
    TopicPolicy,
)
from spanwire.broker.topic.subscription_recovery import KEPT_SHARE, SWEEP_SECONDS, SWEEPS_PER_TURN
from spanwire.model.destination import TOPIC, Destination
from tests.support.dialogue.broker_dialogue import Stage

T = "topic://T"


def keeping(recovery: RecoveryPolicy | None, always: bool = False, memory: int = 1024 * 1024 * 1024) -> Stage:
    tuning = TopicPolicy(recovery=recovery, always_retroactive=always)
    return Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning), memory_limit_bytes=memory)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RecoveryPolicy(FIXED_COUNT, 2), ["3", "4"]),
        (RecoveryPolicy(FIXED_COUNT, 9), ["1", "2", "3", "4"]),
        (RecoveryPolicy(LAST_IMAGE), ["4"]),
        (RecoveryPolicy(TIMED, 60_000), ["1", "2", "3", "4"]),
        (RecoveryPolicy(RETAINED), []),
        (None, []),
    ],
)
def test_a_retroactive_consumer_gets_what_its_topic_keeps_and_then_what_is_sent(
    policy: RecoveryPolicy | None, expected: list[str]
) -> None:
    stage = keeping(policy)
    producer = stage.peer("p")
    producer.sends(T, "1", "2", "3", "4")
    late = stage.peer("a").consumes(T, retroactive=True)
    plain = stage.peer("b").consumes(T)
    producer.sends(T, "5")
    assert late.takes() == [*expected, "5"]
    assert plain.takes() == ["5"]


def test_every_consumer_is_retroactive_where_the_policy_says_so() -> None:
    stage = keeping(RecoveryPolicy(LAST_IMAGE), always=True)
    producer = stage.peer("p")
    producer.sends(T, "1", "2")
    assert stage.peer("a").consumes(T).takes() == ["2"]
    producer.sends(T, "3")
    assert stage.peer("b").consumes(T).takes() == ["3"]


def test_a_durable_subscriber_gets_what_is_kept_while_nothing_waits_for_it() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 2))
    producer, peer = stage.peer("p"), stage.peer("a", client_id="c")
    producer.sends(T, "1", "2", "3")
    first = peer.consumes(T, durable="s", retroactive=True)
    assert first.takes() == ["2", "3"]
    first.acknowledges("3")
    first.leaves()
    second = peer.consumes(T, durable="s", retroactive=True)  # once more, as with ActiveMQ
    assert second.takes() == ["2", "3"]
    second.acknowledges("3")
    second.leaves()
    producer.sends(T, "4")
    assert peer.consumes(T, durable="s", retroactive=True).takes() == ["4"]


def test_a_durable_subscriber_that_does_not_ask_gets_nothing_that_is_kept() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 2), always=True)
    producer, peer = stage.peer("p"), stage.peer("a", client_id="c")
    producer.sends(T, "1", "2", "3")
    assert peer.consumes(T, durable="s").takes() == []


def test_a_durable_subscriber_has_its_selector_for_what_is_kept() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 9))
    producer, peer = stage.peer("p"), stage.peer("a", client_id="c")
    producer.sends(T, "red", properties={"colour": "red"})
    producer.sends(T, "blue", properties={"colour": "blue"})
    assert peer.consumes(T, durable="s", selector="colour = 'red'", retroactive=True).takes() == ["red"]


def test_what_is_kept_is_not_delivered_before() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 5))
    stage.peer("p").sends(T, "1", "2")
    late = stage.peer("a").consumes(T, retroactive=True, prefetch=1)
    assert late.redelivery_counts() == [("1", 0)]
    late.acknowledges("1")
    assert late.redelivery_counts() == [("2", 0)]
    again = stage.peer("b").consumes(T, retroactive=True)
    assert again.redelivery_counts() == [("1", 0), ("2", 0)]


def test_selector_and_deafness_hold_for_what_is_kept() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 9))
    peer = stage.peer("a")
    peer.sends(T, "own", properties={"colour": "red"})
    stage.peer("p").sends(T, "blue", properties={"colour": "blue"})
    assert peer.consumes(T, retroactive=True, selector="colour = 'red'").takes() == ["own"]
    assert peer.consumes(T, retroactive=True, no_local=True).takes() == ["blue"]


def test_what_is_kept_expires() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 9))
    stage.peer("p").sends(T, "short", expiration_ms=stage.now.wall_ms + 500)
    stage.peer("q").sends(T, "long")
    stage.waits(1.0)
    assert stage.peer("a").consumes(T, retroactive=True).takes() == ["long"]


def test_a_pattern_gets_what_each_of_its_topics_keeps() -> None:
    stage = keeping(RecoveryPolicy(LAST_IMAGE))
    producer = stage.peer("p")
    producer.sends("topic://A.1", "one", "two")
    producer.sends("topic://A.2", "three")
    assert sorted(stage.peer("a").consumes("topic://A.*", retroactive=True).takes()) == ["three", "two"]


def test_bytes_are_counted_as_activemq_counts_them() -> None:
    stage = keeping(RecoveryPolicy(FIXED_SIZE, 3 * (1024 + 100)))
    producer = stage.peer("p")
    texts = [str(number) * 50 for number in range(5)]
    producer.sends(T, *texts)
    assert stage.peer("a").consumes(T, retroactive=True).takes() == texts[-3:]
    producer.sends(T, "x" * 4_000)  # larger than all that is to be kept
    assert stage.peer("b").consumes(T, retroactive=True).takes() == []


def test_what_is_kept_for_a_time_goes_when_it_is_over_and_frees_its_memory() -> None:
    stage = keeping(RecoveryPolicy(TIMED, 3_000))
    producer = stage.peer("p")
    producer.sends(T, "1")
    stage.waits(2.0)
    producer.sends(T, "2")
    stage.waits(1.5)
    assert stage.peer("b").consumes(T, retroactive=True).takes() == ["2"]
    stage.settle()
    before = stage.memory()
    for _ in range(6):
        stage.waits(SWEEP_SECONDS)
        stage.settle()
    assert stage.memory() < before
    assert stage.peer("c").consumes(T, retroactive=True).takes() == []
    assert stage.broker.next_timeout() != 0.0


def test_nothing_is_looked_for_when_nothing_is_kept_for_a_time() -> None:
    stage = keeping(RecoveryPolicy(TIMED, 1_000))
    stage.settle()
    stage.peer("p").sends(T, "1")
    assert stage.broker.next_timeout() == pytest.approx(stage.now.monotonic + SWEEP_SECONDS)
    for _ in range(4):
        stage.waits(SWEEP_SECONDS)
        stage.settle()
    later = stage.broker.next_timeout()
    assert stage.memory() == 0
    assert later is None or later > stage.now.monotonic + SWEEP_SECONDS


def test_a_message_is_retained_until_one_without_content_or_another_comes() -> None:
    stage = keeping(RecoveryPolicy(RETAINED))
    producer = stage.peer("p")
    there = stage.peer("a").consumes(T)
    producer.sends(T, "kept", properties={"ActiveMQ.Retain": True, "n": 1})
    producer.sends(T, "not kept")
    live = there.takes_deliveries()
    assert [delivery.text for delivery in live] == ["kept", "not kept"]
    formats = stage.broker.formats
    assert list(formats.properties(live[0].message)) == ["n"]
    (retained,) = stage.peer("b").consumes(T, retroactive=True).takes_deliveries()
    assert retained.text == "kept"
    found = formats.properties(retained.message)
    assert found["ActiveMQ.Retained"][1] is True and "ActiveMQ.Retain" not in found
    producer.sends(T, "newer", properties={"ActiveMQ.Retain": True})
    assert stage.peer("c").consumes(T, retroactive=True).takes() == ["newer"]


def test_a_retained_message_comes_before_those_kept_otherwise() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 2))
    producer = stage.peer("p")
    producer.sends(T, "kept", properties={"ActiveMQ.Retain": True})
    producer.sends(T, "1", "2")
    assert stage.peer("a").consumes(T, retroactive=True).takes() == ["kept", "1", "2"]


def test_a_mark_that_does_not_say_true_retains_nothing() -> None:
    stage = keeping(RecoveryPolicy(RETAINED))
    stage.peer("p").sends(T, "1", properties={"ActiveMQ.Retain": "no"})
    assert stage.peer("a").consumes(T, retroactive=True).takes() == []
    assert stage.memory() == 0


def test_what_topics_keep_takes_a_share_of_memory_at_most_and_holds_up_no_send(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 1_000_000), memory=1_000_000)
    producer = stage.peer("p")
    for number in range(60):
        token = producer.sends(f"topic://T.{number % 3}", "x" * 20_000)
        assert producer.is_answered(token)
        assert stage.memory() <= 1_000_000 * KEPT_SHARE // 100
    assert stage.memory() > 200_000
    assert caplog.text.count("gives up its oldest messages") == 1
    assert len(stage.peer("a").consumes("topic://T.2", retroactive=True).takes()) > 0


def test_consumers_to_come_get_what_is_kept_as_far_as_memory_takes_it() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 100), memory=100_000)
    stage.peer("p").sends(T, *[f"{number:01000}" for number in range(20)], persistent=False)
    kept = stage.memory()
    peers = [stage.peer(f"c{number}") for number in range(8)]
    idle = [peer.consumes(T, retroactive=True, prefetch=1) for peer in peers]
    assert [len(listener.takes()) for listener in idle] == [1, 1, 1, 1, 0, 0, 0, 0]
    assert 90_000 < stage.memory() <= 1_000 * (100 + OVERSHOOT_SHARE)
    for peer in peers:
        peer.leaves()
    assert stage.memory() == kept


def test_a_message_too_large_for_that_share_is_not_kept() -> None:
    stage = keeping(RecoveryPolicy(LAST_IMAGE), memory=100_000)
    stage.peer("p").sends(T, "x" * 40_000)
    assert stage.memory() == 0
    assert stage.peer("a").consumes(T, retroactive=True).takes() == []


def test_what_a_topic_kept_goes_with_it() -> None:
    stage = keeping(RecoveryPolicy(FIXED_COUNT, 9))
    producer = stage.peer("p")
    producer.sends(T, "1", "2")
    producer.sends(T, "3", properties={"ActiveMQ.Retain": True})
    assert stage.memory() > 0
    producer.removes(T)
    assert stage.memory() == 0
    assert stage.peer("a").consumes(T, retroactive=True).takes() == []


def test_a_limit_of_what_waits_leaves_a_retroactive_consumer_its_prefetch() -> None:
    tuning = TopicPolicy(recovery=RecoveryPolicy(FIXED_COUNT, 9), pending_limit=PendingLimit(2))
    stage = Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning))
    stage.peer("p").sends(T, "1", "2", "3", "4", "5", "6", persistent=False)
    slow = stage.peer("a").consumes(T, retroactive=True, prefetch=1)
    assert slow.takes() == ["1"]
    slow.acknowledges("1")
    slow.acknowledges("5")
    assert slow.takes() == ["5", "6"]


KINDS = st.sampled_from(
    [
        RecoveryPolicy(FIXED_COUNT, 3),
        RecoveryPolicy(FIXED_SIZE, 3_000),
        RecoveryPolicy(LAST_IMAGE),
        RecoveryPolicy(TIMED, 1_500),
        RecoveryPolicy(RETAINED),
    ]
)
STEPS = st.lists(st.sampled_from(["send", "retain", "wait", "come", "acknowledge", "leave", "remove"]), max_size=25)


@given(policy=KINDS, steps=STEPS, memory=st.sampled_from([6_000, 20_000, 1_000_000]))
def test_memory_is_counted_to_the_byte_whatever_is_kept(policy: RecoveryPolicy, steps: list[str], memory: int) -> None:
    tuning = TopicPolicy(
        recovery=policy, always_retroactive=True, pending_limit=PendingLimit(2), eviction=EvictionPolicy()
    )
    stage = Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning), memory_limit_bytes=memory)
    producer = stage.peer("p")
    listeners = []
    for number, step in enumerate(steps):
        if step == "send":
            producer.sends(T, str(number), persistent=False)
        elif step == "retain":
            producer.sends(T, str(number), persistent=False, properties={"ActiveMQ.Retain": True})
        elif step == "wait":
            stage.waits(1.0)
        elif step == "come":
            listeners.append(stage.peer(f"c{number}").consumes(T, prefetch=1))
        elif step == "acknowledge" and listeners and listeners[-1].subscription.dispatched_count:
            listeners[-1].acknowledges(listeners[-1].out[-1])
        elif step == "leave" and listeners:
            listeners.pop().peer.leaves()
        elif step == "remove" and not listeners and stage.has(T):
            producer.removes(T)
    for listener in listeners:
        listener.peer.leaves()
    producer.leaves()
    assert stage.memory() <= memory * KEPT_SHARE // 100
    if stage.has(T):
        stage.peer("end").removes(T)
    assert stage.memory() == 0


def test_many_topics_are_looked_through_some_in_each_turn() -> None:
    stage = keeping(RecoveryPolicy(TIMED, 100))
    stage.settle()
    producer = stage.peer("p")
    for number in range(SWEEPS_PER_TURN + 50):
        producer.sends(f"topic://T.{number}", "x", persistent=False)
    before = stage.memory()
    stage.waits(SWEEP_SECONDS)
    assert 0 < stage.memory() < before
    assert stage.broker.next_timeout() == 0.0
    stage.runs()
    assert stage.memory() == 0
