"""Received messages on shared storage.

A staged message is kept from the acknowledgement until Spark has committed the batch.

`ownership` explains the names of the files, and the protocol without locks. A file ``segment-….settled`` records the
broker's confirmation of a segment's acknowledgement.
"""

from __future__ import annotations

import io
import os
import socket
import uuid
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

import pyarrow as pa

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.columns.column_decoder import source_key
from spanwire.pipeline.storage.ownership import (
    claim_name,
    epoch_of,
    later_claim,
    next_epoch,
    owner_of,
    record_stem,
    segment_stem,
    stem_of_index,
    view_below,
)
from spanwire.pipeline.storage.segment_blocks import SegmentSpool, StoredSegment
from spanwire.pipeline.storage.shared_files import SharedFiles, SharedStorageError, seal

DATA: Final = ".arrow"
SETTLED: Final = ".settled"
ALL_ROWS: Final = 2**62  # rows; more than a segment has


class SharedStaging:
    """The segments of one source, for the process that owns the directory; see `StagedSegments`."""

    def __init__(self, files: SharedFiles, source: dict[str, str], run: str | None = None) -> None:
        """Begin an epoch, and so end the epochs of all other owners.

        Args:
            files: the directory.
            source: the destination and the selector of the messages.
            run: 8 hexadecimal digits, unique to this run; random by default.

        Raises:
            ConfigurationError: the directory belongs to another source, or another query takes it over as well.
            SharedStorageError: the file system refuses.
        """
        self._files: Final[SharedFiles] = files
        self._has_failed = False
        before, sizes = view_below(files)
        if before.epoch:
            check_source(files, before.source, source)
            source = {name: str(value) for name, value in before.source.items()} | source
        self._epoch: Final[str] = next_epoch(sizes, run or uuid.uuid4().hex[:8])
        files.write(claim_name(self._epoch), io.BytesIO(f"{socket.gethostname()}, process {os.getpid()}".encode()))
        view, sizes = view_below(files, self._epoch)
        self._check_claims(sizes)
        self._segments: Final[dict[int, str]] = dict(view.segments)
        self._settled: Final[set[int]] = {
            number for number, name in self._segments.items() if stem_of_index(name) + SETTLED in sizes
        }
        name, content = seal(record_stem(self._epoch), {"source": source, "segments": sorted(self._segments.values())})
        files.write(name, io.BytesIO(content))
        self._sweep(sizes)

    def close(self) -> None:
        """End the use. The epoch stays, so that no earlier owner can continue."""

    def numbers(self) -> list[int]:
        """Return the numbers of the segments in order."""
        return sorted(self._segments)

    def segment(self, number: int) -> SharedSegmentWriter:
        """Return a writer for a new segment.

        Raises:
            SharedStorageError: a write of an earlier segment failed, and the broker will deliver the messages again.
        """
        if self._has_failed:
            raise SharedStorageError(
                f"spanwire: a segment in {self._files.address()} could not be written; start the query again, it loses "
                "nothing"
            )
        return SharedSegmentWriter(self, number)

    def write_segment(self, number: int, content: BinaryIO, index: dict[str, object]) -> None:
        """Write a segment, then its index.

        Raises:
            SharedStorageError: the file system refuses.
        """
        stem = segment_stem(number, self._epoch)
        name, octets = seal(stem, index)
        self._has_failed = True
        self._files.write(stem + DATA, content)
        self._files.write(name, io.BytesIO(octets))
        self._has_failed = False
        self._segments[number] = name

    def check_owner(self) -> None:
        """Check that no other query has taken over the directory.

        Raises:
            ConfigurationError: another query owns the directory.
            SharedStorageError: the file system refuses.
        """
        self._check_claims(self._files.sizes())

    def settle(self, number: int) -> None:
        """Record the broker's confirmation of an acknowledgement; a lost record does no harm."""
        index_name = self._segments.get(number)
        if index_name is not None:
            self._settled.add(number)
            self._files.write(stem_of_index(index_name) + SETTLED, io.BytesIO(b"settled\n"))

    def is_settled(self, number: int) -> bool:
        """Return True if the acknowledgement of the segment is recorded as confirmed."""
        return number in self._settled

    def ids(self, number: int, has_many_sources: bool = False) -> set[str]:
        """Return the message ids of a segment, with destinations if there are several sources."""
        ids: set[str] = set()
        for batch in stored_segment(self._files, self._segments[number]).rows(0, ALL_ROWS):
            batch_ids = batch.column("JMSMessageID").to_pylist()
            if has_many_sources:
                destinations = batch.column("JMSDestination").to_pylist()
                pairs = zip(batch_ids, destinations, strict=True)
                batch_ids = [source_key(message_id, destination) for message_id, destination in pairs]
            ids.update(batch_ids)
        return ids

    def discard(self, number: int) -> None:
        """Delete a segment, the index first: a segment without an index does not count."""
        index_name = self._segments.pop(number, None)
        if index_name is None:
            return
        self._files.remove(index_name)
        stem = stem_of_index(index_name)
        self._files.remove(stem + DATA)
        if number in self._settled:
            self._settled.discard(number)
            self._files.remove(stem + SETTLED)

    def _check_claims(self, sizes: dict[str, int]) -> None:
        later = later_claim(sizes, self._epoch)
        if later is None:
            return
        where = self._files.address()
        if not later:
            raise ConfigurationError(
                f"spanwire: the stagingDirectory {where} was emptied while a query used it; stop the query first"
            )
        raise ConfigurationError(
            f"spanwire: another query ({owner_of(self._files, later)}) has taken over the stagingDirectory {where}; "
            "this one has stopped and acknowledges nothing more. Give each query its own"
        )

    def _sweep(self, sizes: dict[str, int]) -> None:
        """Remove the invalid files of earlier epochs."""
        stems = {stem_of_index(name) for name in self._segments.values()}
        for name in sizes:
            epoch = epoch_of(name)
            if epoch is None or epoch >= self._epoch or name in self._segments.values():
                continue
            if any(name in (stem + DATA, stem + SETTLED) for stem in stems):
                continue
            self._files.remove(name)


