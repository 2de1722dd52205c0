"""Two clients, one broker, a disk that loses unsynced writes: what was promised holds over many seeds.

SPANWIRE_SEEDS sets how many (50, or 20 interpreted), SPANWIRE_FIRST_SEED where they begin. The history of a seed that
fails is kept in ``out/soak``.
"""

from __future__ import annotations

import pytest

from tests.simulation.world import DEAD, ORDERED, QUEUES, World
from tests.support.histories import keep
from tests.support.seeds import SEEDS
from tests.support.total_queue import Verdict, check

STEPS = 300
WILD = 24  # worlds in which all must happen that the seeds are for
LIVED: dict[int, tuple[World, Verdict]] = {}  # the first ones, which two tests look at
REPLAY = "SPANWIRE_FIRST_SEED={0} SPANWIRE_SEEDS=1 python -m pytest tests/simulation/test_broker_crash.py"


def play(seed: int) -> tuple[World, Verdict]:
    """One seed: a wild time, an orderly end, the count."""
    return live(World(seed))


def live(world: World) -> tuple[World, Verdict]:
    """A wild time, an orderly end, the count."""
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


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_doubled_or_reordered_whenever_the_power_goes(seed: int) -> None:
    world = World(seed)
    replay = REPLAY.format(seed)
    try:
        _, verdict = lived = live(world)
        if seed < WILD:
            LIVED[seed] = lived
        assert verdict.ok, verdict.report()
    except Exception as error:
        path = keep("broker-crash", seed, str(error), replay, world.ledger.lines())
        raise AssertionError(f"seed {seed}: {error}\nreplay: {replay}\nhistory: {path}") from error


@pytest.mark.large
def test_the_seeds_are_wild_enough() -> None:
    worlds = [LIVED[seed] if seed in LIVED else play(seed) for seed in range(WILD)]
    assert sum(world.power_cuts for world, _ in worlds) >= 8
    assert sum(world.stops for world, _ in worlds) >= 4
    assert sum(world.disk_errors for world, _ in worlds) >= 1
    assert sum(world.clock_leaps for world, _ in worlds) >= 4
    verdicts = [verdict for _, verdict in worlds]
    assert sum(verdict.sent for verdict in verdicts) >= 1_000
    assert sum(verdict.duplicated for verdict in verdicts) >= 10
    assert any(world.journal.segment > 4 for world, _ in worlds)


def test_a_seed_plays_the_same_every_time() -> None:
    assert play(5)[0].ledger.events == play(5)[0].ledger.events
