"""Many scheduled messages of a transaction are planned, prepared, stored and entered a slice at a time."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.metadata import SCHEDULES
from spanwire.broker.persistence.deferred_dispatch import DISPATCH_STEPS
from spanwire.broker.scheduler.schedule import CRON_STEPS, SCHEDULED_MESSAGES, SchedulerSettings
from spanwire.broker.scheduler.scheduler import KEEP_STEPS
from spanwire.broker.transactions.xa_transactions import LATER
from spanwire.model.errors import JmsError, ResourceAllocationError
from tests.support.dialogue.broker_dialogue import Peer, Stage
from tests.unit.broker.test_commit_dialogues import fails_with, gathers, job_of, settles
from tests.unit.broker.test_xa_dialogues import X

QUEUE: Final = "queue://Q"
MANY: Final = 3 * JOB_STEPS
TEXTS: Final = [str(number) for number in range(MANY)]
HOUR: Final = 3600.0
IN_AN_HOUR: Final[dict[str, object]] = {"AMQ_SCHEDULED_DELAY": 3_600_000}


def schedules_many(stage: Stage, name: str = "p", number: int = 1) -> Peer:
    """A transaction with scheduled messages."""
    peer = stage.peer(name)
    peer.begins(number)
    peer.sends(QUEUE, *TEXTS, transaction=number, properties=IN_AN_HOUR)
    return peer


def begins_branch(stage: Stage) -> Peer:
    """A branch with scheduled messages."""
    peer = stage.peer("p")
    stage.broker.xa.begin(peer.state, X)
    for text in TEXTS:
        message = peer.message(QUEUE, text, properties=IN_AN_HOUR)
        assert stage.broker.send(peer.state, message, X, peer.new_token(), stage.now)
    return peer


def prepares(stage: Stage, peer: Peer) -> int:
    token = peer.new_token()
    assert stage.broker.xa.prepare(peer.state, X, token, stage.now) == LATER
    return token


def commits_branch(stage: Stage, peer: Peer) -> int:
    token = peer.new_token()
    if stage.broker.xa.commit(peer.state, X, False, token, stage.now):
        peer.answers[token] = None
    return token


def room(stage: Stage, name: str = "r") -> int:
    """How many messages can still be scheduled, which then are."""
    peer = stage.peer(name)
    count = 0
    while count < 10_000:
        try:
            peer.sends(QUEUE, "r", properties=IN_AN_HOUR)
        except ResourceAllocationError:
            break
        count += 1
    return count


def comes(stage: Stage) -> list[str]:
    """What is delivered in the hour from now, and its end."""
    listener = stage.peer(f"c{stage.now.wall_ms}").consumes(QUEUE, prefetch=10 * MANY)
    stage.waits(HOUR)
    for _ in range(100):
        stage.settle()
        listener.peer.flushes()
    return listener.takes()


@pytest.mark.large
@pytest.mark.parametrize("persistent", [True, False])
def test_many_scheduled_messages_are_committed_in_slices(persistent: bool) -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=MANY), persistent=persistent)
    peer = schedules_many(stage)
    token = peer.commits(1)
    job = job_of(peer)
    planned = 0
    while peer.state.job is not None:
        before = job.steps
        stage.runs()
        assert job.steps - before <= JOB_STEPS
        planned += 1
    assert planned >= MANY // JOB_STEPS
    if persistent:
        assert not peer.is_answered(token)
        stage.waits(HOUR)
        assert stage.store.reads == [], "a message is read once the store has it"
        stage.syncs()
        assert not peer.is_answered(token)
    entered = 0
    while not peer.is_answered(token):
        assert room(stage, f"r{entered}") == 0, "those that are committed count"
        stage.runs()
        entered += 1
    assert not persistent or entered >= MANY // DISPATCH_STEPS
    assert comes(stage) == TEXTS
    assert len(stage.store.kept(SCHEDULED_MESSAGES)) == 0
    assert not stage.store.metadata.get(SCHEDULES)


def test_commits_of_two_clients_do_not_schedule_more_than_the_broker_may_hold() -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=MANY + 3))
    first, second = schedules_many(stage), schedules_many(stage, "q")
    tokens = first.commits(1), second.commits(1)
    settles(stage)
    refusals = [fails_with(peer, token) for peer, token in zip((first, second), tokens, strict=True)]
    assert "" in refusals
    assert f"holds {MANY + 3} scheduled messages" in "".join(refusals)
    assert len(stage.store.kept(SCHEDULED_MESSAGES)) == MANY
    assert room(stage) == 3
    assert (first.state.uncommitted.count, second.state.uncommitted.count) == (0, 0)


@pytest.mark.large
@pytest.mark.parametrize("after", [0, 2, 30])
def test_the_schedule_of_a_connection_that_is_lost_is_whole(after: int) -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=MANY + 3))
    peer = schedules_many(stage)
    peer.commits(1)
    for _ in range(after):
        stage.runs()
    stage.syncs()
    cut = len(stage.restarts(scheduler=SchedulerSettings()).store.kept(SCHEDULED_MESSAGES))
    assert cut == (MANY if after == 30 else 0)
    peer.leaves()
    settles(stage)
    assert room(stage) == 3
    assert comes(stage.restarts(scheduler=SchedulerSettings())) == TEXTS


@pytest.mark.large
def test_a_commit_that_the_store_refuses_schedules_nothing_and_can_be_repeated() -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=MANY))
    peer = schedules_many(stage)
    stage.store.refused = ResourceAllocationError("no")
    token = peer.commits(1)
    settles(stage)
    assert fails_with(peer, token) == "no"
    stage.store.refused = None
    again = schedules_many(stage, "q")
    second = again.commits(1)
    settles(stage)
    assert again.is_answered(second)
    assert room(stage) == 0
    assert comes(stage) == TEXTS
    assert stage.memory() == sum([delivery.message.size for _, delivery in stage.dispatches])


def test_a_transaction_that_is_gathered_again_schedules_once() -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=MANY))
    peer = stage.peer("p")
    peer.begins(1)
    peer.sends("queue://GONE", "first", transaction=1)
    peer.sends(QUEUE, *TEXTS, transaction=1, properties=IN_AN_HOUR)
    token = peer.commits(1)
    stage.runs()
    stage.peer("o").removes("queue://GONE")
    settles(stage)
    assert peer.is_answered(token)
    assert stage.view("queue://GONE").pending == 1
    assert room(stage) == 0
    assert comes(stage) == TEXTS


def test_a_stop_keeps_what_is_being_scheduled() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    peer = schedules_many(stage)
    peer.commits(1)
    stage.runs()
    stage.broker.begin_stop(stage.now)
    assert stage.broker.awaits_disk()
    stage.broker.stop(stage.now)
    stage.syncs()
    assert comes(stage.restarts(scheduler=SchedulerSettings())) == TEXTS


@pytest.mark.large
def test_many_scheduled_messages_are_prepared_in_slices_and_committed_after_a_restart() -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=MANY))
    peer = begins_branch(stage)
    token = prepares(stage, peer)
    job = job_of(peer)
    while peer.state.job is not None:
        before = job.steps
        stage.runs()
        assert job.steps - before <= JOB_STEPS
    stage.syncs()
    assert peer.is_answered(token)
    again = stage.restarts(scheduler=SchedulerSettings(max_jobs=MANY))
    manager = again.peer("m")
    committed = commits_branch(again, manager)
    settles(again)
    assert manager.is_answered(committed)
    assert room(again) == 0
    assert comes(again) == TEXTS
    assert again.broker.xa.prepared() == []


@pytest.mark.large
def test_a_branch_with_more_than_fits_is_not_prepared_and_a_refused_commit_leaves_it_prepared() -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=MANY + 1))
    peer = begins_branch(stage)
    first = prepares(stage, peer)
    settles(stage)
    assert peer.is_answered(first)
    assert room(stage) == MANY + 1
    token = commits_branch(stage, peer)
    settles(stage)
    with pytest.raises(JmsError, match="scheduled messages"):
        peer.is_answered(token)
    assert stage.broker.xa.prepared() == [X]
    stage.waits(2 * HOUR)
    for _ in range(100):
        stage.settle()
    again = commits_branch(stage, peer)
    settles(stage)
    assert peer.is_answered(again)
    assert len(stage.store.kept(SCHEDULED_MESSAGES)) == MANY


def test_a_branch_that_is_rolled_back_while_it_is_prepared_schedules_nothing() -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=MANY))
    peer = begins_branch(stage)
    prepares(stage, peer)
    stage.runs()
    token = peer.new_token()
    if stage.broker.xa.rollback(peer.state, X, token, stage.now):
        peer.answers[token] = None
    settles(stage)
    assert peer.is_answered(token)
    assert (stage.memory(), room(stage)) == (0, MANY)


def test_the_calendar_counts_more_steps() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    peer = stage.peer("p")
    count = 2 * JOB_STEPS // (1 + CRON_STEPS)
    peer.begins(1)
    before = stage.broker.steps
    peer.sends(QUEUE, *TEXTS[:count], transaction=1, properties={"AMQ_SCHEDULED_CRON": "* * * * *"})
    assert stage.broker.steps - before >= count * (1 + CRON_STEPS)
    peer.sends(QUEUE, *TEXTS[count:], transaction=1)
    token = peer.commits(1)
    job = job_of(peer)
    stage.runs()
    assert job.steps <= JOB_STEPS + CRON_STEPS
    assert gathers(stage, peer) >= (MANY + count * CRON_STEPS) // JOB_STEPS
    settles(stage)
    assert peer.is_answered(token)
    assert len(stage.store.kept(SCHEDULED_MESSAGES)) == count


def test_a_message_that_is_scheduled_at_once_counts_more_steps() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    peer = stage.peer("p")
    before = stage.broker.steps
    peer.sends(QUEUE, *TEXTS[:10], properties=IN_AN_HOUR)
    assert stage.broker.steps - before >= 10 * (1 + KEEP_STEPS)