class SharedSegmentWriter:
    """Collects the record batches of a new segment; without `finish` there is no segment."""

    def __init__(self, staging: SharedStaging, number: int) -> None:
        self._staging: Final[SharedStaging] = staging
        self._number: Final[int] = number
        self._spool: SegmentSpool | None = None

    def __enter__(self) -> SharedSegmentWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append one record batch.

        Raises:
            OSError: the local disk refuses the data.
        """
        if self._spool is None:
            self._spool = SegmentSpool()
        self._spool.add(batch)

    def finish(self) -> None:
        """Write the segment, then the index, durably: the segment survives a crash of every machine.

        Raises:
            SharedStorageError: the file system refuses.
        """
        assert self._spool is not None
        index = self._spool.finish()
        self._staging.write_segment(self._number, self._spool.content, index)


def check_source(files: SharedFiles, recorded: Mapping[str, object], source: dict[str, str]) -> None:
    """Check that segments belong to a source.

    Raises:
        ConfigurationError: the segments belong to another source.
    """
    for key, value in source.items():
        if recorded.get(key) != value:
            raise ConfigurationError(
                f"spanwire: the stagingDirectory {files.address()} holds messages of the {key} "
                f"{recorded.get(key)!r}, not {value!r}; choose another one"
            )


def stored_segment(files: SharedFiles, index_name: str) -> StoredSegment:
    """Return the segment of an index.

    Raises:
        ConfigurationError: the segment does not exist or is damaged.
        SharedStorageError: the file system refuses.
    """
    try:
        return StoredSegment(files, stem_of_index(index_name) + DATA, index_name)
    except FileNotFoundError:
        raise missing_segment(files, stem_of_index(index_name)) from None


def stored_rows(files: SharedFiles, index_name: str, first: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yield ``count`` rows of a segment from the row ``first`` on, as record batches.

    Raises:
        ConfigurationError: the segment does not exist or is damaged.
        SharedStorageError: the file system refuses.
    """
    segment = stored_segment(files, index_name)
    try:
        yield from segment.rows(first, count)
    except FileNotFoundError:
        raise missing_segment(files, stem_of_index(index_name)) from None


def index_names(files: SharedFiles, numbers: list[int]) -> list[str]:
    """Return the names of the indexes of segments.

    Raises:
        ConfigurationError: a segment does not exist.
        SharedStorageError: the file system refuses.
    """
    view, _ = view_below(files)
    for number in numbers:
        if number not in view.segments:
            raise missing_segment(files, f"segment {number}")
    return [view.segments[number] for number in numbers]


def missing_segment(files: SharedFiles, what: str) -> ConfigurationError:
    """Return the error for a missing segment."""
    return ConfigurationError(
        f"spanwire: {what} is not in the stagingDirectory {files.address()}; it must last as long as the checkpoint, "
        "and one query alone may use it"
    )
