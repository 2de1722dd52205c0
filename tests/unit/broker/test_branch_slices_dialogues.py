"""Large branches are prepared, committed and rolled back a slice at a time: whole or not at all."""

from __future__ import annotations

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.transactions.xa_transactions import LATER, XA_OK, XA_RETRY
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import parse_destination
from spanwire.model.errors import JmsError, ResourceAllocationError, XaError
from tests.support.dialogue.broker_dialogue import Listener, Stage
from tests.support.dialogue.text_format import text_of
from tests.unit.broker.test_commit_dialogues import (
    MANY,
    TEXTS,
    fails_with,
    gathers,
    job_of,
    receives_many,
    settles,
)
from tests.unit.broker.test_xa_dialogues import IN, OUT, Manager, X, pending


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


@pytest.mark.large
@pytest.mark.parametrize("one_phase", [True, False])
@pytest.mark.parametrize("after", [0, 3, 30])
def test_a_branch_is_committed_in_slices_and_as_a_whole(one_phase: bool, after: int) -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    if not one_phase:
        assert manager.prepares() == XA_OK
    token = manager.commits(one_phase=one_phase)
    assert manager.peer.state.job is not None
    for _ in range(after):
        stage.runs()
    is_handed_over = manager.peer.state.job is None
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
    assert [text_of(reference.message) for reference in listener.subscription.in_flight.all_out()] == TEXTS
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


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_branch_that_is_being_finished_is_to_be_asked_for_again(is_commit: bool) -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    manager.prepares()
    token = manager.commits() if is_commit else manager.rolls_back()
    stage.runs()
    other = Manager(stage.peer("r"))
    for repeat in (other.commits, other.rolls_back):
        with pytest.raises(XaError) as refusal:
            repeat()
        assert f"xaErrorCode:{XA_RETRY}" in str(refusal.value)
    assert stage.broker.xa.prepared() == [X], "it is in doubt as long as the disk says so"
    settles(stage)
    assert manager.peer.is_answered(token)
    assert stage.broker.xa.prepared() == []
    assert left(stage) == ((0, MANY, 0) if is_commit else (MANY, 0, 0))


@pytest.mark.large
def test_a_branch_that_is_committed_is_not_begun_or_worked_in_meanwhile_and_then_is_another() -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    token = manager.commits(one_phase=True)
    stage.runs()
    other = Manager(stage.peer("r"))
    with pytest.raises(XaError, match="being finished already"):
        other.begins()
    with pytest.raises(XaError, match="being finished already"):
        other.sends(OUT, "late")
    settles(stage)
    assert manager.peer.is_answered(token)
    other.begins()
    other.sends(OUT, "late")
    late = other.commits(one_phase=True)
    settles(stage)
    assert other.peer.is_answered(late)
    assert left(stage) == (0, MANY + 1, 0)


def test_a_branch_is_committed_elsewhere_while_the_connection_that_began_it_goes() -> None:
    stage = Stage()
    manager, listener = works_in_branch(stage)
    other = Manager(stage.peer("r"))
    other.begins()
    token = other.commits(one_phase=True)
    stage.runs()
    listener.peer.leaves()
    settles(stage)
    assert other.peer.is_answered(token)
    assert left(stage) == (0, MANY, 0)
    assert stage.view(IN).in_flight == 0
    assert manager.peer.state.removed


def test_the_rollback_of_a_prepared_branch_that_the_store_refuses_leaves_it_prepared() -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    manager.prepares()
    token = manager.rolls_back()
    stage.store.refused = ResourceAllocationError("no")
    gathers(stage, manager.peer)
    stage.store.refused = None
    assert fails_with(manager.peer, token) == "no"
    assert left(stage) == (MANY, 0, 1)
    again = manager.rolls_back()
    settles(stage)
    assert manager.peer.is_answered(again)
    assert left(stage) == (MANY, 0, 0)


def test_a_stop_waits_for_the_rollback_of_a_prepared_branch() -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    manager.prepares()
    manager.rolls_back()
    stage.runs()
    stage.broker.begin_stop(stage.now)
    assert stage.broker.awaits_disk()
    stage.broker.stop(stage.now)
    stage.syncs()
    assert left(stage.restarts()) == (MANY, 0, 0)


def begins_to_prepare(manager: Manager) -> int:
    """The token of a prepare that takes several turns."""
    token = manager.peer.new_token()
    assert manager.xa.prepare(manager.peer.state, X, token, manager.stage.now) == LATER
    assert manager.peer.state.job is not None
    return token


