"""From a cursor into a sink of the control destination, with a kill before and after every request."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.model.errors import ConfigurationError, JmsError
from spanwire.pipeline.columns.column_decoder import MAX_CHUNK_BYTES, MAX_CHUNK_ROWS
from spanwire.pipeline.link.control_answers import Reservation
from spanwire.pipeline.link.control_client import MAX_RESERVED
from spanwire.pipeline.options import ReadOptions, read_options
from spanwire.pipeline.sink.batch_sink import Batch, StagedPart
from spanwire.pipeline.sink.control_sink import ControlSink
from spanwire.pipeline.source.cursor_source import CursorSource, record_batches
from spanwire.pipeline.source.offsets import cursor_offset, number_of, offset
from tests.support.fake_control import FakeControl
from tests.support.fake_ledger import KilledError, bodies
from tests.support.pipeline_messages import id_of, raw

ROWS = 3
COUNT = 8


def options(**given: str) -> ReadOptions:
    return read_options({"destination": "ORDERS", "cursor": "c", **given})


def reading(broker: FakeControl, run: str = "run", **given: str) -> CursorSource:
    return CursorSource(options(**given), run, lambda: broker)


def sink(broker: FakeControl, first: int = 0) -> ControlSink:
    return ControlSink(broker, "queue://OUT", first, lambda: None)


def no_stop(step: int, is_done: bool) -> None:
    """Nothing happens."""


def stopping(points: set[tuple[int, bool]], error: type[Exception]) -> Callable[[int, bool], None]:
    def stop(step: int, is_done: bool) -> None:
        if (step, is_done) in points:
            raise error("stopped")

    return stop


class Checkpoint:
    """What Spark keeps: the batches that it has begun, and how many of them are done."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.done = 0


def run_query(broker: FakeControl, checkpoint: Checkpoint, run: str) -> None:
    """One life of a query, to its end or to the first error: offsets, two partitions, stage, commit, done."""
    source = reading(broker, run)
    while True:
        if checkpoint.done == len(checkpoint.begun):
            start = checkpoint.begun[-1][1] if checkpoint.begun else source.begin()
            end = source.next_end(start, ROWS)
            if end == start:
                return
            checkpoint.begun.append((start, end))
        start, end = checkpoint.begun[-1]
        number = len(checkpoint.begun) - 1
        batch = Batch("q", run, number)
        target = sink(broker)
        parts: list[StagedPart] = []
        for partition, (low, high) in enumerate(source.ranges(start, end, 2, 1)):
            rows = broker.read_range("c", source.epoch, low, high)
            parts.append(target.stage(batch, partition, partition, bodies(rows)))
        target.commit(batch, parts)
        checkpoint.done += 1


def run_to_the_end(broker: FakeControl) -> int:
    checkpoint = Checkpoint()
    for starts in range(1, 20):
        try:
            run_query(broker, checkpoint, f"run{starts}")
        except (KilledError, JmsError):
            continue
        return starts
    raise AssertionError("the query does not come to its end")


@pytest.mark.large
@pytest.mark.parametrize("error", [KilledError, JmsError])
def test_a_kill_before_or_after_any_request_loses_nothing_and_doubles_nothing(error: type[Exception]) -> None:
    quiet = FakeControl(range(COUNT))
    assert run_to_the_end(quiet) == 1
    assert (quiet.delivered, quiet.waiting, quiet.cursors["c"].messages) == (list(range(COUNT)), [], [])
    points = [(step, is_done) for step in range(1, quiet.steps + 1) for is_done in (False, True)]
    for point in points:
        for second in [point, *[(point[0] + after, is_done) for after in range(1, 10) for is_done in (False, True)]]:
            broker = FakeControl(range(COUNT))
            broker.stop = stopping({point, second}, error)
            assert run_to_the_end(broker) > 1
            assert broker.delivered == list(range(COUNT)), (point, second)
            assert broker.cursors["c"].messages == [], (point, second)


def run_into_two(broker: FakeControl, targets: list[FakeControl], checkpoint: Checkpoint, run: str) -> None:
    """One life of a query whose batches go to two brokers, one write after the other, as in `foreachBatch`."""
    source = reading(broker, run)
    while True:
        if checkpoint.done == len(checkpoint.begun):
            start = checkpoint.begun[-1][1] if checkpoint.begun else source.begin()
            end = source.next_end(start, ROWS)
            if end == start:
                return
            checkpoint.begun.append((start, end))
        start, end = checkpoint.begun[-1]
        for index, target in enumerate(targets):
            write = Batch(f"ledger{index}", f"{run}/{len(checkpoint.begun)}", len(checkpoint.begun) - 1)
            ((low, high),) = source.ranges(start, end, 1, 1)
            rows = [row for row in broker.read_range("c", source.epoch, low, high) if isinstance(row, int)]
            own = bodies([row for row in rows if row % 2 == index])
            sink(target).commit(write, [sink(target).stage(write, 0, 0, own)])
        checkpoint.done += 1


