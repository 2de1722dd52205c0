"""Archives on shared storage: whatever is killed, every message is in one file, once."""

from __future__ import annotations

import io
import threading
from contextlib import suppress
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.archive.parquet_files import SegmentGroups, file_name, is_file_name, read_file
from spanwire.pipeline.archive.shared_archive import SharedArchive, seconds_of
from spanwire.pipeline.options import read_options
from spanwire.pipeline.routes.query import AVAILABLE_NOW
from spanwire.pipeline.routes.route_state import state_directory
from spanwire.pipeline.routes.supervisor import RouteEvent
from tests.support.pipeline_messages import id_of
from tests.support.seeds import share
from tests.support.shared_files import KilledError, SharedDisk, StepBroker, Stop

MESSAGES = 5
ALL = [id_of(number) for number in range(MESSAGES)]


def run_archive(disk: SharedDisk, broker: StepBroker) -> list[RouteEvent]:
    """One run of the command; staged messages and archive share a disk, under names that do not meet."""
    process, told = disk.process(), list[RouteEvent]()
    options = read_options({"destination": "ORDERS", "stagingDirectory": "s3://bucket", "maxRowsPerBatch": "2"})
    archive = SharedArchive(options, lambda: broker.consumer(process), process, process, told.append)
    archive.run(AVAILABLE_NOW, threading.Event())
    return told


def archived(disk: SharedDisk) -> list[str]:
    files = disk.process()
    names = [name for name in disk.files if is_file_name(name)]
    return sorted(
        row["JMSMessageID"] for name in names for batch in read_file(files, name) for row in batch.to_pylist()
    )


def steps() -> list[str]:
    disk = SharedDisk()
    told = run_archive(disk, StepBroker(MESSAGES))
    calls = list(disk.calls)
    assert ([event.rows for event in told], archived(disk)) == ([2, 2, 1], ALL)
    assert not any(name.startswith("segment") for name in disk.files)
    return calls


STEPS = steps()


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("step", range(len(STEPS)))
def test_an_archive_killed_at_any_call_has_every_message_once(step: int, stop: Stop) -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    disk.stop_at[step] = stop
    with pytest.raises(KilledError):
        run_archive(disk, broker)
    run_archive(disk, broker)
    assert (archived(disk), broker.waiting) == (ALL, [])


@settings(max_examples=share(200), deadline=None)
@given(st.dictionaries(st.integers(0, 3 * len(STEPS)), st.sampled_from(Stop), max_size=8))
def test_an_archive_killed_again_and_again_has_every_message_once(stops: dict[int, Stop]) -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    disk.stop_at = stops
    for _ in range(len(stops) + 1):
        with suppress(KilledError):
            run_archive(disk, broker)
    disk.stop_at.clear()
    assert (archived(disk), broker.waiting) == (ALL, [])


def rows(*given: tuple[str, str | None]) -> pa.RecordBatch:
    """Rows of a destination and the time of sending."""
    times = pa.array([time for _, time in given]).cast(pa.timestamp("us", tz="UTC"))
    return pa.record_batch(
        {
            "JMSDestination": [destination for destination, _ in given],
            "JMSTimestamp": times,
            "JMSActiveMQBrokerInTime": pa.nulls(len(given), times.type),
        }
    )


def test_a_segment_is_divided_by_destination_and_day() -> None:
    disk = SharedDisk()
    files = disk.process()
    groups = SegmentGroups()
    groups.add(rows(("queue://A", "2026-01-31T23:59:59Z"), ("queue://B", "2026-02-01T00:00:00Z"), ("queue://A", None)))
    groups.add(rows(("queue://A", "2026-01-31T00:00:00Z")))
    groups.write(files, "7")
    counts = {name: pq.read_metadata(io.BytesIO(content)).num_rows for name, content in disk.files.items()}
    assert counts == {
        "destination=queue%3A%2F%2FA/day=2026-01-31/part-7.parquet": 2,
        "destination=queue%3A%2F%2FB/day=2026-02-01/part-7.parquet": 1,
        "destination=queue%3A%2F%2FA/day=1970-01-01/part-7.parquet": 1,
    }
    found = {
        (row["destination"], row["day"])
        for name in counts
        for batch in read_file(files, name)
        for row in batch.to_pylist()
    }
    assert found == {
        ("queue://A", date(2026, 1, 31)), ("queue://B", date(2026, 2, 1)), ("queue://A", date(1970, 1, 1)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "belongs"),
    [
        (file_name("queue://A/B", date(2026, 1, 31), "1"), True),
        ("destination=A/day=2026-01-31/part-0001-Spark.snappy.parquet", True),
        ("destination=A/day=2026-01-31/_temporary.parquet", False),
        ("_archive/staging/segment-1.arrow", False),
        ("destination=A/day=2026-01-31/inside/part.parquet", False),
        ("other.parquet", False),
    ],
)
def test_only_files_of_an_archive_are_read(name: str, belongs: bool) -> None:
    assert is_file_name(name) is belongs


def test_a_file_that_is_cut_off_or_gone_is_told_in_one_line() -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    run_archive(disk, broker)
    name = next(name for name in disk.files if is_file_name(name))
    disk.files[name] = disk.files[name][:200]
    with pytest.raises(ConfigurationError, match=r"fake://bucket/.*part-.* is no complete Parquet file") as caught:
        list(read_file(disk.process(), name))
    assert "\n" not in str(caught.value)
    del disk.files[name]
    with pytest.raises(ConfigurationError, match="was removed while the archive was read"):
        list(read_file(disk.process(), name))


@pytest.mark.parametrize(("trigger", "seconds"), [("500 milliseconds", 0.5), ("1 second", 1.0), ("2 minutes", 120.0)])
def test_an_interval_is_read_from_spark_s_words(trigger: str, seconds: float) -> None:
    assert seconds_of(trigger) == seconds


def test_a_state_on_shared_storage_is_refused_with_a_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"state s3://bucket/a would be on shared storage.* with --state"):
        state_directory("s3a://bucket/a?region=x")
    assert str(state_directory("file:///data/state")) == "/data/state"
