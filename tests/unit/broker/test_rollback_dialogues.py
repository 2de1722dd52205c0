"""Large transactions are rolled back a slice at a time: all that they acknowledged goes back, in order."""

from __future__ import annotations

from random import Random

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.dialogue.text_format import text_of
from tests.unit.broker.test_commit_dialogues import (
    MANY,
    QUEUE,
    TEXTS,
    gathers,
    job_of,
    receives_many,
    settles,
)
from tests.unit.broker.test_xa_dialogues import IN, pending


@pytest.mark.parametrize("order", ["oldest first", "newest first", "any"])
def test_a_rollback_looks_at_each_acknowledged_message_once(order: str) -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *TEXTS)
    settles(stage)
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY)
    listener.peer.flushes()
    settles(stage)
    assert listener.takes() == TEXTS
    texts = TEXTS[100:1400]
    if order == "newest first":
        texts.reverse()
    elif order == "any":
        Random(1).shuffle(texts)
    listener.peer.begins(1)
    for text in texts:
        listener.acknowledges_one(text, transaction=1)
    before = listener.subscription.in_flight.steps
    listener.peer.rolls_back(1)
    gathers(stage, listener.peer)
    assert listener.subscription.in_flight.steps - before <= 2 * MANY
    assert [text_of(reference.message) for reference in listener.subscription.in_flight.all_out()] == TEXTS
    listener.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert (stage.view(QUEUE).in_flight, stage.memory()) == (0, 0)


def test_messages_between_which_many_were_acknowledged_are_put_back_in_order() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY)
    producer = stage.peer("p")
    producer.sends(QUEUE, "old")
    settles(stage)
    listener.peer.begins(1)
    listener.acknowledges_one("old", transaction=1)
    for start in range(0, 3 * MANY, MANY):
        texts = [str(number) for number in range(start, start + MANY)]
        producer.sends(QUEUE, *texts)
        listener.peer.flushes()
        settles(stage)
        listener.acknowledges(texts[-1], count=MANY)
    producer.sends(QUEUE, "new")
    settles(stage)
    listener.peer.rolls_back(1)
    assert [text_of(reference.message) for reference in listener.subscription.in_flight.all_out()] == ["old", "new"]
    listener.acknowledges("old", count=1)
    listener.acknowledges("new", count=1)
    settles(stage)
    assert stage.memory() == 0


def test_a_large_rollback_takes_slices_and_puts_all_back_in_order() -> None:
    stage = Stage()
    listener = receives_many(stage)
    peer = listener.peer
    peer.begins(1)
    for text in TEXTS:
        listener.acknowledges_one(text, transaction=1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    peer.rolls_back(1)
    job = job_of(peer)
    while peer.state.job is not None:
        before = job.steps
        stage.runs()
        assert job.steps - before <= JOB_STEPS + MANY, "one consumer has all of its messages back at once"
    assert [text_of(reference.message) for reference in listener.subscription.in_flight.all_out()] == TEXTS
    assert peer.state.uncommitted.count == 0
    listener.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert stage.memory() == 0


@pytest.mark.parametrize("after", range(5))
def test_a_connection_with_a_large_transaction_goes_in_slices_and_leaves_all(after: int) -> None:
    stage = Stage()
    listener = receives_many(stage)
    peer = listener.peer
    peer.begins(1)
    listener.acknowledges(TEXTS[-1], count=MANY, transaction=1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    peer.leaves()
    for _ in range(after):
        stage.runs()
    again = stage.peer("p", reconnected=True)
    late = again.consumes(IN, prefetch=2 * MANY)
    settles(stage)
    again.flushes()
    settles(stage)
    assert late.out == TEXTS
    assert {delivery.redelivery_count for delivery in late.deliveries} == {1}
    late.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert (pending(stage, QUEUE), stage.memory()) == (0, 0)
    assert peer.state.removed
