"""On a full disk consumers empty the store, whatever they take first; producers may go on in the end."""

from __future__ import annotations

from random import Random

import pytest

from spanwire.model.destination import QUEUE, Destination
from spanwire.stores.journal.spare_files import RESERVE_PER_MESSAGE
from tests.simulation.disk import SimulatedDisk
from tests.support.full_disk_driver import FullDiskDriver
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")
SEGMENT = 64 * 1024
CAPACITY = 24 * SEGMENT


def filled(size: int, has_reserve: bool = True, at_once: int = 10) -> tuple[FullDiskDriver, list[int]]:
    """A driver whose disk has just become full, and what it stored."""
    disk = SimulatedDisk()
    disk.capacity = CAPACITY
    driver = FullDiskDriver(disk, SEGMENT, has_reserve)
    stored: list[int] = []
    while driver.has_room:
        stored += [driver.store.append(A, plain_message(A, len(stored), bytes(size))) for _ in range(at_once)]
        driver.turn()
    assert sum(disk.files().values()) > CAPACITY - SEGMENT - RESERVE_PER_MESSAGE * len(stored)
    return driver, stored


def in_order(stored: list[int], order: str) -> list[int]:
    leaving = list(stored)
    if order == "random":
        Random(4).shuffle(leaving)
    elif order == "newest first":
        leaving.reverse()
    elif order == "one of each segment":
        leaving = [sequence for start in range(97) for sequence in leaving[start::97]]
    return leaving


def drain(driver: FullDiskDriver, leaving: list[int], at_once: int) -> None:
    """AssertionError when an acknowledgement waits for ever."""
    for first in range(0, len(leaving), at_once):
        for sequence in leaving[first : first + at_once]:
            driver.store.remove(A, sequence)
        position = driver.store.position()
        driver.turn()
        assert driver.stored >= position, f"{len(leaving) - first} messages cannot be acknowledged"


@pytest.mark.large
@pytest.mark.parametrize("order", ["oldest first", "newest first", "random", "one of each segment"])
@pytest.mark.parametrize(("size", "at_once"), [(60, 1), (60, 40), (900, 1), (900, 25)])
def test_consumers_empty_a_full_store_in_any_order(order: str, size: int, at_once: int) -> None:
    driver, stored = filled(size)
    drain(driver, in_order(stored, order), at_once)
    assert driver.was_full
    assert driver.has_room, "producers do not go on although everything was consumed"
    driver.crash()
    assert not [found for found in driver.recovered if found.sequences]


def test_without_a_reserve_they_do_not() -> None:
    driver, stored = filled(60, has_reserve=False)
    with pytest.raises(AssertionError, match="cannot be acknowledged"):
        drain(driver, in_order(stored, "random"), 1)


@pytest.mark.large
@pytest.mark.parametrize("seed", range(6))
def test_power_cuts_while_a_full_store_is_emptied_lose_nothing(seed: int) -> None:
    random = Random(seed)
    driver, stored = filled(300)
    leaving = in_order(stored, "random")
    while leaving:
        count = min(len(leaving), random.randrange(1, 400))
        drain(driver, leaving[:count], random.choice((1, 10)))
        del leaving[:count]
        driver.disk = driver.disk.power_cut(random)
        driver.disk.capacity = CAPACITY
        driver._open()
        driver.turn()
        assert [left for found in driver.recovered for left in found.sequences] == sorted(leaving)
    assert driver.has_room


def test_messages_that_were_under_way_when_the_room_went_hold_nobody_up() -> None:
    driver, stored = filled(300)
    late = [driver.store.append(A, plain_message(A, 1, bytes(300))) for _ in range(SEGMENT // 4 // 400)]
    driver.store.remove(A, stored[0])
    position = driver.store.position()
    driver.turn()
    assert not driver.has_room
    assert driver.stored >= position
    drain(driver, [*in_order(stored[1:], "random"), *late], 5)
    assert driver.has_room


@pytest.mark.parametrize("most", [0, 2 * SEGMENT])
def test_as_much_as_was_ever_under_way_at_once_has_a_place_when_the_room_goes(most: int) -> None:
    disk = SimulatedDisk()
    disk.capacity = CAPACITY
    driver = FullDiskDriver(disk, SEGMENT)
    stored = [driver.store.append(A, plain_message(A, 1, bytes(300))) for _ in range(most // 350)]
    while driver.has_room:
        stored += [driver.store.append(A, plain_message(A, 1, bytes(300))) for _ in range(5)]
        driver.turn()
    stored += [driver.store.append(A, plain_message(A, 1, bytes(300))) for _ in range(SEGMENT // 350)]
    driver.store.remove(A, stored[0])
    position = driver.store.position()
    driver.turn()
    assert not driver.has_room
    assert (driver.stored >= position) == (most > 0)
    if most > 0:
        drain(driver, in_order(stored[1:], "random"), 3)
        assert driver.has_room
