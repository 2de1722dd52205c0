from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from spanwire.model.errors import StoreError
from spanwire.pipeline.arrow.segments import SegmentWriter, StagingDirectory, read_rows
from spanwire.pipeline.options import read_options
from spanwire.pipeline.source.prefetch import SegmentPrefetch
from spanwire.pipeline.source.staging import Staging
from spanwire.protocols.octets import INT_MAX
from tests.support.pipeline_messages import FakeQueue, Raw, id_of, raw


def opened(path: Path, queue: FakeQueue) -> Staging:
    options = read_options({"destination": "ORDERS", "stagingDirectory": str(path)})
    return Staging(options, queue.connect, lambda: 0.0)


def test_the_next_segment_is_there_and_the_one_in_work_stays(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(4))
    staging = opened(tmp_path, queue)
    ahead = SegmentPrefetch(staging)
    assert staging.next_segment(0, 2) == 1
    ahead.start(1, 2)
    ahead.wait()
    assert (staging.numbers(), queue.acknowledged) == ([1, 2], 4)
    assert staging.next_segment(1, 2) == 2
    assert staging.numbers() == [2]
    staging.close()


def test_what_an_earlier_process_has_read_ahead_is_not_overwritten(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(6))
    first = opened(tmp_path, queue)
    assert (first.stage_after(0, 2), first.stage_after(1, 2)) == (1, 2)
    first.close()
    second = opened(tmp_path, queue)
    ahead = SegmentPrefetch(second)
    assert second.next_segment(0, 2) == 1
    ahead.start(1, 2)
    ahead.wait()
    found = [row["JMSMessageID"] for part in read_rows(tmp_path, 2, 0, 2) for row in part.to_pylist()]
    assert (found, queue.acknowledged) == ([id_of(2), id_of(3)], 4)
    assert (second.next_segment(1, 2), second.next_segment(2, 2)) == (2, 3)
    second.close()


def test_a_lost_connection_is_left_to_the_next_call(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1)])
    queue.fails_after = 0
    staging = opened(tmp_path, queue)
    ahead = SegmentPrefetch(staging)
    ahead.start(0, 2)
    ahead.wait()
    assert staging.next_segment(0, 2) == 1
    staging.close()


def test_any_other_failure_is_raised_where_it_is_waited_for(tmp_path: Path) -> None:
    class FullDisk(FakeQueue):
        def receive(self, max_count: int, timeout_s: float) -> list[Raw]:
            raise StoreError("no space left")

    staging = opened(tmp_path, FullDisk())
    ahead = SegmentPrefetch(staging)
    ahead.start(0, 2)
    with pytest.raises(StoreError, match="no space left"):
        ahead.wait()
    ahead.wait()
    staging.close()


def staged(path: Path, staging: Staging) -> list[dict[str, object]]:
    return [row for number in staging.numbers() for part in read_rows(path, number, 0, 100) for row in part.to_pylist()]


def test_a_message_that_was_delivered_as_often_as_can_be_told_is_staged_with_those_around_it(tmp_path: Path) -> None:
    messages = [
        raw(1),
        Raw(raw(2).raw, redelivery_count=INT_MAX),
        Raw(raw(3, {"k": (9, "v")}).raw, redelivery_count=INT_MAX),
    ]
    staging = opened(tmp_path, FakeQueue(messages))
    ahead = SegmentPrefetch(staging)
    ahead.start(0, 10)
    ahead.wait()
    found = [(row["JMSMessageID"], row["JMSXDeliveryCount"]) for row in staged(tmp_path, staging)]
    assert found == [(id_of(1), 1), (id_of(2), INT_MAX), (id_of(3), INT_MAX)]
    staging.close()


class OutOfMemory(SegmentWriter):
    """Fails at one of its steps."""

    def __init__(self, directory: Path, number: int, step: str) -> None:
        super().__init__(directory, number)
        self.step = step

    def add(self, batch: pa.RecordBatch) -> None:
        if self.step == "add":
            raise MemoryError("no room")
        super().add(batch)

    def finish(self) -> None:
        if self.step == "finish":
            raise pa.ArrowMemoryError("no room")
        super().finish()


@pytest.mark.parametrize("step", ["add", "finish"])
def test_memory_that_ends_is_told_and_the_next_acknowledgement_does_not_cover_what_came(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = FakeQueue([raw(1), raw(2)])
    staging = opened(tmp_path, queue)
    ahead = SegmentPrefetch(staging)
    with monkeypatch.context() as patch:
        patch.setattr(StagingDirectory, "segment", lambda self, number: OutOfMemory(self.path, number, step))
        ahead.start(0, 10)
        with pytest.raises(MemoryError, match="no room"):
            ahead.wait()
    assert (queue.acknowledged, queue.unacknowledged, len(queue.waiting), staging.numbers()) == (0, [], 2, [])
    queue.waiting.append(raw(3))
    assert staging.next_segment(0, 10) == 1
    assert [row["JMSMessageID"] for row in staged(tmp_path, staging)] == [id_of(1), id_of(2), id_of(3)]
    assert queue.acknowledged == 3
    staging.close()


def test_an_acknowledgement_that_ends_in_another_failure_leaves_no_connection_behind(tmp_path: Path) -> None:
    class Forgetful(FakeQueue):
        fails = True

        def acknowledge(self) -> None:
            if self.fails:
                self.fails = False
                raise MemoryError("no room")
            super().acknowledge()

    queue = Forgetful([raw(1), raw(2)])
    staging = opened(tmp_path, queue)
    with pytest.raises(MemoryError, match="no room"):
        staging.next_segment(0, 10)
    assert (queue.acknowledged, queue.unacknowledged, staging.numbers()) == (0, [], [1])
    queue.waiting.append(raw(3))
    assert (staging.next_segment(0, 10), staging.next_segment(1, 10)) == (1, 2)
    assert [row["JMSMessageID"] for row in staged(tmp_path, staging)][-1] == id_of(3)
    assert queue.acknowledged == 3
    staging.close()


def test_a_connection_that_breaks_is_told_with_what_follows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    queue = FakeQueue([raw(1), raw(2)])
    staging = opened(tmp_path, queue)
    ahead = SegmentPrefetch(staging)
    queue.fails_after = 0
    ahead.start(0, 10)
    ahead.wait()
    queue.fails_to_acknowledge = 1
    assert staging.next_segment(0, 10) == 1
    assert caplog.messages == [
        "reading ahead has failed, so the next batch reads by itself: the connection broke",
        "segment 1 is stored, but its acknowledgement has failed: the connection broke; messages that come again are "
        "recognised",
    ]
    staging.close()
