"""The line of a queue: positions that stay valid, holes that do not pile up."""

from __future__ import annotations

from array import array

from spanwire.broker.pending import ResidentLine, SpilledLine
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.queue import Queue
from spanwire.broker.reference import BrokerDestination, MessageReference
from spanwire.broker.usage import MemoryUsage
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import text_message

HOME = BrokerDestination(destination("queue://Q"), PolicyEntry(destination("queue://>")), MemoryUsage(0))


def reference(order: int) -> MessageReference:
    """A message with a place in the order."""
    return MessageReference(HOME, text_message(HOME.destination, order), 0, order, 0)


def orders(line: ResidentLine) -> list[int]:
    """The line as numbers."""
    return [entry.order for entry in line.snapshot()]


def test_a_line_gives_its_oldest_first() -> None:
    line = ResidentLine()
    for order in range(1, 4):
        line.append(reference(order))
    oldest = line.peek()
    assert oldest is not None
    assert oldest.order == 1
    line.pop()
    assert orders(line) == [2, 3]
    assert line.count == 2


def test_positions_stay_valid_while_slots_before_them_go() -> None:
    line = ResidentLine()
    for order in range(5_000):
        line.append(reference(order))
    for _ in range(4_000):
        line.pop()
    found = line.at(4_500)
    assert found is not None
    assert found.order == 4_500
    assert (line.first_position, line.end_position) == (4_000, 5_000)


def test_what_comes_back_takes_its_old_place() -> None:
    line = ResidentLine()
    for order in (2, 5, 7):
        line.append(reference(order))
    line.take(line.first_position + 1)
    position = line.merge([reference(3), reference(9), reference(1)])
    assert orders(line) == [1, 2, 3, 7, 9]
    first = line.at(position)
    assert first is not None
    assert first.order == 1


def test_a_line_that_is_cleared_goes_on_behind_its_end() -> None:
    line = ResidentLine()
    line.append(reference(1))
    end = line.end_position
    assert [entry.order for entry in line.clear()] == [1]
    line.append(reference(2))
    assert line.first_position == end
    assert line.peek() is not None


def test_the_holes_of_a_selective_queue_do_not_pile_up() -> None:
    stage = Stage(persistent=False)
    listener = stage.peer("c").consumes("queue://Q", selector="kind = 'a'")
    late = stage.peer("l").consumes("queue://Q", selector="kind = 'c'")
    producer = stage.peer("p")
    producer.sends("queue://Q", "first", properties={"kind": "b"})
    queue = listener.subscription.homes[0]
    for _ in range(20_000):
        producer.sends("queue://Q", "x", properties={"kind": "a"})
        listener.acknowledges("x", count=1)
        listener.deliveries.clear()
    assert isinstance(queue, Queue)
    line = queue._resident
    assert line.count == 1
    assert line.end_position - line.first_position < 5_000
    producer.sends("queue://Q", "wanted", properties={"kind": "c"})
    assert late.takes() == ["wanted"]
    assert stage.peer("e").consumes("queue://Q").takes() == ["first"]


def test_the_spilled_line_keeps_the_order_of_stored_and_volatile_messages() -> None:
    line = SpilledLine()
    line.extend_sequences(array("q", [4, 5]))
    line.append_volatile(reference(1))
    line.append_sequence(6)
    line.append_volatile(reference(2))
    taken = line.take(3)
    assert taken[:2] == [4, 5]
    assert line.volatile(taken[2]).order == 1
    assert len(line) == 2
    sequences, volatile = line.clear()
    assert (sequences, [entry.order for entry in volatile], len(line)) == ([6], [2], 0)
