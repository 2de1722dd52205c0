"""Many messages are committed a slice at a time: whole or not at all, and in order."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS, ConnectionJob
from spanwire.broker.persistence.deferred_dispatch import DISPATCH_STEPS
from spanwire.broker.policy.fan_out import STEPS_OF_REQUEST
from spanwire.model.acks import POISON_ACK
from spanwire.model.errors import ResourceAllocationError, StoreError
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.dialogue.text_format import text_of
from tests.unit.broker.test_xa_dialogues import IN, pending

QUEUE: Final = "queue://Q"
MANY: Final = 3 * JOB_STEPS
TEXTS: Final = [str(number) for number in range(MANY)]


def commits_many(stage: Stage, name: str = "p", texts: list[str] = TEXTS, *, persistent: bool = True) -> Peer:
    peer = stage.peer(name)
    peer.begins(1)
    peer.sends(QUEUE, *texts, transaction=1, persistent=persistent)
    return peer


def job_of(peer: Peer) -> ConnectionJob:
    job = peer.state.job
    assert isinstance(job, ConnectionJob)
    return job


def gathers(stage: Stage, peer: Peer) -> int:
    """How many turns it takes until nothing is under way for ``peer``."""
    found = 0
    while peer.state.job is not None:
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


def fails_with(peer: Peer, token: int) -> str:
    """The text of the refusal of a request; empty if it was granted or not answered."""
    error = peer.answers.get(token)
    return "" if error is None else str(error)


def receives_many(stage: Stage, name: str = "p") -> Listener:
    """A consumer that was dispatched all of IN."""
    stage.peer("o").sends(IN, *TEXTS)
    settles(stage)
    listener = stage.peer(name).consumes(IN, prefetch=2 * MANY)
    turns(stage)
    listener.peer.flushes()
    turns(stage)
    assert listener.takes() == TEXTS
    return listener


@pytest.mark.large
@pytest.mark.parametrize("persistent", [True, False])
def test_a_commit_at_its_limit_takes_slices(persistent: bool) -> None:
    limit = 20 * JOB_STEPS
    stage = Stage(max_uncommitted=limit)
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY)
    texts = [str(number) for number in range(limit)]
    peer = commits_many(stage, texts=texts, persistent=persistent)
    token = peer.commits(1)
    job = job_of(peer)
    assert job.steps == 0
    while peer.state.job is not None:
        before = job.steps
        stage.runs()
        assert job.steps - before <= JOB_STEPS
    assert (listener.takes(), peer.is_answered(token)) == ([], False) if persistent else True
    before = len(listener.out)
    stage.syncs()
    assert len(listener.out) - before <= DISPATCH_STEPS
    while stage.broker.next_timeout() == 0.0:
        before = len(listener.out)
        stage.runs()
        assert len(listener.out) - before <= DISPATCH_STEPS
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
    slices = 0
    while peer.state.job is not None:
        before = job.steps
        stage.runs()
        slices += 1
        assert job.steps - before <= JOB_STEPS + 1
    assert slices >= 2 * MANY // JOB_STEPS, "it is looked through for the store, and then forgotten"
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
    assert turns(stage) > 2 * MANY // JOB_STEPS
    stage.settle()
    assert stage.view("queue://ActiveMQ.DLQ").pending == MANY
    assert stage.view(QUEUE).in_flight == 0


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


def test_a_small_commit_behind_a_large_one_is_at_once_again() -> None:
    stage = Stage()
    peer = commits_many(stage)
    peer.commits(1)
    assert peer.state.uncommitted.count == MANY, "it counts until its end"
    gathers(stage, peer)
    assert peer.state.uncommitted.count == 0
    peer.begins(2)
    peer.sends(QUEUE, "small", transaction=2)
    token = peer.commits(2)
    assert peer.state.job is None
    settles(stage)
    assert peer.is_answered(token)


def test_a_request_that_cannot_wait_ends_what_is_under_way_first() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=MANY + 10)
    peer = commits_many(stage)
    first = peer.commits(1)
    peer.begins(1)
    peer.sends(QUEUE, "again", transaction=1)
    second = peer.commits(1)
    sent = peer.sends(QUEUE, "sent")
    settles(stage)
    assert peer.is_answered(first) and peer.is_answered(second) and peer.is_answered(sent)
    listener.peer.flushes()
    settles(stage)
    assert listener.takes() == [*TEXTS, "again", "sent"]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_client_that_connects_again_finds_the_end_of_its_commit(is_refused: bool) -> None:
    stage = Stage()
    peer = commits_many(stage)
    first = peer.commits(1)
    stage.runs()
    peer.leaves()
    assert stage.broker.is_held(peer, peer.state.info, stage.now)
    if is_refused:
        stage.store.refused = ResourceAllocationError("no")
    again = stage.peer("p", reconnected=True)
    stage.store.refused = None
    assert not stage.broker.is_held(again, again.state.info, stage.now)
    assert fails_with(peer, first) == ("no" if is_refused else "")
    again.begins(1)
    again.sends(QUEUE, *TEXTS, transaction=1)
    token = again.commits(1)
    settles(stage)
    assert again.is_answered(token)
    assert stage.view(QUEUE).pending == MANY, "once, and not never"
    assert stage.restarts().view(QUEUE).pending == MANY


def test_an_unexpected_error_ends_its_own_request_and_no_other() -> None:
    stage = Stage()
    victims = [commits_many(stage, name) for name in ("a", "b", "c", "d", "e", "f")]
    tokens = [victim.commits(1) for victim in victims]
    stage.runs()
    stage.store.refused = ValueError("surprise")
    for _ in range(20):
        try:
            stage.runs()
        except ValueError:
            stage.store.refused = None
    settles(stage)
    refused = [place for place, token in enumerate(tokens) if "ValueError" in fails_with(victims[place], token)]
    assert len(refused) == 1
    assert all(token in victims[place].answers for place, token in enumerate(tokens))
    assert stage.view(QUEUE).pending == 5 * MANY
    assert all(victim.state.job is None for victim in victims)


def test_commits_of_two_clients_hold_up_nobody_elsewhere() -> None:
    stage = Stage()
    one, two = commits_many(stage, "a"), commits_many(stage, "b")
    three = stage.peer("d")
    three.begins(1)
    three.sends("queue://S", *TEXTS, transaction=1)
    tokens = [one.commits(1), two.commits(1), three.commits(1)]
    turns(stage)
    other = stage.peer("o")
    elsewhere = other.sends("queue://R", "elsewhere")
    stage.syncs()
    assert other.is_answered(elsewhere)
    assert stage.view("queue://R").pending == 1
    stage.runs()
    assert stage.view(QUEUE).pending < MANY
    assert 0 < stage.view("queue://S").pending, "the other queue has its share"
    settles(stage)
    assert one.is_answered(tokens[0]) and two.is_answered(tokens[1]) and three.is_answered(tokens[2])
    assert (stage.view(QUEUE).pending, stage.view("queue://S").pending) == (2 * MANY, MANY)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_commit_to_a_topic_of_many_consumers_takes_turns_and_what_is_sent_behind_it_stays_behind(
    persistent: bool,
) -> None:
    """Without and with a durable subscription, whose copies wait for the disk."""
    stage = Stage()
    listeners = [stage.peer(f"c{number}").consumes("topic://T") for number in range(4)]
    listeners += [listeners[0].peer.consumes("topic://T") for _ in range(20 * STEPS_OF_REQUEST)]
    if persistent:
        stage.peer("d", client_id="d").consumes("topic://T", durable="d")
    producer = stage.peer("p")
    producer.begins(1)
    texts = TEXTS[:100]
    producer.sends("topic://T", *texts, transaction=1, persistent=persistent)
    steps = [stage.broker.steps]
    token = producer.commits(1)
    behind = producer.sends("topic://T", "behind", persistent=persistent)
    steps.append(stage.broker.steps)
    while stage.broker.next_timeout() == 0.0 or stage.broker.awaits_disk():
        for turn in (stage.syncs, stage.runs):
            turn()
            steps.append(stage.broker.steps)
        for listener in listeners[:4]:
            listener.peer.flushes()
    assert max(later - earlier for earlier, later in pairwise(steps)) <= 2 * DISPATCH_STEPS
    assert producer.is_answered(token) and producer.is_answered(behind)
    for listener in listeners:
        listener.peer.flushes()
        assert listener.out == [*texts, "behind"]


def test_a_commit_that_the_store_refuses_is_undone_as_a_whole() -> None:
    stage = Stage()
    listener = receives_many(stage)
    peer = listener.peer
    peer.begins(1)
    listener.acknowledges(TEXTS[-1], count=MANY, transaction=1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    before = stage.memory()
    token = peer.commits(1)
    stage.store.refused = ResourceAllocationError("no")
    gathers(stage, peer)
    stage.store.refused = None
    assert fails_with(peer, token) == "no"
    assert stage.view(QUEUE).enqueued == 0
    assert [text_of(reference.message) for reference in listener.subscription.in_flight.all_out()] == TEXTS
    assert stage.memory() < before
    assert peer.state.uncommitted.count == 0
    listener.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert stage.memory() == 0


@pytest.mark.large
@pytest.mark.parametrize("after", range(9))
def test_a_power_cut_while_much_is_committed_leaves_all_or_nothing(after: int) -> None:
    stage = Stage()
    listener = receives_many(stage)
    peer = listener.peer
    peer.begins(1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    listener.acknowledges(TEXTS[-1], count=MANY, transaction=1)
    peer.commits(1)
    for _ in range(after):
        stage.runs()
    is_handed_over = after >= 2 * MANY // JOB_STEPS
    stage.syncs()
    again = stage.restarts()
    assert [pending(again, QUEUE), pending(again, IN)] in ([[MANY, 0]] if is_handed_over else [[0, MANY], [MANY, 0]])


@pytest.mark.large
@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_connection_that_breaks_loses_and_doubles_nothing(after: int, is_refused: bool) -> None:
    stage = Stage()
    listener = receives_many(stage)
    peer = listener.peer
    peer.begins(1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    listener.acknowledges(TEXTS[699], count=700, transaction=1)
    token = peer.commits(1)
    for _ in range(after):
        stage.runs()
    is_decided = stage.view(IN).in_flight < MANY
    if is_refused:
        stage.store.refused = ResourceAllocationError("no")
    peer.leaves()
    turns(stage)
    stage.store.refused = None
    settles(stage)
    assert peer.state.removed
    is_done = fails_with(peer, token) == ""
    assert is_done or is_refused
    assert is_done or not is_decided
    assert pending(stage, QUEUE) == (MANY if is_done else 0)
    late = stage.peer("c").consumes(IN, prefetch=2 * MANY)
    settles(stage)
    late.peer.flushes()
    settles(stage)
    assert late.out == (TEXTS[700:] if is_done else TEXTS)
    assert {delivery.redelivery_count for delivery in late.deliveries} == {1}
    late.acknowledges(TEXTS[-1], count=len(late.out))
    out = stage.peer("e").consumes(QUEUE, prefetch=2 * MANY)
    settles(stage)
    out.peer.flushes()
    settles(stage)
    assert out.out == (TEXTS if is_done else [])
    if is_done:
        out.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert stage.memory() == 0


def test_after_a_failure_of_the_store_a_commit_under_way_gets_its_error() -> None:
    stage = Stage()
    listener = receives_many(stage)
    peer = listener.peer
    peer.begins(1)
    peer.sends(QUEUE, *TEXTS, transaction=1)
    listener.acknowledges(TEXTS[-1], count=MANY, transaction=1)
    token = peer.commits(1)
    stage.runs()
    stage.broker.store_failed(StoreError("the disk is gone"), stage.now)
    assert "the disk is gone" in fails_with(peer, token)
    turns(stage)
    assert pending(stage, QUEUE) == 0
    assert len(listener.subscription.in_flight.all_out()) == MANY


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
        assert stage.memory() == size
    assert stage.memory() == size


def test_a_queue_that_is_removed_again_and_again_refuses_the_commit_in_the_end() -> None:
    stage = Stage()
    peer = commits_many(stage)
    token = peer.commits(1)
    other = stage.peer("o")
    for _ in range(100):
        stage.runs()
        if stage.has(QUEUE):
            other.removes(QUEUE)
    assert "was removed" in fails_with(peer, token)
    assert peer.state.job is None
    settles(stage)
    assert stage.memory() == 0
