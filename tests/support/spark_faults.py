"""A data source like ``format("spanwire")`` that stops processes at named points, each point of a list once.

SPANWIRE_FAULTS names a folder; its file ``points.json`` lists points in order, as ``where:who``. The first one that is
not reached yet counts. Where:

| where | process | |
|---|---|---|
| receiving | of the source | messages have come, nothing of their segment is written |
| received, acknowledged | of the source | a segment is written, the broker has not heard / has heard of it |
| reserved | of the source | a cursor has reserved a batch |
| read | a task | some rows of a partition are read |
| write, staged | a task | some rows are sent / all are, and prepared or staged |
| commit, decided, committed | of the sink's commit | before it / the ledger has the batch, nobody its rows / after it |

Who is killed: ``self``, ``jvm``, ``driver``, ``in``, ``in2``, ``in3`` or ``out`` (the broker there), or ``zombie``: the
JVM, while the process itself goes on when a later run has committed something, as if it had slept. On a cluster a task
also kills the ``executor`` it belongs to, or with the executor the ``worker`` that would start another one. Two names
with a plus are killed one right behind the other, a broker first. ``disk`` is no kill: from there on no file of the
source's process gets more than a part of a segment, as on a full disk. There is room again when a segment has failed
for it and the query is started again, so each full disk is met (`full_disks`), whatever else ends the process before.

With a file ``slow-syncs`` in the folder each sync of a staged segment takes as long as on a loaded rotating disk.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader, WriterCommitMessage
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from spanwire.pipeline.columns.column_decoder import RawMessage
from spanwire.pipeline.datasource.cursor_reader import CursorStreamReader
from spanwire.pipeline.datasource.exact_writer import ExactStreamWriter, Staged
from spanwire.pipeline.datasource.source import SpanwireDataSource
from spanwire.pipeline.datasource.sources_reader import SourcesStreamReader
from spanwire.pipeline.datasource.stream_reader import SpanwireStreamReader
from spanwire.pipeline.datasource.stream_writer import SpanwireStreamWriter
from spanwire.pipeline.link.batch_receiver import MessageSource
from spanwire.pipeline.link.broker_link import consume
from spanwire.pipeline.options import LEDGER, WriteOptions, read_options, write_options
from spanwire.pipeline.sink.exactly_once import ledger_sink
from spanwire.pipeline.sink.xa_ledger_link import BlockingBranchSession, BlockingLedger
from spanwire.pipeline.sink.xa_ledger_sink import Entry, LedgerSink
from spanwire.pipeline.source.named_sources import NamedSource
from spanwire.pipeline.source.prefetch import SegmentPrefetch
from spanwire.pipeline.source.source_link import SourceLink, StagedLink
from spanwire.pipeline.source.staging import Staging

FOLDER: Final = "SPANWIRE_FAULTS"
SLOW_SYNCS: Final = "slow-syncs"
FULL_DISK: Final = "full-disk"  # as long as this file is there
ZOMBIE_TIMEOUT_S: Final = 200.0  # a machine at its limit takes so long to start Spark again
END_TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.05
FULL_DISK_BYTES: Final = 1024  # of a segment that has several times as many
SLOW_SYNC_S: Final = 0.05


def folder() -> Path:
    return Path(os.environ[FOLDER])


def reached() -> int:
    """How many points were."""
    return len(list(folder().glob("hit-*")))


def points() -> list[str]:
    found: list[str] = json.loads((folder() / "points.json").read_text("utf-8"))
    return found


def at(where: str) -> None:
    """Do what is to be done here, if anything."""
    index = reached()
    listed = points()
    if index >= len(listed) or listed[index].split(":")[0] != where:
        return
    try:
        os.close(os.open(folder() / f"hit-{index:03}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    *others, last = listed[index].split(":")[1].split("+")
    for other in others:
        os.kill(int((folder() / f"{other}.pid").read_text("utf-8")), signal.SIGKILL)
    _kill(last)


def _kill(who: str) -> None:
    if who == "self":
        os.kill(os.getpid(), signal.SIGKILL)
    if who == "zombie":
        _sleep_through_the_kill()
        return
    if who == "disk":
        (folder() / FULL_DISK).touch()
        _leave_no_room()
        return
    if who in ("executor", "worker"):
        _kill_executor(with_worker=who == "worker")
        return
    os.kill(int((folder() / f"{who}.pid").read_text("utf-8")), signal.SIGKILL)
    if who in ("jvm", "driver"):
        time.sleep(END_TIMEOUT_S)  # whoever is left ends with the JVM


def _sleep_through_the_kill() -> None:
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    before = commits()
    os.kill(int((folder() / "jvm.pid").read_text("utf-8")), signal.SIGKILL)
    deadline = time.monotonic() + ZOMBIE_TIMEOUT_S
    while commits() <= before and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    (folder() / f"zombie-{os.getpid()}").touch()


def _kill_executor(with_worker: bool) -> None:
    """Kill the Java process of this task; the task itself goes on and finds its connection closed."""
    daemon = os.getppid()
    executor = _parent_of(daemon)
    if with_worker:
        os.kill(_parent_of(executor), signal.SIGKILL)
    os.kill(executor, signal.SIGKILL)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


def commits() -> int:
    """How often the sink has committed something."""
    return len(list(folder().glob("commit-*")))


def full_disks(place: Path) -> int:
    """How many full disks a segment has failed for, in the folder of a round."""
    return len(list(place.glob(f"{FULL_DISK}-*")))


def _leave_no_room() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_DISK_BYTES, most))


def _note_full_disk() -> None:
    with contextlib.suppress(FileNotFoundError):
        (folder() / FULL_DISK).rename(folder() / f"{FULL_DISK}-{reached()}")


def _slow_down_syncs() -> None:
    sync = os.fsync

    def slow_sync(descriptor: int) -> None:
        time.sleep(SLOW_SYNC_S)
        sync(descriptor)

    os.fsync = slow_sync  # type: ignore[assignment]


class FaultySource(MessageSource):
    """A consumer whose process may be stopped around an acknowledgement, or has no room for what it brings."""

    def __init__(self, inner: MessageSource) -> None:
        self._inner = inner

    def receive(self, max_count: int, timeout_s: float) -> Sequence[RawMessage]:
        found = self._inner.receive(max_count, timeout_s)
        if found:
            at("receiving")
        return found

    def acknowledge(self) -> None:
        at("received")
        self._inner.acknowledge()
        at("acknowledged")

    def is_connected(self) -> bool:
        return self._inner.is_connected()

    def has_messages(self) -> bool:
        return self._inner.has_messages()

    def close(self) -> None:
        self._inner.close()


class FaultyStreamReader(SpanwireStreamReader):
    def _open_staging(self) -> Staging:
        if self._staging is None:
            options = self._options
            if (folder() / SLOW_SYNCS).exists():
                _slow_down_syncs()
            if (folder() / FULL_DISK).exists():
                _leave_no_room()
            self._staging = Staging(options, lambda: FaultySource(consume(options)), time.monotonic)
            self._prefetch = SegmentPrefetch(self._staging)
        return self._staging

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        try:
            return super().latestOffset(start, limit)
        except OSError as error:
            if error.errno == errno.EFBIG:
                _note_full_disk()
            raise

    def __setstate__(self, given: dict[str, str]) -> None:
        FaultyStreamReader.__init__(self, given)

    def read(self, partition: object) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            at("read")
            yield batch


class FaultyCursorReader(CursorStreamReader):
    def latestOffset(self, start: dict[str, object], limit: object) -> dict[str, object]:  # noqa: N802
        found = super().latestOffset(start, limit)
        if found != start:
            at("reserved")
        return found

    def __setstate__(self, given: dict[str, str]) -> None:
        FaultyCursorReader.__init__(self, given)

    def read(self, partition: object) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            at("read")
            yield batch


class FaultySourcesReader(SourcesStreamReader):
    def create_link(self, source: NamedSource) -> SourceLink:
        if source.options.cursor is not None:
            return super().create_link(source)
        return StagedLink(source.options, lambda options: FaultySource(consume(options)))

    def latestOffset(self, start: dict[str, object], limit: object) -> dict[str, object]:  # noqa: N802
        found = super().latestOffset(start, limit)
        if found != start:
            at("reserved")
        return found

    def read(self, partition: object) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            at("read")
            yield batch


def stopping(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches):
        if number:
            at("write")
        yield batch


class FaultyLedger(BlockingLedger):
    def save(self, entry: Entry) -> None:
        super().save(entry)
        if entry.batch >= 0:
            at("decided")


def faulty_sink(options: WriteOptions) -> LedgerSink:
    inner = ledger_sink(options)
    return LedgerSink(
        "" if options.destination is None else str(options.destination),
        options.first_ledger_batch,
        lambda: BlockingBranchSession(options),
        lambda query: FaultyLedger(options, query),
        inner._unique,
    )


class FaultyExactWriter(ExactStreamWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        staged = super().write(stopping(iterator))
        if staged.part.count:
            at("staged")
        return staged

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        at("commit")
        options = write_options(self._option_map)
        staged = [message for message in messages if isinstance(message, Staged)]
        if options.exactly_once_by == LEDGER:
            faulty_sink(options).commit(staged[0].batch, [message.part for message in staged])
        else:
            super().commit(messages, batchId)
        (folder() / f"commit-{batchId}-{os.getpid()}-{time.monotonic_ns()}").touch()
        at("committed")


class FaultyWriter(SpanwireStreamWriter):
    """The sink that sends at once: the control."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        sent = super().write(stopping(iterator))
        if sent.count:
            at("staged")
        return sent


class FaultyDataSource(SpanwireDataSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        given = dict(self.options)
        options = read_options(given)
        if options.brokers:
            return FaultySourcesReader(given)
        return FaultyStreamReader(given) if options.cursor is None else FaultyCursorReader(given)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        given = dict(self.options)
        return FaultyExactWriter(given) if write_options(given).is_committed_once else FaultyWriter(given)
