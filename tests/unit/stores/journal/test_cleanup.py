"""Which segments may go: in slices, and none before those that it keeps."""

from __future__ import annotations

from spanwire.stores.journal.index.cleanup import MAX_DROPPED, MAX_GONE, SegmentTable


def chain(count: int) -> SegmentTable:
    """Segments without live records, each of which holds the removals of the one before, and one that is written."""
    segments = SegmentTable()
    for number in range(1, count + 1):
        segments.open(number, number, 2, 4096)
        if number > 1:
            segments.refer(number - 1, number)
    return segments


def test_of_many_segments_that_may_go_some_do_in_each_turn() -> None:
    segments = chain(2 * MAX_DROPPED + 11)
    turns: list[list[int]] = []
    while chosen := segments.droppable(2 * MAX_DROPPED + 11):
        turns.append(chosen)
        for number in chosen:
            segments.drop(number)
    assert [len(chosen) for chosen in turns] == [MAX_DROPPED, MAX_DROPPED, 10]
    assert turns[0][0] == 1
    assert segments.numbers() == [2 * MAX_DROPPED + 11]
    assert not segments.changed


def test_a_segment_with_a_removal_stays_while_the_message_does() -> None:
    segments = chain(4)
    segments.hold(2, 100)
    assert segments.droppable(4) == [1]
    segments.drop(1)
    segments.release(2, 1, 100, 4)
    assert segments.droppable(4) == [2, 3]


def test_a_pinned_segment_stays_and_keeps_itself_alone() -> None:
    segments = chain(2)
    segments.pin(1)
    assert segments.droppable(2) == []
    assert segments.only_reference(segments.by_number[1]) == 1
    assert segments.has_references(segments.by_number[1])
    segments.unpin(1)
    assert segments.droppable(2) == [1]


def test_references_to_segments_that_are_gone_are_forgotten() -> None:
    segments = chain(MAX_GONE + 4)
    last = segments.by_number[MAX_GONE + 4]
    last.refers.update(range(1, MAX_GONE + 4))
    assert segments.only_reference(last) == 0
    for number in range(1, MAX_GONE + 3):
        segments.drop(number)
    assert segments.only_reference(last) == MAX_GONE + 3
    assert last.refers == {MAX_GONE + 3}
