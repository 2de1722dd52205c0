"""What a window of sequences remembers, against a set that remembers everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.persistence.sequence_window import DEFAULT_DEPTH, SequenceWindow, decoded_window

DEPTHS = st.sampled_from([1, 2, 7, 8, 9, 64, 100])
STEPS = st.lists(st.integers(-12, 40), max_size=120)


def window_and_truth(depth: int, steps: list[int]) -> tuple[SequenceWindow, set[int]]:
    """A window that was told sequences, each so far from the highest before; and all that were told it."""
    window = SequenceWindow(1000, depth)
    seen = {1000}
    for step in steps:
        sequence = window.highest + step
        if sequence > window.highest - depth:
            seen.add(sequence)
        window.add(sequence)
    return window, seen


@given(DEPTHS, STEPS)
def test_within_its_depth_a_window_knows_exactly_what_it_was_told(depth: int, steps: list[int]) -> None:
    window, seen = window_and_truth(depth, steps)
    for sequence in range(window.highest - depth + 1, window.highest + 5):
        assert window.holds(sequence) == (sequence in seen)


@given(DEPTHS, STEPS)
def test_below_its_depth_a_window_says_that_nothing_was_seen(depth: int, steps: list[int]) -> None:
    window, _ = window_and_truth(depth, steps)
    assert not any(window.holds(window.highest - depth - place) for place in range(50))


@given(DEPTHS, STEPS, st.sets(st.integers(980, 1200)))
def test_a_kept_window_comes_back_without_what_was_taken_out(depth: int, steps: list[int], out: set[int]) -> None:
    window, seen = window_and_truth(depth, steps)
    for sequence in out:
        window.remove(sequence)
    value = window.encoded()
    back = decoded_window(value, depth)
    expected = {s for s in seen if window.lowest <= s <= window.highest} - out
    if back is None:
        assert value == b"" and not expected
        return
    asked = range(window.lowest - 5, window.highest + 5)
    assert {sequence for sequence in asked if back.holds(sequence)} == expected


@given(DEPTHS, DEPTHS, STEPS)
def test_a_window_that_was_kept_deeper_comes_back_as_deep_as_it_may(depth: int, other: int, steps: list[int]) -> None:
    window, seen = window_and_truth(depth, steps)
    back = decoded_window(window.encoded(), other)
    assert back is not None
    for sequence in range(back.highest - min(depth, other) + 1, back.highest + 1):
        assert back.holds(sequence) == (sequence in seen)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_window_give_none_or_a_window_but_no_error(value: bytes) -> None:
    window = decoded_window(value, 64)
    assert window is None or window.holds(window.highest)


def test_a_producer_without_gaps_costs_seventeen_bytes() -> None:
    window = SequenceWindow(1, DEFAULT_DEPTH)
    for sequence in range(2, 10_000):
        window.add(sequence)
    assert len(window.encoded()) == 17
    assert window.holds(9_999) and window.holds(9_999 - DEFAULT_DEPTH + 1)
    assert not window.holds(9_999 - DEFAULT_DEPTH)


def test_a_jump_far_ahead_forgets_what_lies_behind() -> None:
    window = SequenceWindow(5, 64)
    window.add(1 << 32)
    assert window.holds(1 << 32)
    assert not window.holds(5) and not window.holds((1 << 32) - 1)
    window.add((1 << 32) - 1)
    assert window.holds((1 << 32) - 1)
