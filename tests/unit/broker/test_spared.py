"""Runs of sequences that cursors gave back."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.queue.sequence_ranges import SequenceRanges


@given(st.lists(st.sets(st.integers(1, 60)).flatmap(lambda found: st.permutations(sorted(found))), max_size=6))
def test_it_holds_what_was_added_and_nothing_else(additions: list[list[int]]) -> None:
    spared = SequenceRanges()
    model: set[int] = set()
    for sequences in additions:
        spared.add(array("q", sequences))
        model.update(sequences)
    assert [sequence for sequence in range(62) if spared.holds(sequence)] == sorted(model)
    assert len(spared) == sum(1 for sequence in model if sequence - 1 not in model)
