"""Staged messages on shared storage: whatever is killed or taken over, each message is staged once and only once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import BinaryIO

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.options import AT_MOST_ONCE, read_options
from spanwire.pipeline.source.staging import Staging
from spanwire.pipeline.storage.ownership import MAX_LOOKS, stem_of_index, view_below
from spanwire.pipeline.storage.shared_files import SharedStorageError, seal
from spanwire.pipeline.storage.shared_staging import SharedStaging, index_names, stored_rows, stored_segment
from spanwire.pipeline.storage.state_format import FORMAT, KEY
from tests.support.pipeline_messages import id_of
from tests.support.seeds import share
from tests.support.shared_files import FakeFiles, KilledError, SharedDisk, StepBroker, Stop

SOURCE = {"destination": "queue://ORDERS", "selector": ""}
MESSAGES = 5
ROWS = 2  # of a batch
MAX_STEPS = 200
ALL = [id_of(number) for number in range(MESSAGES)]


@dataclass
class Checkpoint:
    """What Spark keeps: the batches that it has planned and committed, and what the sink has got with each."""

    planned: list[int] = field(default_factory=list)
    committed: dict[int, list[str]] = field(default_factory=dict)

    def ids(self) -> list[str]:
        return [message_id for number in self.planned for message_id in self.committed.get(number, [])]


def staging_of(process: FakeFiles, broker: StepBroker, run: str | None = None, **given: str) -> Staging:
    options = read_options({"destination": "ORDERS", "stagingDirectory": "s3://bucket", **given})
    return Staging(
        options,
        lambda: broker.consumer(process),
        lambda: 0.0,
        lambda _, source: SharedStaging(process, source, run),
    )


def ids_of(batches: list[pa.RecordBatch]) -> list[str]:
    return [message_id for batch in batches for message_id in batch.column("JMSMessageID").to_pylist()]


def rows(process: FakeFiles, number: int) -> list[str]:
    (name,) = index_names(process, [number])
    return ids_of(list(stored_rows(process, name, 0, stored_segment(process, name).row_count())))


def run_query(disk: SharedDisk, broker: StepBroker, checkpoint: Checkpoint) -> None:
    """One run of a query, from its start to an empty queue, with the calls of Spark in their order."""
    process = disk.process()
    if checkpoint.planned and checkpoint.planned[-1] not in checkpoint.committed:
        last = checkpoint.planned[-1]
        checkpoint.committed[last] = rows(process, last)
    staging = staging_of(process, broker)
    numbers = staging.numbers()
    start = checkpoint.planned[-1] if checkpoint.planned else numbers[0] - 1 if numbers else 0
    for _ in range(MAX_STEPS):
        number = staging.next_segment(start, ROWS)
        if number == start:
            staging.close()
            return
        checkpoint.planned.append(number)
        checkpoint.committed[number] = rows(process, number)
        start = number
    raise AssertionError("the queue never empties")


def steps_of(action: Callable[[SharedDisk], None]) -> list[str]:
    disk = SharedDisk()
    action(disk)
    return disk.calls


STEPS = steps_of(lambda disk: run_query(disk, StepBroker(MESSAGES), Checkpoint()))


def test_a_query_stages_acknowledges_and_removes_in_this_order() -> None:
    disk, broker, checkpoint = SharedDisk(), StepBroker(MESSAGES), Checkpoint()
    run_query(disk, broker, checkpoint)
    assert (checkpoint.ids(), broker.waiting) == (ALL, [])
    kinds = [re.sub(r"[-\d].*(?=\.)", "", call) for call in STEPS]
    assert kinds[:4] == ["list", "write epoch.owner", "list", "write epoch.json"]
    batch = ["write segment.arrow", "write segment.json", "list", "acknowledge", "write segment.settled"]
    assert kinds[4:9] == batch
    assert kinds[9:12] == ["list", "read epoch.json", "read segment.json"], "a task"
    removal = ["list", "remove segment.json", "remove segment.arrow", "remove segment.settled"]
    assert kinds[15:19] == removal, kinds
    assert [name.rpartition(".")[2] for name in sorted(disk.files)] == ["json", "owner"]


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("step", range(len(STEPS)))
def test_a_kill_at_any_call_loses_nothing_and_doubles_nothing(step: int, stop: Stop) -> None:
    disk, broker, checkpoint = SharedDisk(), StepBroker(MESSAGES), Checkpoint()
    disk.stop_at[step] = stop
    with pytest.raises(KilledError):
        run_query(disk, broker, checkpoint)
    run_query(disk, broker, checkpoint)
    assert (checkpoint.ids(), broker.waiting) == (ALL, [])


@settings(max_examples=share(300), deadline=None)
@given(st.dictionaries(st.integers(0, 3 * len(STEPS)), st.sampled_from(Stop), max_size=8))
def test_any_kills_one_after_the_other_lose_nothing_and_double_nothing(stops: dict[int, Stop]) -> None:
    disk, broker, checkpoint = SharedDisk(), StepBroker(MESSAGES), Checkpoint()
    disk.stop_at = stops
    for _ in range(len(stops) + 1):
        with suppress(KilledError):
            run_query(disk, broker, checkpoint)
    assert (checkpoint.ids(), broker.waiting) == (ALL, [])
    disk.stop_at.clear()
    view, sizes = view_below(disk.process())
    stems = tuple(stem_of_index(name) for name in view.segments.values())
    assert [name for name in sizes if name.startswith("segment") and not name.startswith(stems or "-")] == []


def test_the_same_without_a_check_before_the_acknowledgement_would_be_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SharedStaging, "check_owner", lambda staging: None)
    assert not all(survives_takeover(step, "00000001", "00000002") for step in range(len(DRAIN_STEPS)))


def drain(disk: SharedDisk, broker: StepBroker, run: str) -> None:
    """Take all messages off the queue into segments of at most two rows."""
    staging = staging_of(disk.process(), broker, run, maxRowsPerBatch=str(ROWS))
    staging.drain()
    staging.close()


DRAIN_STEPS = steps_of(lambda disk: drain(disk, StepBroker(MESSAGES), "00000001"))


def survives_takeover(step: int, older: str, newer: str) -> bool:
    """Have a newer process take over before a step of an older one; return True if nothing is lost or doubled.

    The step may be the acknowledgement itself, of a segment that the newer process has seen.
    """
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    acknowledged_before: list[int] = []

    def take_over() -> None:
        drain(disk, broker, newer)
        acknowledged_before.append(len(broker.acknowledgements))

    disk.before[step] = take_over
    is_refused = False
    try:
        drain(disk, broker, older)
    except ConfigurationError as error:
        is_refused = "another query" in str(error)
    assert acknowledged_before
    late = len(broker.acknowledgements) - acknowledged_before[0]
    has_stopped = late <= (DRAIN_STEPS[step] == "acknowledge") and (is_refused or late <= 1)
    drain(disk, broker, "00000003")
    process = disk.process()
    staged = [message for number in SharedStaging(process, SOURCE).numbers() for message in rows(process, number)]
    return has_stopped and sorted(staged) == ALL and not broker.waiting


@pytest.mark.parametrize(("older", "newer"), [("00000001", "00000002"), ("00000002", "00000001")])
@pytest.mark.parametrize("step", range(len(DRAIN_STEPS)))
def test_a_takeover_before_any_call_of_the_older_owner_loses_nothing_and_doubles_nothing(
    step: int, older: str, newer: str
) -> None:
    assert survives_takeover(step, older, newer)


def test_an_older_owner_is_told_who_has_taken_over_and_acknowledges_nothing_more() -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    older = staging_of(disk.process(), broker)
    assert older.next_segment(0, ROWS) == 1
    SharedStaging(disk.process(), SOURCE).close()
    with pytest.raises(ConfigurationError, match=r"another query \(.+, process \d+\) has taken over the staging"):
        older.next_segment(1, ROWS)
    assert len(broker.acknowledgements) == 1
    with pytest.raises(ConfigurationError, match="another query"):
        older.stage_after(1, ROWS)
    assert (len(broker.acknowledgements), len(broker.waiting)) == (1, MESSAGES - ROWS)


def test_with_at_most_once_an_older_owner_acknowledges_nothing_more_either() -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    older = staging_of(disk.process(), broker, qualityOfServiceMode=AT_MOST_ONCE)
    SharedStaging(disk.process(), SOURCE).close()
    with pytest.raises(ConfigurationError, match="another query"):
        older.next_segment(0, ROWS)
    assert (broker.acknowledgements, len(broker.waiting)) == ([], MESSAGES)


def test_a_directory_that_is_emptied_stops_its_owner() -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    staging = staging_of(disk.process(), broker)
    disk.files.clear()
    with pytest.raises(ConfigurationError, match="was emptied while a query used it"):
        staging.next_segment(0, ROWS)
    assert broker.acknowledgements == []


def test_a_query_of_another_queue_is_refused_and_does_not_disturb_the_owner() -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    staging = staging_of(disk.process(), broker)
    with pytest.raises(ConfigurationError, match="holds messages of the destination 'queue://ORDERS', not 'queue://X'"):
        SharedStaging(disk.process(), {**SOURCE, "destination": "queue://X"})
    assert staging.next_segment(0, ROWS) == 1


def test_an_owner_that_does_not_know_the_source_leaves_its_record() -> None:
    disk = SharedDisk()
    SharedStaging(disk.process(), SOURCE).close()
    SharedStaging(disk.process(), {}).close()
    SharedStaging(disk.process(), SOURCE).close()
    with pytest.raises(ConfigurationError, match="holds messages of the destination 'queue://ORDERS', not 'queue://X'"):
        SharedStaging(disk.process(), {**SOURCE, "destination": "queue://X"})


def test_a_segment_is_read_in_any_range_over_its_batches() -> None:
    disk = SharedDisk()
    process = disk.process()
    staging = SharedStaging(process, SOURCE)
    with staging.segment(3) as segment:
        for ids in ("ab", "c", "de"):
            segment.add(pa.record_batch({"JMSMessageID": list(ids)}))
        segment.finish()
    (name,) = index_names(process, [3])
    for first in range(5):
        for count in range(1, 6 - first):
            assert ids_of(list(stored_rows(process, name, first, count))) == list("abcde")[first : first + count]
    (data,) = [content for name, content in disk.files.items() if name.endswith(".arrow")]
    assert pa.ipc.open_stream(data).read_all().column(0).to_pylist() == list("abcde"), "other programs read it"
    assert staging.ids(3) == set("abcde")


@pytest.mark.parametrize("octet", [0, 40, -30])
def test_a_damaged_segment_is_named_and_its_rows_are_not_given(octet: int) -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    process = disk.process()
    staging_of(process, broker).next_segment(0, MESSAGES)
    (name,) = [name for name in disk.files if name.endswith(".arrow")]
    content = bytearray(disk.files[name])
    content[octet] ^= 1
    disk.files[name] = bytes(content)
    with pytest.raises(ConfigurationError, match=f"{name} is damaged"):
        rows(process, 1)


def test_a_segment_that_was_cut_off_is_named() -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    process = disk.process()
    staging_of(process, broker).next_segment(0, MESSAGES)
    (name,) = [name for name in disk.files if name.endswith(".arrow")]
    disk.files[name] = disk.files[name][:100]
    with pytest.raises(ConfigurationError, match=f"{name} is damaged"):
        rows(process, 1)


@pytest.mark.parametrize("suffix", [".arrow", ".json"])
def test_a_segment_that_someone_removed_is_told(suffix: str) -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    process = disk.process()
    staging_of(process, broker).next_segment(0, MESSAGES)
    for name in [name for name in disk.files if name.startswith("segment") and name.endswith(suffix)]:
        del disk.files[name]
    with pytest.raises(ConfigurationError, match=r"segment.* is not in the stagingDirectory fake://bucket"):
        rows(process, 1)


def test_a_record_that_is_damaged_is_told_before_anything_is_removed() -> None:
    disk = SharedDisk()
    SharedStaging(disk.process(), SOURCE).close()
    (name,) = [name for name in disk.files if name.endswith(".json")]
    disk.files[name] = json.dumps({"source": SOURCE, "segments": []}).encode().replace(b"ORDERS", b"OTHERS")
    with pytest.raises(ConfigurationError, match=f"{name} is damaged"):
        SharedStaging(disk.process(), SOURCE)


class Restless(FakeFiles):
    """Shared storage whose records are replaced whenever they are about to be read."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if name.startswith("epoch"):
            raise FileNotFoundError(name)
        return super().read(name, offset, length)


