"""How the interpreter of a broker's process is set."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from spanwire.service.machine.interpreter import (
    MAX_DEPARTED,
    OLD_COLLECTIONS,
    YOUNG_COLLECTIONS,
    YOUNG_OBJECTS,
    DepartedCollector,
)

SETTLED = """
import gc
from spanwire.service.machine.interpreter import settle_interpreter
settle_interpreter()
print(gc.get_freeze_count() > 1_000, *gc.get_threshold())
"""


def test_collections_are_short_in_the_process_of_a_broker() -> None:
    told = subprocess.run([sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True, timeout=60)
    frozen, *thresholds = told.stdout.split()
    assert frozen == "True"
    assert [int(text) for text in thresholds] == [YOUNG_OBJECTS, YOUNG_COLLECTIONS, OLD_COLLECTIONS]


class Cycle:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


def left_of(cycle: weakref.ref[Cycle]) -> bool:
    """Return True if the object is still in memory."""
    return cycle() is not None


@pytest.fixture
def _no_other_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_other_collections")
def test_everything_is_collected_after_many_departed_things() -> None:
    removed = 0
    collector = DepartedCollector(lambda: removed)
    cycle = weakref.ref(Cycle())
    removed = MAX_DEPARTED - 1
    collector.look(1000.0)
    assert left_of(cycle)
    removed = MAX_DEPARTED
    collector.look(1001.0)
    assert not left_of(cycle)


@pytest.mark.usefixtures("_no_other_collections")
def test_the_next_collection_waits_a_hundred_times_as_long_as_the_last_one_took() -> None:
    removed = MAX_DEPARTED
    collector = DepartedCollector(lambda: removed)
    collector.look(1000.0)
    removed = 3 * MAX_DEPARTED
    cycle = weakref.ref(Cycle())
    collector.look(1000.0)
    assert left_of(cycle)
    collector.look(1000.0 + 3600)
    assert not left_of(cycle)
