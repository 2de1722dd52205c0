"""Sequences that a start finds out of their order, and what is remembered beside them."""

from __future__ import annotations

from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.stores.journal.index.sequences import (
    BLOCK_SEQUENCES,
    GONE,
    MAX_LATE_RUNS,
    MIN_COMPACTION,
    SequenceBlock,
    SequenceIndex,
)
from spanwire.stores.journal.segments.traits import Traits


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


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 40)), max_size=12),
    st.lists(
        st.lists(st.integers(0, 500), max_size=4) | st.tuples(st.integers(0, 480), st.integers(0, 60)), max_size=8
    ),
)
def test_what_is_looked_up_or_removed_together_is_as_one_after_the_other(
    runs: list[tuple[int, int]], steps: list[list[int] | tuple[int, int]]
) -> None:
    index = SequenceIndex()
    expected: dict[int, tuple[int, int]] = {}
    for first, count in runs:
        for sequence in range(first, first + count):
            index.restore(sequence, 8 * sequence + count, count)
            expected[sequence] = (8 * sequence + count, count)
    for step in steps:
        asked = step if isinstance(step, list) else list(range(step[0], step[0] + step[1]))
        locations: list[int] = []
        lengths: list[int] = []
        index.locate(asked, locations, lengths)
        assert locations == [expected.get(sequence, (GONE, 0))[0] for sequence in asked]
        found = [length for place, length in enumerate(lengths) if locations[place] != GONE]
        assert found == [expected[sequence][1] for sequence in asked if sequence in expected]
        index.remove_all(asked, locations, lengths)
        assert len(locations) == len(lengths) == 2 * len(asked)
        for place, sequence in enumerate(asked):
            location, length = expected.pop(sequence, (GONE, 0))
            assert locations[len(asked) + place] == location
            assert location == GONE or lengths[len(asked) + place] == length
        assert len(index) == len(expected)
        assert list(index.sequences()) == sorted(expected)
    index.settle()
    assert list(index.locations()) == [expected[sequence][0] for sequence in sorted(expected)]
    assert list(index.lengths()) == [expected[sequence][1] for sequence in sorted(expected)]


@given(st.integers(1, 500), st.integers(0, 499), st.integers(1, 600), st.integers(0, 20))
def test_of_a_stretch_a_fourth_at_least_is_found_at_once(length: int, place: int, asked: int, gap: int) -> None:
    place %= length
    block = SequenceBlock()
    block.sequences.extend(range(length))
    wanted = array("q", [*range(-3, 0), *range(place, place + asked), *range(place + asked + gap, length + 30)])
    held = min(asked if gap else length, length - place)
    found = block.stretch(place, wanted, 3)
    assert held / 4 < found <= held


@pytest.mark.parametrize("size", [1, 7, 100, 5000])
@pytest.mark.parametrize("kept", [0, 1, 30, 1000])
def test_a_long_line_is_taken_apart_by_stretches_around_what_stays(size: int, kept: int) -> None:
    end = 3 * BLOCK_SEQUENCES + 7
    index = SequenceIndex()
    index.add_run(0, 0, 2, 5, end)
    expected = [sequence for sequence in range(end) if kept and sequence % 1500 < kept]
    leaving = [sequence for sequence in range(end) if not kept or sequence % 1500 >= kept]
    for first in range(0, len(leaving), size):
        asked = leaving[first : first + size]
        locations: list[int] = []
        lengths: list[int] = []
        index.locate(asked, locations, lengths)
        assert locations == [2 * sequence for sequence in asked]
        index.remove_all(asked, locations, lengths)
        assert locations[len(asked) :] == [2 * sequence for sequence in asked]
        assert lengths == [5] * (2 * len(asked))
    assert list(index.sequences()) == expected
    assert [index.find(sequence) for sequence in expected] == [2 * sequence for sequence in expected]


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


@pytest.mark.large
@pytest.mark.parametrize("order", ["first", "last", "any", "all but the oldest", "every other"])
def test_a_long_line_is_taken_apart_in_any_order(order: str) -> None:
    random = Random(3)
    index = SequenceIndex()
    index.add_run(10, 80, 2, 5, 3 * BLOCK_SEQUENCES + 7)
    expected = {sequence: (80 + 2 * (sequence - 10), 5) for sequence in range(10, 17 + 3 * BLOCK_SEQUENCES)}
    for sequence in range(10**6, 10**6 + 2 * BLOCK_SEQUENCES):
        index.add(sequence, sequence * 3, sequence % 9)
        expected[sequence] = (sequence * 3, sequence % 9)
    leaving = list(expected)
    if order == "last":
        leaving.reverse()
    elif order == "any":
        random.shuffle(leaving)
    elif order == "all but the oldest":
        leaving = leaving[1:]
    elif order == "every other":
        leaving = leaving[::2] + leaving[1::2]
    for count, sequence in enumerate(leaving):
        location, length = expected.pop(sequence)
        assert index.find(sequence) == location
        assert index.remove(sequence) == location
        assert index.removed_length == length
        assert index.find(sequence) == index.remove(sequence) == GONE
        if count % 1500 == 0 or len(expected) < 3:
            assert list(index.sequences()) == list(expected)
            assert list(index.locations()) == [location for location, _ in expected.values()]
            assert list(index.lengths()) == [length for _, length in expected.values()]
            kept = random.sample(list(expected), min(len(expected), 50))
            assert [(index.find(known), index.length(known)) for known in kept] == [expected[known] for known in kept]
            for known in kept:
                index.move(known, known * 7)
                expected[known] = (known * 7, expected[known][1])
    assert len(index) == len(expected)
    index.add(10**7, 8, 1)
    assert index.find(10**7) == 8
    assert list(index.sequences()) == [*expected, 10**7]


def test_no_call_touches_more_than_a_block_and_holes_take_little_room() -> None:
    index = SequenceIndex()
    index.add_run(1, 8, 1, 1, 50_000)
    leaving = list(range(1, 50_001))
    Random(5).shuffle(leaving)
    for count, sequence in enumerate(leaving[:-50]):
        index.remove(sequence)
        if count % 500 == 0:
            sizes = [len(block.sequences) for block in index._blocks]
            assert max(sizes) <= BLOCK_SEQUENCES
            assert sum(sizes) <= 2 * len(index) + MIN_COMPACTION * len(sizes)
    assert len(index._blocks) <= 3
    assert len(index) == 50


@pytest.mark.parametrize("late", [(), (700,), (1, 2), (4_999, 9_000)])
def test_those_that_leave_in_their_order_leave_the_others_where_they_are(late: tuple[int, ...]) -> None:
    index = SequenceIndex()
    for sequence in range(1, 10_001):
        index.add(sequence, sequence * 8, sequence)
    for sequence in range(1, 9_990):
        if sequence not in late:
            assert index.remove(sequence) == sequence * 8
            assert index.removed_length == sequence
    left = [*late, *range(9_990, 10_001)]
    assert list(index.sequences()) == left
    assert list(index.locations()) == [sequence * 8 for sequence in left]
    assert list(index.lengths()) == left
    assert sum(len(block.sequences) for block in index._blocks) < 2 * MIN_COMPACTION * len(index._blocks)
    index.add(10_001, 8, 3)
    assert index.find(10_001) == 8


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
