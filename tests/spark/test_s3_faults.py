"""Staged messages and archives on S3 over loopback, with kills, failing, broken and late requests."""

from __future__ import annotations

import io
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spanwire.model.errors import ConfigurationError
from spanwire.model.units import MIB
from tests.support.peers import missing, require
from tests.support.pipeline_messages import FakeQueue, id_of, raw
from tests.support.s3_credentials import set_credentials

pytestmark = pytest.mark.long

if TYPE_CHECKING or missing("s3") is None:
    import pyarrow.parquet as pq

    from spanwire.pipeline.options import read_options
    from spanwire.pipeline.source.staging import Staging
    from spanwire.pipeline.storage.arrow_files import MAX_ATTEMPTS, ArrowFiles, open_files, s3_filesystem
    from spanwire.pipeline.storage.location import Location, parse
    from spanwire.pipeline.storage.shared_files import SharedStorageError
    from spanwire.pipeline.storage.shared_staging import SharedStaging, index_names, stored_rows
    from spanwire.pipeline.storage.staged_segments import StagedSegments, count_rows, open_segments, staged_rows
    from tests.support.broker_process import COMMAND, BrokerProcess, spanwire_command
    from tests.support.queues import numbered, send, take_all
    from tests.support.s3_server import Fault, S3Server

BUCKET = "spanwire"
BATCHES = 2
ROWS = 3
COUNT = BATCHES * ROWS
# Of a run of an archive, which has about 40 requests; `make soak-spark` tries each.
KILLS = 40 if os.environ.get("SPANWIRE_SPARK_POINTS") == "all" else 3


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    require("s3")
    set_credentials()
    with S3Server() as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture
def address(s3: S3Server, request: pytest.FixtureRequest) -> str:
    s3.forget()
    return s3.address(f"{BUCKET}/{request.node.name[:60]}/staging".replace("[", "-").replace("]", ""), "s3a")


def files_at(address: str) -> ArrowFiles:
    """The files of a directory, without pauses between attempts."""
    location = parse(address)
    assert isinstance(location, Location)
    client = s3_filesystem(location, os.environ, attempts=1)
    root = f"{location.authority}{location.path}"
    return ArrowFiles(client, root, str(location), has_directories=False, wait=lambda seconds: None)


def staging_of(
    address: str, queue: FakeQueue, opened: Callable[[str, dict[str, str]], StagedSegments] | None = None
) -> Staging:
    options = read_options({"destination": "ORDERS", "stagingDirectory": address})
    return Staging(options, queue.connect, lambda: 0.0, opened or open_segments)


def ids(address: str, number: int) -> list[str]:
    ((name, count),) = count_rows(address, [number])
    return [row["JMSMessageID"] for batch in staged_rows(address, name, 0, count) for row in batch.to_pylist()]


def stage_all(address: str, queue: FakeQueue) -> list[str]:
    """All messages of a queue through a staging directory, as a query would read them."""
    files = files_at(address)
    staging = staging_of(address, queue, lambda _, source: SharedStaging(files, source))
    numbers = staging.numbers()
    start = numbers[0] - 1 if numbers else 0
    found: list[str] = []
    for _ in range(COUNT + 1):
        number = staging.next_segment(start, ROWS)
        if number == start:
            break
        (name,) = index_names(files, [number])
        found += [row["JMSMessageID"] for batch in stored_rows(files, name, 0, ROWS) for row in batch.to_pylist()]
        start = number
    staging.close()
    return found


def messages() -> FakeQueue:
    return FakeQueue(raw(number) for number in range(COUNT))


ALL = [id_of(number) for number in range(COUNT)]


def test_messages_go_through_a_bucket_and_leave_nothing_but_the_owner(s3: S3Server, address: str) -> None:
    queue = messages()
    assert stage_all(address, queue) == ALL
    assert (queue.acknowledged, queue.waiting) == (COUNT, [])
    assert sorted(name.rpartition(".")[2] for name in open_files(address).sizes()) == ["json", "owner"]
    assert not any("copy" in request.lower() for request in s3.requests)


@pytest.mark.parametrize("fault", ["BUSY", "BROKEN", "RESET", "LOST", "LATE"])
def test_every_fourth_request_may_fail_or_be_late(s3: S3Server, address: str, fault: str) -> None:
    # An attempt to remove a file makes three requests: every third one would meet the same of them each time.
    s3.rule = lambda number, request: Fault[fault] if number % 4 == 1 else None
    queue = messages()
    assert stage_all(address, queue) == ALL
    assert (queue.acknowledged, queue.waiting) == (COUNT, [])
    assert len(s3.requests) > 3 * BATCHES


