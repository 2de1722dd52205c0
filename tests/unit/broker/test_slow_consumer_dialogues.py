"""Consumers that are slow for too long or too often are ended (ActiveMQ, "Slow Consumer Handling")."""

from __future__ import annotations

import pytest

from spanwire.broker.dispatch.slow_consumer_strategy import GRACE_SECONDS, LOOKS_PER_TURN
from spanwire.broker.policy.policy_entry import PolicyEntry, SlowConsumerPolicy
from spanwire.model.destination import QUEUE, TOPIC, Destination
from tests.support.dialogue.broker_dialogue import Listener, Stage

T = "topic://T"
Q = "queue://Q"
PERIOD_MS = 1_000


def watching(strategy: SlowConsumerPolicy) -> Stage:
    return Stage(
        PolicyEntry(Destination(TOPIC, ">"), slow_consumers=strategy),
        PolicyEntry(Destination(QUEUE, ">"), slow_consumers=strategy),
    )


def passes(stage: Stage, seconds: float) -> None:
    """Time goes by in small steps."""
    for _ in range(round(seconds * 20)):
        stage.waits(0.05)


def is_ended(listener: Listener) -> bool:
    return listener.closed is not None


def by_slowness(
    *, count: int = -1, slow_ms: int = 2_000, connection: bool = False, ignore_network: bool = True
) -> SlowConsumerPolicy:
    return SlowConsumerPolicy(count, slow_ms, PERIOD_MS, connection, ignore_network)


def by_acks(since_ms: int = 3_000, *, count: int = -1, slow_ms: int = 1_000, idle: bool = True) -> SlowConsumerPolicy:
    return SlowConsumerPolicy(count, slow_ms, PERIOD_MS, max_since_ack_ms=since_ms, ignore_idle_consumers=idle)


def test_a_consumer_of_a_topic_that_is_slow_for_too_long_is_told_to_end() -> None:
    stage = watching(by_slowness())
    slow, fast = stage.peer("a").consumes(T, prefetch=2), stage.peer("b").consumes(T)
    stage.peer("p").sends(T, *"123456")
    passes(stage, 1.2)
    assert not is_ended(slow)
    passes(stage, 1.2)
    assert is_ended(slow) and not is_ended(fast)
    assert slow.peer.closed_with is None
    assert "slow too often (>-1) or too long (>2000)" in str(slow.closed)


def test_a_client_that_does_not_end_it_loses_its_consumer_all_the_same() -> None:
    stage = watching(by_slowness())
    slow = stage.peer("a").consumes(T, prefetch=2)
    stage.peer("p").sends(T, *"123456")
    passes(stage, 2.2)
    assert is_ended(slow) and stage.view(T).consumers == 1
    passes(stage, GRACE_SECONDS + 0.1)
    assert stage.view(T).consumers == 0
    assert stage.memory() == 0
    passes(stage, 5.0)


def test_a_client_that_ends_it_itself_has_nothing_more_to_fear() -> None:
    stage = watching(by_slowness())
    slow = stage.peer("a").consumes(T, prefetch=2)
    stage.peer("p").sends(T, *"123456")
    passes(stage, 2.2)
    slow.leaves()
    passes(stage, 5.0)
    again = slow.peer.consumes(T, prefetch=2)
    passes(stage, 5.0)
    assert not is_ended(again)


def test_the_whole_connection_is_ended_where_the_policy_says_so() -> None:
    stage = watching(by_slowness(connection=True))
    slow = stage.peer("a").consumes(T, prefetch=2)
    stage.peer("p").sends(T, *"123456")
    passes(stage, 2.2)
    assert slow.peer.closed_with is not None and "slow" in str(slow.peer.closed_with)
    assert not is_ended(slow)


@pytest.mark.parametrize("texts", ["1234", "12"])
def test_a_consumer_for_which_no_more_than_its_prefetch_waits_is_not_slow(texts: str) -> None:
    stage = watching(by_slowness())
    consumer = stage.peer("a").consumes(T, prefetch=2)
    stage.peer("p").sends(T, *texts)
    passes(stage, 5.0)
    assert not is_ended(consumer)


def test_a_consumer_that_keeps_up_again_is_not_slow_any_more() -> None:
    stage = watching(by_slowness())
    consumer = stage.peer("a").consumes(T, prefetch=2)
    producer = stage.peer("p")
    producer.sends(T, *"123456")
    for text in "123456":
        consumer.acknowledges(text)
    producer.sends(T, "7")
    passes(stage, 5.0)
    assert not is_ended(consumer)


def test_a_consumer_that_is_slow_too_often_is_ended() -> None:
    stage = watching(by_slowness(count=2, slow_ms=-1))
    consumer = stage.peer("a").consumes(T, prefetch=2)
    producer = stage.peer("p")
    producer.sends(T, *"123456")
    passes(stage, 3.0)
    assert not is_ended(consumer)
    for text in "123456":
        consumer.acknowledges(text)
    producer.sends(T, *"abcdef")  # slow for the second time before anybody looked
    passes(stage, 1.2)
    assert is_ended(consumer)


def test_a_bridge_may_be_slow_unless_the_policy_says_otherwise() -> None:
    for ignored in (True, False):
        stage = watching(by_slowness(ignore_network=ignored))
        consumer = stage.peer("a").consumes(T, prefetch=2, network=True)
        stage.peer("p").sends(T, *"123456")
        passes(stage, 2.5)
        assert is_ended(consumer) != ignored


