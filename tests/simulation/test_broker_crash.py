"""Two clients, one broker, a disk that loses unsynced writes: what was promised holds over many seeds.

SIMULATION_SEEDS sets how many (100 unless told), SIMULATION_FIRST_SEED where they begin.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.world import DEAD, ORDERED, QUEUES, World
from tests.support.total_queue import Verdict, check

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "100"))
FIRST_SEED = int(os.environ.get("SIMULATION_FIRST_SEED", "0"))
STEPS = 300
REPLAY = "SIMULATION_FIRST_SEED={0} SIMULATION_SEEDS=1 python -m pytest tests/simulation/test_broker_crash.py"


def play(seed: int) -> tuple[World, Verdict]:
    """One seed: a wild time, an orderly end, the count."""
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    for client in world.clients:
        client.finish()
    world.rest()
    for client in world.clients:
        client.vanishes()
    drainer = world.clients[0]
    for queue in QUEUES:
        drainer.drains(queue)
    world.rest()
    for view in world.broker.destination_views():
        if view.destination in QUEUES:
            assert (view.pending, view.in_flight, view.memory_bytes) == (0, 0, 0), view
    before = len(world.ledger.events)
    drainer.drains(DEAD)
    world.rest()
    dead = [event.message for event in world.ledger.events[before:] if event.kind == "delivered"]
    del world.ledger.events[before:]
    for message in dead:
        world.ledger.buried(message)
    assert world.broker.statistics().memory_bytes == 0
    return world, check(world.ledger, ordered=(ORDERED,))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_is_lost_doubled_or_reordered_whenever_the_power_goes(seed: int) -> None:
    try:
        _, verdict = play(seed)
        assert verdict.ok, verdict.report()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\nreplay: {REPLAY.format(seed)}") from error


def test_the_seeds_are_wild_enough() -> None:
    worlds = [play(seed) for seed in range(8)]
    assert sum(world.power_cuts for world, _ in worlds) >= 8
    assert sum(world.stops for world, _ in worlds) >= 4
    verdicts = [verdict for _, verdict in worlds]
    assert sum(verdict.sent for verdict in verdicts) >= 1_000
    assert sum(verdict.duplicated for verdict in verdicts) >= 10
    assert any(world.journal.segment > 4 for world, _ in worlds)


def test_a_seed_plays_the_same_every_time() -> None:
    assert play(5)[0].ledger.events == play(5)[0].ledger.events
