"""The places of moved messages: found again by sequence, kept as records, and bounded in number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.moves.move_order import COPY, MOVE, RETRY, UNDO, MoveOrder, decoded_order
from spanwire.broker.moves.moved_runs import CHUNK_RUNS, MAX_CAUSES, MAX_RUNS, MAX_TRANSIENT, MovedRuns
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from tests.support.dialogue.text_format import text_message

A, B, C = (Destination(QUEUE, name) for name in "ABC")


def test_consecutive_messages_are_one_run() -> None:
    runs = MovedRuns()
    for sequence in range(10, 1_010):
        runs.add(B, sequence, A, 0, "")
    runs.add(B, 1_011, A, 0, "")
    assert (len(runs), runs.count) == (2, 1_001)
    assert [runs.holds(B, sequence) for sequence in (9, 10, 1_009, 1_010, 1_011, 1_012)] == [
        False, True, True, False, True, False,
    ]  # fmt: skip
    assert not runs.holds(C, 10)


@given(
    st.lists(
        st.tuples(st.sampled_from([B, C]), st.integers(1, 3), st.sampled_from([A, C]), st.sampled_from(["", "x", "y"])),
        max_size=150,
    ),
    st.lists(st.integers(1, 10), min_size=1),
    st.booleans(),
)
def test_the_records_of_all_slices_give_the_runs_again(
    added: list[tuple[Destination, int, Destination, str]], sizes: list[int], copies: bool
) -> None:
    runs = MovedRuns()
    records: dict[int, bytes] = {}
    expected: dict[tuple[str, int], tuple[str, str]] = {}
    high = {B.name: 0, C.name: 0}
    copied: dict[str, set[int]] = {A.name: set(), C.name: set()}
    start = 0
    for number in range(len(added) + 1):
        size = sizes[number % len(sizes)]
        for target, step, source, cause in added[start : start + size]:
            high[target.name] += step
            source_sequence = len(copied[source.name]) + 1 if copies else 0
            if copies:
                copied[source.name].add(source_sequence)
            runs.add(target, high[target.name], source, source_sequence, cause)
            expected[target.name, high[target.name]] = (source.name, cause)
        records.update(runs.changed_chunks())
        start += size
    assert sorted(records) == list(range(runs.chunk_count()))
    again = MovedRuns()
    again.restore([records[chunk] for chunk in sorted(records)])
    assert again.changed_chunks() == []
    for found in (runs, again):
        assert found.count == len(added)
        assert {target.name for target in found.targets()} == {name for name, _ in expected}
        for target in (B, C):
            for sequence in range(1, high[target.name] + 2):
                origin = found.origin(target, sequence)
                shown = None if origin is None else (origin.source.name, origin.cause)
                assert shown == expected.get((target.name, sequence))
        for source in (A, C):
            there = found.copied_from(source)
            sequences = range(len(copied[source.name]) + 3)
            assert {sequence for sequence in sequences if there.holds(sequence)} == copied[source.name]


def test_a_slice_writes_the_last_record_alone() -> None:
    runs = MovedRuns()
    for sequence in range(2, 4 * CHUNK_RUNS, 2):
        runs.add(B, sequence, A, 0, "")
    assert [chunk for chunk, _ in runs.changed_chunks()] == [0, 1]
    runs.add(B, 4 * CHUNK_RUNS + 2, A, 0, "")
    assert [chunk for chunk, _ in runs.changed_chunks()] == [1]
    assert runs.changed_chunks() == []


def test_the_places_of_a_move_are_bounded() -> None:
    runs = MovedRuns()
    for sequence in range(2, 2 * MAX_RUNS + 6, 2):
        runs.add(B, sequence, A, 0, "")
    assert (len(runs), runs.count, runs.untraced) == (MAX_RUNS, MAX_RUNS, 2)
    for number in range(MAX_TRANSIENT + 3):
        runs.add_transient(B, text_message(A, number), A, "")
    assert (runs.count, runs.untraced) == (MAX_RUNS + MAX_TRANSIENT, 5)


def test_of_very_many_causes_the_last_ones_are_not_kept() -> None:
    runs = MovedRuns()
    for number in range(MAX_CAUSES + 1):
        runs.add(B, number + 1, A, 0, f"cause {number}")
    kept = runs.origin(B, MAX_CAUSES - 1)
    assert kept is not None and kept.cause == f"cause {MAX_CAUSES - 2}"
    last = runs.origin(B, MAX_CAUSES + 1)
    assert last is not None and last.cause == ""


def test_an_order_is_kept_as_it_was_given() -> None:
    for verb in (MOVE, COPY, RETRY, UNDO):
        order = MoveOrder(
            verb, [A, Destination(SUBSCRIPTION, "c:s")], None if verb == RETRY else B, "n > 1", 5, 6, 7, True, "ada", 8
        )
        order.marks = [1, 2]
        assert decoded_order(order.encoded()).encoded() == order.encoded()
