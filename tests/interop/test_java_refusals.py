"""What Classic refuses, Spanwire refuses with the same exception and the same words, and the connection lives on."""

from __future__ import annotations

from tests.interop.conftest import OnBoth

# Where Spanwire answers otherwise, and why.
DEVIATIONS: dict[str, str] = {}


def test_refusals_have_the_same_class_and_words(on_both: OnBoth) -> None:
    ours, classics = on_both("refusals")
    assert len(ours) > 40
    assert [row["case"] for row in ours] == [row["case"] for row in classics]
    unlike = [
        (mine, theirs["outcome"])
        for mine, theirs in zip(ours, classics, strict=True)
        if mine != theirs and mine["outcome"] != DEVIATIONS.get(mine["case"])
    ]
    assert unlike == []
