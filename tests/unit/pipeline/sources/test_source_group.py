"""Several sources at once, each step in its turn and not in a thread."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.source.retry_window import MAX_OUTAGE_S
from spanwire.pipeline.source.source_group import MAX_SOURCES, SourceGroup
from spanwire.pipeline.source.source_link import SourceLink


class Clock:
    """Seconds that pass when somebody asks."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class FakeLink(SourceLink):
    """A source with batches of some rows; its broker may be away."""

    def __init__(self, *batches: int, first: int = 0) -> None:
        self.batches = list(batches)
        self.first = first
        self.given_up = -1
        self.ahead = -1
        self.error: Exception | None = None
        self.asked = 0
        self.closed = 0
        self.is_bounded = False
        self.is_drained = False

    def begin(self) -> int:
        self._ask()
        return self.first

    def next_end(self, start: int, max_rows: int) -> int:
        self._ask()
        self.given_up = start
        if start - self.first < len(self.batches):
            return start + 1
        self.is_drained = self.is_bounded
        return start

    def read_ahead(self, end: int, max_rows: int) -> None:
        self.ahead = end

    def rows(self, start: int, end: int) -> int:
        return self.batches[start - self.first]

    def stop_at_current_end(self) -> None:
        self.is_bounded = True

    def lag(self) -> int:
        return 7

    def disconnect(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        self.closed += 1

    def _ask(self) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error


class Held:
    """Steps that are done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def run(self) -> None:
        works, self.waiting = self.waiting, []
        for work in works:
            work()


def at_once(work: Callable[[], None]) -> None:
    work()


def group_of(clock: Clock | None = None, **links: FakeLink) -> SourceGroup:
    group = SourceGroup(clock or Clock(), at_once, 0.0)
    for name, link in links.items():
        assert group.add(name, link)
    return group


def test_a_batch_takes_from_each_source_what_is_ready_and_gives_up_what_was_committed() -> None:
    a, b = FakeLink(3, 4), FakeLink(5, first=10)
    group = group_of(a=a, b=b)
    start = group.begin()
    assert start == {"a": 0, "b": 10}
    first = group.next_end(start, 100)
    assert (first, a.given_up, a.ahead, b.ahead) == ({"a": 1, "b": 11}, 0, 1, 11)
    second = group.next_end(first, 100)
    assert (second, a.given_up, b.given_up) == ({"a": 2, "b": 11}, 1, 11)
    assert group.next_end(second, 100) == second
    assert (group.lags(), group.away()) == ({"a": 7, "b": 7}, {})


def test_what_does_not_fit_a_batch_is_the_next_one_and_is_not_received_again() -> None:
    a, b = FakeLink(8, 8), FakeLink(8)
    group = group_of(a=a, b=b)
    first = group.next_end({"a": 0, "b": 0}, 10)
    assert first == {"a": 1, "b": 0}
    asked = b.asked
    assert group.next_end(first, 10) == {"a": 1, "b": 1}
    assert b.asked == asked


def test_the_same_question_has_the_same_answer() -> None:
    group = group_of(a=FakeLink(3, 4))
    assert group.next_end({"a": 0}, 100) == {"a": 1}
    assert group.next_end({"a": 0}, 100) == {"a": 1}


def test_a_broker_that_is_away_stops_nobody_is_shown_and_comes_back() -> None:
    clock = Clock()
    a, b = FakeLink(3, 4, 5), FakeLink(6)
    group = group_of(clock, a=a, b=b)
    start = group.begin()
    b.error = JmsError("connection refused")
    first = group.next_end(start, 100)
    assert (first, group.away()) == ({"a": 1, "b": 0}, {"b": "connection refused"})
    asked = b.asked
    second = group.next_end(first, 100)
    assert (second, b.asked) == ({"a": 2, "b": 0}, asked)
    clock.now += MAX_OUTAGE_S * 10
    third = group.next_end(second, 100)
    assert (third, b.asked) == ({"a": 3, "b": 0}, asked + 1)
    b.error = None
    clock.now += 60
    assert group.next_end(third, 100) == {"a": 3, "b": 1}
    assert group.away() == {}


def test_a_source_that_could_not_be_reached_at_the_start_joins_with_its_first_number() -> None:
    clock = Clock()
    a, b = FakeLink(3), FakeLink(6, first=40)
    b.error = JmsError("connection refused")
    group = group_of(clock, a=a, b=b)
    start = group.begin()
    assert start == {"a": 0}
    end = group.next_end(start, 100)
    assert end == {"a": 1}
    b.error = None
    clock.now += 60
    joined = group.next_end(end, 100)
    assert joined == {"a": 1, "b": 40}
    assert group.next_end(joined, 100) == {"a": 1, "b": 41}


def test_a_source_that_is_slow_keeps_nobody_waiting() -> None:
    held = Held()
    group = SourceGroup(Clock(), lambda work: held(work) if slow else work(), 0.0)
    slow = False
    a, b = FakeLink(3, 4), FakeLink(6)
    for name, link in {"a": a, "b": b}.items():
        group.add(name, link)
    start = group.begin()
    slow = True
    assert group.next_end(start, 100) == start
    first_a, first_b = held.waiting
    first_a()
    slow = False
    end = group.next_end(start, 100)
    assert end == {"a": 1, "b": 0}
    first_b()
    assert group.next_end(end, 100) == {"a": 2, "b": 1}


def test_no_broker_at_the_start_ends_the_query_at_once_and_later_after_a_while() -> None:
    clock = Clock()
    links = {"a": FakeLink(1, 2), "b": FakeLink(1, 2)}
    group = group_of(clock, **links)
    for link in links.values():
        link.error = JmsError("connection refused")
    with pytest.raises(JmsError, match="connection refused"):
        group.begin()
    group = group_of(clock, **links)
    for link in links.values():
        link.error = None
    end = group.next_end(group.begin(), 100)
    for link in links.values():
        link.error = JmsError("connection refused")
    assert group.next_end(end, 100) == end
    clock.now += MAX_OUTAGE_S + 1
    with pytest.raises(JmsError, match="connection refused"):
        group.next_end(end, 100)


def test_a_fault_of_one_source_ends_the_query() -> None:
    a, b = FakeLink(1), FakeLink(1)
    group = group_of(a=a, b=b)
    start = group.begin()
    b.error = ConfigurationError("another query has taken over")
    with pytest.raises(ConfigurationError, match="taken over"):
        group.next_end(start, 100)


def test_a_bounded_query_ends_when_every_source_has_ended() -> None:
    a, b = FakeLink(3, 4), FakeLink()
    group = group_of(a=a, b=b)
    group.stop_at_current_end()
    offsets = [group.begin()]
    while len(offsets) < 2 or offsets[-1] != offsets[-2]:
        offsets.append(group.next_end(offsets[-1], 100))
    assert offsets[-1] == {"a": 2, "b": 0}
    assert a.is_drained and b.is_drained


def test_a_bounded_query_leaves_no_source_out_without_a_word() -> None:
    clock = Clock()
    a, b = FakeLink(3), FakeLink(4)
    group = group_of(clock, a=a, b=b)
    start = group.begin()
    group.stop_at_current_end()
    b.error = JmsError("connection refused")
    end = group.next_end(start, 100)
    assert end == {"a": 1, "b": 0}
    clock.step = 1.0
    with pytest.raises(JmsError, match="b is away, so its messages are left: connection refused"):
        group.next_end(end, 100)
    assert clock.now > MAX_OUTAGE_S


def test_a_source_that_is_drained_from_the_start_does_not_join() -> None:
    left = FakeLink()
    left.is_drained = True
    group = group_of(a=FakeLink(1), left=left)
    start = group.begin()
    assert (start, group.next_end(start, 100)) == ({"a": 0}, {"a": 1})


def test_a_number_without_a_source_stays_in_the_offset() -> None:
    assert group_of(a=FakeLink(1)).next_end({"a": 0, "gone": 5}, 100) == {"a": 1, "gone": 5}


def test_a_group_has_so_many_sources_and_no_more() -> None:
    group = group_of()
    assert all(group.add(f"s{number}", FakeLink()) for number in range(MAX_SOURCES))
    assert not group.add("one more", FakeLink())
    assert group.add("s0", FakeLink())


def test_closing_closes_each_source_one_at_work_by_its_own_thread() -> None:
    held = Held()
    a, b = FakeLink(1), FakeLink(1)
    group = SourceGroup(Clock(), held, 0.0)
    group.add("a", a)
    group.next_end({"a": 0}, 100)
    group.add("b", b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spanwire.pipeline.source.source_group.CLOSE_WAIT_S", 0.0)
        group.close()
    assert (a.closed, b.closed) == (0, 1)
    held.run()
    assert a.closed == 1