def test_a_durable_subscriber_that_lets_messages_wait_is_ended_and_loses_none() -> None:
    stage = watching(by_slowness())
    peer = stage.peer("a", client_id="c")
    slow = peer.consumes(T, prefetch=2, durable="s")
    stage.peer("p").sends(T, *"123456")
    passes(stage, 4.0 + GRACE_SECONDS)
    assert is_ended(slow)
    again = peer.consumes(T, durable="s")
    stage.settle()
    assert again.takes() == list("123456")


def test_a_consumer_of_a_queue_is_not_slow_by_what_waits() -> None:
    stage = watching(by_slowness())
    consumer = stage.peer("a").consumes(Q, prefetch=2)
    stage.peer("p").sends(Q, *"123456")
    passes(stage, 5.0)
    assert not is_ended(consumer)


@pytest.mark.parametrize("destination", [T, Q])
def test_a_consumer_that_acknowledges_nothing_for_too_long_is_ended(destination: str) -> None:
    stage = watching(by_acks())
    silent, fast = stage.peer("a").consumes(destination, prefetch=1), stage.peer("b").consumes(destination)
    producer = stage.peer("p")
    for number in range(12):
        producer.sends(destination, str(number))
        for text in fast.takes():
            fast.acknowledges(text)
        passes(stage, 0.5)
        if not 6 <= number <= 8:  # then it is ended, by the first check that finds it silent for three seconds
            assert is_ended(silent) == (number > 8)
    assert is_ended(silent) and not is_ended(fast)


def test_what_a_queue_s_aborted_consumer_had_goes_to_another_and_says_so() -> None:
    stage = watching(by_acks())
    silent = stage.peer("a").consumes(Q, prefetch=1)
    stage.peer("p").sends(Q, "1")
    passes(stage, 6.0)
    assert is_ended(silent)
    assert stage.peer("b").consumes(Q).redelivery_counts() == [("1", 1)]


def test_acknowledging_in_a_transaction_counts() -> None:
    stage = watching(by_acks(since_ms=2_000))
    consumer = stage.peer("a").consumes(Q)
    stage.peer("p").sends(Q, *"12345678")
    consumer.peer.begins(1)
    for text in "1234567":
        consumer.acknowledges(text, transaction=1)
        passes(stage, 1.0)
    assert not is_ended(consumer)


def test_what_a_client_says_it_delivered_counts() -> None:
    stage = watching(by_acks(since_ms=2_000))
    consumer = stage.peer("a").consumes(Q)
    stage.peer("p").sends(Q, *"12345678")
    for text in "2468":
        consumer.acknowledges(text, ack_type=0)  # delivered
        passes(stage, 1.0)
    consumer.acknowledges("8", first="1", count=8)
    passes(stage, 1.5)
    assert not is_ended(consumer)


def test_an_idle_consumer_is_left_alone_unless_the_policy_says_otherwise() -> None:
    for idle in (True, False):
        stage = watching(by_acks(idle=idle))
        consumer = stage.peer("a").consumes(Q)
        passes(stage, 6.0)
        assert is_ended(consumer) != idle


def test_a_consumer_that_had_nothing_for_long_has_the_whole_time_for_what_it_gets() -> None:
    stage = watching(by_acks(since_ms=3_000))
    consumer = stage.peer("a").consumes(Q)
    passes(stage, 20.9)  # a check is due in a moment
    stage.peer("p").sends(Q, "1")
    passes(stage, 2.8)
    assert not is_ended(consumer)
    passes(stage, 1.5)
    assert is_ended(consumer)


def test_a_silent_consumer_may_be_silent_for_some_checks() -> None:
    stage = watching(by_acks(since_ms=1_000, count=3, slow_ms=-1))
    consumer = stage.peer("a").consumes(Q)
    stage.peer("p").sends(Q, "1")
    passes(stage, 2.9)
    assert not is_ended(consumer)
    passes(stage, 0.5)
    assert is_ended(consumer)


def test_nobody_is_looked_at_when_nobody_is_there() -> None:
    stage = watching(by_acks())
    consumer = stage.peer("a").consumes(Q)
    stage.settle()
    assert stage.broker.next_timeout() == pytest.approx(stage.now.monotonic + PERIOD_MS / 4_000)
    consumer.leaves()
    passes(stage, 2.0)
    due = stage.broker.next_timeout()
    assert due is None or due > stage.now.monotonic + 5.0


def test_a_durable_subscriber_that_pulls_is_not_slow() -> None:
    stage = watching(by_slowness())
    peer = stage.peer("a", client_id="c")
    puller = peer.consumes(T, prefetch=0, durable="s")
    stage.peer("p").sends(T, *"123456")
    passes(stage, 5.0)
    assert not is_ended(puller)


def test_many_consumers_are_looked_at_some_in_each_turn() -> None:
    stage = watching(by_acks(since_ms=100, slow_ms=1))
    peers = [stage.peer(name) for name in "abc"]
    listeners = [peer.consumes(Q, prefetch=1) for peer in peers for _ in range(LOOKS_PER_TURN // 2)]
    stage.peer("p").sends(Q, *[str(number) for number in range(len(listeners))], persistent=False)
    stage.settle()
    stage.waits(PERIOD_MS / 1000)
    ended = sum(is_ended(listener) for listener in listeners)
    assert 0 < ended <= LOOKS_PER_TURN
    assert stage.broker.next_timeout() == 0.0
    stage.runs()
    assert all(is_ended(listener) for listener in listeners)
