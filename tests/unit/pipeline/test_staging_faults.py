"""What does not fit, is refused or is full: it is told, nothing is acknowledged that is not on the disk."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from spanwire.model.errors import AuthenticationError, JmsError
from spanwire.model.units import MIB
from spanwire.pipeline.arrow.segments import read_rows, row_count
from spanwire.pipeline.options import read_options
from spanwire.pipeline.source.staging import Staging
from tests.support.pipeline_messages import FakeQueue, id_of, raw


def opened(path: Path, queue: FakeQueue) -> Staging:
    options = read_options({"destination": "ORDERS", "stagingDirectory": str(path)})
    return Staging(options, queue.connect, lambda: 0.0)


def ids(path: Path, number: int) -> list[str]:
    parts = read_rows(path, number, 0, row_count(path, number))
    return [row["JMSMessageID"] for part in parts for row in part.to_pylist()]


class GuardedQueue(FakeQueue):
    """A queue whose broker takes no connection any more."""

    refuses = False

    def connect(self) -> FakeQueue:
        if self.refuses:
            raise AuthenticationError("User name [archive] or password is invalid.")
        return super().connect()


def test_credentials_that_are_refused_in_mid_stream_are_told_and_nothing_is_lost(tmp_path: Path) -> None:
    queue = GuardedQueue([raw(1), raw(2)])
    staging = opened(tmp_path, queue)
    assert staging.next_segment(0, 10) == 1
    queue.waiting = [raw(3), raw(4)]
    queue.fails_after, queue.refuses = 0, True
    with pytest.raises(JmsError, match="the connection broke"):
        staging.next_segment(1, 10)
    with pytest.raises(AuthenticationError, match="password is invalid"):
        staging.next_segment(1, 10)
    queue.refuses = False
    assert staging.next_segment(1, 10) == 2
    assert (ids(tmp_path, 2), queue.acknowledged) == ([id_of(3), id_of(4)], 4)
    staging.close()


def test_a_full_disk_is_told_and_what_did_not_fit_comes_again(tmp_path: Path) -> None:
    queue = FakeQueue(raw(number, bytes(MIB)) for number in range(6))
    staging = opened(tmp_path, queue)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 * MIB, before[1]))
        with pytest.raises(OSError, match="File too large"):
            staging.next_segment(0, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (staging.numbers(), queue.acknowledged, len(queue.waiting)) == ([], 0, 6)
    assert staging.next_segment(0, 10) == 1
    assert (ids(tmp_path, 1), queue.acknowledged) == ([id_of(number) for number in range(6)], 6)
    staging.close()


def test_what_was_received_goes_on_though_its_queue_is_purged(tmp_path: Path) -> None:
    queue = FakeQueue([raw(1), raw(2), raw(3)])
    staging = opened(tmp_path, queue)
    assert staging.next_segment(0, 2) == 1
    staging.close()
    queue.waiting.clear()
    staging = opened(tmp_path, queue)
    assert staging.next_segment(0, 2) == 1
    assert ids(tmp_path, 1) == [id_of(1), id_of(2)]
    assert staging.next_segment(1, 2) == 1
    staging.close()
