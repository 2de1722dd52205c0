"""What Classic refuses, Spanwire refuses with the same exception and the same words, and the connection lives on."""

from __future__ import annotations

from tests.interop.conftest import OnBoth, assert_alike

# Where Spanwire answers otherwise, and why.
DEVIATIONS: dict[str, str] = {}


def test_refusals_have_the_same_class_and_words(on_both: OnBoth) -> None:
    ours, classics = on_both("refusals")
    assert len(ours) > 40
    assert [row["case"] for row in ours] == [row["case"] for row in classics]
    mine, theirs = [[row for row in rows if row["case"] not in DEVIATIONS] for rows in (ours, classics)]
    assert_alike(mine, theirs)
    assert {row["case"]: row["outcome"] for row in ours if row["case"] in DEVIATIONS} == DEVIATIONS
