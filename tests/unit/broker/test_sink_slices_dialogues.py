"""Many messages of a part are staged a slice at a time: whole or not at all, and only while the sink lets them."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.model.destination import TRANSACTION, Destination
from spanwire.model.errors import ResourceAllocationError
from tests.support.control_dialogue import ASK, Program
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.broker.test_commit_dialogues import fails_with, gathers, job_of, settles
from tests.unit.broker.test_sink_dialogues import begun

MANY: Final = 3 * JOB_STEPS
TEXTS: Final = [str(number) for number in range(MANY)]
STAGED: Final = Destination(TRANSACTION, "staged-0")
NEXT: Final = Destination(TRANSACTION, "staged-1")


def kept(stage: Stage) -> int:
    """All copies in the store that are staged."""
    return len(stage.store.kept(STAGED)) + len(stage.store.kept(NEXT))


def in_queue(stage: Stage, name: str = "queue://OUT") -> list[str]:
    """All that a queue holds; it stays there."""
    settles(stage)
    if not stage.has(name):
        return []
    browser = stage.peer(f"b{len(stage.dispatches)}").consumes(name, prefetch=10 * MANY, browser=True)
    for _ in range(20):
        settles(stage)
        browser.peer.flushes()
    return browser.takes()


def test_a_part_is_staged_in_slices_and_committed_as_a_whole() -> None:
    stage, program = begun()
    token = program.stages(0, 0, *TEXTS)
    job = job_of(program.peer)
    slices = 0
    while program.peer.state.job is not None:
        assert program.peer.state.uncommitted.count == MANY, "it counts until its end"
        before = job.steps
        stage.runs()
        slices += 1
        assert job.steps - before <= JOB_STEPS
    assert slices > MANY // JOB_STEPS
    assert not program.peer.is_answered(token)
    stage.syncs()
    assert program.peer.is_answered(token)
    assert (stage.memory(), program.peer.state.uncommitted.count) == (0, 0)
    program.stages(0, 0, "more", to="queue://OTHER", transaction=2)
    stage.settle()
    again = stage.restarts()
    other = Program(again, "other")
    other.stages(0, 0, "last")
    again.settle()
    assert other.commits(0, f"0 0 {MANY + 2}") == (MANY + 2, False)
    assert in_queue(again) == [*TEXTS, "last"]
    assert in_queue(again, "queue://OTHER") == ["more"]
    assert kept(again) == 0


@pytest.mark.parametrize("after", [0, 2, 30])
def test_a_connection_that_is_lost_leaves_a_whole_part(after: int) -> None:
    stage, program = begun()
    program.stages(0, 0, *TEXTS)
    for _ in range(after):
        stage.runs()
    stage.syncs()
    cut = stage.restarts()
    assert kept(cut) == (MANY if after == 30 else 0)
    program.peer.leaves()
    settles(stage)
    other = Program(stage, "other")
    assert other.commits(0, f"0 0 {MANY}") == (MANY, False)
    assert stage.memory() == 0
    assert in_queue(stage) == TEXTS


def test_a_client_that_connects_again_meanwhile_stages_once() -> None:
    stage, program = begun()
    program.stages(0, 0, *TEXTS)
    stage.runs()
    program.peer.leaves()
    peer = stage.peer("program", reconnected=True)
    peer.begins(1)
    peer.sends("queue://OUT", *TEXTS, transaction=1)
    token = peer.commits(1)
    settles(stage)
    assert peer.is_answered(token)
    assert Program(stage, "other").commits(0, f"0 0 {MANY}") == (MANY, False)
    assert in_queue(stage) == TEXTS


def test_a_part_that_the_store_refuses_leaves_nothing_and_can_be_staged_again() -> None:
    stage, program = begun()
    stage.store.refused = ResourceAllocationError("no")
    token = program.stages(0, 0, *TEXTS)
    settles(stage)
    assert fails_with(program.peer, token) == "no"
    stage.store.refused = None
    assert (stage.memory(), program.peer.state.uncommitted.count, kept(stage)) == (0, 0, 0)
    program.stages(0, 0, *TEXTS, transaction=2)
    settles(stage)
    assert len(stage.store.kept(STAGED)) == MANY, "under the number that was free"
    assert program.commits(0, f"0 0 {MANY}") == (MANY, False)


def test_a_sink_that_is_taken_over_meanwhile_refuses_the_part() -> None:
    stage, program = begun()
    zombie = Program(stage, "zombie")
    token = zombie.stages(0, 0, *TEXTS)
    stage.runs()
    program.begins_to_ask("begin", query="q", run="r2")
    settles(stage)
    assert program.hears() == {"epoch": 2, "batch": -1}
    assert "fenced: sink q is at epoch 2" in fails_with(zombie.peer, token)
    assert (stage.memory(), kept(stage)) == (0, 0)
    program.stages(0, 0, "a", epoch=2)
    stage.settle()
    assert len(stage.store.kept(STAGED)) == 1


def test_a_part_of_a_batch_that_is_committed_meanwhile_is_ignored() -> None:
    stage, program = begun()
    program.stages(0, 1, "other")
    stage.settle()
    late = Program(stage, "late")
    token = late.stages(0, 0, *TEXTS)
    stage.runs()
    program.begins_to_ask("commit", body="1 0 1", query="q", epoch=1, batch=0)
    settles(stage)
    assert program.hears() == {"messages": 1, "repeated": False}
    assert late.peer.is_answered(token)
    assert (kept(stage), stage.memory(), in_queue(stage)) == (0, 0, ["other"])


@pytest.mark.parametrize("before", [(), ("first",)])
def test_a_part_that_another_connection_changes_meanwhile_is_refused(before: tuple[str, ...]) -> None:
    stage, program = begun()
    if before:
        program.stages(0, 0, *before)
    settles(stage)
    other = Program(stage, "other")
    token = other.stages(0, 0, *TEXTS)
    stage.runs()
    program.stages(0, 0, "quick", transaction=2)
    settles(stage)
    assert "was changed on another connection" in fails_with(other.peer, token)
    assert program.commits(0, f"0 0 {len(before) + 1}") == (len(before) + 1, False)
    assert (kept(stage), stage.memory(), in_queue(stage)) == (0, 0, [*before, "quick"])


def test_a_part_that_is_aborted_meanwhile_is_refused_and_leaves_nothing() -> None:
    stage, program = begun()
    program.stages(0, 0, "first")
    settles(stage)
    other = Program(stage, "other")
    token = other.stages(0, 0, *TEXTS)
    stage.runs()
    program.begins_to_ask("abort", query="q", epoch=1, batch=0)
    settles(stage)
    assert program.hears() == {"messages": 1}
    assert "was changed on another connection" in fails_with(other.peer, token)
    assert (kept(stage), stage.memory()) == (0, 0)
    program.stages(0, 1, "again", transaction=2)
    settles(stage)
    assert program.commits(0, "1 0 1") == (1, False)
    assert (kept(stage), in_queue(stage)) == (0, ["again"])


def test_a_part_that_is_rolled_back_after_its_stage_leaves_nothing() -> None:
    stage, program = begun()
    program.peer.begins(1)
    program.peer.sends("queue://OUT", *TEXTS, transaction=1)
    properties: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": 0, "attempt": 0,
    }  # fmt: skip
    program.peer.sends_message(program.peer.message(ASK, "", properties=properties), 1)
    program.peer.rolls_back(1)
    settles(stage)
    assert (kept(stage), stage.memory(), program.peer.state.uncommitted.count) == (0, 0, 0)


def test_what_is_aborted_before_it_is_safe_is_removed_from_the_store() -> None:
    stage, program = begun()
    program.stages(0, 0, *TEXTS)
    gathers(stage, program.peer)
    assert program.asks("abort", query="q", epoch=1, batch=0) == {"messages": MANY}
    assert kept(stage) == 0
    assert kept(stage.restarts()) == 0


def test_a_stop_keeps_a_part_that_is_being_staged() -> None:
    stage, program = begun()
    program.stages(0, 0, *TEXTS)
    stage.runs()
    stage.broker.begin_stop(stage.now)
    assert stage.broker.awaits_disk()
    stage.broker.stop(stage.now)
    stage.syncs()
    again = stage.restarts()
    assert Program(again).commits(0, f"0 0 {MANY}") == (MANY, False)
