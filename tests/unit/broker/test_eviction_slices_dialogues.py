"""Slow consumers of one topic, so many that their pending messages are looked at in several turns."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.fan_out import STEPS_OF_REQUEST
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import (
    FIXED_COUNT,
    LOWEST_PRIORITY,
    OLDEST,
    UNIQUE_PROPERTY,
    EvictionPolicy,
    PendingLimit,
    RecoveryPolicy,
    TopicPolicy,
)
from spanwire.broker.topic.message_eviction import MAX_CANDIDATES, Eviction
from spanwire.broker.topic.pending_eviction import (
    DISCARD_LOOKS,
    LOOKS_PER_STEP,
    MAX_BACKLOG,
    MAX_LOOKS,
    MAX_OVERDUE,
)
from spanwire.model.destination import TOPIC, Destination
from spanwire.protocols.base import REQUEST_STEPS
from tests.support.dialogue.broker_dialogue import Listener, Stage
from tests.support.dialogue.text_format import text_message, text_of

T: Final = "topic://T"
SEVERAL: Final = "topic://T,U,V,W,X,Y"
LIMIT: Final = 400
KINDS: Final = (LOWEST_PRIORITY, UNIQUE_PROPERTY)
MANY: Final = 2 * MAX_LOOKS // LIMIT
ONE_LOOK: Final = 5 * MAX_CANDIDATES + MAX_CANDIDATES * (DISCARD_LOOKS + MAX_CANDIDATES // 64)  # at one consumer


def evicting(kind: str, limit: int = LIMIT, **more: RecoveryPolicy | int) -> Stage:
    mark = more.get("expired_mark", 1_000)
    recovery = more.get("recovery")
    assert isinstance(mark, int) and not isinstance(recovery, int)
    tuning = TopicPolicy(
        recovery=recovery, pending_limit=PendingLimit(limit), eviction=EvictionPolicy(kind, "stock", expired_mark=mark)
    )
    return Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning))


def slow_consumers(stage: Stage, count: int, destination: str = T) -> list[Listener]:
    peer = stage.peer("slow")
    return [peer.consumes(destination, prefetch=1) for _ in range(count)]


def sends(stage: Stage, start: int, end: int) -> None:
    """Messages of changing priority; each tenth has a property that only the one thirty before it has, too."""
    producer = stage.peer(f"p{start}")
    for number in range(start, end):
        stock: dict[str, object] = {"stock": str(number % 30 if number % 10 == 0 else number)}
        producer.sends(
            T, str(number), priority=number * 7 % 10, properties=stock, timestamp_ms=number + 1, persistent=False
        )


def pending(listener: Listener) -> list[str]:
    return [text_of(reference.message) for reference in listener.subscription.pending]


def runs(stage: Stage, waiting: int = 0) -> int:
    """The turns that are left; ``waiting`` are the steps of a message that is taken with the work of a turn."""
    turns = 0
    while stage.broker.next_timeout() == 0.0:
        before = stage.broker.steps
        stage.runs()
        assert stage.broker.steps - before <= 2 + (MAX_LOOKS + ONE_LOOK) // LOOKS_PER_STEP + waiting
        turns += 1
    return turns


@pytest.mark.parametrize("kind", KINDS)
def test_pending_messages_of_many_slow_consumers_are_looked_at_in_slices(kind: str) -> None:
    alone = evicting(kind)
    (single,) = slow_consumers(alone, 1)
    stage = evicting(kind)
    listeners = slow_consumers(stage, MANY)
    sends(stage, 0, LIMIT + 1)
    assert {len(pending(listener)) for listener in listeners} == {LIMIT}
    before = stage.broker.steps
    sends(stage, LIMIT + 1, LIMIT + 2)
    assert stage.broker.steps - before <= 4 + MANY // 16 + (MAX_LOOKS + ONE_LOOK) // LOOKS_PER_STEP
    lengths = [len(pending(listener)) for listener in listeners]
    assert lengths[0] <= LIMIT < lengths[-1]
    assert runs(stage) >= 1
    sends(alone, 0, LIMIT + 2)
    assert [pending(listener) for listener in listeners] == [pending(single)] * MANY


def test_messages_that_come_while_others_are_looked_at_leave_what_one_after_the_other_would_leave() -> None:
    alone = evicting(LOWEST_PRIORITY)
    (single,) = slow_consumers(alone, 1)
    stage = evicting(LOWEST_PRIORITY)
    listeners = slow_consumers(stage, MANY)
    sends(stage, 0, LIMIT + 40)
    assert len(pending(listeners[-1])) > LIMIT
    runs(stage)
    sends(alone, 0, LIMIT + 40)
    assert [pending(listener) for listener in listeners] == [pending(single)] * MANY


@pytest.mark.parametrize("committed", [False, True])
def test_all_messages_and_topics_of_one_request_share_its_looks(committed: bool) -> None:
    """The first turn, and each one behind it, looks no more often for many messages than for one."""
    alone = evicting(LOWEST_PRIORITY)
    (single,) = slow_consumers(alone, 1)
    stage = evicting(LOWEST_PRIORITY)
    listeners = slow_consumers(stage, MANY // 2, SEVERAL)
    sends(stage, 0, LIMIT + 1)
    before = stage.broker.steps
    producer = stage.peer("p")
    if committed:
        producer.begins(1)
        for number in range(LIMIT + 1, LIMIT + 21):
            producer.sends(T, str(number), priority=number * 7 % 10, persistent=False, transaction=1)
        before = stage.broker.steps
        producer.commits(1)
    else:
        producer.sends(SEVERAL, "all", priority=9, persistent=False)
    assert stage.broker.steps - before <= 100 + MANY // 16 + (MAX_LOOKS + ONE_LOOK) // LOOKS_PER_STEP
    runs(stage)
    sends(alone, 0, LIMIT + 1)
    if committed:
        sends(alone, LIMIT + 1, LIMIT + 21)
    else:
        alone.peer("p").sends(T, *["all"] * 6, priority=9, persistent=False)
    assert [pending(listener) for listener in listeners] == [pending(single)] * (MANY // 2)


def test_more_messages_than_one_turn_discards_are_discarded_in_the_end() -> None:
    count = MAX_LOOKS // DISCARD_LOOKS // 2
    stage = evicting(OLDEST, limit=2)
    peers = [stage.peer(f"c{number}") for number in range(1 + 2 * count // 1_000)]
    started = [peers[number // 1_000].consumes(T, prefetch=1) for number in range(count)]
    announced = [peers[-1 - number // 1_000].announces(T, prefetch=1) for number in range(count)]
    sends(stage, 0, 8)
    assert len(pending(announced[-1])) > 3
    runs(stage)
    assert {tuple(pending(listener)) for listener in started} == {("6", "7")}
    assert {tuple(pending(listener)) for listener in announced} == {("0", "6", "7")}


@pytest.mark.large
def test_slow_consumers_keep_no_more_than_a_few_messages_over_the_limit_however_fast_messages_come() -> None:
    count = 3 * MAX_LOOKS // DISCARD_LOOKS
    stage = evicting(OLDEST, limit=2)
    peers = [stage.peer(f"c{number}") for number in range(1 + count // 1_000)]
    listeners = [peers[number // 1_000].consumes(T, prefetch=1) for number in range(count)]
    for number in range(0, 2 * MAX_OVERDUE, 2):
        sends(stage, number, number + 1)
        sends(stage, number + 1, number + 2)
        stage.runs()
    assert max(len(listener.subscription.pending) for listener in listeners) == 2 + MAX_OVERDUE
    runs(stage, 1 + count // STEPS_OF_REQUEST)
    newest = (str(2 * MAX_OVERDUE - 2), str(2 * MAX_OVERDUE - 1))
    assert {tuple(pending(listener)) for listener in listeners} == {newest}


@pytest.mark.parametrize(
    ("kind", "count", "limit"),
    [(LOWEST_PRIORITY, 60, MAX_CANDIDATES), (UNIQUE_PROPERTY, 60, MAX_CANDIDATES), (LOWEST_PRIORITY, 150, LIMIT)],
)
@pytest.mark.large
def test_choices_among_many_pending_messages_keep_up_with_producers(kind: str, count: int, limit: int) -> None:
    """Each of two producers takes as many steps in a turn as the requests of one connection may."""
    stage = evicting(kind, limit=limit)
    listeners = slow_consumers(stage, count)
    producers = [stage.peer("p"), stage.peer("q")]
    largest = 0
    sent = 0
    while sent < limit + 3 * MAX_BACKLOG // 2:
        for producer in producers:
            before = stage.broker.steps
            while stage.broker.steps - before < REQUEST_STEPS:
                producer.sends(T, str(sent), priority=sent % 10, persistent=False)
                sent += 1
        stage.runs()
        largest = max(largest, *[len(listener.subscription.pending) for listener in listeners])
    assert largest <= limit + MAX_BACKLOG
    runs(stage)
    assert {len(listener.subscription.pending) for listener in listeners} == {limit}


def test_a_consumer_that_takes_its_messages_before_its_turn_loses_none() -> None:
    stage = evicting(LOWEST_PRIORITY)
    last = slow_consumers(stage, MANY)[-1]
    sends(stage, 0, LIMIT + 2)
    assert len(pending(last)) == LIMIT + 1
    last.acknowledges("0")
    last.peer.flushes()
    runs(stage)
    assert len(pending(last)) == LIMIT
    assert sorted([*pending(last), *last.out], key=int) == [str(number) for number in range(LIMIT + 2)]


@pytest.mark.parametrize("wildcard", [False, True])
@pytest.mark.large
def test_consumers_and_topics_that_go_before_their_turn_leave_nothing_behind(wildcard: bool) -> None:
    stage = evicting(UNIQUE_PROPERTY)
    listeners = slow_consumers(stage, MANY, "topic://*" if wildcard else T)
    sends(stage, 0, LIMIT + 2)
    assert len(pending(listeners[-1])) > LIMIT
    listeners[-1].leaves()
    runs(stage)
    assert {len(pending(listener)) <= LIMIT for listener in listeners} == {True}
    sends(stage, LIMIT + 2, LIMIT + 3)
    listeners[0].peer.leaves()
    runs(stage)
    assert stage.memory() == 0
    assert not stage.broker._context.has_jobs()


def test_expired_messages_go_first_also_in_a_later_turn() -> None:
    stage = evicting(LOWEST_PRIORITY, expired_mark=2)
    listeners = slow_consumers(stage, MANY)
    sends(stage, 0, LIMIT - 1)
    expiry = stage.now.wall_ms + 100
    stage.peer("e").sends(T, "e 1", "e 2", priority=9, expiration_ms=expiry, persistent=False)
    stage.waits(1.0)
    sends(stage, LIMIT - 1, LIMIT + 1)
    runs(stage)
    assert {tuple(pending(listener)) for listener in listeners} == {tuple(str(n) for n in range(1, LIMIT + 1))}
    assert stage.view(T).expired == 2 * MANY


def test_kept_messages_of_a_late_consumer_are_looked_at_in_slices() -> None:
    stage = evicting(LOWEST_PRIORITY, recovery=RecoveryPolicy(FIXED_COUNT, 10_000))
    sends(stage, 0, 3 * LIMIT)
    late = stage.peer("late").consumes(T, prefetch=1, retroactive=True)
    assert runs(stage) >= LIMIT * LIMIT // MAX_LOOKS
    assert len(pending(late)) == LIMIT


@given(priorities=st.lists(st.integers(0, 9), min_size=1, max_size=40), over=st.integers(1, 20))
def test_several_victims_at_once_are_those_that_one_after_the_other_would_be(priorities: list[int], over: int) -> None:
    destination = BrokerDestination(Destination(TOPIC, "T"), PolicyEntry(Destination(TOPIC, "T")), MemoryUsage(0))
    waiting: list[MessageReference] = []
    for number, priority in enumerate(priorities):
        message = text_message(Destination(TOPIC, "T"), number, b"x", priority=priority)
        waiting.append(MessageReference(destination, message, 0, number, 0))
    for kind in (OLDEST, LOWEST_PRIORITY):
        eviction = Eviction(EvictionPolicy(kind), None)
        left = list(waiting)
        for _ in range(min(over, len(waiting))):
            (victim,) = eviction.victims(left, 1)
            del left[victim]
        together = eviction.victims(waiting, over)
        assert left == [reference for place, reference in enumerate(waiting) if place not in together]
        assert together == sorted(together)