def test_a_directory_that_is_taken_over_again_and_again_is_told() -> None:
    disk = SharedDisk()
    SharedStaging(disk.process(), SOURCE).close()
    before = len(disk.calls)
    with pytest.raises(ConfigurationError, match="several queries take over fake://bucket again and again"):
        SharedStaging(Restless(disk), SOURCE)
    assert len(disk.calls) - before == MAX_LOOKS


class RefusingFiles(FakeFiles):
    """Shared storage that refuses indexes once."""

    refuses = False

    def write(self, name: str, content: BinaryIO) -> None:
        if self.refuses and name.startswith("segment") and name.endswith(".json"):
            raise SharedStorageError("spanwire: the store is away")
        super().write(name, content)


def test_a_segment_that_may_be_complete_or_not_is_left_to_the_next_start() -> None:
    disk, broker = SharedDisk(), StepBroker(MESSAGES)
    process = RefusingFiles(disk)
    staging = staging_of(process, broker)
    process.refuses = True
    with pytest.raises(SharedStorageError, match="the store is away"):
        staging.next_segment(0, ROWS)
    process.refuses = False
    with pytest.raises(SharedStorageError, match="could not be written; start the query again"):
        staging.next_segment(0, ROWS)
    assert (broker.acknowledgements, len(broker.waiting)) == ([], MESSAGES)
    checkpoint = Checkpoint()
    run_query(disk, broker, checkpoint)
    assert (checkpoint.ids(), broker.waiting) == (ALL, [])


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"source": {**SOURCE, KEY: FORMAT + 1}, "segments": []}, f"has the format '{FORMAT + 1}' of a newer Spanwire"),
        ({"source": {**SOURCE, KEY: "x"}, "segments": []}, "'x' is no format"),
        ({"parts": {}}, "was written by a later version of Spanwire; use that one"),
        ([], "was written by a later version of Spanwire; use that one"),
    ],
)
def test_a_directory_of_a_newer_spanwire_is_refused_in_one_line_and_nothing_is_written(
    record: object, told: str
) -> None:
    files = FakeFiles(SharedDisk())
    name, content = seal("epoch-0000000007-1f3c9a20", record)
    files.write(name, BytesIO(content))
    files.write("epoch-0000000007-1f3c9a20.owner", BytesIO(b"a"))
    before = files.sizes()
    for look in (lambda: SharedStaging(files, SOURCE), lambda: index_names(files, [1])):
        with pytest.raises(ConfigurationError, match=re.escape(told)) as refused:
            look()
        assert "\n" not in str(refused.value)
    assert files.sizes() == before
