"""A crash before every call to the disk, with every fate of what was not synced: the journal finds its state again.

SPANWIRE_CRASH_CALLS sets the length of the load (150 calls unless told), SPANWIRE_CRASH_EACH how many crashes are tried
at each moment.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from spanwire.model.errors import StoreError
from tests.simulation.crash_points import explore, outcomes
from tests.simulation.full_journal import LINES, FullJournal, work
from tests.support.seeds import SHORT

CALLS = int(os.environ.get("SPANWIRE_CRASH_CALLS", "150"))
EACH = int(os.environ.get("SPANWIRE_CRASH_EACH", "8" if SHORT else "16"))
DEEP = 23


@pytest.mark.large
@pytest.mark.timeout(0 if CALLS > 150 else 120)
@pytest.mark.parametrize("seed", range(3))
def test_no_crash_at_any_call_to_the_disk_loses_or_invents_anything(seed: int) -> None:
    points = explore(seed, CALLS, EACH, DEEP)
    print(f"{points.moments} moments, {points.crashes} crashes, {points.lives} lived through")
    assert points.moments > CALLS // 4
    assert points.crashes > 3 * points.moments
    assert points.lives > points.crashes // (DEEP + 1)


@pytest.mark.parametrize("lies", ["sync", "sync 0", "sync spare", "sync directory"])
def test_a_sync_that_does_nothing_is_found_out(lies: str) -> None:
    with pytest.raises((AssertionError, StoreError)):
        explore(0, 150, 8, 1000, lies=lies)


@pytest.mark.large
def test_the_load_asks_for_everything() -> None:
    full = FullJournal()
    work(full, Random(2), 3000)
    full.check()
    assert full.scans > 20
    assert full.transferred > 20
    assert full.gathered > 20
    assert full.deleted > 50
    assert full.state.metadata
    assert len(full.state.lines) == len(LINES)
    assert any(name.endswith(".summary") for name in full.disk.files())


def test_few_things_at_risk_are_tried_in_every_combination() -> None:
    tried = set(outcomes(5, Random(1), 1000))
    assert len(tried) == 2**5
    assert set(outcomes(0, Random(1), 10)) == {frozenset()}
    assert set(outcomes(1, Random(1), 10)) == {frozenset(), frozenset({0})}


def test_of_many_things_at_risk_a_part_is_tried() -> None:
    tried = list(outcomes(40, Random(1), 30))
    assert 20 < len(tried) <= 32
    assert all(len(missing) <= 3 or len(missing) >= 37 for missing in tried)