@pytest.mark.parametrize("killed", [0, 1])
@pytest.mark.parametrize("error", [KilledError, JmsError])
def test_a_batch_for_two_brokers_reaches_each_once_wherever_it_is_killed(killed: int, error: type[Exception]) -> None:
    quiet = [FakeControl(), FakeControl()]
    run_into_two(FakeControl(range(COUNT)), quiet, Checkpoint(), "run")
    for point in [(step, is_done) for step in range(1, quiet[killed].steps + 1) for is_done in (False, True)]:
        broker, targets, checkpoint = FakeControl(range(COUNT)), [FakeControl(), FakeControl()], Checkpoint()
        targets[killed].stop = stopping({point}, error)
        with pytest.raises(error):
            run_into_two(broker, targets, checkpoint, "run1")
        run_into_two(broker, targets, checkpoint, "run2")
        delivered = [[int(str(row)) for row in target.delivered] for target in targets]
        assert delivered == [[n for n in range(COUNT) if n % 2 == index] for index in range(2)], point


def test_a_task_of_an_older_run_can_neither_read_nor_commit() -> None:
    broker = FakeControl(range(COUNT))
    old, new = reading(broker, "old"), reading(broker, "new")
    end = old.next_end(old.begin(), ROWS)
    batch = Batch("q", "old", 0)
    part = sink(broker).stage(batch, 0, 0, bodies(broker.read_range("c", old.epoch, 0, end)))
    assert new.begin() == 0
    broker.begin("q", "new")
    with pytest.raises(JmsError, match="fenced"):
        broker.read_range("c", old.epoch, 0, end)
    with pytest.raises(ConfigurationError, match="another query has taken over the cursor 'c', or it was released"):
        old.next_end(0, ROWS)
    with pytest.raises(ConfigurationError, match="the query q was started again elsewhere"):
        sink(broker).commit(batch, [part])
    assert broker.delivered == []


def test_a_batch_is_held_until_the_next_one_is_asked_for() -> None:
    broker = FakeControl(range(COUNT))
    source = reading(broker)
    assert source.next_end(source.begin(), ROWS) == 3
    assert source.next_end(0, ROWS) == 3
    assert broker.cursors["c"].messages == [0, 1, 2]
    assert source.next_end(3, ROWS) == 6
    assert (broker.cursors["c"].messages, source.end, source.waiting) == ([3, 4, 5], 6, 2)


def test_what_another_query_has_left_is_the_first_batch_and_no_larger_than_asked_for() -> None:
    broker = FakeControl(range(COUNT))
    left = reading(broker, "left")
    left.next_end(left.begin(), 5)
    source = reading(broker)
    assert [source.begin(), source.next_end(0, 2), source.next_end(2, 2)] == [0, 2, 4]


def test_available_now_ends_where_the_queue_ended_then() -> None:
    broker = FakeControl(range(4))
    source = reading(broker)
    start = source.begin()
    source.stop_at_current_end()
    broker.waiting += [10, 11]
    ends = [source.next_end(start, ROWS), source.next_end(3, ROWS), source.next_end(4, ROWS)]
    assert ends == [3, 4, 4]
    assert broker.cursors["c"].messages == [10, 11]


def test_ranges_are_the_same_whenever_they_are_asked() -> None:
    broker = FakeControl(range(COUNT))
    source = reading(broker)
    source.next_end(source.begin(), COUNT)
    again = reading(broker, "again")
    for one in (source, again):
        assert one.ranges(0, 8, 3, 1) == [(0, 3), (3, 6), (6, 8)]
        assert one.ranges(0, 8, 3, 5) == [(0, 5), (5, 8)]
        assert one.ranges(3, 3, 2, 1) == []


def test_a_checkpoint_behind_or_beyond_its_cursor_is_refused() -> None:
    broker = FakeControl(range(COUNT))
    source = reading(broker)
    source.next_end(source.begin(), ROWS)
    source.next_end(3, ROWS)
    for start, end in [(0, 3), (6, 9)]:
        with pytest.raises(
            ConfigurationError, match=f"the checkpoint is at the messages {start} to {end} of the cursor"
        ):
            reading(broker, "again").ranges(start, end, 1, 1)
    with pytest.raises(ConfigurationError, match="which are not reserved"):
        reading(broker, "later").next_end(0, ROWS)
    with pytest.raises(ConfigurationError, match="which are not reserved"):
        reading(broker, "last").next_end(100, ROWS)


def test_what_another_start_has_acknowledged_is_no_reason_for_another_checkpoint() -> None:
    broker = FakeControl(range(COUNT))
    source = reading(broker)
    source.next_end(source.begin(), ROWS)
    source.next_end(3, ROWS)  # the first batch is done, but a start that has read the checkpoint before repeats it
    with pytest.raises(ConfigurationError, match="start the query again, and if it ends like this again, use another"):
        reading(broker, "again").ranges(0, 3, 1, 1)
    assert reading(broker, "later").ranges(3, 6, 1, 1) == [(3, 6)]


