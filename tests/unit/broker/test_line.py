"""The line of a queue: pieces in memory and packed, cursors that stay where they are while pieces come and go."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.page import CHUNK_MESSAGES, KEPT, PACKED_MESSAGES, TAKEN, Chunk
from spanwire.broker.queue.pending_list import PASSED_LOOKS, MessageLine
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.scan_position import LineCursor
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import text_message

HOME = BrokerDestination(destination("queue://Q"), PolicyEntry(destination("queue://>")), MemoryUsage(0))
NONE = array("q")


def reference(order: int, sequence: int = 0) -> MessageReference:
    """A message with a place in the order."""
    return MessageReference(HOME, text_message(HOME.destination, order), sequence, order, 0)


def orders(line: MessageLine) -> list[int]:
    """The orders of what is in memory."""
    return [item.order for chunk in line.snapshot(line.count) for item in chunk.items if item is not None]


def load(line: MessageLine, chunk: Chunk) -> None:
    """The store answers: here a message's order is its sequence."""
    packed = chunk.packed
    assert packed is not None
    items: list[MessageReference | None] = []
    for index, number in enumerate(packed.numbers):
        if number == KEPT:
            items.append(packed.kept[index])
        else:
            items.append(None if number == TAKEN else reference(number, number))
    line.load(chunk, items)


def test_a_line_gives_its_oldest_first() -> None:
    line = MessageLine()
    for order in range(1, 4):
        line.append(reference(order))
    oldest = line.peek()
    assert oldest is not None
    assert oldest.order == 1
    line.pop()
    assert orders(line) == [2, 3]
    assert (line.count, line.loaded) == (2, 2)


def test_a_cursor_stays_at_its_message_while_the_pieces_before_it_go() -> None:
    line = MessageLine()
    for order in range(5 * CHUNK_MESSAGES):
        line.append(reference(order))
    cursor = line.open(True)
    for _ in range(3 * CHUNK_MESSAGES + 7):
        assert line.chunk_at(cursor) is not None
        cursor.offset += 1
    for _ in range(2 * CHUNK_MESSAGES + 3):
        line.pop()
    chunk = line.chunk_at(cursor)
    assert chunk is not None
    item = chunk.items[cursor.offset]
    assert item is not None
    assert item.order == 3 * CHUNK_MESSAGES + 7


def test_what_comes_back_takes_its_old_place() -> None:
    line = MessageLine()
    for order in (2, 5, 7):
        line.append(reference(order))
    cursor = line.open(True)
    chunk = line.chunk_at(cursor)
    assert chunk is not None
    line.take(chunk, 1)
    cursor.offset = 3
    line.give_back([reference(1), reference(3), reference(9)])
    assert orders(line) == [1, 2, 3, 7, 9]
    first = line.chunk_at(cursor)
    assert first is not None
    assert (first.items[cursor.offset], line.count) == (first.items[0], 5)


def test_what_comes_back_into_packed_messages_cuts_them_in_two() -> None:
    line = MessageLine()
    for order in (10, 20, 30, 40):
        line.append(reference(order, order))
    cursor = line.open(True)
    for number in range(CHUNK_MESSAGES):
        line.append(reference(50 + number, 50 + number))
    assert line.chunk_at(cursor) is not None
    cursor.offset = CHUNK_MESSAGES
    assert line.chunk_at(cursor) is not None
    assert len(line.pack_passed(1)) == CHUNK_MESSAGES
    line.give_back([reference(25, 25)])
    numbers = [list(chunk.packed.numbers[:3]) if chunk.packed else orders_of(chunk) for chunk in line.snapshot(9999)]
    assert numbers[:3] == [[10, 20], [25], [30, 40, 50]]
    found = line.chunk_at(cursor)
    assert found is not None
    assert orders_of(found) == [25]
    cursor.offset = 1
    following = line.chunk_at(cursor)
    assert following is not None
    assert orders_of(following)[:1] == [50 + CHUNK_MESSAGES - 4]  # what it has seen is passed over


