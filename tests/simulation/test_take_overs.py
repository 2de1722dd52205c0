"""A broker that stops before any call to the disk, another one that takes its store over, and a first one that goes on.

Every order of write, sync, seal, look at the epoch, and answer is tried for two brokers: the first stops after ``k``
steps, the second takes ``j``, the first takes ``i`` more, the second goes to its end, then the first to its own. Of
more brokers, which may also stop while they start, random orders are tried. SPANWIRE_TAKE_OVERS=all tries all orders of
the two, and 20,000 random ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from random import Random

import pytest

from spanwire.model.errors import StoreError
from tests.simulation.take_over_world import LONG, SHORT, World

IS_WHOLE = os.environ.get("SPANWIRE_TAKE_OVERS") == "all"
EVERY = int(os.environ.get("SPANWIRE_TAKE_OVERS_EVERY", "1" if IS_WHOLE else "307"))  # of the orders; a prime
SEEDS = 20_000 if IS_WHOLE else 150
LAST_STOP = 120  # steps of the first broker
START = 32  # steps of a broker up to its first call
LATE = 9  # steps after which a broker whose store is taken over has looked at the epoch
KEEPS_OPEN = pytest.mark.parametrize("keeps_open", [True, False])


def steps_of_two() -> tuple[int, int]:
    """How many steps the first and the second broker take if nobody stops them."""
    world = World()
    first, second = world.broker(LONG), world.broker(SHORT)
    first.actor.walk(-1)
    second.actor.walk(-1)
    world.check()
    return first.actor.steps, second.actor.steps


def orders(every: int) -> Iterator[tuple[int, int, int]]:
    first, second = steps_of_two()
    every_order = ((k, j, i) for k in range(first + 1) for j in range(second + 1) for i in range(LATE + 1))
    return (order for number, order in enumerate(every_order) if number % every == 0)


def interleave(world: World, k: int, j: int, i: int) -> None:
    """Two brokers in one order, and the check."""
    first, second = world.broker(LONG), world.broker(SHORT)
    first.actor.walk(k)
    second.actor.walk(j)
    first.actor.walk(i)
    second.actor.walk(-1)
    first.actor.walk(-1)
    world.check()


def hang_in_start(world: World, k: int, j: int) -> None:
    """A second broker hangs while it starts, the first writes late, and a third takes over; then the others go on."""
    first, second, third = world.broker(LONG), world.broker(SHORT), world.broker(SHORT)
    first.actor.walk(k)
    second.actor.walk(j)
    first.actor.walk(LATE)
    third.actor.walk(-1)
    second.actor.walk(-1)
    world.check()


def stumble(world: World, random: Random) -> None:
    """Four brokers, each of which stops anywhere and goes on at any time, and the check."""
    brokers = [world.broker(random.choice((LONG, SHORT))) for _ in range(4)]
    brokers[0].actor.walk(random.randrange(130))
    for _ in range(random.randrange(4, 16)):
        random.choice(brokers).actor.walk(random.choice((1, 2, 3, 8, 25, 80)))
    world.check()


@pytest.mark.large
@KEEPS_OPEN
def test_every_order_of_two_brokers_keeps_what_was_answered(keeps_open: bool) -> None:
    tried = 0
    for k, j, i in orders(EVERY):
        interleave(World(keeps_open=keeps_open), k, j, i)
        tried += 1
    print(f"{tried} orders")
    assert tried > 200


@KEEPS_OPEN
def test_a_broker_that_hangs_while_it_starts_takes_nothing_away(keeps_open: bool) -> None:
    for number, (k, j) in enumerate(product(range(LAST_STOP), range(START))):
        if number % (EVERY // 3 + 1) == 0:
            hang_in_start(World(keeps_open=keeps_open), k, j)


@pytest.mark.large
@KEEPS_OPEN
def test_random_orders_of_four_brokers_keep_what_was_answered(keeps_open: bool) -> None:
    for seed in range(SEEDS):
        try:
            stumble(World(keeps_open=keeps_open), Random(seed))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def is_wrong(order: Callable[[World], None], fault: str) -> bool:
    """Whether the check finds something in an order with a planted fault."""
    try:
        order(World(**{fault: False}))
    except (AssertionError, StoreError):
        return True
    return False


@pytest.mark.large
@pytest.mark.parametrize("fault", ["checks", "seals", "takes_over", "removes"])
def test_what_is_left_out_is_found(fault: str) -> None:
    found = any(is_wrong(partial(interleave, k=k, j=-1, i=0), fault) for k in range(LAST_STOP))
    stops = product(range(40, LAST_STOP), range(START))  # behind the first segment of the first broker
    assert found or any(is_wrong(partial(hang_in_start, k=k, j=j), fault) for k, j in stops)
