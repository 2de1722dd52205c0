"""Sequences that a start finds out of their order, and what is remembered beside them."""

from __future__ import annotations

from array import array
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from spanwire.stores.journal.sequences import GONE, MAX_LATE_RUNS, SequenceIndex
from spanwire.stores.journal.traits import Traits


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=200))
def test_restoring_and_removing_in_any_order_is_like_a_dict(steps: list[tuple[int, bool]]) -> None:
    index = SequenceIndex()
    expected: dict[int, tuple[int, int]] = {}
    for place, (sequence, restores) in enumerate(steps):
        old = expected.get(sequence, (GONE, 0))
        if restores:
            assert index.restore(sequence, place * 8, place) == old[0]
            expected[sequence] = (place * 8, place)
        else:
            assert index.remove(sequence) == old[0]
            if old[0] != GONE:
                assert index.removed_length == old[1]
            expected.pop(sequence, None)
        assert index.find(sequence) == expected.get(sequence, (GONE, 0))[0]
        assert len(index) == len(expected)
    index.settle()
    assert list(index.sequences()) == sorted(expected)
    assert list(index.locations()) == [expected[sequence][0] for sequence in sorted(expected)]
    assert list(index.lengths()) == [expected[sequence][1] for sequence in sorted(expected)]


def test_many_segments_moved_in_any_order_are_merged() -> None:
    index = SequenceIndex()
    pieces = [range(first, first + 100) for first in range(0, 10_000, 100)]
    Random(7).shuffle(pieces)
    assert len(pieces) > MAX_LATE_RUNS
    for piece in pieces:
        for sequence in piece:
            assert index.restore(sequence, sequence * 8, 1) == GONE
    index.settle()
    assert list(index.sequences()) == list(range(10_000))
    assert index.find(5555) == 5555 * 8


def test_a_message_in_force_takes_twenty_bytes() -> None:
    index = SequenceIndex()
    for sequence in range(1, 100_001):
        index.restore(sequence, sequence * 8, 1024)
    for sequence in range(1, 50_001):  # moved behind the others
        index.restore(sequence, (1 << 40) + sequence * 8, 1024)
    index.settle()
    copies = (index.sequences(), index.locations(), index.lengths())
    assert sum(copy.itemsize for copy in copies) == 20
    assert len(index) == 100_000


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9))), st.sets(st.integers(1, 30)))
def test_traits_are_those_that_were_noted_last_for_what_is_left(noted: list[tuple[int, int]], left: set[int]) -> None:
    traits = Traits()
    for sequence, value in noted:
        traits.add_priority(sequence, value)
        traits.add_expiration(sequence, value * 1000)
    sequences = array("q", sorted(left))
    expected = {sequence: value for sequence, value in noted if sequence in left}
    assert traits.priorities(sequences) == expected
    found = traits.expirations(sequences)
    assert dict(zip(found.sequences, found.wall_ms, strict=True)) == {key: n * 1000 for key, n in expected.items()}
    assert list(found.sequences) == sorted(expected)
