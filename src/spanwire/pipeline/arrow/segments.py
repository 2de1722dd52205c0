"""Received messages on disk, from their acknowledgement until Spark has committed their batch.

    staging directory
      lock                          locked by the only process that writes to the directory
      source.json                   the source: destination and selector
      segment-0000000012.arrow      the messages of one batch: an Arrow IPC file, synced before it gets this name
      segment-0000000012.settled    the broker has confirmed the acknowledgement of these messages

Without the second file the broker may deliver the same messages again, so their ids are needed. After a crash such a
segment stays, even if Spark has committed it, until the broker has confirmed the acknowledgement.
`spanwire.pipeline.source.offsets` defines the numbers, `spanwire.pipeline.source.staging` the order of the steps.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.schema import arrow_schema
from spanwire.pipeline.columns.column_decoder import source_key
from spanwire.pipeline.storage.state_format import DAMAGED, FORMAT, KEY, check_format

LOCK_TIMEOUT_S: Final = 15.0  # seconds; the reader of a killed driver ends within its receive timeout
LOCK_PAUSE_S: Final = 0.1
SEGMENT_NAME: Final = re.compile(r"segment-(\d{10,})\.arrow")
SETTLED: Final = ".settled"
DIRECTORY_MODE: Final = 0o700  # other users must not read messages


class StagingDirectory:
    """The segments of one source, for the only process that may change them."""

    def __init__(self, path: Path, source: dict[str, str], lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        """Create the directory if necessary and lock it.

        Raises:
            ConfigurationError: the directory cannot be used, is locked, or belongs to another source.
        """
        self.path: Final[Path] = path
        try:
            path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            self._lock: Final[int] = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(f"spanwire: stagingDirectory {path}: {error.strerror}") from None
        try:
            self._take_lock(lock_timeout_s)
            self._check_source(source)
            self._sweep()
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def numbers(self) -> list[int]:
        """Return the numbers of the segments in order."""
        return segment_numbers(self.path)

    def segment(self, number: int) -> SegmentWriter:
        """Return a writer for a new segment."""
        return SegmentWriter(self.path, number)

    def write(self, number: int, batches: list[pa.RecordBatch]) -> None:
        """Write a segment that survives a crash of the machine, or none."""
        with self.segment(number) as segment:
            for batch in batches:
                segment.add(batch)
            segment.finish()

    def check_owner(self) -> None:
        """Do nothing: the lock keeps every other process away."""

    def settle(self, number: int) -> None:
        """Record that the broker will not deliver these messages again; a lost record does no harm."""
        segment_path(self.path, number).with_suffix(SETTLED).touch(mode=0o600)

    def is_settled(self, number: int) -> bool:
        """Return True if the acknowledgement of the segment is recorded as confirmed."""
        return segment_path(self.path, number).with_suffix(SETTLED).exists()

    def ids(self, number: int, has_many_sources: bool = False) -> set[str]:
        """Return the message ids of a segment, with destinations if there are several sources."""
        with _open_segment(self.path, number) as reader:
            table = reader.read_all()
            ids = table.column("JMSMessageID").to_pylist()
            if not has_many_sources:
                return set(ids)
            destinations = table.column("JMSDestination").to_pylist()
            return {
                source_key(message_id, destination) for message_id, destination in zip(ids, destinations, strict=True)
            }

    def discard(self, number: int) -> None:
        """Delete a segment and its record."""
        path = segment_path(self.path, number)
        path.unlink(missing_ok=True)
        path.with_suffix(SETTLED).unlink(missing_ok=True)

    def _take_lock(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConfigurationError(
                        f"spanwire: another query uses the stagingDirectory {self.path}; give each query its own"
                    ) from None
            time.sleep(LOCK_PAUSE_S)

    def _check_source(self, source: dict[str, str]) -> None:
        note = self.path / "source.json"
        try:
            recorded = dict(json.loads(note.read_text(encoding="utf-8")).items())
        except FileNotFoundError:
            temporary = self.path / ".source.tmp"
            temporary.write_text(json.dumps({KEY: FORMAT, **source}), encoding="utf-8")
            sync(temporary)
            temporary.rename(note)
            sync(self.path)
            return
        except DAMAGED:
            raise ConfigurationError(
                f"spanwire: {note} is damaged; it names the source of the staged messages"
            ) from None
        check_format(recorded, f"the stagingDirectory {self.path}")
        for key, value in source.items():
            if recorded.get(key) != value:
                raise ConfigurationError(
                    f"spanwire: the stagingDirectory {self.path} holds messages of the {key} "
                    f"{recorded.get(key)!r}, not {value!r}; choose another one"
                )

    def _sweep(self) -> None:
        """Remove unfinished segments of a crash, and records without a segment."""
        for path in self.path.glob(".segment-*.tmp"):
            path.unlink()
        for path in self.path.glob("segment-*" + SETTLED):
            if not path.with_suffix(".arrow").exists():
                path.unlink()


class SegmentWriter:
    """Writes record batches to a new segment; without `finish` the segment is removed."""

    def __init__(self, directory: Path, number: int) -> None:
        self._directory: Final[Path] = directory
        self._number: Final[int] = number
        self._temporary: Final[Path] = directory / f".segment-{number:010}.tmp"
        self._file: pa.OSFile | None = None
        self._writer: pa.RecordBatchFileWriter | None = None

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._temporary.unlink(missing_ok=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Write one record batch.

        Raises:
            OSError: the disk refuses the data.
        """
        if self._writer is None:
            os.close(os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
            self._file = pa.OSFile(str(self._temporary), "wb")
            self._writer = pa.ipc.new_file(self._file, batch.schema)
        self._writer.write_batch(batch)

    def finish(self) -> None:
        """Sync the segment and give it its name; it survives a crash of the machine from then on.

        Raises:
            OSError: the disk refuses the data.
        """
        assert self._writer is not None and self._file is not None
        self._writer.close()
        self._file.close()
        self._file = None
        sync(self._temporary)
        self._temporary.rename(segment_path(self._directory, self._number))
        sync(self._directory)


def sync(path: Path) -> None:
    """Sync the content of a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def segment_path(directory: Path, number: int) -> Path:
    """Return the path of a segment."""
    return directory / f"segment-{number:010}.arrow"


def segment_numbers(directory: Path) -> list[int]:
    """Return the numbers of the segments of a directory, in order."""
    matches = (SEGMENT_NAME.fullmatch(name) for name in os.listdir(directory))
    return sorted(int(match[1]) for match in matches if match)


def row_count(directory: Path, number: int) -> int:
    """Return the number of rows of a segment.

    Raises:
        ConfigurationError: the segment does not exist, or is damaged.
    """
    with _open_segment(directory, number) as reader:
        return sum(reader.get_batch(index).num_rows for index in range(reader.num_record_batches))


def read_rows(directory: Path, number: int, first: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yield ``count`` rows of a segment from the row ``first`` on, as record batches."""
    with _open_segment(directory, number) as reader:
        start = 0
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            low, high = max(first - start, 0), min(first + count - start, batch.num_rows)
            start += batch.num_rows
            if low < high:
                yield with_missing_columns(batch.slice(low, high - low))


def with_missing_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with null columns for columns that are newer than the segment."""
    for field in arrow_schema():
        if field.name not in batch.schema.names:
            batch = batch.append_column(field, pa.nulls(batch.num_rows, field.type))
    return batch


@contextmanager
def _open_segment(directory: Path, number: int) -> Iterator[pa.RecordBatchFileReader]:
    """Open a segment for reading.

    Raises:
        ConfigurationError: the segment does not exist, or an error of Arrow shows that it is damaged.
    """
    path = segment_path(directory, number)
    try:
        source = pa.memory_map(str(path))
    except OSError:
        raise ConfigurationError(
            f"spanwire: segment {number} is not in the stagingDirectory {directory}; it must last as long as the "
            "checkpoint and be shared with the executors"
        ) from None
    try:
        with source:
            yield pa.ipc.open_file(source)
    except (pa.ArrowException, OSError):
        raise ConfigurationError(
            f"spanwire: {path} is damaged. It holds messages that the broker no longer has, so restore it from a copy"
        ) from None
