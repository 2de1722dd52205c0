"""Scheduled messages in branches of distributed transactions: they begin to wait with the commit, and a prepared branch
keeps them through a power cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from spanwire.broker.connections.xa_branch import BranchRecord, decode_record, encode_record
from spanwire.broker.ports import WRITE, Principal
from spanwire.broker.scheduler.schedule import SCHEDULED_MESSAGES, SchedulerSettings
from spanwire.broker.transactions.xa_transactions import LATER, XA_OK
from spanwire.model.errors import MessageFormatError, ResourceAllocationError, XaError
from spanwire.model.ids import XaTransactionId
from tests.support.dialogue.broker_dialogue import Peer, Stage, destination
from tests.support.recording_authorizer import RecordingAuthorizer

ON: Final = SchedulerSettings()
QUEUE: Final = "queue://Q"
X: Final = XaTransactionId(4711, b"global", b"\x01")


def played(**more: object) -> Stage:
    return Stage(scheduler=ON, **more)  # type: ignore[arg-type]


def begun(stage: Stage, *texts: str, persistent: bool = True, name: str = "p", delay_ms: int = 1_000) -> Peer:
    """A branch that schedules a message for each text, and sends one at once."""
    peer = stage.peer(name)
    stage.broker.xa.begin(peer.state, X)
    for text in texts:
        message = peer.message(QUEUE, text, persistent=persistent, properties={"AMQ_SCHEDULED_DELAY": delay_ms})
        assert stage.broker.send(peer.state, message, X, peer.new_token(), stage.now)
    now = peer.message("queue://NOW", "now")
    assert stage.broker.send(peer.state, now, X, peer.new_token(), stage.now)
    return peer


def prepares(stage: Stage, peer: Peer) -> None:
    vote = stage.broker.xa.prepare(peer.state, X, peer.new_token(), stage.now)
    assert vote in (XA_OK, LATER)
    stage.syncs()


def commits(stage: Stage, peer: Peer, one_phase: bool = False) -> int:
    token = peer.new_token()
    if stage.broker.xa.commit(peer.state, X, one_phase, token, stage.now):
        peer.answers[token] = None
    stage.settle()
    stage.settle()
    return token


def rolls_back(stage: Stage, peer: Peer) -> int:
    token = peer.new_token()
    if stage.broker.xa.rollback(peer.state, X, token, stage.now):
        peer.answers[token] = None
    stage.settle()
    stage.settle()
    return token


def passes(stage: Stage, seconds: float) -> None:
    stage.waits(seconds)
    stage.settle()
    stage.settle()


@pytest.mark.parametrize("one_phase", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_a_branch_schedules_with_its_commit(one_phase: bool, stored: bool) -> None:
    stage = played(persistent=stored)
    listener = stage.peer("c").consumes(QUEUE)
    peer = begun(stage, "a", "b")
    passes(stage, 10)
    if not one_phase:
        prepares(stage, peer)
        passes(stage, 10)
    assert listener.takes() == []
    assert peer.is_answered(commits(stage, peer, one_phase))
    assert stage.peer("n").consumes("queue://NOW").takes() == ["now"]
    passes(stage, 0.9)
    assert listener.takes() == []
    passes(stage, 0.1)
    assert listener.takes() == ["a", "b"]
    listener.acknowledges("b")
    stage.settle()
    assert stage.store.kept(SCHEDULED_MESSAGES) == []


@pytest.mark.parametrize("prepared", [True, False])
def test_a_branch_that_is_rolled_back_schedules_nothing(prepared: bool) -> None:
    stage = played()
    listener = stage.peer("c").consumes(QUEUE)
    peer = begun(stage, "a")
    if prepared:
        prepares(stage, peer)
    assert peer.is_answered(rolls_back(stage, peer))
    passes(stage, 10)
    assert listener.takes() == []
    assert stage.memory() == 0
    assert not any(stage.store.metadata.values())


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("end", [commits, rolls_back])
def test_a_prepared_branch_with_scheduled_messages_survives_a_power_cut(
    persistent: bool, end: Callable[[Stage, Peer], int]
) -> None:
    stage = played()
    prepares(stage, begun(stage, "a", "b", persistent=persistent))
    again = stage.restarts(scheduler=ON)
    listener = again.peer("c").consumes(QUEUE)
    passes(again, 60)
    assert listener.takes() == []
    assert again.broker.xa.prepared() == [X]
    peer = again.peer("r")
    token = end(again, peer)
    assert peer.is_answered(token)
    third = again.restarts(scheduler=ON)
    late = third.peer("d").consumes(QUEUE)
    passes(third, 1)
    assert late.takes() == (["a", "b"] if end is commits else [])
    passes(third, 10)
    assert late.takes() == []


@pytest.mark.parametrize("end", [commits, rolls_back])
def test_a_power_cut_at_any_position_leaves_all_or_nothing(end: Callable[[Stage, Peer], int]) -> None:
    stage = played()
    peer = begun(stage, "a", delay_ms=5_000)
    prepares(stage, peer)
    end(stage, peer)
    stage.syncs()
    seen: set[tuple[bool, bool, int]] = set()
    for position in range(stage.store.position() + 1):
        again = stage.restarts(position=position, scheduler=ON)
        doubt = len(again.broker.xa.prepared())
        listener = again.peer("c").consumes(QUEUE)
        at_once = again.peer("n").consumes("queue://NOW")
        passes(again, 5)
        found = (listener.takes() == ["a"], at_once.takes() == ["now"], doubt)
        assert found in {(False, False, 0), (False, False, 1), (True, True, 0)}
        seen.add(found)
    assert (False, False, 1) in seen
    assert ((True, True, 0) in seen) is (end is commits)


def test_a_branch_is_not_committed_on_a_broker_that_has_no_scheduler_any_more() -> None:
    stage = played()
    prepares(stage, begun(stage, "a"))
    again = stage.restarts()
    peer = again.peer("r")
    token = commits(again, peer)
    with pytest.raises(XaError, match="this broker has no scheduler"):
        peer.is_answered(token)
    assert again.broker.xa.prepared() == [X]
    third = again.restarts(scheduler=ON)
    other = third.peer("r")
    assert other.is_answered(commits(third, other))
    listener = third.peer("c").consumes(QUEUE)
    passes(third, 1)
    assert listener.takes() == ["a"]


def test_the_messages_are_delivered_with_the_rights_of_who_sent_them_and_not_of_who_commits() -> None:
    stage = Stage(scheduler=ON)
    peer = stage.peer("p", user="alice")
    stage.broker.xa.begin(peer.state, X)
    message = peer.message(QUEUE, "a", properties={"AMQ_SCHEDULED_DELAY": 1_000})
    assert stage.broker.send(peer.state, message, X, peer.new_token(), stage.now)
    prepares(stage, peer)
    store = stage.store.crash()
    authorizer = RecordingAuthorizer()
    again = Stage(scheduler=ON, store=store, authorizer=authorizer)
    again.environment.time = stage.now
    again.broker.recover(store.recovered(), True, again.now, store.metadata)
    manager = again.peer("r", user="manager")
    assert manager.is_answered(commits(again, manager))
    passes(again, 1)
    asked = [check for check in authorizer.asked if check[1] == WRITE]
    assert asked == [("alice", WRITE, QUEUE)]


def test_what_cannot_be_scheduled_is_refused_when_it_is_sent_and_spoils_the_branch() -> None:
    stage = played()
    peer = begun(stage, "a")
    message = peer.message(QUEUE, "x", properties={"AMQ_SCHEDULED_CRON": "every day"})
    with pytest.raises(MessageFormatError):
        stage.broker.send(peer.state, message, X, peer.new_token(), stage.now)
    with pytest.raises(XaError, match="rollback only"):
        stage.broker.xa.prepare(peer.state, X, peer.new_token(), stage.now)


def test_a_branch_that_schedules_more_than_the_broker_may_hold_is_not_prepared() -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=1))
    peer = begun(stage, "a", "b")
    with pytest.raises(ResourceAllocationError, match="scheduled messages"):
        stage.broker.xa.prepare(peer.state, X, peer.new_token(), stage.now)
    assert stage.broker.xa.prepared() == []


def test_a_record_with_scheduled_messages_reads_as_it_was_written() -> None:
    record = BranchRecord(3, [SCHEDULED_MESSAGES, destination(QUEUE), SCHEDULED_MESSAGES], [])
    record.sender = Principal("alice", frozenset({"a", "b"}))
    found = decode_record(encode_record(record))
    assert found.sends == record.sends
    assert found.sender is not None
    assert (found.sender.name, found.sender.groups) == ("alice", frozenset({"a", "b"}))
