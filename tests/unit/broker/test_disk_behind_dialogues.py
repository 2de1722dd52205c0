"""Long work that stores copies waits while the disk is too far behind, and goes on by itself."""

from __future__ import annotations

import pytest

from spanwire.broker.persistence.unsynced_bytes import MAX_UNSYNCED_BYTES
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import LOWEST_PRIORITY, EvictionPolicy, PendingLimit, TopicPolicy
from spanwire.broker.queue.pending_messages import MAX_PAGE_BYTES
from spanwire.broker.topic.pending_eviction import MAX_LOOKS
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.unit.broker.test_operations_dialogues import retries

QUEUE = "queue://Q"
DLQ = "queue://ActiveMQ.DLQ"
MEGABYTE = 1_000_000
COUNT = 150


def sent(queue: str, lives_ms: int) -> Stage:
    """A broker just started on a store with many large messages."""
    stage = Stage()
    producer = stage.peer("p")
    for number in range(COUNT):
        producer.sends(queue, f"{number:03}" + "x" * MEGABYTE, expiration_ms=stage.now.wall_ms + lives_ms)
        if number % 40 == 0:
            stage.syncs()
    stage.syncs()
    return stage.restarts()


def copies(stage: Stage, queue: str) -> int:
    """Bytes of what the store has of a queue, synced or not."""
    return sum(message.size for message in stage.store.kept(destination(queue)))


def works_without_syncs(stage: Stage) -> None:
    """Reads are answered and jobs run while nothing is reported as stored."""
    for _ in range(2_000):
        stage.waits(0.05)
        if stage.store.reads:
            stage.store.answer(stage.broker, stage.now)
    assert not stage.store.reads


def goes_on(stage: Stage) -> None:
    """The disk catches up."""
    for _ in range(20):
        stage.syncs()
        stage.waits(0.05)
        stage.reads()
        stage.settle()


def test_dead_letters_of_expired_messages_wait_for_the_disk() -> None:
    stage = sent(QUEUE, 1_000)
    stage.waits(31.0)
    works_without_syncs(stage)
    assert MAX_UNSYNCED_BYTES // 2 < copies(stage, DLQ) <= MAX_UNSYNCED_BYTES + 2 * MAX_PAGE_BYTES
    goes_on(stage)
    assert len(stage.store.kept(destination(DLQ))) == COUNT
    assert stage.view(QUEUE).pending == 0


@pytest.mark.large
def test_dead_letters_that_are_retried_wait_for_the_disk() -> None:
    stage = sent(QUEUE, 1_000)
    stage.waits(31.0)
    goes_on(stage)
    stage = stage.restarts()
    observer = retries(stage)
    works_without_syncs(stage)
    assert observer.told == []
    assert MAX_UNSYNCED_BYTES // 2 < copies(stage, QUEUE) <= MAX_UNSYNCED_BYTES + 2 * MAX_PAGE_BYTES
    goes_on(stage)
    assert observer.told == [(COUNT, 0)]
    assert len(stage.store.kept(destination(QUEUE))) == COUNT


def test_messages_that_slow_consumers_lose_in_later_turns_wait_for_the_disk() -> None:
    limit = MAX_LOOKS // 40
    tuning = TopicPolicy(pending_limit=PendingLimit(limit), eviction=EvictionPolicy(LOWEST_PRIORITY))
    stage = Stage(PolicyEntry(destination("topic://>"), topic=tuning))
    consumer = stage.peer("c")
    slow = [consumer.consumes("topic://T", prefetch=1) for _ in range(COUNT)]
    producer = stage.peer("p")
    producer.sends("topic://T", "first", persistent=False)
    producer.sends("topic://T", "x" * MEGABYTE, priority=0)
    producer.sends("topic://T", *["y"] * limit, persistent=False)
    works_without_syncs(stage)
    assert MAX_UNSYNCED_BYTES <= copies(stage, DLQ) <= MAX_UNSYNCED_BYTES + 40 * MEGABYTE
    goes_on(stage)
    assert len(stage.store.kept(destination(DLQ))) == COUNT
    assert {len(listener.subscription.pending) for listener in slow} == {limit}
    assert not stage.broker._context.has_jobs()


@pytest.mark.large
def test_messages_for_which_slow_consumers_lose_others_wait_for_the_disk() -> None:
    stage = Stage(PolicyEntry(destination("topic://>"), topic=TopicPolicy(pending_limit=PendingLimit(1))))
    consumer = stage.peer("c")
    slow = [consumer.consumes("topic://T", prefetch=1) for _ in range(COUNT)]
    producer = stage.peer("p")
    tokens = [producer.sends("topic://T", f"{number}" + "x" * MEGABYTE) for number in range(4)]
    works_without_syncs(stage)
    assert MAX_UNSYNCED_BYTES <= copies(stage, DLQ) <= MAX_UNSYNCED_BYTES + 10 * MEGABYTE
    tokens.append(producer.sends("topic://T", "last"))
    assert [producer.is_answered(token) for token in tokens] == [True] * 4 + [False]
    goes_on(stage)
    assert producer.is_answered(tokens[-1])
    taken = sum([len(listener.out) for listener in slow])
    assert len(stage.store.kept(destination(DLQ))) == (len(tokens) - 1) * COUNT - taken
    assert {len(listener.subscription.pending) for listener in slow} == {1}
