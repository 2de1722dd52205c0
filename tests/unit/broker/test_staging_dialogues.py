"""The commit of a prepared branch moves what the prepare has stored, or stores it again where it must."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.persistence.duplicate_ids import PROPERTY
from spanwire.broker.persistence.store_unit import LEAST_STRETCH
from spanwire.broker.transactions.xa_transactions import XA_OK
from spanwire.model.acks import POISON_ACK
from spanwire.model.ledger import MOVED_OUT, SENT
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.broker.test_commit_dialogues import job_of
from tests.unit.broker.test_xa_dialogues import IN, OUT, SCHEDULED_MESSAGES, Manager, X, pending, reads

ELSEWHERE = "queue://ELSEWHERE"
STAGED = SCHEDULED_MESSAGES
TEXTS = [f"m{number}" for number in range(LEAST_STRETCH)]


def moved(stage: Stage) -> int:
    """How many messages left the staging destination for the queue of the client."""
    return stage.store.ledger_of(STAGED).counts[MOVED_OUT]


def prepares(stage: Stage, work: Callable[[Manager], object]) -> Manager:
    manager = Manager(stage.peer("x"))
    manager.begins()
    work(manager)
    assert manager.prepares() == XA_OK
    return manager


def takes(stage: Stage, name: str) -> list[str]:
    listener = stage.peer(f"taker of {name}").consumes(name, prefetch=100)
    reads(stage)
    return listener.takes()


def test_a_commit_moves_what_the_prepare_has_stored() -> None:
    stage = Stage()
    manager = prepares(stage, lambda manager: manager.sends(OUT, *TEXTS))
    token = manager.commits()
    stage.syncs()
    assert manager.peer.is_answered(token)
    assert moved(stage) == len(TEXTS)
    assert stage.store.kept(STAGED) == []
    again = stage.restarts()
    assert takes(stage, OUT) == takes(again, OUT) == TEXTS
    assert again.broker.xa.prepared() == []


def test_messages_for_two_queues_keep_their_order_at_each() -> None:
    stage = Stage()
    others = [f"other {text}" for text in TEXTS]

    def work(manager: Manager) -> None:
        manager.sends(OUT, *TEXTS)
        manager.sends(ELSEWHERE, *others)

    prepares(stage, work).commits()
    stage.syncs()
    assert moved(stage) == len(TEXTS) + len(others)
    again = stage.restarts()
    assert takes(again, OUT) == TEXTS
    assert takes(again, ELSEWHERE) == others


def test_messages_that_the_store_does_not_get_keep_their_place() -> None:
    stage = Stage()

    def work(manager: Manager) -> None:
        manager.sends(OUT, "first", persistent=False)
        manager.sends(OUT, *TEXTS)
        manager.sends(OUT, "last", persistent=False)

    prepares(stage, work).commits()
    stage.syncs()
    assert moved(stage) == len(TEXTS)
    assert takes(stage, OUT) == ["first", *TEXTS, "last"]


@pytest.mark.parametrize("position", range(4))
def test_a_power_cut_leaves_the_branch_prepared_or_the_messages_moved(position: int) -> None:
    stage = Stage()
    manager = prepares(stage, lambda manager: manager.sends(OUT, *TEXTS))
    prepared_at = stage.store.position()
    manager.commits()
    stage.syncs()
    again = stage.restarts(position=min(prepared_at + position, stage.store.position()))
    if again.broker.xa.prepared():
        assert pending(again, OUT) == 0
        Manager(again.peer("r")).commits()
        reads(again)
        again.syncs()
    assert takes(again, OUT) == TEXTS
    assert again.store.kept(STAGED) == []


def adds_after_the_prepare(stage: Stage, manager: Manager) -> list[str]:
    manager.sends(OUT, "late")
    return [*TEXTS, "late"]


def acknowledges_after_the_prepare(stage: Stage, manager: Manager) -> list[str]:
    stage.peer("p").sends(IN, "one")
    stage.syncs()
    listener = manager.peer.consumes(IN)
    manager.acknowledges(listener, "one")
    return TEXTS


def removes_the_queue(stage: Stage, manager: Manager) -> list[str]:
    stage.peer("o").removes(OUT)
    return TEXTS


CHANGES = [adds_after_the_prepare, acknowledges_after_the_prepare, removes_the_queue]


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_messages_are_stored_again(change: Callable[[Stage, Manager], list[str]]) -> None:
    stage = Stage()
    manager = prepares(stage, lambda manager: manager.sends(OUT, *TEXTS))
    expected = change(stage, manager)
    manager.commits()
    stage.syncs()
    assert moved(stage) == 0
    assert stage.store.kept(STAGED) == []
    again = stage.restarts()
    assert takes(stage, OUT) == takes(again, OUT) == expected


@pytest.mark.parametrize("change", CHANGES)
def test_messages_that_are_stored_again_and_removed_take_several_turns(
    change: Callable[[Stage, Manager], list[str]],
) -> None:
    stage = Stage()
    texts = [f"m{number}" for number in range(JOB_STEPS - 10)]
    manager = prepares(stage, lambda manager: manager.sends(OUT, *texts))
    change(stage, manager)
    token = manager.commits()
    job = job_of(manager.peer)
    while manager.peer.state.job is not None:
        before = job.steps
        stage.runs()
        assert job.steps - before <= JOB_STEPS
    stage.syncs()
    assert manager.peer.is_answered(token)
    assert stage.store.kept(STAGED) == []
    assert takes(stage, OUT)[:100] == takes(stage.restarts(), OUT)[:100] == texts[:100]


def test_few_messages_in_turns_for_two_queues_are_stored_again() -> None:
    stage = Stage()

    def work(manager: Manager) -> None:
        for text in TEXTS:
            manager.sends(OUT, text)
            manager.sends(ELSEWHERE, text)

    prepares(stage, work).commits()
    stage.syncs()
    assert moved(stage) == 0
    assert takes(stage, OUT) == takes(stage, ELSEWHERE) == TEXTS


def test_a_message_with_a_duplicate_id_has_all_stored_again() -> None:
    stage = Stage()

    def work(manager: Manager) -> None:
        manager.sends(OUT, *TEXTS)
        message = manager.peer.message(OUT, "known", properties={PROPERTY: "1"})
        stage.broker.send(manager.peer.state, message, X, manager.peer.new_token(), stage.now)

    prepares(stage, work).commits()
    stage.syncs()
    assert moved(stage) == 0
    assert takes(stage, OUT) == [*TEXTS, "known"]


def test_dead_letters_count_as_such_so_all_are_stored_again() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(IN)
    stage.peer("p").sends(IN, "bad")
    stage.syncs()
    manager = Manager(listener.peer)
    manager.begins()
    manager.sends(OUT, *TEXTS)
    manager.acknowledges(listener, "bad", ack_type=POISON_ACK)
    assert manager.prepares() == XA_OK
    manager.commits()
    stage.syncs()
    assert moved(stage) == 0
    assert takes(stage, OUT) == TEXTS


def test_a_refused_commit_can_be_repeated() -> None:
    stage = Stage()
    manager = prepares(stage, lambda manager: manager.sends(OUT, *TEXTS))
    stage.store.room = False
    with pytest.raises(Exception, match="full"):
        manager.commits()
    stage.store.room = True
    assert stage.broker.xa.prepared() == [X]
    manager.commits()
    stage.syncs()
    assert moved(stage) == len(TEXTS)
    assert stage.store.ledger_of(STAGED).counts[SENT] == len(TEXTS)
    assert takes(stage, OUT) == TEXTS
