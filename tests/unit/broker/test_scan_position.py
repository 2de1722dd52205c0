"""Cursors of one line: which is before which, and one that goes to another."""

from __future__ import annotations

from spanwire.broker.queue.page import ScanPosition


def cursor(place: int, offset: int) -> ScanPosition:
    """One that stands there."""
    found = ScanPosition(place, True)
    found.offset = offset
    return found


def test_one_is_before_another_in_an_earlier_piece_or_further_up_in_the_same() -> None:
    assert cursor(1, 9).is_before(cursor(2, 0))
    assert cursor(2, 3).is_before(cursor(2, 4))
    assert not cursor(2, 4).is_before(cursor(2, 4))
    assert not cursor(3, 0).is_before(cursor(2, 4))


def test_one_that_goes_to_a_mark_has_seen_nothing_behind_it() -> None:
    reader = cursor(5, 7)
    reader.seen = 400
    reader.go_to(cursor(2, 4))
    assert (reader.page_number, reader.offset, reader.seen) == (2, 4, -1)
