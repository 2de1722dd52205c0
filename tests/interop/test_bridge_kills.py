"""A kill of the source and one of the target of ONCE_AND_ONLY_ONCE, each at a chosen step, between real brokers.

`make soak-bridges` plays hundreds of such kills, at all steps and in each mode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.bridge_rounds import CLASSIC, COUNT, SOURCE, SPANWIRE, TARGET, Kill, Round, started
from tests.support.peers import require

PAIRS: Final = ((SPANWIRE, SPANWIRE), (SPANWIRE, CLASSIC), (CLASSIC, SPANWIRE))
POINTS: Final = (("Prepare", "Commit"), ("Commit", "Prepare"), ("Send", "Decide"), ("Decide", "Send"))
NUMBER: Final = 2  # of the batch of a kill
QUICK: Final = (PAIRS[0], POINTS[0])
CASES: Final = [
    pytest.param(pair, points, marks=() if (pair, points) == QUICK else pytest.mark.long, id="-".join((*pair, *points)))
    for pair in PAIRS
    for points in POINTS
]


@pytest.mark.parametrize(("kinds", "actions"), CASES)
def test_a_killed_source_and_a_killed_target_lose_and_double_nothing(
    kinds: tuple[str, str], actions: tuple[str, str], tmp_path: Path
) -> None:
    if CLASSIC in kinds:
        require("activemq-broker")
    with started(kinds[0], tmp_path / SOURCE) as source, started(kinds[1], tmp_path / TARGET) as target:
        played = Round("ONCE_AND_ONLY_ONCE", source, target, tmp_path)
        for victim, action in zip((SOURCE, TARGET), actions, strict=True):
            played.kill(Kill(victim, action, "after", NUMBER))
        texts = played.finish()
        if len(texts) < COUNT and kinds[0] == CLASSIC:
            texts += played.hidden()
        assert (len(texts), texts.total()) == (COUNT, COUNT), played.log
