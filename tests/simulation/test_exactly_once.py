"""Cursor and sink move every message once, whoever dies when: the program, its zombies, the broker's power.

SPANWIRE_EXACTLY_ONCE_SEEDS sets how many worlds are lived through (15 unless told, 5 by the interpreted build).
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.exactly_once_world import ExactlyOnceWorld, Mover
from tests.support.seeds import SHORT

SEEDS = int(os.environ.get("SPANWIRE_EXACTLY_ONCE_SEEDS", "5" if SHORT else "15"))


def doubles(came: list[str]) -> list[str]:
    return sorted({text for text in came if came.count(text) > 1})


@pytest.mark.large
@pytest.mark.timeout(0 if SEEDS > 15 else 120)
def test_i21_every_message_is_moved_once_through_crashes_of_the_program_and_of_the_broker() -> None:
    kills = cuts = late = batches = 0
    for seed in range(SEEDS):
        world = ExactlyOnceWorld(seed)
        came = world.finish()
        assert len(came) == len(set(came)), f"seed {seed}: doubled {doubles(came)}"
        assert world.safe.issubset(came), f"seed {seed}: lost {sorted(world.safe.difference(came))}"
        assert set(came).issubset(world.sent)
        assert came == sorted(came), f"seed {seed}: out of order"
        kills += world.kills
        cuts += world.power_cuts
        late += world.late
        batches += world.checkpoint.done
    print(f"{kills} kills, {cuts} power cuts, {late} steps of zombies, {batches} batches")
    assert kills > SEEDS
    assert cuts > SEEDS
    assert late > 10 * SEEDS


def test_the_counting_finds_what_a_naive_program_doubles() -> None:
    assert any(doubles(ExactlyOnceWorld(seed, naive=True).finish()) for seed in range(5))


def test_a_run_goes_on_after_a_suspended_one_has_acknowledged_what_it_wants_to_read_again() -> None:
    world = ExactlyOnceWorld(0)
    world.calm = True
    while not world.checkpoint.ranges:
        world.step()
    successor = Mover(world, 2, world.checkpoint)  # it has read the checkpoint, and asks the broker later
    while len(world.checkpoint.ranges) < 2:
        world.step()
    world.zombies.append(world.mover)
    world.mover = successor
    world.runs = 2
    came = world.finish()
    assert world.runs > 2, "the successor was refused nothing"
    assert came == sorted(world.sent)
