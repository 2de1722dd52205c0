"""How often cycles are looked for while messages pass."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from spanwire.pipeline.spark.gc_tuning import COLLECT_AFTER, RareCollections

BEFORE = (700, 10, 10)


class Ring:
    """Something that only the collector frees."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*BEFORE)
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_inside_and_as_before_behind_it() -> None:
    rare = RareCollections()
    with rare:
        assert gc.get_threshold() == (COLLECT_AFTER, *BEFORE[1:])
    assert gc.get_threshold() == BEFORE


def test_an_error_inside_sets_back_what_was() -> None:
    with pytest.raises(ValueError), RareCollections():
        raise ValueError
    assert gc.get_threshold() == BEFORE


def test_contexts_that_overlap_end_with_what_was_before_the_first() -> None:
    rare = RareCollections()
    rare.__enter__()
    rare.__enter__()
    rare.__exit__(None, None, None)
    assert gc.get_threshold()[0] == COLLECT_AFTER
    rare.__exit__(None, None, None)
    assert gc.get_threshold() == BEFORE


def test_what_somebody_sets_inside_stays() -> None:
    with RareCollections():
        gc.set_threshold(5000, 11, 12)
    assert gc.get_threshold() == (5000, 11, 12)


@pytest.mark.parametrize("own", [0, COLLECT_AFTER * 2])
def test_who_collects_less_often_by_himself_is_left_alone(own: int) -> None:
    gc.set_threshold(own, 10, 10)
    with RareCollections():
        assert gc.get_threshold()[0] == own
    assert gc.get_threshold()[0] == own


def test_cycles_of_others_are_still_freed_inside() -> None:
    with RareCollections():
        ring = Ring()
        gone = weakref.ref(ring)
        del ring
        kept: list[list[int]] = [[] for _ in range(COLLECT_AFTER + 1000)]
        assert gone() is None
        assert len(kept) > COLLECT_AFTER


KEEPING = """
import gc
from spanwire.pipeline.spark.gc_tuning import LOADED_MODULES
class Ring:
    def __init__(self):
        self.me = self
LOADED_MODULES.freeze()
first = gc.get_freeze_count()
rings = [Ring() for _ in range(1000)]
LOADED_MODULES.freeze()
del rings
print(first > 1000, gc.get_freeze_count() <= first, gc.collect() >= 1000, len(gc.get_objects()) < first)
import xml.dom.minidom
LOADED_MODULES.freeze()
print(gc.get_freeze_count() > first)
"""


def test_what_a_worker_has_loaded_is_not_looked_through_again_and_what_comes_later_is() -> None:
    answer = subprocess.run([sys.executable, "-c", KEEPING], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["True"] * 5


GROWING = """
import gc, sys, types, weakref
from spanwire.pipeline.spark.gc_tuning import LOADED_MODULES
class Ring:
    def __init__(self):
        self.me = self
gone = []
for number in range(5):
    sys.modules[f"made_{number}"] = types.ModuleType(f"made_{number}")
    rings = [Ring() for _ in range(100)]
    gone += map(weakref.ref, rings)
    LOADED_MODULES.freeze()
del rings
sys.modules["made_last"] = types.ModuleType("made_last")
LOADED_MODULES.freeze()
print(sum(one() is not None for one in gone))
"""


def test_cycles_that_lived_while_a_task_began_are_freed_when_another_loads_something() -> None:
    answer = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["0"]
