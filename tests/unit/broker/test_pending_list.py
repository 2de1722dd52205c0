"""The line of a queue: pieces in memory and paged_out, cursors that stay where they are while pieces come and go."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.page import (
    MAX_PAGE_MESSAGES,
    MAX_PAGED_OUT_MESSAGES,
    NOT_STORED,
    REMOVED,
    Page,
    ScanPosition,
)
from spanwire.broker.queue.pending_list import MAX_PAGES_EXAMINED, MIN_PAGES_COMPACTED, PendingList
from spanwire.broker.queue.queue import Queue
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import text_message

HOME = BrokerDestination(destination("queue://Q"), PolicyEntry(destination("queue://>")), MemoryUsage(0))
NONE = array("q")


def reference(order: int, sequence: int = 0) -> MessageReference:
    """A message with a place in the order."""
    return MessageReference(HOME, text_message(HOME.name, order), sequence, order, 0)


def orders(line: PendingList) -> list[int]:
    """The orders of what is in memory."""
    return [item.order for page in line.snapshot(line.count) for item in page.items if item is not None]


def load(line: PendingList, page: Page) -> None:
    """The store answers: here a message's order is its sequence."""
    paged_out = page.paged_out
    assert paged_out is not None
    items: list[MessageReference | None] = []
    for index, number in enumerate(paged_out.numbers):
        if number == NOT_STORED:
            items.append(paged_out.in_memory[index])
        else:
            items.append(None if number == REMOVED else reference(number, number))
    line.load(page, items)


def test_a_line_gives_its_oldest_first() -> None:
    line = PendingList()
    for order in range(1, 4):
        line.append(reference(order))
    oldest = line.peek()
    assert oldest is not None
    assert oldest.order == 1
    line.pop()
    assert orders(line) == [2, 3]
    assert (line.count, line.loaded) == (2, 2)


def test_a_cursor_stays_at_its_message_while_the_pieces_before_it_go() -> None:
    line = PendingList()
    for order in range(5 * MAX_PAGE_MESSAGES):
        line.append(reference(order))
    cursor = line.open(True)
    for _ in range(3 * MAX_PAGE_MESSAGES + 7):
        assert line.page_at(cursor) is not None
        cursor.offset += 1
    for _ in range(2 * MAX_PAGE_MESSAGES + 3):
        line.pop()
    page = line.page_at(cursor)
    assert page is not None
    item = page.items[cursor.offset]
    assert item is not None
    assert item.order == 3 * MAX_PAGE_MESSAGES + 7


def test_what_comes_back_takes_its_old_place() -> None:
    line = PendingList()
    for order in (2, 5, 7):
        line.append(reference(order))
    cursor = line.open(True)
    page = line.page_at(cursor)
    assert page is not None
    line.take(page, 1)
    cursor.offset = 3
    line.put_back([reference(1), reference(3), reference(9)])
    assert orders(line) == [1, 2, 3, 7, 9]
    first = line.page_at(cursor)
    assert first is not None
    assert (first.items[cursor.offset], line.count) == (first.items[0], 5)


def test_what_comes_back_into_packed_messages_cuts_them_in_two() -> None:
    line = PendingList()
    for order in (10, 20, 30, 40):
        line.append(reference(order, order))
    cursor = line.open(True)
    for number in range(MAX_PAGE_MESSAGES):
        line.append(reference(50 + number, 50 + number))
    assert line.page_at(cursor) is not None
    cursor.offset = MAX_PAGE_MESSAGES
    assert line.page_at(cursor) is not None
    assert len(line.page_out_scanned(1)) == MAX_PAGE_MESSAGES
    line.put_back([reference(25, 25)])
    numbers = [list(page.paged_out.numbers[:3]) if page.paged_out else orders_of(page) for page in line.snapshot(9999)]
    assert numbers[:3] == [[10, 20], [25], [30, 40, 50]]
    found = line.page_at(cursor)
    assert found is not None
    assert orders_of(found) == [25]
    cursor.offset = 1
    following = line.page_at(cursor)
    assert following is not None
    assert orders_of(following)[:1] == [50 + MAX_PAGE_MESSAGES - 4]  # what it has seen is passed over


