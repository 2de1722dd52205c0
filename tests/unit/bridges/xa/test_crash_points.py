"""A bridge between two brokers loses and doubles nothing, wherever bridge, source or target is killed."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.xa_world import AFTER, BEFORE, BRIDGE, LATE, SOURCE, TARGET, TORN, Fault, World

COUNT: Final = 5
BATCH: Final = 3
# The steps of two batches after the recovery at the start; the numbers are those of `World.steps`.
STEPS: Final = (
    "replace", "recover source", "recover target",
    "receive source", "send target", "prepare source", "prepare target", "append", "commit source", "commit target",
    "receive source", "send target", "prepare source", "prepare target", "append", "commit source", "commit target",
)  # fmt: skip
FAULTS: Final = st.lists(
    st.builds(
        Fault,
        st.integers(1, 80),
        st.sampled_from([BRIDGE, SOURCE, TARGET]),
        st.sampled_from([BEFORE, AFTER, LATE, TORN]),
    ),
    max_size=8,
)


def play(faults: list[Fault], count: int = COUNT, size: int = BATCH, begins: bool = False) -> World:
    world = World(count, faults, size)
    world.begins = begins
    asyncio.run(world.run())
    return world


def test_a_batch_takes_these_steps() -> None:
    world = play([])
    world.check()
    assert world.trace[: len(STEPS)] == list(STEPS)


@pytest.mark.parametrize("moment", [BEFORE, AFTER, LATE, TORN])
@pytest.mark.parametrize("victim", [BRIDGE, SOURCE, TARGET])
@pytest.mark.parametrize("step", range(1, len(STEPS) + 1))
def test_a_kill_at_any_step_loses_and_doubles_nothing(step: int, victim: str, moment: str) -> None:
    world = play([Fault(step, victim, moment)])
    world.check()


@given(FAULTS, st.integers(1, 4))
def test_kills_at_any_steps_lose_and_double_nothing(faults: list[Fault], size: int) -> None:
    play(faults, 7, size).check()


@given(FAULTS, st.integers(1, 4))
def test_kills_lose_and_double_nothing_where_a_branch_begins_before_its_receipts(
    faults: list[Fault], size: int
) -> None:
    play(faults, 7, size, begins=True).check()


def test_a_branch_that_begins_before_its_receipts_takes_the_same_steps() -> None:
    world = play([], begins=True)
    world.check()
    assert world.trace[: len(STEPS)] == list(STEPS)


def test_the_check_finds_a_log_that_forgets_its_decisions() -> None:
    commit_target = STEPS.index("commit target") + 1
    world = World(COUNT, [Fault(commit_target, BRIDGE, BEFORE)], BATCH)
    world.forgets = True
    asyncio.run(world.run())
    with pytest.raises(AssertionError, match="lost: 3"):
        world.check()


def test_a_branch_that_a_broker_prepares_late_is_rolled_back_by_the_next_recovery() -> None:
    prepare = STEPS.index("prepare source") + 1
    world = play([Fault(prepare, SOURCE, LATE)])
    world.check()
    assert "roll back source" in world.trace[prepare:]
