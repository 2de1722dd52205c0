"""A bridge whose batches overlap loses nothing, wherever bridge, source or target is killed."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pair_world import AFTER, BEFORE, BRIDGE, SOURCE, TARGET, Fault, PairWorld

COUNT: Final = 7
BATCH: Final = 2
STEPS: Final = 17  # requests for four batches, and an empty receive
TURNS: Final = st.lists(st.integers(0, 9), max_size=12)
FAULTS: Final = st.lists(
    st.builds(Fault, st.integers(1, 80), st.sampled_from([BRIDGE, SOURCE, TARGET]), st.sampled_from([BEFORE, AFTER])),
    max_size=8,
)


def play(faults: list[Fault], turns: list[int], size: int = BATCH) -> PairWorld:
    world = PairWorld(COUNT, size, faults, turns)
    asyncio.run(world.run())
    return world


def test_two_batches_and_no_more_are_under_way() -> None:
    world = play([], [0, 5, 1])
    world.check()
    assert (world.steps, world.most_under_way, world.forwarded) == (STEPS, 2, COUNT)


@pytest.mark.parametrize("turns", [[0], [9, 0, 0], [0, 0, 9, 3]])
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
@pytest.mark.parametrize("victim", [BRIDGE, SOURCE, TARGET])
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_kill_at_any_step_loses_nothing_and_doubles_at_most_a_batch(
    step: int, victim: str, moment: str, turns: list[int]
) -> None:
    world = play([Fault(step, victim, moment)], turns)
    world.check()
    assert world.kills == 1


@given(FAULTS, TURNS, st.integers(1, 4))
def test_kills_at_any_steps_lose_nothing_and_double_at_most_a_batch_each(
    faults: list[Fault], turns: list[int], size: int
) -> None:
    play(faults, turns, size).check()


def test_the_check_finds_a_source_that_drops_messages_before_the_target_has_them() -> None:
    world = PairWorld(COUNT, BATCH, [Fault(3, BRIDGE, BEFORE)], [0])
    world.acknowledges_first = True
    asyncio.run(world.run())
    with pytest.raises(AssertionError, match="lost or out of order"):
        world.check()
