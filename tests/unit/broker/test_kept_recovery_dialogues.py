"""What a topic keeps comes to a new consumer in slices: in order, before what is sent meanwhile, and all of it."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import FIXED_COUNT, PendingLimit, RecoveryPolicy, TopicPolicy
from spanwire.broker.topic.policy_topic import RECOVERY_STEPS
from spanwire.model.destination import TOPIC, Destination
from tests.support.dialogue.broker_dialogue import Listener, Stage

T: Final = "topic://T"
MANY: Final = 3 * RECOVERY_STEPS + 20
KEEPING: Final = RecoveryPolicy(FIXED_COUNT, 100_000)


def keeping(limit: int | None = None, memory_limit: int = 0) -> Stage:
    pending = None if limit is None else PendingLimit(limit)
    tuning = TopicPolicy(recovery=KEEPING, pending_limit=pending)
    return Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning, memory_limit_bytes=memory_limit))


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


def runs(stage: Stage, *listeners: Listener) -> int:
    """Turns until there is nothing to do; each gives a consumer one slice at most."""
    turns = 0
    while stage.broker.next_timeout() == 0.0:
        before = [len(listener.out) for listener in listeners]
        stage.runs()
        for listener, count in zip(listeners, before, strict=True):
            assert len(listener.out) - count <= RECOVERY_STEPS
            listener.peer.flushes()
        turns += 1
    return turns


def test_what_a_topic_keeps_comes_in_slices_and_before_what_is_sent_meanwhile() -> None:
    stage = keeping()
    producer = stage.peer("p")
    producer.sends(T, *numbers(MANY))
    late = stage.peer("a").consumes(T, retroactive=True, prefetch=10_000)
    assert len(late.out) == RECOVERY_STEPS
    late.peer.flushes()
    producer.sends(T, *numbers(5, MANY))
    stage.runs()
    producer.sends(T, *numbers(5, MANY + 5))
    assert runs(stage, late) == 2
    producer.sends(T, *numbers(5, MANY + 10))
    assert late.out == numbers(MANY + 15)
    sequences = [delivery.sequence for delivery in late.deliveries]
    assert sequences == sorted(set(sequences))
    late.acknowledges(str(MANY + 14))
    assert stage.memory() == kept_bytes(stage)


def kept_bytes(stage: Stage) -> int:
    topic = next(destination for destination in stage.broker.assembly.map.all() if destination.name.name == "T")
    assert topic.usage.used_bytes == 0
    memory = stage.broker.assembly.map._memory
    used: int = memory.usage.used_bytes
    return used


def test_few_kept_messages_come_in_one_turn() -> None:
    stage = keeping()
    stage.peer("p").sends(T, *numbers(RECOVERY_STEPS))
    late = stage.peer("a").consumes(T, retroactive=True)
    assert not stage.broker._context.has_jobs()
    assert late.out == numbers(RECOVERY_STEPS)


@pytest.mark.large
@pytest.mark.parametrize("prefetch", [10, 700, 10_000])
@pytest.mark.parametrize("limit", [0, 100])
@pytest.mark.parametrize("started", [True, False])
def test_a_limit_of_what_waits_leaves_a_consumer_its_window_and_the_newest_messages(
    prefetch: int, limit: int, started: bool
) -> None:
    stage = keeping(limit)
    stage.peer("p").sends(T, *numbers(MANY))
    late = stage.peer("a").announces(T, retroactive=True, prefetch=prefetch)
    if started:
        stage.broker.start_consumer(late.subscription, stage.now)
        late.peer.flushes()
    runs(stage, late)
    if not started:
        stage.broker.start_consumer(late.subscription, stage.now)
    late.peer.flushes()
    while late.takes():
        late.acknowledges(late.out[-1])
        late.peer.flushes()
    first, last = numbers(MANY)[:prefetch], numbers(MANY)[MANY - limit :]
    assert late.out == sorted({*first, *last}, key=int)


@pytest.mark.parametrize("limit", [0, 10])
def test_what_is_sent_meanwhile_drives_out_nothing_that_the_window_of_a_started_consumer_takes(limit: int) -> None:
    stage = keeping(limit)
    producer = stage.peer("p")
    producer.sends(T, *numbers(MANY))
    late = stage.peer("a").consumes(T, retroactive=True, prefetch=10_000)
    late.peer.flushes()
    producer.sends(T, *numbers(20, MANY))
    runs(stage, late)
    assert late.out == numbers(MANY + 20)


def test_a_consumer_that_goes_meanwhile_leaves_nothing_behind() -> None:
    for leaves_connection in (True, False):
        stage = keeping()
        producer = stage.peer("p")
        producer.sends(T, *numbers(MANY))
        late = stage.peer("a").consumes(T, retroactive=True, prefetch=100)
        producer.sends(T, *numbers(RECOVERY_STEPS + 10, MANY))
        if leaves_connection:
            late.peer.leaves()
        else:
            late.leaves()
        producer.sends(T, "last")
        runs(stage)
        assert stage.memory() == kept_bytes(stage)
        assert len(late.out) == 100


def test_a_selector_chooses_from_what_is_kept_and_makes_slices_smaller() -> None:
    stage = keeping()
    producer = stage.peer("p")
    for number in range(100):
        producer.sends(T, str(number), properties={"n": number % 2})
    selector = "n = 1 OR n = " + "2" * 90 + " OR b = '" + "x" * 6_000 + "'"
    late = stage.peer("a").consumes(T, retroactive=True, selector=selector)
    assert 0 < len(late.out) <= 3
    assert runs(stage, late) >= 15
    assert late.out == numbers(100)[1::2]


def test_a_consumer_of_a_wildcard_gets_what_each_topic_keeps_in_order() -> None:
    stage = keeping()
    producer = stage.peer("p")
    topics = [f"topic://K.{name}" for name in "abc"]
    for topic in topics:
        producer.sends(topic, *numbers(MANY))
    late = stage.peer("a").consumes("topic://K.*", retroactive=True, prefetch=10_000)
    late.peer.flushes()
    for topic in topics:
        producer.sends(topic, str(MANY))
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        late.peer.flushes()
    for topic in topics:
        got = [one.text for one in late.deliveries if one.message.destination.qualified_name == topic]
        assert got == numbers(MANY + 1)


def test_messages_that_are_sent_meanwhile_take_no_room_from_those_that_are_kept() -> None:
    sample = keeping()
    sample.peer("p").sends(T, *numbers(MANY))
    listener = sample.peer("a").announces(T, retroactive=True)
    runs(sample)
    size = sum(reference.message.size for reference in listener.subscription.pending)
    stage = keeping(memory_limit=size)
    producer = stage.peer("p")
    producer.sends(T, *numbers(MANY))
    late = stage.peer("a").announces(T, retroactive=True)
    producer.sends(T, *numbers(RECOVERY_STEPS, MANY))
    runs(stage)
    waiting = [reference.message.message_id.sequence for reference in late.subscription.pending]
    assert waiting == list(range(1, MANY + RECOVERY_STEPS + 1))


@pytest.mark.large
@settings(max_examples=25)
@given(
    st.sampled_from([3, RECOVERY_STEPS + 1, 2 * RECOVERY_STEPS + 10]),
    st.lists(st.sampled_from(["send", "run", "flush", "acknowledge", "expire"]), max_size=12),
)
def test_kept_and_later_messages_come_once_and_in_order_whatever_happens_meanwhile(
    count: int, moves: list[str]
) -> None:
    stage = keeping()
    producer = stage.peer("p")
    producer.sends(T, *numbers(count))
    late = stage.peer("a").consumes(T, retroactive=True, prefetch=300)
    sent = count
    for move in moves:
        if move == "send":
            producer.sends(T, *numbers(3, sent))
            sent += 3
        elif move == "run":
            stage.runs()
        elif move == "flush":
            late.peer.flushes()
        elif move == "acknowledge" and late.takes():
            late.acknowledges(late.out[-1])
        elif move == "expire":
            producer.sends(T, "gone", expiration_ms=stage.now.wall_ms + 1)
            stage.environment.advance(1)
    runs(stage)
    late.peer.flushes()
    while late.takes():
        late.acknowledges(late.out[-1])
        late.peer.flushes()
        runs(stage)
    assert [text for text in late.out if text != "gone"] == numbers(sent)
    assert stage.memory() == kept_bytes(stage)


def test_a_pull_does_not_end_while_the_consumer_is_still_given_what_the_topic_keeps() -> None:
    stage = keeping()
    producer = stage.peer("p")
    producer.sends(T, *["no"] * MANY, "yes", properties={"wanted": False})
    producer.sends(T, "last", properties={"wanted": True})
    late = stage.peer("a").consumes(T, retroactive=True, prefetch=0, selector="wanted")
    late.pulls(-1)
    assert (late.out, late.ends) == ([], 0)
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
    assert (late.out, late.ends) == (["last"], 0)
    late.pulls(-1)
    assert late.ends == 1
