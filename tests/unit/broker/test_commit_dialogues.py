"""Many messages are committed a slice at a time: whole or not at all, and in order."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from spanwire.broker.commit_job import COMMIT_STEPS, CommitJob
from spanwire.broker.releasing import RELEASE_STEPS
from spanwire.broker.undo_job import UNDO_STEPS
from spanwire.broker.xa_transactions import XA_OK
from spanwire.model.acks import POISON_ACK
from spanwire.model.errors import JmsError, ResourceAllocationError, XaError
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.dialogue.text_format import text_of
from tests.unit.broker.test_xa_dialogues import IN, OUT, Manager, pending

QUEUE: Final = "queue://Q"
MANY: Final = 3 * COMMIT_STEPS
TEXTS: Final = [str(number) for number in range(MANY)]


def commits_many(stage: Stage, name: str = "p", texts: list[str] = TEXTS, *, persistent: bool = True) -> Peer:
    peer = stage.peer(name)
    peer.begins(1)
    peer.sends(QUEUE, *texts, transaction=1, persistent=persistent)
    return peer


def job_of(peer: Peer) -> CommitJob:
    job = peer.state.commits[0]
    assert isinstance(job, CommitJob)
    return job


def gathers(stage: Stage, peer: Peer) -> int:
    """How many turns it takes until the store has the commit of ``peer``."""
    found = 0
    while peer.state.commits:
        stage.runs()
        found += 1
        assert found < 10_000
    return found


def turns(stage: Stage) -> int:
    """How many turns a broker takes until it has no work left."""
    found = 0
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        found += 1
        assert found < 10_000
    return found


def settles(stage: Stage) -> None:
    """What is left to do is done, then what the disk was asked for meanwhile."""
    stage.settle()
    stage.settle()


# -- slices ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [True, False])
def test_a_commit_at_its_limit_takes_slices(persistent: bool) -> None:
    limit = 20 * COMMIT_STEPS
    stage = Stage(max_uncommitted=limit)
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY)
    texts = [str(number) for number in range(limit)]
    peer = commits_many(stage, texts=texts, persistent=persistent)
    token = peer.commits(1)
    job = job_of(peer)
    assert job.steps == 0
    while peer.state.commits:
        before = job.steps
        stage.runs()
        assert job.steps - before <= COMMIT_STEPS
    assert (listener.takes(), peer.is_answered(token)) == ([], False) if persistent else True
    before = len(listener.out)
    stage.syncs()
    assert len(listener.out) - before <= RELEASE_STEPS
    while stage.broker.next_timeout() == 0.0:
        before = len(listener.out)
        stage.runs()
        assert len(listener.out) - before <= RELEASE_STEPS
    assert peer.is_answered(token)
    assert stage.view(QUEUE).enqueued == limit
    listener.peer.flushes()
    settles(stage)
    assert listener.out == texts[:MANY]


def test_acknowledgements_at_their_limit_are_committed_in_slices() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *TEXTS)
    stage.settle()
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY)
    turns(stage)
    listener.peer.flushes()
    turns(stage)
    assert listener.takes() == TEXTS
    peer = listener.peer
    peer.begins(1)
    listener.acknowledges(TEXTS[-1], count=MANY, transaction=1)
    token = peer.commits(1)
    job = job_of(peer)
    while peer.state.commits:
        before = job.steps
        stage.runs()
        assert job.steps - before <= COMMIT_STEPS
        assert stage.view(QUEUE).in_flight >= MANY - COMMIT_STEPS
    assert turns(stage) >= MANY // COMMIT_STEPS - 1
    stage.syncs()
    assert peer.is_answered(token)
    assert (stage.view(QUEUE).in_flight, stage.memory()) == (0, 0)
    assert not stage.restarts().has(QUEUE) or stage.restarts().view(QUEUE).pending == 0


def test_many_dead_letters_are_committed_in_slices_with_their_removal() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *TEXTS)
    stage.settle()
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY)
    turns(stage)
    listener.peer.flushes()
    turns(stage)
    listener.peer.begins(1)
    listener.acknowledges(TEXTS[-1], count=MANY, ack_type=POISON_ACK, transaction=1)
    listener.peer.commits(1)
    assert turns(stage) > 2 * MANY // COMMIT_STEPS
    stage.settle()
    assert stage.view("queue://ActiveMQ.DLQ").pending == MANY
    assert stage.view(QUEUE).in_flight == 0


# -- order -------------------------------------------------------------------------------------------------------------


def test_what_is_sent_behind_a_commit_stays_behind_it() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY + 10)
    peer = commits_many(stage)
    first = peer.commits(1)
    sent = peer.sends(QUEUE, "volatile", persistent=False)
    peer.sends(QUEUE, "sent")
    peer.begins(2)
    peer.sends(QUEUE, "committed", transaction=2)
    second = peer.commits(2)
    assert not peer.is_answered(sent)
    for _ in range(20):
        settles(stage)
        listener.peer.flushes()
    assert peer.is_answered(first)
    assert peer.is_answered(second)
    assert sorted(listener.out[MANY:]) == ["committed", "sent", "volatile"]
    assert listener.out[:MANY] == TEXTS


def test_others_go_on_while_one_commits() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY + 10)
    peer = commits_many(stage)
    token = peer.commits(1)
    other = stage.peer("o")
    sent = other.sends(QUEUE, "other")
    stage.syncs()
    assert other.is_answered(sent)
    assert listener.takes() == ["other"]
    gathers(stage, peer)
    behind = other.sends(QUEUE, "behind")
    elsewhere = other.sends("queue://R", "elsewhere")
    stage.syncs()
    assert other.is_answered(elsewhere)
    assert not other.is_answered(behind), "it is behind what the commit has not dispatched yet"
    settles(stage)
    assert peer.is_answered(token)
    assert other.is_answered(behind)
    listener.peer.flushes()
    settles(stage)
    assert listener.takes() == [*TEXTS, "behind"]


def test_a_volatile_message_does_not_overtake_a_commit_that_is_dispatched() -> None:
    stage = Stage(persistent=False)
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY + 10)
    peer = commits_many(stage, persistent=False)
    peer.commits(1)
    gathers(stage, peer)
    stage.peer("o").sends(QUEUE, "other", persistent=False)
    settles(stage)
    listener.peer.flushes()
    settles(stage)
    assert listener.takes() == [*TEXTS, "other"]


# -- whole or not at all -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(5))
def test_a_commit_whose_connection_goes_takes_effect_as_a_whole(after: int) -> None:
    stage = Stage()
    peer = commits_many(stage)
    peer.commits(1)
    for _ in range(after):
        stage.runs()
    peer.leaves()
    settles(stage)
    assert stage.view(QUEUE).pending == MANY
    assert stage.restarts().view(QUEUE).pending == MANY


@pytest.mark.parametrize("after", range(7))
def test_a_power_cut_while_much_is_committed_leaves_all_or_nothing(after: int) -> None:
    stage = Stage()
    stage.peer("o").sends("queue://IN", *TEXTS)
    settles(stage)
    listener = stage.peer("p").consumes("queue://IN", prefetch=MANY)
    turns(stage)
    listener.peer.flushes()
    turns(stage)
    peer = listener.peer
    peer.begins(1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    listener.acknowledges(TEXTS[-1], count=MANY, transaction=1)
    peer.commits(1)
    for _ in range(after):
        stage.runs()
    is_handed_over = not peer.state.commits
    stage.syncs()
    again = stage.restarts()
    found = [again.view(name).pending if again.has(name) else 0 for name in (QUEUE, "queue://IN")]
    assert found == ([MANY, 0] if is_handed_over else [0, MANY])


def test_a_commit_that_the_store_refuses_is_undone_as_a_whole() -> None:
    stage = Stage()
    stage.peer("o").sends("queue://IN", "in")
    settles(stage)
    listener = stage.peer("p").consumes("queue://IN")
    peer = listener.peer
    peer.begins(1)
    listener.acknowledges("in", transaction=1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    token = peer.commits(1)
    behind = peer.sends("queue://R", "behind")
    stage.store.refused = ResourceAllocationError("no")
    gathers(stage, peer)
    stage.store.refused = None
    with pytest.raises(JmsError, match="no"):
        peer.is_answered(token)
    settles(stage)
    assert peer.is_answered(behind)
    assert stage.view(QUEUE).enqueued == 0
    listener.acknowledges("in")
    stage.peer("x").consumes("queue://R").acknowledges("behind")
    settles(stage)
    assert stage.memory() == 0


def test_memory_is_counted_until_the_messages_are_handed_on() -> None:
    stage = Stage()
    peer = commits_many(stage)
    size = stage.memory()
    assert size > MANY
    peer.commits(1)
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        assert stage.memory() == size
    stage.syncs()
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        assert stage.memory() <= size + RELEASE_STEPS * size // MANY
    assert stage.memory() == size


def test_a_queue_that_is_removed_while_it_is_committed_to_is_made_again() -> None:
    stage = Stage()
    peer = commits_many(stage)
    token = peer.commits(1)
    stage.runs()
    stage.peer("o").removes(QUEUE)
    settles(stage)
    assert peer.is_answered(token)
    assert stage.view(QUEUE).pending == MANY
    assert stage.restarts().view(QUEUE).pending == MANY


def test_a_stop_carries_out_what_is_being_committed() -> None:
    stage = Stage()
    peer = commits_many(stage)
    peer.commits(1)
    stage.runs()
    stage.broker.begin_stop(stage.now)
    assert stage.broker.awaits_disk()
    stage.broker.stop(stage.now)
    stage.syncs()
    assert stage.restarts().view(QUEUE).pending == MANY


def test_a_client_that_reconnects_finds_its_commit_under_way_once() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.begins(1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    peer.commits(1)
    stage.runs()
    peer.leaves()
    again = stage.peer("p", reconnected=True)
    again.begins(1)
    again.sends(QUEUE, *TEXTS, transaction=1)
    token = again.commits(1)
    assert not again.is_answered(token)
    gathers(stage, peer)
    assert not again.is_answered(token)
    settles(stage)
    assert again.is_answered(token)
    assert stage.view(QUEUE).pending == MANY


# -- branches ----------------------------------------------------------------------------------------------------------


def works_in_branch(stage: Stage) -> tuple[Manager, Listener]:
    """A branch that took all from IN and sends as much to OUT."""
    listener = stage.peer("c").consumes(IN, prefetch=MANY)
    stage.peer("p").sends(IN, *TEXTS)
    settles(stage)
    listener.peer.flushes()
    settles(stage)
    manager = Manager(listener.peer)
    manager.begins()
    manager.acknowledges(listener, TEXTS[-1])
    manager.sends(OUT, *TEXTS)
    return manager, listener


def left(stage: Stage) -> tuple[int, int, int]:
    """What is in the two queues, and how many branches are in doubt."""
    return pending(stage, IN), pending(stage, OUT), len(stage.broker.xa.prepared())


@pytest.mark.parametrize("one_phase", [True, False])
@pytest.mark.parametrize("after", [0, 3, 30])
def test_a_branch_is_committed_in_slices_and_as_a_whole(one_phase: bool, after: int) -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    if not one_phase:
        assert manager.prepares() == XA_OK
    token = manager.commits(one_phase=one_phase)
    assert manager.peer.state.commits
    for _ in range(after):
        stage.runs()
    is_handed_over = not manager.peer.state.commits
    assert is_handed_over == (after == 30)
    assert len(stage.broker.xa.prepared()) == (0 if one_phase or is_handed_over else 1)
    stage.syncs()
    cut = left(stage.restarts())
    if is_handed_over:
        assert cut == (0, MANY, 0)
    else:
        assert cut == (MANY, 0, 0 if one_phase else 1)
    settles(stage)
    assert manager.peer.is_answered(token)
    assert left(stage) == (0, MANY, 0)
    assert stage.view(IN).in_flight == 0
    assert left(stage.restarts()) == (0, MANY, 0)


def test_a_branch_that_is_committed_in_slices_is_nobody_elses_meanwhile() -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    manager.prepares()
    token = manager.commits()
    stage.runs()
    with pytest.raises(XaError, match="being finished already"):
        Manager(stage.peer("r")).rolls_back()
    manager.peer.leaves()
    settles(stage)
    assert manager.peer.is_answered(token)
    assert left(stage) == (0, MANY, 0)


def test_a_prepared_branch_whose_commit_is_refused_stays_prepared() -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    manager.prepares()
    before = stage.memory()
    token = manager.commits()
    stage.store.refused = ResourceAllocationError("no")
    gathers(stage, manager.peer)
    stage.store.refused = None
    with pytest.raises(JmsError, match="no"):
        manager.peer.is_answered(token)
    assert left(stage) == (MANY, 0, 1)
    assert stage.memory() == before
    again = manager.commits()
    settles(stage)
    assert manager.peer.is_answered(again)
    assert left(stage) == (0, MANY, 0)


@pytest.mark.parametrize("after", [0, 2, 30])
def test_a_prepared_branch_is_rolled_back_in_slices_and_as_a_whole(after: int) -> None:
    stage = Stage()
    manager, listener = works_in_branch(stage)
    manager.prepares()
    token = manager.rolls_back()
    for _ in range(after):
        stage.runs()
    is_over = stage.broker.xa.prepared() == []
    assert is_over == (after == 30)
    stage.syncs()
    assert left(stage.restarts()) == (MANY, 0, 0 if is_over else 1)
    settles(stage)
    assert manager.peer.is_answered(token)
    assert [text_of(reference.message) for reference in listener.subscription.all_out()] == TEXTS
    listener.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert stage.memory() == 0
    assert left(stage.restarts()) == (0, 0, 0)


def test_a_branch_of_an_earlier_run_is_committed_in_slices() -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    manager.prepares()
    again = stage.restarts()
    finisher = Manager(again.peer("r"))
    token = finisher.commits()
    settles(again)
    assert finisher.peer.is_answered(token)
    assert left(again) == (0, MANY, 0)
    listener = again.peer("c").consumes(OUT, prefetch=MANY)
    settles(again)
    listener.peer.flushes()
    settles(again)
    assert listener.takes() == TEXTS
    listener.acknowledges(TEXTS[-1], count=MANY)
    settles(again)
    assert again.memory() == 0


# -- rollbacks ---------------------------------------------------------------------------------------------------------


def test_what_a_rollback_forgets_takes_slices() -> None:
    limit = 10 * UNDO_STEPS
    stage = Stage(max_uncommitted=limit)
    peer = commits_many(stage, texts=[str(number) for number in range(limit)])
    whole = stage.memory()
    peer.rolls_back(1)
    assert stage.memory() >= whole * 8 // 10
    assert peer.state.uncommitted.count == 0, "the next transaction may hold as much"
    while stage.broker.next_timeout() == 0.0:
        before = stage.memory()
        stage.runs()
        assert before - stage.memory() <= whole // 8
    assert stage.memory() == 0


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
    before = listener.subscription.steps
    listener.peer.rolls_back(1)
    assert listener.subscription.steps - before <= 2 * MANY
    assert [text_of(reference.message) for reference in listener.subscription.all_out()] == TEXTS
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
    assert [text_of(reference.message) for reference in listener.subscription.all_out()] == ["old", "new"]
    listener.acknowledges("old", count=1)
    listener.acknowledges("new", count=1)
    settles(stage)
    assert stage.memory() == 0
