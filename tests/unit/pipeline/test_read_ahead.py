from __future__ import annotations

from pathlib import Path

import pytest

from spanwire.model.errors import StoreError
from spanwire.pipeline.options import read_options
from spanwire.pipeline.read_ahead import ReadAhead
from spanwire.pipeline.segments import read_rows
from spanwire.pipeline.staging import Staging
from tests.support.pipeline_messages import FakeQueue, Raw, id_of, raw


def opened(path: Path, queue: FakeQueue) -> Staging:
    options = read_options({"destination": "ORDERS", "stagingDirectory": str(path)})
    return Staging(options, queue.connect, lambda: 0.0)


def test_the_next_segment_is_there_and_the_one_in_work_stays(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number) for number in range(4))
    staging = opened(tmp_path, queue)
    ahead = ReadAhead(staging)
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
    ahead = ReadAhead(second)
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
    ahead = ReadAhead(staging)
    ahead.start(0, 2)
    ahead.wait()
    assert staging.next_segment(0, 2) == 1
    staging.close()


def test_any_other_failure_is_raised_where_it_is_waited_for(tmp_path: Path) -> None:
    class FullDisk(FakeQueue):
        def receive(self, max_count: int, timeout_s: float) -> list[Raw]:
            raise StoreError("no space left")

    staging = opened(tmp_path, FullDisk())
    ahead = ReadAhead(staging)
    ahead.start(0, 2)
    with pytest.raises(StoreError, match="no space left"):
        ahead.wait()
    ahead.wait()
    staging.close()