def test_of_the_pieces_that_readers_have_passed_those_right_behind_them_leave_memory_first_one_at_a_time() -> None:
    line = PendingList()
    for order in range(1, 6 * MAX_PAGE_MESSAGES + 1):
        line.append(reference(order, order))
    slow, fast = line.open(True), line.open(True)
    for cursor, pieces in ((slow, 2), (fast, 4)):
        cursor.page_number += pieces
    left = [line.page_out_scanned(1) for _ in range(4)]
    firsts = [references[0].order // MAX_PAGE_MESSAGES for references in left if references]
    assert (firsts, len(left[3])) == ([1, 0, 3], 0)
    assert [len(references) for references in left[:3]] == [MAX_PAGE_MESSAGES] * 3


@pytest.mark.large
def test_a_look_for_pieces_to_pack_has_an_end() -> None:
    line = PendingList()
    for order in range(1, (MAX_PAGES_EXAMINED + 2) * MAX_PAGE_MESSAGES + 1):
        line.append(reference(order, order))
    cursor = line.open(True)
    cursor.page_number += MAX_PAGES_EXAMINED + 1
    assert len(line.page_out_scanned(1_000)) == MAX_PAGES_EXAMINED * MAX_PAGE_MESSAGES
    assert line.page_out_scanned(1_000) == []


def test_what_comes_back_goes_behind_a_packed_piece_of_which_nothing_is_left() -> None:
    line = PendingList()
    line.append(reference(10))
    line.append_paged_out(7, 0)
    line.append(reference(20))
    paged_out = line.snapshot(9)[1]
    line.remove_paged_out(paged_out, 0)
    line.put_back([reference(30)])
    assert orders(line) == [10, 20, 30]


def orders_of(page: Page) -> list[int]:
    return [item.order for item in page.items if item is not None]


def packed_line(count: int) -> PendingList:
    """Messages that came back paged_out: here orders and numbers are the same."""
    line = PendingList()
    put_back_paged_out(line, list(range(1, count + 1)))
    return line


def put_back_paged_out(line: PendingList, numbers: list[int]) -> None:
    line.put_back_paged_out(array("q", numbers), array("q", numbers), array("q", [0] * len(numbers)))


def remove_paged_out(line: PendingList, numbers: set[int]) -> None:
    for page in line.snapshot(line.count):
        paged_out = page.paged_out
        assert paged_out is not None or page.live == 0
        for index, number in enumerate([] if paged_out is None else list(paged_out.numbers)):
            if number != REMOVED and number in numbers:
                line.remove_paged_out(page, index)


def packed_numbers(line: PendingList) -> list[list[int]]:
    """What is left of each piece."""
    pieces = [page.paged_out.numbers for page in line.snapshot(line.count) if page.paged_out is not None]
    return [[number for number in piece if number != REMOVED] for piece in pieces]


def test_a_run_that_comes_back_packed_is_one_piece_whatever_it_was_taken_from() -> None:
    line = packed_line(9)
    for run in ([1, 2, 3, 4], [5, 6], [7, 8], [2, 3]):
        remove_paged_out(line, set(run))
        put_back_paged_out(line, run)
    assert [piece for piece in packed_numbers(line) if piece] == [[1], [2, 3], [4], [5, 6], [7, 8], [9]]


def test_a_run_that_comes_back_packed_goes_before_a_piece_that_is_being_read_in_one() -> None:
    line = packed_line(9)
    remove_paged_out(line, {2, 4, 6, 8})
    piece = line.first_paged_out(1)
    assert piece is not None
    piece.reading = True
    put_back_paged_out(line, [2, 4, 6, 8])
    assert packed_numbers(line) == [[2, 4, 6, 8], [1, 3, 5, 7, 9]]


@given(st.lists(st.tuples(st.sets(st.integers(1, 30)), st.sets(st.integers(1, 30))), max_size=12))
def test_what_comes_back_packed_is_in_order_whatever_is_missing(steps: list[tuple[set[int], set[int]]]) -> None:
    line = packed_line(30)
    out: set[int] = set()
    for takes, returns in steps:
        remove_paged_out(line, takes)
        out |= takes
        back = sorted(out & returns)
        if back:
            put_back_paged_out(line, back)
            out -= returns
        found = [number for piece in packed_numbers(line) for number in piece]
        assert found == [number for number in range(1, 31) if number not in out]
        assert line.count == len(found)


def test_ten_million_recovered_messages_take_eight_bytes_each() -> None:
    line = PendingList()
    line.extend(array("q", range(1, 100_001)), NONE, NONE)
    pages = line.snapshot(line.count)
    assert line.count == 100_000
    assert len(pages) == -(-100_000 // MAX_PAGED_OUT_MESSAGES)
    assert sum(page.paged_out.numbers.itemsize * len(page) for page in pages if page.paged_out) == 800_000
    assert not any(len(page.paged_out.orders) + len(page.paged_out.dues) for page in pages if page.paged_out)


def test_due_times_stand_beside_their_messages_and_follow_them_when_a_piece_is_cut() -> None:
    line = PendingList()
    line.extend(array("q", range(1, 11)), array("q", [3, 8]), array("q", [300, 100]))
    page = line.first_paged_out(1)
    assert page is not None
    assert page.paged_out is not None
    assert page.paged_out.earliest == 100
    line.cut(page, 5)
    parts = [found.paged_out for found in line.snapshot(10) if found.paged_out is not None]
    assert [(list(part.numbers), part.earliest) for part in parts] == [([1, 2, 3, 4, 5], 300), ([6, 7, 8, 9, 10], 100)]


@pytest.mark.large
def test_the_holes_of_a_selective_queue_do_not_pile_up() -> None:
    stage = Stage(persistent=False)
    listener = stage.peer("c").consumes("queue://Q", selector="kind = 'a'")
    late = stage.peer("l").consumes("queue://Q", selector="kind = 'c'")
    producer = stage.peer("p")
    producer.sends("queue://Q", "first", properties={"kind": "b"})
    queue = next(iter(listener.subscription.destinations))
    for _ in range((MIN_PAGES_COMPACTED + 10) * MAX_PAGE_MESSAGES):
        producer.sends("queue://Q", "x", properties={"kind": "a"})
        listener.acknowledges("x", count=1)
        listener.deliveries.clear()
    assert isinstance(queue, Queue)
    line = queue.pending.lists[0]
    assert line.count == 1
    assert len(line._pages) <= MIN_PAGES_COMPACTED
    producer.sends("queue://Q", "wanted", properties={"kind": "c"})
    assert late.takes() == ["wanted"]
    assert stage.peer("e").consumes("queue://Q").takes() == ["first"]


class LineModel(RuleBasedStateMachine):
    """A line beside a plain list of orders. Readers that look back see everything that is in the line; those that do
    not see each message once at most.
    """

    def __init__(self) -> None:
        super().__init__()
        self.line = PendingList()
        self.number = 0
        self.model: list[int] = []
        self.out: list[MessageReference] = []
        self.looking = self.line.open(True)
        self.walking = self.line.open(False)
        self.looked: set[int] = set()
        self.reading: list[Page] = []
        self.walked: set[int] = set()

    @rule(count=st.integers(1, 700), stored=st.booleans())
    def append(self, count: int, stored: bool) -> None:
        for _ in range(count):
            self.number += 1
            self.model.append(self.number)
            self.line.append(reference(self.number, self.number if stored else 0))

    @rule(count=st.integers(1, 700), kept=st.booleans())
    def append_paged_out(self, count: int, kept: bool) -> None:
        for _ in range(count):
            self.number += 1
            self.model.append(self.number)
            if kept:
                self.line.append_transient(NOT_STORED, reference(self.number))
            else:
                self.line.append_paged_out(self.number, 0)

    @precondition(lambda self: self.line.peek() is not None)
    @rule(count=st.integers(1, 300))
    def pop(self, count: int) -> None:
        for _ in range(count):
            oldest = self.line.peek()
            if oldest is None:
                return
            assert oldest.order == self.model.pop(0)
            self.line.pop()
            self.out.append(oldest)

    @rule(back=st.booleans(), steps=st.integers(1, 900), every=st.integers(1, 50))
    def look(self, back: bool, steps: int, every: int) -> None:
        """Look on, take some of what is seen; load what is paged_out."""
        cursor: ScanPosition = self.looking if back else self.walking
        for step in range(steps):
            page = self.line.page_at(cursor)
            if page is None:
                return
            if page.paged_out is not None:
                if page.reading:
                    return
                page.reading = True
                self.reading.append(page)
                continue
            item = page.items[cursor.offset]
            if item is not None:
                if back:
                    self.looked.add(item.order)
                else:
                    assert item.order not in self.walked
                    self.walked.add(item.order)
                if back and step % every == 0:
                    self.line.take(page, cursor.offset)
                    self.model.remove(item.order)
                    self.out.append(item)
                    continue
            cursor.offset += 1

    @precondition(lambda self: self.reading)
    @rule()
    def answer(self) -> None:
        load(self.line, self.reading.pop(0))

    @rule(pieces=st.integers(1, 3))
    def page_out(self, pieces: int) -> None:
        self.line.page_out_scanned(pieces)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.integers(0, len(self.out) - 1), min_size=1, max_size=20))
        back = sorted((self.out[index] for index in chosen), key=lambda item: item.order)
        self.out = [item for index, item in enumerate(self.out) if index not in chosen]
        self.line.put_back(back)
        for item in back:
            self.looked.discard(item.order)
            self.walked.discard(item.order)
        self.model = sorted(self.model + [item.order for item in back])

    @rule(count=st.integers(1, 200))
    def cut(self, count: int) -> None:
        page = self.line.first_paged_out(1000)
        if page is not None:
            self.line.cut(page, count)

    @invariant()
    def agree(self) -> None:
        found: list[int] = []
        loaded = 0
        for page in self.line.snapshot(1 << 60):
            if page.paged_out is None:
                found.extend(orders_of(page))
                loaded += page.live
                assert page.live == len(orders_of(page))
            else:
                kept = page.paged_out.in_memory
                own: list[int] = [item.order for item in page.returned]
                for index, number in enumerate(page.paged_out.numbers):
                    if number != REMOVED:
                        own.append(kept[index].order if number == NOT_STORED else number)
                found.extend(sorted(own))
                loaded += len(page.returned)
                assert page.live == page.paged_out.live() + len(page.returned)
        assert found == self.model
        assert (self.line.count, self.line.loaded) == (len(self.model), loaded)

    @invariant()
    def nothing_is_overlooked(self) -> None:
        """A reader at the end that looks back has seen all there is."""
        if self.line.page_at(self.looking) is None:
            assert set(self.model) <= self.looked


TestLineModel = LineModel.TestCase
TestLineModel.settings = settings(stateful_step_count=40)
