"""One of several sources: staged, left behind, or under a cursor."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import JmsError
from spanwire.pipeline.options import ReadOptions, read_options
from spanwire.pipeline.source.pattern_link import PatternLink
from spanwire.pipeline.source.source_link import CursorLink, LeftLink, StagedLink
from tests.support.fake_control import FakeControl
from tests.support.pipeline_messages import FakeQueue, raw

AT_MS = 1_700_000_000_000  # when the message 0 was sent


class Connection:
    """A connection to a broker in memory."""

    def __init__(self, broker: FakeControl) -> None:
        self.broker = broker
        self.closed = 0

    def control(self) -> FakeControl:
        return self.broker

    def close(self) -> None:
        self.closed += 1


def options(**given: str) -> ReadOptions:
    return read_options({"destination": "ORDERS", **given})


def staged(path: Path, queue: FakeQueue, now: int = AT_MS) -> StagedLink:
    return StagedLink(options(stagingDirectory=str(path)), lambda _: queue.connect(), lambda: now)


def test_a_staged_source_reads_ahead_and_tells_its_lag(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(5))
    link = staged(tmp_path, queue, AT_MS + 250)
    assert (link.begin(), link.next_end(0, 2), link.rows(0, 1), link.lag()) == (0, 1, 2, 249)
    link.read_ahead(1, 2)
    assert queue.acknowledged == 4
    assert (link.next_end(1, 2), link.rows(1, 2)) == (2, 2)
    assert (link.next_end(2, 2), link.rows(2, 3), link.next_end(3, 2), link.lag()) == (3, 1, 3, 0)
    assert not link.is_drained
    link.close()


def test_a_bounded_staged_source_ends_at_an_empty_queue_and_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    link = staged(tmp_path, FakeQueue([raw(0)]), AT_MS + 10)
    link.stop_at_current_end()
    assert (link.next_end(0, 5), link.is_drained) == (1, False)
    assert (link.next_end(1, 5), link.is_drained) == (1, True)
    link.close()
    assert list(tmp_path.glob("*.arrow")) == []


def test_a_bounded_staged_source_ends_with_the_batch_that_has_a_later_message(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(4))
    link = staged(tmp_path, queue, AT_MS)
    link.stop_at_current_end()
    assert (link.next_end(0, 2), link.is_drained) == (1, True)
    link.read_ahead(1, 2)
    assert (link.next_end(1, 2), len(queue.waiting)) == (1, 2)
    link.close()


def test_what_was_staged_for_a_source_that_is_gone_is_read_and_nothing_is_received(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(6))
    link = staged(tmp_path, queue)
    assert link.next_end(0, 2) == 1
    link.read_ahead(1, 2)
    link.close()
    left = LeftLink(str(tmp_path))
    assert (left.begin(), left.is_drained) == (0, False)
    assert [left.next_end(start, 2) for start in (0, 1, 2)] == [1, 2, 2]
    assert left.is_drained and len(queue.waiting) == 2
    left.close()
    empty = LeftLink(str(tmp_path))
    assert empty.is_drained
    empty.close()
    back = staged(tmp_path, queue)
    assert (back.next_end(2, 2), back.rows(2, 3)) == (3, 2)
    back.close()


def test_the_ids_of_an_unconfirmed_batch_stay_when_its_source_is_gone(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1), raw(2)])
    queue.fails_to_acknowledge = 1
    link = staged(tmp_path, queue)
    assert link.next_end(0, 5) == 1
    link.close()
    left = LeftLink(str(tmp_path))
    assert (left.next_end(1, 5), left.is_drained) == (1, True)
    left.close()
    back = staged(tmp_path, queue)
    assert (back.next_end(1, 5), queue.waiting) == (1, [])
    back.close()


class Queues:
    """A broker that tells of its queues."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.closed = 0

    def take(self) -> list[Destination]:
        return [parse_destination(name) for name in self.answers.pop(0)]

    def close(self) -> None:
        self.closed += 1


def test_a_pattern_has_no_rows_and_tells_each_queue_once() -> None:
    queues = Queues(["A.X"], ["A.Y", "A.Z"], [])
    link = PatternLink(queues)
    assert link.begin() == 0
    assert [queue.name for queue in link.take_found()] == ["A.X"]
    assert (link.next_end(0, 5), link.is_drained) == (0, False)
    link.stop_at_current_end()
    assert (link.next_end(0, 5), link.is_drained) == (0, True)
    assert [queue.name for queue in link.take_found()] == ["A.Y", "A.Z"]
    assert link.take_found() == []
    link.disconnect()
    assert queues.closed == 1


def test_a_cursor_gives_up_what_is_committed_and_tells_how_many_wait() -> None:
    broker = FakeControl(range(7))
    connection = Connection(broker)
    link = CursorLink(options(cursor="c"), "run", connection)
    assert (link.begin(), link.next_end(0, 3), link.rows(0, 3), link.lag()) == (0, 3, 3, 4)
    link.read_ahead(3, 3)
    assert broker.cursors["c"].messages == [0, 1, 2]
    assert link.next_end(3, 3) == 6
    link.disconnect()
    link.close()
    assert connection.closed == 2


def test_a_bounded_cursor_ends_where_the_queue_ended_when_its_broker_was_asked_first() -> None:
    broker = FakeControl(range(2))
    link = CursorLink(options(cursor="c"), "run", Connection(broker))
    link.stop_at_current_end()

    def away(step: int, is_done: bool) -> None:
        raise JmsError("away")

    broker.stop, normal = away, broker.stop
    with pytest.raises(JmsError):
        link.next_end(0, 5)
    broker.stop = normal
    assert (link.next_end(0, 5), link.is_drained) == (2, False)
    broker.waiting += [5, 6]
    assert (link.next_end(2, 5), link.is_drained) == (2, True)