@pytest.mark.large
@pytest.mark.parametrize("after", [0, 3, 30])
def test_a_branch_is_prepared_in_slices_and_as_a_whole(after: int) -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    token = begins_to_prepare(manager)
    job = job_of(manager.peer)
    for _ in range(after):
        before = job.steps
        stage.runs()
        assert job.steps - before <= JOB_STEPS + 100
    is_handed_over = manager.peer.state.job is None
    assert is_handed_over == (after == 30)
    assert stage.broker.xa.prepared() == ([X] if is_handed_over else [])
    assert not manager.peer.is_answered(token)
    stage.syncs()
    again = stage.restarts()
    assert left(again) == ((MANY, 0, 1) if is_handed_over else (MANY, 0, 0))
    settles(stage)
    assert manager.peer.is_answered(token)
    commit = manager.commits()
    settles(stage)
    assert manager.peer.is_answered(commit)
    assert left(stage) == (0, MANY, 0)
    listener = stage.peer("e").consumes(OUT, prefetch=MANY)
    settles(stage)
    listener.peer.flushes()
    settles(stage)
    assert listener.takes() == TEXTS
    listener.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert stage.memory() == 0


def test_a_large_branch_that_cannot_be_prepared_is_rolled_back() -> None:
    stage = Stage()
    manager, listener = works_in_branch(stage)
    token = begins_to_prepare(manager)
    stage.store.refused = ResourceAllocationError("no")
    gathers(stage, manager.peer)
    stage.store.refused = None
    assert fails_with(manager.peer, token) == "no"
    assert left(stage) == (MANY, 0, 0)
    assert [text_of(reference.message) for reference in listener.subscription.in_flight.all_out()] == TEXTS
    listener.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert stage.memory() == 0


@pytest.mark.large
@pytest.mark.parametrize("after", range(8))
def test_a_connection_that_breaks_during_a_prepare_leaves_a_whole_branch(after: int) -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    begins_to_prepare(manager)
    for _ in range(after):
        stage.runs()
    manager.peer.leaves()
    settles(stage)
    assert stage.broker.xa.prepared() == [X]
    other = Manager(stage.peer("r"))
    token = other.rolls_back()
    settles(stage)
    assert other.peer.is_answered(token)
    assert left(stage) == (MANY, 0, 0)
    late = stage.peer("e").consumes(IN, prefetch=MANY)
    settles(stage)
    late.peer.flushes()
    settles(stage)
    assert late.takes() == TEXTS
    late.acknowledges(TEXTS[-1], count=MANY)
    settles(stage)
    assert stage.memory() == 0


def test_dead_letters_of_a_large_branch_are_prepared_with_it() -> None:
    stage = Stage()
    listener = receives_many(stage)
    manager = Manager(listener.peer)
    manager.begins()
    manager.acknowledges(listener, TEXTS[-1], ack_type=POISON_ACK)
    token = begins_to_prepare(manager)
    settles(stage)
    assert manager.peer.is_answered(token)
    again = stage.restarts()
    finisher = Manager(again.peer("r"))
    commit = finisher.commits()
    settles(again)
    assert finisher.peer.is_answered(commit)
    assert (pending(again, IN), pending(again, "queue://ActiveMQ.DLQ")) == (0, MANY)


def test_what_comes_too_late_for_a_prepare_does_not_break_its_promise() -> None:
    stage = Stage()
    manager, _ = works_in_branch(stage)
    stage.peer("p2").sends("queue://LATE", "late")
    late = stage.peer("r").consumes("queue://LATE")
    settles(stage)
    other = Manager(late.peer)
    other.begins()
    token = begins_to_prepare(manager)
    stage.runs()
    with pytest.raises(XaError, match="being finished already") as refusal:
        other.acknowledges(late, "late")
    stage.broker.xa.spoil(X, refusal.value)  # as a protocol does
    settles(stage)
    assert manager.peer.is_answered(token)
    commit = manager.commits()
    settles(stage)
    assert manager.peer.is_answered(commit)
    assert left(stage) == (0, MANY, 0)


@pytest.mark.parametrize("count", [2, MANY])
def test_a_refused_rollback_of_an_earlier_run_gives_each_message_back_once_when_it_is_repeated(count: int) -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(IN, prefetch=MANY)
    stage.peer("p").sends(IN, *TEXTS[:count])
    settles(stage)
    listener.peer.flushes()
    settles(stage)
    manager = Manager(listener.peer)
    manager.begins()
    manager.acknowledges(listener, TEXTS[count - 1])
    manager.sends(OUT, *TEXTS[:count])
    manager.prepares()
    again = stage.restarts()
    again.store.lose(parse_destination(IN), 1)
    manager = Manager(again.peer("m"))
    for _ in range(2):
        again.store.refused = ResourceAllocationError("no")
        token = manager.rolls_back()
        settles(again)
        again.store.refused = None
        assert fails_with(manager.peer, token) == "no"
        assert again.memory() == 0
        assert again.view(IN).in_flight == count - 1, "one cannot be read"
    token = manager.rolls_back()
    settles(again)
    assert manager.peer.is_answered(token)
    assert (again.view(IN).in_flight, again.view(IN).pending) == (0, count - 1)
    back = again.peer("d").consumes(IN, prefetch=MANY)
    for _ in range(5):
        settles(again)
        back.peer.flushes()
    assert back.takes() == TEXTS[1:count]
