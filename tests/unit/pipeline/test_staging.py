"""Whatever stops on the way: no message is lost, and what comes again is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.model.errors import JmsError
from spanwire.model.units import MIB
from spanwire.pipeline.arrow.segments import read_rows, row_count
from spanwire.pipeline.link.batch_receiver import MAX_RECEIVED, BatchReceiver
from spanwire.pipeline.options import ReadOptions, read_options
from spanwire.pipeline.source.staging import FIRST_WAIT_S, MAX_UNSETTLED, SHOWN_WAIT_S, Staging
from tests.support.pipeline_messages import FakeQueue, Raw, id_of, raw


def options(path: Path, **given: str) -> ReadOptions:
    return read_options({"destination": "ORDERS", "stagingDirectory": str(path), **given})


def opened(path: Path, queue: FakeQueue, **given: str) -> Staging:
    return Staging(options(path, **given), queue.connect, lambda: 0.0)


def ids(path: Path, number: int) -> list[str]:
    parts = read_rows(path, number, 0, row_count(path, number))
    return [row["JMSMessageID"] for part in parts for row in part.to_pylist()]


def expected(*numbers: int) -> list[str]:
    return [id_of(number) for number in numbers]


def test_messages_are_staged_then_acknowledged_and_discarded_after_the_commit(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(5))
    staging = opened(tmp_path, queue)
    assert staging.next_segment(0, 3) == 1
    assert (ids(tmp_path, 1), queue.acknowledged, staging.numbers()) == (expected(0, 1, 2), 3, [1])
    assert staging.next_segment(1, 3) == 2
    assert (ids(tmp_path, 2), queue.acknowledged, staging.numbers()) == (expected(3, 4), 5, [2])
    assert staging.next_segment(2, 3) == 2
    assert staging.numbers() == []
    staging.close()


def test_a_segment_that_spark_has_not_logged_is_handed_over_before_anything_is_received(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1), raw(2)])
    first = opened(tmp_path, queue)
    assert first.next_segment(0, 1) == 1
    first.close()
    second = opened(tmp_path, queue)
    assert second.next_segment(0, 1) == 1
    assert (ids(tmp_path, 1), len(queue.waiting)) == (expected(1), 1)
    second.close()


def test_what_was_staged_but_not_acknowledged_comes_once(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1), raw(2)])
    queue.fails_to_acknowledge = 1
    staging = opened(tmp_path, queue)
    assert staging.next_segment(0, 10) == 1
    queue.waiting.append(raw(3))
    assert staging.next_segment(1, 10) == 2
    assert (ids(tmp_path, 2), queue.acknowledged) == (expected(3), 3)
    assert staging.next_segment(2, 10) == 2
    assert staging.numbers() == []
    staging.close()


def test_a_new_process_knows_what_was_not_acknowledged_even_when_spark_has_committed_it(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1), raw(2)])
    queue.fails_to_acknowledge = 1
    first = opened(tmp_path, queue)
    assert first.next_segment(0, 10) == 1
    first.close()
    second = opened(tmp_path, queue)
    queue.waiting.append(raw(3))
    assert second.next_segment(1, 10) == 2
    assert ids(tmp_path, 2) == expected(3)
    second.close()


def test_only_known_messages_make_no_batch_but_are_acknowledged(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1)])
    queue.fails_to_acknowledge = 1
    staging = opened(tmp_path, queue)
    staging.next_segment(0, 10)
    assert staging.next_segment(1, 10) == 1
    assert (queue.acknowledged, queue.waiting) == (1, [])
    staging.close()


def test_new_messages_behind_known_ones_are_found_at_once(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(4))
    queue.fails_to_acknowledge = 1
    staging = opened(tmp_path, queue)
    assert staging.next_segment(0, 2) == 1
    assert staging.next_segment(1, 2) == 2
    assert ids(tmp_path, 2) == expected(2, 3)
    staging.close()


def test_a_connection_lost_while_receiving_stages_nothing_and_loses_nothing(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(2000))
    queue.fails_after = 1000
    staging = opened(tmp_path, queue)
    with pytest.raises(JmsError):
        staging.next_segment(0, 2000)
    assert staging.numbers() == []
    assert staging.next_segment(0, 2000) == 1
    assert (row_count(tmp_path, 1), queue.connections) == (2000, 2)
    staging.close()


def test_a_queue_whose_broker_is_away_is_not_taken_for_empty(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1)])
    queue.is_away = True
    staging = opened(tmp_path, queue)
    for read in (lambda: staging.next_segment(0, 10), staging.drain):
        with pytest.raises(JmsError, match="the broker is not connected"):
            read()
    assert staging.take_last() is None
    queue.is_away = False
    assert (staging.next_segment(0, 10), queue.connections) == (1, 1)
    staging.close()


def test_a_broker_that_dispatches_late_is_not_taken_for_an_empty_queue(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1)])
    queue.dispatch_s = FIRST_WAIT_S + 1.0
    staging = opened(tmp_path, queue)
    assert staging.next_segment(0, 10) == 1
    staging.close()


def test_messages_that_other_consumers_hold_are_waited_for_once_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = FakeQueue([raw(1)])
    queue.dispatch_s = SHOWN_WAIT_S + 1.0
    staging = opened(tmp_path, queue)
    for _ in range(2):
        assert staging.next_segment(0, 10) == 0
        received = staging.take_last()
        assert received is not None and received.is_empty
    assert caplog.messages == ["queue://ORDERS has messages, and none came within 1 s; waiting for them"]
    staging.close()


def test_an_acknowledgement_that_a_restarted_broker_forgot_is_recognised(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1), raw(2)])
    staging = opened(tmp_path, queue)
    staging.next_segment(0, 10)
    queue.waiting = [raw(1), raw(2), raw(3)]  # not even flagged
    assert staging.next_segment(1, 10) == 2
    assert ids(tmp_path, 2) == expected(3)
    staging.close()


def test_segments_whose_messages_never_come_again_do_not_pile_up(tmp_path: Path) -> None:
    queue = FakeQueue()
    for number in range(1, 12):
        queue.waiting = [raw(number)]
        queue.fails_to_acknowledge = 1
        staging = opened(tmp_path, queue)
        assert staging.next_segment(number - 1, 10) == number
        staging.close()
    staging = opened(tmp_path, FakeQueue())
    assert staging.next_segment(11, 10) == 11
    assert len(staging.numbers()) == MAX_UNSETTLED
    staging.close()


def test_a_batch_ends_with_its_rows_its_bytes_or_its_time(tmp_path: Path) -> None:
    def received(count: int, clock: Callable[[], float], **given: str) -> int:
        queue = FakeQueue(raw(number, "x" * 1000) for number in range(count))
        receiver = BatchReceiver(options(tmp_path, **given), clock)
        return len(receiver.receive(queue, 5000, [], lambda batch: None).ids)

    ticking = iter(range(10_000))
    assert received(6000, lambda: 0.0) == 5000
    assert received(6000, lambda: 0.0, maxBytesPerBatch="1500000") == 2000
    assert received(6000, lambda: float(next(ticking)), maxBatchMs="1500", receiveTimeoutMs="500") == 1000


def test_a_large_batch_is_taken_off_the_link_in_portions(tmp_path: Path) -> None:
    class Asked(FakeQueue):
        counts: ClassVar[list[int]] = []

        def receive(self, max_count: int, timeout_s: float) -> list[Raw]:
            self.counts.append(max_count)
            return super().receive(max_count, timeout_s)

    staging = opened(tmp_path, Asked(raw(number) for number in range(MAX_RECEIVED + 5)))
    assert staging.next_segment(0, MAX_RECEIVED + 3) == 1
    assert (Asked.counts, row_count(tmp_path, 1)) == ([MAX_RECEIVED, 3], MAX_RECEIVED + 3)
    staging.close()


def test_large_messages_make_record_batches_of_a_bounded_size(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number, bytes(MIB)) for number in range(40))
    batches: list[pa.RecordBatch] = []
    received = BatchReceiver(options(tmp_path), lambda: 0.0).receive(queue, 5000, [], batches.append)
    assert [batch.num_rows for batch in batches] == [2] * 20
    assert len(received.ids) == 40


def test_what_a_batch_read_drained_stays_until_it_is_deleted(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(25))
    staging = opened(tmp_path, queue, maxRowsPerBatch="10")
    staging.drain()
    assert staging.numbers() == [1, 2, 3]
    queue.waiting = [raw(99)]
    staging.drain()
    assert (staging.numbers(), ids(tmp_path, 4), queue.acknowledged) == ([1, 2, 3, 4], expected(99), 26)
    staging.close()


FAULTS = st.lists(st.sampled_from(["fine", "ack lost", "receive fails", "process dies", "not committed"]), max_size=12)


@pytest.mark.large
@settings(max_examples=60)
@given(FAULTS, st.integers(1, 7))
def test_over_any_faults_every_message_is_committed_once(
    tmp_path_factory: pytest.TempPathFactory, faults: list[str], rows: int
) -> None:
    path = tmp_path_factory.mktemp("staging")
    queue = FakeQueue(raw(number) for number in range(20))
    committed: list[str] = []
    start = 0
    staging = opened(path, queue)
    for fault in [*faults, *["fine"] * 40]:
        queue.fails_to_acknowledge = fault == "ack lost"
        queue.fails_after = 0 if fault == "receive fails" else None
        found = start
        try:
            found = staging.next_segment(start, rows)
            if found > start:
                staging.stage_after(found, rows)
        except JmsError:
            pass
        queue.fails_after = None
        if fault == "process dies":
            staging.close()
            staging = opened(path, queue)
        if found > start and fault != "not committed":
            committed += ids(path, found)
            start = found
    staging.close()
    assert sorted(committed) == sorted(id_of(number) for number in range(20))


def test_a_message_twice_in_one_batch_is_one_row(tmp_path: Path) -> None:
    once: Raw = raw(1)
    staging = opened(tmp_path, FakeQueue([once, once.again()]))
    staging.next_segment(0, 10)
    assert ids(tmp_path, 1) == expected(1)
    staging.close()


class KilledBehind(FakeQueue):
    """A queue whose reader is killed right after its first acknowledgement."""

    def acknowledge(self) -> None:
        super().acknowledge()
        if self.acknowledged == 3:
            raise KeyboardInterrupt


def test_at_most_once_acknowledges_before_it_stages_and_never_doubles(tmp_path: Path) -> None:
    queue = KilledBehind(raw(number) for number in range(6))
    staging = opened(tmp_path, queue, qualityOfServiceMode="AT_MOST_ONCE")
    with pytest.raises(KeyboardInterrupt):
        staging.next_segment(0, 3)
    staging.close()
    staging = opened(tmp_path, queue, qualityOfServiceMode="AT_MOST_ONCE")
    assert staging.next_segment(0, 10) == 1
    assert (ids(tmp_path, 1), queue.acknowledged) == (expected(3, 4, 5), 6)
    assert staging.next_segment(1, 10) == 1
    assert staging.numbers() == []
    staging.close()


def test_a_message_that_comes_again_after_its_segment_was_lost_is_not_known(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1)])
    queue.fails_to_acknowledge = 1
    staging = opened(tmp_path, queue, qualityOfServiceMode="AT_MOST_ONCE")
    with pytest.raises(JmsError):
        staging.next_segment(0, 3)
    assert staging.next_segment(0, 3) == 1
    assert ids(tmp_path, 1) == expected(1)
    staging.close()