class Counting(FakeControl):
    """Notes how many messages are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def reserve(
        self, name: str, epoch: int, messages: int, *, max_bytes: int = 0, acknowledge: int | None = None
    ) -> Reservation:
        self.asked.append(messages)
        return super().reserve(name, epoch, messages, max_bytes=max_bytes, acknowledge=acknowledge)


def test_a_batch_has_no_more_than_a_cursor_may_hold() -> None:
    broker = Counting()
    source = reading(broker)
    source.next_end(source.begin(), 500_000)
    assert broker.asked == [MAX_RESERVED]


def test_a_subscription_is_opened_by_its_names() -> None:
    broker = FakeControl()
    source = CursorSource(options(destination="topic://T", subscription="s", clientId="me"), "run", lambda: broker)
    assert source.begin() == 0
    assert list(broker.cursors) == ["me/s/c"]


def test_a_subscription_is_opened_with_the_selector_that_it_must_have() -> None:
    broker = FakeControl()
    named = options(destination="topic://T", subscription="s", clientId="me", selector="a = 1")
    assert CursorSource(named, "run", lambda: broker).begin() == 0
    assert list(broker.cursors) == ["me/s/c?a = 1"]


class Searching(FakeControl):
    """A broker that looks at one part of a long queue for each request: the third part has a match."""

    def __init__(self) -> None:
        super().__init__()
        self.left = [2, 1, 0]
        self.selector = ""

    def open_cursor(
        self, name: str, queue: str, run: str, *, exclusive: bool = False, selector: str = ""
    ) -> Reservation:
        self.selector = selector
        return super().open_cursor(name, queue, run, exclusive=exclusive)

    def reserve(
        self, name: str, epoch: int, messages: int, *, max_bytes: int = 0, acknowledge: int | None = None
    ) -> Reservation:
        left = self.left.pop(0) if self.left else 0
        if left == 0:
            self.waiting = ["match"]
        found = super().reserve(name, epoch, messages, max_bytes=max_bytes, acknowledge=acknowledge)
        return Reservation(found.epoch, found.start, found.end, left)


def test_a_bounded_source_with_a_selector_asks_until_all_was_looked_at() -> None:
    broker = Searching()
    source = reading(broker, selector="a = 1")
    assert source.begin() == 0
    assert broker.selector == "a = 1"
    source.stop_at_current_end()
    assert source.next_end(0, 10) == 1


def test_an_endless_source_with_a_selector_asks_once_for_a_batch() -> None:
    broker = Searching()
    source = reading(broker, selector="a = 1")
    assert [source.next_end(0, 10) for _ in range(3)] == [0, 0, 1]


def test_rows_come_in_order_with_the_number_that_the_broker_gives() -> None:
    portions = [[raw(0), raw(1)], [], [raw(2)]]
    rows = [row for batch in record_batches(options(), portions) for row in batch.to_pylist()]
    assert [row["JMSMessageID"] for row in rows] == [id_of(number) for number in range(3)]
    assert [row["sequence"] for row in rows] == [0, 1, 2]


def test_an_offset_of_another_cursor_or_of_a_directory_is_refused() -> None:
    assert number_of(cursor_offset("c", 7), "c") == 7
    with pytest.raises(ConfigurationError, match="the checkpoint belongs to the cursor 'd', not to the cursor 'c'"):
        number_of(cursor_offset("d", 7), "c")
    with pytest.raises(ConfigurationError, match="the checkpoint belongs to another source"):
        number_of(offset(7), "c")


def test_a_sink_that_never_saw_a_query_in_mid_course_is_refused() -> None:
    broker = FakeControl()
    batch = Batch("q", "run", 3)
    with pytest.raises(ConfigurationError, match=r'firstLedgerBatch", "3"'):
        sink(broker).stage(batch, 0, 0, bodies(["x"]))
    part = sink(broker, first=3).stage(batch, 0, 0, bodies(["x"]))
    assert sink(broker, first=3).commit(batch, [part])
    assert not sink(broker, first=3).commit(batch, [part])
    assert broker.delivered == ["x"]


def test_parts_without_messages_are_not_committed_by_name() -> None:
    broker = FakeControl()
    batch = Batch("q", "run", 0)
    target = sink(broker)
    parts = [target.stage(batch, 0, 5, bodies([])), target.stage(batch, 1, 6, bodies(["x"]))]
    broker.sinks["q"].staged.pop((0, 0, 5))
    assert target.commit(batch, parts)
    assert broker.delivered == ["x"]
    assert target.commit(Batch("q", "run", 1), [])


def test_batches_of_rows_are_bounded_whatever_comes_at_once() -> None:
    portion = [raw(number) for number in range(MAX_CHUNK_ROWS + 1)]
    large = [raw(number, bytes(MAX_CHUNK_BYTES // 2)) for number in range(3)]
    counts = [batch.num_rows for batch in record_batches(options(), [portion, large])]
    assert counts == [MAX_CHUNK_ROWS, 3, 1]
