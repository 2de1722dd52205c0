"""Messages that many slow consumers lose become dead letters in slices, and nobody else waits for more than one."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import (
    LOWEST_PRIORITY,
    OLDEST,
    EvictionPolicy,
    PendingLimit,
    TopicPolicy,
)
from spanwire.broker.routing.dead_letters import CAUSE
from spanwire.broker.topic.pending_eviction import DISCARD_LOOKS, MADE_LOOKS, MAX_BACKLOG, MAX_LOOKS, MAX_OVERDUE
from spanwire.model.destination import MAX_COMPOSITE_PARTS, TOPIC, Destination
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination
from tests.support.dialogue.text_format import original_of, properties_of, text_of

DLQ: Final = destination("queue://ActiveMQ.DLQ")
NAMES: Final = [f"T.{number:02}" for number in range(MAX_COMPOSITE_PARTS)]
ALL: Final = "topic://" + ",".join(NAMES)
LETTERS: Final = MAX_LOOKS // (DISCARD_LOOKS + MADE_LOOKS) + 1  # of one request, and of one turn


def evicting(kind: str = OLDEST) -> Stage:
    tuning = TopicPolicy(pending_limit=PendingLimit(1), eviction=EvictionPolicy(kind, "stock"))
    return Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning))


def slow_consumers(stage: Stage, count: int, pattern: str = "topic://T.*") -> list[Listener]:
    """Consumers with one message out and one pending."""
    peer = stage.peer("slow")
    listeners = [peer.consumes(pattern, prefetch=1) for _ in range(count)]
    stage.settle()
    stage.peer("first").sends("topic://T.00", "out", "kept")
    return listeners


def letters(stage: Stage) -> list[Message]:
    return stage.store.kept(DLQ)


def runs(stage: Stage, turns: int = 100_000) -> int:
    """Turns until nothing is left to do; in each only so many dead letters are made."""
    done = 0
    while done < turns and (stage.broker.next_timeout() == 0.0 or stage.broker.awaits_disk()):
        before = len(letters(stage))
        stage.waits(0.01)
        assert len(letters(stage)) - before <= 2 * LETTERS
        stage.syncs()
        done += 1
    return done


def losses(stage: Stage) -> dict[str, list[tuple[str, str | None]]]:
    """Text and topic of what each consumer lost, in the order of the dead letters."""
    found: dict[str, list[tuple[str, str | None]]] = {}
    for letter in letters(stage):
        found.setdefault(str(properties_of(letter)[CAUSE]), []).append((text_of(letter), original_of(letter)))
    return found


def check_each_is_there_once(stage: Stage, listeners: list[Listener], rounds: int, in_order: bool) -> None:
    """Each consumer has each message of so many rounds once: received, pending or as a dead letter."""
    sent = [("out", "topic://T.00"), ("kept", "topic://T.00")]
    sent += [(str(number), f"topic://{name}") for number in range(rounds) for name in NAMES]
    lost = losses(stage)
    for listener in listeners:
        gone = lost.get(f"java.lang.Throwable: TopicSubDiscard. ID:{listener.info.consumer_id}", [])
        messages = [reference.message for reference in listener.subscription.pending]
        waiting = [(text_of(message), message.destination.qualified_name) for message in messages]
        assert listener.out == ["out"]
        assert sorted([*gone, *waiting]) == sorted(sent[1:])
        if in_order:
            assert gone == sent[1 : 1 + len(gone)]


def falls_behind(stage: Stage) -> None:
    """Each slow consumer has as many messages too many as it may have before sends wait."""
    producer = stage.peer("p")
    producer.sends(ALL, "a")
    producer.sends("topic://" + ",".join(NAMES[1 : MAX_OVERDUE - MAX_COMPOSITE_PARTS + 2]), "b")


@pytest.mark.large
def test_one_message_costs_many_slow_consumers_others_in_slices_and_the_next_message_waits() -> None:
    stage = evicting()
    listeners = slow_consumers(stage, 3 * LETTERS // 2)
    falls_behind(stage)
    assert max(len(listener.subscription.pending) for listener in listeners) <= 2 + MAX_OVERDUE
    runs(stage, 1)
    producer = stage.peer("q")
    tokens = []
    for text in ("one", "two", "three"):
        before = len(letters(stage))
        tokens.append(producer.sends("topic://T.01", text))
        assert len(letters(stage)) - before <= LETTERS
    assert not producer.is_answered(tokens[-1])
    elsewhere = stage.peer("r")
    assert elsewhere.is_answered(elsewhere.sends("topic://OTHER", "passes"))
    turns = 0
    while not producer.is_answered(tokens[-1]):
        turns += runs(stage, 1)
        assert max(len(listener.subscription.pending) for listener in listeners) <= 3 + MAX_OVERDUE
    assert turns >= 2
    stage.peer("again").sends("topic://T.01", "more")
    listeners[0].peer.leaves()
    runs(stage)
    assert stage.broker.statistics().parked_sends == 0
    assert stage.memory() == stage.view("queue://ActiveMQ.DLQ").memory_bytes
    assert not stage.broker._context.has_jobs()


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("kind", [OLDEST, LOWEST_PRIORITY])
@pytest.mark.large
def test_each_message_that_slow_consumers_lose_is_a_dead_letter_once_and_in_order(kind: str, committed: bool) -> None:
    stage = evicting(kind)
    listeners = slow_consumers(stage, 10)
    producer = stage.peer("p")
    rounds = 2 + 3 * (MAX_OVERDUE if kind == OLDEST else MAX_BACKLOG) // MAX_COMPOSITE_PARTS // 2
    at_once = LETTERS + (0 if kind == OLDEST else MAX_COMPOSITE_PARTS + MAX_BACKLOG)
    if committed:
        producer.begins(1)
    for number in range(rounds):
        before = len(letters(stage))
        token = producer.sends(ALL, str(number), transaction=int(committed))
        assert len(letters(stage)) - before <= at_once
    before = len(letters(stage))
    if committed:
        token = producer.commits(1)
    assert len(letters(stage)) - before <= at_once
    done = 0
    while done < 3 or stage.broker.next_timeout() == 0.0 or stage.broker.awaits_disk():
        before = len(letters(stage))
        stage.waits(0.01)
        assert len(letters(stage)) - before <= 2 * at_once
        stage.syncs()
        done += 1
        if done in (1, 3) and not committed:
            taken = stage.view("topic://T.63").enqueued
            check_each_is_there_once(stage, listeners, taken, kind == OLDEST)
    check_each_is_there_once(stage, listeners, rounds, kind == OLDEST)
    assert producer.is_answered(token)
    assert {len(listener.subscription.pending) for listener in listeners} == {1}


def test_a_stop_between_two_slices_keeps_all_dead_letters() -> None:
    stage = evicting()
    slow_consumers(stage, 50)
    producer = stage.peer("p")
    for number in range(4):
        producer.sends(ALL, str(number))
    runs(stage, 5)
    stage.broker.begin_stop(stage.now)
    runs(stage, 5)
    found = len(letters(stage))
    assert 0 < found < 50 * 2 * len(NAMES)
    stage.broker.stop(stage.now)
    again = stage.restarts(clean=True)
    assert again.view("queue://ActiveMQ.DLQ").pending == len(letters(stage)) == found
