"""Whatever breaks between a failover client and the disk: each of its sends is stored exactly once.

SPANWIRE_SEEDS sets how many worlds are played (50 unless told, 20 by the interpreted build).
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.simulation.resend_world import ResendWorld, destinations
from tests.support.seeds import SEEDS

STEPS = 500
REACHED = 20  # worlds in which all must happen that the seeds are for


def play(seed: int) -> ResendWorld:
    """One seed: a wild time and a calm end. What is asked for again is played once."""
    return played_once(seed) if seed < REACHED else played(seed)


@cache
def played_once(seed: int) -> ResendWorld:
    return played(seed)


def played(seed: int) -> ResendWorld:
    world = ResendWorld(seed)
    for _ in range(STEPS):
        world.step()
    world.rest()
    return world


@pytest.mark.large
@pytest.mark.parametrize("seed", SEEDS)
def test_every_send_of_a_failover_client_is_stored_exactly_once(seed: int) -> None:
    world = play(seed)
    told = f"seed {seed}: {world.crashes} crashes, {world.breaks} breaks, {world.duplicates} repetitions"
    for client in world.clients:
        for send in client.sent:
            assert world.places(send) == destinations(client, send), f"{told}: {send}"


def test_the_seeds_reach_what_they_are_for() -> None:
    worlds = [play(seed) for seed in range(REACHED)]
    assert sum(world.crashes for world in worlds) > 60
    assert sum(world.breaks for world in worlds) > 60
    assert sum(world.duplicates for world in worlds) > 200
    assert sum(world.cancelled for world in worlds) > 200