def test_of_the_pieces_that_readers_have_passed_those_right_behind_them_leave_memory_first_one_at_a_time() -> None:
    line = MessageLine()
    for order in range(1, 6 * CHUNK_MESSAGES + 1):
        line.append(reference(order, order))
    slow, fast = line.open(True), line.open(True)
    for cursor, pieces in ((slow, 2), (fast, 4)):
        cursor.place += pieces
    left = [line.pack_passed(1) for _ in range(4)]
    firsts = [references[0].order // CHUNK_MESSAGES for references in left if references]
    assert (firsts, len(left[3])) == ([1, 0, 3], 0)
    assert [len(references) for references in left[:3]] == [CHUNK_MESSAGES] * 3


def test_a_look_for_pieces_to_pack_has_an_end() -> None:
    line = MessageLine()
    for order in range(1, (PASSED_LOOKS + 2) * CHUNK_MESSAGES + 1):
        line.append(reference(order, order))
    cursor = line.open(True)
    cursor.place += PASSED_LOOKS + 1
    assert len(line.pack_passed(1_000)) == PASSED_LOOKS * CHUNK_MESSAGES
    assert line.pack_passed(1_000) == []


def test_what_comes_back_goes_behind_a_packed_piece_of_which_nothing_is_left() -> None:
    line = MessageLine()
    line.append(reference(10))
    line.append_packed(7, 0)
    line.append(reference(20))
    packed = line.snapshot(9)[1]
    line.take_packed(packed, 0)
    line.give_back([reference(30)])
    assert orders(line) == [10, 20, 30]


def orders_of(chunk: Chunk) -> list[int]:
    return [item.order for item in chunk.items if item is not None]


def packed_line(count: int) -> MessageLine:
    """Messages that came back packed: here orders and numbers are the same."""
    line = MessageLine()
    give_back_packed(line, list(range(1, count + 1)))
    return line


def give_back_packed(line: MessageLine, numbers: list[int]) -> None:
    line.give_back_packed(array("q", numbers), array("q", numbers), array("q", [0] * len(numbers)))


def take_packed(line: MessageLine, numbers: set[int]) -> None:
    for chunk in line.snapshot(line.count):
        packed = chunk.packed
        assert packed is not None or chunk.live == 0
        for index, number in enumerate([] if packed is None else list(packed.numbers)):
            if number != TAKEN and number in numbers:
                line.take_packed(chunk, index)


def packed_numbers(line: MessageLine) -> list[list[int]]:
    """What is left of each piece."""
    pieces = [chunk.packed.numbers for chunk in line.snapshot(line.count) if chunk.packed is not None]
    return [[number for number in piece if number != TAKEN] for piece in pieces]


def test_a_run_that_comes_back_packed_is_one_piece_whatever_it_was_taken_from() -> None:
    line = packed_line(9)
    for run in ([1, 2, 3, 4], [5, 6], [7, 8], [2, 3]):
        take_packed(line, set(run))
        give_back_packed(line, run)
    assert [piece for piece in packed_numbers(line) if piece] == [[1], [2, 3], [4], [5, 6], [7, 8], [9]]


def test_a_run_that_comes_back_packed_goes_before_a_piece_that_is_being_read_in_one() -> None:
    line = packed_line(9)
    take_packed(line, {2, 4, 6, 8})
    piece = line.first_packed(1)
    assert piece is not None
    piece.reading = True
    give_back_packed(line, [2, 4, 6, 8])
    assert packed_numbers(line) == [[2, 4, 6, 8], [1, 3, 5, 7, 9]]


@given(st.lists(st.tuples(st.sets(st.integers(1, 30)), st.sets(st.integers(1, 30))), max_size=12))
def test_what_comes_back_packed_is_in_order_whatever_is_missing(steps: list[tuple[set[int], set[int]]]) -> None:
    line = packed_line(30)
    out: set[int] = set()
    for takes, returns in steps:
        take_packed(line, takes)
        out |= takes
        back = sorted(out & returns)
        if back:
            give_back_packed(line, back)
            out -= returns
        found = [number for piece in packed_numbers(line) for number in piece]
        assert found == [number for number in range(1, 31) if number not in out]
        assert line.count == len(found)


def test_ten_million_recovered_messages_take_eight_bytes_each() -> None:
    line = MessageLine()
    line.extend(array("q", range(1, 100_001)), NONE, NONE)
    chunks = line.snapshot(line.count)
    assert line.count == 100_000
    assert len(chunks) == -(-100_000 // PACKED_MESSAGES)
    assert sum(chunk.packed.numbers.itemsize * len(chunk) for chunk in chunks if chunk.packed) == 800_000
    assert not any(len(chunk.packed.orders) + len(chunk.packed.dues) for chunk in chunks if chunk.packed)


def test_due_times_stand_beside_their_messages_and_follow_them_when_a_piece_is_cut() -> None:
    line = MessageLine()
    line.extend(array("q", range(1, 11)), array("q", [3, 8]), array("q", [300, 100]))
    chunk = line.first_packed(1)
    assert chunk is not None
    assert chunk.packed is not None
    assert chunk.packed.earliest == 100
    line.cut(chunk, 5)
    parts = [found.packed for found in line.snapshot(10) if found.packed is not None]
    assert [(list(part.numbers), part.earliest) for part in parts] == [([1, 2, 3, 4, 5], 300), ([6, 7, 8, 9, 10], 100)]


def test_the_holes_of_a_selective_queue_do_not_pile_up() -> None:
    stage = Stage(persistent=False)
    listener = stage.peer("c").consumes("queue://Q", selector="kind = 'a'")
    late = stage.peer("l").consumes("queue://Q", selector="kind = 'c'")
    producer = stage.peer("p")
    producer.sends("queue://Q", "first", properties={"kind": "b"})
    queue = next(iter(listener.subscription.homes))
    for _ in range(60_000):
        producer.sends("queue://Q", "x", properties={"kind": "a"})
        listener.acknowledges("x", count=1)
        listener.deliveries.clear()
    assert isinstance(queue, Queue)
    line = queue.walk()[0]
    assert line.count == 1
    assert len(line._chunks) < 100
    producer.sends("queue://Q", "wanted", properties={"kind": "c"})
    assert late.takes() == ["wanted"]
    assert stage.peer("e").consumes("queue://Q").takes() == ["first"]


class LineModel(RuleBasedStateMachine):
    """A line beside a plain list of orders. Readers that look back see everything that is in the line; those that do
    not see each message once at most.
    """

    def __init__(self) -> None:
        super().__init__()
        self.line = MessageLine()
        self.number = 0
        self.model: list[int] = []
        self.out: list[MessageReference] = []
        self.looking = self.line.open(True)
        self.walking = self.line.open(False)
        self.looked: set[int] = set()
        self.reading: list[Chunk] = []
        self.walked: list[int] = []

    @rule(count=st.integers(1, 700), stored=st.booleans())
    def append(self, count: int, stored: bool) -> None:
        for _ in range(count):
            self.number += 1
            self.model.append(self.number)
            self.line.append(reference(self.number, self.number if stored else 0))

    @rule(count=st.integers(1, 700), kept=st.booleans())
    def append_packed(self, count: int, kept: bool) -> None:
        for _ in range(count):
            self.number += 1
            self.model.append(self.number)
            if kept:
                self.line.append_kept(KEPT, reference(self.number))
            else:
                self.line.append_packed(self.number, 0)

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
        """Look on, take some of what is seen; load what is packed."""
        cursor: LineCursor = self.looking if back else self.walking
        for step in range(steps):
            chunk = self.line.chunk_at(cursor)
            if chunk is None:
                return
            if chunk.packed is not None:
                if chunk.reading:
                    return
                chunk.reading = True
                self.reading.append(chunk)
                continue
            item = chunk.items[cursor.offset]
            if item is not None:
                if back:
                    self.looked.add(item.order)
                else:
                    assert item.order not in self.walked
                    self.walked.append(item.order)
                if back and step % every == 0:
                    self.line.take(chunk, cursor.offset)
                    self.model.remove(item.order)
                    self.out.append(item)
                    continue
            cursor.offset += 1

    @precondition(lambda self: self.reading)
    @rule()
    def answer(self) -> None:
        load(self.line, self.reading.pop(0))

    @rule(pieces=st.integers(1, 3))
    def pack(self, pieces: int) -> None:
        self.line.pack_passed(pieces)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.integers(0, len(self.out) - 1), min_size=1, max_size=20))
        back = sorted((self.out[index] for index in chosen), key=lambda item: item.order)
        self.out = [item for index, item in enumerate(self.out) if index not in chosen]
        self.line.give_back(back)
        for item in back:
            self.looked.discard(item.order)
            if item.order in self.walked:
                self.walked.remove(item.order)
        self.model = sorted(self.model + [item.order for item in back])

    @rule(count=st.integers(1, 200))
    def cut(self, count: int) -> None:
        chunk = self.line.first_packed(1000)
        if chunk is not None:
            self.line.cut(chunk, count)

    @invariant()
    def agree(self) -> None:
        found: list[int] = []
        loaded = 0
        for chunk in self.line.snapshot(1 << 60):
            if chunk.packed is None:
                found.extend(orders_of(chunk))
                loaded += chunk.live
                assert chunk.live == len(orders_of(chunk))
            else:
                kept = chunk.packed.kept
                own: list[int] = [item.order for item in chunk.returned]
                for index, number in enumerate(chunk.packed.numbers):
                    if number != TAKEN:
                        own.append(kept[index].order if number == KEPT else number)
                found.extend(sorted(own))
                loaded += len(chunk.returned)
                assert chunk.live == chunk.packed.live() + len(chunk.returned)
        assert found == self.model
        assert (self.line.count, self.line.loaded) == (len(self.model), loaded)

    @invariant()
    def nothing_is_overlooked(self) -> None:
        """A reader at the end that looks back has seen all there is."""
        if self.line.chunk_at(self.looking) is None:
            assert set(self.model) <= self.looked


TestLineModel = LineModel.TestCase
TestLineModel.settings = settings(stateful_step_count=40)
