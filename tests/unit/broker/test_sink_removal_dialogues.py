"""Many staged parts are dropped a slice at a time: all or none, by an abort, a new run, or the end of the sink."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.exactly_once.part_removal import FORGOTTEN_IN_STEP, PartRemoval
from spanwire.broker.exactly_once.requests import Control
from spanwire.broker.metadata import SINK_LEDGERS, STAGED_BATCHES
from spanwire.broker.request_errors import ControlRefusal
from spanwire.model.destination import TRANSACTION
from spanwire.model.errors import ResourceAllocationError
from tests.support.control_dialogue import Program, Refused
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.broker.test_commit_dialogues import settles
from tests.unit.broker.test_sink_dialogues import begun, in_queue

PARTS = 2 * JOB_STEPS + JOB_STEPS // 2
ACTIONS = ("abort", "forget", "begin")
ANSWERS: dict[str, dict[str, object]] = {
    "abort": {"messages": PARTS}, "forget": {"messages": PARTS}, "begin": {"epoch": 2, "batch": -1},
}  # fmt: skip
UNDER_WAY = {
    "abort": "batch 0 of sink q is being aborted: stage for it once the abort is answered",
    "forget": "sink q is being forgotten: begin it again before more is staged",
    "begin": "run r2 takes sink q over: stop this run, which may stage nothing any more",
}  # fmt: skip


@cache
def staged_parts(count: int) -> Stage:
    """Many parts that are staged. Tests begin with a restart, which costs less than to stage them each time."""
    stage, program = begun()
    for part in range(count):
        program.stages(0, part, f"{part}", transaction=part + 1)
    settles(stage)
    return stage


def many_parts(count: int = PARTS) -> tuple[Stage, Program]:
    stage = staged_parts(count).restarts(clean=True)
    return stage, Program(stage)


def asks(program: Program, action: str) -> None:
    """Ask for what drops the parts, without anything else that follows."""
    program.begins_to_ask(action, query="q", epoch=1, batch=0, run="r2")


def removal_of(stage: Stage) -> PartRemoval | None:
    """The removal that is under way."""
    control = stage.broker.assembly.router.control
    assert isinstance(control, Control)
    return next(iter(control._removals), None)


def slices(stage: Stage) -> Iterator[int]:
    """Turns until the removal has ended, each with its steps."""
    removal = removal_of(stage)
    assert removal is not None
    while removal_of(stage) is removal:
        before = removal.steps
        stage.runs()
        yield removal.steps - before


def parts_in_store(stage: Stage) -> int:
    staged = [found for found in stage.store.recovered() if found.destination.kind == TRANSACTION and found.sequences]
    assert len(staged) == len(stage.store.metadata.get(STAGED_BATCHES, {}))
    return len(staged)


def hears(program: Program) -> dict[str, object] | None:
    settles(program.stage)
    return program.hears()


@pytest.mark.large
@pytest.mark.parametrize("action", ACTIONS)
def test_many_parts_are_dropped_in_slices_and_by_one_call_to_the_store(action: str) -> None:
    stage, program = many_parts()
    before = stage.broker.steps, stage.store.position()
    asks(program, action)
    assert JOB_STEPS <= stage.broker.steps - before[0] <= JOB_STEPS + 10, "the first slice counts for its request"
    taken = list(slices(stage))
    assert len(taken) >= PARTS // JOB_STEPS and max(taken) <= JOB_STEPS
    assert sum(taken) >= PARTS - JOB_STEPS + PARTS // FORGOTTEN_IN_STEP
    assert stage.store.position() == before[1] + 1
    assert program.hears() is None, "the answer waits for the disk"
    assert hears(program) == ANSWERS[action]
    assert parts_in_store(stage) == 0
    assert len(stage.store.metadata.get(SINK_LEDGERS, {})) == (0 if action == "forget" else 1)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_few_parts_are_dropped_in_the_turn_of_the_request(action: str) -> None:
    stage, program = many_parts(JOB_STEPS // 2)
    asks(program, action)
    assert removal_of(stage) is None
    stage.syncs()
    answer = program.hears()
    assert answer == (ANSWERS[action] if action == "begin" else {"messages": JOB_STEPS // 2})


@pytest.mark.large
@pytest.mark.parametrize("action", ACTIONS)
def test_a_crash_in_any_turn_leaves_all_parts_or_none(action: str) -> None:
    stage, program = many_parts()
    asks(program, action)
    outcomes = []
    while removal_of(stage) is not None:
        found = stage.restarts(position=stage.store.position())
        outcomes.append(parts_in_store(found))
        assert [row["staged"] for row in sinks(Program(found))] == (
            [] if is_forgotten(action, outcomes) else outcomes[-1:]
        )
        stage.runs()
    assert outcomes == sorted(outcomes, reverse=True) and set(outcomes) == {PARTS, 0}


def is_forgotten(action: str, outcomes: list[int]) -> bool:
    return action == "forget" and outcomes[-1] == 0


def sinks(program: Program) -> list[dict[str, object]]:
    """The rows of all sinks."""
    program.asks("sinks")
    found: list[dict[str, object]] = json.loads(program.body)
    return found


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("after", [0, 2, 5])
def test_other_requests_about_the_sink_wait_for_its_end(action: str, after: int) -> None:
    stage, program = many_parts()
    other = Program(stage, "other")
    asks(program, action)
    for _ in range(after):
        stage.runs()
    removal = removal_of(stage)
    is_waiting = removal is not None and removal.sink.epoch == 1  # afterwards the epoch is refused at once
    other.begins_to_ask("commit", body="0 0 1", query="q", epoch=1, batch=0)
    stage.syncs()
    if is_waiting:
        assert other.hears() is None
    stage.syncs()
    refusals = {
        "abort": "incomplete: batch 0 of sink q: 0 of 1 messages of partition 0",
        "forget": "unknown: there is no sink q",
        "begin": "fenced: sink q is at epoch 2, for run r2 has it now",
    }
    with pytest.raises(Refused, match=refusals[action]):
        hears(other)
    assert hears(program) == ANSWERS[action]
    assert in_queue(stage) == []


@pytest.mark.large
@pytest.mark.parametrize("action", ACTIONS)
def test_parts_that_come_meanwhile_are_refused(action: str) -> None:
    stage, program = many_parts()
    asks(program, action)
    late = Program(stage, "late")
    with pytest.raises(ControlRefusal, match=UNDER_WAY[action]):
        late.stages(0, 0, "late")
    if action == "abort":
        late.stages(1, 0, "next", transaction=2)
    assert hears(program) == ANSWERS[action]
    if action == "abort":
        assert program.commits(1, "0 0 1") == (1, False)
        assert in_queue(stage) == ["next"]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_removal_that_the_store_refuses_changes_nothing_and_can_be_repeated(action: str) -> None:
    stage, program = many_parts()
    asks(program, action)
    stage.store.refused = ResourceAllocationError("no")
    for _ in slices(stage):
        pass
    with pytest.raises(Refused, match="limit: no"):
        hears(program)
    stage.store.refused = None
    assert parts_in_store(stage) == PARTS
    assert [(row["epoch"], row["run"], row["staged"]) for row in sinks(program)] == [(1, "r1", PARTS)]
    asks(program, action)
    assert hears(program) == ANSWERS[action]
    assert parts_in_store(stage) == 0


@pytest.mark.parametrize("action", ACTIONS)
def test_a_connection_that_is_lost_leaves_a_whole_removal(action: str) -> None:
    stage, program = many_parts()
    asks(program, action)
    program.peer.leaves()
    settles(stage)
    assert removal_of(stage) is None
    assert parts_in_store(stage) == 0


@pytest.mark.large
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("after", range(0, 6, 2))
def test_a_stop_in_any_turn_leaves_all_parts_or_none(action: str, after: int) -> None:
    stage, program = many_parts()
    asks(program, action)
    for _ in range(after):
        stage.runs()
    stage.broker.begin_stop(stage.now)
    stage.broker.stop(stage.now)
    stage.syncs()
    assert parts_in_store(stage.restarts(clean=True)) in (0, PARTS)


@pytest.mark.large
def test_the_numbers_of_dropped_parts_are_used_again() -> None:
    stage, program = many_parts()
    asks(program, "abort")
    assert hears(program) == ANSWERS["abort"]
    for part in range(PARTS):
        program.stages(1, part, f"{part}", transaction=part + 1)
    settles(stage)
    assert parts_in_store(stage) == PARTS
    assert {found.destination.name for found in stage.store.recovered() if found.destination.kind == TRANSACTION} == {
        f"staged-{number}" for number in range(PARTS)
    }
