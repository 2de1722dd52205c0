"""Damaged, cut, swapped, foreign and missing store files: found, or without effect; never wrong data.

SPANWIRE_DAMAGED sets how many are tried (1,000 unless told, 200 by the interpreted build), SPANWIRE_FIRST_DAMAGED where
they begin.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from random import Random

import pytest

from tests.simulation.damage import PUT_ASIDE, REFUSED, SAME, SHORTER, Damage, Sample, WrongDataError, judge
from tests.support.seeds import COUNT

DAMAGED = int(os.environ.get("SPANWIRE_DAMAGED", str(10 * COUNT)))
FIRST = int(os.environ.get("SPANWIRE_FIRST_DAMAGED", "0"))
SAMPLES = 12
REPLAY = "SPANWIRE_FIRST_DAMAGED={0} SPANWIRE_DAMAGED=1 python -m pytest tests/simulation/test_damage.py -k never"


@cache
def sample(number: int) -> Sample:
    return Sample(number, clean=number % 2 == 0)


@pytest.mark.large
@pytest.mark.timeout(120 + DAMAGED // 50)
def test_s42_damaged_files_never_give_wrong_data() -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + DAMAGED):
        damage = Damage(sample(seed % SAMPLES), Random(seed))
        try:
            outcomes[judge(sample(seed % SAMPLES), damage)] += 1
        except Exception as error:
            raise AssertionError(f"{damage.text}: {error}\nreplay: {REPLAY.format(seed)}") from error
    print(dict(outcomes))
    if DAMAGED >= 1000:
        assert outcomes[REFUSED] + outcomes[PUT_ASIDE] > DAMAGED // 3
        assert outcomes[SAME] > DAMAGED // 50
        assert outcomes[SHORTER] < DAMAGED // 5


def test_wrong_data_is_found_by_the_judge() -> None:
    damage = Damage(sample(0), Random(1))
    damage.files.clear()
    damage.files.update(sample(1).files)
    with pytest.raises(WrongDataError):
        judge(sample(0), damage)