@pytest.mark.parametrize("fault", ["BUSY", "RESET"])
def test_a_store_that_stays_away_ends_the_query_in_one_line_and_nothing_is_acknowledged(
    s3: S3Server, address: str, fault: str
) -> None:
    queue = messages()
    staging = staging_of(address, queue, lambda _, source: SharedStaging(files_at(address), source))
    s3.rule = lambda number, request: Fault[fault] if request.startswith("PUT") else None
    with pytest.raises(SharedStorageError) as caught:
        staging.next_segment(0, ROWS)
    text = str(caught.value)
    assert text.startswith(f"spanwire: s3://{BUCKET}/") and "\n" not in text
    assert f"cannot be written after {MAX_ATTEMPTS} attempts" in text and "start the query again" in text
    assert (queue.acknowledged, len(queue.waiting)) == (0, COUNT)
    s3.forget()
    assert stage_all(address, queue) == ALL


@pytest.mark.parametrize("form", ["http://{}", "http://{}/"])
def test_a_store_that_is_not_amazon_s_may_be_named_in_the_environment(s3: S3Server, form: str) -> None:
    s3.forget()
    environment = {**os.environ, "AWS_ENDPOINT_URL": form.format(s3.endpoint)}
    client = s3_filesystem(Location("s3", BUCKET, "/nothing", ""), environment)
    assert ArrowFiles(client, f"{BUCKET}/nothing", "s3://", has_directories=False).sizes() == {}
    assert len(s3.requests) == 1


def test_a_bucket_that_is_not_there_is_told_at_once(s3: S3Server) -> None:
    s3.forget()
    with pytest.raises(SharedStorageError, match=r"s3://no-such-bucket/.* check the address"):
        open_segments(s3.address("no-such-bucket/staging"), {"destination": "queue://ORDERS"})
    assert len(s3.requests) < 10


def test_an_older_owner_is_found_out_before_it_acknowledges(s3: S3Server, address: str) -> None:
    queue, later = messages(), FakeQueue()
    older = staging_of(address, queue)
    assert older.next_segment(0, ROWS) == 1
    newer = staging_of(address, later)
    assert newer.next_segment(0, ROWS) == 1, "the segment that the older one has acknowledged"
    with pytest.raises(ConfigurationError, match="has taken over the stagingDirectory s3://"):
        older.next_segment(1, ROWS)
    assert (queue.acknowledged, ids(address, 1)) == (ROWS, ALL[:ROWS])


def test_a_large_segment_is_uploaded_in_parts(s3: S3Server, address: str) -> None:
    queue = FakeQueue(raw(number, bytes(6 * MIB)) for number in range(2))
    staging = staging_of(address, queue)
    s3.rule = lambda number, request: Fault.BUSY if number % 4 == 2 else None
    assert staging.next_segment(0, COUNT) == 1
    assert ids(address, 1) == ALL[:2]
    assert sum("segment" in request and request.startswith("PUT") for request in s3.requests) > 3
    staging.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(spanwire_command(), tmp_path) as broker:
        yield broker


def archived(address: str) -> list[int]:
    files = open_files(address)
    names = [name for name in sorted(files.all_sizes()) if name.endswith(".parquet")]
    tables = [pq.read_table(io.BytesIO(files.read(name))) for name in names]
    return sorted(int(text.split()[1]) for table in tables for text in table.column("text").to_pylist())


def test_an_archive_killed_at_any_request_has_every_message_once(s3: S3Server, broker: BrokerProcess) -> None:
    s3.forget()
    url, address = broker.openwire_uri(), s3.address(f"{BUCKET}/archive", "s3a")
    command = [*COMMAND, "pipeline", "archive", "queue://ORDERS", address, "--url", url]
    sent = send(url, "ORDERS", numbered(50))
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert first.stdout.startswith("archive: batch 1, 50 rows"), first.stdout + first.stderr
    requests = list(s3.requests)
    for kill in range(KILLS):
        sent += send(url, "ORDERS", numbered(50, sent))
        s3.forget()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        hooks = s3.before if kill % 2 else s3.after
        hooks[(kill + 1) * len(requests) // (KILLS + 1)] = partial(os.kill, process.pid, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    s3.forget()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert archived(address) == list(range(sent)), done.stdout
    assert take_all(url, "ORDERS") == []
    assert [name for name in open_files(address).all_sizes() if "segment" in name] == []
